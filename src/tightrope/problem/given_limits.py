"""The limits that a task is given: by name or short, as numbers, texts, tables or objects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tightrope.errors import ProblemError
from tightrope.problem.known import limit_title
from tightrope.problem.limits import Kind, Share, as_limit, as_written
from tightrope.problem.named import Named, channel_names
from tightrope.problem.scales import quantity
from tightrope.problem.values import at, shown


def read_limits(limits: object, limit: object) -> Named[float | Kind]:
    """The limits by name, from ``limits`` or the short ``limit``; Named means several."""
    if limits is not None and limit is not None:
        raise ProblemError(
            f"limit = {shown(limit)}: must not be given beside limits = {shown(limits)}"
        )
    if isinstance(limit, Named) or (isinstance(limit, Mapping) and not _is_one(limit)):
        limits = limit
    if limits is None:
        given = _as_several(limit)
        limits = dict(zip(channel_names(len(given))[2:], given, strict=True))
    elif isinstance(limits, Mapping):
        _check_limit_names(tuple(limits))
    else:
        raise ProblemError(f"limits = {shown(limits)}: must be numbers by name, or use limit")
    names = tuple(limits)
    places = [limit_title(names, m) for m in range(len(names))]
    told = zip(names, limits.values(), places, strict=True)
    return Named({name: _read_limit(value, place) for name, value, place in told})


def _is_one(limit: Mapping[Any, Any]) -> bool:
    """Whether a table describes one limit and not several by name."""
    return bool(set(limit) & {"at_most", "total", "share"})


def _as_several(limit: object) -> list[Any]:
    """None, one limit or several limits as a list."""
    if limit is None:
        return []
    if isinstance(limit, str | Kind | Mapping) or not isinstance(limit, Iterable):
        return [limit]
    return list(limit)


def _read_limit(value: object, place: str) -> float | Kind:
    """A checked limit: a plain number if it is per unit of cost."""
    with at(place):
        written = as_written(value)
        limit = as_limit(written) if isinstance(written, Kind | Mapping) else None
    if limit is None:
        return quantity(written, place)
    if isinstance(limit, Share):
        return limit
    return limit.with_number(quantity(limit.number, place)).short


def _check_limit_names(names: Sequence[object]) -> None:
    for name in names:
        if not isinstance(name, str) or not name:
            raise ProblemError(f"limit name {shown(name)}: must be a non-empty string")
        if name in ("cost", "reward"):
            raise ProblemError(
                f"limit name {name!r}: must differ from the names of the other channels"
            )
