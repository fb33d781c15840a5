"""lyon for arms that are numbers: it runs where a task has an interval.

The interval is divided into cells, at first ``CELLS`` of them. A cell has LyOn's index, from the
pulls of all its points, made more optimistic by its width w: curves are taken to change by at most
``STEEP`` w within it. The policy pulls the middle of the best cell. A cell whose confidence radius
has become smaller than ``STEEP`` w is split in the middle, so cells are fine where pulls are many.

Without limits this is the zooming algorithm of Kleinberg, Slivkins and Upfal (2008), on a tree:
for curves with that slope its regret is of the order B^((z + 1) / (z + 2)), up to logarithms, with
the zooming dimension z. It is not proved here that LyOn's queues keep this order under limits, and
steeper curves have no guarantee.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

from tightrope.policies.base import Constants, Policy, net_sum, net_width
from tightrope.policies.state import Array, State
from tightrope.policies.typed_lyapunov import (
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
from tightrope.problem import Known

__all__ = ["Partition", "ZoomingLyOn"]

CELLS = 4  # at the start
STEEP = 1.0  # the largest change of a rate over the whole interval

advance_queues = TypedLyapunov.learn


class Partition(NamedTuple):
    """The queues, and the cells of the interval."""

    length: Annotated[Array, "M"]  # of the queues
    before: Annotated[Array, "R"]  # the state's ``remaining`` before the last pull
    # After the last point of the cell that starts at a point, or 0. The shape does not start with
    # K, so a decision among eligible arms does not move its entries to other arms.
    end: Annotated[Array, 1, "K"]


@dataclass(frozen=True)
class ZoomingLyOn(TypedLyOn):
    """``lyon`` for numbers; see :class:`LyOn`."""

    contextual: ClassVar[bool] = False
    spatial: ClassVar[bool] = True
    Scratch: ClassVar[type] = Partition
    carried: ClassVar[tuple[str, ...]] = ()
    learned: ClassVar[Mapping[str, str]] = {**TypedLyapunov.learned, "end": ""}

    def for_task(self, known: Known) -> Policy:
        """Itself."""
        return self

    @staticmethod
    def begin(constants: Constants, state: State, scratch: Any) -> None:
        """Copy ``remaining``; divide the interval."""
        for at in range(len(state.remaining)):
            scratch.before[at] = state.remaining[at]
        count = len(state.pulls)
        for cell in range(CELLS):
            scratch.end[cell * count // CELLS] = (cell + 1) * count // CELLS

    @staticmethod
    def choose(constants: Constants, state: State, scratch: Any, words: Array) -> int:
        """The middle of the cell with the fewest pulls, if too few; else of the best cell."""
        clock = clock_of(constants, max(state.steps[0], 1.0))
        found, best, fewest, first = -1, 0.0, constants[EXPLORE], 0
        while first < len(state.pulls):
            end = int(scratch.end[first])
            pulls, cost, _ = _sums(state, first, end)
            if cost <= 0.0:
                pulls = min(pulls, constants[EXPLORE] - 1.0)  # its index would be infinite
            if pulls < fewest:
                found, fewest = (first + end) // 2, pulls
            elif fewest == constants[EXPLORE]:
                index = _index(constants, state, scratch, first, end, clock)
                if found < 0 or index < best:
                    found, best = (first + end) // 2, index
            first = end
        return found

    @staticmethod
    def learn(constants: Constants, state: State, scratch: Any, row: int) -> None:
        """Advance the queues; split the row's cell if it is known well enough."""
        advance_queues(constants, state, scratch, row)
        first, end = 0, int(scratch.end[0])
        while end <= row:
            first, end = end, int(scratch.end[end])
        pulls, cost, earned = _sums(state, first, end)
        if cost > 0.0 and end - first > 1:
            _, width = reward_terms(constants, pulls, cost, earned)
            radius = clock_of(constants, max(state.steps[0], 1.0)) * width
            if radius <= STEEP * (end - first) / len(state.pulls):
                middle = (first + end) // 2
                scratch.end[first], scratch.end[middle] = middle, end


def _sums(state: State, first: int, end: int) -> tuple[float, float, float]:
    """Pulls, cost and reward of a cell."""
    channels = len(state.remaining) + 1
    pulls = cost = earned = 0.0
    for row in range(first, end):
        pulls += state.pulls[row]
        cost += state.totals[row * channels]
        earned += state.totals[row * channels + 1]
    return pulls, cost, earned


def _index(
    constants: Constants, state: State, scratch: Any, first: int, end: int, clock: float
) -> float:
    """LyOn's index of a cell (eqn:ly-index), lower by what its curves may change within it."""
    pulls, cost, earned = _sums(state, first, end)
    change = STEEP * (end - first - 1.0) / len(state.pulls)
    level, width = reward_terms(constants, pulls, cost, earned)
    index = reward_index(constants, clock, 0.0, 0.0, level, width) - constants[V] * change
    channels = len(state.remaining) + 1
    for m in range(len(state.limits)):
        base, limit, penalty = state.bases[m], state.limits[m], 0.0
        for row in range(first, end):
            penalty += state.totals[row * channels + 2 + m]
        net = net_sum(base, limit, pulls, earned, penalty)
        level, width = penalty_terms(constants, pulls, cost, net)
        low = penalty_index(constants, clock, level, width * net_width(base, limit))
        index += scratch.length[m] * (low - change)
    return index
