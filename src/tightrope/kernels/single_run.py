"""The loop that makes one run from start to end, and its parts for live runs.

The loop serves every policy: choice policies, index policies with few or very many arms, policies
that forget, and arms that change. Compiled for a CPU it works on a block (``run_state``); compiled
for a GPU thread, on the thread's own slices of memory (``cuda_thread``). Letters: K arms, M
penalties, C = 2 + M channels, R runs per call.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np
from numba import int64

from tightrope.compiled import compile_kernel, fingerprint, whole_number
from tightrope.kernels.argmin import decider, toucher
from tightrope.kernels.rng import WEYL
from tightrope.kernels.run_state import (
    ARMS,
    EXPLORE,
    PHASE,
    STEP,
    WRONG,
    WRONG_ARM,
    Field,
    Run,
    constants_of,
    view,
)
from tightrope.kernels.spec import CHOICE, SIEVE, Spec
from tightrope.kernels.step import coin_of, next_word
from tightrope.policies.choice import record
from tightrope.policies.parts.forgetting import learn_and_forget, remember
from tightrope.policies.state import State, record_maker

__all__ = [
    "Ends",
    "Memory",
    "TermTable",
    "actions",
    "kernel",
    "loop",
    "memory_of",
    "over_records",
    "policy_parts",
]

CHECK_EVERY = 256  # steps between checks of ``stop``


class Memory(NamedTuple):
    """The arrays of a run, or views of the block at ``address``."""

    address: Any  # of the block; 0 if there is none
    run: Any  # queues, cost, outcomes: see ``Run``
    outcome: Any  # [C] the last pull's outcomes, a part of ``run``
    book: Any  # [K, 1 + C] pulls, cost, reward, penalties of each arm
    terms: Any  # [rows, N] level and width of every channel of each arm
    words: Any  # [8] the generators of outcomes and policy
    pair: Any  # [2] the policy's random words of a step
    state: Any  # a ``State``
    scratch: Any  # the policy's record
    history: Any  # the pulls in a window
    constants: Any  # a tuple, in the kernel's precision
    wide: Any  # the same in double precision


class TermTable(NamedTuple):
    """The scratch of an index policy: its terms."""

    terms: Any


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


class Actions(NamedTuple):
    """The compiled parts of a step that depend on the policy."""

    choose: Any  # (memory, step) -> arm
    learn: Any  # (memory, arm), uses the outcomes in ``memory.outcome``
    settle: Any  # (memory, counting) -> whether the budget allows another pull
    toss: Any  # (memory, asked), draws the policy's random words


@cache
def actions(spec: Spec) -> Actions:
    """The actions compiled for a CPU."""
    if not spec.remembers:
        return _over_index(spec)
    made = over_records(spec, spec.target, spec.formula, spec.part)
    if spec.method != CHOICE:
        return made
    choose, whole = made.choose, whole_number(f"policy {spec.policy.name}: choose")

    def choose_whole(memory, step):
        return whole(choose(memory, step))

    return made._replace(choose=spec.part(choose_whole))


def _shared(spec: Any, target: Any, part: Any, wrap: Any) -> tuple[Any, Any]:
    """The functions ``settle`` and ``toss``."""
    layout, words = Run.of(spec.penalties), spec.words
    move, word_of = queue_mover(spec, target, wrap), part(next_word)
    outcome, spent, one = layout.outcome, layout.spent, target.number(1)
    goes_on = going_on(spec, part)

    def settle_run(memory, counting):
        memory.run[spent] += memory.run[outcome]
        if counting:
            move(memory, one)
        return goes_on(memory)

    def toss(memory, asked):
        for word in range(words):
            weyl = (asked * words + word + 1) * WEYL
            memory.pair[word] = int64(word_of(memory.words, 4, 1, weyl))

    return wrap(settle_run), wrap(toss)


def queue_mover(spec: Any, target: Any, wrap: Any) -> Any:
    """``move(memory, pulls)``: advance the queues by the outcomes of so many pulls together."""
    layout = Run.of(spec.penalties)
    by_state = spec.method == CHOICE and spec.limited > 0
    settle, outcome, allowance = target.settle(by_state=by_state), layout.outcome, layout.allowance

    def move(memory, pulls):
        run = memory.run
        known = memory.state if by_state else memory.constants
        settle(run, 0, 1, run, allowance, run, outcome, 1, pulls, known)

    return wrap(move)


def going_on(spec: Any, part: Any) -> Any:
    """Whether neither the budget nor a hard limit is exceeded."""
    layout, hard = Run.of(spec.penalties), spec.hard
    spent, budget, any_hard = layout.spent, layout.budget, bool(spec.hard)

    def within(memory):
        going = memory.run[spent] <= memory.run[budget]
        if any_hard:
            for m in range(len(hard)):
                if hard[m] and memory.state.remaining[1 + m] < 0.0:
                    going = False
        return going

    return part(within)


def _over_index(spec: Spec) -> Actions:
    """Actions of an index policy whose terms change only when their arm is pulled."""
    decide, part, number = decider(spec), spec.formula, spec.dtype
    learn, coin, random = spec.target.learn(), part(coin_of), spec.policy.random
    touched = spec.method == SIEVE and spec.policy.learns
    rows, touch, term_rows = 3 + spec.penalties, toucher(spec), 2 * spec.channels + 1

    def choose(memory, step):
        uniform = number(coin(memory.pair[0])) if random else number(0)
        return decide(memory.address, step, uniform)

    def learn_arm(memory, arm):
        stride = len(memory.terms) // term_rows
        learn(
            memory.book, arm * rows, 1, memory.terms, arm, stride, arm, memory.outcome, 0, 1,
            number(1), memory.constants,
        )  # fmt: skip
        if touched:
            touch(memory.address, arm)

    settle, toss = _shared(spec, spec.target, part, spec.part)
    return Actions(spec.part(choose), spec.part(learn_arm), settle, toss)


def over_records(spec: Any, target: Any, part: Any, wrap: Any) -> Actions:
    """Actions over a ``State``: a policy's own ``choose``, or an index policy that may forget.

    ``part`` compiles a function separately, to be inlined by LLVM. ``wrap`` copies it into its
    caller before type inference, which saves time: each separately compiled level optimises
    everything below it again.
    """
    choose, learn = policy_parts(spec, target, part, wrap)
    count, learn_told = counter(spec, target, wrap), learner(spec, part, wrap, learn)

    def choose_arm(memory, step):
        return choose(memory.wide, memory.state, memory.scratch, memory.pair, memory.run)

    def learn_arm(memory, arm):
        count(memory, arm)
        learn_told(memory, arm)

    settle, toss = _shared(spec, target, part, wrap)
    return Actions(wrap(choose_arm), wrap(learn_arm), settle, toss)


def counter(spec: Any, target: Any, wrap: Any) -> Any:
    """``count(memory, arm)``: add the outcomes to the book."""
    rows, number = 3 + spec.penalties, target.number

    def count(memory, arm):
        memory.book[arm * rows] += number(1)
        for channel in range(rows - 1):
            memory.book[arm * rows + 1 + channel] += memory.outcome[channel]

    return wrap(count)


def learner(spec: Any, part: Any, wrap: Any, learn: Any) -> Any:
    """``learn_told(memory, arm)``: add the outcomes to the state; ``learn`` is the policy's."""
    count_in = part(record)

    def record_and_learn(constants, state, scratch, history, fade, arm, outcomes):
        count_in(state, arm, outcomes)
        learn(constants, state, scratch, arm)

    learn_all = wrap(learn_and_forget(part(remember), learn) if spec.forgets else record_and_learn)
    fade = Run.of(spec.penalties).fade

    def learn_told(memory, arm):
        learn_all(
            memory.wide, memory.state, memory.scratch, memory.history, memory.run[fade], arm,
            memory.outcome,
        )  # fmt: skip

    return wrap(learn_told)


def policy_parts(spec: Any, target: Any, part: Any, wrap: Any) -> tuple[Any, Any]:
    """``choose`` and ``learn`` over a ``State``."""
    return (_chosen if spec.method == CHOICE else _indexed)(spec, target, part, wrap)


def _chosen(spec: Any, target: Any, part: Any, wrap: Any) -> tuple[Any, Any]:
    """``choose`` and ``learn`` of a choice policy."""
    _, choice, learn = map(part, spec.functions)

    def choose(constants, state, scratch, words, run):
        return choice(constants, state, scratch, words)

    return wrap(choose), learn


def _indexed(spec: Any, target: Any, part: Any, wrap: Any) -> tuple[Any, Any]:
    """``choose`` and ``learn`` of an index policy."""
    index, renew, coin = target.index(), target.renew(), part(coin_of)
    clock, learns = part(spec.policy.clock), spec.policy.learns
    channels, infinity, random = 2 + spec.penalties, np.inf, spec.policy.random
    term_rows = 2 * spec.penalties + 3

    def choose(constants, state, scratch, words, run):
        remembered, count = 0.0, len(state.pulls)
        for arm in range(count):
            remembered += state.pulls[arm]
        now, uniform = clock(constants, max(remembered, 1.0)), coin(words[0]) if random else 0.0
        best, chosen = infinity, 0
        stride = len(scratch.terms) // term_rows
        for arm in range(count):
            value = index(
                scratch.terms, arm, stride, run, 0, 1, constants, now, uniform, float(arm)
            )
            if value < best:
                best, chosen = value, arm
        return chosen

    def learn(constants, state, scratch, arm):
        if learns:
            stride, terms = len(scratch.terms) // term_rows, scratch.terms
            pulls, cost = state.pulls[arm], state.totals[arm * channels]
            earned = state.totals[arm * channels + 1]
            for channel in range(1, channels):
                total = state.totals[arm * channels + channel]
                level, width = renew(constants, pulls, cost, earned, total, channel)
                terms[(2 * channel - 2) * stride + arm] = level
                terms[(2 * channel - 1) * stride + arm] = width

    return part(choose), part(learn)


def loop(spec: Any, target: Any, wrap: Any, draw: Any, own: Actions) -> Any:
    """A function that plays a run from ``step`` on and returns its last step, phase and arm.

    It stops when the budget is spent, at step ``until``, if ``stop[0]`` is set, or if the policy
    chose an arm that does not exist; the returned arm is then that one, else -1 or the last pulled.
    """
    layout, channels, number = Run.of(spec.penalties), 2 + spec.penalties, target.number
    spent, one, goes_on = layout.spent, number(1), going_on(spec, wrap)
    choose, learn, settle, toss = own
    random = spec.words > 0

    def play(memory, law, starts, count, explore, step, phase, until, stop):
        run = memory.run
        going = goes_on(memory)
        arm = int64(0)
        while going and step < until:
            while phase + 1 < len(starts) and run[spent] >= starts[phase + 1]:
                phase += 1
            if random:
                toss(memory, step)
            arm = int64(step % count)
            if step >= explore:
                arm = int64(choose(memory, step))
                if arm < 0 or arm >= count:
                    break
            row, weyl = (phase * count + arm) * channels, step * (channels * WEYL)
            draw(memory.outcome, 0, 1, memory.words, 0, 1, weyl, law, arm, row, one)
            learn(memory, arm)
            going = settle(memory, step >= explore)
            step += 1
            if step % CHECK_EVERY == 0 and stop[0]:
                break
        return step, phase, arm

    return wrap(play)


@cache
def memory_of(spec: Spec) -> Any:
    """A compiled function from a block's address to its :class:`Memory`."""
    fields = (Field.RUN, Field.BOOK, Field.TERMS, Field.WORDS, Field.PAIR, Field.HISTORY)
    run_of, book_of, terms_of, words_of, pair_of, history_of = (view(spec, f) for f in fields)
    constants_at, wide_at = constants_of(spec, Field.CONSTANTS), constants_of(spec, Field.WIDE)
    layout, state_of, scratch_of = Run.of(spec.penalties), _state_of(spec), _scratch_of(spec)
    outcome, channels = layout.outcome, 2 + spec.penalties

    def memory(address):
        run = run_of(address)
        return Memory(
            address,
            run,
            run[outcome : outcome + channels],
            book_of(address),
            terms_of(address),
            words_of(address),
            pair_of(address),
            state_of(address),
            scratch_of(address),
            history_of(address),
            constants_at(address),
            wide_at(address),
        )

    return spec.part(memory)


def _state_of(spec: Spec) -> Any:
    make, block_of, starts_of = (
        spec.formula(record_maker(State)), view(spec, Field.STATE), view(spec, Field.STARTS)
    )  # fmt: skip

    def state(address):
        return make(block_of(address), starts_of(address))

    def nothing(address):
        return 0

    return spec.part(state if spec.remembers else nothing)


def _scratch_of(spec: Spec) -> Any:
    block_of, starts_of = view(spec, Field.SCRATCH), view(spec, Field.OWN_STARTS)
    terms_of = view(spec, Field.TERMS)
    policy: Any = spec.policy
    make: Any = spec.formula(record_maker(policy.Scratch)) if spec.method == CHOICE else None

    def record(address):
        return make(block_of(address), starts_of(address))

    def terms(address):
        return TermTable(terms_of(address))

    return spec.part(record if spec.method == CHOICE else terms)


@lru_cache(maxsize=64)
def kernel(spec: Spec, bernoulli: bool) -> Any:
    """The CPU kernel: makes R runs one after another; returns how many were finished.

    Input: the ``block`` to work in, a ``fresh`` block as each run's initial state (if empty, the
    run in the block is continued), the generators' ``seeds`` and ``policy_words`` [4, R], the laws,
    the starts of phases. Output: ``ends`` [R, columns of :class:`Ends`], ``counts`` [R, K, 2].
    """
    digest = fingerprint([], (spec.digest, bernoulli))
    return compile_kernel(_single_run(spec, bernoulli), digest)


def _single_run(spec: Spec, bernoulli: bool) -> Any:
    own = actions(spec)
    draw = spec.target.draw_bits() if bernoulli else spec.target.draw_cells()
    play = loop(spec, spec.target, spec.part, draw, own)
    memory_at, counts_of, report = memory_of(spec), view(spec, Field.COUNTS), report_writer(spec)

    def single_run(block, fresh, seeds, policy_words, law, starts, ends, counts, until, stop):
        address = block.ctypes.data
        memory, numbers = memory_at(address), counts_of(address)
        for run in range(len(ends)):
            if len(fresh) > 0:
                block[:] = fresh
                for at in range(4):
                    memory.words[at], memory.words[4 + at] = seeds[at, run], policy_words[at, run]
            count, explore = numbers[ARMS], numbers[EXPLORE]
            step, phase, arm = play(
                memory, law, starts, count, explore, numbers[STEP], numbers[PHASE], until, stop
            )
            numbers[STEP], numbers[PHASE] = step, phase
            if arm < 0 or arm >= count:
                numbers[WRONG], numbers[WRONG_ARM] = 1, arm
            report(memory, numbers, ends[run], counts[run])
            if stop[0] or numbers[WRONG]:
                return run
        return len(ends)

    return single_run


def report_writer(spec: Spec) -> Any:
    """Write a run's results; totals are summed arm by arm, in the same order as in the lanes."""
    layout, ends_at = Run.of(spec.penalties), Ends.of(spec.penalties)
    penalties, rows = spec.penalties, 3 + spec.penalties
    spent, peak = layout.spent, layout.peak
    totals, queue, end_peak = ends_at.totals, ends_at.queue, ends_at.peak
    step, wrong, wrong_arm = ends_at.step, ends_at.wrong, ends_at.wrong_arm

    def report(memory, numbers, ends, counts):
        book, run = memory.book, memory.run
        ends[0] = run[spent]
        for channel in range(1 + penalties):
            total = 0.0
            for arm in range(len(counts)):
                total += float(book[arm * rows + 2 + channel])
            ends[totals + channel] = total
        for arm in range(len(counts)):
            counts[arm, 0] = book[arm * rows]
            counts[arm, 1] = book[arm * rows + 1]
        for m in range(penalties):
            ends[queue + m] = run[m]
            ends[end_peak + m] = run[peak + m]
        ends[step] = numbers[STEP]
        ends[wrong] = numbers[WRONG]
        ends[wrong_arm] = numbers[WRONG_ARM]

    return spec.part(report)
