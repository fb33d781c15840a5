"""The policies by name, and how the shell writes them: ``lyon:delta0=15,alpha=2``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from tightrope.errors import PolicyError, nearest
from tightrope.policies.base import IndexPolicy, Policy, Setup, Statistics
from tightrope.policies.budgeted_ts import BudgetedTS
from tightrope.policies.choice import ChoicePolicy
from tightrope.policies.epsilon_greedy import EpsilonGreedy
from tightrope.policies.lyoff import LyOff
from tightrope.policies.lyon import LyOn
from tightrope.policies.lyon_ts import LyOnTS
from tightrope.policies.lyon_wilson import LyOnWilson
from tightrope.policies.omega_ucb import OmegaUCB
from tightrope.policies.pessimistic_optimistic import PessimisticOptimistic
from tightrope.policies.primal_dual_bwk import PrimalDualBwK
from tightrope.policies.resolve import Resolve
from tightrope.policies.stationary import FixedArm, Stationary, UniformRandom
from tightrope.policies.ts_lp import TSLP
from tightrope.policies.ucb_bwi import UCBBwI
from tightrope.policies.ucb_lp import UCBLP

__all__ = [
    "POLICIES",
    "TSLP",
    "UCBLP",
    "BudgetedTS",
    "ChoicePolicy",
    "EpsilonGreedy",
    "FixedArm",
    "IndexPolicy",
    "LyOff",
    "LyOn",
    "LyOnTS",
    "LyOnWilson",
    "OmegaUCB",
    "PessimisticOptimistic",
    "Policy",
    "PrimalDualBwK",
    "Resolve",
    "Setup",
    "Stationary",
    "Statistics",
    "UCBBwI",
    "UniformRandom",
    "parse_policy",
]

# One more policy is one more file and one more line here.
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
