"""tightrope: decisions under a budget and a promise (constrained budgeted bandits).

There are K arms. Every pull takes a random cost from a fixed budget, earns a random reward and
incurs random penalties. The goal: the largest total reward while each penalty, per unit of cost,
stays under its limit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tightrope.errors import (
    BackendError,
    CampaignError,
    ConflictError,
    ExhaustedError,
    HaltedError,
    InfeasibleError,
    InputError,
    OutputError,
    PolicyError,
    ProblemError,
    ReportError,
    ResultsError,
    StoreBusyError,
    StoreError,
    TightropeError,
    WaitError,
)
from tightrope.optimum.exact import optimum
from tightrope.optimum.pi_star import Oracle, oracle
from tightrope.policies import (
    SWUCBLP,
    TSLP,
    UCBLP,
    BudgetedTS,
    ChoicePolicy,
    ControlBudget,
    EpsilonGreedy,
    FixedArm,
    IdentifyResolve,
    IndexPolicy,
    InformedPolicy,
    LagrangeBwK,
    LinConKLUCB,
    LinConTS,
    LyOff,
    LyOn,
    LyOnTS,
    LyOnWilson,
    OmegaUCB,
    OptPessLP,
    PessimisticOptimistic,
    Policy,
    PrimalDualBwK,
    Resolve,
    Stationary,
    UCBBwI,
    UniformRandom,
    parse_policy,
)
from tightrope.problem import Arm, Change, Limit, Phase, Problem, Scales, Share, Task
from tightrope.problem.laws import (
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
from tightrope.problem.ready import load_problem, load_task, ready_names, ready_problem
from tightrope.results import Results
from tightrope.version import __version__ as __version__

if TYPE_CHECKING:
    from tightrope.engine import (
        InfeasibleLimitsWarning,
        NotCompiledWarning,
        OutsideTheoryWarning,
        StoreWarning,
        Trajectory,
        simulate,
        trajectory,
    )
    from tightrope.experiments.arena import arena
    from tightrope.experiments.tuning import tune
    from tightrope.live import Campaign, Controller, SoftBudgetWarning, Ticket, open_campaign
    from tightrope.report import plot, print_rows

__all__ = [  # noqa: RUF022, plain order: a test compares it with sorted()
    "Arm",
    "BackendError",
    "Bernoulli",
    "Beta",
    "BudgetedTS",
    "Campaign",
    "CampaignError",
    "Change",
    "ChoicePolicy",
    "ConflictError",
    "Constant",
    "ControlBudget",
    "Controller",
    "CostAbove",
    "Discrete",
    "Empirical",
    "EpsilonGreedy",
    "ExhaustedError",
    "FixedArm",
    "HaltedError",
    "IdentifyResolve",
    "IndexPolicy",
    "InfeasibleError",
    "InfeasibleLimitsWarning",
    "InformedPolicy",
    "InputError",
    "LagrangeBwK",
    "Law",
    "Limit",
    "LinConKLUCB",
    "LinConTS",
    "LyOff",
    "LyOn",
    "LyOnTS",
    "LyOnWilson",
    "NotCompiledWarning",
    "OmegaUCB",
    "OptPessLP",
    "Oracle",
    "OutputError",
    "OutsideTheoryWarning",
    "PessimisticOptimistic",
    "Phase",
    "Policy",
    "PolicyError",
    "PrimalDualBwK",
    "Problem",
    "ProblemError",
    "ReportError",
    "Resolve",
    "Results",
    "ResultsError",
    "SWUCBLP",
    "Scales",
    "Share",
    "SoftBudgetWarning",
    "Stationary",
    "StoreBusyError",
    "StoreError",
    "StoreWarning",
    "TSLP",
    "Task",
    "Ticket",
    "TightropeError",
    "Trajectory",
    "TruncatedNormal",
    "TwoPoint",
    "UCBBwI",
    "UCBLP",
    "Uniform",
    "UniformRandom",
    "WaitError",
    "arena",
    "load_problem",
    "load_task",
    "open_campaign",
    "optimum",
    "oracle",
    "parse_policy",
    "plot",
    "print_rows",
    "ready_names",
    "ready_problem",
    "simulate",
    "trajectory",
    "tune",
]

# These names need numba or matplotlib, so their modules are imported on first access.
_LAZY = {
    "Campaign": "live",
    "Controller": "live",
    "SoftBudgetWarning": "live",
    "Ticket": "live",
    "open_campaign": "live",
    "InfeasibleLimitsWarning": "engine",
    "NotCompiledWarning": "engine",
    "OutsideTheoryWarning": "engine",
    "Trajectory": "engine",
    "StoreWarning": "engine",
    "arena": "experiments.arena",
    "tune": "experiments.tuning",
    "simulate": "engine",
    "trajectory": "engine",
    "plot": "report",
    "print_rows": "report",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'tightrope' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"tightrope.{_LAZY[name]}"), name)
