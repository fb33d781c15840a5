"""Bid in second-price auctions: the arm is a number, and a sale may cost 1.20 on average."""

import random

from tightrope import Controller, Interval, Limit, Resolve, Task

SALE = 0.25  # the chance of a sale after an auction is won, which the controller does not know
random.seed(1)


def auction(bid: float) -> tuple[float, float]:
    """Whether there was a sale, and what was paid."""
    other = random.random()  # the best competing bid
    if other >= bid:
        return 0.0, 0.0
    return float(random.random() < SALE), other


task = Task(
    arms=Interval(0.0, 1.0, name="bid"),
    limits={"dollars": Limit(1.2, per="reward")},
    costs=1,  # the budget counts auctions
)
controller = Controller(task, Resolve(risk=0.05), budget=10_000, seed=1)
sales = paid = 0.0
while not controller.exhausted:
    bid = controller.ask()
    sale, price = auction(bid)
    controller.tell(bid, reward=sale, penalty=price)
    sales, paid = sales + sale, paid + price

usual = sum(bid * count for bid, count in controller.tried.items()) / sum(controller.pulls)
print(f"mean bid: {usual:.3f}, where {2 * SALE * 1.2:g} is the best bid")
print(f"dollars per sale: {paid / sales:.3f}")
print(f"sales: {sales:.0f}, {sales / (10_000 * SALE * 0.6):.1%} of the best")
