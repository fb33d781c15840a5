"""The rates of a limit as text."""

from __future__ import annotations

from math import floor, isnan, log10
from typing import cast

from tightrope.formats import Money, number, percent
from tightrope.problem import Task
from tightrope.problem.limits import Share
from tightrope.problem.named import Named


class RateWords:
    """The rates of one limit in words: a share in percent, an amount of money, or a number."""

    def __init__(self, task: Task, m: int, unit: str = "") -> None:
        """``unit``: the unit of costs, such as $; empty for none."""
        self.name, self.kind, self._unit = task.limit_names[m], task.limit_kinds[m], unit
        limit = float(task.limit_values[m])
        grows = self.name in cast(Named[float], task.scales.grow)
        unit_of, own = self.kind.unit, self.kind.of is None and not grows
        each = unit_of.channel == "pull" and unit_of.size == task.scales.penalties[m] == 1.0
        self.is_share = isinstance(self.kind, Share) or (own and each)
        self.is_money = self.kind.of == "cost" and not self.is_share
        self._digits = max(1, -floor(log10(limit)) - 1) if 0.0 < limit < 1.0 else 1
        self._money = Money(limit, unit)

    @property
    def format(self) -> str:
        """How a chart writes its rates: share, money or number."""
        return "share" if self.is_share else "money" if self.is_money else "number"

    def __call__(self, rate: float | None) -> str:
        """A rate without its unit."""
        if rate is None or isnan(rate):
            return number(None)
        if self.is_share:
            return percent(min(rate, 1.0), self._digits)
        return self._money(rate) if self.is_money else number(rate, 3)

    @property
    def per(self) -> str:
        """The unit of a rate: "per $", "in total"; empty for a share of the pulls."""
        if isinstance(self.kind, Share):
            return self.kind.words
        if self.is_share:
            return ""
        signed = self._unit and not self._unit.isalpha()
        if self.kind.per_cost and self.kind.total is None and signed:
            return f"per {self._unit}{', hard' * self.kind.hard}"
        return self.kind.words

    @property
    def allowed(self) -> str:
        """The limit: "at most 5 % of pulls"."""
        of = "of pulls" if self.is_share and not self.per else self.per
        return f"at most {self(float(self.kind.number))} {of}"

    @property
    def bound(self) -> str:
        """Which bound it is: "at most", or "at least" for a share that must not be smaller."""
        return "at least" if getattr(self.kind, "at_least", None) is not None else "at most"

    @property
    def now(self) -> str:
        """The number as it can be typed: "5 %", "0.04"."""
        least: float | None = getattr(self.kind, "at_least", None)
        value = float(self.kind.number) if least is None else least
        return f"{100 * value:.10g} %" if self.is_share else f"{value:.10g}"

    def against(self, rate: float | None) -> str:
        """A rate beside its limit: "3.4 % bad of 5 % allowed"."""
        limit = self(float(self.kind.number))
        return f"{self(rate)} {self.name} of {limit} allowed {self.per}".rstrip()
