"""Simulation: any policies, budgets and number of runs; the same bits however it is split."""

from tightrope.engine.simulation import (
    OutsideTheoryWarning,
    Trajectory,
    simulate,
    trajectory,
)

__all__ = ["OutsideTheoryWarning", "Trajectory", "simulate", "trajectory"]
