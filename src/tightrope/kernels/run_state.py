"""The memory of one run or one live campaign: named arrays in one block.

Statistics belong to a *row*: an arm, while there is one kind of context. Letters: K rows, M
penalties (at least 1: a problem without limits gets one that is always 0), C = 1 + M channels
besides the cost, N places. A *place* holds a copy of an arm's terms; the first K
places are the arms themselves, in order, and the others belong to the sieve's levels (see
``argmin.sieve``).

The block starts with a table of the arrays' offsets from the block's start. So the block can be
copied, compared, saved and restored unchanged, and compiled code needs only its address.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tightrope.errors import InputError
from tightrope.kernels.aligned import aligned_copy, aligned_zeros, whole_lines
from tightrope.kernels.spec import CHOICE, SIEVE, Spec
from tightrope.policies.base import IndexPolicy, Setup, limits_of
from tightrope.policies.choice import WORDS as POLICY_WORDS
from tightrope.policies.choice import carried_fields
from tightrope.policies.faults import failed
from tightrope.policies.parts.watch import BLOCK as BLOCK_LENGTH
from tightrope.policies.state import (
    Array,
    State,
    field_starts,
    record_fields,
    record_maker,
    start_state,
)

if TYPE_CHECKING:
    from tightrope.problem import Known

BLOCK = 16  # places compared at once; every level starts and ends at a multiple of this
LARGEST = 2**24  # arm numbers below this are exact in single precision

# columns of ``links``: the place of its copy one level down, the place that it is a copy of, and
# its neighbours in the chain of arms with the same terms
BELOW, ABOVE, NEXT, BEFORE = range(4)
# columns of ``levels``: first place, capacity, number of places used, how many builds to skip
# looking for equal terms, and how many decisions to skip the level
START, ROOM, COUNT, PATIENCE, REST = range(5)
# entries of ``counts``: arms, pulls to explore, pulls reported, decisions asked for, phase of the
# problem; then the sieve's; then the number of a nonexistent arm that a policy chose, and 1 if so;
# the penalties of the run; random words per decision; whether there is a ``State``; in a simulation
# the columns of a request's features, and where the policy's record has them
ARMS, EXPLORE, STEP, ASKED, PHASE, DEPTH, LEVELS, SMALLEST, FACTOR, EVALUATED, BUILT, FAILED = (
    range(12)
)
WRONG_ARM, WRONG, PENALTIES, WORDS, REMEMBERS, COLUMNS, CONTEXT = range(12, 19)
COUNTS = 24  # entries


class Field(IntEnum):
    """The arrays: the place in the table, the type of the numbers, whether there are rows.

    Without a type they have the kernel's precision. Places 12 to 15 are unused.
    """

    kind: type | None
    rows: bool

    def __new__(cls, place: int, kind: type | None = None, rows: bool = False) -> Field:
        """A field whose value is its place."""
        field = int.__new__(cls, place)
        field._value_, field.kind, field.rows = place, kind, rows
        return field

    PLACES = 0, None, True  # [2 C + 1, N] level and width of every channel, then the arm's number
    TOTALS = 1, None, True  # [K, 2 + C] pulls, cost, reward, penalties, of all pulls
    RUN = 2  # the queues and other numbers of the run, in the order of ``Run``
    CONSTANTS = 3  # the policy's constants, in the kernel's precision
    WIDE = 4, np.float64  # the same in double precision
    COUNTS = 5, np.int64  # see above
    BEST = 6, None, True  # [2, BLOCK] smallest index so far, and its arm
    LINKS = 7, np.int32, True  # [N, 4]
    LEVELS = 8, np.int64, True  # [L + 1, 5]
    WINDOWS = 9, np.float64, True  # [L + 1, ...] where each level is valid; see ``argmin.sieve``
    TABLE = 10, np.int32  # the sieve's hash table
    SAMPLE = 11, np.float64  # the sieve's sample of keys, or a block of them
    ROUNDED = 16, np.float64  # CONSTANTS in double precision
    WORDS = 17, np.uint32  # [8] the generators of outcomes and policy
    STATE = 18, np.float64  # the ``State`` of a policy that chooses or forgets
    SCRATCH = 19, np.float64  # the policy's own record
    STARTS = 20, np.int64  # the offsets of STATE's fields
    OWN_STARTS = 21, np.int64  # the offsets of SCRATCH's fields
    HISTORY = 22, np.float64  # [W, 3 + M] the pulls in a window, or the numbers of ``parts.watch``
    PAIR = 23, np.int64  # [2] the policy's random words of a step
    BITS = 24, None, True  # the bits of PLACES as integers
    TERMS = 25  # PLACES, flat
    BOOK = 26  # TOTALS, flat
    RUN_STARTS = 27, np.int64  # the offsets of RUN's fields
    STATE_ROWS = (
        28,
        np.int64,
    )  # start and size of the numbers of row 0, for each field of STATE that has rows
    OWN_ROWS = 29, np.int64  # the same of SCRATCH
    CARRIED = 30, np.int64  # start, size, and size of a row or 0, of each carried field of SCRATCH


ENTRIES = 1 + max(Field)  # of the table


class Run(NamedTuple):
    """The numbers of a run; policies see only the queues. A record, see ``State``."""

    queues: Annotated[Array, 3, "M"]  # the queues, their rounding errors, the largest so far
    spent: Annotated[Array, 1]
    outcome: Annotated[Array, "C"]  # the last pull's cost, reward and penalties
    allowance: Annotated[Array, "M"]
    scale: Annotated[Array, "C"]  # the largest cost, reward and penalties, in the user's units
    budget: Annotated[Array, 1]
    fade: Annotated[Array, 1]
    limits: Annotated[Array, "M"]  # c_m
    bases: Annotated[Array, "M"]  # the base of each limit, see ``State``
    hard: Annotated[Array, "M"]  # 1 for a limit that ends the run
    told: Annotated[Array, "M"]  # several penalties of a live pull, in the user's units


WHOLE: Mapping[type, type] = {np.float32: np.uint32, np.float64: np.uint64}
SAME_MEMORY = {Field.BITS: Field.PLACES, Field.TERMS: Field.PLACES, Field.BOOK: Field.TOTALS}


def kind_of(spec: Spec, field: Field) -> type:
    """The type of an array's numbers."""
    return field.kind or (WHOLE[spec.dtype] if field is Field.BITS else spec.dtype)


class RunState:
    """The block as Python sees it; ``state["totals"]`` is a view of one of its arrays."""

    def __init__(self, spec: Spec, block: npt.NDArray[np.uint8]) -> None:
        self.spec, self.block = spec, block
        table = block[: 8 * 3 * ENTRIES].view(np.int64).reshape(-1, 3).tolist()
        self._arrays = {field.name.lower(): _array_in(block, spec, field, table) for field in Field}
        self.run: Run = record_maker(Run)(self["run"], self["run_starts"])

    @classmethod
    def new(
        cls,
        spec: Spec,
        arms: int,
        setup: Setup,
        budget: float,
        known: Known,
        *,
        last: float | None = None,
        scales: Sequence[float] = (),
        sizes: Sizes | None = None,
    ) -> RunState:
        """The state at the start of a run.

        ``budget`` is normalised; ``known`` is the task, at its budget; ``last`` is the largest cost
        at which the run continues, by default the budget. ``scales`` [2 + M] are the largest
        outcomes in the units in which outcomes are reported. ``sizes`` are for the sieve.
        """
        if arms >= LARGEST:
            raise InputError(f"arms = {arms}: must be below {LARGEST}")
        penalties, limited = max(known.penalty_count, 1), known.penalty_count
        limited = limited if spec.method == CHOICE else penalties
        shapes = _shapes(spec, arms, penalties, limited, setup, sizes or Sizes(), known)
        block = _block(spec, shapes)
        for field, values in _starts(spec, arms, penalties, limited, known).items():
            _array_in(block, spec, field)[:] = values
        state = cls(spec, block)
        state._fill(setup, arms, budget if last is None else last, scales, known)
        state._fill_sieve(arms, sizes or Sizes())
        if spec.remembers:
            state["history"][:] = setup.history(arms, limited)
            start_state(state.record, budget, known)
        if spec.method == CHOICE:
            own: Any = spec.policy
            try:
                own.begin(state.constants, state.record, state.scratch)
            except Exception as error:
                raise failed(own, error, 0) from error
            state.run.limits[:limited] = state.record.limits
        return state

    @property
    def penalties(self) -> int:
        """M, the number of penalties of the run."""
        return len(self.run.allowance)

    @property
    def limited(self) -> int:
        """The number of limits in the ``State``."""
        return len(self.record.limits)

    @property
    def forgets(self) -> bool:
        """Whether the policy forgets or discounts old pulls."""
        return bool(self.run.fade[0] != 1.0) or len(self["history"]) > 0

    @property
    def constants(self) -> tuple[float, ...]:
        """The policy's constants for plain Python; built-in policies get one more, a 0."""
        wide: list[float] = self["wide"].tolist()
        return tuple(wide[:-1] if self.spec.outside else wide)

    @property
    def setup(self) -> Setup:
        """The policy's setup, as far as decisions need it."""
        spec, run, fade = self.spec, self.run, float(self.run.fade[0])
        learns = getattr(spec.policy, "learns", True)
        arms, rows = len(self["totals"]), 2 * (1 + self.penalties)
        terms = (
            None
            if learns or not spec.indexed
            else self["places"][:rows, :arms].T.reshape(arms, -1, 2)
        )
        limited = self.limited if spec.remembers else self.penalties
        return Setup(
            constants=tuple(self["wide"][:-1].tolist()),
            allowance=tuple(run.allowance[:limited].tolist()),
            explore=int(self["counts"][EXPLORE]) // arms,
            terms=terms,
            window=len(self["history"]) // (3 + limited) if fade > 0.0 else 0,
            fade=max(fade, 0.0) or 1.0,
            watch=max(-fade, 0.0),
            watch_block=int(self["history"][BLOCK_LENGTH]) if fade < 0.0 else 1,
        )

    @property
    def record(self) -> State:
        """The ``State`` of a policy that chooses or forgets."""
        made: State = record_maker(State)(self["state"], self["starts"])
        return made

    @property
    def used_up(self) -> tuple[int, ...]:
        """The numbers, from 0, of the hard limits that are exceeded."""
        if not self.run.hard.any():
            return ()
        left = self.record.remaining[1:].tolist()
        return tuple(m for m, hard in enumerate(self.run.hard) if hard and left[m] < 0.0)

    @property
    def scratch(self) -> Any:
        """The scratch of a choice policy."""
        own: Any = self.spec.policy
        return record_maker(own.Scratch)(self["scratch"], self["own_starts"])

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        return self._arrays[name]

    def copy(self) -> RunState:
        """A copy in its own memory."""
        return RunState(self.spec, aligned_copy(self.block))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, RunState)
            and self.spec == other.spec
            and np.array_equal(self.block, other.block)
        )

    __hash__ = None  # type: ignore[assignment]

    def _fill(
        self, setup: Setup, arms: int, budget: float, scales: Sequence[float], known: Known
    ) -> None:
        spec, run = self.spec, self.run
        if spec.indexed:
            flat = first_terms(spec.policy, self.penalties, spec.dtype, setup)
            self["places"][: flat.shape[1], :arms] = flat.T
            self["places"][2 * (1 + self.penalties), :arms] = np.arange(arms)
        for name in ("constants", "wide", "rounded"):
            self[name][:-1] = setup.constants
        self["rounded"][:] = self["constants"]
        run.allowance[: len(setup.allowance)] = setup.allowance
        run.scale[:], run.scale[: len(scales)] = 1.0, scales
        run.budget[0], run.fade[0] = budget, setup.forgetting
        run.limits[: known.penalty_count] = limits_of(known)
        run.bases[: known.penalty_count] = known.net_bases
        run.hard[: len(known.hard)] = known.hard
        numbers = {ARMS: arms, EXPLORE: setup.explore * arms, PENALTIES: self.penalties}
        numbers |= {WORDS: spec.words, REMEMBERS: spec.remembers}
        self["counts"][list(numbers)] = list(numbers.values())

    def _fill_sieve(self, arms: int, sizes: Sizes) -> None:
        if self.spec.method != SIEVE:
            return
        rooms = sizes.rooms(arms)
        levels, windows = self["levels"], self["windows"]
        levels[0, : COUNT + 1] = 0, _whole_blocks(arms), arms
        for at, room in enumerate(rooms):
            levels[at + 1, [START, ROOM]] = levels[at, START] + levels[at, ROOM], room
        # No level is valid yet; at first a level should last for as many pulls as it has arms.
        life = np.array([1e15, *rooms])  # level 0, all arms, has the widest window
        windows[:, 4] = life
        for m in range(self.penalties):
            windows[:, 8 + 5 * m : 10 + 5 * m] = 0.05 * life[:, np.newaxis]
        self["counts"][[LEVELS, SMALLEST, FACTOR]] = len(rooms), sizes.smallest, sizes.factor


def _shapes(
    spec: Spec,
    arms: int,
    penalties: int,
    limited: int,
    setup: Setup,
    sizes: Sizes,
    known: Known,
) -> dict[Field, tuple[int, int]]:
    """Rows and columns of the fields that are used; those of one dimension have one row.

    ``limited``: the number of limits in the ``State``.
    """
    rooms = sizes.rooms(arms) if spec.method == SIEVE else []
    places, constants = sum(rooms, _whole_blocks(arms)), len(setup.constants) + 1
    shapes = {
        Field.TOTALS: (arms, 3 + penalties),
        Field.RUN: (1, field_starts(Run, arms, penalties)[-1]),
        Field.CONSTANTS: (1, constants),
        Field.WIDE: (1, constants),
        Field.ROUNDED: (1, constants),
        Field.COUNTS: (1, COUNTS),
        Field.WORDS: (1, 8),
        Field.PAIR: (1, POLICY_WORDS + (known.types > 0)),
    }
    if spec.indexed:
        shapes |= {Field.PLACES: (2 * (1 + penalties) + 1, places), Field.BEST: (2, BLOCK)}
    if rooms or spec.method == SIEVE:
        shapes |= {
            Field.LINKS: (places, 4),
            Field.LEVELS: (len(rooms) + 1, 5),
            Field.WINDOWS: (len(rooms) + 1, 5 + 5 * penalties),
            Field.TABLE: (1, sizes.table(rooms)),
            Field.SAMPLE: (1, SAMPLE),
        }
    if spec.remembers:
        shapes[Field.STATE] = (1, field_starts(State, arms, limited)[-1])
        shapes[Field.HISTORY] = (1, len(setup.history(arms, limited)))
    if spec.method == CHOICE:
        shapes[Field.SCRATCH] = (
            1,
            field_starts(_scratch(spec), arms, limited, known.feature_columns)[-1],
        )
    listed = _starts(spec, arms, penalties, limited, known)
    return shapes | {field: (1, len(values)) for field, values in listed.items()}


def _starts(
    spec: Spec, arms: int, penalties: int, limited: int, known: Known
) -> dict[Field, list[int]]:
    """The offsets of the records' fields, and which of them have rows or are carried."""
    found = {Field.RUN_STARTS: field_starts(Run, arms, penalties)}
    if spec.remembers:
        starts = field_starts(State, arms, limited)
        found |= {Field.STARTS: starts}
        found |= {Field.STATE_ROWS: _with_rows(State, arms, starts, ("flight",))}
    if spec.method == CHOICE:
        starts = field_starts(_scratch(spec), arms, limited, known.feature_columns)
        found |= {Field.OWN_STARTS: starts}
        found |= {Field.OWN_ROWS: _with_rows(_scratch(spec), arms, starts)}
        found |= {Field.CARRIED: _carried(spec.policy, arms, starts)}
    return found


def _scratch(spec: Spec) -> type:
    own: Any = spec.policy
    kind: type = own.Scratch
    return kind


def _with_rows(
    record: type, arms: int, starts: Sequence[int], but: Sequence[str] = ()
) -> list[int]:
    """Start and size of row 0 of every field that has rows."""
    found = []
    for at, (name, shape) in enumerate(record_fields(record)):
        if shape[0] == "K" and name not in but:
            found += [starts[at], (starts[at + 1] - starts[at]) // arms]
    return found


def _carried(policy: Any, arms: int, starts: Sequence[int]) -> list[int]:
    """Start, size, and size of a row or 0, of every field that ``choose`` changes permanently."""
    found, carried = [], carried_fields(policy)
    for at, (name, shape) in enumerate(record_fields(policy.Scratch)):
        if name in carried:
            size = starts[at + 1] - starts[at]
            found += [starts[at], size, size // arms if shape[0] == "K" else 0]
    return found


def _array_in(
    block: npt.NDArray[np.uint8], spec: Spec, field: Field, table: Any = None
) -> npt.NDArray[Any]:
    """A field's array of a block; raises if it is not inside: compiled code does not check."""
    if table is None:
        table = block[: 8 * 3 * ENTRIES].view(np.int64).reshape(-1, 3)
    (offset, rows, columns), kind = table[field], np.dtype(kind_of(spec, field))
    end = offset + rows * columns * kind.itemsize
    if min(offset, rows, columns) < 0 or end > len(block):
        raise ValueError("its state has parts beyond its end")
    array = block[offset:end].view(kind)
    return array.reshape(rows, columns) if field.rows else array


def _block(spec: Spec, shapes: Mapping[Field, tuple[int, int]]) -> npt.NDArray[np.uint8]:
    """A block of zeros that begins with the table of offsets."""
    table = np.zeros((ENTRIES, 3), np.int64)
    end = whole_lines(table.nbytes)
    for field, (rows, columns) in shapes.items():
        table[field] = end, rows, columns
        end += whole_lines(rows * columns * np.dtype(kind_of(spec, field)).itemsize)
    for field, other in SAME_MEMORY.items():
        offset, rows, columns = table[other]
        table[field] = (offset, rows, columns) if field.rows else (offset, 1, rows * columns)
    block = aligned_zeros((end,), np.uint8)
    block[: table.nbytes] = table.reshape(-1).view(np.uint8)
    return block


class Sizes(NamedTuple):
    """How the sieve's levels shrink: by ``factor`` each, down to about ``smallest`` arms."""

    factor: int = 8
    smallest: int = 64

    def rooms(self, arms: int) -> list[int]:
        """Each level's capacity in places: twice its target, since arms are added later."""
        aims = []
        aim = arms
        while aim > self.smallest:
            aim = max(aim // self.factor, self.smallest)
            aims.append(aim)
        return [_whole_blocks(2 * aim + BLOCK) for aim in aims]

    def table(self, rooms: Sequence[int]) -> int:
        """The size of the hash table: a power of 2, at least twice the largest level."""
        return 1 << (2 * max(rooms, default=1) - 1).bit_length()


SAMPLE = 128  # keys from which a level's threshold is estimated


def first_terms(
    policy: type[IndexPolicy], penalties: int, dtype: type, setup: Setup
) -> npt.NDArray[np.float64]:
    """The initial terms: [K, rows] if they are known, or [1, rows], the same for every arm.

    A policy that first explores every arm needs no initial terms.
    """
    if setup.terms is not None:
        known = np.asarray(setup.terms, np.float64)
        return known.reshape(len(known), -1)
    zero, constants = dtype(0), tuple(dtype(value) for value in setup.constants)
    with np.errstate(all="ignore"):
        try:
            reward = policy.reward_terms(constants, zero, zero, zero)
            penalty = policy.penalty_terms(constants, zero, zero, zero)
            return np.array([[*reward, *penalty * penalties]], np.float64)
        except (ArithmeticError, ValueError):
            return np.zeros((1, 2 * (1 + penalties)))
        except Exception as error:
            raise failed(policy, error) from error


def _whole_blocks(count: int) -> int:
    return -(-count // BLOCK) * BLOCK
