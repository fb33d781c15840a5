"""Names, counts and limits that tasks and problems share, in both units."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from tightrope.errors import InputError, ProblemError
from tightrope.problem.limits import Kind, as_limit, as_written
from tightrope.problem.named import Named, channel_names, nearest_limit
from tightrope.problem.scales import Scales
from tightrope.problem.values import Floats, number, shown

if TYPE_CHECKING:
    from tightrope.problem.task import Task

Own = TypeVar("Own", bound="Known")
USUAL_COST = 0.1  # the smallest mean cost if none is declared, normalised
LEAST_BUDGET = 1e-9  # normalised
MOST_PULLS = 2.0**53  # of a run: the largest count in a float64


def check_budget(budget: object, place: str = "budget") -> float:
    """``budget`` as a positive, finite float; the ``InputError`` names it ``place``."""
    with suppress(ProblemError):
        value = number(budget, place)
        if value > 0:
            return value
    raise InputError(f"{place} = {shown(budget)}: must be a positive, finite number")


class Known:
    """Names, counts and limits of a :class:`Task` or a problem."""

    _known: Task  # without the facts that distributions could tell
    scales: Scales
    name: str
    safe: str | int | None
    known: Any

    @property
    def stated(self) -> Task:
        """The task, without facts that follow from distributions."""
        return self._known

    def _with(self: Own, **fields_: Any) -> Own:
        """A copy with other values of some fields, which are not checked."""
        made = object.__new__(type(self))
        own = {field.name: self.__dict__[field.name] for field in fields(cast(Any, self))}
        made.__dict__.update(own, **fields_)
        return made

    @property
    def title(self) -> str:
        """Its name in messages."""
        word = type(self).__name__.lower()
        return f"{word} {self.name!r}" if self.name else f"the {word}"

    @property
    def arm_count(self) -> int:
        """K, at least 1."""
        return len(self._known.arms)

    @cached_property
    def types(self) -> int:
        """T: how many rows every arm has in a task over rows (see ``Task.over_rows``); else 0."""
        return 0

    @property
    def feature_columns(self) -> int:
        """D: the columns of a request's features, see ``Task.feature_columns``."""
        return self._known.feature_columns

    @property
    def penalty_count(self) -> int:
        """M, at least 0."""
        return len(self._known.limit_values)

    @property
    def names(self) -> Sequence[str]:
        """The names of the arms, [K], all different."""
        return self._known.arms

    @property
    def limit_names(self) -> tuple[str, ...]:
        """The names of the limits, [M]. Their penalties have the same names."""
        return tuple(cast(Named[Any], self._known.limits))

    @cached_property
    def limit_kinds(self) -> tuple[Kind, ...]:
        """The limits, [M]."""
        return tuple(map(as_limit, cast(Named[Any], self._known.limits).values()))

    @property
    def not_per_cost(self) -> str:
        """The first limit that is not per unit of cost, as messages show it, or ""."""
        others = (m for m, limit in enumerate(self.limit_kinds) if not limit.per_cost)
        return next(map(self.limit_text, others), "")

    def violations(
        self, penalty: Floats, cost: Any, pulls: Any, reward: Any, planned: float | None = None
    ) -> Floats:
        """By how much the penalties [R, M] of runs exceed each limit; see ``Limit.violation``."""
        found = np.empty(penalty.shape)
        for m, limit in enumerate(self.limit_kinds):
            found[:, m] = limit.violation(penalty[:, m], cost, pulls, reward, planned)
        return found

    def other_limits(self, limits: Mapping[str, Any]) -> Named[Kind]:
        """All limits by name; ``limits`` replaces some of them, or only their numbers."""
        kinds: dict[str, Kind] = dict(zip(self.limit_names, self.limit_kinds, strict=True))
        for name, limit in limits.items():
            if name not in kinds:
                raise InputError(
                    f"limit {shown(name)} is unknown; {nearest_limit(str(name), [*kinds])}"
                )
            given = as_written(limit)
            whole = isinstance(given, Kind | Mapping)
            kinds[name] = as_limit(given) if whole else kinds[name].with_number(given)
        return Named(kinds)

    @cached_property
    def hard(self) -> tuple[bool, ...]:
        """Which limits end the run, [M]; empty if none does."""
        found = tuple(limit.hard for limit in self.limit_kinds)
        return found if any(found) else ()

    @cached_property
    def told(self) -> tuple[int, ...]:
        """The numbers, from 0, of the limits whose penalty is reported."""
        known = self._known.known
        return tuple(
            m
            for m, (name, limit) in enumerate(zip(self.limit_names, self.limit_kinds, strict=True))
            if limit.of is None and name not in known
        )

    @property
    def told_names(self) -> tuple[str, ...]:
        """The names of the reported penalties. A limit on the cost or reward has none."""
        return tuple(self.limit_names[m] for m in self.told)

    @cached_property
    def told_channels(self) -> tuple[str, ...]:
        """The reported channels: cost, reward and the reported penalties."""
        return ("cost", "reward", *self.told_names)

    @cached_property
    def told_scales(self) -> tuple[float, ...]:
        """The scales of the reported channels."""
        penalties = self.scales.penalties
        return (self.scales.cost, self.scales.reward, *(penalties[m] for m in self.told))

    @property
    def has_named_limits(self) -> bool:
        """Whether the limits were given by name."""
        return self.channels != channel_names(self.penalty_count)

    @property
    def channels(self) -> tuple[str, ...]:
        """The names of the channels in messages, [2 + M]: cost, reward, the limits' names."""
        return ("cost", "reward", *self.limit_names)

    @cached_property
    def normal_limits(self) -> Floats:
        """The limits in normalised units, [M]: the penalty over its scale per base over its scale.

        A limit in total is nan until the budget is known; see ``at``.
        """
        limits = np.array([math.nan if k.total is not None else k.number for k in self.limit_kinds])
        scales = np.array(self.scales.penalties)
        return np.asarray(limits * self.base_scales / scales, dtype=np.float64)

    @cached_property
    def net_bases(self) -> tuple[float, ...]:
        """The base of each limit, [M], as policies read it: 0 cost, k > 0 pulls, -k reward.

        A limit of c per pull equals c / k per k pulls. k is the largest power of two up to the
        smallest mean cost of a pull. Net penalties Y - (c / k) (k - X) are then positive on
        average, like penalties, and c / k per unit of cost has the magnitude of their rates.
        """
        cost = min(self.normal_smallest_cost or USUAL_COST, 1.0)
        unit = 2.0 ** -math.ceil(-math.log2(cost) - 1e-9)
        return tuple(limit.unit.pick(0.0, unit, -unit) for limit in self.limit_kinds)

    @cached_property
    def net_limits(self) -> Floats:
        """The limits of the net penalties per unit of cost, normalised, [M]."""
        units = np.abs(np.array(self.net_bases))
        return np.asarray(self.normal_limits / np.where(units == 0.0, 1.0, units))

    @property
    def base_scales(self) -> Floats:
        """The scale of each limit's base, [M]; 1 for pulls."""
        scales = (self.scales.cost, 1.0, self.scales.reward)
        return np.array([limit.unit.of(*scales) for limit in self.limit_kinds], np.float64)

    @property
    def depends_on_budget(self) -> bool:
        """Whether some limit is in total, so that its rate depends on the budget."""
        return any(limit.total is not None for limit in self.limit_kinds)

    @property
    def normal_smallest_cost(self) -> float | None:
        """A lower bound on the mean costs in normalised units, in (0, 1], if one is known."""
        raise NotImplementedError

    def limit_text(self, m: int) -> str:
        """Limit number m, from 0, with its value, as messages show it."""
        title, limit = limit_title(self.limit_names, m), self.limit_kinds[m]
        return f"{title} = {limit.number!r}{limit.suffix}"

    def normal_budget(
        self, budget: object, place: str = "budget", most_pulls: float = MOST_PULLS
    ) -> float:
        """A budget in units of the largest cost of one pull; raises an ``InputError``.

        Raises for budgets far below the cost of one pull, and for budgets that need more than
        ``most_pulls`` pulls at the smallest mean cost.
        """
        value, unit = check_budget(budget, place), self.scales.cost
        if value / unit < LEAST_BUDGET:
            allowed = f"at least {LEAST_BUDGET * unit:g}, the largest cost of one pull over 10^9"
            raise InputError(f"{place} = {value!r}: must be {allowed}")
        cost = self.normal_smallest_cost or 1.0
        if value / unit / cost > most_pulls:
            allowed = f"{most_pulls * cost * unit:.3g}: a run makes at most {most_pulls:.3g} pulls"
            raise InputError(f"{place} = {value!r}: must be at most {allowed}")
        return value / unit


def limit_title(names: tuple[str, ...], m: int) -> str:
    """The name of limit number m, from 0, in messages."""
    if names != channel_names(len(names))[2:]:
        return f"limit {names[m]!r}"
    return "limit" if len(names) == 1 else f"limit {m + 1}"
