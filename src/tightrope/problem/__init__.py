"""Tasks (what a decision maker knows) and problems (a task plus the arms' distributions).

Numbers are in the user's units. Letters: K arms, M penalties. A *channel* is one number that a pull
yields: the cost, the reward, or the penalty of one limit, in this order. *Normalised* values are
divided by the channel's scale, so that every outcome lies in [0, 1]; ``moments``, ``tables``,
``bernoulli`` and names that contain ``normal`` are normalised.

The arms may change while the budget is spent. The pulls between two changes form a *phase*. Each
phase is a problem whose arms do not change.
"""

from tightrope.problem.arms import Arm, BernoulliArms, Change
from tightrope.problem.contexts import Types
from tightrope.problem.features import Features, Mixed
from tightrope.problem.known import MOST_PULLS, Known, check_budget
from tightrope.problem.limits import Kind, Limit, Share
from tightrope.problem.named import channel_names
from tightrope.problem.problem import Phase, Problem, require_unchanging
from tightrope.problem.scales import Scales
from tightrope.problem.spaces import Box, Interval, Space
from tightrope.problem.tables import Moments, Tables
from tightrope.problem.task import Task, holds_task
from tightrope.problem.toml import table_of

__all__ = [
    "MOST_PULLS",
    "Arm",
    "BernoulliArms",
    "Box",
    "Change",
    "Features",
    "Interval",
    "Kind",
    "Known",
    "Limit",
    "Mixed",
    "Moments",
    "Phase",
    "Problem",
    "Scales",
    "Share",
    "Space",
    "Tables",
    "Task",
    "Types",
    "channel_names",
    "check_budget",
    "holds_task",
    "require_unchanging",
    "table_of",
]
