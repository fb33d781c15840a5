"""Simulation: any policies, budgets and number of runs; the same bits however it is split.

What lives here: checked arguments (``arguments``), jobs and who makes them (``job``, ``planning``),
work in chunks and the store of finished runs (``work``, ``store``), ``simulate`` and ``make``
(``simulation``), and the engines: ``cpu``, ``single``, ``gpu``, ``python`` and Ray (``cluster``).
From outside take what this module exports; ``simulation.make`` for several requests at once; a new
engine is a module with ``plan(job)`` and a line in ``backend.ENGINES``.
"""

from tightrope.engine.caveats import InfeasibleLimitsWarning, OutsideTheoryWarning
from tightrope.engine.planning import NotCompiledWarning
from tightrope.engine.simulation import simulate
from tightrope.engine.store import StoreWarning
from tightrope.engine.trajectory import Trajectory, trajectory

__all__ = [
    "InfeasibleLimitsWarning",
    "NotCompiledWarning",
    "OutsideTheoryWarning",
    "StoreWarning",
    "Trajectory",
    "simulate",
    "trajectory",
]
