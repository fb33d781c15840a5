"""The plain Python engine: slow, but easy to check against the algorithm.

The compiled engines must make the same decisions on the same draws; tests compare them with this
one. It also runs policies that cannot be compiled (backend ``"python"``). All numbers are
normalised. Letters: K arms, M penalties.
"""

from __future__ import annotations

import copy
import itertools
import time
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from tightrope.engine.delays import Delays
from tightrope.engine.job import Job
from tightrope.engine.laws import requests_of
from tightrope.errors import PolicyError, TightropeError
from tightrope.kernels.rng import LATE, OUTCOMES, POLICY, Generator, seed_words
from tightrope.policies.base import Policy, Setup, Statistics, advance, limits_of, net_penalty
from tightrope.policies.choice import WORDS, ChoicePolicy, carried_fields, hashed
from tightrope.policies.faults import failed, is_outside, place_of, wrong_arm
from tightrope.policies.parts.flight import assume, least_pulled
from tightrope.policies.parts.forgetting import remember, touched_rows
from tightrope.policies.state import (
    State,
    field_starts,
    record_fields,
    record_maker,
    start_state,
)
from tightrope.problem import Known, Problem, Tables
from tightrope.runs import Runs

Step = tuple[int, list[float], list[float]]  # the arm, its outcomes, the queues afterwards
CHECK_EVERY = 64  # steps between checks of ``stop``
REHEARSED_RUNS, REHEARSED_STEPS, REHEARSAL_SECONDS = range(3), 300, 0.3  # see ``rehearse``
MOST_ARMS = 10_000  # with more, a step in plain Python takes too long


class Requests:
    """The contexts of the requests of a run, and the tables that their outcomes are drawn from.

    ``known``: what the policy chooses among: the problem's arms, or rows if it uses types.
    """

    def __init__(self, problem: Problem, policy: Policy) -> None:
        self._mix, self._arms = requests_of(problem, policy), problem.arm_count
        self.featured = policy.contextual and problem.features is not None
        self.typed = bool(problem.shares)
        self._aware = self.typed and policy.contextual
        self.known: Known = problem.over_rows if self._aware else problem
        phases = [phase.problem for phase in problem.phases]
        self._tables = [one.tables() for one in (problem.by_type if self.typed else phases)]

    def show(self, state: PlainRun, draws: Generator, step: int) -> Any:
        """Show the policy the next request, see ``kernels.single_run``; returns its features."""
        if self.typed:
            state.kind = self.next_type(draws, step)
        if not self.featured:
            return None
        rows = self._mix.reshape(-1, self.known.feature_columns)
        state.face(columns := rows[int(copy.deepcopy(draws).uniform() * len(rows))])
        return columns

    def next_type(self, draws: Generator, step: int) -> int:
        """The type of the next request, see ``kernels.single_run.next_type``."""
        first, _, third, _ = draws.state
        uniform = hashed(first ^ third, step & 0xFFFFFF) * 2.0**-32
        return sum(uniform >= share for share in self._mix[:-1].tolist())

    def require(self, policy: Policy, arm: Any, kind: int, step: int) -> None:
        """Raise if a policy chose no arm, or a row that is not of the type at hand."""
        count = self.known.arm_count
        if not isinstance(arm, int | np.integer) or not 0 <= arm < count:
            raise wrong_arm(policy, arm, step, count)
        first = kind * self._arms
        if self._aware and not first <= arm < first + self._arms:
            chooses = getattr(policy, "choose", policy.decide)
            raise PolicyError(
                f"policy {policy.label}: chose row {arm} at step {step}, for a request of type"
                f" number {kind}; must be a row of this type, from {first} to"
                f" {first + self._arms - 1}{place_of(type(policy), chooses)}"
            )

    def outcomes(self, phase: int, kind: int, arm: int, draws: Generator) -> list[float]:
        """The outcomes of a pull of an arm, or of a row."""
        return outcomes(self._tables[kind if self.typed else phase], arm % self._arms, draws)


class PlainRun:
    """The state of a run for a policy with ``decide``: totals per arm, and the queues [M]."""

    kind = 0  # the type of the request at hand

    def __init__(self, problem: Known, setup: Setup, budget: float, number: type = float) -> None:
        arms, penalties, zero = problem.arm_count, problem.penalty_count, number(0)
        self.setup, self.budget, self._number = setup, budget, number
        self.spent, self.step, self.queues = zero, 0, [zero] * penalties
        self._explore, self._lost = setup.explore * arms, [zero] * penalties
        self._limits, self._hard = limits_of(problem), problem.hard
        self._left = [limit * budget for limit in self._limits]
        self.seen = Statistics(
            [zero] * arms, [zero] * arms, [zero] * arms, [[zero] * penalties for _ in range(arms)]
        )

    @property
    def running(self) -> bool:
        """Whether neither the budget nor a hard limit is exceeded."""
        hard = zip(self._hard, self._left, strict=False)
        return bool(self.spent <= self.budget) and not any(one and left < 0.0 for one, left in hard)

    @property
    def exploring(self) -> bool:
        """Whether the initial exploration is under way; the queues do not move during it."""
        return self.step < self._explore

    def decide(self, policy: Policy, random: Generator | None) -> int:
        """The arm to pull; ``random`` is for randomised policies."""
        uniform = 0.0 if random is None else random.coin()
        return policy.decide(self.setup, self._remembered(), self.seen, self.queues, uniform)

    def _remembered(self) -> float:
        """The number of pulls that are not forgotten."""
        return self.step

    def face(self, columns: Any) -> None:
        """Show the policy the features of the request at hand."""

    def learn(self, arm: int, values: Sequence[Any]) -> None:
        """Add a pull's cost, reward and penalties to the totals and advance the queues."""
        self._count(arm, values)
        cost, _, *penalties = values
        if not self.exploring:
            self._move_queues(values, self._number(1))
        for m, penalty in enumerate(penalties if self._hard else ()):
            self._left[m] -= penalty
        self.spent += cost
        self.step += 1

    def _move_queues(self, values: Sequence[Any], pulls: Any) -> None:
        """Advance the queues by the summed outcomes of several pulls."""
        cost, reward, *penalties = values
        bases = self.setup.bases
        for m, penalty in enumerate(penalties):
            allowance = self._number(self.setup.allowance[m])
            if bases:
                limit = self._number(self._limits[m])
                penalty = net_penalty(bases[m], limit, pulls, cost, reward, penalty)
            self.queues[m], self._lost[m] = advance(
                self.queues[m], self._lost[m], allowance, cost, penalty
            )

    def _count(self, arm: int, values: Sequence[Any]) -> None:
        cost, reward, *penalties = values
        self.seen.pulls[arm] += self._number(1)
        self.seen.cost[arm] += cost
        self.seen.reward[arm] += reward
        for m, penalty in enumerate(penalties):
            self.seen.penalty[arm][m] += penalty


class _StateRun(PlainRun):
    """A run whose totals are in a ``State``."""

    def __init__(self, problem: Known, setup: Setup, budget: float) -> None:
        super().__init__(problem, setup, budget)
        self._state: State = _empty(State, problem)
        start_state(self._state, budget, problem)
        self._history = setup.history(problem.arm_count, problem.penalty_count)

    def beside(self, policy: Policy, flight: Any, stand_ins: Any) -> _StateRun:
        """A copy with expected outcomes for pulls in ``flight``, and with stand-ins for arms."""
        view, told = copy.deepcopy(self), self._state
        outcomes = np.zeros(len(told.remaining) + 1)
        for arm in np.flatnonzero(flight).tolist():
            count = float(flight[arm])
            assume(view._state, told, arm, count, outcomes)
            view.learn_again(policy, arm)
            view.step += int(count)
        if not self.exploring and flight.any():
            view._move_queues(outcomes.tolist(), float(flight.sum()))
        self._take_carried(policy, view)
        for arm, other in enumerate(stand_ins.astype(int).tolist()):
            if other != arm:
                view._copy_arm(policy, arm, other)
        view.look()
        return view

    def learn_again(self, policy: Policy, arm: int) -> None:
        """Let the policy learn from an arm's totals."""

    def look(self) -> None:
        """Take the totals out of the state, for ``decide``."""

    def _take_carried(self, policy: Policy, to: _StateRun) -> None:
        """Copy to another run the fields that ``choose`` changes permanently."""

    def keep(self, policy: Policy, view: _StateRun) -> None:
        """Copy from a view the fields that ``choose`` changes permanently."""
        view._take_carried(policy, self)

    def _copy_arm(self, policy: Policy, arm: int, other: int) -> None:
        _copy_rows(self._state, arm, other, len(self.seen.pulls))

    def too_few(self, stand_ins: Any, enough: float) -> int:
        """An arm that is not explored yet, or -1."""
        return least_pulled(self._state, stand_ins, enough)


def _empty(record: type, problem: Known) -> Any:
    """A record of zeros."""
    columns = problem.feature_columns
    starts = field_starts(record, problem.arm_count, problem.penalty_count, columns)
    return record_maker(record)(np.zeros(starts[-1]), starts)


def _copy_rows(record: Any, arm: int, other: int, arms: int) -> None:
    """Give an arm the numbers of another, except for its pulls in flight."""
    kind: type = type(record)
    for name, shape in record_fields(kind):
        if shape[0] == "K" and name != "flight":
            rows = attrgetter(name)(record).reshape(arms, -1)
            rows[arm] = rows[other]


class Forgetful(_StateRun):
    """The run of a policy that has ``decide``, over a state: one that forgets, for instance."""

    def _remembered(self) -> float:
        return float(sum(self.seen.pulls))

    def _count(self, arm: int, values: Sequence[Any]) -> None:
        remember(self._state, self._history, self.setup.forgetting, arm, values)
        self.look()

    def look(self) -> None:
        """Take the totals out of the state."""
        totals = self._state.totals.reshape(len(self.seen.pulls), -1)
        self.seen.pulls = self._state.pulls.tolist()
        self.seen.cost, self.seen.reward = totals[:, 0].tolist(), totals[:, 1].tolist()
        self.seen.penalty = totals[:, 2:].tolist()


class Choosing(_StateRun):
    """The run of a ``ChoicePolicy``."""

    def __init__(self, problem: Known, policy: ChoicePolicy, setup: Setup, budget: float) -> None:
        super().__init__(problem, setup, budget)
        self._watched = is_outside(type(policy))  # whether ``choose`` may be wrong
        more = () if self._watched else (0.0,)
        self._constants = (*map(float, setup.constants), *more)
        self._scratch = _empty(policy.Scratch, problem)
        self._policy, self._typed = policy, problem.types > 0
        policy.begin(self._constants, self._state, self._scratch)

    def decide(self, policy: Policy, random: Generator | None) -> int:
        """The arm that the policy chooses."""
        assert random is not None, "a ChoicePolicy needs random words"
        assert isinstance(policy, ChoicePolicy)
        kind = [self.kind] if self._typed else []
        words = np.array([random.word() for _ in range(WORDS)] + kind)
        if self._watched:
            self._lock(True)
        arm = policy.choose(self._constants, self._state, self._scratch, words)
        if self._watched:
            self._lock(False)
        return arm

    def _lock(self, on: bool) -> None:
        """Make writing to the state an error, or allow it again."""
        for array in self._state:
            array.flags.writeable = not on

    def face(self, columns: Any) -> None:
        """Note the features in the policy's record."""
        self._scratch.models.context[: len(columns)] = columns

    def learn_again(self, policy: Policy, arm: int) -> None:
        """Let the policy learn from an arm's totals."""
        assert isinstance(policy, ChoicePolicy)
        policy.learn(self._constants, self._state, self._scratch, arm)

    def _take_carried(self, policy: Policy, to: Any) -> None:
        for name in carried_fields(policy):
            attrgetter(name)(to._scratch)[:] = attrgetter(name)(self._scratch)

    def _copy_arm(self, policy: Policy, arm: int, other: int) -> None:
        super()._copy_arm(policy, arm, other)
        _copy_rows(self._scratch, arm, other, len(self.seen.pulls))

    def _count(self, arm: int, values: Sequence[Any]) -> None:
        outcomes, fade = np.array(values, float), self.setup.forgetting
        touched = remember(self._state, self._history, fade, arm, outcomes)
        for row in touched_rows(self._state, touched, arm):
            self.learn_again(self._policy, row)


def plain_run(
    problem: Known, policy: Policy, setup: Setup, budget: float, number: type = float
) -> PlainRun:
    """A new run; its totals have the type ``number``."""
    if isinstance(policy, ChoicePolicy):
        return Choosing(problem, policy, setup, budget)
    if setup.forgets:
        return Forgetful(problem, setup, budget)
    return PlainRun(problem, setup, budget, number)


def play(
    problem: Problem,
    policy: Policy,
    setup: Setup,
    budget: float,
    seed: int,
    run: int,
    number: type = float,
) -> Iterator[Step]:
    """The steps of one run, until its cost first exceeds ``budget`` (normalised)."""
    draws, chances = Generator(seed, OUTCOMES, run), Generator(seed, POLICY, run)
    random, requests = chances if policy.random else None, Requests(problem, policy)
    starts, count = problem.phase_starts(budget).tolist(), requests.known.arm_count
    state = plain_run(requests.known, policy, setup, budget, number)
    while state.running:
        requests.show(state, draws, state.step)
        if state.exploring:
            chances.coin()  # every step takes one number, even if unused
            arm = state.step % count
        else:
            arm = state.decide(policy, random)
            requests.require(policy, arm, state.kind, state.step)
        phase = bisect_right(starts, state.spent) - 1
        values = [number(one) for one in requests.outcomes(phase, state.kind, arm, draws)]
        state.learn(arm, values)
        yield arm, values, list(state.queues)


def play_beside(
    problem: Problem,
    policy: Policy,
    setup: Setup,
    budget: float,
    seed: int,
    run: int,
    delays: Delays,
) -> Iterator[Step]:
    """The steps of one run with outcomes reported late or never, or arms that come and go.

    The queues are those of the reported outcomes.
    """
    draws, chances = Generator(seed, OUTCOMES, run), Generator(seed, POLICY, run)
    key = int(seed_words(seed, LATE, np.array([run]))[0, 0])
    requests = Requests(problem, policy)
    known, starts = requests.known, problem.phase_starts(budget).tolist()
    state: Any = Forgetful(known, setup, budget)
    if isinstance(policy, ChoicePolicy):
        state = Choosing(known, policy, setup, budget)
    count, rules = known.arm_count, delays.rules(problem, known.arm_count)
    stand_ins = rules.stand_ins.reshape(-1, count)
    flight, late, spent = np.zeros(count), dict[int, list[tuple[int, list[float], Any]]](), 0.0
    for step in itertools.count():
        if spent > budget or not state.running:
            return
        phase = bisect_right(starts, spent) - 1
        for arm, values, columns in reversed(late.pop(step, [])):
            flight[arm] -= 1.0
            if columns is not None:
                state.face(columns)
            state.learn(arm, values)
        columns = requests.show(state, draws, step)
        view = state.beside(policy, flight, stand_ins[phase])
        arm = view.too_few(stand_ins[phase], setup.explore)
        if arm >= 0:  # every step takes as many words, even if unused
            for _ in range(_words(policy)):
                chances.word()
        else:
            arm = view.decide(policy, chances if policy.random else None)
            requests.require(policy, arm, state.kind, step)
            state.keep(policy, view)
            arm = int(stand_ins[phase, arm])
        values = requests.outcomes(phase, state.kind, arm, draws)
        spent += values[0]
        flight[arm] += 1.0
        if not hashed(key, 2 * step + 1) < rules.lost:
            due = step + 1 + int(rules.delays[hashed(key, 2 * step) >> 22])
            late.setdefault(due, []).append((arm, values, columns))
        yield arm, values, list(state.queues)


def _words(policy: Policy) -> int:
    """Random words that a policy takes per step."""
    return WORDS if isinstance(policy, ChoicePolicy) else int(policy.random)


def outcomes(tables: Tables, arm: int, draws: Generator) -> list[float]:
    """Draw one pull's cost, reward and penalties, with one uniform per channel for every arm."""
    channels = tables.count.shape[1]
    uniforms = [draws.uniform() for _ in range(max(channels, 3))]  # at least 3, as in the kernels
    values = []
    for channel in range(channels):
        place = uniforms[tables.source[arm, channel]] * tables.count[arm, channel]
        cell = int(place)
        part, at = place - cell, tables.offset[arm, channel] + cell
        value = tables.first[at] if part < tables.split[at] else tables.second[at]
        values.append(float(value + tables.slope[at] * (part - 0.5)))
    return values


class Tally:
    """A run's totals so far, summed per arm as in every engine."""

    def __init__(self, job: Job) -> None:
        self._pulls = np.zeros(job.arm_count, np.int64)
        self._totals = np.zeros((job.arm_count, 2 + job.penalty_count))
        self._spent, self._queue = 0.0, [0.0] * job.penalty_count
        self._peak = np.zeros(job.penalty_count)

    def add(self, step: Step) -> None:
        """Add a step to the totals."""
        arm, values, self._queue = step
        self._pulls[arm] += 1
        self._totals[arm] += values
        self._spent += values[0]
        self._peak = np.maximum(self._peak, self._queue)

    def read(self) -> Runs:
        """The totals as the ``Runs`` of one run."""
        _, reward, *penalty = [sum(column) for column in self._totals.T.tolist()]
        return Runs(
            reward=np.float64(reward),  # type: ignore[arg-type]
            cost=np.float64(self._spent),  # type: ignore[arg-type]
            penalty=np.array(penalty, float),
            pulls=self._pulls.copy(),
            arm_cost=self._totals[:, 0].copy(),
            queue=np.array(self._queue),
            queue_max=self._peak,
        )


@dataclass(frozen=True)
class PlainPlan:
    """The plan of one job in plain Python."""

    job: Job
    chunk: int = 1  # runs per unit of work

    def compile(self) -> float:
        """Compile nothing; returns 0 seconds."""
        return 0.0

    def steps(self, run: int) -> Iterator[Step]:
        """The steps of the run with this number."""
        job = self.job
        arguments = (job.problem, job.policy, job.setup, job.budget, job.seed, run)
        made, step = play_beside(*arguments, job.delays) if job.moving else play(*arguments), 0
        try:
            for step, one in enumerate(made, 1):  # noqa: B007 -- how many were made
                yield one
        except TightropeError:
            raise
        except Exception as error:
            raise failed(type(job.policy), error, step, job.policy.label) from error

    def run(
        self, runs: npt.NDArray[np.int64], stop: npt.NDArray[np.uint8]
    ) -> tuple[Runs | None, float]:
        """The runs and the seconds they took; None once ``stop[0]`` is set."""
        start = time.perf_counter()
        finished = []
        for run in runs.tolist():
            tally = Tally(self.job)
            for number, step in enumerate(self.steps(run)):
                tally.add(step)
                if number % CHECK_EVERY == 0 and stop[0]:
                    return None, 0.0
            finished.append(tally.read())
        return Runs.stack(finished), time.perf_counter() - start


plan = PlainPlan  # any policy will do


def repeat(job: Job, run: int) -> None:
    """Raise the error of a run in which a compiled policy failed, by repeating it."""
    for _ in PlainPlan(job).steps(run):
        pass
    label = job.policy.label
    raise PolicyError(f"policy {label}: an index is nan in run {run}, but only when compiled")


_rehearsed: set[tuple[Any, ...]] = set()


def rehearse(job: Job) -> None:
    """Make the first steps of some runs of a user's own policy, and raise the error of any.

    Compiled code continues where Python raises an error. This is done once per process for a
    policy, its parameters, and a number of arms, limits and types.
    """
    types = len(job.problem.shares)
    key = type(job.policy), job.described, job.arm_count, job.penalty_count, types
    if key in _rehearsed or not is_outside(type(job.policy)) or job.arm_count > MOST_ARMS:
        return
    for run in REHEARSED_RUNS:
        steps = PlainPlan(job).steps(run)
        with np.errstate(divide="raise", invalid="raise"):
            next(steps, None)  # it prepares shared data, which takes time once
            end = time.thread_time() + REHEARSAL_SECONDS / len(REHEARSED_RUNS)
            for _ in itertools.islice(steps, REHEARSED_STEPS - 1):
                if time.thread_time() > end:
                    break
    _rehearsed.add(key)
