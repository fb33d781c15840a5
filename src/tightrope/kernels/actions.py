"""The actions of a step on a run's memory: choose, learn, settle, toss.

The functions are written once and compiled in several ways: inlined into a kernel, called at an
address by loops that serve every policy (``native``), for a GPU thread, or not at all. ``part``
compiles a function separately, to be inlined by LLVM. ``wrap`` copies it into its caller before
type inference, which saves time: each separately compiled level optimises everything below it
again. Letters: K arms, M penalties, C = 2 + M channels.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numba import int64

from tightrope.compiled.functions import (
    FAILED,
    call_choose,
    call_learn,
    compile_function,
    inlined,
    whole_number,
)
from tightrope.kernels.argmin import decider, toucher
from tightrope.kernels.rng import WEYL
from tightrope.kernels.run_state import STEP, WRONG
from tightrope.kernels.spec import CHOICE, SIEVE, Spec
from tightrope.kernels.step import Target, coin_of, next_word, of_run
from tightrope.policies.choice import record
from tightrope.policies.faults import is_outside, place_of
from tightrope.policies.parts.forgetting import EVERYONE, NO_ONE, remember
from tightrope.policies.state import rows


class Actions(NamedTuple):
    """The parts of a step that depend on the policy."""

    choose: Any  # (memory, step) -> arm
    learn: Any  # (memory, row): update the beliefs about a row whose sums changed
    sound: Any  # memory -> whether ``learn`` succeeded


class Common(NamedTuple):
    """The parts of a step that are the same for every policy, given its ``learn``."""

    take: Any  # (memory, row): count the outcomes in ``memory.run.outcome``, and learn from them
    count: Any  # (memory, row): count them in the book
    report: Any  # (memory, row): learn from them
    settle: Any  # (memory, counting) -> whether the budget allows another pull
    move: Any  # (memory, pulls): advance the queues by the summed outcomes of several pulls
    goes_on: Any  # memory -> whether neither the budget nor a hard limit is exceeded
    toss: Any  # (memory, asked): draw the policy's random words


class Uses(NamedTuple):
    """The features that a run may use; a kernel for one task leaves the others out."""

    forgets: bool = True  # whether pulls may be forgotten, or arms watched
    hard: bool = True  # whether a limit may end the run
    net: bool = True  # whether a limit may be per pull or per reward
    book: bool = True  # whether the book may differ from what a ``State`` counts


ALL = Uses()


def common(target: Any, learn: Any, part: Any, wrap: Any, forget: Any, uses: Uses = ALL) -> Common:
    """The shared parts around ``learn(memory, row)`` and ``forget``, see ``forgetter``."""
    count = _counter(target, wrap)
    report = _reporter(learn, part, wrap, forget if uses.forgets else None)
    move, number = _mover(target, wrap), target.number
    goes_on = wrap(_goes_on if uses.hard else _within_budget)
    word_of = part(next_word)

    def count_and_report(memory, row):
        count(memory, row)
        report(memory, row)

    take = wrap(count_and_report) if uses.book else report

    def settle(memory, counting):
        memory.run.spent[0] += memory.run.outcome[0]
        if counting:
            move(memory, number(1))
        return goes_on(memory)

    def toss(memory, asked):
        for word in range(memory.random):
            weyl = (asked * memory.random + word + 1) * WEYL
            memory.pair[word] = int64(word_of(memory.words, 4, 1, weyl))

    return Common(take, count, report, wrap(settle), move, goes_on, wrap(toss))


def _counter(target: Any, wrap: Any) -> Any:
    """Add the outcomes to the book."""
    number = target.number

    def count(memory, row):
        channels = 2 + memory.penalties
        first = row * (1 + channels)
        memory.book[first] += number(1)
        for channel in range(channels):
            memory.book[first + 1 + channel] += memory.run.outcome[channel]

    return wrap(count)


def _reporter(learn: Any, part: Any, wrap: Any, forget: Any) -> Any:
    """Learn from the outcomes; a forgotten pull changes another row, or all rows."""
    record_in = part(record)

    def keep(memory, row):
        record_in(memory.state, row, memory.run.outcome)
        learn(memory, row)

    if forget is None:
        return wrap(keep)

    def report(memory, row):
        touched = NO_ONE
        if memory.remembers:
            if memory.run.fade[0] != 1.0 or len(memory.history) > 0:
                touched = forget(memory, row)
            else:
                record_in(memory.state, row, memory.run.outcome)
        everyone, other = touched == EVERYONE, touched >= 0 and touched != row
        turns = len(memory.state.pulls) if everyone else 2 if other else 1
        for turn in range(turns):  # a loop, since every call of ``learn`` is inlined
            learn(memory, turn if everyone else touched if turn + 1 < turns else row)

    return wrap(report)


def forgetter(part: Any, wrap: Any) -> Any:
    """``forget(memory, row)``: count the outcomes in a ``State`` from which pulls are forgotten.

    Returns the row that forgetting changed, see ``remember``.
    """
    remember_in = part(remember)

    def forget(memory, row):
        return remember_in(
            memory.state, memory.history, memory.run.fade[0], row, memory.run.outcome
        )

    return wrap(forget)


def _mover(target: Any, wrap: Any) -> Any:
    """Advance the queues."""
    settle_queues = target.settle()

    def move(memory, pulls):
        run, penalties = memory.run, memory.penalties
        settle_queues(run.queues, 0, 1, run.allowance, 0, run.outcome, 0, 1, pulls, penalties, run)

    return wrap(move)


def _within_budget(memory):
    return memory.run.spent[0] <= memory.run.budget[0]


def _goes_on(memory):
    run = memory.run
    going = run.spent[0] <= run.budget[0]
    if memory.remembers:
        for m in range(len(memory.state.limits)):
            if run.hard[m] > 0.0 and memory.state.remaining[1 + m] < 0.0:
                going = False
    return going


@cache
def actions(spec: Spec) -> Actions:
    """A policy's actions, compiled for a CPU to be inlined."""
    if not spec.remembers:
        return _over_book(spec)
    made = over_state(spec, spec.target, spec.formula, spec.part)
    if spec.method != CHOICE:
        return made
    where = place_of(spec.policy, spec.policy.choose)
    choose, whole = made.choose, whole_number(f"policy {spec.policy.name}: choose", where)

    def choose_whole(memory, step):
        return whole(choose(memory, step))

    return made._replace(choose=spec.part(choose_whole))


def over_state(spec: Any, target: Any, part: Any, wrap: Any) -> Actions:
    """Actions over a ``State``: a policy's own ``choose``, or an index policy that may forget."""
    return (_chosen if spec.method == CHOICE else _indexed)(spec, target, part, wrap)


def _chosen(spec: Any, target: Any, part: Any, wrap: Any) -> Actions:
    """The actions of a choice policy."""
    _, choice, learning = map(part, spec.functions)

    def choose(memory, step):
        return choice(memory.wide, memory.state, memory.scratch, memory.pair)

    def learn(memory, row):
        learning(memory.wide, memory.state, memory.scratch, row)

    return Actions(wrap(choose), wrap(learn), wrap(_always))


def _indexed(spec: Any, target: Any, part: Any, wrap: Any) -> Actions:
    """The actions of an index policy over a ``State``."""
    index, renew, coin = target.index(), target.renew(), part(coin_of)
    clock, learns, among = part(spec.policy.clock), spec.policy.learns, part(rows)
    infinity, random, outside = np.inf, spec.policy.random, is_outside(spec.policy)

    def choose(memory, step):
        constants, state, terms = memory.wide, memory.state, memory.terms
        remembered = 0.0
        for arm in among(state):
            remembered += state.pulls[arm]
        now = clock(constants, max(remembered, 1.0))
        uniform = coin(memory.pair[0]) if random else 0.0
        best, chosen = infinity, 0
        penalties, queues = memory.penalties, memory.run.queues
        stride = len(terms) // (2 * penalties + 3)
        for arm in among(state):
            value = index(
                terms, arm, stride, queues, 0, 1, constants, now, uniform, float(arm), penalties
            )
            if value < best:
                best, chosen = value, arm
            if outside and value != value:
                return FAILED
        return chosen

    def learn(memory, row):
        if learns:
            state, terms, channels = memory.state, memory.terms, 2 + memory.penalties
            stride, first = len(terms) // (2 * channels - 1), row * channels
            pulls, cost, earned = state.pulls[row], state.totals[first], state.totals[first + 1]
            for channel in range(1, channels):
                total = state.totals[first + channel]
                level, width = renew(memory.wide, pulls, cost, earned, total, channel, memory.run)
                terms[(2 * channel - 2) * stride + row] = level
                terms[(2 * channel - 1) * stride + row] = width

    return Actions(part(choose), part(learn), wrap(_always))


def _over_book(spec: Spec) -> Actions:
    """The actions of an index policy without a ``State``: its terms come from the book."""
    decide, part, number = decider(spec), spec.formula, spec.dtype
    renew, coin, random = spec.target.renew(), part(coin_of), spec.policy.random
    learns, touched, touch = spec.policy.learns, spec.method == SIEVE, toucher(spec)

    def choose(memory, step):
        uniform = number(coin(memory.pair[0])) if random else number(0)
        return decide(memory, step, uniform)

    def learn(memory, row):
        if learns:
            book, terms, channels = memory.book, memory.terms, 2 + memory.penalties
            stride, first = len(terms) // (2 * channels - 1), row * (1 + channels)
            pulls, cost, earned = book[first], book[first + 1], book[first + 2]
            for channel in range(1, channels):
                total = book[first + 1 + channel]
                level, width = renew(
                    memory.constants, pulls, cost, earned, total, channel, memory.run
                )
                terms[(2 * channel - 2) * stride + row] = number(level)
                terms[(2 * channel - 1) * stride + row] = number(width)
            if touched:
                touch(memory, row)

    return Actions(spec.part(choose), spec.part(learn), spec.part(_always))


def _always(memory):
    return True


def of_any_policy(part: Any) -> Actions:
    """The actions of any policy: functions at addresses that the memory holds."""

    def choose(memory, step):
        memory.counts[STEP] = step
        return call_choose(memory.choose_at, memory.address)

    def learn(memory, row):
        if call_learn(memory.learn_at, memory.address, int64(row)) == FAILED:
            memory.counts[WRONG] = 1

    def sound(memory):
        return memory.counts[WRONG] == 0

    return Actions(part(choose), part(learn), part(sound))


def forget_at_address(part: Any) -> Any:
    """``forget`` at an address that the memory holds; compiled only if a run forgets."""

    def forget(memory, row):
        return call_learn(memory.forget_at, memory.address, int64(row))

    return part(forget)


def any_target() -> Target:
    """The step functions for any policy, in double precision."""

    def part(function: Any, dtype: Any = None) -> Any:
        return compile_function(function, dtype, inlined)

    return Target(None, 0, np.float64, part, net=of_run)
