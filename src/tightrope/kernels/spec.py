"""The parameters for which the kernels of a single run are compiled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from numba import njit

from tightrope.compiled import PART, checked, compile_function, fingerprint, inlined, uncounted
from tightrope.kernels.step import Target
from tightrope.policies.base import IndexPolicy, Policy, Setup
from tightrope.policies.choice import WORDS, ChoicePolicy
from tightrope.policies.parts.forgetting import remember

__all__ = ["CHOICE", "ENVELOPE", "SCAN", "SIEVE", "Spec", "argmin_method", "spec_of"]

# How the arm is found: by a policy's ``choose``, or as the smallest index: of all arms, on a lower
# envelope of lines, or in short lists of arms that can still have it.
CHOICE, SCAN, ENVELOPE, SIEVE = "choice", "scan", "envelope", "sieve"
PLAIN = "plain"  # by ``decide``, which is not compiled


@dataclass(frozen=True)
class Spec:
    """A policy and how its runs are made, one at a time.

    ``penalties``: the number of channels besides cost and reward, at least 1. ``limited``: the
    number of limits in the policy's state. ``constants``: the number of the policy's constants plus
    one, so that it is never 0. ``forgets``: whether the policy forgets pulls. ``stateful``: whether
    an index policy's run uses a ``State`` although it need not, as on a GPU.
    """

    policy: Any  # the policy's class
    penalties: int
    dtype: type
    method: str
    constants: int
    forgets: bool = False
    limited: int = 1
    stateful: bool = False
    bases: tuple[float, ...] = ()  # see ``Setup``
    hard: tuple[bool, ...] = ()  # which limits end a run; empty if none does

    @property
    def channels(self) -> int:
        """The number of channels besides the cost."""
        return 1 + self.penalties

    @property
    def indexed(self) -> bool:
        """Whether the policy has an index."""
        return self.method in (SCAN, ENVELOPE, SIEVE)

    @property
    def remembers(self) -> bool:
        """Whether there is a ``State``: for choice policies and those that forget."""
        return self.forgets or self.stateful or self.method == CHOICE

    @property
    def words(self) -> int:
        """Random words that the policy takes per step."""
        return WORDS if self.method == CHOICE else int(self.policy.random)

    @property
    def outside(self) -> bool:
        """Whether the policy is a user's own."""
        return not self.policy.__module__.startswith("tightrope.")

    @cached_property
    def digest(self) -> str:
        """A hash of these parameters and of the source text."""
        policy: Any = self.policy
        facts = (
            self.penalties,
            self.limited,
            self.dtype.__name__,
            self.method,
            self.constants,
            self.forgets,
            self.stateful,
            self.bases,
            self.hard,
            self.outside,
            policy.random,
            getattr(policy, "learns", True),
        )
        return fingerprint((*self.functions, remember), facts)

    @property
    def functions(self) -> tuple[Callable[..., Any], ...]:
        """The policy's functions that are compiled."""
        policy: Any = self.policy
        chooses = self.method == CHOICE
        return tuple(policy.functions(self.limited) if chooses else policy.functions())

    @cached_property
    def target(self) -> Target:
        """The step functions, for one run."""
        return Target(
            self.policy, self.penalties, self.dtype, self.formula, bases=self.bases
        )  # fmt: skip

    def part(self, function: Callable[..., Any]) -> Any:
        """Compile a small function by copying it into its callers before type inference.

        numba compiles each function separately, which for a small one takes longer than copying it.
        """
        return compile_function(function, self.digest, jit=njit(inline="always", **PART))

    def routine(self, function: Callable[..., Any]) -> Any:
        """Compile a function separately: one that is long or has several callers."""
        return compile_function(function, self.digest, jit=njit(**PART))

    def formula(self, function: Callable[..., Any], dtype: type | None = None) -> Any:
        """Compile a function of the policy, with its float literals in the precision ``dtype``.

        For choice policies, reference counting is off: their records are slices of a block that
        outlives them, and counting would add seconds of compiling.
        In a user's own policy, indices are checked.
        """
        if self.method == CHOICE:
            jit = checked if self.outside and function in self.functions else uncounted
            return compile_function(function, self.digest, dtype, jit)
        return compile_function(function, self.digest, dtype, inlined)


def argmin_method(policy: type[IndexPolicy], setup: Setup) -> str:
    """How to find the smallest index: by scanning all arms unless the policy is ``steady``."""
    if not policy.steady or policy.random or setup.forgets or setup.bases:
        return SCAN
    timeless = policy.clock is IndexPolicy.clock
    if not policy.learns and timeless and len(setup.allowance) <= 1:
        return ENVELOPE
    return SIEVE


def spec_of(
    policy: Policy, setup: Setup, dtype: type, many_arms: bool, hard: tuple[bool, ...] = ()
) -> Spec:
    """The spec of a policy's runs; with ``many_arms``, decisions do not compute every index.

    ``hard``: which limits end a run. What is left of them is in the run's state.
    """
    penalties = len(setup.allowance)
    kind = type(policy)
    if isinstance(policy, IndexPolicy):
        sorted_out = many_arms and not hard
        method = argmin_method(kind, setup) if sorted_out else SCAN  # type: ignore[arg-type]
        limited = max(penalties, 1)
    else:
        method, limited = CHOICE if isinstance(policy, ChoicePolicy) else PLAIN, penalties
    return Spec(
        policy=kind,
        penalties=max(penalties, 1),
        dtype=dtype,
        method=method,
        constants=len(setup.constants) + 1,
        forgets=setup.forgets,
        limited=limited,
        bases=() if method == CHOICE else setup.bases,  # a choice policy's state tells them
        stateful=bool(hard) and method != CHOICE,
        hard=hard,
    )
