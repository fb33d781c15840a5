"""Change one thing of a task: add an arm, change a price, change the scales."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import cast

from tightrope.errors import InputError
from tightrope.problem.scales import Scales
from tightrope.problem.task import Task
from tightrope.problem.values import shown

MOST_GROWTH = 16.0  # of a scale, by one outcome


def with_arm(
    task: Task, name: str, cost: float | None, penalty: Mapping[str, float] | None
) -> Task:
    """The task with one more arm at the end. If prices are known, the new arm needs its own."""
    if name in task.names:
        raise InputError(f"arm = {name!r}: an arm has this name already; names must differ")
    _require_prices(task, f"arm {name!r}", cost, penalty)
    bare = replace(task, arms=(*task.names, name), costs=None, known={}, skip=None)
    return _priced(bare, task, name, cost, penalty)


def repriced(
    task: Task, name: str, cost: float | None, penalty: Mapping[str, float] | None
) -> Task:
    """The task with other known costs or penalties of an arm."""
    if cost is None and not penalty:
        raise InputError(f"reprice of arm {name!r}: must be given a cost or penalties")
    if cost is not None and task.costs is None:
        raise InputError(f"cost = {shown(cost)}: must be left out; this task has no known costs")
    for limit in penalty or {}:
        if limit not in task.known:
            allowed = ", ".join(map(repr, task.known)) or "none"
            raise InputError(f"penalty {limit!r}: is not a known penalty; must be {allowed}")
    return _priced(task, task, name, cost, penalty)


def _require_prices(
    task: Task, what: str, cost: float | None, penalty: Mapping[str, float] | None
) -> None:
    """Raise unless all prices of a new arm are given, and no others."""
    if (cost is None) != (task.costs is None):
        needed = "its cost, as costs are known" if cost is None else "no cost, as none is known"
        raise InputError(f"{what}: must come with {needed}")
    given = set(penalty or {})
    if given != set(task.known):
        allowed = ", ".join(map(repr, task.known)) or "none"
        raise InputError(f"{what}: known penalties = {sorted(given)}; must be {allowed}")


def _priced(
    made: Task,
    task: Task,
    name: str,
    cost: float | None,
    penalty: Mapping[str, float] | None,
) -> Task:
    """``made`` with the prices of ``task`` except for one arm's, and scales that fit them."""
    costs = dict(cast(Mapping[str, float], task.costs or {}))
    known = {limit: dict(by_arm) for limit, by_arm in task.known.items()}
    scales = list(task.scales.channels)
    if cost is not None:
        costs[name] = cost
        scales[0] = grown(scales[0], cost)
    for limit, price in (penalty or {}).items():
        known[limit][name] = price
        place = 2 + task.limit_names.index(limit)
        scales[place] = grown(scales[place], price)
    return replace(
        made,
        costs=costs or None,
        known=known,
        skip=task.skip,
        scales=replace(task.scales, cost=scales[0], penalty=tuple(scales[2:])),
    )


def grown(scale: float, outcome: float) -> float:
    """The scale, doubled until it reaches the outcome."""
    while scale < outcome:
        scale *= 2.0
    return scale


def fitted(task: Task, told: Sequence[float]) -> tuple[list[float], list[float], list[float]]:
    """Scales [2 + M] that fit the reported outcomes, the outcomes cut to them, and the rest."""
    scales, kept, excess = list(task.scales.channels), [], []
    caps = cast(Mapping[str, float], task.scales.grow)
    places = (0, 1, *(2 + m for m in task.told))
    for value, channel, place in zip(told, task.told_channels, places, strict=True):
        most = min(value, caps.get(channel, math.inf))
        scales[place] = grown(scales[place], most)
        kept.append(most)
        excess.append(value - most)
    return scales, kept, excess


def rescaled(task: Task, scales: list[float]) -> Task:
    """The task with other scales [2 + M]."""
    cost, reward, *penalties = scales
    made = Scales(cost, reward, tuple(penalties), grow=task.scales.grow)
    return replace(task, scales=made)
