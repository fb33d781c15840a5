"""tightrope: decisions under a budget and a promise (constrained budgeted bandits).

There are K arms. Every pull takes a random cost from a fixed budget, earns a random reward and
incurs random penalties. The goal: the largest total reward while each penalty, per unit of cost,
stays under its limit.
"""

from __future__ import annotations

import importlib
import sys
import types
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
from tightrope.version import __version__ as __version__

if TYPE_CHECKING:
    from tightrope.data.bootstrap import bootstrap
    from tightrope.data.log import Log
    from tightrope.data.offpolicy import evaluate_mixture
    from tightrope.data.planning import plan
    from tightrope.data.reading import LogWarning, read_log
    from tightrope.data.replay import replay
    from tightrope.data.tables import FullTable
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
    from tightrope.report import plot, print_rows
    from tightrope.results import Results

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
    "FullTable",
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
    "Log",
    "LogWarning",
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
    "bootstrap",
    "evaluate_mixture",
    "load_problem",
    "load_task",
    "open_campaign",
    "optimum",
    "oracle",
    "parse_policy",
    "plan",
    "plot",
    "print_rows",
    "read_log",
    "ready_names",
    "ready_problem",
    "replay",
    "simulate",
    "trajectory",
    "tune",
]

# Their modules are imported on first access: `import tightrope.client` needs none of them.
_LAZY = {
    name: module
    for module, names in {
        "data.log": "Log",
        "data.reading": "LogWarning read_log",
        "data.offpolicy": "evaluate_mixture",
        "data.replay": "replay",
        "data.tables": "FullTable",
        "data.bootstrap": "bootstrap",
        "data.planning": "plan",
        "engine": "InfeasibleLimitsWarning NotCompiledWarning OutsideTheoryWarning StoreWarning"
        " Trajectory simulate trajectory",
        "experiments.arena": "arena",
        "experiments.tuning": "tune",
        "live": "Campaign Controller SoftBudgetWarning Ticket open_campaign",
        "optimum.exact": "optimum",
        "optimum.pi_star": "Oracle oracle",
        "policies": "BudgetedTS ChoicePolicy ControlBudget EpsilonGreedy FixedArm IdentifyResolve"
        " IndexPolicy InformedPolicy LagrangeBwK LinConKLUCB LinConTS LyOff LyOn LyOnTS LyOnWilson"
        " OmegaUCB OptPessLP PessimisticOptimistic Policy PrimalDualBwK Resolve SWUCBLP Stationary"
        " TSLP UCBBwI UCBLP UniformRandom parse_policy",
        "problem": "Arm Change Limit Phase Problem Scales Share Task",
        "problem.laws": "Bernoulli Beta Constant CostAbove Discrete Empirical Law TruncatedNormal"
        " TwoPoint Uniform",
        "problem.ready": "load_problem load_task ready_names ready_problem",
        "report": "plot print_rows",
        "results": "Results",
    }.items()
    for name in names.split()
}


def __getattr__(name: str) -> Any:
    module = _LAZY.get(name)
    if module is None:
        raise AttributeError(f"module 'tightrope' has no attribute {name!r}")
    found = globals()[name] = getattr(importlib.import_module(f"tightrope.{module}"), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class _Package(types.ModuleType):
    """``tightrope.optimum`` is the function, also after the package of its name is imported."""

    @property
    def optimum(self) -> Any:
        return __getattr__("optimum")

    @optimum.setter
    def optimum(self, package: object) -> None:
        """Where the import system puts the package; it is in ``sys.modules`` all the same."""


sys.modules[__name__].__class__ = _Package
