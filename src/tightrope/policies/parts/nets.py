"""Bounds on the rate of a net penalty, Y - c (base - X), from bounds on means.

For a limit per unit of cost the net penalty is the penalty itself, and these are the bounds of a
quotient; see ``problem.limits`` for the others.
"""

from __future__ import annotations

from tightrope.policies.state import State


def high_net_rate(
    state: State, m: int, penalty: float, reward: float, cheap: float, dear: float
) -> float:
    """An upper bound, from one on the penalty, a lower one on the reward, and both of the cost."""
    base, limit = state.bases[m], state.limits[m]
    if base == 0.0:
        return penalty / cheap
    net = penalty - limit * (base if base > 0.0 else -base * reward)
    return net / (cheap if net > 0.0 else dear) + limit  # type: ignore[no-any-return]


def low_net_rate(
    state: State, m: int, penalty: float, reward: float, cheap: float, dear: float
) -> float:
    """A lower bound, from one on the penalty, an upper one on the reward, and both of the cost."""
    return high_net_rate(state, m, penalty, reward, dear, cheap)
