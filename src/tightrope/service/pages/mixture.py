"""The best mixture of the arms by their means so far, and the arms' order and colours."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from tightrope.problem.tables import Moments
from tightrope.service.pages.history import Floats, View

__all__ = ["MOST_ARMS", "VIEWS", "best_by_type", "best_of", "colours_of", "ranking"]

VIEWS = 64  # views whose numbers are kept for the next request
MOST_ARMS = 7  # arms with a colour of their own; the others share one
MOST_TYPES = 64  # types of the best mixture: the most frequent


@lru_cache(maxsize=VIEWS)
def best_of(view: View) -> tuple[float, list[float]] | None:
    """The best mixture by the means so far: its reward per unit of cost, shares of pulls [K].

    In a campaign with contexts it is the best mixture for each type, over all types.
    """
    own = _known_arms(view)
    if not own:
        return None
    if view.types is not None:
        found = _typed_mixture(view)
        return None if found is None else (found[0], found[1].sum(axis=0).tolist())
    means = np.array([view.means[k] for k in own], dtype=float)
    best = _points(view, means).best()
    if best is None:
        return None
    pulls = np.zeros(view.task.arm_count)
    pulls[np.array(own)[best.members]] = best.weights / means[best.members, 0]
    return best.reward, (pulls / pulls.sum()).tolist()


@lru_cache(maxsize=VIEWS)
def best_by_type(view: View) -> dict[int, list[float]] | None:
    """The shares of the arms [K] in the best mixture, by the type's number."""
    found = _typed_mixture(view) if view.types is not None and _known_arms(view) else None
    if found is None:
        return None
    shares = found[1] / found[1].sum(axis=1, keepdims=True)
    return dict(zip(found[2], shares.tolist(), strict=True))


def _known_arms(view: View) -> list[int]:
    """The arms with a mean cost that are not retired."""
    retired = [arm["retired"] for arm in view.status["arms"]]
    return [k for k, mean in enumerate(view.means) if mean[0] and mean[0] > 0 and not retired[k]]


def _points(view: View, means: Floats, shares: Floats | None = None) -> Moments:
    """Means [N, 2 + M] as points with one kind of limit, in the user's units.

    With w the shares of cost, limit m reads sum_k w_k (Y_km - c_m base_km) / X_k <= 0; all of it is
    shifted to be positive, as the weights sum to 1.
    """
    cost, reward, penalties = means[:, 0], means[:, 1], means[:, 2:]
    net = np.empty_like(penalties)
    for m, kind in enumerate(view.task.limit_kinds):
        limit = kind.at(view.status["budget"])
        net[:, m] = penalties[:, m] - limit.number * limit.base(cost, 1.0, reward)
    shift = np.maximum(-(net / cost[:, None]).min(axis=0, initial=0.0), 0.0) + 1.0
    return Moments(cost, reward, net + shift * cost[:, None], shift, shares=shares)


@lru_cache(maxsize=VIEWS)
def _typed_mixture(view: View) -> tuple[float, Floats, list[int]] | None:
    """The best mixture of the most frequent types: its reward, shares of pulls [T, K], the types.

    An arm without reports for a type has its mean over all types.
    """
    assert view.types is not None
    own, totals = _known_arms(view), view.types.totals
    pulls = totals[:, :, 0].sum(axis=1)
    types = [int(x) for x in np.argsort(-pulls, kind="stable") if pulls[x] > 0][:MOST_TYPES]
    rows = totals[np.ix_(types, own)]
    count = rows[:, :, :1]
    over_all = np.array([view.means[k] for k in own], dtype=float)
    means = np.where(count > 0, rows[:, :, 1:] / np.maximum(count, 1.0), over_all)
    means[:, :, 0] = np.where(means[:, :, 0] > 0, means[:, :, 0], over_all[:, 0])
    means = means.reshape(-1, means.shape[2])
    best = _points(view, means, pulls[types] / pulls[types].sum()).best()
    if best is None:
        return None
    found = np.zeros(len(means))
    found[best.members] = best.weights / means[best.members, 0]
    shares = np.zeros((len(types), view.task.arm_count))
    shares[:, own] = (found / found.sum()).reshape(len(types), -1)
    return best.reward, shares, types


@lru_cache(maxsize=VIEWS)
def ranking(view: View) -> list[int]:
    """The arms, the best first: by their share of the best mixture, then by their pulls [K]."""
    arms, mixture = view.status["arms"], best_of(view)
    best = [0.0] * len(arms) if mixture is None else mixture[1]

    def place(k: int) -> tuple[bool, float, int, int]:
        return arms[k]["retired"], -best[k], -arms[k]["pulls"], k

    return sorted(range(len(arms)), key=place)


def colours_of(order: Sequence[int]) -> dict[int, int]:
    """The colours, from 1 on, of the arms with their own colour; ``order``: the best first.

    An arm gets the colour of its number if no better arm has it, so the best arms keep their
    colours while others are added and retired.
    """
    if len(order) <= MOST_ARMS + 1:
        return {arm: arm + 1 for arm in sorted(order)}
    free, found = list(range(1, MOST_ARMS + 1)), dict[int, int]()
    for arm in order[:MOST_ARMS]:
        wanted = arm % MOST_ARMS + 1
        found[arm] = wanted if wanted in free else free[0]
        free.remove(found[arm])
    return found
