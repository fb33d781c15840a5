"""Distances of ``resolve``, in deviations: z of its barrier, kappa of the best of K arms."""

from __future__ import annotations

import math
from statistics import NormalDist

CALM = 1.0  # z without a requested risk; chosen by measurement


def barrier(risk: float, budget: float, limits: int) -> float:
    """z: the distance, in deviations, from the point where a limit cannot be rescued.

    A path that hugs z escapes at the rate z phi(z) / 2 per unit of log budget (Kramers), so that
    z phi(z) / 2 * log(1 + budget) = risk / limits; at least ``CALM``.

    >>> round(barrier(0.01, 1000.0, 1), 2)
    3.52
    """
    wanted = 2.0 * risk / max(limits, 1) / math.log1p(budget)
    density = NormalDist().pdf
    low, high = 1.0, 40.0  # z phi(z) falls from z = 1 on, to 1e-347
    if density(low) <= wanted:
        return CALM
    for _ in range(80):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if middle * density(middle) > wanted else (low, middle)
    return high


def curse(arms: int) -> float:
    """kappa: how far, in deviations, the least of K equal noisy rates falls below them (Blom).

    >>> [round(curse(arms), 2) for arms in (1, 2, 10, 50)]
    [0.0, 0.59, 1.55, 2.24]
    """
    return NormalDist().inv_cdf((arms - 0.375) / (arms + 0.25))
