"""All that a run or a live campaign remembers, in a few arrays behind one address.

Letters: K arms, M penalties (at least 1: a problem without a limit gets an idle one), C = 1 + M
channels, N places. A *place* holds a copy of an arm's terms; the first K places are the arms
themselves, in order, and the sieve's levels own the rest (see ``sieve``).

A call from Python into compiled code pays for every array among its arguments, as much as for a
whole decision between two arms. So the arrays' addresses lie in a table, and the table's address
is all that is passed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from enum import IntEnum
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tightrope.compiled import array_behind, first_of
from tightrope.decision.spec import SIEVE, Spec
from tightrope.errors import InputError
from tightrope.policies.base import IndexPolicy, Setup

if TYPE_CHECKING:
    from tightrope.decision.envelope import Envelope

__all__ = ["Field", "Run", "Sizes", "Store", "constants_of", "first_terms", "view"]

BLOCK = 16  # places compared at once; every level starts and ends at a multiple of it
CACHE_LINE = 64  # bytes
LARGEST = 2**24  # an arm's number is exact in single precision up to here

# columns of ``links``: where a place's copy is one level down, whose copy it is itself, and
# its neighbours in the chain of arms with the same terms
BELOW, ABOVE, NEXT, BEFORE = range(4)
# columns of ``levels``: first place, how many it may hold, how many it holds, how often to go
# without a look for equal terms, and without the level
START, ROOM, COUNT, PATIENCE, REST = range(5)
# of ``counts``
ARMS, EXPLORE, STEP, DEPTH, LEVELS, SMALLEST, FACTOR, EVALUATED, BUILT, FAILED = range(10)


class Field(IntEnum):
    """The arrays, in the order of the table of addresses."""

    PLACES = 0  # [2 C + 1, N] level and width of every channel, then the arm's number
    TOTALS = 1  # [K, 2 + C] pulls, cost, reward, penalties
    RUN = 2  # the queues and what goes with them; ``Run`` numbers them
    CONSTANTS = 3  # the policy's numbers, in the precision at hand
    WIDE = 4  # the same in double precision
    COUNTS = 5  # see above
    BEST = 6  # [2, BLOCK] smallest index so far and whose it is
    LINKS = 7  # [N, 4]
    LEVELS = 8  # [L + 1, 5]
    WINDOWS = 9  # [L + 1, ...] where each level holds; see ``sieve``
    TABLE = 10  # the sieve's hash table
    SAMPLE = 11  # the sieve's sample of keys, or a block of them
    EDGES = 12  # [S] the envelope's segments
    FIRST = 13  # [S + 2] each segment's first candidate
    CANDIDATES = 14  # the envelope's arms
    LINES = 15  # [2, K] what each arm's index is made of, for the envelope
    BITS = 16  # PLACES as whole numbers
    ROUNDED = 17  # CONSTANTS in double precision


class Run(NamedTuple):
    """Where things are in ``run``."""

    queue: int  # for each penalty
    lost: int  # what the queues' rounding lost
    peak: int  # the largest queues so far
    outcome: int  # the last pull's cost, reward and penalties
    allowance: int  # for each penalty
    scale: int  # the largest cost, reward and penalties, in the user's units
    spent: int
    budget: int
    size: int

    @classmethod
    def of(cls, penalties: int) -> Run:
        """For M penalties."""
        sizes = (*[penalties] * 3, 2 + penalties, penalties, 2 + penalties, 1, 1)
        return cls(*(sum(sizes[:at]) for at in range(len(sizes) + 1)))


KINDS: Mapping[Field, type] = {
    Field.WIDE: np.float64,
    Field.ROUNDED: np.float64,
    Field.COUNTS: np.int64,
    Field.SAMPLE: np.float64,
    Field.LINKS: np.int32,
    Field.LEVELS: np.int64,
    Field.WINDOWS: np.float64,
    Field.TABLE: np.int32,
    Field.EDGES: np.float64,
    Field.FIRST: np.int32,
    Field.CANDIDATES: np.int32,
}  # all others are of the precision at hand
WHOLE: Mapping[type, type] = {np.float32: np.uint32, np.float64: np.uint64}
ROWS = (
    Field.PLACES,
    Field.BITS,
    Field.TOTALS,
    Field.BEST,
    Field.LINKS,
    Field.LEVELS,
    Field.WINDOWS,
    Field.LINES,
)


@cache
def view(spec: Spec, field: Field) -> Any:
    """For compiled code: a function from the table's address to one of the arrays."""
    whole = WHOLE[spec.dtype] if field is Field.BITS else spec.dtype
    return array_behind(int(field), KINDS.get(field, whole), field in ROWS)


@cache
def constants_of(spec: Spec, field: Field) -> Any:
    """A compiled function from the table's address to the policy's constants."""
    numbers, as_tuple = view(spec, field), first_of(spec.constants)

    def constants(address):
        return as_tuple(numbers(address))

    constants.__name__ = f"{field.name.lower()}_tuple"
    return spec.part(constants)


class Store:
    """The arrays on Python's side, and their address.

    ``scales`` [2 + M] are the largest outcomes in the units in which outcomes are told;
    ``budget`` is in units of the largest cost. ``sizes`` are the sieve's.
    """

    def __init__(
        self,
        spec: Spec,
        arms: int,
        setup: Setup,
        budget: float,
        scales: Sequence[float] = (),
        sizes: Sizes | None = None,
    ) -> None:
        if arms >= LARGEST:
            raise InputError(f"arms = {arms}: must be below {LARGEST}")
        self.spec, self.layout = spec, Run.of(spec.penalties)
        sizes = sizes or Sizes()
        rooms = sizes.rooms(arms) if spec.way == SIEVE else []
        count = sum(rooms, _whole_blocks(arms))
        number, channels, sieve = spec.dtype, spec.channels, spec.way == SIEVE
        self.places = _zeros((2 * channels + 1, count), number)
        self.totals = _zeros((arms, 2 + channels), number)
        self.run = _zeros((self.layout.size,), number)
        self.counts = _zeros((16,), np.int64)
        self.levels = _levels(arms, rooms)
        self._fields: list[npt.NDArray[Any]] = [
            self.places,
            self.totals,
            self.run,
            np.array((*setup.constants, 0.0), number),
            np.array((*setup.constants, 0.0), np.float64),
            self.counts,
            _zeros((2, BLOCK), number),
            _zeros((count if sieve else 1, 4), np.int32),
            self.levels,
            _windows(rooms, spec.penalties),
            _zeros((sizes.table(rooms),), np.int32),
            _zeros((SAMPLE,), np.float64),
            *_no_envelope(number),
            self.places,
            np.array((*setup.constants, 0.0), number).astype(np.float64),
        ]
        self._fill(setup, arms, budget, scales)
        self.counts[[LEVELS, SMALLEST, FACTOR]] = len(rooms), sizes.smallest, sizes.factor
        self._note_addresses()

    def _fill(self, setup: Setup, arms: int, budget: float, scales: Sequence[float]) -> None:
        layout, channels = self.layout, self.spec.channels
        terms = setup.terms
        if terms is None:
            spec = self.spec
            terms = first_terms(spec.policy, spec.penalties, spec.dtype, setup)
        flat = terms.reshape(-1, 2 * terms.shape[-2]).T
        self.places[: len(flat), :arms] = flat
        self.places[2 * channels, :arms] = np.arange(arms)
        end = layout.allowance + len(setup.allowance)
        self.run[layout.allowance : end] = setup.allowance
        self.run[layout.scale : layout.spent] = 1.0
        self.run[layout.scale : layout.scale + len(scales)] = scales
        self.run[layout.budget] = budget
        self.counts[[ARMS, EXPLORE]] = arms, setup.explore * arms

    def _note_addresses(self) -> None:
        self._table = np.array(
            [[field.ctypes.data, *(1, *field.shape)[-2:]] for field in self._fields], np.int64
        )
        self.address = int(self._table.ctypes.data)

    def use(self, envelope: Envelope) -> None:
        """Take the envelope that decisions are read from."""
        self._fields[Field.EDGES : Field.LINES + 1] = envelope
        self._note_addresses()

    def lines(self, arms: int) -> npt.NDArray[Any]:
        """Room for the envelope's lines [2, K]."""
        self._fields[Field.LINES] = _zeros((2, arms), self.spec.dtype)
        self._note_addresses()
        return self._fields[Field.LINES]

    def queues(self, penalties: int) -> npt.NDArray[Any]:
        """The queues [M], normalised."""
        return self.run[:penalties].copy()


class Sizes(NamedTuple):
    """How the sieve's levels shrink: by ``factor`` each, down to about ``smallest`` arms."""

    factor: int = 8
    smallest: int = 64

    def rooms(self, arms: int) -> list[int]:
        """How many places each level owns: twice what it aims at, since arms join later."""
        aims = []
        aim = arms
        while aim > self.smallest:
            aim = max(aim // self.factor, self.smallest)
            aims.append(aim)
        return [_whole_blocks(2 * aim + BLOCK) for aim in aims]

    def table(self, rooms: Sequence[int]) -> int:
        """The size of the hash table: a power of 2, at least twice the largest level."""
        return 1 << (2 * max(rooms, default=1) - 1).bit_length()


SAMPLE = 128  # keys that a level's threshold is guessed from


def first_terms(
    policy: type[IndexPolicy], penalties: int, dtype: type, setup: Setup
) -> npt.NDArray[np.float64]:
    """The terms [1, C, 2] of an arm that was never pulled.

    A policy that pulls every arm before it decides need not have any.
    """
    zero, constants = dtype(0), tuple(dtype(value) for value in setup.constants)
    with np.errstate(all="ignore"), suppress(ArithmeticError, ValueError):
        reward = policy.reward_terms(constants, zero, zero, zero)
        penalty = policy.penalty_terms(constants, zero, zero, zero)
        return np.array([[reward, *[penalty] * penalties]], np.float64)
    return np.zeros((1, 1 + penalties, 2))


def _levels(arms: int, rooms: Sequence[int]) -> npt.NDArray[np.int64]:
    levels = _zeros((len(rooms) + 1, 5), np.int64)
    levels[0, : COUNT + 1] = 0, _whole_blocks(arms), arms
    for at, room in enumerate(rooms):
        levels[at + 1, [START, ROOM]] = levels[at, START] + levels[at, ROOM], room
    return levels


def _windows(rooms: Sequence[int], penalties: int) -> npt.NDArray[np.float64]:
    """Nowhere yet; at first a level is to last as long as it would take to pull all its arms."""
    windows = _zeros((len(rooms) + 1, 5 + 5 * penalties), np.float64)
    life = np.array([1e15, *rooms])  # the first is that of all arms: no window is wider
    windows[:, 4] = life
    for m in range(penalties):
        windows[:, 8 + 5 * m : 10 + 5 * m] = 0.05 * life[:, np.newaxis]
    return windows


def _no_envelope(number: type) -> list[npt.NDArray[Any]]:
    return [np.zeros(1), np.zeros(1, np.int32), np.zeros(1, np.int32), np.zeros((1, 1), number)]


def _whole_blocks(count: int) -> int:
    return -(-count // BLOCK) * BLOCK


def _zeros(shape: tuple[int, ...], dtype: type) -> npt.NDArray[Any]:
    """Zeros that start on a cache line."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    raw = np.zeros(size + CACHE_LINE, np.uint8)
    start = -raw.ctypes.data % CACHE_LINE
    return raw[start : start + size].view(dtype).reshape(shape)
