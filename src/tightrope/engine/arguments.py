"""The arguments of ``simulate`` and others, checked: an error is one line that names the value."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tightrope.errors import InputError, nearest
from tightrope.laws import shown
from tightrope.policies.base import Policy
from tightrope.problem import Problem, Task, check_budget

__all__ = [
    "budget_list",
    "cluster_address",
    "named_policies",
    "named_problems",
    "one_of",
    "require_problem",
    "run_numbers",
    "seed_number",
    "thread_count",
]


def require_problem(problem: object) -> Problem:
    """``problem``, if it has laws to draw from."""
    if isinstance(problem, Problem):
        return problem
    given = "a Task" if isinstance(problem, Task) else shown(problem)
    raise InputError(
        f"problem: {given} cannot be simulated; must be a Problem, with laws of the arms"
    )


def named_problems(
    problems: Problem | Iterable[Problem] | Mapping[str, Problem],
) -> dict[str, Problem]:
    """Problems by name; all different."""
    if isinstance(problems, Task | str) or not isinstance(problems, Iterable):
        return {problems.name if isinstance(problems, Problem) else "": require_problem(problems)}
    if isinstance(problems, Mapping):
        named = dict(problems)
    else:
        listed = [require_problem(one) for one in problems]
        named = {one.name or str(at + 1): one for at, one in enumerate(listed)}
        if len(named) < len(listed):
            names = [one.name for one in listed]
            raise InputError(
                f"problems: the names {names} must all be different; give them by name, as a dict"
            )
    if not named:
        raise InputError("problems: none is given; at least one is needed")
    return {name: require_problem(one) for name, one in named.items()}


def named_policies(policies: Policy | Iterable[Policy] | Mapping[str, Policy]) -> dict[str, Policy]:
    """Policies by label; all different."""
    if isinstance(policies, Policy):
        policies = [policies]
    if isinstance(policies, Mapping):
        named = dict(policies)
    else:
        listed = list(policies)
        named = {policy.label: policy for policy in listed}
        if len(named) < len(listed):
            raise InputError(f"policies: {[p.label for p in listed]} must all be different")
    if not named:
        raise InputError("policies: none is given; at least one is needed")
    return named


def budget_list(budgets: float | Iterable[float]) -> list[float]:
    """One or more budgets, positive, finite and all different."""
    listed: list[Any] = list(budgets) if isinstance(budgets, Iterable) else [budgets]
    checked = [check_budget(budget) for budget in listed]
    if not checked or len(set(checked)) < len(checked):
        raise InputError(f"budgets = {listed} must be one or more numbers, all different")
    return checked


def run_numbers(runs: int | range) -> npt.NDArray[np.int64]:
    """The numbers of the runs that are asked for, checked."""
    numbers = runs if isinstance(runs, range) else None
    if numbers is None and isinstance(runs, int | np.integer) and not isinstance(runs, bool):
        numbers = range(int(runs))
    if numbers is None or len(numbers) < 1 or numbers[0] < 0 or numbers.step < 1:
        raise InputError(f"runs = {runs!r} must be at least 1, or a range of run numbers from 0 up")
    return np.array(numbers, np.int64)


def seed_number(seed: int) -> int:
    """A seed in [0, 2^64)."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or not 0 <= seed < 2**64:
        raise InputError(f"seed = {seed!r} must be a whole number from 0 to 2^64 - 1")
    return int(seed)


def thread_count(threads: int | None) -> int:
    """How many threads; None is all processors at hand."""
    if threads is None:
        return (
            len(os.sched_getaffinity(0))
            if hasattr(os, "sched_getaffinity")
            else os.cpu_count() or 1
        )
    if isinstance(threads, bool) or not isinstance(threads, int) or threads < 1:
        raise InputError(f"threads = {threads!r} must be a whole number of at least 1")
    return threads


def cluster_address(address: str | None, clustered: bool) -> str | None:
    """The cluster to join: the one named, or that of RAY_ADDRESS; None is one of its own."""
    if address and not clustered:
        raise InputError(f"address = {address!r} is of a Ray cluster; it needs backend 'ray'")
    return address or os.environ.get("RAY_ADDRESS") or None


def one_of(what: str, value: str, known: Sequence[str]) -> str:
    """``value``, if it is known."""
    if value not in known:
        raise InputError(f"{what} = {value!r} is unknown; {nearest(str(value), known)}")
    return value
