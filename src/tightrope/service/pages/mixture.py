"""The best mixture of the arms by their means so far, and the arms' order and colours."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from tightrope.live.status import StatusType
from tightrope.problem.tables import Moments
from tightrope.problem.values import Floats
from tightrope.service.pages.history import View

VIEWS = 64  # views whose numbers are kept for the next request
MOST_ARMS = 7  # arms with a colour of their own; the others share one
MOST_TYPES = 64  # types of the best mixture: the most frequent


def by_features(view: View) -> bool:
    """Whether the policy chooses by the features of requests."""
    return bool(view.status.get("features"))


@lru_cache(maxsize=VIEWS)
def best_of(view: View) -> tuple[float, list[float]] | None:
    """The best mixture by the means so far: its reward per unit of cost, shares of pulls [K].

    If the policy uses the types of requests, it is the best mixture of each type, over all types.
    There is none if it uses features: the means of an arm are those of the requests it was given.
    """
    own = _known_arms(view)
    if not own or by_features(view):
        return None
    if view.means_by_type:
        found = _typed_mixture(view)
        return None if found is None else (found[0], found[1].sum(axis=0).tolist())
    means = np.array([view.means[k] for k in own], dtype=float)
    best = _points(view, means).best()
    if best is None:
        return None
    pulls = np.zeros(view.task.arm_count)
    pulls[np.array(own)[best.members]] = best.weights / means[best.members, 0]
    return best.reward, (pulls / pulls.sum()).tolist()


def types_of(view: View) -> list[StatusType]:
    """The types of requests, the most frequent first; none without contexts."""
    return sorted(view.status.get("types", ()), key=lambda one: -one["asked"])


@lru_cache(maxsize=VIEWS)
def best_by_type(view: View) -> dict[str, list[float]]:
    """The shares of the arms [K] in the best mixture of each type; empty if there is none."""
    found = _typed_mixture(view) if view.means_by_type and _known_arms(view) else None
    if found is None:
        return {}
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
def _typed_mixture(view: View) -> tuple[float, Floats, list[str]] | None:
    """The best mixture of the most frequent types: its reward, shares of pulls [T, K], the names.

    An arm without reports for a type has its mean over all types.
    """
    own, types = _known_arms(view), [one for one in types_of(view) if one["asked"]][:MOST_TYPES]
    names, shares = [one["type"] for one in types], np.array([one["share"] for one in types])
    means = np.array([[view.means_by_type[name][k] for k in own] for name in names], dtype=float)
    over_all = np.array([view.means[k] for k in own], dtype=float)
    means = np.where(means[:, :, :1] > 0, means, over_all).reshape(-1, over_all.shape[1])
    best = _points(view, means, shares / shares.sum()).best()
    if best is None:
        return None
    weights = np.zeros(len(means))
    weights[best.members] = best.weights / means[best.members, 0]
    found = np.zeros((len(types), view.task.arm_count))
    found[:, own] = (weights / weights.sum()).reshape(len(types), -1)
    return best.reward, found, names


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
