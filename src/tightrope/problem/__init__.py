"""Tasks and problems: what is known, and the truth behind it, in the user's own units.

Dimension letters: K arms, M penalties. A channel is one number that a pull gives, in the order
cost, reward, then the penalties by the names of their limits. *Normalised* values are divided by
the channel's scale, so that every outcome lies in [0, 1]; only ``moments``, ``tables``,
``bernoulli`` and what is called normal speak of them.

The arms may change while the budget is spent. The pulls between two changes are a *phase*, and a
phase is a problem of its own, whose arms stay what they are.
"""

from tightrope.problem.arms import Arm, BernoulliArms
from tightrope.problem.problem import Change, Moments, Phase, Problem, Tables, require_unchanging
from tightrope.problem.task import (
    MOST_PULLS,
    Known,
    Scales,
    Task,
    channel_names,
    check_budget,
    holds_task,
)
from tightrope.problem.toml import table_of

__all__ = [
    "MOST_PULLS",
    "Arm",
    "BernoulliArms",
    "Change",
    "Known",
    "Moments",
    "Phase",
    "Problem",
    "Scales",
    "Tables",
    "Task",
    "channel_names",
    "check_budget",
    "holds_task",
    "require_unchanging",
    "table_of",
]
