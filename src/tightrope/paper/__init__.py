"""The paper's experiments by name, and :func:`reproduce`, which runs and reports them.

An experiment is a module with constants and an analysis (``figure1``, ``growing_arms``,
``tradeoff``, ``erratum``); ``claims`` checks the paper's claims. All of them get their runs from
``engine.simulation.make``.
"""

from tightrope.paper.base import Call, Evidence, Experiment
from tightrope.paper.reproduction import EXPERIMENTS, Reproduction, reproduce

__all__ = ["EXPERIMENTS", "Call", "Evidence", "Experiment", "Reproduction", "reproduce"]
