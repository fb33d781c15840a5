"""What a task may declare of its arms: which one is safe, and what is expected of each.

The functions check what was given, in the user's units, and give it back in the order of the arms
and channels.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tightrope.errors import ProblemError, nearest
from tightrope.problem.laws import at, number, shown

if TYPE_CHECKING:
    from tightrope.problem.task import Task

__all__ = [
    "costs_of",
    "expected_of",
    "known_penalties_of",
    "safe_name_of",
    "safe_rates_of",
    "skip_of",
]


def safe_name_of(task: Task) -> str | None:
    """The name of the safe arm, declared by name or by number from 0."""
    return _arm_name_of(task, "safe", task.safe)


def skip_of(task: Task) -> str | None:
    """The name of the arm that declines; its cost has to be known."""
    name = _arm_name_of(task, "skip", task.skip)
    if name is not None and task.costs is None:
        raise ProblemError(f"skip = {name!r}: must come with costs, or nothing says what it costs")
    return name


def costs_of(task: Task) -> dict[str, float] | None:
    """The known costs of all arms, from one number or by arm."""
    given = task.costs
    if given is None:
        return None
    if not isinstance(given, Mapping):
        return dict.fromkeys(task.arms, _cost(given, "costs", task))
    return _by_arm(task, given, "costs", lambda value, arm: _cost(value, f"costs of {arm!r}", task))


def _cost(value: object, place: str, task: Task) -> float:
    cost = number(value, place)
    most = task.scales.cost if task.scales.cost != 1.0 else math.inf
    if not 0.0 < cost <= most:
        allowed = "be positive" if cost <= 0.0 else f"be at most {most!r}, the scale of cost"
        raise ProblemError(f"{place} = {cost!r}: must {allowed}")
    return cost


def known_penalties_of(task: Task) -> dict[str, dict[str, float]]:
    """The known penalties of all arms, by limit."""
    given = task.known
    if not isinstance(given, Mapping):
        allowed = "penalties by limit and arm, such as {'dollars': {'opus': 0.01}}"
        raise ProblemError(f"known = {shown(given)}: must be {allowed}")
    found = {}
    for name, by_arm in given.items():
        if name not in task.limit_names:
            known = nearest(str(name), task.limit_names) if task.limit_names else "there are none"
            raise ProblemError(f"known: unknown limit {shown(name)}; {known}")
        if task.limit_kinds[task.limit_names.index(name)].of is not None:
            raise ProblemError(f"known: limit {name!r} has no penalty of its own to know")
        found[name] = _by_arm(task, by_arm, f"known penalty {name!r}", _penalty(name))
    return {name: found[name] for name in task.limit_names if name in found}


def _penalty(name: str) -> Any:
    def checked(value: object, arm: str) -> float:
        penalty = number(value, f"known penalty {name!r} of {arm!r}")
        if penalty < 0.0:
            place = f"known penalty {name!r} of {arm!r} = {penalty!r}"
            raise ProblemError(f"{place}: must not be negative")
        return penalty

    return checked


def _by_arm(task: Task, given: object, place: str, checked: Any) -> dict[str, float]:
    """A checked number for every arm, in order; unknown and missing arms are refused."""
    if not isinstance(given, Mapping):
        raise ProblemError(f"{place} = {shown(given)}: must be numbers by arm")
    for arm in given:
        if arm not in task.arms:
            raise ProblemError(
                f"{place}: {shown(arm)} is not an arm; {_nearest_arm(str(arm), task)}"
            )
    for arm in task.arms:
        if arm not in given:
            raise ProblemError(f"{place}: that of arm {arm!r} is missing; must be there for all")
    return {arm: checked(given[arm], arm) for arm in task.arms}


def _arm_name_of(task: Task, place: str, given: object) -> str | None:
    """The name of an arm, declared by name or by number from 0."""
    names = task.arms
    if given is None:
        return None
    if isinstance(given, str):
        if given not in names:
            raise ProblemError(f"{place} = {given!r}: is not an arm; {_nearest_arm(given, task)}")
        return given
    if isinstance(given, bool) or not isinstance(given, int) or not 0 <= given < len(names):
        allowed = f"the name of an arm, or a number from 0 to {len(names) - 1}"
        raise ProblemError(f"{place} = {shown(given)}: must be {allowed}")
    return names[given]


def _nearest_arm(name: str, task: Task) -> str:
    return nearest(name, task.arms[:100])


def safe_rates_of(task: Task) -> dict[str, float]:
    """Upper bounds on the safe arm's penalty rates, by limit, in the limit's own terms."""
    given = task.safe_rates
    if not isinstance(given, Mapping):
        allowed = "rates by limit, such as {'bad': 0.01}"
        raise ProblemError(f"safe_rates = {shown(given)}: must be {allowed}")
    if given and task.safe is None:
        raise ProblemError(f"safe_rates = {shown(dict(given))}: must come with safe, their arm")
    rates = {}
    limits = dict(zip(task.limit_names, task.limit_values, strict=True))
    for name, rate in given.items():
        if name not in limits:
            known = nearest(str(name), limits) if limits else "there are no limits"
            raise ProblemError(f"safe_rates: unknown limit {shown(name)}; {known}")
        value = number(rate, f"safe_rates: rate of {name!r}")
        if not 0.0 <= value <= limits[name]:
            allowed = f"lie between 0 and {limits[name]!r}, the limit"
            raise ProblemError(f"safe_rates: rate of {name!r} = {value!r}: must {allowed}")
        rates[name] = value
    return {name: rates[name] for name in limits if name in rates}


def expected_of(task: Task) -> dict[str, dict[str, float]]:
    """Guesses of mean outcomes, by arm and channel; arms without any are left out."""
    given = task.expected
    if not isinstance(given, Mapping):
        allowed = "mean outcomes by arm, such as {'opus': {'cost': 1}}"
        raise ProblemError(f"expected = {shown(given)}: must be {allowed}")
    if not given:
        return {}
    found = {}
    known = {name: k for k, name in enumerate(task.arms)}
    for arm, means in given.items():
        if arm not in known:
            found_near = _nearest_arm(str(arm), task)
            raise ProblemError(f"expected: {shown(arm)} is not an arm; {found_near}")
        with at(f"expected of arm {arm!r}"):
            found[arm] = _means_of(task, means)
    return {arm: found[arm] for arm in sorted(found, key=known.__getitem__) if found[arm]}


def _means_of(task: Task, given: object) -> dict[str, float]:
    """Guesses of one arm's mean outcomes, in the order of the channels."""
    if not isinstance(given, Mapping):
        allowed = f"numbers by channel, among {', '.join(task.channels)}"
        raise ProblemError(f"{shown(given)} must be {allowed}")
    means = {}
    scales = dict(zip(task.channels, task.scales.channels, strict=True))
    for channel, mean in given.items():
        if channel not in scales:
            raise ProblemError(f"unknown channel {shown(channel)}; {nearest(str(channel), scales)}")
        value = number(mean, channel)
        if not 0.0 <= value <= scales[channel] or (channel == "cost" and value == 0.0):
            allowed = "above 0, at most" if channel == "cost" else "between 0 and"
            raise ProblemError(
                f"{channel} = {value!r}: must lie {allowed} {scales[channel]!r}, its scale"
            )
        means[channel] = value
    return {channel: means[channel] for channel in scales if channel in means}
