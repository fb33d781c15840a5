"""Steps a second on a GPU, beside this machine's processors and a hand-written CUDA C++ kernel.

    python -m benchmarks.gpu [--probe ../shared/limits/lyon.cu] [--repeats 3]

The probe is LyOn at K = 2, timed on the device alone; ours are whole calls of ``simulate``, copies
to and from the device included, compiling left out. Skipped with a reason where there is no device.
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

from benchmarks import page

from tightrope import LyOff, LyOn, OutsideTheoryWarning, Policy, Stationary, ready_problem, simulate
from tightrope.engine import gpu
from tightrope.experiments.figure1 import FIGURE1

PROBE = Path("../shared/limits/lyon.cu")
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
        """Steps a second of one call."""
        problem = ready_problem("paper" if self.arms == 2 else f"paper-arms-{self.arms}")
        record = simulate(
            problem, self.policy, budgets=self.budget, runs=runs, backend=backend, progress=False
        )[self.policy.label]
        return float(record.runs.pulls.sum()) / record.seconds[0]


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
)


def device_name() -> str:
    from numba import cuda

    name = cuda.get_current_device().name
    return name.decode() if isinstance(name, bytes) else name


def probe_rate(source: Path) -> float | None:
    """The probe's steps a second with 10^6 runs at B = 10^5, where it can be compiled."""
    if shutil.which("nvcc") is None or not source.exists():
        return None
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "probe"
        options = ["-O3", "-arch=native", "-use_fast_math", "-w"]
        subprocess.run(["nvcc", *options, str(source), "-o", str(program)], check=True)
        text = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    found = re.search(r"runs 1000000 B 100000: .* ms, (\S+) steps/s", text)
    return float(found.group(1)) if found else None


def figure_seconds(backend: str, runs: int) -> float:
    """All that Figure 1 simulates: every policy, both delta0, fifteen budgets."""
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


def block(source: Path = PROBE, repeats: int = REPEATS) -> str | None:
    """Time everything; the page's part about it, or None where there is no device."""
    if not gpu.available():
        print("no GPU here: its part of the page stays as it is\n")
        return None
    best = {case: [0.0, 0.0] for case in CASES}
    figure, probe = float("inf"), 0.0
    for _ in range(repeats + 1):  # the first compiles
        for case, rates in best.items():
            rates[0] = max(rates[0], case.rate("gpu", case.runs))
            rates[1] = max(rates[1], case.rate("cpu", case.cpu_runs))
        figure = min(figure, figure_seconds("gpu", FIGURE_RUNS))
        probe = max(probe, probe_rate(source) or 0.0)
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
    head = ["policy", "K", "B", "runs", "steps a second", "on all processors", "times as many"]
    lyon = best[CASES[2]][0]
    beside = (
        f"The probe on the device alone: {probe:.2e} steps a second; LyOn, 10^6 runs, copies"
        f" included: {lyon / probe:.2f} times that."
        if probe
        else "The probe: not measured here (no nvcc, or its source is not there)."
    )
    return "\n\n".join(
        (
            f"{device_name()}; {page.machine()}; best of {repeats}.",
            page.table(head, rows),
            beside,
            f"Figure 1, all panels, {FIGURE_RUNS:,} runs: {figure:.2f} s of simulating.",
        )
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--probe", type=Path, default=PROBE)
    parser.add_argument("--repeats", type=int, default=REPEATS)
    options = parser.parse_args()
    print(block(options.probe, options.repeats) or "")


if __name__ == "__main__":
    main()
