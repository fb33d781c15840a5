"""Check reports of pulls in all forms and convert them to numbers in order.

A report is a cost, a reward, and a penalty for each limit that has one of its own (``Task.told``).
Known outcomes can be left out; if reported, they must agree with the task.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from numbers import Real
from typing import Any, cast

import numpy as np

from tightrope.errors import InputError
from tightrope.problem import Task
from tightrope.problem.changed import MOST_GROWTH
from tightrope.problem.named import nearest_limit
from tightrope.problem.values import shown

PLAIN = frozenset([float, int, list])  # checked first: abstract classes are slower


class ReportForm:
    """The form of the reports of a task's pulls."""

    def __init__(self, task: Task) -> None:
        self._task, self._names = task, task.told_names
        self.whole = not task.knows_something  # whether every outcome must be reported
        caps = cast(Mapping[str, float], task.scales.grow)
        channels = []
        for name, scale in zip(task.told_channels, task.told_scales, strict=True):
            most = scale * (MOST_GROWTH if name in caps else 1.0)
            # The part above a cap is cut, however large it is.
            channels.append(
                (name, most, sys.float_info.max if caps.get(name, math.inf) <= most else most)
            )
        known = task.known_outcomes[:, [0, 1, *(2 + m for m in task.told)]].tolist()
        # For each value of an arm [K][2 + told]: name, largest value, bound, and known value.
        self._values = [
            [
                (*one, None if math.isnan(sure) else sure)
                for one, sure in zip(channels, row, strict=True)
            ]
            for row in (known[:1] if self.whole else known)
        ] * (task.arm_count if self.whole else 1)

    def in_order(self, arm: int, cost: Any, reward: Any, penalty: Any) -> list[Any]:
        """A report as a list: cost, reward, penalties; None if a known one is left out.

        Raises if penalties are missing or unknown.
        """
        names = self._names
        if type(penalty) not in PLAIN:
            penalty = _listed(penalty)
        named = penalty
        if type(penalty) in PLAIN or not isinstance(penalty, Mapping):
            several = penalty if isinstance(penalty, list) else [] if penalty is None else [penalty]
            if len(several) == len(names):
                return [cost, reward, *several]
            named = {"": several} if several else {}  # not the right number of them
        for name in named:
            if name and name not in (limits := self._task.limit_names):
                hint = nearest_limit(str(name), limits)
                raise InputError(f"penalty {shown(name)} is unknown; {hint}")
        needed = [one[0] for one in self._values[arm][2:] if one[3] is None]
        if not set(needed) <= set(named) <= set(names):
            raise InputError(f"penalty = {shown(penalty)}: must be {_allowed(names)}")
        return [cost, reward, *map(named.get, names)]

    def checked(self, arm: int, given: Sequence[Any]) -> list[float]:
        """The numbers of a report in order, with known values filled in.

        Raises an error that names the wrong value.
        """
        found = list(given)
        for place, (name, most, bound, known) in enumerate(self._values[arm]):
            number = value = given[place]
            if type(value) is not float:
                number = found[place] = _as_number(value, known)
            if number is None or not 0.0 <= number <= bound:
                raise InputError(f"{name} = {shown(value)}: must be a number in [0, {most:g}]")
            if known is not None and not math.isclose(number, known, rel_tol=1e-9):
                names = self._task.whole.names  # a row is type * K + arm
                what = f"{name} = {shown(value)} of arm {names[arm % len(names)]!r}"
                raise InputError(f"{what}: must be the known value {known:g}, or be left out")
        return found

    def all_penalties(self, arm: int, values: Sequence[float]) -> list[float]:
        """The penalties of all limits [M]: reported, known, or a limited cost or reward."""
        task, found = self._task, list(values[2:])
        if self.whole:
            return found
        own = dict(zip(task.told, found, strict=True))
        derived = {"cost": values[0], "reward": values[1]}
        return [
            own[m]
            if m in own
            else float(task.weights[arm, m] * derived[kind.of])
            if kind.of in derived
            else float(task.known_outcomes[arm, 2 + m])
            for m, kind in enumerate(task.limit_kinds)
        ]


def _listed(penalty: Any) -> Any:
    """Several penalties as a list, read once; a mapping or a number unchanged."""
    if isinstance(penalty, Mapping | str | bytes) or not isinstance(penalty, Iterable):
        return penalty
    if isinstance(penalty, np.ndarray) and penalty.ndim == 0:
        return penalty
    return list(penalty)


def _as_number(value: Any, known: float | None) -> float | None:
    """A number as a float, or the ``known`` value if it is left out; None for anything else."""
    if value is None:
        return known
    if type(value) is not int:
        if isinstance(value, np.ndarray) and value.ndim == 0:
            value = value.item()
        if not isinstance(value, Real | np.bool_):
            return None
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _allowed(names: Sequence[str]) -> str:
    """The allowed forms of penalties, for messages."""
    if not names:
        return "left out"
    by_name = ", ".join(repr(name) for name in names)
    count = "a number" if len(names) == 1 else f"{len(names)} numbers"
    return f"{count}, or by name: {by_name}"
