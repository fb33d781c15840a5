"""Routing requests to language models: ``routing-1`` to ``routing-5``, by limit.

A request costs one unit of the budget, a model's answer earns its quality in [0, 1], and its price
in dollars is the penalty. The limit is on the average price of a request. An arm draws one of 1824
answers of its model, quality and price together. ``routing.csv`` has the numbers, with their source
and licence (Apache 2.0); all 1824 requests are a budget of 1824.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from tightrope.problem.arms import Arm
from tightrope.problem.limits import Limit
from tightrope.problem.problem import Problem
from tightrope.problem.scales import Scales

TABLE = Path(__file__).with_name("routing.csv")
MODELS = ("llama-8b", "mistral-large", "gemini-pro")  # pairs of columns: reward and price
REWARD_UNIT, DOLLAR_UNIT = 1e3, 1e8  # of the table, per 1 and per dollar
LARGEST_PRICE = 0.138  # dollars, above every answer's
LIMITS = {
    "routing-1": 8.29e-5,
    "routing-2": 2.35e-4,
    "routing-3": 6.64e-4,
    "routing-4": 1.88e-3,
    "routing-5": 5.31e-3,
}  # dollars per request

LISTED = {
    name: f"three language models, at most {limit:g} dollars per request"
    for name, limit in LIMITS.items()
}


def routing(name: str) -> Problem:
    """The problem called ``name``, one of ``LISTED``.

    >>> routing("routing-3").names, routing("routing-3").limits
    (('llama-8b', 'mistral-large', 'gemini-pro'), (0.000664,))
    """
    scales = Scales(penalty={"dollars": LARGEST_PRICE})
    return Problem(_arms(), limits={"dollars": Limit(LIMITS[name])}, scales=scales, name=name)


@cache
def _arms() -> tuple[Arm, ...]:
    lines = [line for line in TABLE.read_text().splitlines() if not line.startswith("#")]
    table = [[int(cell) for cell in line.split(",")] for line in lines[1:]]
    return tuple(
        Arm.from_rows(
            model,
            [(1.0, row[j] / REWARD_UNIT, row[j + 1] / DOLLAR_UNIT) for row in table],
            ("dollars",),
        )
        for j, model in zip(range(0, 2 * len(MODELS), 2), MODELS, strict=True)
    )
