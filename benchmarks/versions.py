"""Compare this checkout with the last release: steps, decisions, campaigns, compiling, the GPU.

    git worktree add ../release v0.2.0          # or any other checkout
    python -m benchmarks.versions ../release/src [--repeats 3] [--only steps live compile gpu]

Every change that touches a kernel is held to it. The versions run in turn, each in a process of its
own, and only calls that both have are timed. ``compile`` starts with an empty cache on the disk and
counts the processor's seconds. ``gpu`` is left out where there is none. The output is CSV, as in
docs/data/versions.csv.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

PARTS = ("steps", "live", "compile", "gpu")
CASES = [
    ("lyon", 2, 3e4, 512),
    ("lyon", 6, 3e4, 256),
    ("lyon", 10, 3e4, 256),
    ("lyon", 100, 3e4, 64),
    ("lyon", 1000, 1e4, 64),
    ("lyoff", 2, 3e4, 512),
    ("lyoff", 10, 3e4, 256),
    ("lyon:window0=2", 2, 1e4, 16),
    ("resolve", 2, 1e4, 60),  # long calls: of 4 to 8 runs a call's start is a good part
    ("resolve", 10, 1e4, 40),
    ("resolve", 50, 1e4, 12),
    ("ts-lp", 2, 1e3, 32),
]
LIVE = [
    ("lyon", 2), ("lyon", 3), ("lyon", 100), ("lyon:window0=0.1", 2), ("resolve", 2),
    ("resolve", 10),
]  # fmt: skip
GPU = [
    ("resolve", 2, 1e4, 200_000), ("resolve", 10, 1e4, 100_000), ("resolve", 50, 1e4, 40_000),
    ("lyon", 2, 1e5, 1_000_000), ("lyon", 10, 1e4, 200_000), ("lyon", 50, 1e4, 100_000),
]  # fmt: skip
TELLS = 3000
EVENTS = 2000


def problem_of(arms: int):
    from tightrope import Problem, ready_problem

    if arms == 2 or arms in (6, 10, 50, 100):
        return ready_problem("paper" if arms == 2 else f"paper-arms-{arms}")
    means = np.random.default_rng(1).uniform(0.1, 0.9, (3, arms))
    return Problem.from_bernoulli(*means, limit=0.8)


def simulated(text: str, arms: int, budget: float, runs: int, **options):
    from tightrope import parse_policy, simulate

    policies = {"": parse_policy(text)}
    made = simulate(
        problem_of(arms), policies, budgets=budget, runs=runs, progress=False, **options
    )
    return made[""]


def steps(found: dict[str, float]) -> None:
    """Nanoseconds per step on one thread."""
    for text, arms, budget, runs in CASES:
        name = f"{text}, {arms} arms: a step, ns"
        for _ in range(4):
            record = simulated(text, arms, budget, runs, threads=1, backend="cpu")
            taken = 1e9 * record.seconds[0] / int(record.runs.pulls.sum())
            found[name] = min(found.get(name, taken), taken)


def live(found: dict[str, float]) -> None:
    """Nanoseconds per ask and tell; microseconds per decision of a campaign and its report."""
    from tightrope import Controller, open_campaign, parse_policy

    for text, arms in LIVE:
        controller = Controller(problem_of(arms), parse_policy(text), 1e9)
        flying = Controller(problem_of(arms), parse_policy(text), 1e9)
        asked = flying.ask_many(8)
        for _ in range(5):
            start = time.perf_counter()
            for _ in range(TELLS):
                controller.tell(controller.ask(), 1.0, 0.5, 0.3)
            middle = time.perf_counter()
            for at in range(TELLS):
                flying.tell(asked[at % 8], 1.0, 0.5, 0.3)
                asked[at % 8] = flying.ask()
            for name, taken in (
                ("ask and tell", middle - start),
                ("with 8 in flight", time.perf_counter() - middle),
            ):
                least(found, f"{text}, {arms} arms: {name}, ns", 1e9 * taken / TELLS)
    with tempfile.TemporaryDirectory() as folder:
        task = problem_of(2).task
        with open_campaign(f"{folder}/x.db", "x", task=task, budget=1e9, policy="resolve") as one:
            time.sleep(20.0)  # kernels are compiled or loaded meanwhile
            for _ in range(5):
                start = time.perf_counter()
                for _ in range(EVENTS // 2):
                    one.tell(one.ask().id, 1.0, 0.5, 0.3)
                taken = 1e6 * (time.perf_counter() - start) / EVENTS
                least(found, "campaign in SQLite, resolve: an event, us", taken)


def least(found: dict[str, float], name: str, taken: float) -> None:
    found[name] = min(found.get(name, taken), taken)


def gpu(found: dict[str, float]) -> None:
    """Nanoseconds per step on a GPU, copies included."""
    from tightrope.engine.gpu import available

    for text, arms, budget, runs in GPU if available() else ():
        for _ in range(3):
            record = simulated(text, arms, budget, runs, backend="gpu")
            taken = 1e9 * record.seconds[0] / int(record.runs.pulls.sum())
            least(found, f"GPU: {text}, {arms} arms: a step, ns", taken)


COMPILE = {
    "first simulate of resolve, nothing on the disk": ["sim('resolve')"],
    "first simulate of resolve, after another policy": ["sim('ts-lp')", "sim('resolve')"],
    "resolve in a campaign, one limit": ["control(task())"],
    "resolve in a campaign, several limits": [
        "control(task(), 'ts-lp')",
        "control(task(limits=2))",
    ],
    "declared means, after a plain task": ["control(task())", "control(task(means=True))"],
    "a hard limit, after a plain task": ["control(task())", "control(task(hard=True))"],
}
PROGRAM = """
import sys, time, warnings
warnings.simplefilter("ignore")
from tightrope import Controller, Limit, Task, parse_policy, ready_problem, simulate
def sim(policy):
    simulate(ready_problem("paper"), parse_policy(policy), budgets=1000, runs=1000, progress=False)
def task(limits=1, means=False, hard=False):
    listed = {f"bad{m}": Limit(0.5, hard=hard) for m in range(limits)}
    guess = {"a": {"reward": 0.5}} if means else {}
    return Task(["a", "b", "c"], listed, expected=guess)
def control(task, policy="resolve"):
    one = Controller(task, parse_policy(policy), 1000)
    penalty = [0.0] * len(task.limits)
    for arm in one.ask_many(4):
        one.tell(arm, 1.0, 0.5, penalty)
clock = getattr(time, sys.argv[1])
for line in sys.argv[2:-1]:
    exec(line)
start = clock()
exec(sys.argv[-1])
print(clock() - start)
"""


def compiled(source: Path) -> dict[str, float]:
    """Seconds of compiling, each with an empty cache: of the processor, or on the clock."""
    found = {}
    for name, lines in COMPILE.items():
        clock = "perf_counter" if "simulate" in name else ""
        with tempfile.TemporaryDirectory() as folder:
            environment = {"PYTHONPATH": str(source), "NUMBA_CACHE_DIR": folder}
            done = subprocess.run(
                [sys.executable, "-c", PROGRAM, clock or "process_time", *lines],
                env={**os.environ, **environment},
                capture_output=True,
                text=True,
                check=True,
            )
        unit = "s" if clock else "CPU s"
        found[f"{name}, {unit}"] = float(done.stdout.splitlines()[-1])
    return found


def measured(source: Path, parts: list[str]) -> dict[str, float]:
    """All timings of a version."""
    found = compiled(source) if "compile" in parts else {}
    others = [part for part in parts if part != "compile"]
    if others:
        text = subprocess.run(
            [sys.executable, __file__, "--measure", *others],
            env={**os.environ, "PYTHONPATH": str(source)},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        ).stdout
        found |= json.loads(text.splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("other", type=Path, help="the src folder of the last release")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    options = parser.parse_args()
    here = Path(__file__).parents[1] / "src"
    best: dict[Path, dict[str, float]] = {options.other.resolve(): {}, here.resolve(): {}}
    for _ in range(options.repeats):
        for source, rows in best.items():
            for name, taken in measured(source, options.only).items():
                least(rows, name, taken)
    old, new = best.values()
    print("what,unit,last release,now,ratio")
    for name, taken in new.items():
        what, _, unit = name.rpartition(", ")
        print(f'"{what}",{unit},{old[name]:.4g},{taken:.4g},{taken / old[name]:.3g}')


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        warnings.simplefilter("ignore")
        timings: dict[str, float] = {}
        for part in sys.argv[2:]:
            {"steps": steps, "live": live, "gpu": gpu}[part](timings)
        print(json.dumps(timings))
    else:
        main()
