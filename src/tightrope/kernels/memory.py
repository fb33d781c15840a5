"""A run's memory as the functions of a step see it: named parts of its block.

There are three forms with the same names: of a block's address, in compiled code; of a
``RunState``, in plain Python; and of a GPU thread's own arrays (:class:`Memory`).
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from tightrope.compiled.memory import Array, Fixed, Given, Number, RecordPart, Vector, memory_at
from tightrope.kernels.run_state import (
    PENALTIES,
    REMEMBERS,
    WORDS,
    Field,
    Run,
    RunState,
    kind_of,
)
from tightrope.kernels.spec import CHOICE, SEVERAL, Spec
from tightrope.policies.state import State


class Memory(NamedTuple):
    """The parts of a run's memory."""

    address: Any  # of the block; 0 if there is none
    penalties: Any  # M
    remembers: Any  # whether there is a ``State``
    random: Any  # random words per decision
    run: Any  # queues, cost, outcomes: see ``Run``
    book: Any  # [K, 1 + C] pulls, cost, reward, penalties of each row
    terms: Any  # [rows, N] level and width of every channel of each row of the book
    words: Any  # [8] the generators of outcomes and policy
    pair: Any  # [2] the policy's random words of a step
    state: Any  # a ``State``
    scratch: Any  # the policy's record
    history: Any  # the pulls in a window
    constants: Any  # in the kernel's precision
    wide: Any  # the same in double precision
    counts: Any  # see ``run_state``
    state_numbers: Any  # all of ``state``
    own_numbers: Any  # all of ``scratch``
    state_rows: Any  # which of ``state_numbers`` belong to a row
    own_rows: Any  # the same of ``own_numbers``
    carried: Any  # which of ``own_numbers`` keep the changes of ``choose``


class TermTable(NamedTuple):
    """The scratch of an index policy over a ``State``."""

    terms: Any  # the arms' terms, see ``Memory``


_SHARED = {
    "words": Vector(Field.WORDS, np.uint32),
    "counts": Vector(Field.COUNTS, np.int64),
    "state_numbers": Vector(Field.STATE, np.float64),
    "own_numbers": Vector(Field.SCRATCH, np.float64),
    "state_rows": Vector(Field.STATE_ROWS, np.int64),
    "own_rows": Vector(Field.OWN_ROWS, np.int64),
    "carried": Vector(Field.CARRIED, np.int64),
    "history": Vector(Field.HISTORY, np.float64),
}


# The fields that the argmin reads for an index policy without a ``State``.
_ARGMIN = (
    *(Field.PLACES, Field.BITS, Field.BEST, Field.LINKS, Field.LEVELS, Field.WINDOWS),
    *(Field.TABLE, Field.SAMPLE),
)


@cache
def memory_of(spec: Spec) -> Any:
    """A compiled function from a block's address to its memory, for a policy's own functions.

    A user's own functions get numba arrays, which support more operations than vectors.
    """
    number, outside, policy = spec.dtype, bool(spec.constants), spec.policy
    own_parts: dict[str, Any] = {}
    if spec.method == CHOICE:
        own = RecordPart(Field.SCRATCH, Field.OWN_STARTS, policy.Scratch, arrays=outside)
        own_parts = {"scratch": own}
    if not spec.remembers:
        own_parts = {one.name.lower(): _array(spec, one) for one in _ARGMIN}
    known = spec.penalties != SEVERAL
    return memory_at(
        {
            "penalties": Fixed(spec.penalties) if known else Number(Field.COUNTS, PENALTIES),
            "remembers": Fixed(int(spec.remembers)),
            "random": Fixed(spec.words),
            "run": RecordPart(Field.RUN, Field.RUN_STARTS, Run, number),
            "book": Vector(Field.BOOK, number),
            "terms": Vector(Field.TERMS, number),
            "pair": (Array if outside else Vector)(Field.PAIR, np.int64),
            "state": RecordPart(Field.STATE, Field.STARTS, State, arrays=outside),
            "constants": _constants(spec, Field.CONSTANTS),
            "wide": _constants(spec, Field.WIDE),
            "rounded": _constants(spec, Field.ROUNDED),
            **own_parts,
            **_SHARED,
        }
    )


def _array(spec: Spec, field: Field) -> Array:
    return Array(field, kind_of(spec, field), rows=field.rows)


def _constants(spec: Spec, field: Field) -> Vector | Array:
    """How compiled code sees the policy's constants: as a tuple in a user's own policy."""
    if spec.constants:
        return Array(field, kind_of(spec, field), spec.constants)
    return Vector(field, kind_of(spec, field))


@cache
def of_any_policy() -> Any:
    """The same for loops that serve every policy, in double precision: all is read at run time.

    Besides the block's address it takes those of the policy's functions, see ``native``.
    """
    return memory_at(
        {
            "choose_at": Given(0),
            "learn_at": Given(1),
            "forget_at": Given(2),
            "penalties": Number(Field.COUNTS, PENALTIES),
            "remembers": Number(Field.COUNTS, REMEMBERS),
            "random": Number(Field.COUNTS, WORDS),
            "run": RecordPart(Field.RUN, Field.RUN_STARTS, Run),
            "book": Vector(Field.BOOK, np.float64),
            "terms": Vector(Field.TERMS, np.float64),
            "pair": Vector(Field.PAIR, np.int64),
            "state": RecordPart(Field.STATE, Field.STARTS, State),
            **_SHARED,
        }
    )


def plain_memory(state: RunState) -> Memory:
    """The memory of a state in plain Python."""
    spec, wide = state.spec, state.constants
    return Memory(
        address=state,  # what plain functions use instead of an address
        penalties=state.penalties,
        remembers=spec.remembers,
        random=spec.words,
        run=state.run,
        book=state["book"],
        terms=state["terms"],
        words=state["words"],
        pair=state["pair"],
        state=state.record if spec.remembers else None,
        scratch=state.scratch if spec.method == CHOICE else TermTable(state["terms"]),
        history=state["history"],
        constants=wide,
        wide=wide,
        counts=state["counts"],
        state_numbers=state["state"],
        own_numbers=state["scratch"],
        state_rows=state["state_rows"],
        own_rows=state["own_rows"],
        carried=state["carried"],
    )
