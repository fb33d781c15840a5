"""Vowpal Wabbit: predict and learn on Example objects made once, which beats parsing text.

An example is a constant context; those to learn from carry arm:cost:probability, and there are only
a few of them because epsilon-greedy gives an arm one of a few probabilities.
"""

from __future__ import annotations

from functools import cache
from random import Random
from typing import Any

import vowpalwabbit
from bernoulli import Environment
from stopwatch import Play, report


def decide(arms: int) -> Play:
    pull = Environment(arms).pull
    options = f"--cb_explore {arms} --cb_type dm --epsilon 0.05 --quiet"
    workspace = vowpalwabbit.Workspace(options)
    context = workspace.example("|")
    choices, numbers = Random(1).choices, range(arms)

    @cache
    def feedback(arm: int, reward: float, probability: float) -> Any:
        return workspace.example(f"{arm + 1}:{-reward}:{probability} |")

    def play(steps: int) -> int:
        for _ in range(steps):
            probabilities = workspace.predict(context)
            arm = choices(numbers, probabilities)[0]
            _, reward, _ = pull(arm)
            workspace.learn(feedback(arm, reward, probabilities[arm]))
        return steps

    play(10 * arms)
    return play


report(decide)
