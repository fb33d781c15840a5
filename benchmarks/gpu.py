"""Steps per second on a GPU, compared with this machine's CPUs and hand-written CUDA C++ kernels.

    python -m benchmarks.gpu [--probes benchmarks/probes] [--repeats 3]

The probes are LyOn at K = 2 (``few_arms.cu``) and with more arms (``many_arms.cu``); only the time
on the device counts. Ours are whole calls of ``simulate``, including copies to and from the device,
without compiling. Without a device, the benchmark is skipped.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import tempfile
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks import page
from tightrope import LyOff, LyOn, Policy, Problem, Resolve, Stationary, ready_problem, simulate
from tightrope.engine import gpu
from tightrope.errors import OutsideTheoryWarning
from tightrope.paper.figure1 import FIGURE1

PROBES = Path(__file__).parent / "probes"
REPEATS = 3
FIGURE_RUNS = 10_000


@dataclass(frozen=True)
class Case:
    """One row: a policy, a number of arms, a budget, how many runs on the GPU and on the CPU."""

    policy: Policy
    arms: int
    budget: float
    runs: int
    cpu_runs: int

    def rate(self, backend: str, runs: int) -> float:
        """Steps per second of one call."""
        record = simulate(
            paper_arms(self.arms),
            self.policy,
            budgets=self.budget,
            runs=runs,
            backend=backend,
            progress=False,
        )[self.policy.label]
        return float(record.runs.pulls.sum()) / record.seconds[0]


def paper_arms(arms: int) -> Problem:
    """The arms of Figure 1, or of Figures 2 and 3; beyond 100, continued by their rule."""
    if arms == 2:
        return ready_problem("paper")
    pair, odd = np.divmod(np.arange(arms), 2)
    cost = np.minimum(np.where(odd, 0.6, 0.4) * 1.005**pair, 1.0)
    rate = np.minimum(np.where(odd, 0.3, 0.6) * 1.01**pair, 1.0)
    return Problem.from_bernoulli(cost, rate, rate, limit=0.8)


CASES = (
    Case(LyOn(), 2, 1e5, 10_000, 4096),
    Case(LyOn(), 2, 1e5, 100_000, 4096),
    Case(LyOn(), 2, 1e5, 1_000_000, 4096),
    Case(LyOff(), 2, 1e5, 1_000_000, 4096),
    Case(Stationary(), 2, 1e5, 1_000_000, 4096),
    Case(LyOn(), 10, 1e4, 200_000, 8192),
    Case(LyOn(), 20, 1e4, 200_000, 8192),
    Case(LyOn(), 50, 1e4, 100_000, 4096),
    Case(LyOn(), 100, 1e4, 100_000, 4096),
    Case(LyOn(), 200, 1e4, 40_000, 2048),
    Case(Resolve(), 2, 1e4, 200_000, 1024),
    Case(Resolve(), 10, 1e4, 100_000, 512),
    Case(Resolve(), 50, 1e4, 40_000, 256),
)


def device_name() -> str:
    from numba import cuda

    name = cuda.get_current_device().name
    return name.decode() if isinstance(name, bytes) else name


def probe_rates(folder: Path) -> dict[int, float]:
    """The steps per second of all probes in a folder, by number of arms; empty without nvcc."""
    rates: dict[int, float] = {}
    for source in sorted(folder.glob("*.cu")) if shutil.which("nvcc") else ():
        with tempfile.TemporaryDirectory() as made:
            program = Path(made) / "probe"
            options = ["-O3", "-arch=native", "-use_fast_math", "-w"]
            subprocess.run(["nvcc", *options, str(source), "-o", str(program)], check=True)
            text = subprocess.run([program], check=True, capture_output=True, text=True).stdout
        for arms, rate in printed_rates(text):
            rates[arms] = max(rates.get(arms, 0.0), rate)
    return rates


def printed_rates(text: str) -> list[tuple[int, float]]:
    """Arms and steps per second from a probe's output; at K = 2 only the line with our sizes."""
    few = re.findall(r"runs 1000000 B 100000: .* ms, (\S+) steps/s", text)
    many = re.findall(r"K (\d+) G .* ms, (\S+) steps/s", text)
    return [(2, float(rate)) for rate in few] + [(int(arms), float(rate)) for arms, rate in many]


def figure_seconds(backend: str, runs: int) -> float:
    """Seconds for the runs of Figure 1: every policy, both delta0, fifteen budgets."""
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OutsideTheoryWarning)
        for call in FIGURE1.sweep:
            simulate(
                call.load(),
                call.policies,
                budgets=call.budgets,
                runs=runs,
                backend=backend,
                progress=False,
            )
    return time.perf_counter() - start


def block(probes: Path = PROBES, repeats: int = REPEATS) -> str | None:
    """Time everything; returns the page's block, or None without a device."""
    if not gpu.available():
        print("no GPU here: its block of the page is not changed\n")
        return None
    best = {case: [0.0, 0.0] for case in CASES}
    figure = float("inf")
    for _ in range(repeats + 1):  # the first compiles
        for case, rates in best.items():
            rates[0] = max(rates[0], case.rate("gpu", case.runs))
            rates[1] = max(rates[1], case.rate("cpu", case.cpu_runs))
        figure = min(figure, figure_seconds("gpu", FIGURE_RUNS))
    rows = (
        [
            case.policy.label,
            f"{case.arms}",
            f"{case.budget:g}",
            f"{case.runs:,}",
            f"{on_gpu:.2e}",
            f"{on_cpu:.2e}",
            f"{on_gpu / on_cpu:.0f}",
        ]
        for case, (on_gpu, on_cpu) in best.items()
    )
    head = ["policy", "K", "B", "runs", "steps per second", "on all processors", "times as many"]
    ratios = [
        f"{_fastest(best, arms) / rate:.2f} with {arms} arms"
        for arms, rate in probe_rates(probes).items()
        if _fastest(best, arms)
    ]
    beside = (
        "The speed of LyOn, copies included, relative to hand-written kernels on the device"
        f" alone: {', '.join(ratios)}."
        if ratios
        else "The probes were not measured (no nvcc, or their sources are missing)."
    )
    return "\n\n".join(
        (
            f"{device_name()}; {page.machine()}; best of {repeats}.",
            page.table(head, rows),
            beside,
            f"Figure 1 of the paper, all panels with {FIGURE_RUNS:,} runs, takes {figure:.2f} s.",
        )
    )


def _fastest(best: dict[Case, list[float]], arms: int) -> float:
    """LyOn's best steps per second with this many arms."""
    rates = [rates[0] for case, rates in best.items() if case.policy == LyOn()]
    of = [case.arms for case in best if case.policy == LyOn()]
    return max((rate for rate, k in zip(rates, of, strict=True) if k == arms), default=0.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--probes", type=Path, default=PROBES)
    parser.add_argument("--repeats", type=int, default=REPEATS)
    options = parser.parse_args()
    print(block(options.probes, options.repeats) or "")


if __name__ == "__main__":
    main()
