"""What a decision maker knows: names of arms, limits, scales and declared facts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from functools import cached_property
from typing import Any, cast

import numpy as np

from tightrope.errors import ProblemError
from tightrope.problem.contexts import Types, row_names
from tightrope.problem.declared import (
    costs_of,
    expected_of,
    known_penalties_of,
    safe_name_of,
    safe_rates_of,
    skip_of,
)
from tightrope.problem.features import Features, Mixed, as_contexts, contexts_table
from tightrope.problem.given_limits import read_limits
from tightrope.problem.known import Known, limit_title
from tightrope.problem.limits import Kind
from tightrope.problem.meaning import require_binding, warn_of_numbers
from tightrope.problem.named import Named, NumberedNames, check_names
from tightrope.problem.scales import UNSCALED, Scales
from tightrope.problem.spaces import Space, space_of
from tightrope.problem.toml import alone, entries_text, table_of
from tightrope.problem.values import Floats, at, known_keys, number, shown
from tightrope.showing import html_of

# of a task's TOML and of a problem's
DECLARED_KEYS = ("safe", "safe_rates", "expected", "costs", "known", "skip", "contexts", "space")
HEAD_KEYS = ("name", "limit", "limits", "scales", "arms", *DECLARED_KEYS)
FACT_KEYS = ("smallest_cost", "slack")  # of a task's alone
_ROUNDING = 1.0 + 1e-12  # a computed mean may exceed the largest value by this
LEAST_LIMIT, MOST_LIMIT = 1e-15, 1e15  # of a normalised limit
LEAST_COST = 1e-15  # of a declared lower bound on the mean costs, normalised


@dataclass(frozen=True)
class Task(Known):
    """What is known before the first pull, in the user's units.

    ``limits``: the allowed penalties, by name. Each is a :class:`Limit` per unit of cost, per pull,
    per reward or in total, or its text, such as ``"5% per pull"``. A plain number means per unit of
    cost and raises a warning. ``limit=0.8`` is short for one limit called penalty, per unit of
    cost; ``limit=(a, b)`` for penalty 1 and penalty 2. A limit that no run can break raises an
    error.

    ``smallest_cost``: a lower bound on every arm's mean cost, if known. ``slack``: some mixture of
    the arms keeps every penalty below (1 - slack) times its limit, if known; 0 or less means that
    no mixture does.

    ``safe``: an arm, by name or number, that keeps every limit on average. ``safe_rates``: tighter
    upper bounds on its penalty rates, by limit, if known; with types of requests, bounds for every
    type, as one number or by type (the largest counts). ``expected``: guesses of mean outcomes, by
    arm and channel (cost, reward, a limit).

    Known outcomes are neither reported nor learned. ``costs``: the cost of a pull, by arm, or one
    number for all arms (with 1 the budget counts pulls). ``known``: known penalties, by limit and
    arm: a price list. ``skip``: an arm that declines the request; it earns no reward and incurs no
    penalty.

    ``contexts``: what a policy sees of a request before it chooses: its type, as :class:`Types` or
    a list of their names, :class:`Features`, or both as ``problem.Mixed``.

    ``arms`` can be an :class:`Interval` or a box, kept as ``space``: its points are the arms.

    >>> task = Task(["haiku", "opus"], {"bad": "5% per pull", "dollars": "0.004 per pull"},
    ...             Scales(penalty={"dollars": 0.05}))
    >>> task.channels
    ('cost', 'reward', 'bad', 'dollars')
    >>> task.normal_limits.round(6).tolist()
    [0.05, 0.08]
    """

    arms: Sequence[str]  # [K] all different; kept as a tuple
    limits: Mapping[str, float | str | Kind] | None = None  # [M]; kept as Named
    scales: Scales = UNSCALED  # or "grow": 1, and may grow
    name: str = ""
    smallest_cost: float | None = None
    slack: float | None = None
    limit: InitVar[float | str | Kind | Sequence[float] | Mapping[str, Any] | None] = None
    safe: str | int | None = None  # kept as the name
    safe_rates: Mapping[str, Any] = Named({})  # kept as Named, in the order of the limits
    expected: Mapping[str, Mapping[str, float]] = Named({})  # kept as Named, in order
    costs: float | Mapping[str, float] | None = None  # kept as Named, in order, or None
    known: Mapping[str, Mapping[str, float]] = Named({})  # kept as Named, in order
    skip: str | int | None = None  # kept as the name
    # Names of types are kept as Types.
    contexts: Types | Features | Mixed | Sequence[str] | None = None
    space: Space | None = field(default=None, repr=False)

    def __post_init__(self, limit: object) -> None:
        if isinstance(self.scales, str) and self.scales == "grow":
            object.__setattr__(self, "scales", Scales(grow=True))
        self._set_space()
        for one, kind, allowed in (
            ("arms", Iterable, "a list of names"),
            ("scales", Scales, "a Scales, or 'grow'"),
            ("name", str, "a string"),
        ):
            value = getattr(self, one)
            if not isinstance(value, kind) or (one == "arms" and isinstance(value, str)):
                raise ProblemError(f"{one} = {shown(value)}: must be {allowed}")
        self.__dict__["contexts"] = as_contexts(self.contexts)
        if not isinstance(self.arms, NumberedNames):
            object.__setattr__(self, "arms", tuple(self.arms))
        check_names(self.arms)
        given = self.limits if limit is None else limit
        object.__setattr__(self, "limits", read_limits(self.limits, limit))
        named = dict(zip(self.limit_names, self.limit_kinds, strict=True))
        for m, limit in enumerate(self.limit_kinds):
            with at(limit_title(self.limit_names, m)):
                limit.weights(self.arms)
        costs, known = costs_of(self), known_penalties_of(self)
        self.__dict__["costs"] = None if costs is None else Named(costs)
        self.__dict__["known"] = Named({name: Named(by) for name, by in known.items()})
        self.__dict__["skip"] = skip_of(self)
        wide = self._wide_enough(self.scales.for_limits(named))
        self.__dict__["scales"] = wide.for_limits(named)  # of a limit on the cost: that of the cost
        self._check_limits()
        self._check_facts()
        self.__dict__["safe"] = safe_name_of(self)
        self.__dict__["safe_rates"] = Named(safe_rates_of(self))
        expected = {arm: Named(means) for arm, means in expected_of(self).items()}
        self.__dict__["expected"] = Named(expected)
        if not isinstance(given, Named):  # those of a file or of another task are Named
            require_binding(self, self.limit_names)
            warn_of_numbers(self, given)

    def _set_space(self) -> None:
        """Note the space whose grid the arms are."""
        space = self.arms if isinstance(self.arms, Space) else space_of(self.space)
        if space is not None and tuple(self.arms) != space.arms:
            raise ProblemError(f"arms = {shown(self.arms)}: must be the grid of {space!r}")
        self.__dict__["space"] = space

    def _wide_enough(self, scales: Scales) -> Scales:
        """The scales, at least as large as the known costs and penalties."""
        costs = cast(Mapping[str, float], self.costs or {})
        penalties = [
            max([scale, *self.known.get(name, {}).values()])
            for name, scale in zip(self.limit_names, scales.penalties, strict=True)
        ]
        widest = max([scales.cost, *costs.values()]) if scales.cost == 1.0 else scales.cost
        return scales.changed(cost=widest, penalty=tuple(penalties))

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
                raise ProblemError(f"slack = {slack!r}: must be a share of the limits, at most 1")
            object.__setattr__(self, "slack", slack)

    @property
    def task(self) -> Task:
        """Itself. Functions that take a task also take a problem and read its task."""
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
        if self.whole is not self:
            return self.whole.at(budget).over_rows
        limits = [limit.at(budget).short for limit in self.limit_kinds]
        made = self._with(limits=Named(dict(zip(self.limit_names, limits, strict=True))))
        made._check_limits()
        return made

    @property
    def normal_smallest_cost(self) -> float | None:
        """The declared value, or the smallest known cost."""
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
    def known_safe_rates(self) -> Floats:
        """The safe arm's penalty rates that follow from known values, normalised, [M], or nan.

        They follow from a known penalty per pull, or from a share.

        >>> Task(["a", "b"], {"new": "at least 20% for b"}, safe="a").known_safe_rates.tolist()
        [1.0]
        """
        rates = np.full(self.penalty_count, np.nan)
        if (safe := self.safe_arm) is not None:
            for m, limit in enumerate(self.limit_kinds):
                if limit.unit.channel == "pull" and self.normal_known[safe, 2 + m] >= 0.0:
                    rates[m] = self.normal_known[safe, 2 + m]
                elif limit.of == limit.unit.channel:
                    rates[m] = self.weights[safe, m]
        return rates

    @property
    def safe_rates_missing(self) -> list[str]:
        """The limits for which the safe arm's rate is neither declared nor known."""
        known = zip(self.limit_names, self.known_safe_rates, strict=True)
        return [name for name, rate in known if name not in self.safe_rates and np.isnan(rate)]

    @property
    def not_safe(self) -> str:
        """The first limit that the safe arm is known to break, as messages show it."""
        broken = np.flatnonzero(self.known_safe_rates > self.normal_limits * _ROUNDING)
        return self.limit_text(int(broken[0])) if len(broken) else ""

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
        """Every arm's known outcomes, in the user's units, [K, 2 + M]; nan elsewhere.

        Outcomes that follow from another outcome of the same pull are in ``weights``.
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
        """The known outcomes, normalised; -1 where unknown."""
        found = self.known_outcomes / np.array(self.scales.channels)
        return np.asarray(np.where(np.isnan(found), -1.0, found))

    @cached_property
    def weights(self) -> Floats:
        """For limits on the cost or reward, each arm's weight, [K, M]; -1 for other limits."""
        found = np.full((self.arm_count, self.penalty_count), -1.0)
        for m, limit in enumerate(self.limit_kinds):
            if limit.of in ("cost", "reward"):
                found[:, m] = limit.weights(self.arms)
        return found

    @property
    def knows_something(self) -> bool:
        """Whether some outcome is known and not reported."""
        known = self.costs is not None or bool(self.known) or self.skip is not None
        return known or len(self.told) < self.penalty_count

    @cached_property
    def over_rows(self) -> Task:
        """The same over rows, ``type * K + arm``: each is an arm of its own; itself without types.

        What is known, expected or a weight of an arm is so for each of its rows.
        """
        types = self.contexts
        if not isinstance(types, Types):
            return self
        names = row_names(types, self.arms)
        made = self._with(arms=names, contexts=None, safe=None, safe_rates={})
        for name in ("known_outcomes", "weights", "normal_expected"):
            made.__dict__[name] = np.tile(getattr(self, name), (types.count, 1))
        made.__dict__["types"], made.__dict__["whole"] = types.count, self
        return made

    @property
    def feature_columns(self) -> int:
        """D: the columns of a request's features, the intercept included; 0 without features."""
        return getattr(self.contexts, "columns", 0)

    @cached_property
    def whole(self) -> Task:
        """The task that this one is the rows of; else itself."""
        return self

    def require_as_many(self, penalties: Sequence[object], place: str) -> None:
        """Raise a ``ProblemError`` that names the place if a reported penalty is missing."""
        if len(penalties) != len(self.told):
            raise ProblemError(
                f"{place}: penalties = {len(penalties)}, limits = {len(self.told)}; must be equal"
            )

    def to_toml(self) -> str:
        """The task as TOML; ``from_toml`` restores it exactly.

        >>> task = Task(["haiku", "opus"], {"bad": "5% per pull"}, smallest_cost=0.5)
        >>> print(task.to_toml(), end="")
        limits = { bad = { at_most = 0.05, per = "pull" } }
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
        names = self.names if self.space is None else ()
        texts = [f"\n[[arms]]\n{entries_text({'name': name})}" for name in names]
        return "".join([head, *texts]).lstrip()

    def head_table(self) -> dict[str, object]:
        """Name, limits, scales and declarations as TOML entries; empty if they are the defaults."""
        named, scales = self.has_named_limits, self.scales
        values = [one.number if one.plain else one.table() for one in self.limit_kinds]
        penalties: object = alone(scales.penalties)
        if named:
            penalties = dict(zip(self.limit_names, scales.penalties, strict=True))
        table = {"cost": scales.cost, "reward": scales.reward, "penalty": penalties}
        caps = cast(Named[float], scales.grow)
        unscaled = set(scales.channels) == {1.0} and not caps and not scales.says_cost
        if caps:
            table["grow"] = dict(caps)
        return {
            "name": self.name,
            "limit": [] if named else alone(values),
            "limits": dict(zip(self.limit_names, values, strict=True)) if named else {},
            "scales": {} if unscaled else table,
            "safe": self.safe,
            "safe_rates": dict(self.safe_rates),
            "expected": {arm: dict(means) for arm, means in self.expected.items()},
            "costs": _one_for_all(cast(Named[float] | None, self.costs)),
            "known": {name: dict(by_arm) for name, by_arm in self.known.items()},
            "skip": self.skip,
            "contexts": contexts_table(cast(Any, self.contexts)),
            "space": {} if self.space is None else self.space.table(),
        }

    _repr_html_ = html_of

    @classmethod
    def from_toml(cls, text: str) -> Task:
        """The task that a TOML text describes; see ``to_toml`` for its shape."""
        return cls.from_table(table_of(text))

    @classmethod
    def from_table(cls, table: dict[str, Any]) -> Task:
        """Same as ``from_toml``, from the parsed table."""
        known_keys(table, (*HEAD_KEYS, *FACT_KEYS))
        arms = table.get("arms", [])
        if not isinstance(arms, list):
            raise ProblemError(f"arms = {shown(arms)}: must be [[arms]] tables, or a list of names")
        names = [arm for arm in arms if isinstance(arm, str)]
        for k, arm in enumerate(arms if len(names) < len(arms) else (), start=1):
            with at(f"arm {k}"):
                names.append(known_keys(arm, ("name",)).get("name", f"arm {k}"))
        facts = {key: table[key] for key in FACT_KEYS if key in table}
        if "space" in table and not arms:
            names = list(cast(Space, space_of(table["space"])).arms)
        return cls(names, **read_head(table), **facts)


def holds_task(table: Mapping[str, Any]) -> bool:
    """Whether the arms of a parsed TOML text have only names."""
    arms = table.get("arms")
    if "space" in table and not arms:
        return True
    return (
        bool(arms)
        and isinstance(arms, list)
        and all(
            isinstance(arm, str) or (isinstance(arm, dict) and set(arm) <= {"name"}) for arm in arms
        )
    )


def read_head(table: Mapping[str, Any]) -> dict[str, Any]:
    """A TOML table without arms and facts, as arguments of a constructor."""
    with at("scales"):
        given = table.get("scales", {})
        if given == "grow":
            given = {"grow": True}
        scales = Scales(**known_keys(given, ("cost", "reward", "penalty", "grow")))
    limits = table.get("limits")
    if limits is not None and not isinstance(limits, dict):
        allowed = "a table of limits by name, such as { bad = 0.05 }"
        raise ProblemError(f"limits = {shown(limits)}: must be {allowed}")
    read = read_limits(limits, table.get("limit"))
    declared = {key: table[key] for key in DECLARED_KEYS if key in table}
    return {"limits": read, "scales": scales, "name": table.get("name", ""), **declared}


def _one_for_all(costs: Named[float] | None) -> object:
    """The costs as TOML: one number if all are the same."""
    if costs is None:
        return None
    values = list(costs.values())
    return values[0] if len(set(values)) == 1 else dict(costs)
