"""Random numbers for policies that sample, and what they sample from: Beta posteriors.

Everything comes from the step's ``luck`` by :func:`~tightrope.policies.choice.hashed`, so that
plain Python and compiled code draw the same. A Beta is made of two Gammas by the method of
Marsaglia and Tsang ("A simple method for generating gamma variables", ACM TOMS 2000).

The posteriors start at Beta(1, 1) and count outcomes of 0 and 1. An outcome v in between counts as
1 with chance v (Agrawal and Goyal, "Analysis of Thompson sampling for the multi-armed bandit
problem", COLT 2012). They live in a policy's ``own``, from the start: a word of luck for the coins,
then for each of K arms and 2 + M channels the total so far, then the successes.
"""

from __future__ import annotations

import math
from typing import Any

from tightrope.policies.choice import hashed

__all__ = [
    "beta",
    "coin",
    "count_outcomes",
    "drawn_mean",
    "keep_word",
    "normal",
    "posterior_size",
    "sampled_mean",
    "uniform",
]

Array = Any
TRIES = 8  # of a Gamma; each succeeds with a chance of at least 0.95
WORDS_A_GAMMA = 2 * TRIES
STEP = 2.0**-32
TAIL = 0.02425  # where Acklam's approximation changes its form


def coin(word: int) -> float:
    """A word of luck as a number in [0, 1)."""
    return word * STEP


def uniform(word: int, number: int) -> float:
    """A number in (0, 1), one for each ``number`` from 0."""
    return (hashed(word, number) + 0.5) * STEP


def normal(chance: float) -> float:
    """The standard normal quantile by P. J. Acklam's rational approximation, good to 1e-8."""
    if chance < TAIL:
        return _tail_quantile(math.sqrt(-2.0 * math.log(chance)))
    if chance > 1.0 - TAIL:
        return -_tail_quantile(math.sqrt(-2.0 * math.log(1.0 - chance)))
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
    """A Gamma variable of ``shape`` at least 1; takes ``WORDS_A_GAMMA`` numbers from ``number``."""
    size = shape - 1.0 / 3.0
    spread = 1.0 / math.sqrt(9.0 * size)
    cube = 1.0
    for attempt in range(TRIES):
        x = normal(uniform(word, number + 2 * attempt))
        root = 1.0 + spread * x
        if root > 0.0:
            cube = root * root * root
            chance = uniform(word, number + 2 * attempt + 1)
            if chance < 1.0 - 0.0331 * x * x * x * x:
                break
            if math.log(chance) < 0.5 * x * x + size * (1.0 - cube + math.log(cube)):
                break
    return size * cube


def beta(successes: float, failures: float, word: int, number: int) -> float:
    """A draw from Beta(1 + successes, 1 + failures), the ``number``-th of this word."""
    first = 2 * WORDS_A_GAMMA * number
    yes = gamma(1.0 + successes, word, first)
    no = gamma(1.0 + failures, word, first + WORDS_A_GAMMA)
    return yes / (yes + no)


def posterior_size(arms: int, penalties: int) -> int:
    """How many numbers of ``own`` the posteriors take."""
    return 1 + 2 * arms * (2 + penalties)


def keep_word(own: Array, word: int) -> None:
    """Put a word by for the coins of :func:`count_outcomes`."""
    own[0] = word


def count_outcomes(arms: Array, own: Array, arm: int, channels: int) -> None:
    """Count what the arm just gave in each channel as a success or not."""
    first, cells = 1 + arm * channels, arms.shape[0] * channels
    word = int(own[0])
    for channel in range(channels):
        total = arms[arm, 1 + channel]
        if total - own[first + channel] > uniform(word, channel):
            own[first + cells + channel] += 1.0
        own[first + channel] = total


def drawn_mean(arms: Array, arm: int, channel: int, channels: int, word: int) -> float:
    """As :func:`sampled_mean`, without coins: an outcome v counts as v successes.

    The same for zeros and ones; elsewhere wider than the truth, but free of the coins' own luck.
    """
    total = arms[arm, 1 + channel]
    return beta(total, max(arms[arm, 0] - total, 0.0), word, arm * channels + channel)


def sampled_mean(
    arms: Array, own: Array, arm: int, channel: int, channels: int, word: int
) -> float:
    """A draw from the posterior of an arm's mean in a channel: 0 the cost, 1 the reward, ..."""
    place = arm * channels + channel
    successes = own[1 + arms.shape[0] * channels + place]
    return beta(successes, max(arms[arm, 0] - successes, 0.0), word, place)
