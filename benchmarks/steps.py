"""Steps a second of the CPU engine, beside the hand-written AVX2 probe where one can be compiled.

    python benchmarks/steps.py [--probe ../shared/limits/avx2.cpp] [--seconds 1.0]

Everything runs in one process on one machine, each figure the best of several, so that ratios mean
something on a noisy machine. The probe is LyOn at K = 2 in single precision, one thread.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from tightrope import LyOff, LyOn, Policy, ready_problem, simulate

BUDGET = 30_000  # the probe's
REPEATS = 5


def nanoseconds(policy: Policy, arms: int, budget: float, threads: int, seconds: float) -> float:
    """Elapsed nanoseconds a step: the best of several simulations of about ``seconds`` each."""
    problem = ready_problem("paper" if arms == 2 else f"paper-arms-{arms}")
    runs = 128 * threads
    best = float("inf")
    for repeat in range(REPEATS + 1):
        results = simulate(
            problem, policy, budgets=budget, runs=runs, threads=threads, progress=False
        )
        record = results[policy.label]
        elapsed, steps = record.seconds[0], int(record.runs.pulls.sum())
        if repeat:
            best = min(best, 1e9 * elapsed / steps)
        else:  # the first one tells how many runs fill the time, in whole lanes
            runs = max(1, round(seconds * runs / elapsed / (128 * threads))) * 128 * threads
    return best


def probe(source: Path) -> list[float] | None:
    """The probe's nanoseconds a step for each of its interleavings; None without a compiler."""
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None or not source.exists():
        print(f"no probe: {'no C++ compiler' if compiler is None else f'{source} is not there'}")
        return None
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "probe"
        subprocess.run(
            [
                compiler,
                "-O3",
                "-march=native",
                "-ffast-math",
                "-w",
                str(source),
                "-o",
                str(program),
            ],
            check=True,
        )
        outputs = [
            subprocess.run([program], check=True, capture_output=True, text=True).stdout
            for _ in range(REPEATS)
        ]
    timings = [[float(line.split()[1]) for line in text.splitlines()] for text in outputs]
    return [min(column) for column in zip(*timings, strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--probe", type=Path, default=Path("../shared/limits/avx2.cpp"))
    parser.add_argument("--seconds", type=float, default=1.0, help="for each simulation")
    options = parser.parse_args()
    cores = os.cpu_count() or 1

    limits = probe(options.probe)
    if limits:
        for vectors, value in zip((1, 2, 4, 8), limits, strict=True):
            print(f"probe, {vectors} vectors: {value:.2f} ns a step")
    print(f"\n{'policy':8}{'K':>6}{'threads':>9}{'ns/step':>9}{'steps/s':>10}{'ns/arm':>8}  beside")
    for policy in (LyOn(), LyOff()):
        for arms in (2, 10, 100):
            for threads in dict.fromkeys((1, cores)):
                value = nanoseconds(policy, arms, BUDGET, threads, options.seconds)
                beside = ""
                if limits and policy == LyOn() and arms == 2 and threads == 1:
                    beside = f"{value / min(limits):.2f} x the probe's best"
                print(
                    f"{policy.label:8}{arms:6}{threads:9}{value:9.2f}{1e9 / value:10.2e}"
                    f"{value / arms:8.2f}  {beside}"
                )
    print("\nLyOn, one thread, K = 2 as B grows, and B = 30000 as K grows (ns a step; ns an arm)")
    for budget in (1_000, 10_000, 100_000):
        value = nanoseconds(LyOn(), 2, budget, 1, options.seconds)
        print(f"  B = {budget:7}: {value:7.2f}")
    for arms in (10, 20, 50, 100):
        value = nanoseconds(LyOn(), arms, 3_000, 1, options.seconds)
        print(f"  K = {arms:7}: {value:7.2f}  {value / arms:5.2f}")


if __name__ == "__main__":
    main()
