"""The figure of docs/modelling.md: what is pulled in each case, at best and by ``resolve``.

python -m benchmarks.modelling docs/modelling.png
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from examples.modelling import BUDGETS
from tightrope import Resolve, load_problem, oracle, simulate

__all__ = ["draw"]

CASES = Path(__file__).parents[1] / "examples" / "modelling"
BEST, LEARNED = "#0072b2", "#d1006c"


def draw(path: str) -> None:
    """Draw a panel per case: each arm's share of pulls in the best mixture and in the runs."""
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(2, 4, figsize=(13, 5.6), layout="constrained")
    for panel, (name, budget) in zip(panels.flat, BUDGETS.items(), strict=False):
        problem = load_problem(CASES / f"{name}.toml")
        best = oracle(problem, budget).pull_share
        row = simulate(problem, Resolve(), budgets=budget, runs=100, seed=1, progress=False).rows()
        places = np.arange(problem.arm_count)
        panel.barh(places - 0.2, best, 0.36, color=BEST, label="best mixture")
        panel.barh(places + 0.2, row[0].pull_share, 0.36, color=LEARNED, label="resolve, learning")
        panel.set_yticks(places, problem.names)
        panel.invert_yaxis()
        panel.set(xlim=(0, 1), title=f"{problem.name}\n(budget {budget:,})")
        panel.title.set_fontsize(10)
        panel.spines[["top", "right"]].set_visible(False)
    panels.flat[0].set_xlabel("share of pulls")
    panels.flat[-1].axis("off")
    handles, labels = panels.flat[0].get_legend_handles_labels()
    panels.flat[-1].legend(handles, labels, loc="center", frameon=False)
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    draw(sys.argv[1])
