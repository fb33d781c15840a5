"""What learning from a log does to the risk and to the reward, if the log is right or wrong.

    python -m benchmarks.past_log [--runs 400] [--budget 1000] [--rows 300] [--weight 0.3 ...]
                                  [--log cold right ...] [--plain]

Requests have three types and three arms. Before each run a log of ``--rows`` requests, with the
outcome of every arm, is drawn and learned from. ``right``: from the truth. ``bad/2``, ``bad*2``:
its penalties are half or twice as frequent as in truth; ``reward/2``: its rewards half as frequent.
For each: the share of runs that end above the limit with its 95 % interval, the penalties over the
limit, and the mean reward as a share of the best mixture's. ``--plain``: a task without types.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tightrope import (
    Arm,
    Bernoulli,
    Constant,
    Controller,
    FullTable,
    Limit,
    Problem,
    oracle,
    parse_policy,
)
from tightrope.statistics import wilson

__all__ = ["LOGS", "main", "measured", "problem"]

ARMS = ("small", "medium", "large")
SHARES = {"chat": 0.5, "code": 0.3, "math": 0.2}
REWARD = np.array([[0.5, 0.7, 0.9], [0.6, 0.65, 0.7], [0.4, 0.6, 0.85]])  # [types, arms]
BAD = np.array([[0.05, 0.2, 0.5], [0.05, 0.15, 0.4], [0.1, 0.3, 0.35]])
LIMIT = {"bad": Limit(0.2, per="pull")}
LOGS = {"cold": None, "right": (1, 1), "bad/2": (1, 0.5), "bad*2": (1, 2), "reward/2": (0.5, 1)}
POLICY = "resolve:risk=0.01"

Floats = npt.NDArray[np.float64]


def problem(typed: bool) -> Problem:
    """The truth, with or without types."""

    def arms(reward: Floats, bad: Floats) -> list[Arm]:
        pairs = zip(ARMS, reward.tolist(), bad.tolist(), strict=True)
        return [Arm(name, Constant(1.0), Bernoulli(r), Bernoulli(y)) for name, r, y in pairs]

    if typed:
        rows = zip(SHARES, REWARD, BAD, strict=True)
        by_type = {name: arms(*means) for name, *means in rows}
        return Problem(by_type, limits=LIMIT, costs=1, contexts=SHARES)
    shares = np.array(list(SHARES.values()))
    return Problem(arms(shares @ REWARD, shares @ BAD), limits=LIMIT, costs=1)


def drawn(random: np.random.Generator, rows: int, factors: Sequence[float] = (1, 1)) -> FullTable:
    """Requests with the outcome of every arm; ``factors``: of the frequencies."""
    kinds = random.choice(len(SHARES), size=rows, p=list(SHARES.values()))
    outcomes = np.ones((rows, len(ARMS), 3))
    for channel, (means, factor) in enumerate(zip((REWARD, BAD), factors, strict=True), start=1):
        outcomes[:, :, channel] = random.random((rows, len(ARMS))) < means[kinds] * factor
    return FullTable(ARMS, ["bad"], outcomes, contexts=[list(SHARES)[kind] for kind in kinds])


def measured(
    name: str, weight: float, budget: int, rows: int, runs: int, typed: bool
) -> tuple[Floats, Floats]:
    """The reward and the penalty of every run, [runs]."""
    task, policy, factors = problem(typed).task, parse_policy(POLICY), LOGS[name]
    reward, bad = np.zeros(runs), np.zeros(runs)
    for run in range(runs):
        random = np.random.default_rng([7, run])
        log = None if factors is None else drawn(random, rows, factors)
        coming = drawn(random, budget)
        controller = Controller(task, policy, budget, seed=run, learn_from=log, weight=weight)
        lines = zip(coming.contexts or (), coming.outcomes.tolist(), strict=True)
        for kind, arms in lines:
            context = {"context": kind} if typed else {}
            arm = controller.ask(**context)
            _, won, broke = arms[arm]
            controller.tell(arm, reward=won, penalty=broke, **context)
            reward[run] += won
            bad[run] += broke
    return reward, bad


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--budget", type=int, default=1000)
    parser.add_argument("--rows", type=int, default=300)
    parser.add_argument("--weight", type=float, nargs="+", default=[0.3, 1.0])
    parser.add_argument("--log", nargs="+", choices=LOGS, default=list(LOGS))
    parser.add_argument("--plain", action="store_true")
    given = parser.parse_args()
    best = oracle(problem(not given.plain)).reward_rate * given.budget
    allowed = LIMIT["bad"].number * given.budget
    print("| log | weight | runs above the limit | penalties / limit | reward / best mixture |")
    print("|---|---|---|---|---|")
    for name in given.log:
        for weight in given.weight[: 1 if name == "cold" else None]:
            sizes = (given.budget, given.rows, given.runs)
            reward, bad = measured(name, weight, *sizes, typed=not given.plain)
            broken = int((bad > allowed).sum())
            low, high = wilson(broken, given.runs)
            chance = f"{broken / given.runs:.1%} ({low:.1%} to {high:.1%})"
            shown = "" if name == "cold" else f"{weight:g}"
            rates = f"{bad.mean() / allowed:.3f} | {reward.mean() / best:.3f}"
            print(f"| {name} | {shown} | {chance} | {rates} |", flush=True)


if __name__ == "__main__":
    main()
