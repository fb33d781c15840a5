"""A router that asks a service over HTTP. This script also starts the service."""

import random

from tightrope.client import Client, NotExecuted
from tightrope.errors import ExhaustedError, WaitError
from tightrope.service.server import Running

CENTS = {"small": 0.2, "medium": 0.5, "large": 1.0}  # the truth, which the campaign learns
GOOD = {"small": 0.60, "medium": 0.75, "large": 0.90}
BAD = {"small": 0.12, "medium": 0.05, "large": 0.02}
TASK = {"arms": [{"name": name} for name in CENTS], "limits": {"bad": 0.2}, "scales": {"cost": 1.2}}


def answer(model: str) -> tuple[float, float, float]:
    """Simulate a call: its cost in cents, whether the answer was good, whether it was bad."""
    if random.random() < 0.05:
        raise NotExecuted(f"{model} refused the connection")  # so nothing will be billed
    luck = random.random()
    cost = CENTS[model] * random.uniform(0.8, 1.2)
    return cost, float(luck < GOOD[model]), float(luck > 1.0 - BAD[model])


with Running("memory:") as service, Client(service.url) as client:
    client.create("november", TASK, budget=50)  # or opens it
    while True:
        try:
            with client.decide("november", wait=0) as decision:
                cost, good, bad = answer(decision.arm)
                decision.report(cost=cost, reward=good, penalty={"bad": bad})
        except NotExecuted:
            continue  # its ticket was voided
        except (ExhaustedError, WaitError) as end:
            print(end)
            break
    now = client.status("november")
print(f"{now['told']} answers for {now['spent']:.1f} cents, {now['voided']} never executed")
