"""What a run remembers, as plain named arrays, and how they lie in memory.

A *record* is a ``NamedTuple`` whose annotations say the shapes: ``Annotated[Array, "K", "C"]`` has
K times C numbers, flat, the last letter running fastest: ``totals[arm * channels + channel]``.
Letters: K arms, M penalties, C = 2 + M channels (cost, reward, penalties), R = 1 + M. A field may
be a record itself. :class:`State` is what every run remembers; a policy declares a record of its
own for the rest, its ``Scratch``.

The same declaration serves numpy arrays in plain Python, slices of one block of memory in compiled
code (:func:`record_maker` writes the function that cuts them out), and a GPU's kinds of memory.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from functools import cache
from typing import Annotated, Any, NamedTuple, get_args, get_origin, get_type_hints

__all__ = [
    "Array",
    "NoScratch",
    "State",
    "field_sizes",
    "field_starts",
    "record_fields",
    "record_maker",
    "record_text",
]

Array = Any  # of numbers: numpy's in plain Python, the machine's in a kernel


class State(NamedTuple):
    """What every run remembers, in normalised units.

    ``pulls``, ``totals``, ``squares`` and ``products`` are what is remembered of each arm: all that
    it has shown, or less where a policy forgets (``forgetting``). ``remaining`` is a fact: what is
    left of the budget and of each limit's allowance, c_m B less the penalty so far.
    """

    pulls: Annotated[Array, "K"]
    totals: Annotated[Array, "K", "C"]  # of the cost, the reward, each penalty
    squares: Annotated[Array, "K", "C"]  # sums of squares of the same
    products: Annotated[Array, "K", "M"]  # sums of cost times penalty
    remaining: Annotated[Array, "R"]  # of the budget, then of each allowance
    steps: Annotated[Array, 1]  # pulls so far


class NoScratch(NamedTuple):
    """Nothing of its own; a record must have a field."""

    nothing: Annotated[Array, 1]


def field_sizes(record: type, arms: int, penalties: int) -> Iterator[tuple[str, int]]:
    """The name and the size of every field, in order; those of a record inside follow as one."""
    letters = {"K": arms, "M": penalties, "C": 2 + penalties, "R": 1 + penalties}
    for name, shape in record_fields(record):
        yield name, math.prod(letters[one] if isinstance(one, str) else one for one in shape)


def field_starts(record: type, arms: int, penalties: int) -> list[int]:
    """Where every field starts in a block of numbers, and where the last one ends."""
    starts = [0]
    for _, size in field_sizes(record, arms, penalties):
        starts.append(starts[-1] + size)
    return starts


@cache
def record_maker(record: type) -> Callable[..., Any]:
    """A function that makes the record of a block: ``make(block, starts)``, plain numpy or numba.

    Field i is ``block[starts[i] : starts[i + 1]]``.
    """
    names: dict[str, Any] = {"__name__": __name__}  # a kernel on the disk knows it by its module
    body = record_text(record, names, lambda at: f"block[starts[{at}] : starts[{at + 1}]]")
    exec(f"def make_{record.__name__}(block, starts):\n    return {body}\n", names)
    made: Callable[..., Any] = names[f"make_{record.__name__}"]
    return made


def record_fields(record: type) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Every field's name and shape, those of records inside in their place."""
    for name, hint in get_type_hints(record, include_extras=True).items():
        if get_origin(hint) is Annotated:
            yield name, get_args(hint)[1:]
        else:
            yield from ((f"{name}.{inner}", shape) for inner, shape in record_fields(hint))


def record_text(record: type, names: dict[str, Any], field: Callable[[int], str]) -> str:
    """The text of a call that makes a record; ``field(i)`` is that of its i-th field.

    The types that the text uses are put in ``names``.
    """
    numbers = itertools.count()

    def call(one: type) -> str:
        names[one.__name__] = one
        parts = (
            field(next(numbers)) if get_origin(hint) is Annotated else call(hint)
            for hint in get_type_hints(one, include_extras=True).values()
        )
        return f"{one.__name__}({', '.join(parts)})"

    return call(record)
