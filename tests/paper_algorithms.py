"""The paper's two algorithms, written down from its text alone: an independent check of the engine.

Nothing here uses the package but the draws, which must be the same for the decisions to be.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from tightrope.kernels.rng import OUTCOMES, Generator

Means = list[tuple[float, float, float]]  # E[X], E[R], E[Y] of each arm, Bernoulli


def pull(means: tuple[float, float, float], draws: Generator) -> tuple[float, float, float]:
    x, r, y = (1.0 if draws.uniform() < round(p * 2**31) / 2**31 else 0.0 for p in means)
    return x, r, y


def ly_off(
    means: Means, c: float, budget: float, v: float, delta: float, seed: int, run: int
) -> Iterator[tuple[int, float]]:
    """alg:LyOff; yields the arm and the queue after it."""
    draws, q, cost = Generator(seed, OUTCOMES, run), 0.0, 0.0
    while cost <= budget:
        psi = [-v * er / ex + q * ey / ex for ex, er, ey in means]
        k = psi.index(min(psi))
        x, _, y = pull(means[k], draws)
        q = max(0.0, q + y - (c - delta) * x)
        cost += x
        yield k, q


def ly_on(
    means: Means,
    c: float,
    budget: float,
    v: float,
    delta: float,
    seed: int,
    run: int,
    alpha: float = 2.0,
    sign: float = -1.0,
) -> Iterator[tuple[int, float]]:
    """alg:LyOn with the index of the proof (sign -1) or as printed (sign +1)."""
    arms, draws, q, cost = range(len(means)), Generator(seed, OUTCOMES, run), 0.0, 0.0
    seen: list[list[tuple[float, float, float]]] = [[] for _ in arms]
    explore = math.ceil(math.log(2 * budget / min(m[0] for m in means)))
    n = 0
    while cost <= budget:
        if n < explore * len(means):
            k = n % len(means)
        else:
            index = [gamma(seen[k], n, q, v, alpha, sign) for k in arms]
            k = index.index(min(index))
        x, r, y = pull(means[k], draws)
        if n >= explore * len(means):
            q = max(0.0, q + y - (c - delta) * x)
        seen[k].append((x, r, y))
        cost += x
        n += 1
        yield k, q


def gamma(
    seen: list[tuple[float, float, float]], n: int, q: float, v: float, alpha: float, sign: float
) -> float:
    """eqn:ly-index after n pulls."""
    pulls = len(seen)
    ex, er, ey = (min(1.0, sum(column) / pulls) for column in zip(*seen, strict=True))
    if ex == 0:
        return -math.inf
    r, y, rad = er / ex, ey / ex, math.sqrt(2 * alpha * math.log(n) / pulls)
    return -v * r + q * y - rad * v * (1 + r) / ex + sign * rad * q * (1 + y) / ex
