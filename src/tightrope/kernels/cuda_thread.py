"""The GPU's kernel for any policy: one thread a run, all that it remembers in global memory.

The loop and the functions of ``single_run``, compiled for a device: for policies that choose over
the whole state, those that forget, and arms that change. A run's numbers lie ``TILE`` apart, those
of a warp's runs side by side.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, Any, NamedTuple

import numpy as np
from numba import cuda, float64, int64, uint32

from tightrope.compiled import fingerprint
from tightrope.kernels.cuda import TILE, device_part, device_target
from tightrope.kernels.run_state import Run, RunState
from tightrope.kernels.single_run import Ends, Memory, TermTable, loop, over_records
from tightrope.kernels.spec import CHOICE, Spec
from tightrope.policies.state import Array, NoScratch, State, field_sizes, record_maker

__all__ = ["build_thread", "fresh_numbers", "number_starts"]


def _record(spec: Spec) -> type:
    """What a thread has in memory, in order."""
    policy: Any = spec.policy
    own = policy.Scratch if spec.method == CHOICE else NoScratch
    plain = Annotated[Array, 1]
    fields = [("run", plain), ("book", plain), ("terms", plain), ("history", plain)]
    made: Any = NamedTuple("ThreadRecord", [*fields, ("state", State), ("scratch", own)])  # type: ignore[misc]
    return made


def _parts(spec: Spec, fresh: RunState) -> list[Any]:
    """The numbers that a run starts with, field by field; of terms the arms' alone."""
    arms = len(fresh["totals"])
    policy: Any = spec.policy
    own = policy.Scratch if spec.method == CHOICE else NoScratch
    terms = fresh["places"][:, :arms] if spec.indexed else np.zeros(0)
    parts = [fresh["run"], fresh["totals"], terms, fresh["history"]]
    blocks = [
        (State, fresh["state"]),
        (own, fresh["scratch"] if spec.method == CHOICE else np.zeros(1)),
    ]
    for record, block in blocks:
        sizes = [size for _, size in field_sizes(record, arms, spec.limited)]
        parts += np.split(block, np.cumsum(sizes)[:-1])
    return [np.asarray(part, np.float64).reshape(-1) for part in parts]


def fresh_numbers(spec: Spec, fresh: RunState) -> Any:
    """All numbers of a run at its start."""
    return np.concatenate(_parts(spec, fresh))


def number_starts(spec: Spec, fresh: RunState) -> Any:
    """Where each field starts among them, and where the last one ends."""
    return np.cumsum([0, *(len(part) for part in _parts(spec, fresh))])


@lru_cache(maxsize=256)
def build_thread(spec: Spec, bernoulli: bool, arms: int, places: tuple[int, ...], own: bool) -> Any:
    """The kernel, compiled when it is first launched.

    Its arguments: the runs' generators [4, R], the laws, the starts of phases, the numbers that a
    run starts with, ``memory`` [threads / TILE, numbers, TILE], the constants; out come pulls and
    cost of each arm in ``counts`` [K, 2, R] and the columns of ``Ends`` in ``ends`` [columns, R].
    A thread makes one run after another. The number of ``arms`` and the ``places`` of its fields
    are constants of the kernel, and its numbers are its ``own`` where they are not too many.
    """
    digest = fingerprint([], (spec.digest, bernoulli, arms, places, own, "device"))
    part = device_part(digest)
    target = device_target(spec.policy, spec.penalties, np.float64, digest)
    draw = target.draw_bits() if bernoulli else target.draw_cells()
    play = loop(spec, target, part, draw, over_records(spec, target, part, part))
    make, report = part(record_maker(_record(spec), strided=not own)), _report(spec, part)
    scratch_of = part(_own_scratch if spec.method == CHOICE else _own_terms)
    outcome, channels = Run.of(spec.penalties).outcome, 2 + spec.penalties
    tile, size = TILE, places[-1]

    def all_runs(mine, memory, first, stride, game):
        seeds, lucks, law, starts, fresh, wide, counts, ends, explore, until, stop = game
        words = cuda.local.array(8, uint32)
        pair = cuda.local.array(2, int64)
        memory_of = Memory(
            0,
            mine.run,
            mine.run[outcome : outcome + channels],
            mine.book,
            mine.terms,
            words,
            pair,
            mine.state,
            scratch_of(mine),
            mine.history,
            wide,
            wide,
        )
        for run in range(cuda.grid(1), seeds.shape[1], cuda.gridsize(1)):
            for at in range(size):
                memory[first + at * stride] = fresh[at]
            for at in range(4):
                words[at], words[4 + at] = seeds[at, run], lucks[at, run]
            step, _, arm = play(
                memory_of, law, starts, int64(arms), explore, int64(0), int64(0), until, stop
            )
            report(memory_of, run, seeds.shape[1], arms, step, arm, counts, ends)

    make_runs = part(all_runs)

    def any_policy(memory, game):
        if own:
            numbers = cuda.local.array(size, float64)
            make_runs(make(numbers, places), numbers, 0, 1, game)
        else:
            thread = cuda.grid(1)
            first = thread // tile * size * tile + thread % tile
            make_runs(make(memory, places, first, tile), memory, first, tile, game)

    return cuda.jit(any_policy)


def _own_scratch(mine):
    return mine.scratch


def _own_terms(mine):
    return TermTable(mine.terms)


def _report(spec: Spec, part: Any) -> Any:
    """Write what came out."""
    layout, at = Run.of(spec.penalties), Ends.of(spec.penalties)
    penalties, rows, spent, peak = spec.penalties, 3 + spec.penalties, layout.spent, layout.peak
    totals, queue, end_peak = at.totals, at.queue, at.peak
    last, wrong, wrong_arm = at.step, at.wrong, at.wrong_arm

    def report(own, run, runs, count, step, arm, counts, ends):
        for k in range(count):
            counts[2 * k * runs + run] = own.book[k * rows]
            counts[(2 * k + 1) * runs + run] = own.book[k * rows + 1]
        ends[run] = own.run[spent]
        for channel in range(1 + penalties):
            total = 0.0
            for k in range(count):
                total += own.book[k * rows + 2 + channel]
            ends[(totals + channel) * runs + run] = total
        for m in range(penalties):
            ends[(queue + m) * runs + run] = own.run[m]
            ends[(end_peak + m) * runs + run] = own.run[peak + m]
        ends[last * runs + run] = step
        ends[wrong * runs + run] = 1.0 if arm < 0 or arm >= count else 0.0
        ends[wrong_arm * runs + run] = arm

    return part(report)
