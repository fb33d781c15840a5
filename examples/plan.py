"""Before a campaign: what can this budget earn, and which LyOn parameters suit it?"""

from tightrope import LyOn, optimum, oracle, ready_problem, simulate
from tightrope.arena.tuning import tune

BUDGET = 5000
problem = ready_problem("paper")

best = oracle(problem)
names = [arm.name for arm in problem.arms]
print(
    "best mixture:",
    {name: round(float(x), 2) for name, x in zip(names, best.cost_share, strict=True)},
)
print(f"one more unit of the limit is worth {best.multiplier[0]:.2f} per unit of cost")
print(f"no policy earns more than {optimum(problem, BUDGET):.1f} on average")

found = tune(problem, LyOn(), budget=BUDGET, max_violation=0.0, runs=200, seed=1)
print("keeps the limit:" if found.feasible else "nothing keeps the limit; nearest:", end=" ")
print(f"v0 = {found.chosen.v0}, delta0 = {found.chosen.delta0}")
tuned = LyOn(v0=found.chosen.v0, delta0=found.chosen.delta0)
results = simulate(
    problem, {"as in the paper": LyOn(), "tuned": tuned}, budgets=BUDGET, runs=500, seed=2
)
for row in results.summary():
    earned = row["reward_rate"] * BUDGET
    print(f"{row['policy']}: earns {earned:.0f}, violation {row['violation']:+.3f}")
