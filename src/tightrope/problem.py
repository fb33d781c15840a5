"""Arms, limits and scales: the problem of ``paper.md``, in the user's own units.

Dimension letters: K arms, M penalties. A channel is one number that a pull gives, in the order
cost, reward, penalty 1, ..., penalty M. *Normalised* values are divided by the channel's scale,
so that every outcome lies in [0, 1]; only ``moments``, ``tables`` and ``bernoulli`` speak of them.

The arms may change while the budget is spent. The pulls between two changes are a *phase*, and a
phase is a problem of its own, whose arms stay what they are.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import NamedTuple, cast, overload

import numpy as np
import numpy.typing as npt
import tomli_w

from tightrope.errors import InputError, ProblemError
from tightrope.laws import (
    DRAW_STEPS,
    Bernoulli,
    Cells,
    Empirical,
    Floats,
    Law,
    OneCell,
    Outcome,
    at,
    known_keys,
    number,
    outcome_from_toml,
    shown,
)

__all__ = [
    "Arm",
    "Change",
    "Moments",
    "Phase",
    "Problem",
    "Scales",
    "Tables",
    "check_budget",
    "require_unchanging",
]


def check_budget(budget: object, place: str = "budget") -> float:
    """``budget`` as a positive, finite float, or an ``InputError`` that calls it ``place``."""
    with suppress(ProblemError):
        value = number(budget, place)
        if value > 0:
            return value
    raise InputError(f"{place} = {shown(budget)}: must be a positive, finite number")


def require_unchanging(
    problem: Problem, needs: str, *, error: type[InputError] = ProblemError, instead: str = ""
) -> None:
    """Raise ``error`` if the arms change: what ``needs`` them not to, and what to do instead."""
    if problem.changes:
        raise error(f"{needs} arms that do not change; {problem.title} changes{instead}")


def channel_names(penalty_count: int) -> tuple[str, ...]:
    """What messages call the channels: cost, reward, penalty (or penalty 1, 2, ...)."""
    if penalty_count == 1:
        return ("cost", "reward", "penalty")
    return ("cost", "reward", *(f"penalty {m + 1}" for m in range(penalty_count)))


@cache
def _is_a(kind: type, base: type) -> bool:
    """``issubclass``, remembered: slow for abstract classes, and there may be 10^6 arms."""
    return issubclass(kind, base)


def _one_or_more(value: object, place: str) -> tuple[float, ...]:
    """None, a number or several as a tuple of floats; ``place`` is numbered where several."""
    if value is None:
        return ()
    if isinstance(value, str | Mapping) or not isinstance(value, Iterable):
        return (number(value, place),)
    return tuple(number(v, f"{place} {m}") for m, v in enumerate(value, start=1))


@dataclass(frozen=True)
class Arm:
    """One arm: what a pull costs, earns and incurs, independently unless the laws say else.

    >>> Arm("bold", cost=Bernoulli(0.4), reward=Bernoulli(0.8), penalty=Bernoulli(0.6)).name
    'bold'
    """

    name: str
    cost: Law
    reward: Outcome
    penalty: Outcome | Sequence[Outcome] = ()  # one, or M of them; kept as a tuple

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise ProblemError(f"arm name {shown(self.name)}: must be a string, not empty")
        penalty = self.penalty
        single = _is_a(type(penalty), Outcome) or not isinstance(penalty, Iterable)
        several = (penalty,) if single else tuple(penalty)  # type: ignore[arg-type]
        object.__setattr__(self, "penalty", several)
        outcomes = self.outcomes
        if not _is_a(type(self.cost), Law) or not all(_is_a(type(o), Outcome) for o in outcomes):
            self._refuse_outcome()
        rows = [o.values for o in outcomes if type(o) is Empirical]
        if rows and (len(rows) < len(outcomes) or len(set(map(len, rows))) > 1):
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
    def from_rows(cls, name: str, rows: npt.ArrayLike) -> Arm:
        """An arm from observed rows (cost, reward, penalty 1..M) [n, 2 + M], equally likely.

        >>> Arm.from_rows("seen", [(1, 0.5, 0), (0.2, 0.1, 1)]).cost.mean
        0.6
        """
        table = np.array(rows, dtype=object)
        if table.ndim != 2 or table.shape[1] < 2 or not table.size:
            raise ProblemError(
                f"arm {name!r}, rows: {shown(rows)} must be rows of equal length:"
                " cost, reward and a penalty for each limit"
            )
        channels = channel_names(table.shape[1] - 2)
        with at(f"arm {name!r}, rows"):
            columns = [
                Empirical(
                    tuple(number(v, f"{channel} in row {i + 1}") for i, v in enumerate(column))
                )
                for channel, column in zip(channels, table.T, strict=True)
            ]
        cost, reward, *penalties = columns
        return cls(name, cost, reward, penalties)

    @property
    def penalties(self) -> tuple[Outcome, ...]:
        """The M penalties."""
        return cast(tuple[Outcome, ...], self.penalty)

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        """Every channel as it was declared, [2 + M]."""
        return (self.cost, self.reward, *self.penalties)

    @property
    def channels(self) -> tuple[str, ...]:
        """The names of the channels, [2 + M]."""
        return channel_names(len(self.penalties))

    @cached_property
    def laws(self) -> tuple[Law, ...]:
        """The law of every channel on its own, [2 + M]; what ties them together is left out."""
        return self._marginals()

    def _marginals(self) -> tuple[Law, ...]:
        return tuple([outcome.marginal(self.cost) for outcome in self.outcomes])

    def cells(self) -> tuple[Cells, ...]:
        """The table of every channel, [2 + M], in the user's units."""
        cuts = [cut for outcome in self.outcomes for cut in outcome.cuts]
        with at(f"arm {self.name!r}, cost"):
            cost = self.cost.cells(cuts)
        return (cost, *(outcome.cells_beside(cost) for outcome in self.outcomes[1:]))

    def short_cells(self) -> Sequence[OneCell | Cells]:
        """As ``cells``, but plain numbers for every channel if each of them is one cell."""
        short = [outcome.one_cell() for outcome in self.outcomes]
        return self.cells() if None in short else cast(list[OneCell], short)

    @property
    def sources(self) -> list[int]:
        """The uniform that each channel is drawn with, [2 + M]: its own, or the cost's."""
        return [0 if o.shares_cost_draw else j for j, o in enumerate(self.outcomes)]


def _as_cells(cells: OneCell | Cells) -> Cells:
    if isinstance(cells, Cells):
        return cells
    return Cells(*(np.array([column]) for column in cells))


def _coin_cells(odds: Floats) -> Floats:
    """The columns [4, n] of the tables of Bernoulli laws, one cell each; see ``laws``."""
    columns = np.zeros((4, odds.size))
    columns[0] = np.rint(odds.reshape(-1) * DRAW_STEPS) / DRAW_STEPS
    columns[1] = 1.0
    return columns


def _odds_of(
    costs: npt.ArrayLike, rewards: npt.ArrayLike, penalties: npt.ArrayLike | None
) -> Floats:
    """The probabilities [K, 2 + M], read-only."""
    columns = {}
    for place, given in (("costs", costs), ("rewards", rewards), ("penalties", penalties)):
        if given is not None:
            try:
                columns[place] = np.asarray(given, dtype=np.float64)
            except (TypeError, ValueError):
                raise ProblemError(f"{place} = {shown(given)}: must be numbers") from None
    for place, column in columns.items():
        shape = column.shape
        if (
            len(shape) != 1 + (place == "penalties" and len(shape) == 2)
            or shape[:1] != columns["costs"].shape
        ):
            raise ProblemError(
                f"{place}: shape {shape} must be one number an arm, as many as the"
                f" {len(np.ravel(columns['costs']))} costs"
            )
    odds = np.column_stack(list(columns.values()))
    odds.flags.writeable = False
    return odds


class Coins(Sequence[Arm]):
    """Arms with zero-one outcomes as an array of probabilities; each is made when looked at."""

    def __init__(self, odds: Floats, names: Sequence[str] | None = None) -> None:
        self.odds, self._names = odds, None if names is None else tuple(names)

    @property
    def names(self) -> tuple[str, ...]:
        """As given, or arm 1, arm 2, ..."""
        if self._names is not None:
            return self._names
        return tuple([f"arm {k}" for k in range(1, len(self) + 1)])

    def check(self) -> None:
        """Raise a ``ProblemError`` unless every name and every number is as an ``Arm`` needs it."""
        if self._names is not None:
            if len(self._names) != len(self):
                raise ProblemError(f"names: {len(self._names)} must be {len(self)}, one an arm")
            if len(set(self._names)) < len(self) or not all(
                isinstance(name, str) and name for name in self._names
            ):
                raise ProblemError("names: must be strings, not empty, all different")
        fine = (self.odds >= 0.0) & (self.odds <= 1.0)
        fine[:, 0] &= self.odds[:, 0] > 0.0
        if not fine.all():
            k, channel = np.argwhere(~fine)[0]
            place = channel_names(self.odds.shape[1] - 2)[channel]
            allowed = "be positive, at most 1" if channel == 0 else "lie in [0, 1]"
            value = float(self.odds[k, channel])
            raise ProblemError(f"arm {k + 1}, {place}: bernoulli p = {value!r}: must {allowed}")

    def __len__(self) -> int:
        return len(self.odds)

    @overload
    def __getitem__(self, place: int) -> Arm: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Arm]: ...
    def __getitem__(self, place: int | slice) -> Arm | Sequence[Arm]:
        if isinstance(place, slice):
            return tuple(self[k] for k in range(*place.indices(len(self))))
        cost, reward, *penalties = map(Bernoulli, self.odds[place].tolist())
        k = range(len(self))[place]
        name = f"arm {k + 1}" if self._names is None else self._names[k]
        return Arm(name, cost, reward, penalties)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Coins):
            return np.array_equal(self.odds, other.odds) and self.names == other.names
        return tuple(self) == other

    def __hash__(self) -> int:
        return hash(tuple(self))


@dataclass(frozen=True)
class Scales:
    """The largest value that one outcome of each channel can have, in the user's units."""

    cost: float = 1.0
    reward: float = 1.0
    penalty: float | Sequence[float] = ()  # one, or M of them; () is 1 for each

    def __post_init__(self) -> None:
        penalties = _one_or_more(self.penalty, "scale of penalty")
        object.__setattr__(self, "penalty", penalties)
        for channel in ("cost", "reward"):
            value = number(getattr(self, channel), f"scale of {channel}")
            object.__setattr__(self, channel, value)
        for channel, value in zip(channel_names(len(penalties)), self.channels, strict=True):
            if value <= 0:
                raise ProblemError(f"scale of {channel} = {value!r}: must be positive")

    @property
    def penalties(self) -> tuple[float, ...]:
        """The M scales of the penalties."""
        return cast(tuple[float, ...], self.penalty)

    @property
    def channels(self) -> tuple[float, ...]:
        """The scale of every channel, [2 + M]."""
        return (self.cost, self.reward, *self.penalties)


@contextmanager
def _within(place: str) -> Iterator[None]:
    """As ``at``, for messages that go on with the place of an arm: change 2 (at 0.7), arm 'a'."""
    try:
        yield
    except ProblemError as error:
        joint = ", " if str(error).startswith("arm") else ": "
        raise type(error)(f"{place}{joint}{error}") from None


@dataclass(frozen=True)
class Change:
    """From a share of the budget on, the arms are others, by the same names in the same order.

    ``at``: the share, between 0 and 1. The first pull of the new arms is the one before which the
    cost spent is at least ``at`` times the budget.
    """

    at: float
    arms: Sequence[Arm]  # kept as a tuple

    def __post_init__(self) -> None:
        share = number(self.at, "at")
        if not 0.0 < share < 1.0:
            raise ProblemError(f"at = {share!r}: must lie between 0 and 1, a share of the budget")
        object.__setattr__(self, "at", share)
        if not isinstance(self.arms, Iterable):
            raise ProblemError(f"arms = {shown(self.arms)}: must be a list of arms")
        if not isinstance(self.arms, Coins):
            object.__setattr__(self, "arms", tuple(self.arms))


class Phase(NamedTuple):
    """The pulls between two changes.

    ``start``: the share of the budget spent before, in [0, 1). ``share``: how much of the budget it
    lasts, in (0, 1]. ``problem``: the arms meanwhile, with the limits and scales of the whole.
    """

    start: float
    share: float
    problem: Problem


@dataclass(frozen=True, eq=False)
class Moments:
    """Means and rates in normalised units; rates are per unit of cost."""

    cost: Floats  # [K] in (0, 1]
    reward: Floats  # [K] in [0, 1]
    penalty: Floats  # [K, M] in [0, 1]
    limits: Floats  # [M]

    @cached_property
    def reward_rate(self) -> Floats:
        """E[R] / E[X] of every arm, [K]."""
        return self.reward / self.cost

    @cached_property
    def penalty_rate(self) -> Floats:
        """E[Y] / E[X] of every arm and penalty, [K, M]."""
        return self.penalty / self.cost[:, np.newaxis]

    @property
    def smallest_cost(self) -> float:
        """The paper's mu_min: the smallest mean cost of an arm."""
        return float(self.cost.min())


@dataclass(frozen=True, eq=False)
class Tables:
    """The cells of every arm and channel, normalised, end to end for the engine.

    Channel j of arm k owns ``count[k, j]`` cells from ``offset[k, j]`` on, and draws with the
    step's uniform number ``source[k, j]``: its own, j, or 0 where it goes with the cost.
    """

    count: npt.NDArray[np.int64]  # [K, 2 + M]
    offset: npt.NDArray[np.int64]  # [K, 2 + M]
    source: npt.NDArray[np.int64]  # [K, 2 + M]
    split: Floats
    first: Floats
    second: Floats
    slope: Floats


@dataclass(frozen=True)
class Problem:
    """Arms to choose from and the limit on the penalty per unit of cost, for every penalty.

    ``changes``: what becomes of the arms while the budget is spent, in order; none by default.
    """

    arms: Sequence[Arm]
    limit: float | Sequence[float] | None = None  # one, or M of them; kept as a tuple
    scales: Scales = Scales()
    name: str = ""
    changes: Sequence[Change] = ()  # kept as a tuple

    def __post_init__(self) -> None:
        for field, kind, allowed in (
            ("arms", Iterable, "a list of arms"),
            ("scales", Scales, "a Scales"),
            ("name", str, "a string"),
            ("changes", Iterable, "a list of changes"),
        ):
            value = getattr(self, field)
            if not isinstance(value, kind):
                raise ProblemError(f"{field} = {shown(value)}: must be {allowed}")
        if not isinstance(self.arms, Coins):
            object.__setattr__(self, "arms", tuple(self.arms))
        object.__setattr__(self, "limit", _one_or_more(self.limit, "limit"))
        object.__setattr__(self, "changes", tuple(self.changes))
        if not self.scales.penalties:
            ones = replace(self.scales, penalty=(1.0,) * self.penalty_count)
            object.__setattr__(self, "scales", ones)
        self._check_limits()
        self._check_arms()
        self._check_changes()

    def _check_limits(self) -> None:
        for m, limit in enumerate(self.limits):
            if limit <= 0:
                place = "limit" if self.penalty_count == 1 else f"limit {m + 1}"
                raise ProblemError(f"{place} = {limit!r}: must be positive")
        self._check_count(self.scales.penalties, "scales")

    def _check_count(self, penalties: Sequence[object], place: str) -> None:
        if len(penalties) != self.penalty_count:
            raise ProblemError(
                f"{place}: penalties = {len(penalties)}, limits = {self.penalty_count};"
                " must be as many"
            )

    def _check_arms(self) -> None:
        if not self.arms:
            raise ProblemError("arms = []: must hold at least one arm")
        if isinstance(self.arms, Coins):
            self._check_count(range(self.arms.odds.shape[1] - 2), "penalties")
            self.arms.check()
            return
        first_use: dict[str, int] = {}
        for k, arm in enumerate(self.arms, start=1):
            if not isinstance(arm, Arm):
                raise ProblemError(f"arm {k}: {shown(arm)} must be an Arm")
            if first_use.setdefault(arm.name, k) != k:
                raise ProblemError(
                    f"arm {k}: name {arm.name!r} is that of arm {first_use[arm.name]};"
                    " names must differ"
                )
            if len(arm.penalties) != self.penalty_count:
                self._check_count(arm.penalties, f"arm {arm.name!r}")
            self._check_range(arm)

    def _check_range(self, arm: Arm) -> None:
        """Every outcome in [0, scale], and a cost that spends the budget."""
        laws, scales = arm._marginals(), self.scales.channels
        fine = all(law.low >= 0 and law.high <= s for law, s in zip(laws, scales, strict=True))
        if not fine or arm.cost.mean <= 0:
            self._refuse_range(arm)

    def _refuse_range(self, arm: Arm) -> None:
        for channel, law, scale in zip(arm.channels, arm.laws, self.scales.channels, strict=True):
            if law.low < 0:
                raise ProblemError(
                    f"arm {arm.name!r}, {channel}: outcome {law.low!r} must not be below 0"
                )
            if law.high > scale:
                raise ProblemError(
                    f"arm {arm.name!r}, {channel}: outcome {law.high!r} must lie in"
                    f" [0, {scale!r}]; declare a scale of {channel} of at least {law.high!r}"
                )
        if arm.cost.mean <= 0:
            raise ProblemError(
                f"arm {arm.name!r}, cost: mean {arm.cost.mean!r} must be positive,"
                " or pulls would never spend the budget"
            )

    def _check_changes(self) -> None:
        last = 0.0
        for k, change in enumerate(self.changes, start=1):
            if not isinstance(change, Change):
                raise ProblemError(f"change {k}: {shown(change)} must be a Change")
            if change.at <= last:
                before = f"{last!r}, that of change {k - 1}"
                raise ProblemError(f"change {k}: at = {change.at!r}: must be above {before}")
            last = change.at
        if self.changes:
            self.phases  # noqa: B018 - a phase is a problem and checks its arms

    @cached_property
    def phases(self) -> tuple[Phase, ...]:
        """The phases in order; one, the problem itself, where the arms do not change."""
        if not self.changes:
            return (Phase(0.0, 1.0, self),)
        ends = [*(change.at for change in self.changes), 1.0]
        first = Problem(self.arms, self.limit, self.scales, self.name)
        phases = [Phase(0.0, ends[0], first)]
        for k, change in enumerate(self.changes, start=1):
            with _within(f"change {k} (at {change.at!r})"):
                phases.append(Phase(change.at, ends[k] - change.at, self._after(change)))
        return tuple(phases)

    def phase_starts(self, budget: float) -> Floats:
        """What is spent when each phase starts, [J]; ``budget`` is in costs of one pull.

        Less a rounding: 0.07 * 100 is above 7 in floats, and has to be reached at 7.
        """
        starts = np.array([phase.start for phase in self.phases])
        return starts * budget * (1.0 - 1e-15) - 1e-9

    def _after(self, change: Change) -> Problem:
        """The problem after a change, without further ones."""
        if len(change.arms) != self.arm_count:
            raise ProblemError(
                f"arms = {len(change.arms)}: must be {self.arm_count}, as many as at the start"
            )
        after = Problem(change.arms, self.limit, self.scales, self.name)
        for k, (name, known) in enumerate(zip(after.names, self.names, strict=True), start=1):
            if name != known:
                raise ProblemError(f"arm {k}: name {name!r} must be {known!r}, as at the start")
        return after

    @property
    def limits(self) -> tuple[float, ...]:
        """The M limits, penalty per unit of cost, in the user's units."""
        return cast(tuple[float, ...], self.limit)

    @property
    def title(self) -> str:
        """What messages call it."""
        return f"problem {self.name!r}" if self.name else "the problem"

    @property
    def arm_count(self) -> int:
        """K, at least 1."""
        return len(self.arms)

    @property
    def penalty_count(self) -> int:
        """M, at least 0."""
        return len(self.limits)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the arms, [K], all different."""
        if isinstance(self.arms, Coins):
            return tuple(self.arms.names)
        return tuple(arm.name for arm in self.arms)

    @cached_property
    def moments(self) -> Moments:
        """What the oracle and the policies that know the means go by, normalised.

        Where the arms change, they are those of the arms at the start; see ``phases``.
        """
        if self._odds is not None:
            means = self._odds / self.scales.channels
        else:
            means = np.array([[law.mean for law in arm._marginals()] for arm in self.arms])
            means /= self.scales.channels
        limits = np.array(self.limits) * self.scales.cost / np.array(self.scales.penalties)
        return Moments(means[:, 0].copy(), means[:, 1].copy(), means[:, 2:].copy(), limits)

    def tables(self) -> Tables:
        """What the engine draws from, normalised; the arms at the start, see ``phases``."""
        shape = (self.arm_count, 2 + self.penalty_count)
        count, (split, first, second, slope) = self._cells()
        scales = np.repeat(np.tile(self.scales.channels, self.arm_count), count)
        return Tables(
            count=count.reshape(shape),
            offset=(np.cumsum(count) - count).reshape(shape),
            source=self._sources(),
            split=split,
            first=first / scales,
            second=second / scales,
            slope=slope / scales,
        )

    def _cells(self) -> tuple[npt.NDArray[np.int64], Floats]:
        """How many cells each channel of each arm has, [K * (2 + M)], and their columns [4, n]."""
        ones = np.ones(self.arm_count * (2 + self.penalty_count), dtype=np.int64)
        if self._odds is not None:
            return ones, _coin_cells(self._odds)
        cells = [one for arm in self.arms for one in arm.short_cells()]
        if all(type(one) is tuple for one in cells):
            return ones, np.array(cells).T
        tables = [_as_cells(one) for one in cells]
        columns = [
            np.concatenate([getattr(one, column) for one in tables])
            for column in ("split", "first", "second", "slope")
        ]
        return np.array([len(one) for one in tables], dtype=np.int64), np.array(columns)

    def _sources(self) -> npt.NDArray[np.int64]:
        """The uniform number that each channel is drawn with, [K, 2 + M]."""
        if self._odds is not None:
            return np.tile(np.arange(2 + self.penalty_count), (self.arm_count, 1))
        return np.array([arm.sources for arm in self.arms], dtype=np.int64)

    def bernoulli(self) -> Floats | None:
        """P(outcome = 1), [K, 2 + M], where all are independent, 0 or 1 and unscaled."""
        return self._odds if set(self.scales.channels) == {1.0} else None

    @cached_property
    def _odds(self) -> Floats | None:
        """P(outcome = 1), [K, 2 + M], where all are independent and 0 or 1."""
        if isinstance(self.arms, Coins):
            return self.arms.odds
        if not all(type(o) is Bernoulli for arm in self.arms for o in arm.outcomes):
            return None
        odds = np.array([[law.mean for law in arm._marginals()] for arm in self.arms])
        odds.flags.writeable = False
        return odds

    @classmethod
    def from_bernoulli(
        cls,
        costs: npt.ArrayLike,
        rewards: npt.ArrayLike,
        penalties: npt.ArrayLike | None = None,
        *,
        limit: float | Sequence[float] | None = None,
        names: Sequence[str] | None = None,
        name: str = "",
    ) -> Problem:
        """Many arms with zero-one outcomes, from the probabilities of a 1.

        ``costs`` [K], ``rewards`` [K], ``penalties`` [K] or [K, M]; the arms are called ``names``,
        or arm 1, arm 2, ... An ``Arm`` is made when it is looked at, so a million take a second.

        >>> Problem.from_bernoulli([0.4, 0.6], [0.8, 0.6], [0.6, 0.3], limit=0.8).arms[1].cost
        Bernoulli(p=0.6)
        """
        return cls(Coins(_odds_of(costs, rewards, penalties), names), limit=limit, name=name)

    @classmethod
    def from_toml(cls, text: str) -> Problem:
        """The problem that a TOML text describes; see ``to_toml`` for its shape."""
        try:
            table = tomllib.loads(text)
        except ValueError as error:
            raise ProblemError(f"not TOML: {error}") from None
        known_keys(table, ("name", "limit", "scales", "arms", "changes"))
        with at("scales"):
            scales = Scales(**known_keys(table.get("scales", {}), ("cost", "reward", "penalty")))
        return cls(
            _read_arms(table.get("arms", []), "arms"),
            limit=table.get("limit"),
            scales=scales,
            name=table.get("name", ""),
            changes=_read_changes(table.get("changes", [])),
        )

    def to_toml(self) -> str:
        """The problem as TOML, such that ``from_toml`` gives it back exactly.

        >>> bold = Arm("bold", Bernoulli(0.4), Bernoulli(0.8), Bernoulli(0.6))
        >>> seen = Arm.from_rows("seen", [(1, 0.5, 0), (0.2, 0.1, 1)])
        >>> print(Problem([bold, seen], limit=0.8).to_toml(), end="")
        limit = 0.8
        <BLANKLINE>
        [[arms]]
        name = "bold"
        cost = { bernoulli = 0.4 }
        reward = { bernoulli = 0.8 }
        penalty = { bernoulli = 0.6 }
        <BLANKLINE>
        [[arms]]
        name = "seen"
        rows = [[1.0, 0.5, 0.0],
                [0.2, 0.1, 1.0]]
        """
        head: dict[str, object] = {
            "name": self.name,
            "limit": _alone(self.limits),
            "scales": {
                "cost": self.scales.cost,
                "reward": self.scales.reward,
                "penalty": _alone(self.scales.penalties),
            },
        }
        if set(self.scales.channels) == {1.0}:
            del head["scales"]
        texts = [_text(head), *_arm_texts(self.arms, "arms")]
        for change in self.changes:
            texts.append(f"\n[[changes]]\n{_text({'at': change.at})}")
            texts += _arm_texts(change.arms, "changes.arms")
        return "".join(texts).lstrip()


def _read_changes(tables: object) -> tuple[Change, ...]:
    if not isinstance(tables, list):
        raise ProblemError(f"changes = {shown(tables)}: must be [[changes]] tables")
    return tuple(_read_change(table, k) for k, table in enumerate(tables, start=1))


def _read_change(table: object, k: int) -> Change:
    """Change number ``k``, counted from 1, out of its TOML table."""
    with at(f"change {k}"):
        entries = known_keys(table, ("at", "arms"))
        if len(entries) < 2:
            raise ProblemError(f"has {', '.join(entries) or 'nothing'}; must have at and arms")
    with _within(f"change {k} (at {shown(entries['at'])})"):
        arms = _read_arms(entries["arms"], "changes.arms")
    with at(f"change {k}"):
        return Change(entries["at"], arms)


def _read_arms(tables: object, place: str) -> tuple[Arm, ...]:
    if not isinstance(tables, list):
        raise ProblemError(f"arms = {shown(tables)}: must be [[{place}]] tables")
    return tuple(_read_arm(table, k) for k, table in enumerate(tables, start=1))


def _read_arm(table: object, k: int) -> Arm:
    """Arm number ``k``, counted from 1, out of its TOML table."""
    with at(f"arm {k}"):
        entries = known_keys(table, ("name", "cost", "reward", "penalty", "rows"))
    name = entries.pop("name", f"arm {k}")
    if set(entries) == {"rows"}:
        return Arm.from_rows(name, entries["rows"])
    if "rows" in entries or not {"cost", "reward"} <= set(entries):
        given = ", ".join(entries) or "nothing"
        raise ProblemError(
            f"arm {name!r}: has {given}; must have cost, reward and a penalty for each limit,"
            " or rows alone"
        )
    penalties = entries.get("penalty", [])
    penalties = penalties if isinstance(penalties, list) else [penalties]
    laws = (entries["cost"], entries["reward"], *penalties)
    outcomes = []
    for channel, law in zip(channel_names(len(penalties)), laws, strict=True):
        with at(f"arm {name!r}, {channel}"):
            outcomes.append(outcome_from_toml(law))
    cost, reward, *rest = outcomes
    return Arm(name, cast(Law, cost), reward, rest)  # Arm checks that it is one


def _arm_texts(arms: Iterable[Arm], place: str) -> list[str]:
    """The arms as TOML, each under the header of its table."""
    return [f"\n[[{place}]]\n{_text(_arm_table(arm))}" for arm in arms]


def _arm_table(arm: Arm) -> dict[str, object]:
    """The arm as a TOML table."""
    columns = [outcome.values for outcome in arm.outcomes if isinstance(outcome, Empirical)]
    if columns:
        return {"name": arm.name, "rows": [list(row) for row in zip(*columns, strict=True)]}
    return {
        "name": arm.name,
        "cost": arm.cost.to_toml(),
        "reward": arm.reward.to_toml(),
        "penalty": _alone([penalty.to_toml() for penalty in arm.penalties]),
    }


def _alone(values: Sequence[object]) -> object:
    """The only value without a list around it."""
    return values[0] if len(values) == 1 else list(values)


def _text(table: Mapping[str, object]) -> str:
    """The entries of a TOML table, each on its line."""
    return "".join(f"{entry}\n" for entry in _entries(table))


def _entries(table: Mapping[str, object]) -> list[str]:
    """The entries of a TOML table, but for the empty ones."""
    return [f"{key} = {_inline(value)}" for key, value in table.items() if value not in ("", [])]


def _inline(value: object) -> str:
    """A TOML value on one line, but rows of numbers on a line each.

    tomli-w alone would spread every law over a table of its own.
    """
    if isinstance(value, dict):
        return "{ " + ", ".join(_entries(value)) + " }"
    if isinstance(value, list):
        comma = ",\n        " if isinstance(value[0], list) else ", "
        return "[" + comma.join(map(_inline, value)) + "]"
    return tomli_w.dumps({"": value}).removeprefix('"" = ').removesuffix("\n")
