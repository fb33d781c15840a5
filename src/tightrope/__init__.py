"""tightrope: decisions under a budget and a promise.

K arms; every pull takes a random cost out of a budget, earns a random reward and incurs random
penalties; earn the most while each penalty per unit of cost stays under its limit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tightrope.errors import (
    BackendError,
    InfeasibleError,
    InputError,
    PolicyError,
    ProblemError,
    ResultsError,
    TightropeError,
)
from tightrope.laws import (
    Bernoulli,
    Beta,
    Constant,
    CostAbove,
    Discrete,
    Empirical,
    Law,
    TruncatedNormal,
    TwoPoint,
    Uniform,
)
from tightrope.optimum import optimum
from tightrope.oracle import Oracle, oracle
from tightrope.policies import (
    EpsilonGreedy,
    FixedArm,
    IndexPolicy,
    LyOff,
    LyOn,
    Policy,
    Stationary,
    UCBBwI,
    UniformRandom,
    parse_policy,
)
from tightrope.problem import Arm, Problem, Scales
from tightrope.ready import load_problem, ready_names, ready_problem
from tightrope.results import Results
from tightrope.version import __version__ as __version__

if TYPE_CHECKING:
    from tightrope.engine import OutsideTheoryWarning, Trajectory, simulate, trajectory
    from tightrope.report import plot, print_rows

__all__ = [
    "Arm",
    "BackendError",
    "Bernoulli",
    "Beta",
    "Constant",
    "CostAbove",
    "Discrete",
    "Empirical",
    "EpsilonGreedy",
    "FixedArm",
    "IndexPolicy",
    "InfeasibleError",
    "InputError",
    "Law",
    "LyOff",
    "LyOn",
    "Oracle",
    "OutsideTheoryWarning",
    "Policy",
    "PolicyError",
    "Problem",
    "ProblemError",
    "Results",
    "ResultsError",
    "Scales",
    "Stationary",
    "TightropeError",
    "Trajectory",
    "TruncatedNormal",
    "TwoPoint",
    "UCBBwI",
    "Uniform",
    "UniformRandom",
    "load_problem",
    "optimum",
    "oracle",
    "parse_policy",
    "plot",
    "print_rows",
    "ready_names",
    "ready_problem",
    "simulate",
    "trajectory",
]

# What needs numba or matplotlib is imported when it is first asked for.
_LATER = {
    "OutsideTheoryWarning": "engine",
    "Trajectory": "engine",
    "simulate": "engine",
    "trajectory": "engine",
    "plot": "report",
    "print_rows": "report",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'tightrope' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"tightrope.{_LATER[name]}"), name)
