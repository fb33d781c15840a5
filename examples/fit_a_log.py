"""From a log to a problem: the arms' rewards, feasible limits, and the best mixture."""

import csv
import random
import tempfile
from pathlib import Path

from tightrope import Limit, Problem, load_problem, oracle

ARMS = {"small": (0.002, 0.6, 0.08), "large": (0.010, 0.8, 0.02)}  # dollars, score, P(bad)

draws, folder = random.Random(1), Path(tempfile.mkdtemp())
with open(folder / "log.csv", "w", newline="") as file:
    writer = csv.writer(file)
    writer.writerow(["model", "usd", "score", "bad"])
    for _ in range(2000):
        model = draws.choice(list(ARMS))
        usd, score, bad = ARMS[model]
        length = draws.lognormvariate(0, 0.5)  # long answers cost more, and are better
        quality = min(1, score * (0.9 + 0.1 * length))
        writer.writerow([model, usd * length, quality, int(draws.random() < bad)])

problem = Problem.from_csv(
    folder / "log.csv",
    arm="model",
    cost="usd",
    reward="score",
    limits={"bad": Limit(0.05, per="pull")},
)
for arm in problem.arms:
    print(f"{arm.name}: {arm.cost.mean:.4f} dollars and {arm.reward.mean:.3f} on average")

best = oracle(problem)
for name, share in zip(problem.names, best.pull_share, strict=True):
    print(f"{name}: {share:.0%} of the best mixture's pulls")
print(f"best: {best.reward_rate:.1f} per dollar")

files = problem.save(folder / "problem.toml")
print(f"wrote {', '.join(files)}; read again: {load_problem(files[0]) == problem}")
