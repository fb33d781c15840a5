"""The GPU's kernel for any policy: one thread per run.

The loop and the functions of ``single_run``, compiled for a device: for choice policies, for
policies that forget, and for arms that change. Numbers that a step reads of every arm are in shared
memory if they fit. Numbers that it reads of one arm are in the thread's local memory or, if there
are too many, in global memory, where the runs of a warp are interleaved.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, Any, NamedTuple

import numpy as np
from numba import cuda, float64, int64, uint32

from tightrope.compiled import fingerprint
from tightrope.kernels.cuda import TILE, device_part, device_target
from tightrope.kernels.moving import flight_numbers, moving_loop
from tightrope.kernels.run_state import Run, RunState
from tightrope.kernels.single_run import Ends, Memory, TermTable, loop, over_records
from tightrope.kernels.spec import CHOICE, Spec
from tightrope.policies.state import (
    Array,
    NoScratch,
    State,
    field_sizes,
    record_fields,
    record_text,
)

__all__ = ["Numbers", "build_thread"]

SHARED_BYTES = 48 * 1024  # shared memory of a block without a special request
MOST_THREADS = 64  # per block with shared memory
WARP = 32
FEWEST_THREADS = 32  # fewer are slower than threads with nothing in shared memory (H200)
OWN_NUMBERS = 4096  # most numbers in a thread's local memory: 32 KB


def _record(spec: Spec, moving: bool) -> type:
    """A thread's record; a step reads all of the first three fields, and one arm of the rest.

    If ``moving``, it ends with the view's own fields and the pulls in flight.
    """
    plain = Annotated[Array, 1]
    first = [("run", plain), ("terms", plain), ("scratch", _scratch_type(spec))]
    rest = [("book", plain), ("history", plain), ("state", State)]
    if moving:
        rest += [("view_run", plain), ("view_terms", plain), ("view_scratch", _scratch_type(spec))]
        rest += [("view_state", State), ("flights", plain)]
    made: Any = NamedTuple("ThreadRecord", first + rest)  # type: ignore[misc]
    return made


def _scratch_type(spec: Spec) -> Any:
    policy: Any = spec.policy
    return policy.Scratch if spec.method == CHOICE else NoScratch


class Numbers:
    """A run's initial numbers, in the order of its record's fields, and their layout."""

    def __init__(self, spec: Spec, fresh: RunState, slots: int = 0) -> None:
        """``slots``: of outcomes that are told late, see ``moving``; 0 if all are told at once."""
        arms = len(fresh["totals"])
        terms = fresh["places"][:, :arms] if spec.indexed else np.zeros(0)  # without the sieve's
        scratch = fresh["scratch"] if spec.method == CHOICE else np.zeros(1)
        first = [fresh["run"], terms, *_cut(_scratch_type(spec), scratch, arms, spec.limited)]
        rest = [fresh["totals"], fresh["history"], *_cut(State, fresh["state"], arms, spec.limited)]
        if slots:
            flights = np.zeros(flight_numbers(arms, 2 + spec.penalties, slots))
            flights[1 + arms : 1 + arms + slots] = -1.0
            rest += [*first, *rest[2:], flights]
        sizes = [np.size(part) for part in first + rest]
        fit = SHARED_BYTES // (8 * sum(size | 1 for size in sizes[: len(first)]))
        self.fresh: Any = np.concatenate([np.ravel(part).astype(float) for part in first + rest])
        threads = min(fit // WARP * WARP or fit, MOST_THREADS) if fit >= FEWEST_THREADS else 0
        shared = len(first) if threads else 0
        self.layout = Layout(tuple(sizes), shared, threads, sum(sizes[shared:]) <= OWN_NUMBERS)


class Layout(NamedTuple):
    """Where a thread's numbers are."""

    sizes: tuple[int, ...]  # of the fields
    shared: int  # how many of the fields are in shared memory
    threads: int  # per block, if some are in shared memory
    own: bool  # whether the other fields are in local memory; else in global memory

    @property
    def beyond(self) -> int:
        """The count of numbers that are not in shared memory."""
        return sum(self.sizes[self.shared :])

    def place(self, field: int) -> str:
        """The source text that makes a field's array.

        Each field has an array of its own, so that the compiler knows that a store to one changes
        no other. In shared memory, threads are an odd number of numbers apart, which avoids bank
        conflicts within a warp.
        """
        size = self.sizes[field]
        if field < self.shared:
            return f"cuda.shared.array(({self.threads}, {size | 1}), float64)[lane, :{size}]"
        if self.own:
            return f"cuda.local.array({max(size, 1)}, float64)[:{size}]"
        first = sum(self.sizes[self.shared : field])
        return f"memory[tile, {first} : {first + size}, column]"


def _cut(record: type, block: Any, arms: int, penalties: int) -> list[Any]:
    """A record's fields, cut out of its block."""
    sizes = [size for _, size in field_sizes(record, arms, penalties)]
    return np.split(block, np.cumsum(sizes)[:-1])


@lru_cache(maxsize=256)
def build_thread(
    spec: Spec, bernoulli: bool, arms: int, layout: Layout, moving: bool = False
) -> Any:
    """The kernel, compiled when it is first launched.

    Input: ``memory`` [tiles, numbers, TILE] for the fields in global memory, the runs' generators
    [4, R], the laws, the starts of phases, a run's initial numbers, the constants. Output: pulls
    and cost of each arm in ``counts`` [K, 2, R], and the columns of ``Ends`` in ``ends``
    [columns, R]. A thread makes one run after another. The number of ``arms`` and the ``layout``
    are compile-time constants. With ``moving``, the loop is that of ``moving``. It is long because
    what is compiled shares what is around it.
    """
    digest = fingerprint([], (spec.digest, bernoulli, arms, layout, moving, "device"))
    part = device_part(digest)
    target = device_target(spec.policy, spec.penalties, np.float64, digest, bases=spec.bases)
    draw = target.draw_bits() if bernoulli else target.draw_cells()
    own = over_records(spec, target, part, part)
    play = (
        moving_loop(spec, target, part, part, draw, own)
        if moving
        else loop(spec, target, part, draw, own)
    )
    report = _report(spec, part)
    scratch_of = part(_own_scratch if spec.method == CHOICE else _own_terms)
    view_scratch_of = part(_view_scratch if spec.method == CHOICE else _view_terms)
    outcome, channels = Run.of(spec.penalties).outcome, 2 + spec.penalties

    def memory_at(mine, run, terms, state, scratch, words, pair, wide):
        last = run[outcome : outcome + channels]
        return Memory(
            0, run, last, mine.book, terms, words, pair, state, scratch, mine.history, wide, wide
        )

    memory_of = part(memory_at)

    def all_runs(mine, game):
        seeds, policy_words, law, starts, fresh, wide, counts, ends, explore, until, stop = game
        words = cuda.local.array(8, uint32)
        pair = cuda.local.array(2, int64)
        memory = memory_of(
            mine, mine.run, mine.terms, mine.state, scratch_of(mine), words, pair, wide
        )
        for run in range(cuda.grid(1), seeds.shape[1], cuda.gridsize(1)):
            begin(mine, fresh)
            for at in range(4):
                words[at], words[4 + at] = seeds[at, run], policy_words[at, run]
            step, _, arm = play(
                memory, law, starts, int64(arms), explore, int64(0), int64(0), until, stop
            )
            report(memory, run, seeds.shape[1], arms, step, arm, counts, ends)

    def moving_runs(mine, game):
        (seeds, policy_words, law, starts, fresh, wide, counts, ends, explore, until, stop, rules,
         keys) = game  # fmt: skip
        words = cuda.local.array(8, uint32)
        pair = cuda.local.array(2, int64)
        memory = memory_of(
            mine, mine.run, mine.terms, mine.state, scratch_of(mine), words, pair, wide
        )
        scratch = view_scratch_of(mine)
        seen = memory_of(
            mine, mine.view_run, mine.view_terms, mine.view_state, scratch, words, pair, wide
        )
        for run in range(cuda.grid(1), seeds.shape[1], cuda.gridsize(1)):
            begin(mine, fresh)
            mine.flights[0] = float(keys[run])
            for at in range(4):
                words[at], words[4 + at] = seeds[at, run], policy_words[at, run]
            step, _, arm = play(
                memory, seen, mine.flights, rules, law, starts, int64(arms), explore, int64(0),
                int64(0), until, stop,
            )  # fmt: skip
            report(memory, run, seeds.shape[1], arms, step, arm, counts, ends)

    names: dict[str, Any] = {"cuda": cuda, "float64": float64, "copy": part(_copy)}
    exec(_text(_record(spec, moving), layout, names), names)
    begin, names["all_runs"] = part(names["begin"]), part(moving_runs if moving else all_runs)
    return cuda.jit(names["any_policy"])


def _text(record: type, layout: Layout, names: dict[str, Any]) -> str:
    """Source text of the functions that depend on the fields: they make and copy the arrays."""
    names["__name__"] = __name__
    fields = [name for name, _ in record_fields(record)]
    copies = [f"first = copy(mine.{name}, fresh, first)" for name in fields]
    places = [f"field_{at} = {layout.place(at)}" for at in range(len(fields))]
    return "\n    ".join(
        [
            "def begin(mine, fresh):",
            "first = 0",
            *copies,
            "\ndef any_policy(memory, game):",
            f"tile, column = cuda.grid(1) // {TILE}, cuda.grid(1) % {TILE}",
            "lane = cuda.threadIdx.x",
            *places,
            f"all_runs({record_text(record, names, 'field_{}'.format)}, game)",
        ]
    ).replace("    \ndef", "\ndef")


def _copy(field, fresh, first):
    for at in range(len(field)):
        field[at] = fresh[first + at]
    return first + len(field)


def _own_scratch(mine):
    return mine.scratch


def _own_terms(mine):
    return TermTable(mine.terms)


def _view_scratch(mine):
    return mine.view_scratch


def _view_terms(mine):
    return TermTable(mine.view_terms)


def _report(spec: Spec, part: Any) -> Any:
    """Write the results."""
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
