"""An arm: the laws of a pull's cost, reward and penalties; and many zero-one arms in one array."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from tightrope.errors import ProblemError
from tightrope.problem.cells import Cells, OneCell
from tightrope.problem.distributions import Bernoulli, Empirical, outcome_from_toml, same_rows
from tightrope.problem.named import Named, NumberedNames, channel_names, check_names
from tightrope.problem.outcomes import LEAST_MEAN, Law, Outcome
from tightrope.problem.rows import Columns, RowReader
from tightrope.problem.task import Task
from tightrope.problem.toml import alone, entries_text
from tightrope.problem.values import Floats, at, known_keys, number, shown

__all__ = [
    "Arm",
    "BernoulliArms",
    "KnownLaws",
    "arm_texts",
    "odds_of",
    "read_arms",
    "row_columns",
]


@cache
def _is_a(kind: type, base: type) -> bool:
    """``issubclass`` with a cache: it is slow for abstract classes, and there may be 10^6 arms."""
    return issubclass(kind, base)


def _one_or_more(penalty: Any) -> tuple[Outcome, ...] | Named[Outcome]:
    """One or several outcomes as a tuple; a mapping as ``Named``."""
    kind: type = type(penalty)
    if _is_a(kind, Outcome) or not isinstance(penalty, Iterable):
        return (penalty,)
    return Named(penalty) if isinstance(penalty, Mapping) else tuple(penalty)


@dataclass(frozen=True)
class Arm:
    """One arm: the laws of a pull's cost, reward and penalties.

    They are independent, except for ``CostAbove`` and the columns of observed rows.

    ``penalty``: one outcome, or one per limit, in the limits' order or by their names.

    >>> Arm("bold", cost=Bernoulli(0.4), reward=Bernoulli(0.8), penalty=Bernoulli(0.6)).name
    'bold'
    """

    name: str
    cost: Law
    reward: Outcome
    penalty: Outcome | Sequence[Outcome] | Mapping[str, Outcome] = ()  # kept as a tuple or Named

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise ProblemError(f"arm name {shown(self.name)}: must be a string, not empty")
        object.__setattr__(self, "penalty", _one_or_more(self.penalty))
        outcomes = self.outcomes
        if not _is_a(type(self.cost), Law) or not all(_is_a(type(o), Outcome) for o in outcomes):
            self._refuse_outcome()
        rows = [o for o in outcomes if type(o) is Empirical]
        if rows and not (
            len(rows) == len(outcomes) and all(same_rows(rows[0], one) for one in rows[1:])
        ):
            raise ProblemError(
                f"arm {self.name!r}: {', '.join(self.channels)} must all be columns of the same"
                " rows, or none of them"
            )

    def _refuse_outcome(self) -> None:
        for channel, outcome in zip(self.channels, self.outcomes, strict=True):
            if not isinstance(outcome, Law if channel == "cost" else Outcome):
                allowed = "a law of its own" if channel == "cost" else "a law"
                raise ProblemError(
                    f"arm {self.name!r}, {channel}: {shown(outcome)} must be {allowed},"
                    " such as Bernoulli(0.4)"
                )

    @classmethod
    def from_rows(
        cls,
        name: str,
        rows: npt.ArrayLike,
        penalties: Sequence[str] = (),
        weights: npt.ArrayLike | None = None,
    ) -> Arm:
        """An arm from observed rows (cost, reward, penalty 1..M) [n, 2 + M].

        ``penalties``: the names of the columns after cost and reward; by default these columns are
        in the order of the limits. ``weights`` [n]: how likely each row is, in any unit; None
        makes them equally likely.

        >>> Arm.from_rows("seen", [(1, 0.5, 0), (0.2, 0.1, 1)]).cost.mean
        0.6
        """
        fast = isinstance(rows, np.ndarray) and rows.dtype.kind in "fiu"
        table = np.asarray(rows) if fast else np.array(rows, dtype=object)
        if table.ndim != 2 or table.shape[1] < 2 or not table.size:
            raise ProblemError(
                f"arm {name!r}, rows: {shown(rows)} must be rows of equal length:"
                " cost, reward and a penalty for each limit"
            )
        channels = ("cost", "reward", *penalties)
        if not penalties:
            channels = channel_names(table.shape[1] - 2)
        if len(channels) != table.shape[1]:
            raise ProblemError(
                f"arm {name!r}, rows: columns = {table.shape[1]}, must be {', '.join(channels)}"
            )
        if not fast or not np.isfinite(table).all():
            for channel, column in zip(channels, table.T.tolist(), strict=True):
                for i, value in enumerate(column, start=1):
                    number(value, f"arm {name!r}, rows: {channel} in row {i}")
        return cls.from_columns(name, list(table.astype(np.float64).T), penalties, weights)

    @classmethod
    def from_columns(
        cls,
        name: str,
        columns: Sequence[npt.ArrayLike],
        penalties: Sequence[str] = (),
        weights: npt.ArrayLike | None = None,
    ) -> Arm:
        """As ``from_rows``, from the columns [2 + M], each [n]; read-only arrays are not copied.

        >>> Arm.from_columns("seen", [[1, 0.2], [0.5, 0.1], [0, 1]]).cost.mean
        0.6
        """
        if len(columns) < 2 or (penalties and len(columns) != 2 + len(penalties)):
            allowed = ", ".join(("cost", "reward", *penalties))
            raise ProblemError(f"arm {name!r}, columns = {len(columns)}: must be {allowed}")
        with at(f"arm {name!r}"):
            cost, reward, *rest = map(Empirical, cast(Sequence[Floats], columns))
        named = dict(zip(penalties, rest, strict=True)) if penalties else rest
        made = cls(name, cost, reward, named)
        return made if weights is None else made.weighted(weights)

    def weighted(self, weights: npt.ArrayLike) -> Arm:
        """The same observed rows with other weights [n], in any unit.

        >>> seen = Arm.from_rows("seen", [(1, 0.5, 0), (0.2, 0.1, 1)])
        >>> seen.weighted([3, 1]).cost.mean
        0.8
        """
        outcomes = self.outcomes
        if not all(isinstance(one, Empirical) for one in outcomes):
            raise ProblemError(f"arm {self.name!r}: weights need observed rows; it has laws")
        with at(f"arm {self.name!r}"):
            cost: Empirical = replace(cast(Any, self.cost), weights=weights)
        reward, *rest = [replace(cast(Any, one), weights=cost.weights) for one in outcomes[1:]]
        named = isinstance(self.penalty, Mapping)
        penalty = dict(zip(self.channels[2:], rest, strict=True)) if named else rest
        return Arm(self.name, cost, reward, penalty)

    @property
    def penalties(self) -> tuple[Outcome, ...]:
        """The M penalties; those of an arm of a problem are in the order of its limits."""
        given = self.penalty
        if isinstance(given, Mapping):
            return tuple(given.values())
        return cast(tuple[Outcome, ...], given)

    def in_order(self, task: Task) -> Arm:
        """The same arm with its penalties in the order of the limits; raises if one is missing."""
        if isinstance(self.penalty, Mapping):
            with at(f"arm {self.name!r}"):
                ordered = Named(self.penalty).in_order(task.told_names, "penalty", None)
            return replace(self, penalty=tuple(ordered))
        task.require_as_many(self.penalties, f"arm {self.name!r}")
        return self

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        """Every channel's outcome as declared, [2 + M]."""
        return (self.cost, self.reward, *self.penalties)

    @property
    def channels(self) -> tuple[str, ...]:
        """The names of the channels, [2 + M]."""
        if isinstance(self.penalty, Mapping):
            return ("cost", "reward", *self.penalty)
        return channel_names(len(self.penalties))

    @cached_property
    def laws(self) -> tuple[Law, ...]:
        """The marginal law of every channel, [2 + M], without the dependence between channels."""
        return self.marginals()

    def marginals(self) -> tuple[Law, ...]:
        """As ``laws``, but not cached: there may be 10^6 arms."""
        return tuple([outcome.marginal(self.cost) for outcome in self.outcomes])

    def cells(self) -> tuple[Cells, ...]:
        """The table of every channel, [2 + M], in the user's units."""
        cuts = [cut for outcome in self.outcomes for cut in outcome.cuts]
        with at(f"arm {self.name!r}, cost"):
            cost = self.cost.cells(cuts)
        return (cost, *(outcome.cells_beside(cost) for outcome in self.outcomes[1:]))

    def short_cells(self) -> Sequence[OneCell | Cells]:
        """As ``cells``, but as plain numbers if every channel is a single cell."""
        short = [outcome.one_cell() for outcome in self.outcomes]
        return self.cells() if None in short else cast(list[OneCell], short)

    @property
    def sources(self) -> list[int]:
        """The number of the uniform that draws each channel, [2 + M]: its own, or 0, the cost's."""
        return [0 if o.shares_cost_draw else j for j, o in enumerate(self.outcomes)]

    def check_range(self, task: Task) -> None:
        """Raise a ``ProblemError`` unless outcomes are in [0, scale] and the mean cost suffices."""
        told = zip(task.told_channels, self.marginals(), task.told_scales, strict=True)
        for channel, law, scale in told:
            if law.low < 0:
                raise ProblemError(
                    f"arm {self.name!r}, {channel}: outcome {law.low!r} must not be below 0"
                )
            if law.high > scale:
                raise ProblemError(
                    f"arm {self.name!r}, {channel}: outcome {law.high!r} must lie in"
                    f" [0, {scale!r}]; declare a scale of {channel} of at least {law.high!r}"
                )
        mean, least = self.cost.mean, self.cost.least_mean() * task.scales.cost
        if mean < least:
            allowed = f"{shown(self.cost)} has mean {mean!r}; must be at least {least:.3g}"
            allowed = allowed if mean > 0 else "mean 0.0 must be positive"
            raise ProblemError(
                f"arm {self.name!r}, cost: {allowed}, or pulls would never spend the budget"
            )


class BernoulliArms(Sequence[Arm]):
    """Arms with zero-one outcomes as an array of probabilities; each ``Arm`` is made on access."""

    def __init__(self, odds: Floats, names: Sequence[str] | None = None) -> None:
        self.odds = odds
        self.names = NumberedNames(len(odds)) if names is None else tuple(names)

    def check_names(self) -> None:
        """Raise a ``ProblemError`` unless there are as many names as arms, all different."""
        if len(self.names) != len(self):
            raise ProblemError(f"names: {len(self.names)} must be {len(self)}, one per arm")
        if len(self):
            with at("names"):
                check_names(self.names)

    def check(self, task: Task) -> None:
        """Raise a ``ProblemError`` unless all probabilities are valid for an ``Arm``."""
        task.require_as_many(range(self.odds.shape[1] - 2), "penalties")
        fine = (self.odds >= 0.0) & (self.odds <= 1.0)
        fine[:, 0] &= self.odds[:, 0] >= LEAST_MEAN
        if not fine.all():
            k, channel = np.argwhere(~fine)[0]
            value = float(self.odds[k, channel])
            least = f"at least {LEAST_MEAN:.3g}" if value > 0 else "positive"
            allowed = "lie in [0, 1]" if channel else f"be {least}, at most 1"
            raise ProblemError(
                f"arm {k + 1}, {task.told_channels[channel]}: bernoulli p = {value!r}:"
                f" must {allowed}"
            )

    def __len__(self) -> int:
        return len(self.odds)

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return tuple(self[k] for k in range(*place.indices(len(self))))
        cost, reward, *penalties = map(Bernoulli, self.odds[place].tolist())
        return Arm(self.names[place], cost, reward, penalties)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, BernoulliArms):
            return np.array_equal(self.odds, other.odds) and self.names == other.names
        return tuple(self) == other

    def __hash__(self) -> int:
        return hash(tuple(self))


def odds_of(
    costs: npt.ArrayLike, rewards: npt.ArrayLike, penalties: npt.ArrayLike | None
) -> Floats:
    """The probabilities of all channels [K, 2 + M], read-only; raises if the shapes differ."""
    columns = {}
    for place, given in (("costs", costs), ("rewards", rewards), ("penalties", penalties)):
        if given is not None:
            try:
                columns[place] = np.asarray(given, dtype=np.float64)
            except (TypeError, ValueError):
                raise ProblemError(f"{place} = {shown(given)}: must be numbers") from None
    arms = columns["costs"].size
    for place, column in columns.items():
        most = 2 if place == "penalties" else 1  # axes
        if column.shape[:1] != (arms,) or column.ndim > most:
            allowed = f"one number per arm, as many as the {arms} costs"
            raise ProblemError(f"{place}: shape {column.shape} must be {allowed}")
    odds = np.column_stack(list(columns.values()))
    odds.flags.writeable = False
    return odds


# --- TOML ---------------------------------------------------------------------------------

_KEYS = ("name", "cost", "reward", "penalty", "penalties", "rows", "weights")


class KnownLaws(NamedTuple):
    """What a file declares to be known, as it stands there: arms may leave these laws out."""

    costs: object
    skip: object
    limits: Sequence[str]  # the names of the penalties that arms have laws of
    observed: RowReader | None = None  # the rows of arms that have only their number

    def fill(self, name: object, entries: dict[str, Any]) -> None:
        """Add the laws that an arm has left out."""
        cost = self.costs.get(name) if isinstance(self.costs, dict) else self.costs
        if cost is not None and "rows" not in entries:
            entries.setdefault("cost", {"constant": cost})
        if name == self.skip and name is not None:
            entries.setdefault("reward", {"constant": 0.0})
            if "penalty" not in entries and self.limits:
                zeros = {limit: {"constant": 0.0} for limit in self.limits}
                entries["penalties"] = zeros | entries.get("penalties", {})


def read_arms(tables: object, place: str, laws: KnownLaws) -> tuple[Arm, ...]:
    """The arms of a list of TOML tables; ``place`` is the tables' header, for messages."""
    if not isinstance(tables, list):
        raise ProblemError(f"arms = {shown(tables)}: must be [[{place}]] tables")
    return tuple(_read_arm(table, k, laws) for k, table in enumerate(tables, start=1))


def _read_arm(table: object, k: int, laws: KnownLaws) -> Arm:
    """Arm number ``k``, from 1, read from its TOML table."""
    with at(f"arm {k}"):
        entries = dict(known_keys(table, _KEYS))
    name, limit_names = entries.pop("name", f"arm {k}"), laws.limits
    laws.fill(name, entries)
    if set(entries) == {"rows"} and type(entries["rows"]) is int:
        return _take_rows(name, entries["rows"], laws)
    if {"rows"} <= set(entries) <= {"rows", "weights"}:
        return Arm.from_rows(name, entries["rows"], limit_names, entries.get("weights"))
    if (
        {"rows", "weights"} & set(entries)
        or not {"cost", "reward"} <= set(entries)
        or {"penalty", "penalties"} <= set(entries)
    ):
        given = ", ".join(entries) or "nothing"
        raise ProblemError(
            f"arm {name!r}: has {given}; must have cost, reward and a penalty for each limit,"
            " or rows alone"
        )
    penalty = _read_penalties(name, entries, limit_names)
    cost, reward = (_read_outcome(name, key, entries[key]) for key in ("cost", "reward"))
    return Arm(name, cast(Law, cost), reward, penalty)  # Arm checks that cost is a Law


def _take_rows(name: str, count: int, laws: KnownLaws) -> Arm:
    """An arm whose rows are not in the TOML."""
    with at(f"arm {name!r}"):
        if laws.observed is None:
            allowed = "be the rows themselves, or their number beside a file of rows at the top"
            raise ProblemError(f"rows = {count}: must {allowed}")
        columns, weights = laws.observed.take(count)
    return Arm.from_columns(name, columns, laws.limits, weights)


def _read_penalties(
    name: object, entries: Mapping[str, Any], limit_names: Sequence[str]
) -> list[Outcome] | dict[str, Outcome]:
    """The arm's penalties, in the order of the limits or by their names."""
    if "penalties" in entries:
        named = entries["penalties"]
        if not isinstance(named, dict):
            allowed = "a table of laws by limit, such as penalties.bad = { bernoulli = 0.1 }"
            raise ProblemError(f"arm {name!r}, penalties: {shown(named)} must be {allowed}")
        return {key: _read_outcome(name, key, law) for key, law in named.items()}
    laws = entries.get("penalty", [])
    laws = laws if isinstance(laws, list) else [laws]
    known = len(limit_names) == len(laws)
    channels = limit_names if known else channel_names(len(laws))[2:]
    return [_read_outcome(name, key, law) for key, law in zip(channels, laws, strict=True)]


def _read_outcome(name: object, channel: str, law: object) -> Outcome:
    with at(f"arm {name!r}, {channel}"):
        return outcome_from_toml(law)


def row_columns(arm: Arm) -> Columns:
    """The columns of an arm's rows, [2 + M]; none if it has laws."""
    return [outcome for outcome in arm.outcomes if isinstance(outcome, Empirical)]


def arm_texts(arms: Iterable[Arm], place: str, task: Task, *, counts: bool) -> list[str]:
    """The arms as TOML, each under its table's header; with ``counts``, rows as their number."""
    return [f"\n[[{place}]]\n{_arm_text(arm, task, counts)}" for arm in arms]


def _arm_text(arm: Arm, task: Task, counts: bool) -> str:
    columns = row_columns(arm)
    if columns and counts:
        return entries_text({"name": arm.name, "rows": len(columns[0].values)})
    if columns:
        rows = np.column_stack([column.values for column in columns]).tolist()
        weighted = columns[0].weights is not None
        weights = columns[0].chances.tolist() if weighted else None
        return entries_text({"name": arm.name, "rows": rows, "weights": weights})
    laws = {"name": arm.name, "cost": arm.cost.to_toml(), "reward": arm.reward.to_toml()}
    penalties = [penalty.to_toml() for penalty in arm.penalties]
    if not task.has_named_limits:
        return entries_text(laws | {"penalty": alone(penalties)})
    named = entries_text(dict(zip(task.told_names, penalties, strict=True)))
    return entries_text(laws) + "".join(f"penalties.{line}\n" for line in named.split("\n") if line)
