"""A live run: which model answers the next question? It is saved and restored on the way."""

import random
import tempfile
from pathlib import Path

from tightrope import Controller, Limit, Resolve, Scales, Task

CENTS = {"small": 0.2, "medium": 0.5, "large": 1.0}  # the truth, which the controller learns
GOOD = {"small": 0.60, "medium": 0.75, "large": 0.90}
BAD = {"small": 0.12, "medium": 0.05, "large": 0.02}
random.seed(1)


def answer(model: str) -> tuple[float, float, float]:
    """The cost of an answer in cents, whether it was good, whether it was bad."""
    luck = random.random()
    cost = CENTS[model] * random.uniform(0.8, 1.2)
    return cost, float(luck < GOOD[model]), float(luck > 1.0 - BAD[model])


limits = {"bad": Limit(0.05, per="pull")}  # at most 5 % bad answers
task = Task(arms=list(CENTS), limits=limits, scales=Scales(cost=1.2))
controller = Controller(task, Resolve(), budget=300, seed=1)
saved, harm = Path(tempfile.mkdtemp(), "campaign.snapshot"), 0.0
while not controller.exhausted:
    model = controller.arm_name(controller.ask())
    cost, good, bad = answer(model)
    controller.tell(model, cost=cost, reward=good, penalty={"bad": bad})
    harm += bad
    if sum(controller.pulls) == 100:  # another process can continue from here
        saved.write_bytes(controller.snapshot())
        controller = Controller.restore(saved.read_bytes())
        print(f"restored after {sum(controller.pulls)} questions from {saved}")

for name, pulls in zip(task.arms, controller.pulls, strict=True):
    print(f"{name}: {pulls} questions")
print(f"spent {controller.spent:.1f} of {controller.budget:g} cents")
print(f"bad answers per question: {harm / sum(controller.pulls):.3f}")
