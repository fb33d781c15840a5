"""MABWiser: predict, then partial_fit with one decision. Its Simulator replays logged data."""

from __future__ import annotations

from bernoulli import Environment
from mabwiser.mab import MAB, LearningPolicy
from stopwatch import Play, report


def decide(arms: int) -> Play:
    pull = Environment(arms).pull
    bandit = MAB(list(range(arms)), LearningPolicy.UCB1(alpha=1.0))
    bandit.fit(list(range(arms)), [pull(arm)[1] for arm in range(arms)])

    def play(steps: int) -> int:
        for _ in range(steps):
            arm = bandit.predict()
            _, reward, _ = pull(arm)
            bandit.partial_fit([arm], [reward])
        return steps

    return play


report(decide)
