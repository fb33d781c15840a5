"""What decides the runs of a simulation, as plain data: to tell one piece of work from another."""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from functools import lru_cache
from typing import Any

from tightrope.policies.base import Policy
from tightrope.problem import Problem
from tightrope.version import __version__

__all__ = ["digest", "facts"]


def facts(
    problem: Problem, policies: Mapping[str, Policy], budgets: Iterable[float], seed: int
) -> dict[str, Any]:
    """All that a run depends on but its number, fit for JSON. A policy's code counts too."""
    return {
        "version": __version__,
        "problem": problem.to_toml(),
        "policies": {label: _described(policy) for label, policy in policies.items()},
        "budgets": list(budgets),
        "seed": seed,
    }


def digest(known: Mapping[str, Any]) -> str:
    """Twenty letters that other facts do not have."""
    return hashlib.sha256(json.dumps(known).encode()).hexdigest()[:20]


def _described(policy: Policy) -> str:
    """Its class, its parameters and a digest of its code."""
    if is_dataclass(policy):
        parameters = {field.name: getattr(policy, field.name) for field in fields(policy)}
    else:
        parameters = vars(policy)
    kind = type(policy)
    return f"{kind.__qualname__} {parameters!r} {_code(kind)}"


@lru_cache(maxsize=256)
def _code(kind: type) -> str:
    """A digest of a class's text and of those it inherits from; a text that is nowhere is none."""
    texts = hashlib.sha256()
    for one in kind.__mro__:
        if issubclass(one, Policy):
            texts.update(_text(one).encode())
    return texts.hexdigest()[:12]


def _text(kind: type) -> str:
    try:
        return inspect.getsource(kind)
    except (OSError, TypeError):  # made in a console, or by a program
        return ""
