"""What the compiled parts of a decision are made for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from numba import njit

from tightrope.compiled import OPTIONS, compile_function, fingerprint
from tightrope.policies.base import IndexPolicy

__all__ = ["ENVELOPE", "SCAN", "SIEVE", "Spec"]

FOLDER = Path(__file__).parent
SOURCES = tuple(path.read_bytes() for path in sorted(FOLDER.glob("*.py")))
SCAN, ENVELOPE, SIEVE = "scan", "envelope", "sieve"  # the ways to find the smallest index


@dataclass(frozen=True)
class Spec:
    """A policy, how many penalties it weighs (at least 1), in which precision, found which way.

    ``constants`` is how many numbers the policy's functions receive, and one more, so that there
    is always one.
    """

    policy: type[IndexPolicy]
    penalties: int
    dtype: type
    way: str
    constants: int

    @property
    def channels(self) -> int:
        """The reward and the penalties."""
        return 1 + self.penalties

    @cached_property
    def digest(self) -> str:
        """What tells it from every other: what it is for and the text it is made of."""
        policy = self.policy
        facts = (
            self.penalties,
            self.dtype.__name__,
            self.way,
            self.constants,
            policy.learns,
            policy.random,
        )
        return fingerprint(policy.functions(), SOURCES, facts)

    def part(self, function: Callable[..., Any]) -> Any:
        """Compile a part that is copied to where it is called, before types are known.

        numba compiles each function on its own and optimises it again with every caller; to
        copy the small ones early takes half the time.
        """
        return compile_function(function, self.digest, jit=njit(inline="always", **OPTIONS))

    def routine(self, function: Callable[..., Any]) -> Any:
        """Compile a part that is long or called from several places, and stays on its own."""
        return compile_function(function, self.digest, jit=njit(**OPTIONS))

    def formula(self, function: Callable[..., Any], dtype: type | None = None) -> Any:
        """Compile a function of the policy, with its float constants in a precision."""
        return compile_function(function, self.digest, dtype)
