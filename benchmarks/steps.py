"""Steps per second of the CPU engine, compared with a hand-written AVX2 probe if it compiles.

    python -m benchmarks.steps [--probe benchmarks/probes/avx2.cpp] [--repeats 12]

The probe is LyOn at K = 2 in single precision on one thread. All cases run in turn, repeatedly, on
one machine, and each figure is the best of its repeats, so that ratios are more reliable than
single timings.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import page
from tightrope import LyOff, LyOn, Policy, ready_problem, simulate

SECONDS = 0.1  # about how long one timing takes
PROBE = Path(__file__).parent / "probes" / "avx2.cpp"
REPEATS = 12
CORES = os.cpu_count() or 1


@dataclass
class Case:
    """One row of the table: what is timed, and the best so far in nanoseconds per step."""

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
        else:  # from the first timing, choose how many runs (whole lanes) fill the time
            unit = 128 * self.threads
            self.runs = max(1, round(SECONDS * runs / elapsed / unit)) * unit


def table_cases() -> list[Case]:
    threads = dict.fromkeys((1, CORES))
    return [
        Case(policy, arms, 30_000, count)
        for policy in (LyOn(), LyOff())
        for arms in (2, 10, 100)
        for count in threads
    ]


@dataclass
class Timings:
    """All cases that are timed in turn, and the probe's best (infinite without a probe)."""

    table: list[Case] = field(default_factory=table_cases)
    by_budget: list[Case] = field(
        default_factory=lambda: [Case(LyOn(), 2, budget, 1) for budget in (1e3, 1e4, 1e5)]
    )
    by_arms: list[Case] = field(
        default_factory=lambda: [Case(LyOn(), arms, 3e3, 1) for arms in (10, 20, 50, 100)]
    )
    probe: float = float("inf")

    def run(self, source: Path, repeats: int) -> None:
        with compiled_probe(source) as program:
            for _ in range(repeats + 1):
                for case in (*self.table, *self.by_budget, *self.by_arms):
                    case.time()
                if program:
                    self.probe = min(self.probe, probe_nanoseconds(program))


@contextmanager
def compiled_probe(source: Path) -> Iterator[Path | None]:
    """The compiled probe; if that fails, None, with the reason printed."""
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None or not source.exists():
        print(f"no probe: {f'{source} is not there' if compiler else 'no C++ compiler'}\n")
        yield None
        return
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "probe"
        options = ["-O3", "-march=native", "-ffast-math", "-w"]
        done = subprocess.run([compiler, *options, str(source), "-o", str(program)])
        if done.returncode:
            print(f"no probe: {compiler} does not compile {source} for this processor\n")
        yield None if done.returncode else program


def probe_nanoseconds(program: Path) -> float:
    """The best of the probe's interleavings."""
    text = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    return min(float(line.split()[1]) for line in text.splitlines())


def steps_table(cases: list[Case]) -> str:
    head = ["policy", "K", "threads", "ns per step", "steps per second", "ns per step and arm"]
    return page.table(
        head,
        (
            [
                case.policy.label,
                f"{case.arms}",
                f"{case.threads}",
                f"{case.best:.2f}",
                f"{1e9 / case.best:.2e}",
                f"{case.best / case.arms:.2f}",
            ]
            for case in cases
        ),
    )


def small_table(cases: list[Case]) -> str:
    rows = ([f"{case.arms}", f"{case.budget:g}", f"{case.best:.2f}"] for case in cases)
    return page.table(["K", "budget", "ns per step"], rows)


def probe_line(probe: float, lyon: Case) -> str:
    if probe == float("inf"):
        return "The probe was not measured (no compiler, or a processor without AVX2)."
    return (
        f"The probe takes {probe:.2f} ns per step. LyOn with two arms takes"
        f" {lyon.best / probe:.2f} times as long on one thread."
    )


def threads_line(cases: list[Case]) -> str:
    """How many times faster all threads are than one."""
    if CORES == 1:
        return "This machine has one core."
    gains = [one.best / all_.best for one, all_ in zip(cases[::2], cases[1::2], strict=True)]
    return f"{CORES} threads are {min(gains):.2f} to {max(gains):.2f} times as fast as one."


def block(source: Path = PROBE, repeats: int = REPEATS) -> str:
    """Time everything; returns the page's block."""
    timings = Timings()
    timings.run(source, repeats)
    return "\n\n".join(
        (
            f"{page.machine()}; best of {repeats}.",
            steps_table(timings.table),
            f"{probe_line(timings.probe, timings.table[0])} {threads_line(timings.table)}",
            small_table([*timings.by_budget, *timings.by_arms]),
        )
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--probe", type=Path, default=PROBE)
    parser.add_argument("--repeats", type=int, default=REPEATS)
    options = parser.parse_args()
    print(block(options.probe, options.repeats))


if __name__ == "__main__":
    main()
