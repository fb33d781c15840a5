"""What a policy remembers of each arm: all of it, the last pulls, or older pulls with less weight.

Arms may change while a budget is spent. A *sliding window* counts only the last W pulls, whichever
arms they were of (Garivier and Moulines, "On upper-confidence bound policies for switching bandit
problems", ALT 2011); *discounting* multiplies all counts by a factor g < 1 before each pull is
added, so that about 1 / (1 - g) pulls are remembered (Kocsis and Szepesvari, "Discounted UCB",
2006). Only what is known about the arms is forgotten: the cost and the penalties so far, and hence
the queues and what is left of the limits, are facts.

Either is given relative to sqrt(B log B) pulls, as the paper's V is: longer budgets can afford to
remember more, and should, but not in proportion. Letters: B budget, K arms, M penalties.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from tightrope.errors import PolicyError
from tightrope.policies.base import Policy
from tightrope.policies.choice import Array, record

__all__ = ["EVERYONE", "NO_ONE", "learner", "memory_at", "remember", "require_memory"]

SOURCE = Path(__file__).read_bytes()  # as imported, for a kernel's fingerprint
NO_ONE, EVERYONE = -1, -2  # in place of an arm's number
LONGEST = 10**8  # pulls: some gigabytes
RESIDUE = 1e-9  # a total below this is what rounding left of pulls that were taken back


def require_memory(policy: Policy) -> None:
    """Check ``window0`` and ``discount0``: positive, and not both."""
    both: Any = policy
    policy.require_number("window0", 0.0, open_low=True, optional=True)
    policy.require_number("discount0", 0.0, open_low=True, optional=True)
    policy.require(
        "discount0", "none where window0 is given", None in (both.window0, both.discount0)
    )


def memory_at(policy: Policy, budget: float) -> tuple[int, float]:
    """The window in pulls, 0 for none, and the factor, 1 for none, at a (normalised) budget.

    >>> from tightrope.policies import LyOn
    >>> memory_at(LyOn(window0=4), 1000.0), memory_at(LyOn(), 1000.0)
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
            f"policy {policy.name}: {field} = {given!r} remembers {pulls:g} pulls at a budget of"
            f" {budget:g} times the largest cost; must be more than 1 and at most {LONGEST:,}"
        )
    if both.window0 is None:
        return 0, 1.0 - 1.0 / pulls
    return math.ceil(pulls), 1.0


def remember(
    arms: Array, left: Array, history: Array, fade: float, arm: int, outcomes: Array
) -> int:
    """Count a pull's outcomes and forget what is too old.

    ``history`` [W, 3 + M] holds the pulls in the window: the arm and its outcomes; no rows, no
    window. Returns the arm that a pull was forgotten of, ``NO_ONE`` or ``EVERYONE``.
    """
    touched = NO_ONE
    if fade < 1.0:
        touched = EVERYONE
        for one in range(len(arms)):
            for column in range(arms.shape[1]):
                arms[one, column] *= fade
    if len(history) > 0:
        place = int(left[1]) % len(history)
        if left[1] >= len(history):
            touched = int(history[place, 0])
            _forget(arms, touched, history, place)
        history[place, 0] = arm
        for channel in range(len(left)):
            history[place, 1 + channel] = outcomes[channel]
    record(arms, left, arm, outcomes)
    return touched


def learner(count_in: Any, learn: Any) -> Any:
    """A function that counts a pull by ``count_in``, and has each arm that it touched ``learn``ed.

    The two are :func:`remember` and a policy's, or both of them compiled.
    """

    def learned(
        constants: Any,
        arms: Array,
        left: Array,
        own: Array,
        history: Array,
        fade: float,
        arm: int,
        outcomes: Array,
    ) -> None:
        touched = count_in(arms, left, history, fade, arm, outcomes)
        if touched == EVERYONE:
            for one in range(len(arms)):
                learn(constants, arms, left, own, one)
        else:
            if touched != NO_ONE and touched != arm:
                learn(constants, arms, left, own, touched)
            learn(constants, arms, left, own, arm)

    return learned


def _forget(arms: Array, arm: int, history: Array, place: int) -> None:
    """Take a pull back; what rounding leaves is nothing."""
    channels = history.shape[1] - 1
    cost = history[place, 1]
    arms[arm, 0] -= 1.0
    for channel in range(channels):
        value = history[place, 1 + channel]
        arms[arm, 1 + channel] -= value
        arms[arm, 1 + channels + channel] -= value * value
        if channel >= 2:
            arms[arm, 1 + 2 * channels + channel - 2] -= cost * value
    for column in range(1, arms.shape[1]):
        if arms[arm, column] < RESIDUE or arms[arm, 0] == 0.0:
            arms[arm, column] = 0.0
