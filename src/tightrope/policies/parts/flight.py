"""Pulls in flight: decided, not told yet. They count as if they had come out as expected.

A decision with n pulls of an arm in flight is made as if the arm had been pulled n times more, each
time with its mean outcome so far: its mean stays, its width shrinks, and budget and allowances are
charged. When an outcome is told it takes the place of what was expected, and nothing is left of the
guess; a voided pull is no longer expected. So what was told and what is in flight are all that
matters, not the order in which either came, nor the arms' numbers: virtual queues move once, by
what all pulls in flight come to together.

- *No herd.* An arm that is asked for again and again without a tell gets narrower bounds, hence a
  less optimistic index or posterior, until another arm is worth more; an arm never told about
  counts as tried.
- *No overspending.* Budget and allowances left are what is left after the pulls in flight, if each
  comes out as expected: 500 of them are not decided as if the whole allowance were there for each.

Of an arm of which nothing was told, the mean of what was told of all arms is expected, and half of
the largest outcome if nothing was. What is known is expected as it is known. Letters: K arms, M
penalties, C = 2 + M channels.
"""

from __future__ import annotations

from tightrope.policies.base import net_penalty, net_sum
from tightrope.policies.state import Array, State, rows

__all__ = ["assume", "expected_outcome", "least_pulled"]

UNTOLD = 0.5  # of the largest outcome: what is expected before anything was told


def assume(view: State, told: State, row: int, count: float, outcomes: Array) -> None:
    """Add ``count`` pulls of an arm to ``view``, a copy of ``told``, as they are expected.

    Adds what they come to together to ``outcomes`` [C]: cost, reward, penalties.
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
    """The arm with the fewest pulls among those that may be pulled; -1 if all have ``enough``.

    ``stand_ins`` [K]: an arm's own number if it may be pulled.
    """
    chosen, fewest = -1, enough
    for row in rows(state):
        if int(stand_ins[row]) == row and state.pulls[row] < fewest:
            chosen, fewest = row, state.pulls[row]
    return chosen
