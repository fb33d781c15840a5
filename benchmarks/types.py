"""The time of a step with types of requests, over that of the plain policy with as many rows.

    python -m benchmarks.types [--policy resolve:risk=0.01] [--types 8] [--arms 3] [--repeats 9]

The plain policy has an arm for each type and arm. Both run in turn on one thread. Prints a row of
CSV for Bernoulli costs and one for a known cost of 1: the fewest nanoseconds of CPU time a step,
without compiling, and their ratio.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any

import numpy as np

from benchmarks.rows import print_rows
from tightrope import Problem, parse_policy
from tightrope.engine.planning import plan_jobs
from tightrope.engine.single import plan_single
from tightrope.problem import Arm
from tightrope.problem.distributions import Bernoulli, Constant

__all__ = ["main", "problems"]

BUDGET, RUNS = 10_000.0, 4


def problems(types: int, arms: int, known: bool) -> tuple[Problem, Problem]:
    """Requests with types, and a plain problem whose arms are their rows."""
    draw = Random(0).uniform
    rows = [
        [Constant(1.0), *coins] if known else [Bernoulli(draw(0.3, 0.7)), *coins]
        for coins in ([Bernoulli(draw(0.3, 0.7)) for _ in range(2)] for _ in range(types * arms))
    ]
    named = [Arm(f"arm {row % arms + 1}", *laws) for row, laws in enumerate(rows)]
    by_type = {f"type {x + 1}": named[x * arms : (x + 1) * arms] for x in range(types)}
    plain = [Arm(f"row {row + 1}", *laws) for row, laws in enumerate(rows)]
    told: Any = {"limit": 0.48, "costs": 1.0} if known else {"limit": 0.9}
    shares = dict.fromkeys(by_type, 1.0)
    return Problem(by_type, contexts=shares, **told), Problem(plain, **told)


def _timer(problem: Problem, policy: str) -> Callable[[], float]:
    """A function that returns the nanoseconds of a step."""
    given = {policy: parse_policy(policy)}
    (job,) = plan_jobs(problem, given, [BUDGET], RUNS, seed=0, backend="cpu").values()
    plan = plan_single(job)
    plan.compile()

    def timed() -> float:
        start = time.process_time()
        found, _ = plan.run(np.arange(RUNS), np.zeros(1, np.uint8))
        assert found is not None
        return 1e9 * (time.process_time() - start) / float(found.pulls.sum())

    return timed


def lines(policy: str, types: int, arms: int, repeats: int) -> Iterator[dict[str, object]]:
    """A row for learned costs and one for known ones."""
    for known in (False, True):
        timers = [_timer(problem, policy) for problem in problems(types, arms, known)]
        found = [[timed() for timed in timers] for _ in range(repeats)]
        typed, plain = map(min, zip(*found, strict=True))
        yield {
            "costs": "known" if known else "learned",
            "types": types,
            "arms": arms,
            "ns with types": typed,
            "ns plain": plain,
            "ratio": typed / plain,
        }


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a row for each kind of cost."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--policy", default="resolve:risk=0.01")
    parser.add_argument("--types", type=int, default=8)
    parser.add_argument("--arms", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=9)
    asked = parser.parse_args(arguments)
    print_rows(lines(asked.policy, asked.types, asked.arms, asked.repeats))


if __name__ == "__main__":
    main()
