"""The time of a decision with 10^3 to 10^6 arms, in the simulator and through Controller.

    python -m benchmarks.many_arms [--arms 1000 10000 100000 1000000] [--seed 1] [--no-controller]

The arms have random means, with zero-one outcomes or uniform ones (continuous, so that no two arms
are alike). A step of the simulator is a decision, a draw and an update. *Full* computes every arm's
index; it is timed for a few steps of the same run and must make the same pulls. *Indices*: how many
a step computes on average. Times of the simulator are CPU times of its one thread, so that other
work on the machine matters less. *Live* is an ask and a tell of Controller, in wall-clock time.
Prints rows of CSV.
"""

from __future__ import annotations

import argparse
import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from benchmarks.rows import print_rows
from tightrope import Arm, Controller, LyOff, LyOn, Problem, Uniform
from tightrope.engine import cpu
from tightrope.engine.job import Job
from tightrope.engine.planning import plan_jobs
from tightrope.engine.single import SingleRun, SingleRunPlan, plan_single
from tightrope.kernels.run_state import EVALUATED, EXPLORE
from tightrope.kernels.spec import SCAN
from tightrope.policies import IndexPolicy

BUDGETS = {1_000: 1e6, 10_000: 1e6, 100_000: 1e7, 1_000_000: 1e8}
PHASES = {
    "at once": (1, 20_000),
    "after 10^5": (100_000, 50_000),
    "after 10^6": (1_000_000, 50_000),
}
POLICIES: list[IndexPolicy] = [LyOn(), LyOn(v=100.0), LyOff()]
Row = dict[str, str | int | float | None]
KEEP_RUNNING = np.zeros(1, np.uint8)


def coins(arms: int, seed: int) -> Problem:
    means = np.random.default_rng(seed).uniform((0.2, 0.05, 0.05), (0.9, 0.95, 0.95), (arms, 3))
    return Problem.from_bernoulli(*means.T, limit=0.5, name="zero-one")


def ranges(arms: int, seed: int) -> Problem:
    ends = np.random.default_rng(seed).uniform((0.4, 0.1, 0.1), 1.0, (arms, 3)).tolist()
    made = [Arm(str(k), *(Uniform(0.0, end) for end in row)) for k, row in enumerate(ends, start=1)]
    return Problem(made, limit=0.5, name="uniform")


FAMILIES = {"zero-one": coins, "uniform": ranges}


def job_for(problem: Problem, policy: IndexPolicy, budget: float) -> Job:
    return plan_jobs(problem, {"": policy}, [budget], 1, seed=1)["", budget]


def one_run(plan: SingleRunPlan) -> SingleRun:
    return SingleRun(plan, np.array([0]))


def timed(run: SingleRun, steps: int) -> float:
    """Nanoseconds per step over the next ``steps``."""
    start, before = time.thread_time(), run.step
    run.advance(before + steps, KEEP_RUNNING, count=False)
    return 1e9 * (time.thread_time() - start) / max(run.step - before, 1)


def pulls_of(run: SingleRun) -> np.ndarray:
    return run.state["totals"][:, 0].copy()


def full(plan: SingleRunPlan) -> tuple[float, np.ndarray]:
    """Nanoseconds per step if every index is computed, right after exploring; and the pulls."""
    scan = dataclasses.replace(plan, spec=dataclasses.replace(plan.spec, method=SCAN))
    scan.compile()
    run = one_run(scan)
    run.advance(int(run.state["counts"][EXPLORE]), KEEP_RUNNING, count=False)
    steps = max(20, 2_000_000 // plan.job.arm_count)
    return timed(run, steps), pulls_of(run)


def side_by_side(problem: Problem, policy: IndexPolicy, budget: float) -> float:
    """Nanoseconds per step and run with many runs in SIMD lanes, right after exploring."""
    plan = cpu.LanesPlan(job_for(problem, policy, budget))
    plan.compile()
    runs = np.arange(plan.spec.lanes)
    lanes = cpu.Lanes(plan, runs, *plan.seeds(runs))
    lanes.advance(plan.job.setup.explore * problem.arm_count, KEEP_RUNNING)
    start, before = time.thread_time(), lanes.step
    lanes.advance(before + 1_000, KEEP_RUNNING)
    return 1e9 * (time.thread_time() - start) / (lanes.step - before) / len(runs)


def simulated(problem: Problem, policy: IndexPolicy, budget: float) -> dict[str, float]:
    plan = plan_single(job_for(problem, policy, budget), many_arms=True)
    plan.compile()
    row = {}
    row["full (ns)"], pulls = full(plan)
    run = one_run(plan)
    counts = run.state["counts"]
    explore = int(counts[EXPLORE])
    row["exploring (ns)"] = timed(run, explore) if explore else 0.0
    row["first decision (ns)"] = timed(run, 1)
    run.advance(explore + max(20, 2_000_000 // problem.arm_count), KEEP_RUNNING, count=False)
    assert np.array_equal(pulls_of(run), pulls), "not the same pulls as by full"
    for phase, (start, steps) in PHASES.items():
        run.advance(explore + start, KEEP_RUNNING, count=False)
        looked = counts[EVALUATED]
        row[f"{phase} (ns)"] = timed(run, steps) if run.running else float("nan")
        row[f"{phase}, indices"] = (counts[EVALUATED] - looked) / steps
    return row


def controlled(problem: Problem, policy: IndexPolicy, budget: float) -> dict[str, float]:
    """Mean, 99.9th percentile and maximum of ask and tell, right after exploring and later."""
    controller = Controller(problem, policy, budget)
    means, random = problem.moments, np.random.default_rng(2)
    odds = np.column_stack([means.cost, means.reward, means.penalty])
    outcome = _outcomes(problem, odds, random)
    start = 0
    for _ in range(controller._state.setup.explore * problem.arm_count):
        arm = controller.ask()
        values = outcome(arm)
        start = time.perf_counter_ns()
        controller.tell(arm, *values)
    first = time.perf_counter_ns() - start if start else 0.0  # that tell decides too
    row = {"live, first decision (ns)": first}
    for phase, count in (("live, at once", 20_000), ("live, later", 100_000)):
        took = np.empty(count)
        for at in range(count):
            start = time.perf_counter_ns()
            arm = controller.ask()
            between = time.perf_counter_ns()
            values = outcome(arm)
            again = time.perf_counter_ns()
            controller.tell(arm, *values)
            took[at] = time.perf_counter_ns() - again + between - start
        row[f"{phase} (ns)"] = float(took.mean())
        row[f"{phase}, p99.9 (ns)"] = float(np.quantile(took, 0.999))
        row[f"{phase}, worst (ns)"] = float(took.max())
    return row


def _outcomes(
    problem: Problem, means: np.ndarray, random: np.random.Generator
) -> Callable[[int], tuple[float, float, float]]:
    """A fast function that draws one pull's outcomes."""
    rows, coin = means.tolist(), problem.bernoulli() is not None
    uniforms = _stream(random)

    def draw(arm: int) -> tuple[float, float, float]:
        x, r, y = rows[arm]
        a, b, c = next(uniforms), next(uniforms), next(uniforms)
        if coin:
            return float(a < x), float(b < r), float(c < y)
        return 2.0 * a * x, 2.0 * b * r, 2.0 * c * y

    return draw


def _stream(random: np.random.Generator) -> Iterator[float]:
    while True:
        yield from random.random(100_000).tolist()


def measured(families: Sequence[str], sizes: Sequence[int], seed: int, live: bool) -> Iterator[Row]:
    """A row for each family of outcomes, policy and number of arms."""
    for family in families:
        problems = {arms: FAMILIES[family](arms, seed) for arms in sizes}
        for policy in POLICIES:
            for arms, problem in problems.items():
                budget = BUDGETS.get(arms, 100.0 * arms)
                row: Row = {"policy": policy.label, "outcomes": family, "arms": arms}
                row |= simulated(problem, policy, budget)
                together = side_by_side(problem, policy, budget) if arms <= 4096 else None
                row["many runs at once (ns)"] = together
                if live:
                    row |= controlled(problem, policy, budget)
                yield row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--arms", type=int, nargs="+", default=list(BUDGETS))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--no-controller", action="store_true")
    parser.add_argument("--family", choices=[*FAMILIES, "both"], default="both")
    options = parser.parse_args()
    families = list(FAMILIES) if options.family == "both" else [options.family]
    print_rows(measured(families, options.arms, options.seed, not options.no_controller))


if __name__ == "__main__":
    main()
