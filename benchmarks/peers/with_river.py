"""river: pull and update; its runner is bandit.evaluate, here on the shared environment."""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace

from bernoulli import Environment
from river import bandit
from stopwatch import Play, report


def decide(arms: int) -> Play:
    pull = Environment(arms).pull
    policy = bandit.UCB(delta=1, seed=1)
    choices = range(arms)

    def play(steps: int) -> int:
        for _ in range(steps):
            arm = policy.pull(choices)
            _, reward, _ = pull(arm)
            policy.update(arm, reward)
        return steps

    play(10 * arms)
    return play


class Gym:
    """The part of a gymnasium environment that bandit.evaluate uses."""

    def __init__(self, arms: int, steps: int) -> None:
        self.environment = Environment(arms)
        self.action_space = SimpleNamespace(n=arms, seed=lambda seed: None)
        self.left = steps

    def reset(self, seed: int) -> None:
        pass

    def step(self, arm: int) -> tuple[None, float, bool, bool, None]:
        self.left -= 1
        return None, self.environment.pull(arm)[1], self.left <= 0, False, None


def run(arms: int) -> Play:
    def play(steps: int) -> int:
        policies = [bandit.UCB(delta=1, seed=1)]
        trace = bandit.evaluate(policies, Gym(arms, steps), n_episodes=1, seed=1)
        deque(trace, maxlen=0)
        return steps

    play(10 * arms)
    return play


report(decide, run)
