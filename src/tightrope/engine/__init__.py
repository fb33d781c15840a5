"""The simulator: runs of policies at budgets, bit-identical for every split of the work.

The modules: ``arguments`` checks arguments; ``job`` and ``planning`` make jobs and choose their
engines; ``work`` runs them in chunks and ``checkpoint`` keeps finished runs on the disk;
``simulation`` has ``simulate``, and ``make`` for several requests at once. The engines are
``cpu``, ``single``, ``gpu``, ``python`` and, for Ray, ``cluster``. To add an engine, write a module
with ``plan(job)`` and add a line to ``backend.ENGINES``.
"""

from tightrope.engine.simulation import simulate
from tightrope.engine.trajectory import Trajectory, trajectory
from tightrope.errors import (
    InfeasibleLimitsWarning,
    NotCompiledWarning,
    OutsideTheoryWarning,
    StoreWarning,
)

__all__ = [
    "InfeasibleLimitsWarning",
    "NotCompiledWarning",
    "OutsideTheoryWarning",
    "StoreWarning",
    "Trajectory",
    "simulate",
    "trajectory",
]
