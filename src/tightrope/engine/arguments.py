"""Check the arguments of ``simulate`` and others; an error is one line that names the value."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from tightrope.errors import InputError, nearest
from tightrope.policies.base import Policy
from tightrope.policies.naming import parse_policy
from tightrope.policies.state import record_fields
from tightrope.problem import Known, Problem, Task, check_budget
from tightrope.problem.ready import as_problem
from tightrope.problem.values import shown

Problems = Iterable[str | Problem] | Mapping[str, str | Problem]
Policies = str | Policy | Iterable[str | Policy] | Mapping[str, str | Policy]
CONTEXT = "models.context"  # the field of a ``Scratch`` that gets the features of a request
RUN_BYTES = 1000  # memory per unit of work besides its results
MOST_THREADS = 1024
MOST_PULLS = 1e12  # of a run, which is not divided between processors: hours to days of one


def named_problems(problems: str | Problem | Problems) -> dict[str, Problem]:
    """Problems by name; loads those given as text. Raises if two names are equal."""
    if isinstance(problems, str | Task) or not isinstance(problems, Iterable):
        problems = [problems]
    if isinstance(problems, Mapping):
        pairs = list(problems.items())
    else:
        pairs = [
            (one if isinstance(one, str) else getattr(one, "name", "") or str(at + 1), one)
            for at, one in enumerate(problems)
        ]
    _require_distinct("problems", pairs, "; name them with a dict")
    return {name: as_problem(one) for name, one in pairs}


def named_policies(policies: Policies) -> dict[str, Policy]:
    """Policies by label; parses those given as text. Raises if two labels are equal."""
    if not isinstance(policies, str | Policy | type | Iterable):
        raise InputError(f"policies = {shown(policies)}: must be policies, such as LyOn()")
    if isinstance(policies, str | Policy | type):
        policies = [policies]
    if isinstance(policies, Mapping):
        pairs = list(policies.items())
    else:
        pairs = [(getattr(one, "label", one), one) for one in policies]
    made = [(label, parse_policy(one) if isinstance(one, str) else one) for label, one in pairs]
    for _, policy in made:
        if not isinstance(policy, Policy):
            raise InputError(
                f"policies: {shown(policy)} must be a policy, such as LyOn() or 'lyon:delta0=15'"
            )
    _require_distinct("policies", made)
    return dict(made)


def _require_distinct(what: str, pairs: Sequence[tuple[str, Any]], hint: str = "") -> None:
    """Raise if there are none, or if two names are equal."""
    names = [name for name, _ in pairs]
    if not names:
        raise InputError(f"{what}: must have at least one")
    if len(set(names)) < len(names):
        raise InputError(f"{what}: the names {names} must all be different{hint}")


def budget_list(
    budgets: float | str | Iterable[float | str], problem: Problem | None = None
) -> list[float]:
    """One or more budgets, all different and valid for ``problem`` (if given).

    A text is one budget: "1e4".
    """
    several = isinstance(budgets, Iterable) and not isinstance(budgets, str | bytes)
    listed: list[Any] = list(cast(Any, budgets)) if several else [budgets]
    checked = [check_budget(_as_number(budget)) for budget in listed]
    if problem is not None:
        for budget in checked:
            _require_pulls(problem, budget)
    if not checked or len(set(checked)) < len(checked):
        raise InputError(f"budgets = {shown(listed)} must be one or more numbers, all different")
    return checked


def _require_pulls(problem: Problem, budget: float) -> None:
    """Raise unless a run can spend the budget within days."""
    pulls = problem.normal_budget(budget) / float(problem.moments.cost.mean())
    if pulls > MOST_PULLS:
        raise InputError(
            f"budget = {budget:g}: a run has about {pulls:.2g} pulls, which takes days; must have"
            f" at most {MOST_PULLS:g}, with a budget of about {budget * (MOST_PULLS / pulls):.2g}"
        )


def _as_number(value: object) -> object:
    """A text as a number, if it is one; other values unchanged."""
    if isinstance(value, str):
        with suppress(ValueError):
            return float(value)
    return value


def run_numbers(runs: int | range, run_bytes: int = RUN_BYTES) -> npt.NDArray[np.int64]:
    """The run numbers; raises if they are invalid or the results do not fit into memory."""
    numbers = runs if isinstance(runs, range) else None
    if numbers is None and isinstance(runs, int | np.integer) and not isinstance(runs, bool):
        numbers = range(int(runs))
    if numbers is None or not numbers or numbers[0] < 0 or numbers.step < 1:
        allowed = "at least 1, or a range of run numbers from 0 up"
        raise InputError(f"runs = {shown(runs)} must be {allowed}")
    if numbers[-1] >= 2**63:
        raise InputError(f"runs = {shown(runs)} must have numbers below 2^63")
    most = _memory() // run_bytes
    if len(numbers) > most:
        raise InputError(
            f"runs = {shown(runs)} must be at most {most:,}: the results of more do not fit into"
            " this machine's memory"
        )
    return np.array(numbers, np.int64)


def bytes_per_run(problem: Problem, policies: int, budgets: int, backend: str) -> int:
    """The approximate size in bytes of the results of one run, for all policies and budgets."""
    numbers = 2 + 3 * problem.penalty_count + 2 * problem.arm_count
    apart = RUN_BYTES if backend == "python" else 0  # in plain Python each run is a unit of work
    return 8 + policies * budgets * (8 * numbers + apart)


def _memory() -> int:
    """The machine's memory in bytes; 64 GiB if unknown."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return 2**36


def fitted_policy(policy: Policy, known: Known) -> Policy:
    """The policy that runs in its place for this task."""
    return as_seeing(policy.for_task(known), known)


def as_seeing(policy: Policy, known: Known) -> Policy:
    """The policy; one without room for the features of requests runs as without contexts."""
    if not policy.contextual or not known.feature_columns:
        return policy
    if CONTEXT in dict(record_fields(policy.Scratch)):  # type: ignore[attr-defined]
        return policy
    blind = copy(policy)
    blind.__dict__["contextual"] = False
    return blind


def seed_number(seed: int) -> int:
    """The seed as an int; raises unless it is in [0, 2^64)."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or not 0 <= seed < 2**64:
        raise InputError(f"seed = {shown(seed)} must be a whole number from 0 to 2^64 - 1")
    return int(seed)


def thread_count(threads: int | None) -> int:
    """The number of threads; None means all available CPUs."""
    if threads is None:
        return (
            len(os.sched_getaffinity(0))
            if hasattr(os, "sched_getaffinity")
            else os.cpu_count() or 1
        )
    whole = isinstance(threads, int) and not isinstance(threads, bool)
    if not whole or not 1 <= threads <= MOST_THREADS:
        allowed = f"a whole number of at least 1, at most {MOST_THREADS}"
        raise InputError(f"threads = {shown(threads)} must be {allowed}")
    return threads


def cluster_address(address: str | None, clustered: bool) -> str | None:
    """The address of the cluster: ``address`` or RAY_ADDRESS; None for a temporary cluster."""
    if address and not clustered:
        raise InputError(
            f"address = {address!r} is the address of a Ray cluster; it needs backend 'ray'"
        )
    return address or os.environ.get("RAY_ADDRESS") or None


def one_of(what: str, value: str, known: Sequence[str]) -> str:
    """``value`` itself; raises unless it is among ``known``."""
    if value not in known:
        raise InputError(f"{what} = {shown(value)} is unknown; {nearest(str(value), known)}")
    return value
