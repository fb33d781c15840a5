"""Forgetting old pulls, for arms that change: sliding windows and discounting.

A *sliding window* counts only the last W pulls of all arms together (Garivier and Moulines, "On
upper-confidence bound policies for switching bandit problems", ALT 2011). *Discounting* multiplies
all totals by a factor g < 1 before each pull is added, so that about 1 / (1 - g) pulls are
remembered (Kocsis and Szepesvari, "Discounted UCB", 2006). Only the arms' totals are forgotten: the
budget and allowances left, and hence the queues, count every pull.

Both lengths are given relative to sqrt(B log B) pulls, like the paper's V: with a larger budget
more pulls should be remembered, but not proportionally more. Letters: B budget, K arms, M
penalties, C = 2 + M channels, W pulls in a window.
"""

from __future__ import annotations

import math
from typing import Any

from tightrope.errors import PolicyError
from tightrope.policies.base import Policy, net_sum
from tightrope.policies.choice import record
from tightrope.policies.parts.watch import watch
from tightrope.policies.state import Array, State, rows

NO_ONE, EVERYONE = -1, -2  # instead of a row's number: no row, all rows
LONGEST = 10**7  # largest window in pulls: its history takes a few hundred megabytes
RESIDUE = 1e-9  # a total below this is a rounding error left by forgotten pulls


def require_forgetting(policy: Policy) -> None:
    """Check ``window0`` and ``discount0``: positive, and not both."""
    both: Any = policy
    policy.require_number("window0", 0.0, open_low=True, optional=True)
    policy.require_number("discount0", 0.0, open_low=True, optional=True)
    policy.require("discount0", "none if window0 is given", None in (both.window0, both.discount0))


def window_and_fade(policy: Policy, budget: float, unit: float = 1.0) -> tuple[int, float]:
    """The window in pulls (0: none) and the discount factor (1: none) at a normalised budget.

    ``unit`` is the largest cost of one pull, for the error message.

    >>> from tightrope.policies import LyOn
    >>> window_and_fade(LyOn(window0=4), 1000.0), window_and_fade(LyOn(), 1000.0)
    ((333, 1.0), (0, 1.0))
    """
    both: Any = policy
    given = both.discount0 if both.window0 is None else both.window0
    if given is None:
        return 0, 1.0
    pulls = given * math.sqrt(budget * max(math.log(budget), 0.0))
    if not 1.0 < pulls <= LONGEST:
        field = "discount0" if both.window0 is None else "window0"
        raise PolicyError(
            f"policy {policy.name}: {field} = {given!r} remembers {pulls:g} pulls at budget"
            f" {budget * unit:g}; must be more than 1 and at most {LONGEST:,}"
        )
    if both.window0 is None:
        return 0, 1.0 - 1.0 / pulls
    return math.ceil(pulls), 1.0


def remember(state: State, history: Array, fade: float, row: int, outcomes: Array) -> int:
    """Add a pull's outcomes to the state, and forget the pull that leaves the window.

    ``history`` [W, 1 + C], flat, holds the pulls in the window: the row, then its outcomes; it is
    empty if there is no window. A ``fade`` below 0 is minus the false-alarm probability of the test
    for changed arms, whose numbers are then in ``history``. Returns the row whose pull was
    forgotten, ``NO_ONE``, or ``EVERYONE`` if all pulls were discounted.
    """
    touched = NO_ONE
    if fade < 0.0:
        record(state, row, outcomes)
        watch(state, history, -fade, row, outcomes)
        return touched
    if fade < 1.0:
        touched = EVERYONE
        _fade(state, fade)
    if len(history) > 0:
        width = len(state.remaining) + 2
        window = len(history) // width
        first = int(state.steps[0]) % window * width
        if state.steps[0] >= window:
            touched = int(history[first])
            _forget(state, touched, history, first)
        history[first] = row
        for channel in range(width - 1):
            history[first + 1 + channel] = outcomes[channel]
    record(state, row, outcomes)
    return touched


def touched_rows(state: State, touched: int, row: int) -> list[int]:
    """The rows whose sums a pull of ``row`` changed, if ``remember`` returned ``touched``."""
    if touched == EVERYONE:
        return list(rows(state))
    return [row] if touched in (NO_ONE, row) else [touched, row]


def _fade(state: State, fade: float) -> None:
    """Multiply all totals by ``fade``."""
    for row in rows(state):
        state.pulls[row] *= fade
    for at in range(len(state.totals)):
        state.totals[at] *= fade
        state.squares[at] *= fade
    for at in range(len(state.products)):
        state.products[at] *= fade
        state.net_squares[at] *= fade


def _forget(state: State, row: int, history: Array, first: int) -> None:
    """Subtract the pull whose row in ``history`` starts at ``first``."""
    penalties = len(state.remaining) - 1
    channels, cost = 2 + penalties, history[first + 1]
    pulls = state.pulls[row] - 1.0
    state.pulls[row] = pulls
    for channel in range(channels):
        value, at = history[first + 1 + channel], row * channels + channel
        state.totals[at] = _cleaned(state.totals[at] - value, pulls)
        state.squares[at] = _cleaned(state.squares[at] - value * value, pulls)
    for m in range(penalties):
        at, earned = row * penalties + m, history[first + 2]
        net = net_sum(state.bases[m], state.limits[m], 1.0, earned, history[first + 3 + m])
        state.products[at] = _cleaned_signed(state.products[at] - cost * net, pulls)
        state.net_squares[at] = _cleaned(state.net_squares[at] - net * net, pulls)


def _cleaned(total: float, pulls: float) -> float:
    """The total, or 0 if only rounding errors of forgotten pulls are left."""
    return 0.0 if total < RESIDUE or pulls == 0.0 else total


def _cleaned_signed(total: float, pulls: float) -> float:
    """The same for a total that may be negative."""
    return 0.0 if abs(total) < RESIDUE or pulls == 0.0 else total
