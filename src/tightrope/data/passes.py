"""The passes of a replay: a policy decides over recorded rows in several orders.

``replays`` says which rows a decision gets. Letters: n rows, K arms, M limits.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from tightrope.data.log import Log
from tightrope.data.tables import FullTable
from tightrope.engine.progress import Progress, reporting
from tightrope.errors import ExhaustedError, InputError
from tightrope.kernels.rng import POLICY, seed_words
from tightrope.live.controller import Controller
from tightrope.live.featured import FeaturedController
from tightrope.live.past import outcomes_of
from tightrope.live.spaced import by_place
from tightrope.live.typed import TypedController
from tightrope.policies.base import InformedPolicy, Policy
from tightrope.problem import Problem, Task
from tightrope.problem.values import Floats, Integers

Take = Callable[[int], int]  # an arm's next line in the flat array of outcomes; -1 if there is none


class ReplayRun(NamedTuple):
    """One pass over the rows, in the user's units."""

    pulls: Integers  # [K]
    reward: float
    penalty: Floats  # [M]
    passed: int  # rows used or skipped
    reached: float | None  # if the rows ended first: a cost that its last pull exceeded
    missed: int | None  # the wanted arm when they ended, from 0


@dataclass(frozen=True, eq=False)
class Passes:
    """The rows in every order, and the runs over them; ``again``: with replacement."""

    data: FullTable | Log
    task: Task | Problem
    orders: int
    seed: int
    queues: bool
    again: bool
    past: FullTable | Log | None = None
    weight: float = 0.3
    _kept: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def flat(self) -> Floats:
        """The outcomes of every line."""
        return _lines(self.data, self.task.task)

    @cached_property
    def contexts(self) -> Any:
        """The context of every row; features in single precision."""
        contexts: Any = self.task.stated.contexts
        return (
            contexts.rows(self.data.contexts) if self.task.feature_columns else self.data.contexts
        )

    def run_all(
        self,
        policies: Mapping[str, Policy],
        budget: float,
        until: float,
        progress: Progress,
        title: str,
    ) -> dict[str, list[ReplayRun]]:
        """The policies' runs over every order, planned for ``budget``, up to the cost ``until``."""
        found: dict[str, list[ReplayRun]] = {}
        streams = np.random.SeedSequence(self.seed).spawn(max(self.orders, 1))
        with reporting(progress, len(policies) * len(streams), title) as advance:
            for label, policy in policies.items():
                known = self.task if isinstance(policy, InformedPolicy) else self.task.task
                found[label] = []
                for stream in streams:
                    found[label].append(self._once(policy, known, budget, until, stream))
                    advance(1.0)
        return found

    def _taught(self, policy: Policy, known: Task | Problem, budget: float) -> Controller:
        """A controller that has learned from the past; made once for all orders."""
        key = (policy, budget)
        if self._kept.get("key") != key:
            past: Any = {"learn_from": self.past, "weight": self.weight}
            made = by_place(known)(known, policy, budget, **past)
            self._kept.update(key=key, controller=made)
        found: Controller = self._kept["controller"]
        return found

    def _once(
        self, policy: Policy, known: Task | Problem, budget: float, until: float, stream: Any
    ) -> ReplayRun:
        random = np.random.default_rng(stream)
        coins = int(random.integers(2**63))
        controller = self._taught(policy, known, budget).copy()
        controller._state["words"][4:] = seed_words(coins, POLICY, np.array([0]))[:, 0]
        passed: Callable[[], int] | None
        if isinstance(controller, TypedController | FeaturedController):
            played = self._by_request(controller, random, until)
            return self._told(*played, known.arm_count)
        if isinstance(self.data, FullTable):
            take, passed = self._next_row(random), None
        else:
            take, passed = self._next_match(random)
        lines, arms, missed = _played(controller, take, self.flat, until)
        count = len(lines) if passed is None else passed()
        return self._told(lines, arms, missed, count, known.arm_count)

    def _by_request(
        self,
        controller: TypedController | FeaturedController,
        random: np.random.Generator,
        until: float,
    ) -> tuple[Integers, Integers, int | None, int]:
        """Decide for the context of each row; those of a log count where their arm was chosen."""
        data, lines, arms, spent, passed = self.data, list[int](), list[int](), 0.0, 0
        contexts: Any = self.contexts
        order, count, missed = self._order(random), len(data.arms), None
        kept = np.ones(len(order), bool)
        if isinstance(data, Log):
            assert data.propensity is not None, "checked before"
            chance = data.propensity.min() / data.propensity[order]
            kept = random.random(len(order)) < chance
        for row, keep in zip(order.tolist(), kept.tolist(), strict=True):
            if spent > until or controller.exhausted:
                break
            missed, passed = None, passed + 1
            arm = controller.choose(context=contexts[row]) if keep else -1
            line = row * count + arm if isinstance(data, FullTable) else row
            if isinstance(data, FullTable) or (keep and arm == data.chosen[row]):
                controller.tell_row(arm, self.flat[line], context=contexts[row])
                spent += float(self.flat[line, 0])
                lines.append(line)
                arms.append(arm)
        if spent <= until and not controller.exhausted:
            missed = arms[-1] if arms else 0
        return np.array(lines, np.int64), np.array(arms, np.int64), missed, passed

    def _told(
        self, lines: Integers, arms: Integers, missed: int | None, passed: int, count: int
    ) -> ReplayRun:
        """What came of the lines that were used."""
        used = self.flat[lines]
        spent = np.cumsum(used[:, 0])
        below = spent[spent < spent[-1]] if len(spent) else spent
        reached = float(below[-1]) if len(below) else 0.0
        return ReplayRun(
            pulls=np.bincount(arms, minlength=count),
            reward=float(used[:, 1].sum()),
            penalty=used[:, 2:].sum(axis=0),
            passed=passed,
            reached=None if missed is None else reached,
            missed=missed,
        )

    def _order(self, random: np.random.Generator) -> Integers:
        count = len(self.data)
        if self.again:
            return random.integers(count, size=count)
        return random.permutation(count) if self.orders else np.arange(count)

    def _next_row(self, random: np.random.Generator) -> Take:
        """Every decision takes the next row of a table."""
        waiting, arms = iter(self._order(random).tolist()), len(self.data.arms)

        def take(arm: int) -> int:
            row = next(waiting, -1)
            return -1 if row < 0 else row * arms + arm

        return take

    def _next_match(self, random: np.random.Generator) -> tuple[Take, Callable[[], int]]:
        """Each decision takes the next row of its arm in a log; also returns the rows passed."""
        log, order = self.data, self._order(random)
        assert isinstance(log, Log)
        assert log.propensity is not None, "checked before"
        places = np.arange(len(order))
        if not self.queues:
            chance = log.propensity.min() / log.propensity[order]
            places = np.flatnonzero(random.random(len(order)) < chance)
        chosen = log.chosen[order[places]]
        waiting = [places[chosen == arm].tolist() for arm in range(len(log.arms))]
        at, position, queues = [0] * len(log.arms), 0, self.queues

        def take(arm: int) -> int:
            nonlocal position
            mine = waiting[arm]
            here = at[arm] if queues else bisect_left(mine, position, at[arm])
            if here >= len(mine):
                position = position if queues else len(order)
                return -1
            at[arm] = here + 1
            position = position + 1 if queues else mine[here] + 1
            return int(order[mine[here]])

        return take, lambda: position


def _lines(data: FullTable | Log, task: Task) -> Floats:
    """Cost, reward and the penalty of every limit, [lines, 2 + M]; a table has n K lines."""
    if isinstance(data, FullTable):
        given = data.outcomes.reshape(-1, len(data.channels))
        arms = np.tile(np.arange(len(data.arms)), len(data))
    else:
        given, arms = data.outcomes.T, data.chosen
    found = outcomes_of(task, arms, given, data.penalties)
    if task.knows_something:
        sure = task.known_outcomes[arms]
        wrong = ~(np.isnan(sure) | np.isclose(found, sure, rtol=1e-9, atol=0.0))
        for line, channel in zip(*np.nonzero(wrong), strict=True):
            row = line // len(data.arms) if isinstance(data, FullTable) else line
            raise InputError(
                f"row {row + 1}, arm {data.arms[arms[line]]!r}, {task.channels[channel]} = "
                f"{found[line, channel]:g}: must be {sure[line, channel]:g}, the task's known "
                "value"
            )
    return found


def _played(
    controller: Controller, take: Take, outcomes: Floats, until: float
) -> tuple[Integers, Integers, int | None]:
    """The lines and arms of one run until its cost exceeds ``until``.

    If rows end first, also returns the arm without a row.
    """
    ask, tell, costs = controller.ask, controller.tell_row, outcomes[:, 0]
    lines, arms, spent = list[int](), list[int](), 0.0
    missed = None
    while spent <= until:
        try:
            arm = ask()
        except ExhaustedError:
            break
        line = take(arm)
        if line < 0:
            missed = arm
            break
        tell(arm, outcomes[line])
        spent += float(costs[line])
        lines.append(line)
        arms.append(arm)
    return np.array(lines, np.int64), np.array(arms, np.int64), missed
