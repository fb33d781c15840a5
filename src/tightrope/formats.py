"""Numbers, amounts and times as people read them: in terminals, tables, pages and messages."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from tightrope.statistics import Bounded, Estimate

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0
LONGEST = 200 * 365 * DAY  # beyond that a time is not worth telling
NOTHING = "–"
SIGNS = frozenset("$€£¥")


def number(value: float | None, digits: int = 4, sign: str = "") -> str:
    """A number with so many significant digits, never in powers of ten where it can be read.

    >>> number(0.070214), number(1234567.8), number(0.0000012), number(None), number(0.05, sign="+")
    ('0.07021', '1,234,568', '1.2e-06', '–', '+0.05')
    """
    if value is None or math.isnan(value):
        return NOTHING
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    size = abs(value)
    if size and not 1e-4 <= size < 1e15:
        return f"{value:{sign}.{digits}g}"
    if size >= 10 ** (digits - 1):
        return f"{value:{sign},.0f}"
    decimals = digits if not size else digits - 1 - math.floor(math.log10(size))
    return _trimmed(f"{value:{sign}z,.{max(decimals, 0)}f}")


def _trimmed(text: str) -> str:
    """The text of a number without zeros at the end of its decimals."""
    return text.rstrip("0").rstrip(".") if "." in text else text


def count(value: float) -> str:
    """A whole number.

    >>> count(1234567.4)
    '1,234,567'
    """
    return f"{value:,.0f}"


def counted(value: int, what: str) -> str:
    """A number of things.

    >>> counted(1, "arm"), counted(1200, "arm")
    ('1 arm', '1,200 arms')
    """
    return f"{value:,} {what}{'s' * (value != 1)}"


def amounts(values: Sequence[float]) -> list[str]:
    """Numbers of a column with as many decimals as the longest needs, nine digits at most.

    >>> amounts([50.0, 12.0310004, 0.05]), amounts([1200.0, 3.0])
    (['50.0000000', '12.0310004', '0.0500000'], ['1,200', '3'])
    """
    size = max((abs(value) for value in values), default=0.0)
    most = min(12, max(0, 8 - math.floor(math.log10(size)))) if size else 0
    texts = [f"{value:.{most}f}".rstrip("0") for value in values] if most else [""]
    decimals = max(len(text.partition(".")[2]) for text in texts)
    return [f"{value:z,.{decimals}f}" for value in values]


def percent(share: float | None, digits: int | None = 1) -> str:
    """A share of the whole; ``digits``: decimals at most, None for three digits in all.

    >>> percent(0.1234), percent(1.0), percent(0.00001), percent(0.0)
    ('12.3 %', '100 %', '< 0.1 %', '0 %')
    >>> percent(0.1234, None), percent(0.00126, None), percent(-1.5, None)
    ('12.3 %', '0.13 %', '-150 %')
    """
    if share is None or math.isnan(share):
        return NOTHING
    if digits is None:
        digits = 2 if abs(share) < 0.1 else 1 if abs(share) < 1.0 else 0
    if 0 < share < 0.5 * 10 ** (-digits - 2):
        return f"< {10**-digits:g} %"
    return f"{_trimmed(f'{100 * share:z.{digits}f}')} %"


def chance(value: float) -> str:
    """A bound on a chance, rounded up.

    >>> chance(0.01), chance(0.00312), chance(1e-9), chance(1.0)
    ('1 %', '0.32 %', '0.01 %', '100 %')
    """
    up = math.ceil(max(value, 0.0) * 1e4 - 1e-9) / 1e4
    return percent(max(min(up, 1.0), 1e-4), 2)


def odds(share: float, low: float, high: float) -> str:
    """A measured chance and its interval.

    >>> odds(0.055, 0.042, 0.0713)
    '5.5 % (4.2 to 7.1)'
    """
    return f"{100 * share:.1f} % ({100 * low:.1f} to {100 * high:.1f})"


def decimals_of(reach: float) -> int:
    """Decimals at which half of an interval has two digits."""
    return min(12, max(0, 1 - math.floor(math.log10(reach)))) if 0.0 < reach < math.inf else 4


def with_reach(value: float, reach: float, sign: str = "") -> str:
    """A number ± half of its interval, if there is one, with two digits of the latter.

    >>> with_reach(1.2345, 0.0312), with_reach(0.5, 0.0, "+"), with_reach(1234.5, 71.0)
    ('1.234 ± 0.031', '+0.5', '1,234 ± 71')
    """
    if not 1e-9 * abs(value) < reach < math.inf:  # not but for rounding
        return number(value, 5, sign)
    decimals = decimals_of(reach)
    return f"{value:{sign}z,.{decimals}f} ± {reach:,.{decimals}f}"


def estimates(values: Sequence[Estimate | None], sign: str = "") -> list[str]:
    """The means of a column ± half of their 95 % intervals, rounded up, with the same decimals.

    >>> from tightrope.statistics import Bounded, Estimate
    >>> estimates([Estimate(0.512, 0.01), Estimate(2.0, 0.0), Bounded(0.0, bound=0.0327), None])
    ['0.512 ± 0.020', '2.000 ± 0.000', 'at most 0.033', '–']
    """
    decimals = _shared_decimals([one for one in values if one is not None])
    texts = []
    for one in values:
        if isinstance(one, Bounded):
            texts.append(at_most(one))
            continue
        text = NOTHING if one is None else f"{one.mean:{sign}z,.{decimals}f}"
        if one is not None and one.error is not None:  # never shown too narrow
            text += f" ± {math.ceil(one.reach * 10**decimals - 1e-6) / 10**decimals:,.{decimals}f}"
        texts.append(text)
    return texts


def at_most(value: Bounded) -> str:
    """What is known of a mean of which one bound is known.

    >>> from tightrope.statistics import Bounded
    >>> at_most(Bounded(0.0, bound=0.0327)), at_most(Bounded(1.0, bound=0.967))
    ('at most 0.033', 'at least 0.97')
    """
    side = "at most" if value.bound > value.mean else "at least"
    return f"{side} {number(value.bound, 2)}"


def _shared_decimals(values: Sequence[Estimate]) -> int:
    """Decimals at which most intervals are not 0; without intervals, five significant digits."""
    size = max((abs(one.mean) for one in values), default=0.0)
    reaches = [one.reach for one in values if one.error is not None]
    known = sorted(reach for reach in reaches if reach > 1e-9 * size)
    if known:
        return min(12, max(0, math.ceil(-math.log10(known[len(known) // 4] / 3.0))))
    return 4 if size == 0.0 else min(12, max(0, 4 - math.floor(math.log10(size))))


def finite(value: Any) -> Any:
    """The value with None in place of numbers that are not finite, which JSON does not have."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {key: finite(one) for key, one in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [finite(one) for one in value]
    return value


def span(seconds: float) -> str:
    """A length of time, in its largest unit that is at least 2, or in two for hours and days.

    >>> span(0.2), span(42), span(600), span(5400), span(200000)
    ('0.2 s', '42 s', '10 min', '1 h 30 min', '2 d 8 h')
    """
    if not math.isfinite(seconds) or seconds > LONGEST:
        return "years"
    if seconds < 10:
        return f"{_trimmed(f'{max(seconds, 0):.1f}')} s"
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
        """An amount with the unit."""
        return in_unit(self.plain(value), self.unit)


def in_unit(text: str, unit: str) -> str:
    """The text of an amount with its unit: a sign before it, a word after it.

    >>> in_unit("50", "€"), in_unit("50", "EUR"), in_unit("50", "")
    ('€50', '50 EUR', '50')
    """
    if not unit or text == NOTHING:
        return text
    if unit.isalpha() or unit == "%":
        return f"{text} {unit}"
    return f"−{unit}{text[1:]}" if text.startswith("-") else f"{unit}{text}"
