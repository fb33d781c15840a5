"""lyon for arms that are numbers: it runs where a task has an interval or a box.

The space is divided into cells, at first four, or eight of three numbers. A cell has LyOn's index,
from the pulls of all its points, made more optimistic by its width w, the sum over its sides:
curves are taken to change by at most ``STEEP`` w within it. The policy pulls the middle of the best
cell. A cell whose confidence radius has become smaller than ``STEEP`` w is split in the middle of
its longest side, so cells are fine where pulls are many. If requests have types, each type has
cells of its own, and the price of a unit of cost is that of ``typed_lyapunov``.

Without limits this is the zooming algorithm of Kleinberg, Slivkins and Upfal (2008), on a tree:
for curves with that slope its regret is of the order B^((z + 1) / (z + 2)), up to logarithms, with
the zooming dimension z. It is not proved here that LyOn's queues keep this order under limits, and
steeper curves have no guarantee.

Letters as in ``typed_lyapunov``; a cell is known by its first row, which is its lowest corner.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, NamedTuple

from tightrope.policies.base import Constants, Setup, net_sum, net_width
from tightrope.policies.parts.by_type import best_row, count_types, find_root, type_of
from tightrope.policies.state import Array, State
from tightrope.policies.typed_lyapunov import (
    ARMS,
    EXPLORE,
    TypedLyapunov,
    TypedLyOn,
    V,
    clock_of,
    penalty_index,
    penalty_terms,
    reward_index,
    reward_terms,
)
from tightrope.problem import Task

TYPES, SIDES, POINTS = 7, 8, 9  # places in the constants, after those of LyOn with types
STEEP = 1.0  # the largest change of a rate over a whole side

advance_queues = TypedLyapunov.learn


class Partition(NamedTuple):
    """The queues, and the cells; fields as in ``typed_lyapunov.RowIndices``."""

    length: Annotated[Array, "M"]
    before: Annotated[Array, "R"]
    theta: Annotated[Array, 1]
    share: Annotated[Array, "K"]
    cost: Annotated[Array, "K"]  # of a cell, at its middle; 0 elsewhere
    gain: Annotated[Array, "K"]
    # Shapes that do not start with K: decisions among eligible arms do not move these entries.
    cell: Annotated[Array, 1, "K"]  # of every row
    last: Annotated[Array, 1, "K"]  # of a cell, its highest corner
    pulls: Annotated[Array, 1, "K"]  # of a cell, at a step
    totals: Annotated[Array, 1, "K", "C"]  # of a cell, at a step


@dataclass(frozen=True)
class ZoomingLyOn(TypedLyOn):
    """``lyon`` for numbers; see :class:`LyOn`."""

    spatial: ClassVar[bool] = True
    Scratch: ClassVar[type] = Partition
    learned: ClassVar[Mapping[str, str]] = {**TypedLyapunov.learned, "cell": "", "last": ""}

    def setup(self, task: Task, budget: float) -> Setup:
        """LyOn's constants for types; then the number of types, of sides and of their points."""
        setup, space = super().setup(task, budget), task.space
        assert space is not None
        grid = (float(task.types), float(space.side_count), float(space.points or 0))
        return replace(setup, constants=(*setup.constants, *grid))

    @staticmethod
    def begin(constants: Constants, state: State, scratch: Any) -> None:
        """Copy ``remaining``; divide the space of every type."""
        for at in range(len(state.remaining)):
            scratch.before[at] = state.remaining[at]
        count, sides = int(constants[ARMS]), int(constants[SIDES])
        for row in range(len(state.pulls)):
            scratch.cell[row] = row // count * count
        for first in range(0, len(state.pulls), count):
            scratch.last[first] = first + count - 1
            for _ in range(max(sides, 2)):
                for row in range(first + count - 1, first - 1, -1):  # not those that are new
                    if scratch.cell[row] == row:
                        _split(constants, scratch, row)

    @staticmethod
    def choose(constants: Constants, state: State, scratch: Any, words: Array) -> int:
        """The middle of the type's cell with the fewest pulls, if too few; else of the best one."""
        kind, count = type_of(constants[TYPES], words), int(constants[ARMS])
        _sum_up(state, scratch, 0, len(state.pulls))
        found, fewest = -1, constants[EXPLORE]
        for row in range(kind * count, (kind + 1) * count):
            if scratch.cell[row] == row:
                pulls = scratch.pulls[row]
                if scratch.totals[row * (2 + len(state.limits))] <= 0.0:
                    pulls = min(pulls, constants[EXPLORE] - 1.0)  # its index would be infinite
                if pulls < fewest:
                    found, fewest = _middle(constants, scratch, row), pulls
        if found >= 0:
            return found
        clock = clock_of(constants, max(count_types(state, scratch.share, count), 1.0))
        for row in range(len(state.pulls)):
            if scratch.cell[row] == row:
                _find_index(constants, state, scratch, row, clock)
        find_root(scratch.theta, scratch.share, scratch.cost, scratch.gain, count)
        return best_row(scratch.cost, scratch.gain, kind * count, count, scratch.theta[0])

    @staticmethod
    def learn(constants: Constants, state: State, scratch: Any, row: int) -> None:
        """Advance the queues; split the row's cell if it is known well enough."""
        advance_queues(constants, state, scratch, row)
        cell = int(scratch.cell[row])
        _sum_up(state, scratch, cell, int(scratch.last[cell]) + 1)
        first, pulls = cell * (2 + len(state.limits)), scratch.pulls[cell]
        if scratch.totals[first] > 0.0 and scratch.last[cell] > cell:
            cost, earned = scratch.totals[first], scratch.totals[first + 1]
            _, width = reward_terms(constants, pulls, cost, earned)
            radius = clock_of(constants, max(state.steps[0], 1.0)) * width
            if radius <= STEEP * _width(constants, scratch, cell, 1.0):
                _split(constants, scratch, cell)


# Cells.


def _points(constants: Constants, scratch: Any, cell: int, side: int) -> int:
    """How many points a cell has along a side."""
    points = int(constants[POINTS])
    step = points**side
    return (int(scratch.last[cell]) // step - cell // step) % points + 1  # type: ignore[no-any-return]


def _middle(constants: Constants, scratch: Any, cell: int) -> int:
    """The row in the middle of a cell."""
    row = cell
    for side in range(int(constants[SIDES])):
        row += _points(constants, scratch, cell, side) // 2 * int(constants[POINTS]) ** side
    return row


def _width(constants: Constants, scratch: Any, cell: int, ends: float) -> float:
    """The width of a cell: steps between points along its sides, with so many at the ends."""
    steps = 0.0
    for side in range(int(constants[SIDES])):
        count = _points(constants, scratch, cell, side)
        steps += count - 1.0 + ends if count > 1 else 0.0
    return steps / constants[POINTS]


def _split(constants: Constants, scratch: Any, cell: int) -> None:
    """Divide a cell of several points in the middle of its longest side."""
    most, step, points = 0, 1, int(constants[POINTS])
    for side in range(int(constants[SIDES])):
        count = _points(constants, scratch, cell, side)
        if count > most:
            most, step = count, points**side
    last, above = int(scratch.last[cell]), cell + most // 2 * step
    for row in range(above, last + 1):
        if scratch.cell[row] == cell and (row // step - cell // step) % points >= most // 2:
            scratch.cell[row] = above
    scratch.last[above], scratch.last[cell] = last, last - (most - most // 2) * step


def _sum_up(state: State, scratch: Any, first: int, last: int) -> None:
    """The pulls and outcomes of cells whose rows are all before ``last``, from ``first`` on."""
    channels = len(state.remaining) + 1
    for at in range(first, last):
        scratch.pulls[at] = scratch.cost[at] = scratch.gain[at] = 0.0
    for at in range(first * channels, last * channels):
        scratch.totals[at] = 0.0
    for row in range(first, last):
        if state.pulls[row] > 0.0:
            cell = int(scratch.cell[row])
            scratch.pulls[cell] += state.pulls[row]
            for channel in range(channels):
                scratch.totals[cell * channels + channel] += state.totals[row * channels + channel]


def _find_index(constants: Constants, state: State, scratch: Any, cell: int, clock: float) -> None:
    """A cell's mean cost and LyOn's index (eqn:ly-index), better by what may change within it."""
    limited, pulls = len(state.limits), scratch.pulls[cell]
    first = cell * (2 + limited)
    cost, earned = scratch.totals[first], scratch.totals[first + 1]
    if cost <= 0.0:
        return
    change = STEEP * _width(constants, scratch, cell, 0.0)
    level, width = reward_terms(constants, pulls, cost, earned)
    index = reward_index(constants, clock, 0.0, 0.0, level, width) - constants[V] * change
    for m in range(limited):
        base, limit = state.bases[m], state.limits[m]
        net = net_sum(base, limit, pulls, earned, scratch.totals[first + 2 + m])
        level, width = penalty_terms(constants, pulls, cost, net)
        low = penalty_index(constants, clock, level, width * net_width(base, limit))
        index += scratch.length[m] * (low - change)
    middle = _middle(constants, scratch, cell)
    scratch.cost[middle], scratch.gain[middle] = cost / pulls, -index
