"""Which policy earns the most, and which keeps the limit, on the paper's two arms?"""

from tightrope import LyOff, LyOn, Resolve, optimum, print_rows, ready_problem, simulate

problem = ready_problem("paper")
results = simulate(
    problem,
    [LyOff(), LyOn(), LyOn(alpha=0.5), Resolve()],  # or by names of your own: {"mine": LyOn()}
    budgets=[100, 1000],
    runs=200,
    seed=1,
)
print_rows(results.summary())

for row in results.summary():
    if row["budget"] == 1000:
        kept = "keeps" if row["violation"] <= 0.005 else "breaks"
        share = row["reward_rate"] * 1000 / optimum(problem, 1000)
        print(f"{row['policy']}: {share:.1%} of the optimum, {kept} the limit")
