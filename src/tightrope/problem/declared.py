"""What a task can declare about its arms: the safe arm, known prices, expected outcomes.

The functions check the given values, in the user's units, and return them in the order of the arms
and channels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tightrope.errors import ProblemError, nearest
from tightrope.problem.contexts import Types
from tightrope.problem.values import at, number, shown

if TYPE_CHECKING:
    from tightrope.problem.task import Task


def safe_name_of(task: Task) -> str | None:
    """The name of the safe arm, declared by name or by number from 0."""
    return _arm_name_of(task, "safe", task.safe)


def skip_of(task: Task) -> str | None:
    """The name of the arm that declines a request; its cost must be known."""
    name = _arm_name_of(task, "skip", task.skip)
    if name is not None and task.costs is None:
        raise ProblemError(f"skip = {name!r}: must come with costs, which give its cost")
    return name


def costs_of(task: Task) -> dict[str, float] | None:
    """The known costs of all arms, from one number or by arm."""
    given, scale = task.costs, task.scales.cost
    most = scale if scale != 1.0 else math.inf

    def checked(value: object, place: str) -> float:
        cost = number(value, place)
        if not 0.0 < cost <= most:
            allowed = "be positive" if cost <= 0.0 else f"be at most {most!r}, the scale of cost"
            raise ProblemError(f"{place} = {cost!r}: must {allowed}")
        return cost

    if given is None:
        return None
    if not isinstance(given, Mapping):
        return dict.fromkeys(task.arms, checked(given, "costs"))
    return _by_arm(task, given, "costs", checked)


def known_penalties_of(task: Task) -> dict[str, dict[str, float]]:
    """The known penalties of all arms, by limit."""
    allowed = "penalties by limit and arm, such as {'dollars': {'opus': 0.01}}"

    def checked(value: object, place: str) -> float:
        penalty = number(value, place)
        if penalty < 0.0:
            raise ProblemError(f"{place} = {penalty!r}: must not be negative")
        return penalty

    found = {}
    for name, by_arm in _mapping(task.known, "known", allowed).items():
        _require_known("known: unknown limit", name, task.limit_names)
        if task.limit_kinds[task.limit_names.index(name)].of is not None:
            raise ProblemError(
                f"known: limit {name!r} is on the cost or reward and has no penalty to declare"
            )
        found[name] = _by_arm(task, by_arm, f"known penalty {name!r}", checked)
    return {name: found[name] for name in task.limit_names if name in found}


def safe_rates_of(task: Task) -> dict[str, float]:
    """Upper bounds on the safe arm's penalty rates, by limit, in the limit's own unit."""
    given = _mapping(task.safe_rates, "safe_rates", "rates by limit, such as {'bad': 0.01}")
    if given and task.safe is None:
        raise ProblemError(
            f"safe_rates = {shown(dict(given))}: must come with safe, the arm that they are about"
        )
    rates = {}
    limits = dict(zip(task.limit_names, task.limit_values, strict=True))
    for name, rate in given.items():
        _require_known("safe_rates: unknown limit", name, task.limit_names)
        value = _rate_for_any_type(task, rate, f"safe_rates: rate of {name!r}")
        if not 0.0 <= value <= limits[name]:
            allowed = f"lie between 0 and {limits[name]!r}, the limit"
            raise ProblemError(f"safe_rates: rate of {name!r} = {value!r}: must {allowed}")
        rates[name] = value
    return {name: rates[name] for name in limits if name in rates}


def _rate_for_any_type(task: Task, given: object, place: str) -> float:
    """A rate that holds for every type of request: the largest of rates by type."""
    if not isinstance(given, Mapping):
        return number(given, place)
    names = task.contexts.names if isinstance(task.contexts, Types) else None
    if not names or set(given) != set(names):
        allowed = f"a rate for each type, {', '.join(names)}" if names else "one number"
        raise ProblemError(f"{place} = {shown(dict(given))}: must be {allowed}")
    return max(number(rate, f"{place} for {kind!r}") for kind, rate in given.items())


def expected_of(task: Task) -> dict[str, dict[str, float]]:
    """Guesses of mean outcomes, by arm and channel; arms without a guess are left out."""
    allowed = "mean outcomes by arm, such as {'opus': {'cost': 1}}"
    given = _mapping(task.expected, "expected", allowed)
    if not given:
        return {}
    found, place = {}, {name: k for k, name in enumerate(task.arms)}
    for arm, means in given.items():
        if arm not in place:
            raise _not_an_arm("expected", arm, task)
        with at(f"expected of arm {arm!r}"):
            found[arm] = _means_of(task, means)
    return {arm: found[arm] for arm in sorted(found, key=place.__getitem__) if found[arm]}


def _means_of(task: Task, given: object) -> dict[str, float]:
    """Guesses of one arm's mean outcomes, in the order of the channels."""
    if not isinstance(given, Mapping):
        allowed = f"numbers by channel, among {', '.join(task.channels)}"
        raise ProblemError(f"{shown(given)} must be {allowed}")
    means = {}
    scales = dict(zip(task.channels, task.scales.channels, strict=True))
    for channel, mean in given.items():
        _require_known("unknown channel", channel, task.channels)
        value = number(mean, channel)
        if not 0.0 <= value <= scales[channel] or (channel == "cost" and value == 0.0):
            allowed = "above 0, at most" if channel == "cost" else "between 0 and"
            raise ProblemError(
                f"{channel} = {value!r}: must lie {allowed} {scales[channel]!r}, its scale"
            )
        means[channel] = value
    return {channel: means[channel] for channel in scales if channel in means}


def _mapping(given: object, place: str, allowed: str) -> Mapping[str, Any]:
    if not isinstance(given, Mapping):
        raise ProblemError(f"{place} = {shown(given)}: must be {allowed}")
    return given


def _require_known(what: str, name: object, names: Sequence[str]) -> None:
    if name not in names:
        known = nearest(str(name), names) if names else "there are none"
        raise ProblemError(f"{what} {shown(name)}; {known}")


def _not_an_arm(place: str, name: object, task: Task) -> ProblemError:
    known = nearest(str(name), task.arms[:100])
    return ProblemError(f"{place}: {shown(name)} is not an arm; {known}")


def _by_arm(
    task: Task, given: object, place: str, checked: Callable[[object, str], float]
) -> dict[str, float]:
    """A checked number for every arm, in order; raises if an arm is unknown or missing."""
    numbers = _mapping(given, place, "numbers by arm")
    for arm in numbers:
        if arm not in task.arms:
            raise _not_an_arm(place, arm, task)
    for arm in task.arms:
        if arm not in numbers:
            raise ProblemError(f"{place}: arm {arm!r} is missing; must be given for every arm")
    return {arm: checked(numbers[arm], f"{place} of {arm!r}") for arm in task.arms}


def _arm_name_of(task: Task, place: str, given: object) -> str | None:
    """The name of an arm, declared by name or by number from 0."""
    names = task.arms
    if given is None:
        return None
    if isinstance(given, str):
        if given not in names:
            known = nearest(given, names[:100])
            raise ProblemError(f"{place} = {given!r}: is not an arm; {known}")
        return given
    if isinstance(given, bool) or not isinstance(given, int) or not 0 <= given < len(names):
        allowed = f"the name of an arm, or a number from 0 to {len(names) - 1}"
        raise ProblemError(f"{place} = {shown(given)}: must be {allowed}")
    return names[given]
