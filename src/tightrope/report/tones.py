"""Which policies keep their limits: the colours, and the order of rows, in every table.

A tone is *good* where the runs show that a limit is kept, *bad* where they show that it is broken,
and empty where they show neither. Tables list policies in that order; *bad* is red.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tightrope.names import in_table
from tightrope.statistics import Estimate

ORDER = ("good", "", "bad")
MOST_NAMES = 6  # policies that a note names


def tone(low: float, high: float, allowed: float = 0.0) -> str:
    """The tone of a 95 % interval beside the largest value that is allowed.

    >>> tone(-0.2, -0.1), tone(-0.1, 0.1), tone(0.1, 0.2)
    ('good', '', 'bad')
    """
    return "bad" if low > allowed else "good" if high <= allowed else ""


def estimate_tone(violation: Estimate) -> str:
    """The tone of a violation; without an interval, that of its mean."""
    return tone(*(violation.interval or (violation.mean, violation.mean)))


def worst(tones: Iterable[str]) -> str:
    """The worst of some tones.

    >>> worst(["good", "bad"]), worst([])
    ('bad', '')
    """
    return max(tones, key=ORDER.index, default="")


def limits_tone(violations: Iterable[Estimate]) -> str:
    """The tone of a policy: the worst of its violations."""
    return worst(map(estimate_tone, violations))


def red(tones: Iterable[str]) -> list[str]:
    """The tones of names: bad or none."""
    return ["bad" if one == "bad" else "" for one in tones]


def breaking(policies: Iterable[str], tones: Sequence[str]) -> list[str]:
    """A note that names the policies with a bad tone, if there are any."""
    bad = [in_table(name) for name, one in zip(policies, tones, strict=True) if one == "bad"]
    named = list(dict.fromkeys(bad))
    more = f" and {len(named) - MOST_NAMES} more" * (len(named) > MOST_NAMES)
    return [f"breaks a limit (red): {', '.join(named[:MOST_NAMES])}{more}"] if named else []
