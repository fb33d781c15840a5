"""The cases of docs/modelling.md: the best mixture of each, and the reward of ``resolve``."""

from pathlib import Path

from tightrope import Resolve, load_problem, optimum, oracle, simulate

BUDGETS = {
    "router_requests": 5000,
    "router_dollars": 50,
    "advertising": 20_000,
    "emails": 10_000,
    "cloud": 500,
    "trial": 400,
    "crowd": 2000,
}

if __name__ == "__main__":
    for name, budget in BUDGETS.items():
        problem = load_problem(Path(__file__).parent / "modelling" / f"{name}.toml")
        best = oracle(problem, budget)
        shares = zip(problem.names, best.pull_share, strict=True)
        print(f"{problem.name}, budget {budget:,}")
        print("  best mixture: " + ", ".join(f"{arm} {one:.0%}" for arm, one in shares if one))
        row = simulate(problem, Resolve(), budgets=budget, runs=100, seed=1).rows()[0]
        earned = row.reward_rate.mean * budget / optimum(problem, budget)
        print(f"  resolve earns {earned:.1%} of the optimum")
        for m, violation in enumerate(row.violation):
            reached = problem.limits[m] + violation.mean
            print(f"  {problem.limit_text(m)}: {reached:.4g} ± {violation.error:.1g}")
