"""Watching for change: whether an arm has become another one since some pull.

For every arm and channel, with outcomes in [0, 1], split its pulls into those up to the s-th and
those after it. If the mean m never changed, then for every s

    E_s = KT(before) KT(after) / max over m of  m^S (1 - m)^(n - S)

is at most a martingale that starts at 1, as n grows: KT is the mixture of q^S (1 - q)^(n - S) over
q with the density of Beta(1/2, 1/2) (Krichevsky and Trofimov, 1981), S the sum of n outcomes, and
the largest likelihood is at least that of the true m (*universal inference*: Wasserman, Ramdas and
Balakrishnan, PNAS 2020). An outcome between 0 and 1 does no harm: q^v (1 - q)^(1 - v) over the same
of m is convex in v, so that its mean is at most what it is for a coin. Hence, by Ville's inequality
and a union over s and the C channels,

    some E_s >= C / (w_s delta)  at any time:   with a chance of at most delta,

for weights w_s that add up to at most 1: w_s = 1 / ((k + 1) (k + 2) j (j + 1)) for s = j 2^k with
an odd j: round numbers, which are looked at for longest, weigh most. That is an alarm. It drops
what was seen of the arm before the best split, and starts again; so
between two alarms of an arm that does not change there is a false one with a chance of at most
delta. Splits are looked at where the pulls are kept apart: in buckets of 1, 1, ... 2, 2, ... 4, 4,
... pulls, the last ones finest (an exponential histogram; Bifet and Gavalda, "Learning from
time-changing data with adaptive windowing", SDM 2007). Any set of splits may be left out.

An arm that is not pulled is not watched. Letters: K arms, M penalties, C = 2 + M channels.
"""

from __future__ import annotations

import math

from tightrope.policies.base import net_sum
from tightrope.policies.state import Array, State

__all__ = ["CHANGES", "HEAD", "NOTICED", "WATCH_SLOTS", "watch", "watch_numbers"]

WATCH_SLOTS = 96  # buckets at most: enough for 2^24 pulls
ALIKE = 4  # buckets of the same size at most
EVERY, GROWTH = 8.0, 1.05  # pulls of an arm between two looks, or by how much they have to grow

# The head of an arm's numbers: buckets in use, its pulls at the next look, how often it changed,
# and the number of the pull, of all arms, at which that was noticed last.
USED, NEXT, CHANGES, NOTICED = range(4)
HEAD = 4


def watch_numbers(arms: int, penalties: int) -> int:
    """How many numbers watching takes."""
    return arms * (HEAD + WATCH_SLOTS * _width(penalties))


def _width(penalties: int) -> int:
    """Numbers of a bucket: pulls, totals, squares, products and net squares."""
    return 1 + 2 * (2 + penalties) + 2 * penalties


def watch(state: State, history: Array, delta: float, row: int, outcomes: Array) -> None:
    """Note a pull that the state has counted already; after an alarm, drop what is out of date."""
    penalties = len(state.remaining) - 1
    width = _width(penalties)
    head = row * (HEAD + WATCH_SLOTS * width)
    first = head + HEAD
    _add_bucket(state, history, head, outcomes)
    _merge(history, head, width)
    pulls = 0.0
    for slot in range(int(history[head + USED])):
        pulls += history[first + slot * width]
    if pulls < history[head + NEXT]:
        return
    history[head + NEXT] = max(pulls + EVERY, GROWTH * pulls)
    split = _best_split(history, head, width, 2 + penalties, delta)
    if split > 0:
        _drop(state, history, head, width, row, split)


def _add_bucket(state: State, history: Array, head: int, outcomes: Array) -> None:
    """A bucket of one pull, the last."""
    penalties = len(state.remaining) - 1
    channels, width = 2 + penalties, _width(penalties)
    at = head + HEAD + int(history[head + USED]) * width
    history[head + USED] += 1.0
    history[at] = 1.0
    for channel in range(channels):
        value = outcomes[channel]
        history[at + 1 + channel] = value
        history[at + 1 + channels + channel] = value * value
    for m in range(penalties):
        net = net_sum(state.bases[m], state.limits[m], 1.0, outcomes[1], outcomes[2 + m])
        history[at + 1 + 2 * channels + m] = outcomes[0] * net
        history[at + 1 + 2 * channels + penalties + m] = net * net


def _merge(history: Array, head: int, width: int) -> None:
    """Where too many buckets have the same size, make one of the two oldest of them."""
    first, size = head + HEAD, 1.0
    last = int(history[head + USED]) - 1
    while last >= 0:
        start = last
        while start >= 0 and history[first + start * width] == size:
            start -= 1
        start += 1  # the oldest of this size
        if last - start < ALIKE:
            return
        to = first + start * width
        for at in range(width):
            history[to + at] += history[to + width + at]
        used = int(history[head + USED]) - 1
        for at in range(first + (start + 1) * width, first + used * width):
            history[at] = history[at + width]
        history[head + USED] = float(used)
        last, size = start, 2.0 * size


def _best_split(history: Array, head: int, width: int, channels: int, delta: float) -> int:
    """How many buckets are before the change, if there is an alarm; else 0."""
    first, used = head + HEAD, int(history[head + USED])
    chosen, most = 0, 0.0
    for channel in range(channels):
        pulls = total = 0.0
        for slot in range(used):
            pulls += history[first + slot * width]
            total += history[first + slot * width + 1 + channel]
        likeliest = _likelihood(pulls, total)
        before = seen = 0.0
        for slot in range(used - 1):
            before += history[first + slot * width]
            seen += history[first + slot * width + 1 + channel]
            evidence = _mixture(before, seen) + _mixture(pulls - before, total - seen) - likeliest
            evidence -= math.log(_rarity(before) * channels / delta)
            if evidence >= most:
                chosen, most = slot + 1, evidence
    return chosen


def _rarity(split: float) -> float:
    """1 / w_s."""
    odd, twos = split, 0.0
    while odd % 2.0 == 0.0:
        odd, twos = 0.5 * odd, twos + 1.0
    return (twos + 1.0) * (twos + 2.0) * odd * (odd + 1.0)


def _mixture(pulls: float, total: float) -> float:
    """The log of KT."""
    hits, misses = max(total, 0.0), max(pulls - total, 0.0)
    return math.lgamma(hits + 0.5) + math.lgamma(misses + 0.5) - math.lgamma(pulls + 1.0) - LOG_PI


LOG_PI = math.log(math.pi)  # 2 log Gamma(1/2)


def _likelihood(pulls: float, total: float) -> float:
    """The log of the largest likelihood."""
    hits, misses = max(total, 0.0), max(pulls - total, 0.0)
    found = hits * math.log(hits / pulls) if hits > 0.0 else 0.0
    return found + (misses * math.log(misses / pulls) if misses > 0.0 else 0.0)


def _drop(state: State, history: Array, head: int, width: int, row: int, split: int) -> None:
    """Forget the first buckets of an arm: its sums are those of the others."""
    penalties = len(state.remaining) - 1
    channels, first = 2 + penalties, head + HEAD
    used = int(history[head + USED]) - split
    for at in range(first, first + used * width):
        history[at] = history[at + split * width]
    history[head + USED], history[head + NEXT] = float(used), 0.0
    history[head + CHANGES] += 1.0
    history[head + NOTICED] = state.steps[0]
    for at in range(width):
        total = 0.0
        for slot in range(used):
            total += history[first + slot * width + at]
        if at == 0:
            state.pulls[row] = total
        elif at <= channels:
            state.totals[row * channels + at - 1] = total
        elif at <= 2 * channels:
            state.squares[row * channels + at - 1 - channels] = total
        elif at <= 2 * channels + penalties:
            state.products[row * penalties + at - 1 - 2 * channels] = total
        else:
            state.net_squares[row * penalties + at - 1 - 2 * channels - penalties] = total
