"""SMPyBandits: choice and getReward; its runner is the Evaluator, which draws its own rewards."""

from __future__ import annotations

from contextlib import redirect_stdout
from os import devnull

from bernoulli import Environment, means
from SMPyBandits.Arms import Bernoulli
from SMPyBandits.Environment import Evaluator
from SMPyBandits.Policies import UCBalpha
from stopwatch import Play, report


def decide(arms: int) -> Play:
    pull = Environment(arms).pull
    policy = UCBalpha(arms, alpha=1)
    policy.startGame()

    def play(steps: int) -> int:
        for _ in range(steps):
            arm = policy.choice()
            _, reward, _ = pull(arm)
            policy.getReward(arm, reward)
        return steps

    play(10 * arms)
    return play


def run(arms: int) -> Play:
    rewards = [reward for _, reward, _ in means(arms)]

    def play(steps: int) -> int:
        settings = {
            "horizon": steps,
            "repetitions": 1,
            "n_jobs": 1,
            "verbosity": 0,
            "environment": [{"arm_type": Bernoulli, "params": rewards}],
            "policies": [{"archtype": UCBalpha, "params": {"alpha": 1}}],
        }
        with open(devnull, "w") as nowhere, redirect_stdout(nowhere):
            Evaluator(settings).startAllEnv()
        return steps

    play(10 * arms)
    return play


report(decide, run)
