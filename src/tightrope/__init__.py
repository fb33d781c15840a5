"""tightrope: bandits with a budget and limits on penalties.

There are K arms. Every pull takes a random cost from a fixed budget, earns a random reward and
incurs random penalties. The goal is the largest total reward while each penalty stays within its
limit, for example per unit of cost.

This module has the names that most programs need. ``tightrope.policies`` has every policy,
``tightrope.errors`` every error and warning, ``tightrope.data`` the functions for logs.
"""

from __future__ import annotations

import importlib
import sys
import types
import warnings
from typing import TYPE_CHECKING, Any

from tightrope.errors import TightropeError as TightropeError
from tightrope.version import __version__ as __version__

if TYPE_CHECKING:
    from tightrope.arena.contest import arena as arena
    from tightrope.arena.tuning import tune as tune
    from tightrope.data.log import Log as Log
    from tightrope.data.planning import plan as plan
    from tightrope.data.reading import read_log as read_log
    from tightrope.data.replays import replay as replay
    from tightrope.data.tables import FullTable as FullTable
    from tightrope.engine.simulation import simulate as simulate
    from tightrope.engine.trajectory import trajectory as trajectory
    from tightrope.live import Campaign as Campaign
    from tightrope.live import Controller as Controller
    from tightrope.live import Ticket as Ticket
    from tightrope.live import open_campaign as open_campaign
    from tightrope.optimum.exact import optimum as optimum
    from tightrope.optimum.pi_star import oracle as oracle
    from tightrope.policies import ChoicePolicy as ChoicePolicy
    from tightrope.policies import IndexPolicy as IndexPolicy
    from tightrope.policies import LyOff as LyOff
    from tightrope.policies import LyOn as LyOn
    from tightrope.policies import Policy as Policy
    from tightrope.policies import Resolve as Resolve
    from tightrope.policies import Setup as Setup
    from tightrope.policies import Stationary as Stationary
    from tightrope.policies import limits_of as limits_of
    from tightrope.policies import parse_policy as parse_policy
    from tightrope.problem import Arm as Arm
    from tightrope.problem import Change as Change
    from tightrope.problem import Features as Features
    from tightrope.problem import Interval as Interval
    from tightrope.problem import Limit as Limit
    from tightrope.problem import Problem as Problem
    from tightrope.problem import Scales as Scales
    from tightrope.problem import Share as Share
    from tightrope.problem import Task as Task
    from tightrope.problem import Types as Types
    from tightrope.problem.distributions import Bernoulli as Bernoulli
    from tightrope.problem.distributions import Beta as Beta
    from tightrope.problem.distributions import Constant as Constant
    from tightrope.problem.distributions import CostAbove as CostAbove
    from tightrope.problem.distributions import Discrete as Discrete
    from tightrope.problem.distributions import Empirical as Empirical
    from tightrope.problem.distributions import TruncatedNormal as TruncatedNormal
    from tightrope.problem.distributions import TwoPoint as TwoPoint
    from tightrope.problem.distributions import Uniform as Uniform
    from tightrope.problem.ready import load_problem as load_problem
    from tightrope.problem.ready import ready_problem as ready_problem
    from tightrope.report import plot as plot
    from tightrope.report import print_rows as print_rows
    from tightrope.results import Results as Results

# Their modules are imported on first access: `import tightrope.client` needs none of them.
_LAZY = {
    name: module
    for module, names in {
        "arena.contest": "arena",
        "arena.tuning": "tune",
        "data.log": "Log",
        "data.planning": "plan",
        "data.reading": "read_log",
        "data.replays": "replay",
        "data.tables": "FullTable",
        "engine.simulation": "simulate",
        "engine.trajectory": "trajectory",
        "live": "Campaign Controller Ticket open_campaign",
        "optimum.exact": "optimum",
        "optimum.pi_star": "oracle",
        "policies": "ChoicePolicy IndexPolicy LyOff LyOn Policy Resolve Setup Stationary"
        " limits_of parse_policy",
        "problem": "Arm Change Features Interval Limit Problem Scales Share Task Types",
        "problem.distributions": "Bernoulli Beta Constant CostAbove Discrete Empirical"
        " TruncatedNormal TwoPoint Uniform",
        "problem.ready": "load_problem ready_problem",
        "report": "plot print_rows",
        "results": "Results",
    }.items()
    for name in names.split()
}

__all__ = sorted([*_LAZY, "TightropeError"])

# Names of version 0.2, and where they are now.
_MOVED = {
    name: module
    for module, names in {
        "errors": "BackendError CampaignError ConflictError ExhaustedError HaltedError"
        " InfeasibleError InfeasibleLimitsWarning InputError LogWarning NotCompiledWarning"
        " OutputError OutsideTheoryWarning PolicyError ProblemError ReportError ResultsError"
        " SoftBudgetWarning StoreBusyError StoreError StoreWarning WaitError",
        "policies": "BudgetedTS ControlBudget EpsilonGreedy FixedArm IdentifyResolve"
        " InformedPolicy LagrangeBwK LinConKLUCB LinConTS LyOnTS LyOnWilson OmegaUCB OptPessLP"
        " PessimisticOptimistic PrimalDualBwK SWUCBLP TSLP UCBBwI UCBLP UniformRandom",
        "data": "bootstrap evaluate_mixture",
        "problem": "Phase",
        "problem.outcomes": "Law",
        "problem.ready": "load_task ready_names",
        "engine": "Trajectory",
        "optimum": "Oracle",
    }.items()
    for name in names.split()
}


def _found(name: str) -> Any:
    if name in _MOVED:
        place = f"tightrope.{_MOVED[name]}"
        text = f"tightrope.{name} has moved to {place}; version 0.4 removes the old name"
        warnings.warn(text, DeprecationWarning, stacklevel=2)
        return getattr(importlib.import_module(place), name)
    if name in ("data", "policies"):
        return importlib.import_module(f"tightrope.{name}")
    module = _LAZY.get(name)
    if module is None:
        raise AttributeError(f"module 'tightrope' has no attribute {name!r}")
    found = globals()[name] = getattr(importlib.import_module(f"tightrope.{module}"), name)
    return found


if not TYPE_CHECKING:  # type checkers see only the names above
    __getattr__ = _found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class _Package(types.ModuleType):
    """``tightrope.optimum`` and ``arena`` are functions, though packages have these names too.

    The import system sets a package as an attribute of its parent package; these two ignore that.
    The packages are still in ``sys.modules``.
    """

    @property
    def optimum(self) -> Any:
        return _found("optimum")

    @optimum.setter
    def optimum(self, package: object) -> None: ...

    @property
    def arena(self) -> Any:
        return _found("arena")

    @arena.setter
    def arena(self, package: object) -> None: ...


sys.modules[__name__].__class__ = _Package
