"""Numbers, amounts and times as the pages show them."""

from __future__ import annotations

import math
from datetime import UTC, datetime

__all__ = ["Money", "age", "chance", "count", "moment", "number", "percent", "span"]

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0
LONGEST = 200 * 365 * DAY  # beyond that a time is not worth telling
NOTHING = "–"
SIGNS = frozenset("$€£¥")


def number(value: float | None, digits: int = 4) -> str:
    """A number with so many significant digits, never in powers of ten where it can be read.

    >>> number(0.070214), number(1234567.8), number(0.0000012), number(None), number(0.05)
    ('0.07021', '1,234,568', '1.2e-06', '–', '0.05')
    """
    if value is None or math.isnan(value):
        return NOTHING
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    size = abs(value)
    if size and not 1e-4 <= size < 1e15:
        return f"{value:.{digits}g}"
    if size >= 10 ** (digits - 1):
        return f"{value:,.0f}"
    decimals = digits if not size else digits - 1 - math.floor(math.log10(size))
    text = f"{value:,.{max(decimals, 0)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def count(value: float) -> str:
    """A whole number.

    >>> count(1234567.4)
    '1,234,567'
    """
    return f"{value:,.0f}"


def percent(share: float | None, digits: int = 1) -> str:
    """A share of the whole.

    >>> percent(0.1234), percent(1.0), percent(0.00001), percent(0.0)
    ('12.3 %', '100 %', '< 0.1 %', '0 %')
    """
    if share is None or math.isnan(share):
        return NOTHING
    if 0 < share < 0.5 * 10 ** (-digits - 2):
        return f"< {10**-digits:g} %"
    text = f"{100 * share:.{digits}f}"
    return f"{text.rstrip('0').rstrip('.') if '.' in text else text} %"


def chance(value: float) -> str:
    """A bound on a chance, rounded up.

    >>> chance(0.01), chance(0.00312), chance(1e-9), chance(1.0)
    ('1 %', '0.32 %', '0.01 %', '100 %')
    """
    up = math.ceil(max(value, 0.0) * 1e4 - 1e-9) / 1e4
    return percent(max(min(up, 1.0), 1e-4), 2)


def span(seconds: float) -> str:
    """A length of time, in its largest unit that is at least 2, or in two for hours and days.

    >>> span(0.2), span(42), span(600), span(5400), span(200000)
    ('0.2 s', '42 s', '10 min', '1 h 30 min', '2 d 8 h')
    """
    if not math.isfinite(seconds) or seconds > LONGEST:
        return "years"
    if seconds < 10:
        return f"{max(seconds, 0):.1f}".rstrip("0").rstrip(".") + " s"
    if seconds < 2 * MINUTE:
        return f"{seconds:.0f} s"
    if seconds < HOUR:
        return f"{seconds / MINUTE:.0f} min"
    for size, name, part, small in ((HOUR, "h", MINUTE, "min"), (DAY, "d", HOUR, "h")):
        if seconds < 36 * HOUR or name == "d":
            whole, rest = divmod(round(seconds / part), round(size / part))
            if whole >= 60:
                return f"{whole:,} {name}"
            return f"{whole} {name} {rest} {small}" if rest else f"{whole} {name}"
    return "years"


def age(at: float, now: float) -> str:
    """How long ago it was.

    >>> age(100.0, 100.4), age(40.0, 100.0), age(160.0, 100.0)
    ('just now', '60 s ago', 'in 60 s')
    """
    if at > now + 1:
        return f"in {span(round(at - now))}"
    return "just now" if now - at < 1.5 else f"{span(round(now - at))} ago"


def moment(at: float) -> str:
    """A time in UTC.

    >>> moment(0)
    '1970-01-01 00:00:00 UTC'
    """
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


class Money:
    """Amounts of one campaign: as many decimals as its budget is worth, and the user's unit.

    >>> money = Money(50.0, "$")
    >>> money(12.3456), Money(400_000)(1234.6), Money(0.05, "ms")(0.0123456), money(0.00312)
    ('$12.35', '1,235', '0.01235 ms', '$0.0031')
    """

    def __init__(self, budget: float, unit: str = "") -> None:
        self.unit = unit
        self.decimals = min(max(3 - math.floor(math.log10(budget)), 0), 12) if budget > 0 else 2
        if unit in SIGNS and budget >= 1.0:
            self.decimals = 2 if budget < 1e6 else 0

    def plain(self, value: float | None) -> str:
        """An amount without the unit."""
        if value is None or math.isnan(value):
            return NOTHING
        decimals = self.decimals
        if not value:
            return "0"
        if abs(value) < 10**-decimals * 10:  # small ones keep two digits
            decimals = min(max(1 - math.floor(math.log10(abs(value))), decimals), 12)
        return f"{value:,.{decimals}f}"

    def __call__(self, value: float | None) -> str:
        """An amount with the unit: a sign before it, a word after it."""
        text = self.plain(value)
        if not self.unit or text == NOTHING:
            return text
        if self.unit.isalpha() or self.unit == "%":
            return f"{text} {self.unit}"
        return f"−{self.unit}{text[1:]}" if text.startswith("-") else f"{self.unit}{text}"
