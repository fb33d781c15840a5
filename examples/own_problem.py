"""Your own problem, from a TOML file: its best mixture, and a policy's result."""

from pathlib import Path

from tightrope import load_problem, oracle, simulate
from tightrope.policies import LyOnTS

problem = load_problem(Path(__file__).with_name("delivery.toml"))
best = oracle(problem)
for arm, share in zip(problem.arms, best.cost_share, strict=True):
    print(f"{arm.name}: {share:.0%} of the hours")
print(f"best: {best.reward_rate:.3f} deliveries per hour")

row = simulate(problem, LyOnTS(), budgets=200, runs=100, seed=1).summary()[0]
print(f"lyon-ts, 200 hours: {row['reward_rate']:.3f} deliveries per hour")
for name, violation in row["violations"].items():
    print(f"{name}: {problem.limits[problem.limit_names.index(name)] + violation:.3f} per hour")
