"""Single runs over time: the penalty per unit of cost, and the queue that brings it down."""

import tempfile
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # a file, no window
from matplotlib import pyplot

from tightrope import LyOn, ready_problem, trajectory

problem = ready_problem("paper")
paths = trajectory(problem, LyOn(delta0=2.0), budget=2000, runs=4, seed=1, points=300)

figure, (above, below) = pyplot.subplots(2, sharex=True, layout="constrained")
for run in range(4):
    spent = paths.cost[run, 1:]
    above.plot(paths.step[1:], paths.penalty[run, 1:, 0] / spent.clip(1.0))
    below.plot(paths.step, paths.queue[run, :, 0])
above.axhline(problem.limits[0], color="black", linestyle="--", label="limit")
above.set_ylabel("penalty per unit of cost")
above.legend()
below.set_ylabel("queue")
below.set_xlabel("pulls")
picture = Path(tempfile.mkdtemp(), "trajectory.png")
figure.savefig(picture)

for run in range(4):
    rate = paths.penalty[run, -1, 0] / paths.cost[run, -1]
    print(f"run {run}: penalty per unit of cost {rate:.3f} at the end")
print(f"written to {picture}")
