"""The best mixture of the arms by their means so far, and the arms' order and colours."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from tightrope.problem.mixtures import best_mixture
from tightrope.service.pages.history import View

__all__ = ["MOST_ARMS", "VIEWS", "best_of", "colours_of", "ranking"]

VIEWS = 64  # views whose numbers are kept for the next request
MOST_ARMS = 7  # arms with a colour of their own; the others share one


@lru_cache(maxsize=VIEWS)
def best_of(view: View) -> tuple[float, list[float]] | None:
    """The best mixture by the means so far: its reward per unit of cost, shares of pulls [K].

    With w the shares of cost, limit m reads sum_k w_k (Y_km - c_m base_km) / X_k <= 0; all of it is
    shifted to be positive, as the weights sum to 1.
    """
    task, retired = view.task, {a["arm"] for a in view.status["arms"] if a["retired"]}
    own = [
        k
        for k, mean in enumerate(view.means)
        if mean[0] and mean[0] > 0 and task.names[k] not in retired
    ]
    if not own:
        return None
    means = np.array([view.means[k] for k in own], dtype=float)
    cost, reward, penalties = means[:, 0], means[:, 1], means[:, 2:]
    net = np.empty_like(penalties)
    for m, kind in enumerate(task.limit_kinds):
        limit = kind.at(view.status["budget"])
        net[:, m] = (penalties[:, m] - limit.number * limit.base(cost, 1.0, reward)) / cost
    shift = np.maximum(-net.min(axis=0), 0.0) + 1.0 if len(task.limit_kinds) else np.zeros(0)
    found = best_mixture(reward / cost, net + shift, shift)
    if found is None:
        return None
    pulls = np.zeros(task.arm_count)
    chosen = np.array(own)[found.members]
    pulls[chosen] = found.weights / cost[found.members]
    return found.reward, (pulls / pulls.sum()).tolist()


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
