"""The arena's problems whose arms are numbers: ``arena-intervals-NAME``.

    bid     a second-price auction, dollars per auction limited: both grow with the bid
    dose    the effect levels off, adverse events and the cost rise with the dose

The usual arena leaves them out. ``arena-intervals`` names all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from math import exp

from tightrope.problem import Arm, Interval, Limit, Problem
from tightrope.problem.distributions import Bernoulli, Constant, TwoPoint

ALL_INTERVALS = "arena-intervals"
SALE = 0.25  # the chance of a sale after an auction is won


def _bid(name: str) -> Problem:
    """The best competing bid is uniform: a bid b wins with chance b and then pays b / 2.

    The best bid is 0.6, which pays 0.18.
    """

    def arm(bid: float) -> Arm:
        paid = TwoPoint(0.0, bid / 2, bid)
        return Arm("bid", Constant(1.0), Bernoulli(SALE * bid), {"dollars": paid})

    limits = {"dollars": Limit(0.18, per="pull")}
    return Problem(Interval(0.0, 1.0, name="bid"), arm=arm, limits=limits, name=name)


def _dose(name: str) -> Problem:
    """The best dose alone incurs the limit."""

    def arm(dose: float) -> Arm:
        effect = Bernoulli(0.05 + 0.75 / (1.0 + exp(-10.0 * (dose - 0.45))))
        adverse = Bernoulli(0.02 + 0.35 * dose**3)
        return Arm("dose", Constant(0.3 + 0.5 * dose), effect, {"adverse": adverse})

    limits = {"adverse": Limit(0.1, per="pull")}
    return Problem(Interval(0.0, 1.0, name="dose"), arm=arm, limits=limits, name=name)


MAKERS: dict[str, Callable[[str], Problem]] = {
    f"{ALL_INTERVALS}-{make.__name__.removeprefix('_')}": make for make in (_bid, _dose)
}

LISTED: dict[str, str] = {
    "arena-intervals-bid": "bids from 0 to 1 in second-price auctions, dollars per auction limited",
    "arena-intervals-dose": "doses from 0 to 1 whose effect levels off, adverse events limited",
}
