"""The largest cost of a pull, which is reserved, and the largest values of its report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf, isclose, isnan
from numbers import Real
from typing import cast

from tightrope.errors import InputError
from tightrope.live.ledger import Account
from tightrope.problem import Task
from tightrope.problem.values import LARGEST, shown


def reservations(task: Task, accounts: Sequence[Account], reserves: bool) -> list[tuple[int, ...]]:
    """The reservation for a pull of each arm, in ticks per account [K][accounts]."""
    if not reserves:
        return [(0,) * len(accounts)] * task.arm_count
    places = [0, *(2 + m for m, hard in enumerate(task.hard) if hard)]
    grows, found = cast(Mapping[str, float], task.scales.grow), []
    most = [grows.get(task.channels[p], task.scales.channels[p]) for p in places]
    for arm in range(task.arm_count):
        known = task.known_outcomes[arm]
        largest = [
            one if isnan(known[place]) else float(known[place])
            for one, place in zip(most, places, strict=True)
        ]
        found.append(tuple(a.ticks_above(v) for a, v in zip(accounts, largest, strict=True)))
    return found


def hard_totals(task: Task, budget: float) -> list[float]:
    """The totals that the hard limits allow at a budget, in order."""
    limits = [limit for limit in task.limit_kinds if limit.hard]
    return [float(limit.total or limit.number * budget) for limit in limits]


def is_price(value: object, price: float) -> bool:
    """Whether a value equals a price, up to rounding."""
    return isinstance(value, Real) and isclose(cast(float, value), price, rel_tol=1e-9)


def caps_of(task: Task) -> list[list[tuple[int, float, bool, int]]]:
    """For each arm, the reported places whose values have a largest value, and that value [K].

    Also whether it is a known price and not only the largest value, and the account.
    """
    grows = cast(Mapping[str, float], task.scales.grow)
    hard = [m for m, hard in enumerate(task.hard) if hard]
    told_hard = [(2 + i, 2 + m, 1 + hard.index(m)) for i, m in enumerate(task.told) if m in hard]
    scales, found = task.scales.channels, []
    for arm in range(task.arm_count):
        known = task.known_outcomes[arm]
        mine = []
        for told, place, account in [(0, 0, 0), *told_hard]:
            if not isnan(known[place]):
                mine.append((told, float(known[place]), True, account))
            elif task.channels[place] not in grows:
                mine.append((told, scales[place], False, account))
        found.append(mine)
    return found


def uncapped(task: Task) -> list[str]:
    """Accounts of a task whose largest outcome is unknown."""
    grows = cast(Mapping[str, float], task.scales.grow)
    names = ["cost", *(task.limit_names[m] for m, hard in enumerate(task.hard) if hard)]
    return [name for name in names if grows.get(name, 0.0) == inf]


def known_amount(value: object, place: str) -> float:
    """An amount as a finite, non-negative number."""
    if isinstance(value, Real) and not isinstance(value, bool):
        number = cast(float, value)
        if 0.0 <= number <= LARGEST:
            return float(number)
    raise InputError(f"{place} = {shown(value)}: must be a number, at least 0")
