"""tightrope: ask and tell of the live controller without storage; its runner is simulate."""

from __future__ import annotations

from bernoulli import LIMIT, Environment, means
from stopwatch import Play, report

from tightrope import Arm, Bernoulli, LyOn, Problem, simulate
from tightrope.live import Controller

BUDGET = 1e7  # of the live controller; never spent in a timing
SIMULATED = 30_000.0  # budget of a simulated run


def problem(arms: int) -> Problem:
    made = [
        Arm(f"arm {number}", Bernoulli(cost), Bernoulli(reward), Bernoulli(penalty))
        for number, (cost, reward, penalty) in enumerate(means(arms), start=1)
    ]
    return Problem(made, limit=LIMIT)


def decide(arms: int) -> Play:
    pull = Environment(arms).pull
    controller = Controller(problem(arms), LyOn(), BUDGET)

    def play(steps: int) -> int:
        for _ in range(steps):
            arm = controller.ask()
            controller.tell(arm, *pull(arm))
        return steps

    play(30 * arms)  # past the initial exploration, 18 pulls of each arm
    return play


def run(arms: int) -> Play:
    played, policy = problem(arms), LyOn()
    pulls = SIMULATED / (sum(cost for cost, _, _ in means(arms)) / arms)  # per run, about

    def play(steps: int) -> int:
        runs = max(1, round(steps / pulls))
        results = simulate(played, policy, budgets=SIMULATED, runs=runs, threads=1, progress=False)
        return int(results[policy.label].runs.pulls.sum())

    play(1)  # compiles the kernel
    return play


report(decide, run)
