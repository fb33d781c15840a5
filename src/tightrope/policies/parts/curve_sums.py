"""The reports of a point of a space, summed: what ``splines`` reads of the state.

With ``step``, the sums of a point are over the rows ``row``, ``row + step``, ...: over all types.
A penalty is *net*, see ``State.bases``.
"""

from __future__ import annotations

from tightrope.policies.base import net_penalty
from tightrope.policies.state import State


def pulls_at(state: State, row: int, step: int) -> float:
    """The reports of a point."""
    pulls = 0.0
    for one in range(row, len(state.pulls), step):
        pulls += state.pulls[one]
    return pulls


def total_at(state: State, row: int, channel: int, limited: int, step: int) -> float:
    """The sum of a point's costs, rewards or net penalties."""
    total, base, limit = 0.0, 0.0, 0.0
    if channel >= 2:
        base, limit = state.bases[channel - 2], state.limits[channel - 2]
    for one in range(row, len(state.pulls), step):
        first = one * (2 + limited)
        value = state.totals[first + channel]
        if base != 0.0:
            cost, reward = state.totals[first], state.totals[first + 1]
            value = net_penalty(base, limit, state.pulls[one], cost, reward, value)
        total += value
    return total


def square_at(state: State, row: int, channel: int, limited: int, step: int) -> float:
    """The sum of their squares."""
    total = 0.0
    for one in range(row, len(state.pulls), step):
        if channel < 2:
            total += state.squares[one * (2 + limited) + channel]
        else:
            total += net_square(state, one, channel - 2, limited, 0.0)
    return total


def net_square(state: State, row: int, m: int, limited: int, rate: float) -> float:
    """The sum of (net penalty - rate X)^2."""
    at = row * limited + m
    slope = rate if state.bases[m] == 0.0 else rate - state.limits[m]
    found = state.net_squares[at] - 2.0 * slope * state.products[at]
    return found + slope * slope * state.squares[row * (2 + limited)]  # type: ignore[no-any-return]


def value_known(state: State, row: int, channel: int, limited: int) -> bool:
    """Whether the mean of a channel is known without reports."""
    if state.stated[0] == 0.0:
        return False
    first = row * (2 + limited)
    if channel < 2:
        return state.known[first + channel] >= 0.0  # type: ignore[no-any-return]
    base, m = state.bases[channel - 2], channel - 2
    if state.known[first] < 0.0 and base != 0.0:
        return False
    if base < 0.0 and state.known[first + 1] < 0.0:
        return False
    return state.weights[row * limited + m] < 0.0 and state.known[first + channel] >= 0.0  # type: ignore[no-any-return]


def stays(state: State, channel: int, limited: int) -> bool:
    """Whether a channel is known at all points: at the first and the last, since a skip is one."""
    last = len(state.pulls) - 1
    return value_known(state, 0, channel, limited) and value_known(state, last, channel, limited)
