"""What remains of a promise, in one line, for a status, an outlook or a page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from tightrope.policies.guarded import GuardedResolve
from tightrope.policies.parts.guard import chance_allowed

if TYPE_CHECKING:
    from tightrope.live.controller import Controller


class PromisedLimit(NamedTuple):
    """A limit, and a bound on the chance that it is broken at the end."""

    name: str
    chance: float
    promised: bool  # whether the requested risk is promised now
    broken: bool  # already


def promise_words(
    risk: float | None, limits: Sequence[PromisedLimit], aimed: bool = False
) -> str | None:
    """What remains of a requested risk; None without a risk and without a broken limit.

    ``aimed``: the policy aims at the risk and proves nothing.
    """
    broken = [one.name for one in limits if one.broken]
    if broken:
        return f"limit {broken[0]!r} is broken: its penalty is above what the whole budget allows"
    if risk is None or not limits:
        return None
    if aimed:
        return f"risk = {risk:g} is aimed at, not proved: no arm is declared safe"
    worst = max(limits, key=lambda one: (not one.promised, one.chance))
    state = "is promised" if worst.promised else "cannot be promised yet"
    bound = f"the chance to end above limit {worst.name!r} is at most {worst.chance:.2g}"
    return f"risk = {risk:g} {state}: {bound}"


def promise_of(controller: Controller) -> str | None:
    """What remains of a promise that relies on a safe arm; None if there is no such promise."""
    if not isinstance(controller.policy, GuardedResolve):
        return None
    guard, state, limits = controller._state.scratch.guard, controller._state.record, []
    for m, name in enumerate(controller.task.limit_names):
        chance = chance_allowed(guard, state, m) + float(guard.doubt[m])
        left, rest = state.remaining[0], state.remaining[1 + m]
        if state.bases[m]:  # per pull or reward: what counts is the slack at the end
            rest = rest - state.limits[m] * left if left < 0.0 else 0.0
        limits.append(PromisedLimit(name, min(chance, 1.0), bool(guard.made[m]), rest < -1e-9))
    return promise_words(controller.policy.risk, limits)
