"""The GPU's kernel for any policy: one thread per run.

The loop and the functions of ``single_run``, compiled for a device: for choice policies, for
policies that forget, and for arms that change. Numbers that a step reads for every arm are in
shared memory if they fit. Numbers that it reads for one arm are in the thread's local memory or, if
there are too many, in global memory, where the runs of a warp are interleaved.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numba import cuda, float64, int64, uint32

from tightrope.kernels.actions import Uses, common, forgetter, over_state
from tightrope.kernels.cuda import TILE, device_part, device_target
from tightrope.kernels.flight import views
from tightrope.kernels.memory import Memory, TermTable
from tightrope.kernels.moving import flight_numbers, moving_loop
from tightrope.kernels.run_state import Run, RunState
from tightrope.kernels.single_run import Ends, loop
from tightrope.kernels.spec import CHOICE, Spec
from tightrope.kernels.step import of_run
from tightrope.policies.choice import fields_within
from tightrope.policies.state import NoScratch, State, field_sizes, record_text

SHARED_BYTES = 48 * 1024  # shared memory of a block without a special request
MOST_THREADS = 64  # per block with shared memory
WARP = 32
FEWEST_THREADS = 32  # fewer are slower than threads with nothing in shared memory (H200)
OWN_NUMBERS = 4096  # most numbers in a thread's local memory: 32 KB


def _scratch_type(spec: Spec) -> Any:
    policy: Any = spec.policy
    return policy.Scratch if spec.method == CHOICE else NoScratch


def _unused(fresh: RunState) -> dict[str, str]:
    """Fields of a ``State`` that are always 0 without late reports; code for them is left out.

    With one limit per unit of cost, its base too.
    """
    if not fresh.spec.remembers:
        return {}
    found, state = {"flying": "(0.0,)"}, fresh.record
    if state.stated[0] == 0.0:
        found["stated"] = "(0.0,)"
    if len(state.bases) == 1 and state.bases[0] == 0.0:
        found["bases"] = "(0.0,)"
    return found


class Numbers:
    """A run's initial numbers, array by array, and the text of a thread's record made of them.

    A step reads all of the first arrays, and one arm of the rest. A record is cut into arrays of
    its own, one per field; with delays its numbers are one array, which is copied whole for the
    view.
    """

    def __init__(self, spec: Spec, fresh: RunState, slots: int = 0) -> None:
        """``slots``: for late outcomes, see ``moving``; 0 if all are reported at once."""
        arms, moving = len(fresh["totals"]), slots > 0
        terms = fresh["places"][:, :arms] if spec.indexed else np.zeros(0)  # without the sieve's
        scratch = fresh["scratch"] if spec.method == CHOICE else np.zeros(1)
        self._fresh, self._made, self._text = fresh, list[Any](), dict[str, str]()
        own = _scratch_type(spec)
        seldom = fields_within(own, getattr(spec.policy, "seldom", ()))
        self._array("terms", terms)
        first = self._record("scratch", own, scratch, whole=moving, later=seldom)
        self._array("book", fresh["totals"])
        self._array("history", fresh["history"])
        self._record("run", Run, fresh["run"])
        self._record("state", State, fresh["state"], whole=moving, fixed=_unused(fresh))
        if moving:
            self._array("view_terms", terms)
            self._record("view_scratch", own, scratch, whole=True)
            self._record("view_run", Run, fresh["run"])
            self._record("view_state", State, fresh["state"], whole=True)
            flights = np.zeros(flight_numbers(arms, 2 + fresh.penalties, slots))
            flights[1 + arms : 1 + arms + slots] = -1.0
            self._array("flights", flights)
        sizes = [np.size(part) for part in self._made]
        fit = SHARED_BYTES // (8 * sum(size | 1 for size in sizes[:first]))
        self.fresh: Any = np.concatenate([np.ravel(part).astype(float) for part in self._made])
        threads = min(fit // WARP * WARP or fit, MOST_THREADS) if fit >= FEWEST_THREADS else 0
        shared = first if threads else 0
        local, text = sum(sizes[shared:]) <= OWN_NUMBERS, tuple(self._text.items())
        self.layout = ThreadLayout(tuple(sizes), shared, threads, local, text)

    def at(self, budget: float) -> Any:
        """The numbers of a run that ends at this cost."""
        fresh, run = self.fresh.copy(), self._fresh.run
        numbers = iter(self._made)
        first = 0
        for part in numbers:
            if np.shares_memory(part, run.budget):
                fresh[first] = budget
            first += np.size(part)
        return fresh

    def _array(self, name: str, numbers: Any) -> None:
        """An array with these numbers at the start."""
        self._text[name] = self._next(numbers)

    def _next(self, numbers: Any) -> str:
        self._made.append(numbers)
        return f"field_{len(self._made) - 1}"

    def _record(
        self,
        name: str,
        kind: type,
        numbers: Any,
        *,
        whole: bool = False,
        later: Sequence[str] = (),
        fixed: Mapping[str, str] | None = None,
    ) -> int:
        """A record; if ``whole``, all of its numbers have their own name.

        ``fixed``: fields that are numbers known when the kernel is compiled, as text. Returns how
        many arrays there are before those of the fields that come ``later``.
        """
        penalties = self._fresh.penalties if kind is Run else self._fresh.limited
        sized = list(field_sizes(kind, len(self._fresh["totals"]), penalties))
        ends = np.cumsum([size for _, size in sized]).tolist()
        spans = {name: (end - size, end) for (name, size), end in zip(sized, ends, strict=True)}
        if whole:
            array = self._next(numbers)
            self._text[f"{name}_numbers"] = array
            cut = {one: f"{array}[{start} : {end}]" for one, (start, end) in spans.items()}
            first = len(self._made)
        else:
            cut = dict(fixed or {})
            now = [one for one in spans if one not in later and one not in cut]
            cut |= {one: self._next(numbers[slice(*spans[one])]) for one in now}
            first = len(self._made)
            cut |= {one: self._next(numbers[slice(*spans[one])]) for one in later}
        ordered = [cut[one] for one in spans]
        self._text[name] = record_text(kind, {}, ordered.__getitem__)
        return first


class ThreadLayout(NamedTuple):
    """Where a thread's numbers are."""

    sizes: tuple[int, ...]  # of the fields
    shared: int  # how many of the fields are in shared memory
    threads: int  # per block, if some are in shared memory
    own: bool  # whether the other fields are in local or in global memory
    text: tuple[tuple[str, str], ...]  # of the record made from them

    @property
    def beyond(self) -> int:
        """The number of values outside shared memory."""
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


@lru_cache(maxsize=256)
def build_thread(
    spec: Spec,
    bernoulli: bool,
    arms: int,
    penalties: int,
    layout: ThreadLayout,
    uses: Uses,
    moving: bool = False,
    typed: int = 0,
) -> Any:
    """The kernel, compiled when it is first launched.

    Input: ``memory`` [tiles, numbers, TILE] for the fields in global memory, the runs' generators
    [4, R], the distributions, the starts of phases, the mix of types, a run's initial numbers, the
    constants. Output: pulls and cost of each arm in ``counts`` [K, 2, R], and the columns of
    ``Ends`` in ``ends`` [columns, R]. A thread makes one run after another. The numbers of ``arms``
    and ``penalties``, the ``layout`` and the features that a run ``uses`` are compile-time
    constants. With ``moving``, the loop is that of ``moving``. ``typed``: 0 without types of
    requests, or the number of words that a policy sees. It is long because the compiled functions
    share its variables.
    """
    part = device_part
    net = of_run if uses.net else None
    target = device_target(spec.policy, penalties, np.float64, net=net)
    draw = target.draw_bits() if bernoulli else target.draw_cells()
    own = over_state(spec, target, part, part)
    shared = common(target, own.learn, part, part, forgetter(part, part), uses)
    play: Any
    if moving:
        view = views(target, part, own.learn, shared)
        more = {"typed": typed > 0, "featured": False}
        play = moving_loop(target, part, part, draw, own, shared, view, **more)
    else:
        play = loop(target, part, draw, own, shared, typed=typed > 0, featured=False)
    report = _report(penalties, part, uses.book)
    scratch_of = part(_own_scratch if spec.method == CHOICE else _own_terms)
    random, pair_size = spec.words, max(typed, 2)

    def memory_at(mine, terms, run, state, scratch, words, pair, wide, flat):
        numbers, own_numbers, rows, own_rows, carried = flat
        return Memory(
            0, penalties, True, random, run, mine.book, terms, words, pair, state, scratch,
            mine.history, wide, wide, 0, numbers, own_numbers, rows, own_rows, carried,
        )  # fmt: skip

    memory_of = part(memory_at)

    def all_runs(mine, fields, game):
        seeds, policy_words, law, starts, mix, fresh, wide, counts, ends, explore, until, stop = (
            game
        )
        words = cuda.local.array(8, uint32)
        pair = cuda.local.array(pair_size, int64)
        scratch = scratch_of(mine.scratch, mine.terms)
        memory = memory_of(
            mine, mine.terms, mine.run, mine.state, scratch, words, pair, wide, (0, 0, 0, 0, 0)
        )
        for run in range(cuda.grid(1), seeds.shape[1], cuda.gridsize(1)):
            begin(fields, fresh)
            for at in range(4):
                words[at], words[4 + at] = seeds[at, run], policy_words[at, run]
            step, _, arm = play(
                memory, law, starts, mix, int64(arms), explore, int64(0), int64(0), until, stop
            )
            report(memory, run, seeds.shape[1], arms, step, arm, counts, ends)

    def moving_runs(mine, fields, game):
        (seeds, policy_words, law, starts, mix, fresh, wide, counts, ends, explore, until, stop,
         rules, keys, rows, own_rows, carried) = game  # fmt: skip
        words = cuda.local.array(8, uint32)
        pair = cuda.local.array(pair_size, int64)
        flat = (mine.state_numbers, mine.scratch_numbers, rows, own_rows, carried)
        scratch = scratch_of(mine.scratch, mine.terms)
        memory = memory_of(mine, mine.terms, mine.run, mine.state, scratch, words, pair, wide, flat)
        flat = (mine.view_state_numbers, mine.view_scratch_numbers, rows, own_rows, carried)
        scratch = scratch_of(mine.view_scratch, mine.view_terms)
        seen = memory_of(
            mine, mine.view_terms, mine.view_run, mine.view_state, scratch, words, pair, wide, flat
        )
        for run in range(cuda.grid(1), seeds.shape[1], cuda.gridsize(1)):
            begin(fields, fresh)
            mine.flights[0] = float(keys[run])
            for at in range(4):
                words[at], words[4 + at] = seeds[at, run], policy_words[at, run]
            step, _, arm = play(
                memory, seen, mine.flights, rules, law, starts, mix, int64(arms), explore,
                int64(0), int64(0), until, stop,
            )  # fmt: skip
            report(memory, run, seeds.shape[1], arms, step, arm, counts, ends)

    names: dict[str, Any] = {"cuda": cuda, "float64": float64, "copy": part(_copy)}
    for kind in (Run, State, _scratch_type(spec)):
        record_text(kind, names, str)  # adds its types to the names
    exec(_text(layout, names), names)
    begin = part(names["begin"])
    names["all_runs"] = part(moving_runs if moving else all_runs)
    return cuda.jit(names["any_policy"])


def _text(layout: ThreadLayout, names: dict[str, Any]) -> str:
    """Source text of the functions that depend on the fields: they make and fill the arrays."""
    names["__name__"] = __name__
    count = len(layout.sizes)
    kind: Any = NamedTuple("ThreadRecord", [(name, Any) for name, _ in layout.text])  # type: ignore[misc]
    names["ThreadRecord"] = kind
    return "\n    ".join(
        [
            "def begin(fields, fresh):",
            "first = 0",
            *(f"first = copy(fields[{at}], fresh, first)" for at in range(count)),
            "\ndef any_policy(memory, game):",
            f"tile, column = cuda.grid(1) // {TILE}, cuda.grid(1) % {TILE}",
            "lane = cuda.threadIdx.x",
            *(f"field_{at} = {layout.place(at)}" for at in range(count)),
            f"fields = ({', '.join(f'field_{at}' for at in range(count))},)",
            f"all_runs(ThreadRecord({', '.join(made for _, made in layout.text)}), fields, game)",
        ]
    ).replace("    \ndef", "\ndef")


def _copy(field, fresh, first):
    for at in range(len(field)):
        field[at] = fresh[first + at]
    return first + len(field)


def _own_scratch(scratch, terms):
    return scratch


def _own_terms(scratch, terms):
    return TermTable(terms)


def _report(penalties: int, part: Any, book: bool) -> Any:
    """Write the results: sums of the ``book`` or of the state."""
    at, rows = Ends.of(penalties), 3 + penalties
    channels = 2 + penalties

    def from_book(own, arm, channel):
        return own.book[arm * rows + 1 + channel]

    def from_state(own, arm, channel):
        return own.state.totals[arm * channels + channel]

    def pulls_in_book(own, arm):
        return own.book[arm * rows]

    def pulls_in_state(own, arm):
        return own.state.pulls[arm]

    sum_of, pulls_of = map(
        part, (from_book, pulls_in_book) if book else (from_state, pulls_in_state)
    )
    totals, queue, end_peak = at.totals, at.queue, at.peak
    last, wrong, wrong_arm = at.step, at.wrong, at.wrong_arm

    def report(own, run, runs, count, step, arm, counts, ends):
        for k in range(count):
            counts[2 * k * runs + run] = pulls_of(own, k)
            counts[(2 * k + 1) * runs + run] = sum_of(own, k, 0)
        ends[run] = own.run.spent[0]
        for channel in range(1 + penalties):
            total = 0.0
            for k in range(count):
                total += sum_of(own, k, 1 + channel)
            ends[(totals + channel) * runs + run] = total
        for m in range(penalties):
            ends[(queue + m) * runs + run] = own.run.queues[m]
            ends[(end_peak + m) * runs + run] = own.run.queues[2 * penalties + m]
        ends[last * runs + run] = step
        ends[wrong * runs + run] = 1.0 if arm < 0 or arm >= count else 0.0
        ends[wrong_arm * runs + run] = arm

    return part(report)
