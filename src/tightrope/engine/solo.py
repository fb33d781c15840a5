"""The CPU's kernel that makes one run at a time, from end to end, in double precision.

It is for policies that weigh all arms at once, for those that forget, and for problems whose arms
change; the lanes are faster where neither is the case. Letters: K arms, M penalties, J phases of a
problem, R runs of a call.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import uint32

from tightrope.compiled import borrowed, compile_function, compile_kernel, fingerprint
from tightrope.engine import rng
from tightrope.engine.rng import LUCK, OUTCOMES, seed_words
from tightrope.policies import memory
from tightrope.policies.base import IndexPolicy, Setup, advance
from tightrope.policies.choice import WORDS, ChoicePolicy, Seen
from tightrope.policies.memory import learner, remember
from tightrope.problem import Problem, Tables
from tightrope.results import Runs

__all__ = ["Plan", "steps"]

SOURCE = Path(__file__).read_bytes()
WORTHWHILE = 200_000  # arms looked at in a unit of work: some tens of milliseconds
CHECK_EVERY = 256  # steps between looks at whether to stop


@dataclass(frozen=True)
class Plan:
    """All that the runs of one policy at one (normalised) budget share."""

    problem: Problem
    policy: ChoicePolicy | IndexPolicy
    setup: Setup
    budget: float
    seed: int
    backend: str = "cpu"

    @property
    def chunk(self) -> int:
        """How many runs make a unit of work."""
        steps = self.budget / self.problem.moments.smallest_cost
        return max(1, round(WORTHWHILE / steps / (10 + self.problem.arm_count)))

    def compile(self) -> float:
        """Compile the kernel or read it from the disk; the seconds of compiling."""
        kernel, start = _kernel(type(self.policy)), time.perf_counter()
        misses = sum(kernel.stats.cache_misses.values())
        self._play(np.array([0]), -1.0, np.zeros(1, np.uint8))
        compiled = sum(kernel.stats.cache_misses.values()) > misses
        return time.perf_counter() - start if compiled else 0.0

    def run(
        self, runs: npt.NDArray[np.int64], stop: npt.NDArray[np.uint8]
    ) -> tuple[Runs | None, float]:
        """The runs and the seconds they took; None if ``stop[0]`` was set before the end."""
        start = time.perf_counter()
        made = self._play(runs, self.budget, stop)
        return made, time.perf_counter() - start

    @cached_property
    def _tables(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        # Slow for continuous laws: once a plan, not once a call.
        return _joined([phase.problem.tables() for phase in self.problem.phases])

    def _play(self, runs: Any, budget: float, stop: Any) -> Runs | None:
        arms, penalties, count = self.problem.arm_count, self.problem.penalty_count, len(runs)
        totals, counts = np.zeros((count, 2 + 3 * penalties)), np.zeros((count, arms, 2))
        finished = _kernel(type(self.policy))(
            seed_words(self.seed, OUTCOMES, runs),
            seed_words(self.seed, LUCK, runs),
            *self._tables,
            self.problem.phase_starts(self.budget),
            (*map(float, self.setup.constants), 0.0),
            np.asarray(self.setup.allowance, float),
            np.asarray(self.problem.moments.limits, float) * self.budget,
            self.setup.explore * arms,
            self.setup.fade,
            np.zeros((self.setup.window, 3 + penalties)),
            budget,
            np.zeros((arms, Seen.of(penalties).columns)),
            self._scratch(),
            totals,
            counts,
            stop,
        )
        if not finished:
            return None
        reward, cost, *_ = totals.T
        penalty, queue, peak = np.split(totals[:, 2:], 3, axis=1)
        return Runs(
            reward=reward.copy(),
            cost=cost.copy(),
            penalty=penalty.copy(),
            pulls=counts[:, :, 0].astype(np.int64),
            arm_cost=counts[:, :, 1].copy(),
            queue=queue.copy(),
            queue_max=peak.copy(),
        )

    def _scratch(self) -> Any:
        """What a run starts with: a policy's own zeros, or the terms that an index policy knows."""
        if isinstance(self.policy, ChoicePolicy):
            size = self.policy.scratch(self.problem.arm_count, self.problem.penalty_count)
            return np.zeros(max(size, 1))
        return np.zeros(1) if self.setup.terms is None else self.setup.terms.flatten()


def _joined(tables: list[Tables]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Where the cells of arm k in phase j are, in row j K + k, and the cells."""
    shifts = np.cumsum([0, *(len(one.split) for one in tables[:-1])])
    offset = [one.offset + shift for one, shift in zip(tables, shifts, strict=True)]
    count, source = ([getattr(one, name) for one in tables] for name in ("count", "source"))
    columns = ("split", "first", "second", "slope")
    values = [np.concatenate([getattr(one, name) for one in tables]) for name in columns]
    return tuple(map(np.concatenate, (count, offset, source))), tuple(values)


@lru_cache(maxsize=64)
def steps(policy: type[ChoicePolicy]) -> tuple[Any, Any]:
    """The kernels that choose an arm and learn from a pull, for runs that are made by others."""
    digest = fingerprint((*policy.functions(), remember), (SOURCE, memory.SOURCE), ("steps",))
    _, choose, learn = (compile_function(one, digest) for one in policy.functions())
    count_in = compile_function(remember, digest)

    def ask(constants, arms, left, own, luck):
        return choose(constants, borrowed(arms), borrowed(left), borrowed(own), luck)

    return compile_kernel(ask, digest), compile_kernel(learner(count_in, learn), digest)


@lru_cache(maxsize=64)
def _kernel(policy: type[ChoicePolicy | IndexPolicy]) -> Any:
    functions: tuple[Any, ...] = (*policy.functions(), remember, advance)
    facts = (policy.random, issubclass(policy, IndexPolicy) and policy.learns)
    digest = fingerprint(functions, (SOURCE, memory.SOURCE, rng.SOURCE), facts)
    return compile_kernel(_solo(policy, digest), digest)


def _solo(policy: type[ChoicePolicy | IndexPolicy], digest: str) -> Any:
    def compiled(function: Any) -> Any:
        return compile_function(function, digest)

    indexed = issubclass(policy, IndexPolicy)
    begin, choose, learn = (_by_index if indexed else _by_choice)(policy, compiled)
    move, word_of, draw = map(compiled, (advance, _word, _draw))
    learn = compiled(learner(compiled(remember), learn))
    lucky = 0 if not policy.random else 1 if indexed else WORDS

    def solo(
        seeds,
        lucks,
        cells,
        values,
        starts,
        constants,
        drain,
        allowance,
        exploring,
        fade,
        history,
        budget,
        arms,
        scratch,
        totals,
        counts,
        stop,
    ):
        """Every run from its first step to its last; False if ``stop[0]`` was set before."""
        penalties, known = len(allowance), len(arms)
        left, outcomes = np.zeros(2 + penalties), np.zeros(2 + penalties)
        uniforms = np.zeros(max(2 + penalties, 3))
        queue, lost, peak = np.zeros(penalties), np.zeros(penalties), np.zeros(penalties)
        words, chances = np.zeros(5, np.uint32), np.zeros(5, np.uint32)
        luck, own = np.zeros(WORDS, np.int64), np.zeros(len(scratch))
        seen, rest, mine, chance = borrowed(arms), borrowed(left), borrowed(own), borrowed(luck)
        length, drawn = borrowed(queue), borrowed(outcomes)
        for run in range(seeds.shape[1]):
            arms[:], own[:], queue[:], lost[:], peak[:] = 0.0, scratch, 0.0, 0.0, 0.0
            words[:4], chances[:4] = seeds[:, run], lucks[:, run]
            words[4], chances[4] = 0, 0
            left[0], left[1], left[2:] = budget, 0.0, allowance
            begin(constants, seen, rest, mine)
            spent, step, phase = 0.0, 0, 0
            while spent <= budget:
                while phase + 1 < len(starts) and spent >= starts[phase + 1]:
                    phase += 1
                for at in range(lucky):
                    luck[at] = word_of(chances)
                arm = step % known
                if step >= exploring:
                    arm = choose(constants, seen, rest, mine, chance, length)
                draw(cells, values, phase * known + arm, words, uniforms, outcomes)
                learn(constants, seen, rest, mine, history, fade, arm, drawn)
                spent += outcomes[0]
                totals[run, 0] += outcomes[1]
                counts[run, arm, 0] += 1.0
                counts[run, arm, 1] += outcomes[0]
                for m in range(penalties):
                    totals[run, 2 + m] += outcomes[2 + m]
                    if step >= exploring:
                        long, lost_now = move(
                            queue[m], lost[m], drain[m], outcomes[0], outcomes[2 + m]
                        )
                        queue[m], lost[m], peak[m] = long, lost_now, max(peak[m], long)
                step += 1
                if step % CHECK_EVERY == 0 and stop[0]:
                    return False
            totals[run, 1] = spent
            for m in range(penalties):
                totals[run, 2 + penalties + m] = queue[m]
                totals[run, 2 + 2 * penalties + m] = peak[m]
        return True

    return solo


def _by_choice(policy, compiled):
    """Begin, choose and learn of a policy that weighs all arms at once, and has no queues."""
    begin, choice, learn = map(compiled, policy.functions())

    def choose(constants, arms, left, own, luck, queue):
        return choice(constants, arms, left, own, luck)

    return begin, compiled(choose), learn


def _by_index(policy, compiled):
    """Begin, choose and learn of a policy that pulls the arm with the smallest index."""
    clock, reward_terms, penalty_terms, reward_index, penalty_index, _ = map(
        compiled, policy.functions()
    )
    learns = policy.learns

    def nothing(constants, arms, left, own, *arm):
        pass

    def terms(constants, arms, left, own, arm, m):
        """The level and width of the arm's reward, m = -1, or of a penalty."""
        if not learns:
            at = 2 * (arm * (len(left) - 1) + 1 + m)
            return own[at], own[at + 1]
        if m < 0:
            return reward_terms(constants, arms[arm, 0], arms[arm, 1], arms[arm, 2])
        return penalty_terms(constants, arms[arm, 0], arms[arm, 1], arms[arm, 3 + m])

    terms_of = compiled(terms)

    def choose(constants, arms, left, own, luck, queue):
        remembered = 0.0
        for arm in range(len(arms)):
            remembered += arms[arm, 0]
        now, uniform = clock(constants, max(remembered, 1.0)), (luck[0] >> 8) * 2.0**-24
        best, chosen = np.inf, 0
        for arm in range(len(arms)):
            level, width = terms_of(constants, arms, left, own, arm, -1)
            index = reward_index(constants, now, uniform, float(arm), level, width)
            for m in range(len(queue)):
                level, width = terms_of(constants, arms, left, own, arm, m)
                index = index + queue[m] * penalty_index(constants, now, level, width)
            if index < best:
                best, chosen = index, arm
        return chosen

    return compiled(nothing), compiled(choose), compiled(nothing)


def _word(words):
    """The generator's next 32 bits; ``words`` are its state and the Weyl sequence's."""
    newest = rng.scramble(words[0], words[3])
    words[0], words[1], words[2], words[3] = words[1], words[2], words[3], newest
    words[4] = uint32(words[4] + uint32(rng.WEYL))
    return uint32(newest + words[4])


def _draw(cells, values, arm, words, uniforms, outcomes):
    """What the arm gives: one word a channel, whatever the arm, as every engine draws."""
    count, offset, source = cells
    split, first, second, slope = values
    for channel in range(len(uniforms)):
        uniforms[channel] = float(_word(words) >> uint32(1)) * 2.0**-31
    for channel in range(len(outcomes)):
        place = uniforms[source[arm, channel]] * count[arm, channel]
        cell = int(place)
        part = place - cell
        at = offset[arm, channel] + cell
        value = first[at] if part < split[at] else second[at]
        outcomes[channel] = value + slope[at] * (part - 0.5)
