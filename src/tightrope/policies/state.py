"""The state of a run as plain named arrays, and their layout in memory.

A *record* is a ``NamedTuple`` whose annotations give the shapes: ``Annotated[Array, "K", "C"]`` is
a flat array of K times C numbers in C order: ``totals[arm * channels + channel]``. Letters: K arms,
M penalties, C = 2 + M channels (cost, reward, penalties), R = 1 + M, D columns of a request's
features, J columns of a request and a number (``parts.joint``). A field may be a record itself.
:class:`State` is the state of every run; a policy that needs more declares a record of its own, its
``Scratch``.

One declaration serves plain Python (numpy arrays), compiled code (slices of one block of memory,
cut by the function that :func:`record_maker` generates) and GPUs (several kinds of memory).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from functools import cache
from typing import Annotated, Any, NamedTuple, get_args, get_origin, get_type_hints

import numpy as np

from tightrope.problem import Known

Array = Any  # of numbers: a numpy array in plain Python, a typed array in a kernel


class State(NamedTuple):
    """The state of a run, in normalised units.

    ``pulls``, ``totals``, ``squares`` and ``products`` are sums over the arm's pulls, without those
    that the policy has forgotten (see ``forgetting``). ``remaining`` is the remaining budget and
    the remaining allowance of each limit (c_m B minus the net penalty so far); it counts every
    pull.

    ``bases``: the base of each limit: 0 for a unit of cost, k > 0 for k pulls, -k for k units of
    reward. The *net* penalty Y - c (base - X), which is Y for a limit per unit of cost, stays below
    c per unit of cost exactly if the limit is kept. A penalty with a weight of at least 0 is that
    weight times the cost or reward (``sources``). ``products`` and ``net_squares`` are of Y - c
    base if the limit is per pull or reward, and of Y if it is per unit of cost.

    For a decision with pulls in ``flight``, these count with their expected outcomes (see
    ``parts.flight``).
    """

    pulls: Annotated[Array, "K"]
    totals: Annotated[Array, "K", "C"]  # sums of cost, reward and each penalty
    squares: Annotated[Array, "K", "C"]  # sums of their squares
    products: Annotated[Array, "K", "M"]  # sums of cost times (net) penalty
    remaining: Annotated[Array, "R"]  # budget left, then each allowance left
    steps: Annotated[Array, 1]  # pulls so far
    limits: Annotated[Array, "M"]  # c_m
    bases: Annotated[Array, "M"]  # the base of each limit
    net_squares: Annotated[Array, "K", "M"]  # sums of squared (net) penalties
    known: Annotated[Array, "K", "C"]  # the value of each known outcome, or -1
    weights: Annotated[Array, "K", "M"]  # of a penalty that is a share of another outcome, or -1
    sources: Annotated[Array, "M"]  # the channel of the share: 0 the cost, 1 the reward
    flight: Annotated[Array, "K"]  # of ``pulls``, those whose outcomes are not reported yet
    expected: Annotated[Array, "K", "C"]  # the declared guess of each mean outcome, or -1
    flying: Annotated[Array, 1]  # how many pulls are in flight: the sum of ``flight``
    stated: Annotated[Array, 1]  # 0 if nothing is ``known``, a share, or ``expected``


def start_state(state: State, budget: float, task: Known) -> None:
    """Fill in the remaining amounts, the limits and the known values at the start of a run.

    ``budget`` is normalised. A state may have one more penalty than the task, which is always 0.
    """
    limits, bases, stated = task.net_limits, task.net_bases, task.stated
    state.known[:], state.weights[:] = -1.0, -1.0
    state.expected[:] = -1.0
    if stated.knows_something and len(limits) == len(state.limits):
        state.known[:], state.weights[:] = stated.normal_known.ravel(), stated.weights.ravel()
    if stated.expected:
        means = stated.normal_expected
        guesses = state.expected.reshape(len(means), -1)
        guesses[:, : means.shape[1]] = np.where(np.isnan(means), -1.0, means)
    fields = (state.known, state.weights, state.expected)
    state.stated[0] = float(any((field >= 0.0).any() for field in fields))
    state.remaining[0] = budget
    for m in range(len(limits)):
        state.remaining[1 + m] = limits[m] * budget
        state.limits[m] = state.remaining[1 + m] / budget
        state.bases[m] = bases[m]
        state.sources[m] = 1.0 if task.limit_kinds[m].of == "reward" else 0.0


def rows(state: State) -> range:
    """The rows that a policy chooses among: one per arm while there is one kind of context.

    Statistics belong to a row. Later a row is ``type * K + arm``, and these are the rows of the
    context at hand.
    """
    return range(len(state.pulls))


class NoScratch(NamedTuple):
    """The scratch of a policy that needs none: one unused field, since a record must have one."""

    nothing: Annotated[Array, 1]


WAVES = 12  # of a number, see ``parts.joint``
WIDE = 8  # rows of columns have a multiple of so many numbers, which compiled loops need


def request_waves(columns: int) -> int:
    """The waves of a number that each column of a request is multiplied with."""
    return min(max(96 // max(columns - 1, 1), 2), 6)


def field_sizes(
    record: type, arms: int, penalties: int, columns: int = 0
) -> Iterator[tuple[str, int]]:
    """The name and size of every field, in order, with nested records flattened."""
    letters = {"K": arms, "M": penalties, "C": 2 + penalties, "R": 1 + penalties}
    letters["D"] = -(-columns // WIDE) * WIDE
    pairs = WAVES + request_waves(columns) * (columns - 1) if columns else 0
    letters["J"] = -(-pairs // WIDE) * WIDE
    for name, shape in record_fields(record):
        yield name, math.prod(letters[one] if isinstance(one, str) else one for one in shape)


def field_starts(record: type, arms: int, penalties: int, columns: int = 0) -> list[int]:
    """Where every field starts in a block of numbers, and where the last one ends."""
    starts = [0]
    for _, size in field_sizes(record, arms, penalties, columns):
        starts.append(starts[-1] + size)
    return starts


@cache
def record_maker(record: type) -> Callable[..., Any]:
    """A function ``make(block, starts)`` that cuts a block into a record; numba can compile it.

    Field i is ``block[starts[i] : starts[i + 1]]``.
    """
    names: dict[str, Any] = {"__name__": __name__}  # numba's disk cache looks up the module's name
    body = record_text(record, names, lambda at: f"block[starts[{at}] : starts[{at + 1}]]")
    exec(f"def make_{record.__name__}(block, starts):\n    return {body}\n", names)
    made: Callable[..., Any] = names[f"make_{record.__name__}"]
    return made


@cache
def record_fields(record: type) -> tuple[tuple[str, tuple[Any, ...]], ...]:
    """The name and shape of every field, in order, with nested records flattened."""
    found: list[tuple[str, tuple[Any, ...]]] = []
    for name, hint in get_type_hints(record, include_extras=True).items():
        if get_origin(hint) is Annotated:
            found.append((name, get_args(hint)[1:]))
        else:
            found += [(f"{name}.{inner}", shape) for inner, shape in record_fields(hint)]
    return tuple(found)


def record_text(record: type, names: dict[str, Any], field: Callable[[int], str]) -> str:
    """Source text of a call that makes the record; ``field(i)`` is the text of its i-th field.

    Adds the types that the text uses to ``names``.
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
