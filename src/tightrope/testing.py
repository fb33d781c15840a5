"""The contracts as test classes: subclass one, name your class, run pytest.

class TestMine(PolicyContract):
    policies = (Mine(), Mine(boldness=2.0))

class TestMyStore(StoreContract):
    def store(self):
        return MyStore(a_new_place())

    def again(self, store):
        return MyStore(store.url)
"""

from __future__ import annotations

import dataclasses
import math
import os
import sqlite3
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import ClassVar

import numpy as np

from tightrope.engine.backend import plan_of
from tightrope.engine.planning import plan_jobs
from tightrope.engine.python import play
from tightrope.engine.single import plan_single
from tightrope.errors import StoreBusyError, StoreError
from tightrope.live import Controller
from tightrope.live.events import START, Row, stored
from tightrope.live.stores import Saved, Store, open_store
from tightrope.policies.base import IndexPolicy, Policy, Setup, set_up
from tightrope.policies.choice import WORDS, ChoicePolicy, record
from tightrope.policies.state import State, field_starts, record_maker, start_state
from tightrope.problem import Arm, Limit, Problem, Scales
from tightrope.problem.distributions import Beta, CostAbove, TwoPoint, Uniform
from tightrope.problem.ready import ready_problem
from tightrope.results import Runs

__all__ = ["PolicyContract", "StoreContract"]


def _dollars(unit: float = 1.0) -> Problem:
    """A problem with continuous and dependent outcomes, rows and two penalties, cost scaled."""
    rows = [(10.0 * unit, 0.5, 0.0, 1.0), (30.0 * unit, 0.9, 1.0, 0.0), (2.0 * unit, 0.1, 0, 0)]
    dear = TwoPoint(1.0 * unit, 50.0 * unit, 0.3)
    late = CostAbove(20.0 * unit)
    return Problem(
        (
            Arm("a", Uniform(5.0 * unit, 40.0 * unit), Beta(2, 3), [late, Beta(2, 2)]),
            Arm("b", dear, Uniform(0.0, 1.0), [Beta(1, 4), Beta(1, 4)]),
            Arm.from_rows("c", rows),
        ),
        limit=(0.03 / unit, 0.03 / unit),
        scales=Scales(cost=50.0 * unit),
    )


def _said_otherwise() -> Problem:
    """A problem with a limit per pull, and one on the cost per reward, which is not told."""
    arms = (
        Arm("a", Uniform(5.0, 40.0), Beta(2, 3), {"bad": Beta(2, 3)}),
        Arm("b", TwoPoint(1.0, 50.0, 0.3), Uniform(0.0, 1.0), {"bad": Beta(1, 4)}),
        Arm.from_rows("c", [(10.0, 0.5, 0.0), (30.0, 0.9, 1.0), (2.0, 0.1, 0.0)], ["bad"]),
    )
    limits = {"bad": Limit(0.6, per="pull"), "spend": Limit(45.0, of="cost", per="reward")}
    return Problem(arms, limits=limits, scales=Scales(cost=50.0))


def _check_it_only_looks(policy: ChoicePolicy, problem: Problem, budget: float) -> None:
    """Pull every arm three times, then decide with everything but the scratch read-only."""
    random, penalties, arms = np.random.default_rng(2), problem.penalty_count, problem.arm_count
    constants = (*set_up(policy, problem, budget).constants, 0.0)
    blocks = [np.zeros(field_starts(one, arms, penalties)[-1]) for one in (State, policy.Scratch)]
    state, scratch = (
        record_maker(one)(block, field_starts(one, arms, penalties))
        for one, block in zip((State, policy.Scratch), blocks, strict=True)
    )
    start_state(state, budget, problem)
    words = np.arange(1, 1 + WORDS)
    policy.begin(constants, state, scratch)
    for arm in list(range(arms)) * 3:
        record(state, arm, random.uniform(0.1, 0.9, 2 + penalties))
        policy.learn(constants, state, scratch, arm)
    for array in (*state, words):
        array.flags.writeable = False
    chosen = policy.choose(constants, state, scratch, words)
    policy.learn(constants, state, scratch, chosen)
    assert 0 <= chosen < arms
    assert np.isfinite(blocks[1]).all()


def _totals() -> list[tuple[float, float, float]]:
    """Samples of an arm's pulls, cost and another total; the cost may be 0."""
    random = np.random.default_rng(1)
    pulls = random.integers(1, 1000, 40).astype(float)
    cost, total = pulls * random.uniform(0, 1, (2, 40))
    return [(3.0, 0.0, 2.0), *zip(pulls.tolist(), cost.tolist(), total.tolist(), strict=True)]


def _check_straight(
    policy: IndexPolicy, setup: Setup, pulls: float, cost: float, total: float
) -> None:
    constants = setup.constants
    reward = policy.reward_terms(constants, pulls, cost, total)
    penalty = policy.penalty_terms(constants, pulls, cost, total)
    if setup.terms is not None:
        reward, penalty = setup.terms[0, 0], setup.terms[-1, -1]
    for low, high in ((0.0, 3.0), (1.0, 1.5), (7.0, 7.1)):
        parts = (
            [
                policy.reward_index(constants, t, u, arm, *reward)
                for t, u, arm in _moments(low, high)
            ],
            [policy.penalty_index(constants, t, *penalty) for t, _, _ in _moments(low, high)],
        )
        for start, middle, other, end in parts:
            size = abs(start) + abs(end)
            assert middle == other, "the index must not depend on the uniform or the arm's number"
            gap = 0.0 if start == end else middle - (start + end) / 2
            assert abs(gap) <= 1e-14 * size, "the index must be linear in the clock"


def _moments(low: float, high: float) -> list[tuple[float, float, float]]:
    """Values of clock, uniform and arm number: both ends of the clock, and the middle twice."""
    middle = (low + high) / 2
    return [(low, 0.0, 0.0), (middle, 0.0, 0.0), (middle, 0.7, 3.0), (high, 0.0, 0.0)]


def _unscaled(value: float, scale: float) -> float:
    """The outcome whose quotient by ``scale`` is exactly ``value``, if there is one."""
    near = value * scale
    for told in (near, math.nextafter(near, math.inf), math.nextafter(near, 0.0)):
        if told / scale == value:
            return told
    return near


class PolicyContract:
    """What every policy must satisfy, on Bernoulli arms and on arms of every other kind."""

    policies: ClassVar[Sequence[Policy]] = ()
    problems: ClassVar[Sequence[tuple[Problem, float]]] = (
        (ready_problem("paper"), 60.0),
        (_dollars(), 400.0),
        (_said_otherwise(), 400.0),
    )

    def test_it_says_what_it_is(self) -> None:
        """It has a name, a summary, and parameters with defaults; it is frozen."""
        assert self.policies, "name the policies to test"
        for policy in self.policies:
            assert policy.name == policy.name.lower().strip()
            assert policy.summary
            assert dataclasses.is_dataclass(policy)
            assert type(policy)(), "every parameter needs a default"
            assert policy == dataclasses.replace(policy)
            assert hash(policy) == hash(dataclasses.replace(policy))

    def test_its_setup_is_plain_numbers(self) -> None:
        """Constants are finite; there is an allowance per penalty; ``explore`` is an integer."""
        for policy in self.policies:
            for problem, budget in self.problems:
                setup = set_up(policy, problem, budget / problem.scales.cost)
                assert all(math.isfinite(value) for value in setup.constants)
                assert len(setup.allowance) == problem.penalty_count
                assert setup.explore >= 0
                if setup.terms is not None:
                    assert setup.terms.shape == (problem.arm_count, 1 + problem.penalty_count, 2)
                if isinstance(policy, IndexPolicy):
                    assert policy.learns == (setup.terms is None)
                if isinstance(policy, ChoicePolicy):
                    assert setup.explore == 0, "it chooses its first pulls itself"
                    assert setup.terms is None

    def test_if_it_is_steady_its_index_is_straight_in_the_clock(self) -> None:
        """And it depends neither on the uniform nor on the arm's number: see ``IndexPolicy``."""
        for policy in self.policies:
            if not isinstance(policy, IndexPolicy) or not policy.steady:
                continue
            assert not policy.random
            for problem, budget in self.problems:
                setup = set_up(policy, problem, budget / problem.scales.cost)
                assert all(policy.clock(setup.constants, 10.0**n) >= 0.0 for n in range(9))
                for pulls, cost, total in _totals():
                    _check_straight(policy, setup, pulls, cost, total)

    def test_it_picks_an_arm_at_every_step(self) -> None:
        """And every run ends right after its cost first exceeds the budget."""
        for policy in self.policies:
            for problem, budget in self.problems:
                scaled = budget / problem.scales.cost
                steps = list(play(problem, policy, set_up(policy, problem, scaled), scaled, 1, 0))
                assert all(0 <= arm < problem.arm_count for arm, _, _ in steps)
                assert sum(values[0] for _, values, _ in steps[:-1]) <= scaled
                assert all(queue >= 0 for _, _, queues in steps for queue in queues)

    def test_the_same_seed_gives_the_same_run(self) -> None:
        """The run depends only on the arguments, not on earlier runs."""
        for policy in self.policies:
            for problem, budget in self.problems:
                scaled = budget / problem.scales.cost
                setup = set_up(policy, problem, scaled)
                first, second = (list(play(problem, policy, setup, scaled, 3, 1)) for _ in "ab")
                assert first == second

    def test_the_unit_of_cost_does_not_matter(self) -> None:
        """Halving the unit of cost and doubling the numbers gives the same pulls."""
        for policy in self.policies:
            pulled = []
            for unit in (1.0, 2.0):
                problem = _dollars(unit)
                scaled = 400.0 * unit / problem.scales.cost
                steps = play(problem, policy, set_up(policy, problem, scaled), scaled, 5, 0)
                pulled.append([arm for arm, _, _ in steps])
            assert pulled[0] == pulled[1]

    def test_choosing_changes_nothing_but_its_own_scratch(self) -> None:
        """Only the engine may write to the state."""
        for policy in self.policies:
            if not isinstance(policy, ChoicePolicy):
                continue
            for problem, budget in self.problems:
                _check_it_only_looks(policy, problem, budget / problem.scales.cost)

    def test_every_engine_makes_the_same_runs(self) -> None:
        """Lanes and single runs are bit-identical to plain Python, also if the arms change."""
        for policy in self.policies:
            if not isinstance(policy, IndexPolicy | ChoicePolicy):
                continue
            for problem, budget in (*self.problems, *self._changing(policy)):
                jobs = plan_jobs(problem, {"": policy}, [budget], 3, seed=7, precision="double")
                job = jobs["", budget]
                plans = {"plain Python": plan_of(job.on("python"))}
                if job.engine == "cpu":  # it can be compiled
                    plans |= {"one run at a time": plan_single(job), "the CPU": plan_of(job)}
                made = {
                    name: plan.run(np.arange(3), np.zeros(1, np.uint8))[0]
                    for name, plan in plans.items()
                }
                for name, runs in made.items():
                    for field in dataclasses.fields(Runs):
                        ours, plain = (
                            getattr(one, field.name) for one in (runs, made["plain Python"])
                        )
                        np.testing.assert_array_equal(ours, plain, f"{name}: {field.name}")

    def _changing(self, policy: Policy) -> Sequence[tuple[Problem, float]]:
        """Problems whose arms change, for policies that do not know the laws."""
        return () if policy.knows == "laws" else ((ready_problem("arena-abrupt"), 60.0),)

    def test_the_controller_decides_alike_and_survives_a_snapshot(self) -> None:
        """It is told a plain Python run's outcomes, and saved and restored in the middle."""
        for policy in self.policies:
            for problem, budget in self.problems:
                scales, setup = (
                    problem.scales,
                    set_up(policy, problem, budget / problem.scales.cost),
                )
                scaled = budget / scales.cost
                steps = list(play(problem, policy, setup, scaled, 3, 0))
                controller = Controller(problem, policy, budget, seed=3)
                for number, (arm, values, _) in enumerate(steps):
                    if number == len(steps) // 2:
                        controller = Controller.restore(controller.snapshot(), policy)
                    assert controller.ask() == arm, f"{policy.label}: decision {number}"
                    told = [_unscaled(v, s) for v, s in zip(values, scales.channels, strict=True)]
                    controller.tell(arm, told[0], told[1], [told[2 + m] for m in problem.told])
                assert controller.exhausted


def _rows(count: int, after: int = 0, ticket: str | None = None, who: str = "me") -> list[Row]:
    """Events with numbers above ``after``."""
    text = r"a \"quoted\" \\ 'word' {x,y} " + "\u00e9 \u2713"
    return [
        stored(START, seq, 10 * seq, "asked", ticket, who, 1, f'{{"of": {seq}, "text": "{text}"}}')
        for seq in range(after + 1, after + count + 1)
    ]


def _append(
    store: Store, name: str, rows: Sequence[Row], notes: dict[int, str] | None = None
) -> None:
    with store.turn(name) as turn:
        turn.append(rows, notes or {})


@contextmanager
def _refused(kind: type[Exception]) -> Iterator[None]:
    """What is done here must raise this error."""
    told = None
    try:
        yield
    except kind as error:
        told = str(error)
    assert told is not None, f"{kind.__name__} was not raised"
    assert "\n" not in told, f"{told!r}: must be one line"


def _in_threads(*acts: Callable[[], None]) -> None:
    """Do these at once; raises what one of them raised."""
    failed: list[BaseException] = []

    def run(act: Callable[[], None]) -> None:
        try:
            act()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=(act,)) for act in acts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]


def _in_fork(act: Callable[[], object]) -> None:
    """Do this in a forked process, which must not fail."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads
        child = os.fork()
    if child == 0:
        status = 1
        try:
            act()
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0, "the forked process failed"


class _UndoneError(Exception):
    """Something went wrong within a turn."""


class StoreContract:
    """What every store of campaigns must do: override ``store`` and ``again``."""

    durable: ClassVar[bool] = True  # whether another handle, or process, sees what was committed

    def store(self) -> Store:
        """A new store with nothing in it; it is called once in each test."""
        raise NotImplementedError("make a store, with nothing in it")

    def again(self, store: Store) -> Store:
        """Another handle on the same data; the same handle, if the store is in memory."""
        raise NotImplementedError("open the same store again")

    @contextmanager
    def _two(self) -> Iterator[tuple[Store, Store]]:
        """Two handles."""
        first = self.store()
        second = self.again(first)
        try:
            yield first, second
        finally:
            second.close()
            first.close()

    def test_events_are_read_in_order(self) -> None:
        """All of them, from a number on, and not more than asked for; every column as it was."""
        with self._two() as (store, other):
            rows = _rows(2500)
            assert store.read("a") == []
            _append(store, "a", rows[:1200])
            _append(store, "a", rows[1200:])
            for one in (store, other):
                assert one.read("a", 0, 5000) == rows
                assert one.read("a") == rows[:1000]
                assert one.read("a", 2490) == rows[2490:]
                assert one.read("a", 7, 3) == rows[7:10]
                assert one.read("a", 2500) == []
                assert one.read("b") == []
            for after in (0, 1199, 2400, 2499, 2500, 2600):
                for handle in (store, other, store):
                    with handle.turn("a") as turn:
                        assert turn.read(after) == rows[after : after + 1000]
                        assert turn.read(after, 2) == rows[after : after + 2]
                        assert turn.read(100, 2) == rows[100:102]
            for row in store.read("a", 0, 1):
                kinds = (int, int, str, type(None), str, int, str, bytes)
                assert tuple(map(type, row)) == kinds

    def test_events_are_found_by_ticket(self) -> None:
        """In the order of the log, whatever the order of the tickets, and each once."""
        with self._two() as (store, other):
            tickets = ["1-00000001", "a'b\\\"c", None, "{x,y}", "1-00000001"]
            rows = [_rows(1, seq, ticket)[0] for seq, ticket in enumerate(tickets)]
            _append(store, "a", rows)
            _append(store, "b", _rows(3, ticket="1-00000001"))
            wanted = ["{x,y}", "none", "1-00000001", "a'b\\\"c", "{x,y}"]
            found = [rows[0], rows[1], rows[3], rows[4]]
            assert store.read("a", tickets=wanted) == other.read("a", tickets=wanted) == found
            assert store.read("a", tickets=[]) == store.read("c", tickets=wanted) == []
            with other.turn("a") as turn:
                assert turn.find(wanted) == found
                assert turn.find(["none"]) == turn.find([]) == []

    def test_many_tickets_are_found_at_once(self) -> None:
        """More than a database takes as arguments, perhaps."""
        with self._two() as (store, _):
            rows = [_rows(1, seq, f"t{seq}")[0] for seq in range(1300)]
            _append(store, "a", rows)
            wanted = [f"t{seq % 1300}" for seq in range(1400, 0, -1)]
            assert store.read("a", tickets=wanted) == rows

    def test_numbers_have_no_gaps_and_come_once(self) -> None:
        """And a turn that was refused leaves nothing."""
        with self._two() as (store, other):
            rows = _rows(6)
            _append(store, "a", rows[:3])
            for wrong in (rows[4:], rows[2:4], rows[:1], [rows[3], rows[5]], [rows[3], rows[3]]):
                for handle in (store, other):
                    with _refused(StoreError):
                        _append(handle, "a", wrong)
                    assert other.read("a") == rows[:3]
            _append(other, "a", rows[3:])
            assert store.read("a") == rows

    def test_a_log_may_begin_at_any_number(self) -> None:
        """So a copy of a log whose beginning was archived does."""
        with self._two() as (store, _):
            rows = _rows(6)
            _append(store, "a", rows[3:5])
            _append(store, "a", rows[5:])
            assert store.read("a") == rows[3:]

    def test_an_exception_leaves_nothing(self) -> None:
        """Whatever was appended or dropped before it."""
        with self._two() as (store, other):
            with _refused(_UndoneError), store.turn("new") as turn:
                turn.append(_rows(3, ticket="t"), {1: "a note"})
                raise _UndoneError
            assert other.names() == []
            assert other.read("new") == other.read("new", tickets=["t"]) == []
            assert other.notes("new") == {}
            _append(other, "new", _rows(5))
            with _refused(_UndoneError), store.turn("new") as turn:
                turn.append(_rows(2, 5), {6: "a note"})
                turn.drop(3)
                raise _UndoneError
            assert other.read("new") == store.read("new") == _rows(5)
            assert store.notes("new") == {}
            _append(store, "new", _rows(1, 5))

    def test_campaigns_have_names(self) -> None:
        """In the order in which they were made; a turn without events makes none."""
        with self._two() as (store, other):
            names = ["z", "a", 'it\'s "quoted" \\ 100 % {a}', "\u00e9\u2713 \U0001f3aa"]
            assert store.names() == []
            for number, name in enumerate(names, start=1):
                _append(store, name, _rows(number))
                with store.turn("none") as turn:
                    assert turn.read(0) == []
            assert store.names() == other.names() == names
            assert [len(other.read(name)) for name in names] == [1, 2, 3, 4]

    def test_notes_can_be_forgotten(self) -> None:
        """The events that they belong to stay; notes are any text."""
        with self._two() as (store, other):
            told = {
                1: "x" * 5000,
                3: "\u00e9\u2713 \U0001f3aa\n'\"\\ {}, %s NULL",
                4: "",
                5: "NULL",
            }
            _append(store, "a", _rows(3), {n: text for n, text in told.items() if n <= 3})
            _append(store, "a", _rows(2, 3), {n: text for n, text in told.items() if n > 3})
            _append(store, "b", _rows(1), {1: "of another"})
            assert store.notes("a") == other.notes("a") == told
            assert list(store.notes("a")) == [1, 3, 4, 5]
            left = {1: told[1], 5: told[5]}
            assert store.notes("a", [3, 4, 99]) == left
            assert other.notes("a") == left
            assert other.notes("b") == {1: "of another"}
            assert other.notes("c") == {}
            assert store.read("a") == _rows(5)

    def test_the_last_snapshot_is_found(self) -> None:
        """Or the last one up to a number; a second one of the same event replaces the first."""
        with self._two() as (store, other):
            _append(store, "a", _rows(9))
            _append(store, "b", _rows(9))
            bodies = [bytes(range(256)), b"", b"\0" * 300_000]
            made = [
                Saved(seq, bytes([seq] * 16), body)
                for seq, body in zip((2, 5, 8), bodies, strict=True)
            ]
            assert store.saved("a") is None
            for saved in (made[1], made[0], made[2]):
                store.save("a", saved)
            for one in (store, other):
                assert one.saved("a") == made[2]
                assert one.saved("a", 8) == made[2]
                assert one.saved("a", 7) == made[1]
                assert one.saved("a", 2) == made[0]
                assert one.saved("a", 1) is None
                assert one.saved("b") is None
            other.save("a", made[2]._replace(body=b"another"))
            assert store.saved("a") == made[2]._replace(body=b"another")

    def test_big_bodies_are_kept(self) -> None:
        """A body of two million characters, and many in one turn."""
        with self._two() as (store, other):
            big = [row._replace(body='{"x":"' + '\\"y' * 500_000 + '"}') for row in _rows(1)]
            rows = big + [row._replace(body="z" * 2000) for row in _rows(1500, 1)]
            _append(store, "a", rows)
            assert other.read("a", 0, 5000) == rows

    def test_the_clock_runs_in_microseconds(self) -> None:
        """And does not go back within a turn."""
        with self._two() as (store, _), store.turn("a") as turn:
            first = turn.now()
            time.sleep(0.02)
            second = turn.now()
            assert isinstance(first, int)
            assert first < second < first + 10_000_000
            assert abs(first - time.time_ns() // 1000) < 600_000_000

    def test_old_events_can_be_dropped(self) -> None:
        """Those after them stay, and the log goes on."""
        with self._two() as (store, other):
            rows = _rows(8, ticket="t")
            _append(store, "a", rows[:6])
            with store.turn("a") as turn:
                turn.append(rows[6:7], {})
                turn.drop(4)
            assert store.read("a") == other.read("a") == rows[4:7]
            assert other.read("a", tickets=["t"]) == rows[4:7]
            with other.turn("a") as turn:
                assert turn.read(2) == turn.read(4) == turn.find(["t"]) == rows[4:7]
                turn.append(rows[7:], {})
                turn.drop(2)
            assert store.read("a") == rows[4:]

    def test_turns_never_interleave(self) -> None:
        """Two handles in two threads each read the end of the log and append to it."""
        with self._two() as (store, other):

            def act(handle: Store, who: str) -> Callable[[], None]:
                def work() -> None:
                    for _ in range(25):
                        with handle.turn("a") as turn:
                            seen = turn.read(0, 10_000)
                            time.sleep(0.0005)
                            turn.append(_rows(2, len(seen), who=who), {})

                return work

            _in_threads(act(store, "x"), act(other, "y"), act(store, "z"))
            rows = store.read("a", 0, 10_000)
            assert [row.seq for row in rows] == list(range(1, 151))
            whose = [row.who for row in rows]
            assert whose[::2] == whose[1::2]
            assert {who: whose.count(who) for who in "xyz"} == {"x": 50, "y": 50, "z": 50}

    def test_who_waits_too_long_is_told(self) -> None:
        """Another handle holds the turn; afterwards all is well."""
        with self._two() as (store, other):
            _append(store, "a", _rows(1))
            begun, finish = threading.Event(), threading.Event()

            def hold() -> None:
                with store.turn("a") as turn:
                    turn.append(_rows(1, 1), {})
                    begun.set()
                    finish.wait(30)

            def wait() -> None:
                begun.wait(30)
                other.deadline = 0.2
                try:
                    with _refused(StoreBusyError), other.turn("a"):
                        pass
                    assert len(other.read("a")) == 1
                finally:
                    other.deadline = Store.deadline
                    finish.set()

            _in_threads(hold, wait)
            with other.turn("a") as turn:
                assert turn.read(0) == _rows(1) + _rows(1, 1)
                turn.append(_rows(1, 2), {})
            assert len(store.read("a")) == 3

    def test_campaigns_do_not_meet(self) -> None:
        """Two handles work on two campaigns at once."""
        with self._two() as (store, other):

            def act(handle: Store, name: str) -> Callable[[], None]:
                def work() -> None:
                    for number in range(20):
                        with handle.turn(name) as turn:
                            assert len(turn.read(0)) == number
                            turn.append(_rows(1, number, "t", name), {number + 1: name})

                return work

            _in_threads(act(store, "a"), act(other, "b"))
            for name in "ab":
                assert {row.who for row in store.read(name, tickets=["t"])} == {name}
                assert store.notes(name) == dict.fromkeys(range(1, 21), name)

    def test_a_backup_is_a_file_with_everything(self) -> None:
        """It opens as a store of its own; a path that exists is refused, and nothing is left."""
        with self._two() as (store, _), tempfile.TemporaryDirectory() as folder:
            _append(store, "a", _rows(6, ticket="t"), {2: "\u2713"})
            _append(store, "b\u2713", _rows(2))
            saved = Saved(4, bytes(16), b"\0body")
            store.save("a", saved)
            with store.turn("a") as turn:
                turn.drop(2)
            path = os.path.join(folder, "backup.db")
            store.backup(path)
            assert os.listdir(folder) == ["backup.db"]
            with _refused(ValueError):
                store.backup(path)
            assert os.listdir(folder) == ["backup.db"]
            whole = sqlite3.connect(path)
            assert whole.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            whole.close()
            copy = open_store(path, create=False)
            try:
                assert copy.names() == ["a", "b\u2713"]
                assert copy.read("a") == store.read("a") == _rows(6, ticket="t")[2:]
                assert copy.read("b\u2713") == _rows(2)
                assert copy.notes("a") == store.notes("a")
                assert copy.saved("a") == saved
                _append(copy, "a", _rows(1, 6))
            finally:
                copy.close()
            assert len(store.read("a")) == 4

    def test_a_forked_process_goes_on(self) -> None:
        """And so does its parent, with the handles that both have."""
        with self._two() as (store, other):
            _append(store, "a", _rows(1))
            assert len(other.read("a")) == 1

            def act() -> None:
                assert store.read("a") == _rows(1)
                with other.turn("a") as turn:
                    assert turn.read(0) == _rows(1)
                    turn.append(_rows(1, 1), {2: "of the child"})
                store.save("a", Saved(2, bytes(16), b"child"))
                store.close()

            _in_fork(act)
            seen = 2 if self.durable else 1
            for handle in (store, other):
                with handle.turn("a") as turn:
                    assert len(turn.read(0)) == seen
                    turn.append(_rows(1, seen), {})
                seen += 1
            assert len(store.read("a")) == seen

    def test_what_was_committed_stays(self) -> None:
        """After the handle was closed, twice; a closed handle takes nothing."""
        if not self.durable:
            return
        with self._two() as (store, other):
            _append(store, "a", _rows(3), {1: "x"})
            store.save("a", Saved(3, bytes(16), b"body"))
            store.close()
            store.close()
            with _refused(StoreError):
                _append(store, "a", _rows(1, 3))
            with _refused(StoreError):
                store.read("a")
            third = self.again(other)
            try:
                for one in (other, third):
                    assert one.read("a") == _rows(3)
                    assert one.notes("a") == {1: "x"}
                    assert one.saved("a") == Saved(3, bytes(16), b"body")
                    assert one.names() == ["a"]
            finally:
                third.close()
