"""The environment that all packages share: Bernoulli cost, reward and penalty.

The arms are the paper's for growing K (Figures 2 and 3). Packages that only know rewards ignore
cost and penalty, so a step of the environment takes the same time for all of them.
"""

from __future__ import annotations

from random import Random

LIMIT = 0.8


def means(arms: int) -> list[tuple[float, float, float]]:
    """The mean cost, reward and penalty of each arm; ``arms`` is even."""
    pairs = ((0.4, 0.6), (0.6, 0.3))
    return [
        (cost * 1.005**i, outcome * 1.01**i, outcome * 1.01**i)
        for i in range(arms // 2)
        for cost, outcome in pairs
    ]


class Environment:
    """Bernoulli arms; a pull returns cost, reward and penalty, each 0.0 or 1.0."""

    def __init__(self, arms: int, seed: int = 1) -> None:
        self.means = means(arms)
        self.uniform = Random(seed).random

    def pull(self, arm: int) -> tuple[float, float, float]:
        cost, reward, penalty = self.means[arm]
        uniform = self.uniform
        return (
            1.0 if uniform() < cost else 0.0,
            1.0 if uniform() < reward else 0.0,
            1.0 if uniform() < penalty else 0.0,
        )
