"""Steps a second of the CPU engine, beside the hand-written AVX2 probe where one can be compiled.

    python benchmarks/steps.py [--probe ../shared/limits/avx2.cpp] [--repeats 12]

The probe is LyOn at K = 2 in single precision on one thread. Everything runs in turn, again and
again, on one machine, and each figure is the best of its repeats: so ratios mean something where
single timings do not.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tightrope import LyOff, LyOn, Policy, ready_problem, simulate

SECONDS = 0.1  # about what one timing takes


@dataclass
class Case:
    """One row of the table: what is timed, and the best so far in nanoseconds a step."""

    policy: Policy
    arms: int
    budget: float
    threads: int
    runs: int = 0
    best: float = float("inf")

    def time(self) -> None:
        problem = ready_problem("paper" if self.arms == 2 else f"paper-arms-{self.arms}")
        runs = self.runs or 128 * self.threads
        results = simulate(
            problem,
            self.policy,
            budgets=self.budget,
            runs=runs,
            threads=self.threads,
            progress=False,
        )
        record = results[self.policy.label]
        elapsed = record.seconds[0]
        if self.runs:
            self.best = min(self.best, 1e9 * elapsed / int(record.runs.pulls.sum()))
        else:  # the first one tells how many runs fill the time, in whole lanes
            unit = 128 * self.threads
            self.runs = max(1, round(SECONDS * runs / elapsed / unit)) * unit


@contextmanager
def compiled_probe(source: Path) -> Iterator[Path | None]:
    """The probe's program, or None and the reason."""
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None or not source.exists():
        print(f"no probe: {f'{source} is not there' if compiler else 'no C++ compiler'}\n")
        yield None
        return
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "probe"
        options = ["-O3", "-march=native", "-ffast-math", "-w"]
        subprocess.run([compiler, *options, str(source), "-o", str(program)], check=True)
        yield program


def probe_nanoseconds(program: Path) -> float:
    """The best of the probe's interleavings."""
    text = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    return min(float(line.split()[1]) for line in text.splitlines())


def processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--probe", type=Path, default=Path("../shared/limits/avx2.cpp"))
    parser.add_argument("--repeats", type=int, default=12)
    options = parser.parse_args()
    cores = os.cpu_count() or 1
    threads = list(dict.fromkeys((1, cores)))
    table = [
        Case(policy, arms, 30_000, count)
        for policy in (LyOn(), LyOff())
        for arms in (2, 10, 100)
        for count in threads
    ]
    by_budget = [Case(LyOn(), 2, budget, 1) for budget in (1_000, 10_000, 100_000)]
    by_arms = [Case(LyOn(), arms, 3_000, 1) for arms in (10, 20, 50, 100)]
    limit = float("inf")
    with compiled_probe(options.probe) as program:
        for _ in range(options.repeats + 1):
            for case in (*table, *by_budget, *by_arms):
                case.time()
            if program:
                limit = min(limit, probe_nanoseconds(program))

    print(f"{processor()}, {cores} processors, best of {options.repeats}\n")
    print("| policy | K | threads | ns a step | steps a second | ns a step and arm |")
    print("|---|---|---|---|---|---|")
    for case in table:
        print(
            f"| {case.policy.label} | {case.arms} | {case.threads} | {case.best:.2f}"
            f" | {1e9 / case.best:.2e} | {case.best / case.arms:.2f} |"
        )
    if limit < float("inf"):
        ratio = table[0].best / limit
        print(
            f"\nThe probe: {limit:.2f} ns a step. LyOn, K = 2, one thread: {ratio:.2f} times that."
        )
    print("\nLyOn on one thread, ns a step:")
    print("  as B grows, K = 2:  ", ", ".join(f"{c.budget:g}: {c.best:.2f}" for c in by_budget))
    print("  as K grows, B = 3000:", ", ".join(f"{c.arms}: {c.best:.1f}" for c in by_arms))


if __name__ == "__main__":
    main()
