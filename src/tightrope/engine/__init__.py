"""Simulation: any policies, budgets and number of runs; the same bits however it is split."""

from tightrope.engine.caveats import InfeasibleLimitsWarning, OutsideTheoryWarning
from tightrope.engine.planning import NotCompiledWarning
from tightrope.engine.simulation import simulate
from tightrope.engine.trajectory import Trajectory, trajectory

__all__ = [
    "InfeasibleLimitsWarning",
    "NotCompiledWarning",
    "OutsideTheoryWarning",
    "Trajectory",
    "simulate",
    "trajectory",
]
