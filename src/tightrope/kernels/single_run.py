"""The loop that makes one run from start to end.

The loop serves every policy: choice policies, index policies with few or very many arms, policies
that forget, and arms that change. It is compiled in three ways: for any policy, which it calls at
an address (``native``); with a policy inlined, for long simulations; and for a GPU thread, on the
thread's own arrays (``cuda_thread``). Letters: K arms, M penalties, C = 2 + M channels, R runs per
call.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

from numba import int64, uint64

from tightrope.compiled.functions import compile_kernel
from tightrope.kernels.actions import Actions, Common, actions, common, forgetter
from tightrope.kernels.memory import memory_of
from tightrope.kernels.rng import WEYL
from tightrope.kernels.run_state import (
    ARMS,
    COLUMNS,
    CONTEXT,
    EXPLORE,
    PHASE,
    STEP,
    WRONG,
    WRONG_ARM,
)
from tightrope.kernels.spec import Spec
from tightrope.kernels.step import next_word, uniform_of
from tightrope.policies.choice import WORDS, hashed

CHECK_EVERY = 256  # steps between checks of ``stop``


class Ends(NamedTuple):
    """The columns of a run's final numbers."""

    cost: int
    totals: int  # the reward, each penalty
    queue: int
    peak: int
    step: int
    wrong: int  # 1 if the policy chose an arm that does not exist
    wrong_arm: int  # the number of that arm
    size: int

    @classmethod
    def of(cls, penalties: int) -> Ends:
        """The columns for M penalties."""
        sizes = (1, 1 + penalties, penalties, penalties, 1, 1, 1)
        return cls(*(sum(sizes[:at]) for at in range(len(sizes) + 1)))


def loop(
    target: Any,
    wrap: Any,
    draw: Any,
    own: Actions,
    shared: Common,
    typed: bool = True,
    featured: bool = True,
) -> Any:
    """A function that plays a run from ``step`` on and returns its last step, phase and arm.

    It stops when the budget is spent, at step ``until``, if ``stop[0]`` is set, or if the policy
    chose an arm that does not exist; the returned arm is then that one, else -1 or the last pulled.

    ``mix`` [T]: the cumulative shares of the types of requests, or what the policy sees of each row
    of a table [n * D]; empty without contexts, and not read unless ``typed``. A policy that uses
    types chooses among rows, ``type * K + arm``. ``featured``: whether rows may have features.
    """
    one, choose, sound = target.number(1), own.choose, own.sound
    show = _next_request(target, wrap, typed, featured)
    take, settle, toss, goes_on = shared.take, shared.settle, shared.toss, shared.goes_on

    def play(memory, law, starts, mix, count, explore, step, phase, until, stop):
        run, channels = memory.run, 2 + memory.penalties
        going = goes_on(memory)
        arm = int64(0)
        while going and step < until:
            while phase + 1 < len(starts) and run.spent[0] >= starts[phase + 1]:
                phase += 1
            toss(memory, step)
            before = show(memory, mix, step, phase, channels)
            arm = int64(step % count)
            if step >= explore:
                arm = int64(choose(memory, step))
                if arm < 0 or arm >= count:
                    break
            first, weyl = (before * count + arm) * channels, step * (channels * WEYL)
            draw(run.outcome, 0, 1, memory.words, 0, 1, weyl, law, arm, first, one, channels)
            take(memory, arm)
            going = settle(memory, step >= explore) and sound(memory)
            step += 1
            if step % CHECK_EVERY == 0 and stop[0]:
                break
        return step, phase, arm

    return wrap(play)


def next_type(wrap: Any) -> Any:
    """A function that draws the type of the next request.

    The policy sees it as a third word, in ``seen.pair``, if it uses types. Returned is what comes
    before the arm in the laws, as a phase does: the type, or 0 where the policy's row has it.
    The outcomes' generator has the same state in the runs of all policies, and so have its hashes.
    """
    chance = wrap(hashed)

    def kind_of(memory, seen, mix, step):
        key = int64(memory.words[0]) ^ int64(memory.words[2])
        uniform, kind = chance(key, step & 0xFFFFFF) * 2.0**-32, int64(0)
        while kind + 1 < len(mix) and uniform >= mix[kind]:
            kind += 1
        if len(seen.pair) > WORDS:
            seen.pair[WORDS] = kind
            return int64(0)
        return kind

    return wrap(kind_of)


def _next_request(target: Any, wrap: Any, typed: bool, featured: bool) -> Any:
    """A function that shows the policy the next request; returns what precedes the arm in laws."""
    kind_of, face = next_type(wrap), next_row(target, wrap)

    def of_type(memory, mix, step, phase, channels):
        if typed and len(mix) > 0:
            return kind_of(memory, memory, mix, step)
        return phase

    if not featured:
        return wrap(of_type)
    of_type = wrap(of_type)

    def show(memory, mix, step, phase, channels):
        if memory.counts[COLUMNS] > 0:
            face(memory, mix, (step * channels + 1) * WEYL)
            return phase
        return of_type(memory, mix, step, phase, channels)

    return wrap(show)


def next_row(target: Any, wrap: Any) -> Any:
    """A function that shows the policy the features of the row that the next pull draws.

    It returns the place of the first of them. Every arm draws its row with the first number of a
    step. This one is looked at before the choice, and drawn after it.
    """
    word_of, uniform = target.part(next_word), target.part(uniform_of)

    def face(memory, rows, weyl):
        words, columns, place = memory.words, memory.counts[COLUMNS], memory.counts[CONTEXT]
        before = words[0], words[1], words[2], words[3]
        drawn = uniform(word_of(words, 0, 1, weyl))
        words[0], words[1], words[2], words[3] = before
        # Places without a sign: one that may be negative would count from the end.
        first = uint64(drawn * (len(rows) // columns)) * uint64(columns)
        for column in range(uint64(columns)):
            memory.own_numbers[place + int64(column)] = rows[first + column]
        return int64(first)

    return wrap(face)


@lru_cache(maxsize=64)
def kernel(spec: Spec, bernoulli: bool) -> Any:
    """The kernel of one policy, which is inlined; see :func:`all_runs` for its arguments."""
    own, target = actions(spec), spec.target
    forget = forgetter(spec.routine, spec.part)
    shared = common(target, own.learn, spec.formula, spec.part, forget)
    draw = target.draw_bits() if bernoulli else target.draw_cells()
    play = loop(target, spec.part, draw, own, shared)
    memory_at, report = memory_of(spec), report_writer(spec.part)
    runs = all_runs(play, report)

    def single_run(block, fresh, seeds, policy_words, law, starts, mix, ends, counts, until, stop):
        """It has many parameters because numba takes each array separately."""
        memory = memory_at(block.ctypes.data)
        return runs(
            memory, block, fresh, seeds, policy_words, law, starts, mix, ends, counts, until, stop
        )

    runs = spec.part(runs)
    return compile_kernel(single_run)


def all_runs(play: Any, report: Any) -> Any:
    """A function that makes R runs one after another; returns how many were finished.

    Input: the ``block`` to work in and its ``memory``, a ``fresh`` block as each run's initial
    state (if empty, the run in the block is continued), the generators' ``seeds`` and
    ``policy_words`` [4, R], the laws, the starts of phases, the mix of types.
    Output: ``ends`` [R, columns of :class:`Ends`], ``counts`` [R, K, 2].
    """

    def runs(
        memory, block, fresh, seeds, policy_words, law, starts, mix, ends, counts, until, stop
    ):
        """It has many parameters because numba takes each array separately."""
        numbers = memory.counts
        for run in range(len(ends)):
            if len(fresh) > 0:
                for at in range(len(fresh)):  # a slice would take a second more to compile
                    block[at] = fresh[at]
                for at in range(4):
                    memory.words[at], memory.words[4 + at] = seeds[at, run], policy_words[at, run]
            count, explore = numbers[ARMS], numbers[EXPLORE]
            step, phase, arm = play(
                memory, law, starts, mix, count, explore, numbers[STEP], numbers[PHASE], until, stop
            )
            numbers[STEP], numbers[PHASE] = step, phase
            if arm < 0 or arm >= count:
                numbers[WRONG], numbers[WRONG_ARM] = 1, arm
            report(memory, run, ends, counts)
            if stop[0] or numbers[WRONG]:
                return run
        return len(ends)

    return runs


def report_writer(wrap: Any) -> Any:
    """Write a run's results; totals are summed arm by arm, in the same order as in the lanes."""

    def report(memory, at, ends, counts):
        book, run, numbers, penalties = memory.book, memory.run, memory.counts, memory.penalties
        rows, arms = 3 + penalties, counts.shape[1]
        ends[at, 0] = run.spent[0]
        for channel in range(1 + penalties):
            total = 0.0
            for arm in range(arms):
                total += float(book[arm * rows + 2 + channel])
            ends[at, 1 + channel] = total
        for arm in range(arms):
            counts[at, arm, 0] = book[arm * rows]
            counts[at, arm, 1] = book[arm * rows + 1]
        for m in range(penalties):
            ends[at, 2 + penalties + m] = run.queues[m]
            ends[at, 2 + 2 * penalties + m] = run.queues[2 * penalties + m]
        last = 2 + 3 * penalties
        ends[at, last] = numbers[STEP]
        ends[at, last + 1] = numbers[WRONG]
        ends[at, last + 2] = numbers[WRONG_ARM]

    return wrap(report)
