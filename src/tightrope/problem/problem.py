"""A problem: a task and its arms' distributions, which only simulators and oracles read."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tightrope.errors import InputError, ProblemError, nearest
from tightrope.names import in_table, listed
from tightrope.problem.arms import (
    Arm,
    BernoulliArms,
    Change,
    as_arms,
    means_of,
    odds_of,
    row_columns,
    standing_in,
    within,
)
from tightrope.problem.by_type import ByType, arms_by_type
from tightrope.problem.contexts import Types, shares_of
from tightrope.problem.curves import Curve, curves_by_type, ordered_arms, stated_arms
from tightrope.problem.distributions import Bernoulli
from tightrope.problem.features import RowFeatures
from tightrope.problem.from_logs import FromLogs
from tightrope.problem.known import Known
from tightrope.problem.limits import Kind
from tightrope.problem.named import Named
from tightrope.problem.problem_toml import problem_text, read_problem, save_problem
from tightrope.problem.rows import Columns, Rows, rows_digest, rows_of
from tightrope.problem.scales import UNSCALED, Scales
from tightrope.problem.spaces import Space, space_of
from tightrope.problem.tables import Moments, Tables, tables_of
from tightrope.problem.task import Task
from tightrope.problem.toml import table_of
from tightrope.problem.values import Floats, shown
from tightrope.showing import html_of

MOST_INLINE = 10_000  # most observed rows in a text that is printed or compared
NOTHING: Named[Any] = Named({})


def require_unchanging(
    problem: Problem, needs: str, *, error: type[InputError] = ProblemError, instead: str = ""
) -> None:
    """Raise ``error`` if the arms change; its message is "NEEDS arms that do not change; ...".

    Likewise where outcomes depend on contexts.
    """
    if problem.contexts is not None:
        raise error(f"{needs} arms without contexts; {problem.title} has types{instead}")
    if problem.changes:
        raise error(f"{needs} arms that do not change; {problem.title} changes{instead}")


class Phase(NamedTuple):
    """The period between two changes of a problem.

    ``start``: the share of the budget spent before it, in [0, 1). ``share``: the share of the
    budget spent during it, in (0, 1]. ``problem``: its arms, with the limits and scales of the
    whole problem.

    >>> from tightrope import ready_problem
    >>> [phase.share for phase in ready_problem("paper").phases]  # its arms do not change
    [1.0]
    """

    start: float
    share: float
    problem: Problem


@dataclass(frozen=True, init=False, repr=False)
class Problem(Known, FromLogs, ByType):
    """Arms with their distributions, and limits on the penalties.

    Give ``limits`` by name, or ``limit`` as one number or several, as for a :class:`Task`. An arm's
    penalties have the same order or the same names. ``changes``: the changes of the arms while the
    budget is spent, in order; default: none. ``absent``: arms that cannot be pulled before the
    first change. ``caveat``: a warning about the log that the arms come from, or "".

    A learning policy sees only ``task``. The declarations ``safe``, ``safe_rates`` and ``expected``
    may be wrong; ``costs``, ``known`` and ``skip`` must be true. ``contexts``: how often each type
    of request comes, by type, in any unit; ``arms`` is then a mapping from types to lists of arms
    with the same names. ``arms`` can also be an :class:`Interval` or a box: ``arm`` is then a
    function from a number to its ``Arm``, or arms by number, interpolated in between; with
    ``contexts``, a mapping from types to such functions or arms.
    ``features``: those of each row, where all arms draw the rows of one table (``from_table``).

    >>> from tightrope import Arm, Bernoulli, Problem
    >>> bold = Arm("bold", cost=Bernoulli(0.4), reward=Bernoulli(0.8), penalty=Bernoulli(0.6))
    >>> careful = Arm("careful", cost=Bernoulli(0.6), reward=Bernoulli(0.6), penalty=Bernoulli(0.3))
    >>> problem = Problem([bold, careful], limit=0.8)  # at most 0.8 penalty per unit of cost
    >>> problem.arm_count, problem.task.channels
    (2, ('cost', 'reward', 'penalty'))
    """

    arms: Sequence[Arm]  # [K]; kept as a tuple
    limit: Named[float | Kind]  # [M]; see ``limits`` and ``limit_names``
    scales: Scales
    name: str
    changes: Sequence[Change]  # kept as a tuple
    absent: Sequence[str]  # kept as a tuple
    safe: str | None
    safe_rates: Named[float]
    expected: Named[Named[float]]
    costs: Named[float] | None
    known: Named[Named[float]]
    skip: str | None
    caveat: str
    contexts: Named[float] | None  # shares that add up to 1
    further: tuple[Sequence[Arm], ...]  # the arms of the types after the first
    space: Space | None
    features: RowFeatures | None
    _known: Task = field(init=False, repr=False, compare=False)  # without the declared facts

    def __init__(
        self,
        arms: Sequence[Arm] | Mapping[str, Sequence[Arm]] | Space,
        limit: float
        | str
        | Kind
        | Sequence[float]
        | Mapping[str, float | str | Kind]
        | None = None,
        scales: Scales = UNSCALED,
        name: str = "",
        changes: Sequence[Change] = (),
        *,
        limits: Mapping[str, float | str | Kind] | None = None,
        safe: str | int | None = None,
        safe_rates: Mapping[str, Any] = NOTHING,
        expected: Mapping[str, Mapping[str, float]] = NOTHING,
        costs: float | Mapping[str, float] | None = None,
        known: Mapping[str, Mapping[str, float]] = NOTHING,
        skip: str | int | None = None,
        absent: Sequence[str] = (),
        caveat: str = "",
        contexts: Mapping[str, float] | None = None,
        further: Sequence[Sequence[Arm]] = (),
        space: Space | None = None,
        arm: Curve | Mapping[str, Curve] | None = None,
        features: RowFeatures | None = None,
    ) -> None:
        """Takes many parameters because a task's are among them; those are by keyword."""
        if isinstance(arms, Space):
            space, arms = arms, curves_by_type(arms, arm, contexts)
        elif arm is not None:
            raise ProblemError(
                f"arm = {shown(arm)}: must be left out; it belongs to Interval and Box"
            )
        shares = None if contexts is None else Named(shares_of(contexts))
        arms, further = arms_by_type(arms, further, shares)
        arms = as_arms(arms)
        names = arms.names if isinstance(arms, BernoulliArms) else tuple(arm.name for arm in arms)
        declared: Any = {"safe": safe, "safe_rates": safe_rates, "expected": expected}
        declared |= {"costs": costs, "known": known, "skip": skip, "space": space_of(space)}
        seen: Any = features and features.contexts
        seen = seen if shares is None else Types(tuple(shares))
        task = Task(names, limits, scales, name, limit=limit, contexts=seen, **declared)
        self.__dict__.update(
            arms=ordered_arms(arms, task),
            limit=task.limits,
            scales=task.scales,
            name=task.name,
            changes=(),
            absent=(),
            **{key: getattr(task, key) for key in declared},
            caveat=caveat,
            contexts=shares,
            further=(),
            features=features,
            _known=task,
        )
        if not isinstance(caveat, str):
            raise ProblemError(f"caveat = {shown(caveat)}: must be a text")
        if not isinstance(changes, Iterable):
            raise ProblemError(f"changes = {shown(changes)}: must be a list of changes")
        self._require_rows()
        if task.contexts is not None and (changes or absent):
            raise ProblemError("contexts: must be none where arms change")
        self.__dict__["further"] = tuple(self._for_type(some) for some in further)
        self.__dict__["absent"] = self._absent(absent)
        self.__dict__["changes"] = self._in_turn(tuple(changes))
        if self.absent and not self.changes:
            raise ProblemError(
                f"absent = {list(self.absent)}: must be empty if there are no changes"
            )

    @cached_property
    def task(self) -> Task:
        """The task of the problem. It declares the smallest mean cost and the slack."""
        return self.declared(slack=True)

    def declared(self, *, slack: bool) -> Task:
        """The task, with the slack only if ``slack``: several limits need a linear program.

        If the arms change, the declared facts are those of the arms at the start.
        """
        told = None
        if slack and self.penalty_count and not self.depends_on_budget:
            told = min(1.0 - self.distinct[0].row_moments.conflict().excess, 1.0)
        smallest = min(
            float(arms.odds[:, 0].min())
            if isinstance(arms, BernoulliArms)
            else min(arm.cost.mean for arm in arms)
            for arms in (self.arms, *self.further)
        )
        return replace(self._known, smallest_cost=smallest, slack=told)

    def _in_turn(self, changes: Sequence[object]) -> tuple[Change, ...]:
        """The changes, checked, with their arms' penalties in the order of the limits."""
        checked: list[Change] = []
        for k, change in enumerate(changes, start=1):
            if not isinstance(change, Change):
                raise ProblemError(f"change {k}: {shown(change)} must be a Change")
            if checked and change.at <= checked[-1].at:
                before = f"{checked[-1].at!r}, the value of change {k - 1}"
                raise ProblemError(f"change {k}: at = {change.at!r}: must be above {before}")
            with within(f"change {k} (at {change.at!r})"):
                absent = self._absent(change.absent)
                checked.append(Change(change.at, self._after(change).arms, absent))
        return tuple(checked)

    def _absent(self, names: Sequence[str]) -> tuple[str, ...]:
        """Arms that cannot be pulled, checked, in the order of the arms."""
        if isinstance(names, str) or not isinstance(names, Iterable):
            raise ProblemError(f"absent = {shown(names)}: must be a list of names of arms")
        given = list(names)
        for name in given:
            if name not in self.names:
                raise ProblemError(f"absent = {shown(name)}: {nearest(str(name), self.names)}")
        if given and (self.costs is not None or self.known):
            raise ProblemError(f"absent = {given}: must be empty if costs or penalties are known")
        if len(set(given)) == self.arm_count:
            raise ProblemError(f"absent = {given}: must leave an arm to pull")
        return tuple(name for name in self.names if name in given) if given else ()

    @cached_property
    def absences(self) -> tuple[frozenset[int], ...]:
        """The numbers of the arms that cannot be pulled, in each phase [J]."""
        names = [self.absent, *(change.absent for change in self.changes)]
        place = {name: k for k, name in enumerate(self.names)} if any(names) else {}
        return tuple(frozenset(place[name] for name in some) for some in names)

    @property
    def arms_by_phase(self) -> tuple[Sequence[Arm], ...]:
        """The arms as declared, at the start and after every change, [J]; or of every type [T]."""
        return (self.arms, *self.further, *(change.arms for change in self.changes))

    @cached_property
    def phases(self) -> tuple[Phase, ...]:
        """The phases in order; if the arms do not change, one phase with the problem itself."""
        if not self.changes:
            return (Phase(0.0, 1.0, self),)
        starts = [0.0, *(change.at for change in self.changes)]
        pairs = zip(self.arms_by_phase, self.absences, strict=True)
        there = [standing_in(some, away) for some, away in pairs]
        return tuple(
            Phase(start, end - start, self._with_arms(some))
            for start, end, some in zip(starts, [*starts[1:], 1.0], there, strict=True)
        )

    def _with_arms(self, arms: Sequence[Arm]) -> Problem:
        """The same task with other arms, which do not change."""
        return replace(self, arms=arms, changes=(), absent=())

    def phase_starts(self, budget: float) -> Floats:
        """The cost spent when each phase starts, [J]; cost and ``budget`` are normalised.

        Rounded down slightly: 0.07 * 100 is above 7 in floats, and the phase must start at 7.
        """
        starts = np.array([phase.start for phase in self.phases])
        return starts * budget * (1.0 - 1e-15) - 1e-9

    def _after(self, change: Change) -> Problem:
        """The problem after a change, without further changes."""
        if len(change.arms) != self.arm_count:
            raise ProblemError(
                f"arms = {len(change.arms)}: must be {self.arm_count}, as many as at the start"
            )
        after = self._with_arms(change.arms)
        for k, (name, known) in enumerate(zip(after.names, self.names, strict=True), start=1):
            if name != known:
                raise ProblemError(f"arm {k}: name {name!r} must be {known!r}, as at the start")
        return after

    @property
    def limits(self) -> tuple[float, ...]:
        """The numbers of the M limits, in the user's units."""
        return self._known.limit_values

    @cached_property
    def own_rates(self) -> Floats:
        """Every arm's penalty rates in the user's units, [K, M], per base of each limit."""
        moments, scales = self.moments, np.array(self.scales.penalties)
        with np.errstate(divide="ignore", invalid="ignore"):
            rates = moments.penalty / moments.base
        return np.asarray(np.nan_to_num(rates, nan=0.0) * scales / self.base_scales)

    def at(self, budget: float) -> Problem:
        """The problem at a budget, in its units: a limit in total becomes one per unit of cost."""
        if not self.depends_on_budget:
            return self
        return self._stating(self._known.at(budget))

    def with_limits(self, limits: Mapping[str, float | str | Kind]) -> Problem:
        """The problem with the named limits replaced; a plain number keeps the limit's unit.

        >>> from tightrope import ready_problem
        >>> ready_problem("paper").with_limits({"penalty": 0.7}).limits
        (0.7,)
        """
        task = replace(self._known, limits=self.other_limits(limits))
        if task.told != self._known.told:
            raise ProblemError(f"limits = {shown(dict(limits))}: must be on the same penalties")
        return self._stating(task)

    def _stating(self, task: Task) -> Problem:
        """The same arms with the limits of a task that has the same penalties."""
        return self._with(limit=task.limits, _known=task)

    @property
    def normal_smallest_cost(self) -> float:
        """The smallest mean cost, normalised; if the arms change, that of the arms at the start."""
        return self.moments.smallest_cost

    @cached_property
    def moments(self) -> Moments:
        """The arms' means and rates, normalised, for the oracle and informed policies.

        If the arms change, these are the moments of the arms at the start; see ``phases``. With
        contexts they are means over the types.
        """
        if self.contexts is not None:
            return self._mean_moments()
        return self.moments_of(means_of(self.arms))

    @cached_property
    def columns(self) -> tuple[npt.NDArray[np.int64], Floats]:
        """The number of each channel's reported outcome, [K, 2 + M]; -1 for a constant.

        Also the constants, normalised, [K, 2 + M]: known without another outcome.
        """
        task, count = self._known, 2 + self.penalty_count
        columns = np.full((self.arm_count, count), -1)
        columns[:, :2] = 0, 1
        for at_column, m in enumerate(task.told):
            columns[:, 2 + m] = 2 + at_column
        for m, limit in enumerate(self.limit_kinds):
            if limit.of in ("cost", "reward"):
                source = 0 if limit.of == "cost" else 1
                columns[:, 2 + m] = np.where(task.weights[:, m] > 0.0, source, -1)
        constants = np.maximum(task.normal_known, 0.0)
        return columns, constants

    def tables(self) -> Tables:
        """The tables that engines draw from, normalised; those at the start if the arms change."""
        return tables_of(self)

    def bernoulli(self) -> Floats | None:
        """P(outcome = 1), [K, 2 + M]; None unless all are independent, 0 or 1, and scales are 1."""
        if len(self._known.told) < self.penalty_count:
            return None
        return self.told_odds if set(self.scales.channels) == {1.0} else None

    @cached_property
    def told_odds(self) -> Floats | None:
        """P(reported outcome = 1), [K, C]; None unless all are independent and 0 or 1."""
        coins = isinstance(self.arms, BernoulliArms) or all(
            type(outcome) is Bernoulli for arm in self.arms for outcome in arm.outcomes
        )
        return means_of(self.arms) if coins else None

    @classmethod
    def from_bernoulli(
        cls,
        costs: npt.ArrayLike,
        rewards: npt.ArrayLike,
        penalties: npt.ArrayLike | None = None,
        *,
        limit: float | str | Kind | Sequence[float] | None = None,
        limits: Mapping[str, float | str | Kind] | None = None,
        names: Sequence[str] | None = None,
        name: str = "",
    ) -> Problem:
        """A problem with zero-one outcomes, from the probabilities of a 1.

        ``costs`` [K], ``rewards`` [K], ``penalties`` [K] or [K, M]; the arms are called ``names``,
        or arm 1, arm 2, ... An ``Arm`` is made only on access, so a million arms take a second.

        >>> Problem.from_bernoulli([0.4, 0.6], [0.8, 0.6], [0.6, 0.3], limit=0.8).arms[1].cost
        Bernoulli(p=0.6)
        """
        coins = BernoulliArms(odds_of(costs, rewards, penalties), names)
        return cls(coins, limit=limit, name=name, limits=limits)

    def __repr__(self) -> str:
        named = zip(self.limit_names, self.limit_kinds, strict=True)
        limits = [f"{name} <= {limit.number:g}{limit.suffix}" for name, limit in named]
        parts = [
            *filter(None, [in_table(self.name)]),
            f"{self.arm_count:,} arm{'s' * (self.arm_count != 1)}: {listed(self.names)}",
            f"limits: {listed(limits) or 'none'}",
        ]
        if self.contexts is not None:
            parts.append(f"types: {listed(list(self.contexts))}")
        if self.features is not None:
            parts.append(f"features: {self.feature_columns - 1} of {len(self.features.rows)} rows")
        if self.changes:
            parts.append(f"changes at {listed([f'{change.at:g}' for change in self.changes])}")
        return f"Problem({'; '.join(parts)})"

    _repr_html_ = html_of

    @classmethod
    def from_toml(cls, text: str) -> Problem:
        """The problem that a TOML text describes; ``to_toml`` shows the format."""
        return cls.from_toml_table(table_of(text))

    @classmethod
    def from_toml_table(cls, table: dict[str, Any], rows: Rows | str | None = None) -> Problem:
        """As ``from_toml``, from the parsed table.

        ``rows``: the rows that are not in the table, or the folder of their file.
        """
        arguments, said = read_problem(table, rows)
        made = cls(**arguments)
        if said is not None and made.rows_digest != said.sha256:
            where = f"file {said.file!r}: " if said.file else ""
            allowed = f"be those of sha256 = {said.sha256!r}; they have changed"
            raise ProblemError(f"rows: {where}must {allowed}")
        return made

    def to_toml(self) -> str:
        """The problem as TOML; ``from_toml`` restores it exactly.

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
        return self._toml

    @cached_property
    def _toml(self) -> str:
        return problem_text(self)

    @cached_property
    def outline(self) -> str:
        """The TOML, with more than 10,000 observed rows replaced by their number and hash.

        It is short and compares problems as well as the TOML does.
        """
        return self.to_toml() if self.row_count <= MOST_INLINE else problem_text(self, file="")

    def observed_columns(self) -> Iterator[Columns]:
        """The columns of every arm that has rows, [2 + M], also after changes."""
        for arms in self.arms_by_phase:
            if not isinstance(arms, BernoulliArms):
                yield from filter(None, map(row_columns, stated_arms(arms)))

    @cached_property
    def row_count(self) -> int:
        """The number of observed rows of all arms; 0 if none has rows."""
        return sum(len(one[0].chances) for one in self.observed_columns())

    @cached_property
    def rows_digest(self) -> str:
        """The SHA-256 of all observed rows."""
        return rows_digest(self.observed_columns())

    def observed_rows(self) -> Rows:
        """The observed rows of all arms as one table, in the user's units."""
        return rows_of(self.observed_columns())

    def save(self, path: str | os.PathLike[str]) -> list[str]:
        """Write the problem as TOML, and its rows beside it; ``load_problem`` reads both.

        Up to 500 observed rows are written to the TOML. More rows are written to a Parquet file of
        the same name (``problem.toml`` and ``problem.parquet``), which needs pyarrow or polars.
        Returns the files' paths.
        """
        return save_problem(self, os.fspath(path))
