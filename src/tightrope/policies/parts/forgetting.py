"""What a policy remembers of each arm: all of it, the last pulls, or older pulls with less weight.

Arms may change while a budget is spent. A *sliding window* counts only the last W pulls, whichever
arms they were of (Garivier and Moulines, "On upper-confidence bound policies for switching bandit
problems", ALT 2011); *discounting* multiplies all counts by a factor g < 1 before each pull is
added, so that about 1 / (1 - g) pulls are remembered (Kocsis and Szepesvari, "Discounted UCB",
2006). Only what is known about the arms is forgotten: the cost and the penalties so far, and hence
the queues and what remains of the allowances, are facts.

Either is given relative to sqrt(B log B) pulls, as the paper's V is: longer budgets can afford to
remember more, and should, but not in proportion. Letters: B budget, K arms, M penalties,
C = 2 + M channels, W pulls in a window.
"""

from __future__ import annotations

import math
from typing import Any

from tightrope.errors import PolicyError
from tightrope.policies.base import Policy
from tightrope.policies.choice import record
from tightrope.policies.state import Array, State

__all__ = [
    "EVERYONE",
    "NO_ONE",
    "learn_and_forget",
    "remember",
    "require_forgetting",
    "window_and_fade",
]

NO_ONE, EVERYONE = -1, -2  # in place of an arm's number
LONGEST = 10**7  # pulls: some hundred megabytes
RESIDUE = 1e-9  # a total below this is what rounding left of pulls that were taken back


def require_forgetting(policy: Policy) -> None:
    """Check ``window0`` and ``discount0``: positive, and not both."""
    both: Any = policy
    policy.require_number("window0", 0.0, open_low=True, optional=True)
    policy.require_number("discount0", 0.0, open_low=True, optional=True)
    policy.require(
        "discount0", "none where window0 is given", None in (both.window0, both.discount0)
    )


def window_and_fade(policy: Policy, budget: float, unit: float = 1.0) -> tuple[int, float]:
    """The window in pulls, 0 for none, and the factor, 1 for none, at a (normalised) budget.

    ``unit`` is the largest cost of one pull, for the message.

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


def remember(state: State, history: Array, fade: float, arm: int, outcomes: Array) -> int:
    """Count a pull's outcomes and forget what is too old.

    ``history`` [W, 1 + C], flat, holds the pulls in the window: the arm, then its outcomes; empty
    without a window. Returns the arm that a pull was forgotten of, ``NO_ONE`` or ``EVERYONE``.
    """
    touched = NO_ONE
    if fade < 1.0:
        touched = EVERYONE
        _fade(state, fade)
    if len(history) > 0:
        row = len(state.remaining) + 2
        window = len(history) // row
        first = int(state.steps[0]) % window * row
        if state.steps[0] >= window:
            touched = int(history[first])
            _forget(state, touched, history, first)
        history[first] = arm
        for channel in range(row - 1):
            history[first + 1 + channel] = outcomes[channel]
    record(state, arm, outcomes)
    return touched


def learn_and_forget(count_in: Any, learn: Any) -> Any:
    """A function that counts a pull by ``count_in``, and has each arm that it touched ``learn``ed.

    The two are :func:`remember` and a policy's, or both of them compiled.
    """

    def learned(
        constants: Any,
        state: State,
        scratch: Any,
        history: Array,
        fade: float,
        arm: int,
        outcomes: Array,
    ) -> None:
        touched = count_in(state, history, fade, arm, outcomes)
        everyone, other = touched == EVERYONE, touched >= 0 and touched != arm
        turns = len(state.pulls) if everyone else 2 if other else 1
        for turn in range(turns):  # one call: it is compiled where it stands
            one = turn if everyone else touched if turn + 1 < turns else arm
            learn(constants, state, scratch, one)

    return learned


def _fade(state: State, fade: float) -> None:
    """Let every pull so far count less."""
    for arm in range(len(state.pulls)):
        state.pulls[arm] *= fade
    for at in range(len(state.totals)):
        state.totals[at] *= fade
        state.squares[at] *= fade
    for at in range(len(state.products)):
        state.products[at] *= fade


def _forget(state: State, arm: int, history: Array, first: int) -> None:
    """Take back the pull whose row starts at ``first``; what rounding leaves is nothing."""
    penalties = len(state.remaining) - 1
    channels, cost = 2 + penalties, history[first + 1]
    pulls = state.pulls[arm] - 1.0
    state.pulls[arm] = pulls
    for channel in range(channels):
        value, at = history[first + 1 + channel], arm * channels + channel
        state.totals[at] = _cleaned(state.totals[at] - value, pulls)
        state.squares[at] = _cleaned(state.squares[at] - value * value, pulls)
    for m in range(penalties):
        at = arm * penalties + m
        taken = cost * history[first + 3 + m]
        state.products[at] = _cleaned(state.products[at] - taken, pulls)


def _cleaned(total: float, pulls: float) -> float:
    """A total without what rounding left of pulls that were taken back."""
    return 0.0 if total < RESIDUE or pulls == 0.0 else total
