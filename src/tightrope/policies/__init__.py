"""The policies that come with tightrope, and the base classes for your own.

There is one file per policy. The paper's policies and ours are here, those of other papers in
``rivals``; code that several policies share is in ``parts``. Your own policy subclasses
``IndexPolicy`` (in ``base``) or ``ChoicePolicy`` (in ``choice``, with the arrays of ``state``).
``naming`` parses names such as ``lyon:delta0=15``. All numbers are in normalised units.
"""

from __future__ import annotations

from collections.abc import Mapping

from tightrope.policies.base import IndexPolicy as IndexPolicy
from tightrope.policies.base import InformedPolicy as InformedPolicy
from tightrope.policies.base import Policy as Policy
from tightrope.policies.base import Setup as Setup
from tightrope.policies.base import Statistics as Statistics
from tightrope.policies.base import limits_of as limits_of
from tightrope.policies.base import set_up as set_up
from tightrope.policies.choice import ChoicePolicy as ChoicePolicy
from tightrope.policies.state import Array as Array
from tightrope.policies.state import State as State

# To add a policy, add its file and one line here; tables list policies in this order.
# isort: off
from tightrope.policies.lyoff import LyOff as LyOff
from tightrope.policies.lyon import LyOn as LyOn
from tightrope.policies.lyon_ts import LyOnTS as LyOnTS
from tightrope.policies.lyon_wilson import LyOnWilson as LyOnWilson
from tightrope.policies.resolve import Resolve as Resolve
from tightrope.policies.stationary import Stationary as Stationary
from tightrope.policies.stationary import FixedArm as FixedArm
from tightrope.policies.stationary import UniformRandom as UniformRandom
from tightrope.policies.ucb_bwi import UCBBwI as UCBBwI
from tightrope.policies.epsilon_greedy import EpsilonGreedy as EpsilonGreedy
from tightrope.policies.rivals.ucb_lp import UCBLP as UCBLP
from tightrope.policies.rivals.ts_lp import TSLP as TSLP
from tightrope.policies.rivals.lincon_ts import LinConTS as LinConTS
from tightrope.policies.rivals.lincon_kl_ucb import LinConKLUCB as LinConKLUCB
from tightrope.policies.rivals.primal_dual_bwk import PrimalDualBwK as PrimalDualBwK
from tightrope.policies.rivals.pessimistic_optimistic import (
    PessimisticOptimistic as PessimisticOptimistic,
)
from tightrope.policies.rivals.optpess_lp import OptPessLP as OptPessLP
from tightrope.policies.rivals.identify_resolve import IdentifyResolve as IdentifyResolve
from tightrope.policies.rivals.control_budget import ControlBudget as ControlBudget
from tightrope.policies.rivals.lagrange_bwk import LagrangeBwK as LagrangeBwK
from tightrope.policies.rivals.sw_ucb_lp import SWUCBLP as SWUCBLP
from tightrope.policies.rivals.ucb_alp import UCBALP as UCBALP
from tightrope.policies.rivals.pgd_prices import PGDPrices as PGDPrices
from tightrope.policies.rivals.budgeted_ts import BudgetedTS as BudgetedTS
from tightrope.policies.rivals.omega_ucb import OmegaUCB as OmegaUCB

POLICIES: Mapping[str, type[Policy]] = {
    one.name: one
    for one in list(vars().values())
    if isinstance(one, type) and issubclass(one, Policy) and "name" in vars(one)
}

__all__ = [
    "ChoicePolicy",
    "IndexPolicy",
    "InformedPolicy",
    "Policy",
    "Setup",
    "limits_of",
    "parse_policy",
    *(one.__name__ for one in POLICIES.values()),
]

from tightrope.policies.naming import parse_policy as parse_policy  # noqa: E402, needs POLICIES
# isort: on
