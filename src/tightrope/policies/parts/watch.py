"""A test for changed arms: whether an arm's distributions differ since some pull.

For every arm and channel, with outcomes in [0, 1], split its pulls into those up to the s-th and
those after it. If the mean m never changed, then for every s

    E_s = KT(before) KT(after) / max over m of  m^S (1 - m)^(n - S)

is at most a martingale that starts at 1, as n grows: KT is the mixture of q^S (1 - q)^(n - S) over
q with the density of Beta(1/2, 1/2) (Krichevsky and Trofimov, 1981), S the sum of n outcomes, and
the largest likelihood is at least that of the true m (*universal inference*: Wasserman, Ramdas and
Balakrishnan, PNAS 2020). Outcomes between 0 and 1 are allowed: q^v (1 - q)^(1 - v) over the same
for m is convex in v, so its mean is at most that of a coin.

But they carry little information: an outcome v counts as v coins, so a price of 0.003 that triples
hardly counts. So every channel has a second test with a *coin*: whether the outcome is above the
median of the arm's first 32, or differs from it if at least half of those equal it. The threshold
is fixed before the first coin, and the coins of independent pulls of an unchanged arm are
independent with the same chance; hence E_s of the coins is as above. This test is left out if all
outcomes are 0 or 1, which are coins. By Ville's inequality and a union over s and the 2 C tests,

    some E_s >= 2 C / (w_s delta)  at any time:   with a chance of at most delta,

for weights w_s that add up to at most 1: for s = (2 r - 3) 2^k with r >= 2 they are proportional to
1 / ((k + 1) (k + 2) r log^2 r): round numbers, which are tested for longest, weigh most. This is an
alarm. It drops the arm's outcomes before the best split and starts again with a new median. Splits
are tested between the buckets that hold the pulls: of 1, 1, ... 2, 2, ... 4, 4, ... pulls, the last
ones finest (an exponential histogram; Bifet and Gavalda, "Learning from time-changing data with
adaptive windowing", SDM 2007). The bound holds for any subset of splits and tests.

*Blocks.* If an outcome resembles the last one, pulls are not independent, and an alarm means
nothing. Then the mean outcomes of ``block`` successive pulls of the arm replace the outcomes. All
of the above holds for them if blocks are independent, so they must be longer than the memory of the
outcomes.

Arms without pulls and known outcomes are not tested. Letters: K arms, M penalties, C = 2 + M
channels.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from tightrope.policies.base import net_sum
from tightrope.policies.state import Array, State

WATCH_SLOTS = 96  # buckets at most: enough for 2^24 blocks
ALIKE = 4  # buckets of the same size at most
EVERY, GROWTH = 8.0, 1.05  # blocks of an arm between two tests, or the factor of growth
FIRST = 32  # outcomes whose median is a coin's threshold
ALL_RANKS = 2.11  # at least the sum of 1 / (r log^2 r) over r from 2 on
CLOSE = 1e-9  # relative: outcomes that differ by rounding only

# The head of an arm's numbers: buckets in use, its pulls at the next test, the number of changes,
# the number of the pull (of all arms) at the last alarm, pulls in a block, and its blocks when the
# outcomes for the median started. Then C numbers each for the lower and the upper threshold of its
# coins and for the first outcomes, and the buckets.
USED, NEXT, CHANGES, NOTICED, BLOCK, BEGUN = range(6)
HEAD = 6


def fresh_watch(arms: int, penalties: int, block: int) -> npt.NDArray[np.float64]:
    """The numbers of the test at the start of a run."""
    numbers = np.zeros((arms, _stride(penalties)))
    numbers[:, BLOCK] = block
    return numbers.ravel()


def watch_of_old(
    old: npt.NDArray[np.float64], arms: int, penalties: int
) -> npt.NDArray[np.float64]:
    """The numbers of an old run without coins: heads of 4, buckets without coins."""
    numbers = fresh_watch(arms, penalties, 1).reshape(arms, -1)
    width, first = _width(penalties), _buckets(penalties)
    kept = width - (2 + penalties)
    for arm, before in zip(numbers, old.reshape(arms, -1), strict=True):
        buckets = before[BLOCK:].reshape(-1, kept)
        arm[:BLOCK], arm[first:].reshape(-1, width)[:, :kept] = before[:BLOCK], buckets
        arm[BEGUN] = buckets[: int(arm[USED]), 0].sum()
    return numbers.ravel()


def watch_units(*units: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The units of an arm's numbers, from those of a bucket's pulls, totals, squares and so on."""
    outcomes, bucket = units[1], np.concatenate([*units, np.ones_like(units[1])])
    parts = [np.ones(HEAD), np.tile(outcomes, 2 + FIRST), np.tile(bucket, WATCH_SLOTS)]
    return np.concatenate(parts)


def _stride(penalties: int) -> int:
    """Numbers of an arm."""
    return _buckets(penalties) + WATCH_SLOTS * _width(penalties)


def _buckets(penalties: int) -> int:
    """Where the buckets start in an arm's numbers."""
    return HEAD + (2 + FIRST) * (2 + penalties)


def _width(penalties: int) -> int:
    """Numbers of a bucket: pulls, totals, squares, products, net squares, pulls of coins of 1."""
    return 1 + 3 * (2 + penalties) + 2 * penalties


def watch(state: State, history: Array, delta: float, row: int, outcomes: Array) -> None:
    """Record a pull that the state has counted; after an alarm, drop outdated pulls."""
    penalties = len(state.remaining) - 1
    width, head = _width(penalties), row * _stride(penalties)
    first, block = head + _buckets(penalties), history[head + BLOCK]
    last = _add(state, history, head, outcomes)
    if history[last] < block:
        return
    pulls = 0.0
    for slot in range(int(history[head + USED])):
        pulls += history[first + slot * width]
    _toss(history, head, last, penalties, pulls)
    _merge(history, head, penalties)
    if pulls < history[head + NEXT]:
        return
    history[head + NEXT] = max(pulls + EVERY * block, GROWTH * pulls)
    split = _best_split(state, history, head, row, delta)
    if split > 0:
        _drop(state, history, head, row, split)


def _add(state: State, history: Array, head: int, outcomes: Array) -> int:
    """Add a pull to the last block, or begin one; returns the place of its bucket."""
    penalties = len(state.remaining) - 1
    channels, width = 2 + penalties, _width(penalties)
    at = head + _buckets(penalties) + (int(history[head + USED]) - 1) * width
    if history[head + USED] == 0.0 or history[at] >= history[head + BLOCK]:
        at += width
        history[head + USED] += 1.0
        for place in range(at, at + width):
            history[place] = 0.0
    history[at] += 1.0
    for channel in range(channels):
        value = outcomes[channel]
        history[at + 1 + channel] += value
        history[at + 1 + channels + channel] += value * value
    for m in range(penalties):
        net = net_sum(state.bases[m], state.limits[m], 1.0, outcomes[1], outcomes[2 + m])
        history[at + 1 + 2 * channels + m] += outcomes[0] * net
        history[at + 1 + 2 * channels + penalties + m] += net * net
    return at


def _toss(history: Array, head: int, last: int, penalties: int, pulls: float) -> None:
    """Toss the coins of the last block, or note its outcomes for the medians."""
    channels, block = 2 + penalties, history[head + BLOCK]
    low = head + HEAD
    noted = int(pulls / block - history[head + BEGUN])
    for channel in range(channels):
        value = history[last + 1 + channel] / block
        if noted <= FIRST:
            history[low + (1 + noted) * channels + channel] = value
            if noted == FIRST:
                _set_threshold(history, low + channel, channels)
        elif not history[low + channel] <= value <= history[low + channels + channel]:
            history[last + 1 + 2 * channels + 2 * penalties + channel] = block


def _set_threshold(history: Array, low: int, channels: int) -> None:
    """Take the median of the first outcomes: a coin is 1 above it, or off it if many equal it."""
    for one in range(2, 2 + FIRST):
        middle = history[low + one * channels]
        below = equal = 0
        for other in range(2, 2 + FIRST):
            value = history[low + other * channels]
            if abs(value - middle) <= CLOSE * middle:
                equal += 1
            elif value < middle:
                below += 1
        if below < FIRST // 2 <= below + equal:
            history[low] = middle - CLOSE * middle if 2 * equal >= FIRST else 0.0
            history[low + channels] = middle + CLOSE * middle
            return


def _merge(history: Array, head: int, penalties: int) -> None:
    """If too many buckets have the same size, merge the two oldest of them."""
    first, width, size = head + _buckets(penalties), _width(penalties), history[head + BLOCK]
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


def _best_split(state: State, history: Array, head: int, row: int, delta: float) -> int:
    """The number of buckets before the change, if there is an alarm; otherwise 0."""
    penalties = len(state.remaining) - 1
    channels, tossed = 2 + penalties, history[head + BEGUN] + FIRST
    coins = 1 + 2 * channels + 2 * penalties
    chosen, most = 0, math.log(2.0 * channels / delta)
    for channel in range(channels):
        at = row * channels + channel
        if state.known[at] >= 0.0:
            continue
        slot, evidence = _evidence(history, head, penalties, 1 + channel, 0.0)
        if evidence >= most:
            chosen, most = slot, evidence
        if history[head + BLOCK] > 1.0 or state.totals[at] != state.squares[at]:
            slot, evidence = _evidence(history, head, penalties, coins + channel, tossed)
            if evidence >= most:
                chosen, most = slot, evidence
    return chosen


def _evidence(
    history: Array, head: int, penalties: int, column: int, tossed: float
) -> tuple[int, float]:
    """The buckets before the best split of a test, and the log of w_s E_s there.

    ``column`` of the buckets has the test's sums, of all blocks but the first ``tossed``.
    """
    first, width, block = head + _buckets(penalties), _width(penalties), history[head + BLOCK]
    used, pulls, total = int(history[head + USED]), 0.0, 0.0
    for slot in range(used):
        pulls += history[first + slot * width] / block
        total += history[first + slot * width + column] / block
    pulls -= tossed
    if pulls <= 0.0:
        return 0, 0.0
    chosen, most, likeliest = 0, 0.0, _likelihood(pulls, total)
    before, seen = -tossed, 0.0
    for slot in range(used - 1):
        before += history[first + slot * width] / block
        seen += history[first + slot * width + column] / block
        if before > 0.0:
            evidence = _mixture(before, seen) + _mixture(pulls - before, total - seen) - likeliest
            evidence -= math.log(_rarity(before))
            if evidence > most:
                chosen, most = slot + 1, evidence
    return chosen, most


def _rarity(split: float) -> float:
    """1 / w_s."""
    odd, twos = split, 0.0
    while odd % 2.0 == 0.0:
        odd, twos = 0.5 * odd, twos + 1.0
    rank = 0.5 * (odd + 3.0)  # 2, 3, ... for 1, 3, ...
    logarithm = math.log(rank)
    return (twos + 1.0) * (twos + 2.0) * ALL_RANKS * rank * logarithm * logarithm


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


def _drop(state: State, history: Array, head: int, row: int, split: int) -> None:
    """Forget the first buckets of an arm; its sums become those of the other buckets."""
    penalties = len(state.remaining) - 1
    channels, width, first = 2 + penalties, _width(penalties), head + _buckets(penalties)
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
            history[head + BEGUN] = total / history[head + BLOCK]
        elif at <= channels:
            state.totals[row * channels + at - 1] = total
        elif at <= 2 * channels:
            state.squares[row * channels + at - 1 - channels] = total
        elif at <= 2 * channels + penalties:
            state.products[row * penalties + at - 1 - 2 * channels] = total
        elif at <= 2 * channels + 2 * penalties:
            state.net_squares[row * penalties + at - 1 - 2 * channels - penalties] = total
        else:  # new coins have a new median
            for slot in range(used):
                history[first + slot * width + at] = 0.0
