"""The parameters for which the functions of a single run are compiled.

They contain only what changes the code. The declarations of a task are data: the number of arms,
the bases of limits, hard limits, known or expected outcomes, whether pulls are forgotten.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from tightrope.compiled.functions import (
    apart,
    checked,
    compile_function,
    copied,
    inlined,
    separate,
    uncounted,
)
from tightrope.kernels.step import Target, of_run
from tightrope.policies.base import IndexPolicy, Policy, Setup
from tightrope.policies.choice import WORDS, ChoicePolicy
from tightrope.policies.faults import is_outside

# How the arm is found: by a policy's ``choose``, or as the smallest index, of all arms or of short
# lists of arms.
CHOICE, SCAN, SIEVE = "choice", "scan", "sieve"
PLAIN = "plain"  # by ``decide``, which is not compiled
SEVERAL = 0  # instead of the number of penalties, which is read at run time


@dataclass(frozen=True)
class Spec:
    """A policy and how its runs are made, one at a time.

    ``penalties``: the number of channels besides cost and reward: 1, or ``SEVERAL`` for any number;
    the exact number for index policies without a ``State``. ``remembers``: whether there is a
    ``State``. ``constants``: 0, or the number of constants of a user's own policy, which gets them
    as a tuple.
    """

    policy: Any  # the policy's class
    method: str
    penalties: int = 1
    remembers: bool = True
    dtype: type = np.float64
    constants: int = 0

    @property
    def channels(self) -> int:
        """The number of channels besides the cost."""
        return 1 + self.penalties

    @property
    def indexed(self) -> bool:
        """Whether the policy has an index."""
        return self.method in (SCAN, SIEVE)

    @property
    def words(self) -> int:
        """Random words that the policy takes per step."""
        return WORDS if self.method == CHOICE else int(self.policy.random)

    @property
    def outside(self) -> bool:
        """Whether the policy is a user's own."""
        return is_outside(self.policy)

    @cached_property
    def functions(self) -> tuple[Callable[..., Any], ...]:
        """The policy's functions that are compiled."""
        policy: Any = self.policy
        if self.method == CHOICE:
            return tuple(policy.functions(self.penalties))
        return tuple(policy.functions()) if self.indexed else ()

    @cached_property
    def target(self) -> Target:
        """The step functions, for one run."""
        return Target(self.policy, self.penalties, self.dtype, self.formula, net=of_run)

    def part(self, function: Callable[..., Any]) -> Any:
        """Compile a small function by copying it into its callers."""
        return compile_function(function, jit=copied)

    def routine(self, function: Callable[..., Any]) -> Any:
        """Compile a function separately: one that is long or has several callers."""
        return compile_function(function, jit=separate)

    def formula(self, function: Callable[..., Any], dtype: type | None = None) -> Any:
        """Compile a function of the policy, with its float literals in the precision ``dtype``.

        For choice policies, reference counting is off: their records are slices of a block that
        outlives them, and counting would add seconds of compiling.
        In a user's own policy, indices are checked.
        """
        if self.method == CHOICE:
            usual = uncounted if self.policy.short else apart
            jit = checked if self.outside and function in self.functions else usual
            return compile_function(function, dtype, jit)
        return compile_function(function, dtype, inlined)


def argmin_method(policy: type[IndexPolicy], setup: Setup) -> str:
    """How to find the smallest index: by the sieve if the policy is ``steady``, or by a scan."""
    alike = policy.steady and not policy.random and not setup.forgets and not setup.bases
    return SIEVE if alike else SCAN


def spec_of(
    policy: Policy, setup: Setup, dtype: type, many_arms: bool, hard: tuple[bool, ...] = ()
) -> Spec:
    """The spec of a policy's runs; with ``many_arms``, decisions do not compute every index.

    ``hard``: the limits that end a run. Their remaining amounts are in the run's state.
    """
    kind, penalties = type(policy), len(setup.allowance)
    several = 1 if penalties == 1 else SEVERAL
    constants = max(len(setup.constants), 1) if is_outside(kind) else 0
    if isinstance(policy, ChoicePolicy):
        return Spec(kind, CHOICE, several, constants=constants)
    if not isinstance(policy, IndexPolicy):
        return Spec(kind, PLAIN, several)
    method = argmin_method(kind, setup) if many_arms and not any(hard) else SCAN  # type: ignore[arg-type]
    spec = Spec(kind, method, max(penalties, 1), False, dtype, constants)
    needs = setup.forgets or any(hard) or (method == SCAN and penalties > 1)
    return stateful(spec) if needs else spec


def stateful(spec: Spec) -> Spec:
    """The spec with a ``State``, in which decisions with pulls in flight can be made."""
    if spec.remembers:
        return spec
    several = 1 if spec.penalties == 1 else SEVERAL
    return replace(spec, method=SCAN, penalties=several, remembers=True, dtype=np.float64)
