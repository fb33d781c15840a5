"""A router among language models that survives kill -9: python examples/router.py router.db"""

import random
import sys
import tempfile

from tightrope import Limit, Resolve, Scales, Task, open_campaign
from tightrope.errors import ExhaustedError, WaitError

CENTS = {"small": 0.2, "medium": 0.5, "large": 1.0}  # the truth, which the campaign learns
GOOD = {"small": 0.60, "medium": 0.75, "large": 0.90}
BAD = {"small": 0.12, "medium": 0.05, "large": 0.02}


def answer(model: str) -> tuple[float, float, float]:
    """Simulate a call: its cost in cents, whether the answer was good, whether it was bad."""
    luck = random.random()
    cost = CENTS[model] * random.uniform(0.8, 1.2)
    return cost, float(luck < GOOD[model]), float(luck > 1.0 - BAD[model])


store = sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp() + "/router.db"
task = Task(list(CENTS), {"bad": Limit(0.07, per="pull")}, Scales(cost=1.2))
campaign = open_campaign(  # creates or opens it
    store, "november", task=task, budget=100, policy=Resolve(), expire_after=3600
)
while True:
    try:
        ticket = campaign.ask()
    except (ExhaustedError, WaitError) as end:  # wait: the remaining budget is reserved
        print(end)
        break
    cost, good, bad = answer(ticket.arm)
    campaign.tell(ticket.id, cost=cost, reward=good, penalty={"bad": bad})
    if ticket.id.endswith("00"):
        print(f"answer {ticket.id} by {ticket.arm}, {campaign.status()['free']:.1f} cents left")
now = campaign.status()
print(f"{now['told']} answers for {now['spent']:.1f} cents, {now['in_flight']} in flight")
print(f"bad answers: {now['penalties']['bad'] / now['told']:.3f} per answer; in {store}")
