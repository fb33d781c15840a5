"""Pulls in flight: decided, but not reported yet. They count with their expected outcomes.

A decision with n pulls of an arm in flight assumes n more pulls with the arm's mean outcome so far:
its mean stays, its width shrinks, and budget and allowances are charged. A report replaces the
expected outcome completely; a voided pull is no longer counted. So decisions depend only on the
reports and on the pulls in flight, not on their order or the arms' numbers: virtual queues move
once, by the sum of all pulls in flight.

- *No herding.* An arm with many pulls in flight gets narrower bounds, hence a less optimistic index
  or posterior, until another arm is worth more; an arm without reports counts as tried.
- *No overspending.* The remaining budget and allowances exclude the expected outcomes of the pulls
  in flight, so 500 of them do not each count on the whole allowance.

An arm without reports is assumed to behave like the average arm; without any report, each outcome
is assumed to be half of the largest. Known outcomes are used as they are. Letters: K arms, M
penalties, C = 2 + M channels.
"""

from __future__ import annotations

from tightrope.policies.base import net_penalty, net_sum
from tightrope.policies.state import Array, State, rows

UNTOLD = 0.5  # of the largest outcome: the expectation before any report


def assume(view: State, told: State, row: int, count: float, outcomes: Array) -> None:
    """Add ``count`` expected pulls of an arm to ``view``, a copy of ``told``.

    Adds their sums to ``outcomes`` [C]: cost, reward, penalties.
    """
    penalties = len(told.remaining) - 1
    channels, pulls = 2 + penalties, told.pulls[row]
    for channel in range(channels):
        at, total = row * channels + channel, count * expected_outcome(told, row, channel)
        outcomes[channel] += total
        view.totals[at] += total
        view.squares[at] += count / pulls * told.squares[at] if pulls > 0.0 else total
    cost = count * expected_outcome(told, row, 0)
    reward = count * expected_outcome(told, row, 1)
    for m in range(penalties):
        at, base, limit = row * penalties + m, told.bases[m], told.limits[m]
        penalty = count * expected_outcome(told, row, 2 + m)
        net = net_sum(base, limit, count, reward, penalty)
        if pulls > 0.0:
            view.products[at] += count / pulls * told.products[at]
            view.net_squares[at] += count / pulls * told.net_squares[at]
        else:  # independent outcomes of 0 or 1
            view.products[at] += cost * net / count
            view.net_squares[at] += net * net / count + penalty * (1.0 - penalty / count)
        view.remaining[1 + m] -= net_penalty(base, limit, count, cost, reward, penalty)
    view.remaining[0] -= cost
    view.steps[0] += count
    view.pulls[row] += count
    view.flight[row] = count
    view.flying[0] += count


def expected_outcome(state: State, row: int, channel: int) -> float:
    """The mean outcome of an arm in a channel: 0 is the cost, 1 the reward, 2 + m penalty m."""
    channels = len(state.remaining) + 1
    at, share = row * channels + channel, 1.0
    if state.known[at] >= 0.0:
        return state.known[at]  # type: ignore[no-any-return]
    if channel >= 2 and state.weights[row * (channels - 2) + channel - 2] >= 0.0:
        share = state.weights[row * (channels - 2) + channel - 2]
        channel = int(state.sources[channel - 2])
        at = row * channels + channel
        if state.known[at] >= 0.0:
            return share * state.known[at]  # type: ignore[no-any-return]
    if state.pulls[row] > 0.0:
        return share * state.totals[at] / state.pulls[row]  # type: ignore[no-any-return]
    pulls = total = 0.0
    for other in rows(state):
        pulls += state.pulls[other]
        total += state.totals[other * channels + channel]
    return share * (total / pulls if pulls > 0.0 else UNTOLD)


def least_pulled(state: State, stand_ins: Array, enough: float) -> int:
    """The arm with the fewest pulls among those that can be pulled; -1 if all have ``enough``.

    ``stand_ins`` [K]: an arm's own number if it can be pulled.
    """
    chosen, fewest = -1, enough
    for row in rows(state):
        if int(stand_ins[row]) == row and state.pulls[row] < fewest:
            chosen, fewest = row, state.pulls[row]
    return chosen
