"""What a decision maker knows: the arms' names, the limits, the scales, declared facts. No laws."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import InitVar, dataclass, fields, replace
from functools import cached_property
from typing import Any, Generic, TypeVar, cast

import numpy as np

from tightrope.errors import InputError, ProblemError, nearest
from tightrope.problem.declared import (
    costs_of,
    expected_of,
    known_penalties_of,
    safe_name_of,
    safe_rates_of,
    skip_of,
)
from tightrope.problem.laws import LARGEST, Floats, at, known_keys, number, shown
from tightrope.problem.limits import Kind, Share, as_limit
from tightrope.problem.toml import alone, entries_text, table_of
from tightrope.showing import html_of

__all__ = [
    "FACT_KEYS",
    "HEAD_KEYS",
    "MOST_PULLS",
    "Known",
    "Named",
    "NumberedNames",
    "Scales",
    "Task",
    "channel_names",
    "check_budget",
    "check_names",
    "holds_task",
    "read_head",
]

# of a task's TOML and of a problem's
DECLARED_KEYS = ("safe", "safe_rates", "expected", "costs", "known", "skip")
HEAD_KEYS = ("name", "limit", "limits", "scales", "arms", *DECLARED_KEYS)
FACT_KEYS = ("smallest_cost", "slack")  # of a task's alone
Value = TypeVar("Value")
Own = TypeVar("Own", bound="Known")
_ROUNDING = 1.0 + 1e-12  # a mean that a law gives may be above its largest value by this

# What keeps every product and square that is computed of them within the range of floats.
SMALLEST = 1e-30  # of a scale, a limit or a budget, in the user's units; LARGEST likewise
LEAST_LIMIT, MOST_LIMIT = 1e-15, 1e15  # of a normalised limit
USUAL_COST = 0.1  # the smallest mean cost where none is declared, normalised
LEAST_COST = 1e-15  # of a declared lower bound on the mean costs, normalised
LEAST_BUDGET = 1e-9  # normalised
MOST_PULLS = 2.0**53  # of a run: a float64 counts no further


def quantity(value: object, place: str) -> float:
    """``value`` as a positive float that can be computed with; ``place`` is what errors call it."""
    converted = number(value, place)
    if converted <= 0:
        raise ProblemError(f"{place} = {converted!r}: must be positive")
    if not SMALLEST <= converted <= LARGEST:
        allowed = f"lie between {SMALLEST:g} and {LARGEST:g}; choose another unit"
        raise ProblemError(f"{place} = {converted!r}: must {allowed}")
    return converted


def check_budget(budget: object, place: str = "budget") -> float:
    """``budget`` as a positive, finite float, or an ``InputError`` that calls it ``place``."""
    with suppress(ProblemError):
        value = number(budget, place)
        if value > 0:
            return value
    raise InputError(f"{place} = {shown(budget)}: must be a positive, finite number")


def channel_names(penalty_count: int) -> tuple[str, ...]:
    """The channels where limits have no names: cost, reward, penalty (or penalty 1, 2, ...)."""
    if penalty_count == 1:
        return ("cost", "reward", "penalty")
    return ("cost", "reward", *(f"penalty {m + 1}" for m in range(penalty_count)))


class Named(Mapping[str, Value], Generic[Value]):
    """Values by name, in an order that counts; it cannot be changed, and has a hash.

    >>> Named({"bad": 0.05})["bad"]
    0.05
    """

    def __init__(self, values: Mapping[str, Value]) -> None:
        self._values = dict(values)

    def __getitem__(self, name: str) -> Value:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mapping) and list(self.items()) == list(other.items())

    def __hash__(self) -> int:
        return hash(tuple(self.items()))

    def __repr__(self) -> str:
        return repr(self._values)

    def in_order(self, names: Sequence[str], what: str, default: Value | None) -> list[Value]:
        """The values of ``names``; unknown names are refused, as are missing ones with no default.

        >>> Named({"bad": 2.0}).in_order(["dollars", "bad"], "scale", 1.0)
        [1.0, 2.0]
        """
        for name in self:
            if name not in names:
                raise ProblemError(f"unknown {what} {name!r}; {_known(name, names)}")
        for name in names:
            if default is None and name not in self:
                raise ProblemError(f"{what} {name!r} is missing; must have {', '.join(names)}")
        return [self._values.get(name, cast(Value, default)) for name in names]


def _known(name: str, names: Sequence[str]) -> str:
    return nearest(name, names) if names else "there are no limits"


class NumberedNames(Sequence[str]):
    """Names of very many arms, made when they are looked at: arm 1, arm 2, ..."""

    def __init__(self, count: int) -> None:
        self._numbers = range(1, count + 1)

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return tuple(f"arm {k}" for k in self._numbers[place])
        return f"arm {self._numbers[place]}"

    def __eq__(self, other: object) -> bool:
        if isinstance(other, NumberedNames):
            return self._numbers == other._numbers
        return tuple(self) == other

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"NumberedNames({len(self)})"


@dataclass(frozen=True)
class Scales:
    """The largest value that one outcome of each channel can have, in the user's units.

    ``penalty``: one number, or M in the order of the limits, or some by the limits' names; a
    penalty without a scale has 1. A task keeps M of them, in order.

    ``grow``: the channels (cost, reward, the limits' names) whose scales are a first guess that may
    be too small, with the largest outcome that is believed, if there is one: ``grow={"dollars":
    2}``; True for all. A larger outcome doubles the scale of a live run until it fits, at most 16
    times; what is above that cap is charged, but not learned from.

    >>> Scales(cost=50, penalty={"dollars": 0.05}).cost
    50.0
    """

    cost: float = 1.0
    reward: float = 1.0
    penalty: float | Sequence[float] | Mapping[str, float] = ()
    grow: bool | Sequence[str] | Mapping[str, float] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "penalty", _one_or_more(self.penalty, "scale of", "penalty"))
        if not isinstance(self.grow, bool):
            object.__setattr__(self, "grow", _caps(self.grow))
        for channel in ("cost", "reward"):
            value = quantity(getattr(self, channel), f"scale of {channel}")
            object.__setattr__(self, channel, value)

    @property
    def penalties(self) -> tuple[float, ...]:
        """The M scales of the penalties."""
        given = self.penalty
        return tuple(given.values() if isinstance(given, Mapping) else cast(Sequence[float], given))

    @property
    def channels(self) -> tuple[float, ...]:
        """The scale of every channel, [2 + M]."""
        return (self.cost, self.reward, *self.penalties)

    def for_limits(self, limits: Mapping[str, Kind]) -> Scales:
        """The same, with a scale for each limit in order: that of the channel that it is of."""
        names = tuple(limits)
        if isinstance(self.penalty, Mapping):
            with at("scales"):
                in_order = Named(self.penalty).in_order(names, "penalty", 1.0)
        else:
            in_order = list(self.penalties) or [1.0] * len(names)
        if len(in_order) != len(names):
            raise ProblemError(
                f"scales: penalties = {len(in_order)}, limits = {len(names)}; must be as many"
            )
        for m, limit in enumerate(limits.values()):
            if limit.of is not None:
                in_order[m] = 1.0 if limit.of == "pull" else getattr(self, limit.of)
        grow = self._growing({name for name in names if limits[name].of is None}, names)
        return replace(self, penalty=tuple(in_order), grow=grow)

    def _growing(self, own: set[str], names: tuple[str, ...]) -> Named[float]:
        """The caps of the scales that grow, by channel; limits ``own`` have a penalty."""
        if isinstance(self.grow, bool):
            channels = ("cost", "reward", *(name for name in names if name in own))
            return Named(dict.fromkeys(channels, math.inf) if self.grow else {})
        caps = cast(Mapping[str, float], self.grow)
        for name in caps:
            if name not in ("cost", "reward", *own):
                allowed = nearest(name, ("cost", "reward", *own))
                raise ProblemError(f"scales: grow = {name!r}: is not a channel; {allowed}")
        return Named({name: caps[name] for name in ("cost", "reward", *names) if name in caps})


def _caps(value: object) -> Named[float]:
    """The caps of scales that grow, by channel: infinite where none is given."""
    if isinstance(value, Mapping):
        for name, cap in value.items():
            good = isinstance(cap, int | float) and not isinstance(cap, bool) and cap > 0
            if not good:
                raise ProblemError(f"scales: grow of {name} = {shown(cap)}: must be positive")
        return Named({str(name): float(cap) for name, cap in value.items()})
    if isinstance(value, str) or not isinstance(value, Iterable):
        allowed = "true, a list of channels, or the largest outcome of each"
        raise ProblemError(f"scales: grow = {shown(value)}: must be {allowed}")
    return Named({str(name): math.inf for name in value})


def _one_or_more(value: object, place: str, what: str = "") -> tuple[float, ...] | Named[float]:
    """None, a number or several as a tuple of floats, or those of a mapping by their names."""
    if isinstance(value, Mapping):
        return Named({name: quantity(v, f"{place} {name}") for name, v in value.items()})
    place = f"{place} {what}" if what else place
    if value is None:
        return ()
    if isinstance(value, str) or not isinstance(value, Iterable):
        return (quantity(value, place),)
    several = list(value)
    places = [place] if len(several) == 1 else [f"{place} {m + 1}" for m in range(len(several))]
    return tuple(map(quantity, several, places))


class Known:
    """What a :class:`Task` and a problem have in common: names, counts, and limits."""

    _known: Task  # without the facts that laws could tell
    scales: Scales
    name: str
    safe: str | int | None
    known: Any

    @property
    def stated(self) -> Task:
        """The task, without the facts that laws could tell."""
        return self._known

    def _with(self: Own, **fields_: Any) -> Own:
        """The same with other values of some fields, which are not checked again."""
        made = object.__new__(type(self))
        own = {field.name: self.__dict__[field.name] for field in fields(cast(Any, self))}
        made.__dict__.update(own, **fields_)
        return made

    @property
    def title(self) -> str:
        """What messages call it."""
        word = type(self).__name__.lower()
        return f"{word} {self.name!r}" if self.name else f"the {word}"

    @property
    def arm_count(self) -> int:
        """K, at least 1."""
        return len(self._known.arms)

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
        """The names of the limits, [M], which are those of the penalties."""
        return tuple(cast(Named[Any], self._known.limits))

    @cached_property
    def limit_kinds(self) -> tuple[Kind, ...]:
        """The limits, [M], each with what it is per and of."""
        return tuple(map(as_limit, cast(Named[Any], self._known.limits).values()))

    @property
    def not_per_cost(self) -> str:
        """The first limit that is not per unit of cost, as messages show it; else ""."""
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

    def other_limits(self, limits: Mapping[str, Any]) -> dict[str, Kind]:
        """All limits by name; ``limits``: others for some, or other numbers per what they were."""
        kinds: dict[str, Kind] = dict(zip(self.limit_names, self.limit_kinds, strict=True))
        for name, limit in limits.items():
            if name not in kinds:
                raise InputError(f"limit {shown(name)} is unknown; {_known(str(name), [*kinds])}")
            whole = isinstance(limit, Kind | Mapping)
            kinds[name] = as_limit(limit) if whole else kinds[name].with_number(limit)
        return kinds

    @cached_property
    def hard(self) -> tuple[bool, ...]:
        """Which limits end the run, [M]; empty if none does."""
        found = tuple(limit.hard for limit in self.limit_kinds)
        return found if any(found) else ()

    @cached_property
    def told(self) -> tuple[int, ...]:
        """The numbers of the limits, from 0, that have a penalty of their own to be told."""
        known = self._known.known
        return tuple(
            m
            for m, (name, limit) in enumerate(zip(self.limit_names, self.limit_kinds, strict=True))
            if limit.of is None and name not in known
        )

    @property
    def told_names(self) -> tuple[str, ...]:
        """The names of the penalties that are told: a limit of the cost or reward has none."""
        return tuple(self.limit_names[m] for m in self.told)

    @cached_property
    def told_channels(self) -> tuple[str, ...]:
        """The channels that are told: cost, reward and the penalties that there are."""
        return ("cost", "reward", *self.told_names)

    @cached_property
    def told_scales(self) -> tuple[float, ...]:
        """Their scales."""
        penalties = self.scales.penalties
        return (self.scales.cost, self.scales.reward, *(penalties[m] for m in self.told))

    @property
    def has_named_limits(self) -> bool:
        """Whether the limits have names of their own."""
        return self.channels != channel_names(self.penalty_count)

    @property
    def channels(self) -> tuple[str, ...]:
        """What messages call the channels, [2 + M]: cost, reward, the limits' names."""
        return ("cost", "reward", *self.limit_names)

    @cached_property
    def normal_limits(self) -> Floats:
        """The limits in normalised units, [M]: of the penalty's scale per that of the base.

        A limit in total has none before its budget is known: nan; see ``at``.
        """
        limits = np.array([math.nan if k.total is not None else k.number for k in self.limit_kinds])
        scales = np.array(self.scales.penalties)
        return np.asarray(limits * self.base_scales / scales, dtype=np.float64)

    @cached_property
    def net_bases(self) -> tuple[float, ...]:
        """What each limit is per, [M], as policies take it: 0 cost, k > 0 pulls, -k reward.

        A limit of c per pull is one of c / k per k pulls, with the power of two k such that k pulls
        cost at most about one: then net penalties Y - (c / k) (k - X) are on average positive, like
        penalties, and c / k per unit of cost is of the size of their rates.
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
        """The scale of what each limit is per, [M]; 1 for pulls."""
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
        title, limit = _limit_title(self.limit_names, m), self.limit_kinds[m]
        return f"{title} = {limit.number!r}{limit.suffix}"

    def normal_budget(
        self, budget: object, place: str = "budget", most_pulls: float = MOST_PULLS
    ) -> float:
        """A budget in units of the largest cost of one pull, or an ``InputError``.

        Refused are budgets far below one pull, and those whose runs would take more than
        ``most_pulls`` pulls at the smallest mean cost: they would never end.
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


@dataclass(frozen=True)
class Task(Known):
    """What is known before the first pull; no laws. All in the user's units.

    ``limits``: the penalty allowed per unit of cost, by name, or a :class:`Limit` per pull, per
    reward or in total; ``limit=0.8`` is short for one limit called penalty, ``limit=(a, b)`` for
    penalty 1 and penalty 2. ``smallest_cost``: a lower bound
    on every arm's mean cost, if one is known. ``slack``: some mixture of the arms keeps every
    penalty below (1 - slack) times its limit, if that is known; 0 or less says that none does.

    ``safe``: an arm, by name or number, that keeps every limit by itself, in the mean;
    ``safe_rates``: smaller upper bounds on its penalty rates, by limit, where they are known.
    ``expected``: guesses of mean outcomes, by arm and channel (cost, reward, a limit).

    What is known need not be told, and is not learned. ``costs``: what a pull of each arm costs, by
    arm, or one number for all (with 1 the budget counts pulls). ``known``: penalties that are known
    beforehand, by limit and arm: a price list. ``skip``: an arm that declines: a pull of it earns
    and incurs nothing.

    >>> task = Task(["haiku", "opus"], {"bad": 0.05, "dollars": 0.004},
    ...             Scales(penalty={"dollars": 0.05}))
    >>> task.channels
    ('cost', 'reward', 'bad', 'dollars')
    >>> task.normal_limits.round(6).tolist()
    [0.05, 0.08]
    """

    arms: Sequence[str]  # [K] all different; kept as a tuple
    limits: Mapping[str, float | Kind] | None = None  # [M]; kept as Named
    scales: Scales = Scales()  # or "grow": 1, and may grow
    name: str = ""
    smallest_cost: float | None = None
    slack: float | None = None
    limit: InitVar[float | Kind | Sequence[float] | Mapping[str, float | Kind] | None] = None
    safe: str | int | None = None  # kept as the name
    safe_rates: Mapping[str, float] = Named({})  # kept as Named, in the order of the limits
    expected: Mapping[str, Mapping[str, float]] = Named({})  # kept as Named, in order
    costs: float | Mapping[str, float] | None = None  # kept as Named, in order, or None
    known: Mapping[str, Mapping[str, float]] = Named({})  # kept as Named, in order
    skip: str | int | None = None  # kept as the name

    def __post_init__(self, limit: object) -> None:
        if isinstance(self.scales, str) and self.scales == "grow":
            object.__setattr__(self, "scales", Scales(grow=True))
        for field, kind, allowed in (
            ("arms", Iterable, "a list of names"),
            ("scales", Scales, "a Scales, or 'grow'"),
            ("name", str, "a string"),
        ):
            value = getattr(self, field)
            if not isinstance(value, kind) or (field == "arms" and isinstance(value, str)):
                raise ProblemError(f"{field} = {shown(value)}: must be {allowed}")
        if not isinstance(self.arms, NumberedNames):
            object.__setattr__(self, "arms", tuple(self.arms))
        check_names(self.arms)
        object.__setattr__(self, "limits", _read_limits(self.limits, limit))
        named = dict(zip(self.limit_names, self.limit_kinds, strict=True))
        for m, limit in enumerate(self.limit_kinds):
            with at(_limit_title(self.limit_names, m)):
                limit.weights(self.arms)
        costs, known = costs_of(self), known_penalties_of(self)
        self.__dict__["costs"] = None if costs is None else Named(costs)
        self.__dict__["known"] = Named({name: Named(by) for name, by in known.items()})
        self.__dict__["skip"] = skip_of(self)
        self.__dict__["scales"] = self._wide_enough(self.scales.for_limits(named))
        self._check_limits()
        self._check_facts()
        self.__dict__["safe"] = safe_name_of(self)
        self.__dict__["safe_rates"] = Named(safe_rates_of(self))
        expected = {arm: Named(means) for arm, means in expected_of(self).items()}
        self.__dict__["expected"] = Named(expected)

    def _wide_enough(self, scales: Scales) -> Scales:
        """The scales, no smaller than what is known of costs and penalties."""
        costs = cast(Mapping[str, float], self.costs or {})
        penalties = [
            max([scale, *self.known.get(name, {}).values()])
            for name, scale in zip(self.limit_names, scales.penalties, strict=True)
        ]
        widest = max([scales.cost, *costs.values()]) if scales.cost == 1.0 else scales.cost
        return replace(scales, cost=widest, penalty=tuple(penalties))

    def _check_limits(self) -> None:
        if self.depends_on_budget:
            return
        for m, limit in enumerate(self.normal_limits.tolist()):
            if not LEAST_LIMIT <= limit <= MOST_LIMIT:
                unit = self.limit_values[m] / limit
                allowed = f"between {LEAST_LIMIT * unit:.3g} and {MOST_LIMIT * unit:.3g}"
                beside = f"the scale of its penalty over that of {self.limit_kinds[m].per}"
                raise ProblemError(f"{self.limit_text(m)}: must lie {allowed}, beside {beside}")

    def _check_facts(self) -> None:
        if self.smallest_cost is not None:
            cost, most = number(self.smallest_cost, "smallest_cost"), self.scales.cost
            if not 0 < cost <= most * _ROUNDING:
                allowed = f"lie above 0, at most {most!r}, the scale of cost"
                raise ProblemError(f"smallest_cost = {cost!r}: must {allowed}")
            if cost < LEAST_COST * most:
                allowed = f"at least {LEAST_COST * most:g}, {LEAST_COST:g} times the scale of cost"
                raise ProblemError(f"smallest_cost = {cost!r}: must be {allowed}")
            object.__setattr__(self, "smallest_cost", cost)
        if self.slack is not None:
            slack = number(self.slack, "slack")
            if slack > 1:
                raise ProblemError(f"slack = {slack!r}: must be at most 1, a share of the limits")
            object.__setattr__(self, "slack", slack)

    @property
    def task(self) -> Task:
        """Itself: what takes a task takes a problem too, and asks for its task."""
        return self

    _known = task

    @property
    def limit_values(self) -> tuple[float, ...]:
        """The numbers of the M limits, in the user's units."""
        return tuple(limit.number for limit in self.limit_kinds)

    def at(self, budget: float) -> Task:
        """The task at a budget, in its units: a limit in total becomes one per unit of cost.

        >>> from tightrope.problem.limits import Limit
        >>> Task(["mail"], {"complaints": Limit(total=500)}).at(10_000).limits
        {'complaints': 0.05}
        """
        if not self.depends_on_budget:
            return self
        limits = [limit.at(budget).short for limit in self.limit_kinds]
        made = self._with(limits=Named(dict(zip(self.limit_names, limits, strict=True))))
        made._check_limits()
        return made

    @property
    def normal_smallest_cost(self) -> float | None:
        """As declared, or the smallest of the known costs."""
        smallest = self.smallest_cost
        if smallest is None and self.costs is not None:
            smallest = min(cast(Named[float], self.costs).values())
        return None if smallest is None else smallest / self.scales.cost

    @cached_property
    def safe_arm(self) -> int | None:
        """The number of the safe arm, from 0, if one is declared."""
        return None if self.safe is None else self.arms.index(self.safe)

    @cached_property
    def normal_safe_rates(self) -> Floats:
        """Upper bounds on the safe arm's penalty rates, normalised, [M]: the limits by default."""
        limits = zip(self.limit_names, self.limit_values, self.normal_limits, strict=True)
        rates = [c * (self.safe_rates.get(name, limit) / limit) for name, limit, c in limits]
        return np.asarray(rates, dtype=np.float64)

    @cached_property
    def normal_expected(self) -> Floats:
        """The expected mean outcomes, normalised, [K, 2 + M]; nan where nothing is declared."""
        means = np.full((self.arm_count, 2 + self.penalty_count), np.nan)
        place = {name: k for k, name in enumerate(self.arms)} if self.expected else {}
        for arm, channels in self.expected.items():
            for channel, mean in channels.items():
                j = self.channels.index(channel)
                means[place[arm], j] = mean / self.scales.channels[j]
        means.flags.writeable = False
        return means

    @cached_property
    def known_outcomes(self) -> Floats:
        """What is known of every arm's outcomes, in the user's units, [K, 2 + M]; nan elsewhere.

        Without what follows from another outcome of the same pull: see ``weights``.
        """
        found = np.full((self.arm_count, 2 + self.penalty_count), np.nan)
        if self.skip is not None:
            found[self.arms.index(self.skip), 1:] = 0.0
        if self.costs is not None:
            found[:, 0] = list(cast(Named[float], self.costs).values())
        for m, (name, limit) in enumerate(zip(self.limit_names, self.limit_kinds, strict=True)):
            if name in self.known:
                found[:, 2 + m] = list(self.known[name].values())
            elif limit.of == "pull":
                found[:, 2 + m] = limit.weights(self.arms)
            elif limit.of is not None:
                found[:, 2 + m] = np.nan
        found.flags.writeable = False
        return found

    @property
    def normal_known(self) -> Floats:
        """The same, normalised; -1 where nothing is known."""
        found = self.known_outcomes / np.array(self.scales.channels)
        return np.asarray(np.where(np.isnan(found), -1.0, found))

    @cached_property
    def weights(self) -> Floats:
        """Of limits on the cost or reward itself: each arm's part of it, [K, M]; -1 elsewhere."""
        found = np.full((self.arm_count, self.penalty_count), -1.0)
        for m, limit in enumerate(self.limit_kinds):
            if limit.of in ("cost", "reward"):
                found[:, m] = limit.weights(self.arms)
        return found

    @property
    def knows_something(self) -> bool:
        """Whether some outcome need not be told."""
        known = self.costs is not None or bool(self.known) or self.skip is not None
        return known or len(self.told) < self.penalty_count

    def require_as_many(self, penalties: Sequence[object], place: str) -> None:
        """Raise a ``ProblemError`` that names the place unless all told penalties are there."""
        if len(penalties) != len(self.told):
            raise ProblemError(
                f"{place}: penalties = {len(penalties)}, limits = {len(self.told)}; must be as many"
            )

    def to_toml(self) -> str:
        """The task as TOML, such that ``from_toml`` gives it back exactly.

        >>> print(Task(["haiku", "opus"], {"bad": 0.05}, smallest_cost=0.5).to_toml(), end="")
        limits = { bad = 0.05 }
        smallest_cost = 0.5
        <BLANKLINE>
        [[arms]]
        name = "haiku"
        <BLANKLINE>
        [[arms]]
        name = "opus"
        """
        facts = {"smallest_cost": self.smallest_cost, "slack": self.slack}
        head = entries_text(self.head_table() | facts)
        texts = [f"\n[[arms]]\n{entries_text({'name': name})}" for name in self.arms]
        return "".join([head, *texts]).lstrip()

    def head_table(self) -> dict[str, object]:
        """Name, limits, scales and declarations as TOML entries; empty where as by default."""
        named, scales = self.has_named_limits, self.scales
        values = [one.number if one.plain else one.table() for one in self.limit_kinds]
        penalties: object = alone(scales.penalties)
        if named:
            penalties = dict(zip(self.limit_names, scales.penalties, strict=True))
        table = {"cost": scales.cost, "reward": scales.reward, "penalty": penalties}
        caps = cast(Named[float], scales.grow)
        if caps:
            table["grow"] = dict(caps)
        return {
            "name": self.name,
            "limit": [] if named else alone(values),
            "limits": dict(zip(self.limit_names, values, strict=True)) if named else {},
            "scales": {} if set(scales.channels) == {1.0} and not caps else table,
            "safe": self.safe,
            "safe_rates": dict(self.safe_rates),
            "expected": {arm: dict(means) for arm, means in self.expected.items()},
            "costs": _one_for_all(cast(Named[float] | None, self.costs)),
            "known": {name: dict(by_arm) for name, by_arm in self.known.items()},
            "skip": self.skip,
        }

    _repr_html_ = html_of

    @classmethod
    def from_toml(cls, text: str) -> Task:
        """The task that a TOML text describes; see ``to_toml`` for its shape."""
        return cls.from_table(table_of(text))

    @classmethod
    def from_table(cls, table: dict[str, Any]) -> Task:
        """As ``from_toml``, from the table of the text."""
        known_keys(table, (*HEAD_KEYS, *FACT_KEYS))
        arms = table.get("arms", [])
        if not isinstance(arms, list):
            raise ProblemError(f"arms = {shown(arms)}: must be [[arms]] tables")
        names = []
        for k, arm in enumerate(arms, start=1):
            with at(f"arm {k}"):
                names.append(known_keys(arm, ("name",)).get("name", f"arm {k}"))
        facts = {key: table[key] for key in FACT_KEYS if key in table}
        return cls(names, **read_head(table), **facts)


def holds_task(table: Mapping[str, Any]) -> bool:
    """Whether the arms of a TOML text, read into a table, have names alone."""
    arms = table.get("arms")
    return (
        bool(arms)
        and isinstance(arms, list)
        and all(isinstance(arm, dict) and set(arm) <= {"name"} for arm in arms)
    )


def read_head(table: Mapping[str, Any]) -> dict[str, Any]:
    """All but the arms and facts out of a TOML table, as a constructor takes them."""
    with at("scales"):
        given = table.get("scales", {})
        if given == "grow":
            given = {"grow": True}
        scales = Scales(**known_keys(given, ("cost", "reward", "penalty", "grow")))
    limits = table.get("limits")
    if limits is not None and not isinstance(limits, dict):
        allowed = "a table of limits by name, such as { bad = 0.05 }"
        raise ProblemError(f"limits = {shown(limits)}: must be {allowed}")
    name, limit = table.get("name", ""), table.get("limit")
    declared = {key: table[key] for key in DECLARED_KEYS if key in table}
    return {"limit": limit, "limits": limits, "scales": scales, "name": name, **declared}


def _read_limits(limits: object, limit: object) -> Named[float | Kind]:
    """The limits by name, from the long form or the short one."""
    if limits is not None and limit is not None:
        raise ProblemError(
            f"limit = {shown(limit)}: must not be given beside limits = {shown(limits)}"
        )
    if isinstance(limit, Mapping) and not _is_one(limit):
        limits = limit
    if limits is None:
        given = _as_several(limit)
        limits = dict(zip(channel_names(len(given))[2:], given, strict=True))
    elif isinstance(limits, Mapping):
        _check_limit_names(tuple(limits))
    else:
        raise ProblemError(f"limits = {shown(limits)}: must be numbers by name, or use limit")
    names = tuple(limits)
    places = [_limit_title(names, m) for m in range(len(names))]
    told = zip(names, limits.values(), places, strict=True)
    return Named({name: _read_limit(value, place) for name, value, place in told})


def _is_one(limit: Mapping[Any, Any]) -> bool:
    """Whether a table is of one limit, and not of several by name."""
    return bool(set(limit) & {"at_most", "total", "share"})


def _as_several(limit: object) -> list[Any]:
    """None, a limit or several as a list."""
    if limit is None:
        return []
    if isinstance(limit, str | Kind | Mapping) or not isinstance(limit, Iterable):
        return [limit]
    return list(limit)


def _one_for_all(costs: Named[float] | None) -> object:
    """The costs as TOML: one number if all are the same."""
    if costs is None:
        return None
    values = list(costs.values())
    return values[0] if len(set(values)) == 1 else dict(costs)


def _read_limit(value: object, place: str) -> float | Kind:
    """A checked limit: the number alone if it is per unit of cost."""
    if not isinstance(value, Kind | Mapping):
        return quantity(value, place)
    with at(place):
        limit = as_limit(value)
    if isinstance(limit, Share):
        return limit
    return limit.with_number(quantity(limit.number, place)).short


def _check_limit_names(names: Sequence[object]) -> None:
    for name in names:
        if not isinstance(name, str) or not name:
            raise ProblemError(f"limit name {shown(name)}: must be a string, not empty")
        if name in ("cost", "reward"):
            raise ProblemError(f"limit name {name!r}: must not be that of another channel")


def _limit_title(names: tuple[str, ...], m: int) -> str:
    """What messages call limit number m, from 0."""
    if names != channel_names(len(names))[2:]:
        return f"limit {names[m]!r}"
    return "limit" if len(names) == 1 else f"limit {m + 1}"


def check_names(names: Sequence[object]) -> None:
    """Raise a ``ProblemError`` unless names of arms are strings, not empty, all different."""
    if not names:
        raise ProblemError("arms = []: must hold at least one arm")
    if isinstance(names, NumberedNames):
        return
    first_use: dict[str, int] = {}
    for k, name in enumerate(names, start=1):
        if not isinstance(name, str) or not name:
            raise ProblemError(f"arm name {shown(name)}: must be a string, not empty")
        if first_use.setdefault(name, k) != k:
            raise ProblemError(
                f"arm {k}: name {name!r} is that of arm {first_use[name]}; names must differ"
            )
