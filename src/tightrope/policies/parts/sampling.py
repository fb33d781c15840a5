"""Random numbers and Beta posteriors for policies that sample.

All numbers are derived from the step's ``words`` by :func:`~tightrope.policies.choice.hashed`, so
plain Python and compiled code draw the same numbers. A Beta variable is made of two Gamma
variables, by the method of Marsaglia and Tsang ("A simple method for generating gamma variables",
TOMS 2000).

A step draws all of them in two loops (:func:`draw_gammas`): one without branches, which the
compiler turns into vector instructions and which settles 19 of 20 variables, then one over the
rest. The numbers are those of :func:`gamma`, to the bit.

The posteriors start at Beta(1, 1) and count outcomes of 0 and 1. An outcome v in between counts as
1 with chance v (Agrawal and Goyal, "Analysis of Thompson sampling for the multi-armed bandit
problem", COLT 2012). :class:`Posteriors` is the record that a policy keeps of them.
"""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

from tightrope.policies.choice import hashed
from tightrope.policies.state import Array, State, rows

TRIES = 8  # rejection steps per Gamma; each succeeds with probability at least 0.95
WORDS_PER_GAMMA = 2 * TRIES
STEP = 2.0**-32
TAIL = 0.02425  # where Acklam's approximation changes its form
MARGIN = 1e-6  # more than the rounding error of the exact test for shapes below LARGE
LARGE = 1e8
GROUP = 8  # Gamma variables per vector instruction, where they are widest


def coin(word: int) -> float:
    """A random word as a number in [0, 1)."""
    return word * STEP


def uniform(word: int, number: int) -> float:
    """A random number in (0, 1), a different one for each ``number`` from 0."""
    return (hashed(word, number) + 0.5) * STEP


def normal(chance: float) -> float:
    """The standard normal quantile by P. J. Acklam's rational approximation, good to 1e-8."""
    if chance < TAIL or chance > 1.0 - TAIL:
        rest = chance if chance < 0.5 else 1.0 - chance
        quantile = _tail_quantile(math.sqrt(-2.0 * math.log(rest)))
        return quantile if chance < 0.5 else -quantile
    return _central_quantile(chance)


def _central_quantile(chance: float) -> float:
    q = chance - 0.5
    r = q * q
    top = -3.969683028665376e01 * r + 2.209460984245205e02
    top = (top * r - 2.759285104469687e02) * r + 1.383577518672690e02
    top = (top * r - 3.066479806614716e01) * r + 2.506628277459239e00
    low = -5.447609879822406e01 * r + 1.615858368580409e02
    low = (low * r - 1.556989798598866e02) * r + 6.680131188771972e01
    low = (low * r - 1.328068155288572e01) * r + 1.0
    return top * q / low


def _tail_quantile(q: float) -> float:
    top = -7.784894002430293e-03 * q - 3.223964580411365e-01
    top = (top * q - 2.400758277161838e00) * q - 2.549732539343734e00
    top = (top * q + 4.374664141464968e00) * q + 2.938163982698783e00
    low = 7.784695709041462e-03 * q + 3.224671290700398e-01
    low = (low * q + 2.445134137142996e00) * q + 3.754408661907416e00
    return top / (low * q + 1.0)


def gamma(shape: float, word: int, number: int) -> float:
    """A Gamma variable of ``shape`` >= 1; uses ``WORDS_PER_GAMMA`` numbers from ``number`` on."""
    size = shape - 1.0 / 3.0
    spread = 1.0 / math.sqrt(9.0 * size)
    cube = 1.0
    for attempt in range(TRIES):
        x = normal(uniform(word, number + 2 * attempt))
        root = 1.0 + spread * x
        if root > 0.0:
            cube = root * root * root
            chance = uniform(word, number + 2 * attempt + 1)
            if _surely_accepted(chance, x, size, spread * x):
                break
            if math.log(chance) < 0.5 * x * x + size * (1.0 - cube + math.log(cube)):
                break
    return size * cube


def _surely_accepted(chance: float, x: float, size: float, z: float) -> bool:
    """Whether x surely passes the exact test of :func:`gamma`, without a logarithm.

    The first bound is that of Marsaglia and Tsang. The second, tighter for large shapes, is
    exp(d) >= 1 + d with the series d = -size (3/4 z^4 - 3/5 z^5 + ...) >= -3/2 size z^4.
    """
    usual = chance < 1.0 - 0.0331 * x * x * x * x
    close = chance < 1.0 - MARGIN - 1.5 * size * (z * z) * (z * z)
    return usual | (close & (abs(z) < 0.5) & (size < LARGE))


def _gamma_at_once(shape: float, word: int, number: int) -> float:
    """:func:`gamma` if its first attempt surely succeeds, otherwise -shape; no branches."""
    size = shape - 1.0 / 3.0
    spread = 1.0 / math.sqrt(9.0 * size)
    place, chance = uniform(word, number), uniform(word, number + 1)
    x = _central_quantile(place)
    root = 1.0 + spread * x
    central = (place >= TAIL) & (place <= 1.0 - TAIL)
    accepted = central & (root > 0.0) & _surely_accepted(chance, x, size, spread * x)
    return size * (root * root * root) if accepted else -shape


def beta(successes: float, failures: float, word: int, number: int) -> float:
    """A draw from Beta(1 + successes, 1 + failures), the ``number``-th of this word."""
    first = 2 * WORDS_PER_GAMMA * number
    yes = gamma(1.0 + successes, word, first)
    no = gamma(1.0 + failures, word, first + WORDS_PER_GAMMA)
    return yes / (yes + no)


class Posteriors(NamedTuple):
    """Successes per arm and channel, where outcomes between 0 and 1 are rounded at random."""

    word: Annotated[Array, 1]  # random, for rounding the next outcomes
    counted: Annotated[Array, "K", "C"]  # the totals at the last count
    successes: Annotated[Array, "K", "C"]


def count_outcomes(state: State, posteriors: Posteriors, arm: int) -> None:
    """Count the arm's last outcome in each channel as a success or a failure."""
    channels, word = len(state.remaining) + 1, int(posteriors.word[0])
    for channel in range(channels):
        at = arm * channels + channel
        total = state.totals[at]
        gained = total - posteriors.counted[at]
        if gained > 1.0:  # of several pulls in flight
            posteriors.successes[at] += math.floor(gained)
            gained -= math.floor(gained)
        if gained > uniform(word, channel):
            posteriors.successes[at] += 1.0
        posteriors.counted[at] = total


def draw_gammas(state: State, successes: Array, gammas: Array, word: int) -> None:
    """Draw the two Gamma variables of every arm and channel; ``successes`` [K * C].

    Writes the first K * C * 2 of ``gammas`` [K * C * 4], from which :func:`mean_of` computes means.
    The others fill the last group: variables left over would each take as long as a group.
    """
    channels, used = len(state.remaining) + 1, 2 * len(successes)
    whole = (used + GROUP - 1) // GROUP * GROUP
    for arm in rows(state):
        pulls = state.pulls[arm]
        for at in range(arm * channels, (arm + 1) * channels):
            gammas[2 * at] = 1.0 + successes[at]
            gammas[2 * at + 1] = 1.0 + max(pulls - successes[at], 0.0)
    for at in range(used, whole):
        gammas[at] = 1.0
    for at in range(whole):
        gammas[at] = _gamma_at_once(gammas[at], word, WORDS_PER_GAMMA * at)
    for at in range(used):
        if gammas[at] < 0.0:
            gammas[at] = gamma(-gammas[at], word, WORDS_PER_GAMMA * at)


def mean_of(state: State, gammas: Array, arm: int, channel: int) -> float:
    """The drawn or known mean of an arm in a channel (0 cost, 1 reward, 2 + m penalty)."""
    share, drawn = _share_and_channel(state, arm, channel)
    at = arm * (len(state.remaining) + 1) + drawn
    if state.known[at] >= 0.0:
        return share * state.known[at]  # type: ignore[no-any-return]
    yes, no = gammas[2 * at], gammas[2 * at + 1]
    return share * (yes / (yes + no))  # type: ignore[no-any-return]


def _share_and_channel(state: State, arm: int, channel: int) -> tuple[float, int]:
    """The weight and channel of a penalty that is a share of another outcome, or 1 and itself."""
    if channel < 2:
        return 1.0, channel
    m = channel - 2
    weight = state.weights[arm * len(state.limits) + m]
    if weight < 0.0:
        return 1.0, channel
    return weight, int(state.sources[m])
