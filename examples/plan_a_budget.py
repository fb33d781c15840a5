"""From a log to a plan: the reward of 100 dollars, its risk, and the uncertainty."""

import numpy as np

from tightrope import Arm, Limit, LyOn, Problem, Resolve, Scales, plan

stream = np.random.default_rng(7)


def logged(rows: int, dollars: float, score: float, bad: float) -> np.ndarray:
    """A simulated log of one model: dollars, score, whether the answer was bad."""
    wrong = stream.random(rows) < bad
    spent = np.minimum(dollars * stream.gamma(4.0, 0.25, rows), 2.0)
    scores = np.clip(score - 0.5 * wrong + 0.1 * stream.standard_normal(rows), 0.0, 1.0)
    return np.column_stack([spent, scores, wrong])


problem = Problem(
    [
        Arm.from_rows("small", logged(800, 0.2, 0.6, 0.18), ["bad"]),
        Arm.from_rows("large", logged(400, 0.5, 0.9, 0.03), ["bad"]),
    ],
    limits={"bad": Limit(0.1, per="pull")},
    scales=Scales(cost=2.0),
    name="router",
)
policies = [Resolve(), Resolve(risk=0.01), LyOn()]
found = plan(problem, policies, budgets=100, runs=500, seed=1, earn=150, fan=False)
print(found)
row = found.rows[0]
print(f"{row.policy}: {row.mean.log_share:.0%} of the error's variance is the log's")
