"""The policies by name, and how the shell writes them: ``lyon:delta0=15,alpha=2``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from tightrope.errors import PolicyError, nearest
from tightrope.policies.base import IndexPolicy as IndexPolicy
from tightrope.policies.base import InformedPolicy as InformedPolicy
from tightrope.policies.base import Policy as Policy
from tightrope.policies.base import Setup as Setup
from tightrope.policies.base import Statistics as Statistics
from tightrope.policies.base import set_up as set_up
from tightrope.policies.budgeted_ts import BudgetedTS as BudgetedTS
from tightrope.policies.choice import ChoicePolicy as ChoicePolicy
from tightrope.policies.epsilon_greedy import EpsilonGreedy as EpsilonGreedy
from tightrope.policies.lyoff import LyOff as LyOff
from tightrope.policies.lyon import LyOn as LyOn
from tightrope.policies.lyon_ts import LyOnTS as LyOnTS
from tightrope.policies.lyon_wilson import LyOnWilson as LyOnWilson
from tightrope.policies.omega_ucb import OmegaUCB as OmegaUCB
from tightrope.policies.pessimistic_optimistic import PessimisticOptimistic as PessimisticOptimistic
from tightrope.policies.primal_dual_bwk import PrimalDualBwK as PrimalDualBwK
from tightrope.policies.resolve import Resolve as Resolve
from tightrope.policies.state import Array as Array
from tightrope.policies.state import State as State
from tightrope.policies.stationary import FixedArm as FixedArm
from tightrope.policies.stationary import Stationary as Stationary
from tightrope.policies.stationary import UniformRandom as UniformRandom
from tightrope.policies.ts_lp import TSLP as TSLP
from tightrope.policies.ucb_bwi import UCBBwI as UCBBwI
from tightrope.policies.ucb_lp import UCBLP as UCBLP

# One more policy is one more file, and its class here.
POLICIES: Mapping[str, type[Policy]] = {
    policy.name: policy
    for policy in (
        LyOff,
        LyOn,
        LyOnTS,
        LyOnWilson,
        Resolve,
        Stationary,
        FixedArm,
        UniformRandom,
        UCBBwI,
        EpsilonGreedy,
        UCBLP,
        TSLP,
        PrimalDualBwK,
        PessimisticOptimistic,
        BudgetedTS,
        OmegaUCB,
    )
}


def parse_policy(text: str) -> Policy:
    """The policy that ``name:parameter=value,parameter=value`` describes.

    Numbers are numbers, ``none`` is None, ``0.3/0.7`` is a list, anything else a word.

    >>> parse_policy("resolve:risk=0.01,window0=2")
    Resolve(risk=0.01, mu_min=None, window0=2.0, discount0=None)
    """
    name, _, rest = text.partition(":")
    if name not in POLICIES:
        raise PolicyError(f"policy {name!r} is unknown; {nearest(name, POLICIES)}")
    policy = POLICIES[name]
    known = [field.name for field in fields(policy)]  # type: ignore[arg-type]
    parameters: dict[str, Any] = {}
    for part in filter(None, rest.split(",")):
        key, equals, value = part.partition("=")
        if not equals:
            raise PolicyError(f"policy {text!r}: {part!r} must read parameter=value")
        if key not in known:
            hint = nearest(key, known) if known else "it takes none"
            raise PolicyError(f"policy {name}: parameter {key!r} is unknown; {hint}")
        if key in parameters:
            raise PolicyError(f"policy {text!r}: parameter {key!r} is given twice")
        parameters[key] = _value(value)
    return policy(**parameters)


def _value(text: str) -> Any:
    if text.lower() == "none":
        return None
    if "/" in text:
        return tuple(_value(part) for part in text.split("/"))
    try:
        return float(text)
    except ValueError:
        return text
