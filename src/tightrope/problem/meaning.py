"""Checks that catch misread limits in a new task."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, cast

from tightrope.callers import warn_caller
from tightrope.errors import LimitWarning, ProblemError
from tightrope.problem.known import limit_title
from tightrope.problem.limits import Kind, as_written
from tightrope.problem.named import Named

if TYPE_CHECKING:
    from tightrope.problem.task import Task


def require_binding(task: Task, names: Iterable[str], *, guessed: bool = False) -> None:
    """Raise a ``ProblemError`` if a limit is so large that no run can break it.

    A pull has a penalty of at most its scale, counts one pull, and costs at least the smallest
    cost on average, if that is known. Its reward may be 0, so a limit per reward can always bind.
    ``guessed``: the scales are the largest outcomes of a log, and larger ones may come. Then only a
    limit of 1 or more on penalties of at most 1 raises, because it was meant as a percentage.
    """
    least, growing = task.normal_smallest_cost or 0.0, cast(Named[float], task.scales.grow)
    for name in names:
        m = task.limit_names.index(name)
        limit = task.limit_kinds[m]
        share = task.normal_limits[m] * limit.unit.pick(least, 1.0, 0.0)  # nan if in total
        if share >= 1.0 and (limit.of or name) not in growing:
            number, most = limit.number, f"{limit.number / share:g}"
            percent = number >= 1.0 and share < 100.0
            if guessed and not (percent and number <= share):
                continue
            hint = f"did you mean {number / 100.0:g}?" if percent else f"must be below {most}."
            raise ProblemError(
                f"{limit_title(task.limit_names, m)} = {number:g} {limit.words}: can never bind,"
                f" because a penalty is at most {most} {limit.unit.words}; {hint} If a penalty can"
                " be larger, give its scale"
            )


def check_limits_of_data(task: Task, given: object) -> None:
    """Check limits ``given`` for a log whose largest outcomes are the task's scales."""
    if not isinstance(given, Named):  # those of a campaign are
        require_binding(task, task.limit_names, guessed=True)
        warn_of_numbers(task, given)


def warn_of_numbers(task: Task, given: object) -> None:
    """Warn about limits ``given`` by name as plain numbers."""
    if not isinstance(given, Mapping) or not task.has_named_limits:
        return
    numbers = {
        name: task.limit_kinds[task.limit_names.index(name)].number
        for name, value in given.items()
        if not isinstance(as_written(value), Kind | Mapping)
    }
    if numbers:
        each = ", ".join(f"{name!r} = {number:g}" for name, number in numbers.items())
        one = next(iter(numbers.values()))
        text = f"{100.0 * one:g}%" if one < 1.0 else f"{one:g}"
        warn_caller(
            f"limit {each}: a plain number means per unit of cost; state the unit:"
            f' Limit({one:g}, per="pull"), "{text} per pull" or, in the shell,'
            f' {one:g}/pull; Limit({one:g}) or "{one:g} per cost" keeps the meaning',
            LimitWarning,
        )
