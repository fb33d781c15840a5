"""contextualbandits: LinUCB on a constant context, updated after every decision.

Its documentation simulates in batches, with many decisions per update; ``run`` does the same.
"""

from __future__ import annotations

import numpy as np
from bernoulli import Environment
from contextualbandits.online import LinUCB
from stopwatch import Play, report

BATCH = 50  # as in its notebook on online policies


def game(arms: int, batch: int) -> Play:
    pull = Environment(arms).pull
    policy = LinUCB(
        arms, fit_intercept=False, method="sm", ucb_from_empty=True, njobs=1, random_state=1
    )

    def learn(context: np.ndarray, choices: np.ndarray) -> None:
        rewards = np.array([pull(arm)[1] for arm in choices.tolist()])
        policy.partial_fit(context, choices, rewards)

    def play(steps: int) -> int:
        context = np.ones((batch, 1))
        batches = -(-steps // batch)
        for _ in range(batches):
            learn(context, policy.predict(context))
        return batches * batch

    learn(np.ones((arms, 1)), np.arange(arms))
    return play


def decide(arms: int) -> Play:
    return game(arms, batch=1)


def run(arms: int) -> Play:
    return game(arms, BATCH)


report(decide, run)
