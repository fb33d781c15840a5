"""A problem: a task and the truth behind it, which only simulators and oracles may look at."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tightrope.errors import InputError, ProblemError
from tightrope.problem.arms import Arm, BernoulliArms, arm_texts, odds_of, read_arms
from tightrope.problem.laws import (
    DRAW_STEPS,
    Bernoulli,
    Cells,
    Floats,
    at,
    known_keys,
    number,
    shown,
)
from tightrope.problem.mixtures import conflict
from tightrope.problem.task import (
    FACT_KEYS,
    HEAD_KEYS,
    Known,
    Named,
    Scales,
    Task,
    holds_task,
    read_head,
)
from tightrope.problem.toml import entries_text, table_of

__all__ = ["Change", "Moments", "Phase", "Problem", "Tables", "require_unchanging"]


UNSCALED = Scales()
NOTHING: Named[Any] = Named({})


def require_unchanging(
    problem: Problem, needs: str, *, error: type[InputError] = ProblemError, instead: str = ""
) -> None:
    """Raise ``error`` if the arms change: what ``needs`` them not to, and what to do instead."""
    if problem.changes:
        raise error(f"{needs} arms that do not change; {problem.title} changes{instead}")


def _bernoulli_cells(odds: Floats) -> Floats:
    """The columns [4, n] of the tables of Bernoulli laws, one cell each; see ``laws``."""
    columns = np.zeros((4, odds.size))
    columns[0] = np.rint(odds.reshape(-1) * DRAW_STEPS) / DRAW_STEPS
    columns[1] = 1.0
    return columns


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
        if not isinstance(self.arms, BernoulliArms):
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


@dataclass(frozen=True, init=False)
class Problem(Known):
    """Arms to choose from and the limit on the penalty per unit of cost, for every penalty.

    ``limits`` by name, or ``limit`` as one number or several, as a :class:`Task` takes them; an
    arm's penalties are in their order or by their names. ``changes``: what becomes of the arms
    while the budget is spent, in order; none by default. What is known of it is its ``task``;
    ``safe``, ``safe_rates`` and ``expected`` are what that declares, true or not.
    """

    arms: Sequence[Arm]  # [K]; kept as a tuple
    limit: Named[float]  # [M]; see ``limits`` and ``limit_names``
    scales: Scales
    name: str
    changes: Sequence[Change]  # kept as a tuple
    safe: str | None
    safe_rates: Named[float]
    expected: Named[Named[float]]
    _known: Task = field(init=False, repr=False, compare=False)  # without the declared facts

    def __init__(
        self,
        arms: Sequence[Arm],
        limit: float | Sequence[float] | Mapping[str, float] | None = None,
        scales: Scales = UNSCALED,
        name: str = "",
        changes: Sequence[Change] = (),
        *,
        limits: Mapping[str, float] | None = None,
        safe: str | int | None = None,
        safe_rates: Mapping[str, float] = NOTHING,
        expected: Mapping[str, Mapping[str, float]] = NOTHING,
    ) -> None:
        """Takes many parameters because a task's are among them; those are by keyword."""
        arms = _as_arms(arms)
        names = arms.names if isinstance(arms, BernoulliArms) else tuple(arm.name for arm in arms)
        declared = {"safe": safe, "safe_rates": safe_rates, "expected": expected}
        known = Task(names, limits, scales, name, limit=limit, **declared)  # type: ignore[arg-type]
        self.__dict__.update(
            arms=_in_order(arms, known),
            limit=known.limits,
            scales=known.scales,
            name=known.name,
            changes=(),
            safe=known.safe,
            safe_rates=known.safe_rates,
            expected=known.expected,
            _known=known,
        )
        if not isinstance(changes, Iterable):
            raise ProblemError(f"changes = {shown(changes)}: must be a list of changes")
        self.__dict__["changes"] = self._in_turn(tuple(changes))

    @cached_property
    def task(self) -> Task:
        """What is known: all but the laws. It declares the smallest mean cost, and the slack."""
        return self.declared(slack=True)

    def declared(self, *, slack: bool) -> Task:
        """The task; without ``slack`` it takes no linear program where limits are several.

        Both facts are of the arms at the start, where the arms change.
        """
        told = None
        if slack and self.penalty_count:
            excess = conflict(self.moments.penalty_rate, self.moments.limits).excess
            told = min(1.0 - excess, 1.0)
        if isinstance(self.arms, BernoulliArms):
            smallest = float(self.arms.odds[:, 0].min())
        else:
            smallest = min(arm.cost.mean for arm in self.arms)
        return replace(self._known, smallest_cost=smallest, slack=told)

    def _in_turn(self, changes: Sequence[object]) -> tuple[Change, ...]:
        """The changes, checked, with their arms' penalties in the order of the limits."""
        checked: list[Change] = []
        for k, change in enumerate(changes, start=1):
            if not isinstance(change, Change):
                raise ProblemError(f"change {k}: {shown(change)} must be a Change")
            if checked and change.at <= checked[-1].at:
                before = f"{checked[-1].at!r}, that of change {k - 1}"
                raise ProblemError(f"change {k}: at = {change.at!r}: must be above {before}")
            with _within(f"change {k} (at {change.at!r})"):
                checked.append(Change(change.at, self._after(change).arms))
        return tuple(checked)

    @cached_property
    def phases(self) -> tuple[Phase, ...]:
        """The phases in order; one, the problem itself, where the arms do not change."""
        if not self.changes:
            return (Phase(0.0, 1.0, self),)
        starts = [0.0, *(change.at for change in self.changes)]
        arms = [self.arms, *(change.arms for change in self.changes)]
        return tuple(
            Phase(start, end - start, self._with(some))
            for start, end, some in zip(starts, [*starts[1:], 1.0], arms, strict=True)
        )

    def _with(self, arms: Sequence[Arm]) -> Problem:
        """The same task with other arms behind it, which do not change."""
        return Problem(
            arms,
            self.limit,
            self.scales,
            self.name,
            safe=self.safe,
            safe_rates=self.safe_rates,
            expected=self.expected,
        )

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
        after = self._with(change.arms)
        for k, (name, known) in enumerate(zip(after.names, self.names, strict=True), start=1):
            if name != known:
                raise ProblemError(f"arm {k}: name {name!r} must be {known!r}, as at the start")
        return after

    @property
    def limits(self) -> tuple[float, ...]:
        """The M limits, penalty per unit of cost, in the user's units."""
        return self._known.limit_values

    @property
    def normal_smallest_cost(self) -> float:
        """By the laws; where the arms change, by those at the start."""
        return self.moments.smallest_cost

    @cached_property
    def moments(self) -> Moments:
        """What the oracle and the policies that know the means go by, normalised.

        Where the arms change, they are those of the arms at the start; see ``phases``.
        """
        if self._odds is not None:
            means = self._odds / self.scales.channels
        else:
            means = np.array([[law.mean for law in arm.marginals()] for arm in self.arms])
            means /= self.scales.channels
        limits = self._known.normal_limits
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
            return ones, _bernoulli_cells(self._odds)
        cells = [one for arm in self.arms for one in arm.short_cells()]
        if all(type(one) is tuple for one in cells):
            return ones, np.array(cells).T
        tables = [one.columns if isinstance(one, Cells) else np.array([one]).T for one in cells]
        counts = np.array([table.shape[1] for table in tables], dtype=np.int64)
        return counts, np.concatenate(tables, axis=1)

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
        if isinstance(self.arms, BernoulliArms):
            return self.arms.odds
        if not all(type(o) is Bernoulli for arm in self.arms for o in arm.outcomes):
            return None
        odds = np.array([[law.mean for law in arm.marginals()] for arm in self.arms])
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
        limits: Mapping[str, float] | None = None,
        names: Sequence[str] | None = None,
        name: str = "",
    ) -> Problem:
        """Many arms with zero-one outcomes, from the probabilities of a 1.

        ``costs`` [K], ``rewards`` [K], ``penalties`` [K] or [K, M]; the arms are called ``names``,
        or arm 1, arm 2, ... An ``Arm`` is made when it is looked at, so a million take a second.

        >>> Problem.from_bernoulli([0.4, 0.6], [0.8, 0.6], [0.6, 0.3], limit=0.8).arms[1].cost
        Bernoulli(p=0.6)
        """
        coins = BernoulliArms(odds_of(costs, rewards, penalties), names)
        return cls(coins, limit=limit, name=name, limits=limits)

    def _repr_html_(self) -> str:
        from tightrope.report.html import problem_html

        return problem_html(self)

    @classmethod
    def from_toml(cls, text: str) -> Problem:
        """The problem that a TOML text describes; see ``to_toml`` for its shape."""
        return cls.from_table(table_of(text))

    @classmethod
    def from_table(cls, table: dict[str, Any]) -> Problem:
        """As ``from_toml``, from the table of the text."""
        known_keys(table, (*HEAD_KEYS, "changes", *FACT_KEYS))
        if holds_task(table):
            raise ProblemError(
                "arms have names alone, so it is a task; simulating needs the laws: cost, reward"
                " and penalty of every arm"
            )
        for key in FACT_KEYS:
            if key in table:
                raise ProblemError(
                    f"{key} = {shown(table[key])}: must be left out; a task declares it, the laws"
                    " of a problem say it"
                )
        head = read_head(table)
        limits = tuple(head["limits"] or ())
        return cls(
            read_arms(table.get("arms", []), "arms", limits),
            changes=tuple(_read_changes(table.get("changes", []), limits)),
            **head,
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
        known = self._known
        texts = [entries_text(known.head_table()), *arm_texts(self.arms, "arms", known)]
        for change in self.changes:
            texts.append(f"\n[[changes]]\n{entries_text({'at': change.at})}")
            texts += arm_texts(change.arms, "changes.arms", known)
        return "".join(texts).lstrip()


def _as_arms(arms: object) -> Sequence[Arm]:
    """The arms as a tuple, or as ``BernoulliArms``, each of them an ``Arm``."""
    if isinstance(arms, BernoulliArms):
        arms.check_names()
        return arms
    if not isinstance(arms, Iterable):
        raise ProblemError(f"arms = {shown(arms)}: must be a list of arms")
    arms = tuple(arms)
    for k, arm in enumerate(arms, start=1):
        if not isinstance(arm, Arm):
            raise ProblemError(f"arm {k}: {shown(arm)} must be an Arm")
    return arms


def _in_order(arms: Sequence[Arm], task: Task) -> Sequence[Arm]:
    """The arms, checked, with their penalties in the order of the limits."""
    if isinstance(arms, BernoulliArms):
        arms.check(task)
        return arms
    ordered = tuple([arm.in_order(task) for arm in arms])
    for arm in ordered:
        arm.check_range(task)
    return ordered


def _read_changes(tables: object, limits: Sequence[str]) -> Iterator[Change]:
    """The changes of a list of TOML tables, counted from 1 in messages."""
    if not isinstance(tables, list):
        raise ProblemError(f"changes = {shown(tables)}: must be [[changes]] tables")
    for k, table in enumerate(tables, start=1):
        with at(f"change {k}"):
            entries = known_keys(table, ("at", "arms"))
            if len(entries) < 2:
                raise ProblemError(f"has {', '.join(entries) or 'nothing'}; must have at and arms")
        with _within(f"change {k} (at {shown(entries['at'])})"):
            arms = read_arms(entries["arms"], "changes.arms", limits)
        with at(f"change {k}"):
            change = Change(entries["at"], arms)
        yield change
