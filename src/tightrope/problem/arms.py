"""Arms: the distributions of a pull's outcomes, their changes, and many zero-one arms at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from tightrope.errors import ProblemError
from tightrope.problem.cells import Cells, OneCell
from tightrope.problem.distributions import Bernoulli, Empirical, same_rows
from tightrope.problem.named import Named, NumberedNames, channel_names, check_names
from tightrope.problem.outcomes import LEAST_MEAN, Law, Outcome
from tightrope.problem.rows import Columns
from tightrope.problem.task import Task
from tightrope.problem.values import Floats, at, number, shown


@cache
def _is_a(kind: type, base: type) -> bool:
    """``issubclass`` with a cache: ``issubclass`` is slow for abstract classes and 10^6 arms."""
    return issubclass(kind, base)


def _one_or_more(penalty: Any) -> tuple[Outcome, ...] | Named[Outcome]:
    """One or several outcomes as a tuple; a mapping as ``Named``."""
    kind: type = type(penalty)
    if _is_a(kind, Outcome) or not isinstance(penalty, Iterable):
        return (penalty,)
    return Named(penalty) if isinstance(penalty, Mapping) else tuple(penalty)


@dataclass(frozen=True)
class Arm:
    """One arm: the distributions of a pull's cost, reward and penalties.

    The outcomes of a pull are independent, except for ``CostAbove`` and the columns of observed
    rows.

    ``penalty``: one outcome, or one per limit, as a list in the limits' order or a mapping by name.

    >>> Arm("bold", cost=Bernoulli(0.4), reward=Bernoulli(0.8), penalty=Bernoulli(0.6)).name
    'bold'
    """

    name: str
    cost: Law
    reward: Outcome
    penalty: Outcome | Sequence[Outcome] | Mapping[str, Outcome] = ()  # kept as a tuple or Named

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise ProblemError(f"arm name {shown(self.name)}: must be a non-empty string")
        object.__setattr__(self, "penalty", _one_or_more(self.penalty))
        outcomes = self.outcomes
        if not _is_a(type(self.cost), Law) or not all(_is_a(type(o), Outcome) for o in outcomes):
            self._refuse_outcome()
        rows = [o for o in outcomes if type(o) is Empirical]
        if rows and not (
            len(rows) == len(outcomes) and all(same_rows(rows[0], one) for one in rows[1:])
        ):
            raise ProblemError(
                f"arm {self.name!r}: {', '.join(self.channels)} must all be columns of the same "
                "rows, or none may be"
            )

    def _refuse_outcome(self) -> None:
        for channel, outcome in zip(self.channels, self.outcomes, strict=True):
            if not isinstance(outcome, Law if channel == "cost" else Outcome):
                allowed = "a distribution of its own" if channel == "cost" else "a distribution"
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
        """An arm that draws one of the observed rows (cost, reward, penalty 1..M), [n, 2 + M].

        ``penalties``: the names of the columns after cost and reward; by default these columns are
        in the order of the limits. ``weights`` [n]: relative probabilities of the rows; by default
        all rows are equally likely.

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
        """Same as ``from_rows``, from columns [2 + M], each [n]. Read-only arrays are not copied.

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
        """The same arm with other weights [n] of its observed rows, in any unit.

        >>> seen = Arm.from_rows("seen", [(1, 0.5, 0), (0.2, 0.1, 1)])
        >>> seen.weighted([3, 1]).cost.mean
        0.8
        """
        outcomes = self.outcomes
        if not all(isinstance(one, Empirical) for one in outcomes):
            raise ProblemError(
                f"arm {self.name!r}: weights need observed rows; it has distributions"
            )
        with at(f"arm {self.name!r}"):
            cost: Empirical = replace(cast(Any, self.cost), weights=weights)
        reward, *rest = [replace(cast(Any, one), weights=cost.weights) for one in outcomes[1:]]
        named = isinstance(self.penalty, Mapping)
        penalty = dict(zip(self.channels[2:], rest, strict=True)) if named else rest
        return Arm(self.name, cost, reward, penalty)

    @property
    def penalties(self) -> tuple[Outcome, ...]:
        """The M penalties. In a problem, they are in the order of its limits."""
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
        """The marginal distribution of every channel, [2 + M]."""
        return self.marginals()

    def marginals(self) -> tuple[Law, ...]:
        """Same as ``laws``, without a cache: there may be 10^6 arms."""
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
        """The number of each channel's uniform, [2 + M]: its own, or 0 (the cost's)."""
        return [0 if o.shares_cost_draw else j for j, o in enumerate(self.outcomes)]

    def check_range(self, task: Task) -> None:
        """Raise a ``ProblemError`` for outcomes outside [0, scale] or too small a mean cost."""
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
            allowed = f"mean {mean!r} must be at least {least:.3g}"
            allowed += f" for costs of up to {task.scales.cost:g} (the scale of cost)"
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


def as_arms(arms: object) -> Sequence[Arm]:
    """The arms as a tuple or as ``BernoulliArms``; raises if one is not an ``Arm``."""
    if isinstance(arms, BernoulliArms):
        arms.check_names()
        return arms
    if not isinstance(arms, Iterable):
        raise ProblemError(f"arms = {shown(arms)}: must be a list of arms")
    arms = arms if isinstance(arms, tuple) else tuple(arms)
    for k, arm in enumerate(arms, start=1):
        if not isinstance(arm, Arm):
            raise ProblemError(f"arm {k}: {shown(arm)} must be an Arm")
    return arms


def in_order(arms: Sequence[Arm], task: Task) -> Sequence[Arm]:
    """The arms, checked, with their penalties in the order of the limits."""
    if isinstance(arms, BernoulliArms):
        arms.check(task)
        return arms
    ordered = tuple([arm.in_order(task) for arm in arms])
    for k, arm in enumerate(ordered):
        arm.check_range(task)
        if task.knows_something:
            _check_known(arm, task.known_outcomes[k], task)
    return ordered


def means_of(arms: Sequence[Arm]) -> Floats:
    """The means of the arms' reported outcomes, in the user's units, [K, C]."""
    if isinstance(arms, BernoulliArms):
        return arms.odds
    means = np.array([[law.mean for law in arm.marginals()] for arm in arms])
    means.flags.writeable = False
    return means


def _check_known(arm: Arm, known: Floats, task: Task) -> None:
    """Raise unless the arm's distributions agree with the costs and penalties declared as known."""
    places = (0, 1, *(2 + m for m in task.told))
    for channel, law, place in zip(task.told_channels, arm.marginals(), places, strict=True):
        value = float(known[place])
        if not np.isnan(value) and (law.low != value or law.high != value):
            raise ProblemError(
                f"arm {arm.name!r}, {channel}: {shown(law)} must be the constant {value!r}, "
                "which is declared as known"
            )


def row_columns(arm: Arm) -> Columns:
    """The columns of an arm's rows, [2 + M]; none if it has distributions."""
    return [outcome for outcome in arm.outcomes if isinstance(outcome, Empirical)]


@contextmanager
def within(place: str) -> Iterator[None]:
    """Same as ``at``, with a comma before an arm's place: change 2 (at 0.7), arm 'a'."""
    try:
        yield
    except ProblemError as error:
        joint = ", " if str(error).startswith("arm") else ": "
        raise type(error)(  # an arm that both parts name is named once
            f"{place}{joint}{error}".replace(f"{place}, {place.partition(', ')[0]}", place, 1)
        ) from None


@dataclass(frozen=True)
class Change:
    """New distributions for all arms from a share of the budget on. Names and order stay the same.

    ``at``: the share, between 0 and 1. The new distributions apply to every pull that starts after
    ``at`` times the budget is spent. ``absent``: names of arms that cannot be pulled until the next
    change.

    >>> from tightrope import Arm, Bernoulli, Change, Problem
    >>> before = Arm("bold", cost=Bernoulli(0.4), reward=Bernoulli(0.8), penalty=Bernoulli(0.6))
    >>> after = Arm("bold", cost=Bernoulli(0.4), reward=Bernoulli(0.1), penalty=Bernoulli(0.6))
    >>> problem = Problem([before], limit=2, changes=[Change(at=0.5, arms=[after])])
    >>> [(phase.start, phase.share) for phase in problem.phases]
    [(0.0, 0.5), (0.5, 0.5)]
    """

    at: float
    arms: Sequence[Arm]  # kept as a tuple
    absent: Sequence[str] = ()  # kept as a tuple, in the order of the arms

    def __post_init__(self) -> None:
        share = number(self.at, "at")
        if not 0.0 < share < 1.0:
            raise ProblemError(f"at = {share!r}: must be a share of the budget, between 0 and 1")
        object.__setattr__(self, "at", share)
        if not isinstance(self.arms, Iterable):
            raise ProblemError(f"arms = {shown(self.arms)}: must be a list of arms")
        if not isinstance(self.arms, BernoulliArms):
            object.__setattr__(self, "arms", tuple(self.arms))


def standing_in(arms: Sequence[Arm], away: frozenset[int]) -> Sequence[Arm]:
    """The arms, with the distributions of others in place of those that cannot be pulled."""
    if not away:
        return arms
    there = [arm for k, arm in enumerate(arms) if k not in away]
    return tuple(
        replace(there[k % len(there)], name=arm.name) if k in away else arm
        for k, arm in enumerate(arms)
    )
