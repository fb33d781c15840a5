"""A limit as people say it: so much of a penalty per unit of cost, per pull, per reward, in total.

The sum of a penalty Y over a run stays at most c times the sum of its *base*: the cost X, one for
every pull, or the reward R. Everything inside is about limits per unit of cost on the *net penalty*

    Y - c (base - X),

whose sum stays at most c times the cost exactly where the limit is kept. For a limit per unit of
cost it is the penalty itself. A limit in total T is one per unit of cost at T over the budget.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tightrope.errors import ProblemError, nearest
from tightrope.problem.laws import known_keys, shown

__all__ = ["BASES", "PER_COST", "PER_PULL", "PER_REWARD", "Limit", "as_limit"]

PER_COST, PER_PULL, PER_REWARD = 0, 1, 2  # the codes of the bases, in this order
BASES = ("cost", "pull", "reward")
OF = ("cost", "reward")  # channels that a limit may be on without a penalty of its own


@dataclass(frozen=True)
class Limit:
    """At most ``at_most`` of a penalty ``per`` unit of cost, pull or unit of reward.

    ``total`` in place of ``at_most``: at most so much over the whole budget. ``of``: the limit is
    on the cost or the reward itself, which then need not be told as a penalty too.

    >>> Limit(0.05, per="pull")
    Limit(0.05, per='pull')
    >>> Limit(20, of="cost", per="reward")
    Limit(20, of='cost', per='reward')
    >>> Limit(total=500)
    Limit(total=500)
    """

    at_most: float | None = None
    per: str = "cost"
    of: str | None = None
    total: float | None = None

    def __post_init__(self) -> None:
        if (self.at_most is None) == (self.total is None):
            raise ProblemError(f"{self!r}: must have either at_most or total")
        if self.per not in BASES:
            allowed = f"{', '.join(map(repr, BASES))}"
            raise ProblemError(f"per = {shown(self.per)}: must be {allowed}")
        if self.total is not None and self.per != "cost":
            raise ProblemError(f"per = {self.per!r}: must be left out beside total")
        if self.of is not None and self.of not in OF:
            allowed = " or ".join(map(repr, OF))
            raise ProblemError(f"of = {shown(self.of)}: must be {allowed}, or be left out")
        if self.of is not None and self.of == self.per and self.total is None:
            raise ProblemError(f"of = {self.of!r}: must not be what it is per")
        if self.of == "cost" and self.total is not None:
            raise ProblemError("of = 'cost': must not be limited in total; the budget does that")

    def __repr__(self) -> str:
        parts = [] if self.at_most is None else [f"{self.at_most!r}"]
        parts += [] if self.total is None else [f"total={self.total!r}"]
        parts += [] if self.of is None else [f"of={self.of!r}"]
        parts += [] if self.per == "cost" else [f"per={self.per!r}"]
        return f"Limit({', '.join(parts)})"

    @property
    def number(self) -> Any:
        """The number that was given."""
        return self.at_most if self.total is None else self.total

    @property
    def base(self) -> int:
        """The code of its base."""
        return BASES.index(self.per)

    @property
    def plain(self) -> bool:
        """Whether a number alone says as much: one per unit of cost."""
        return self.per == "cost" and self.of is None and self.total is None

    @property
    def words(self) -> str:
        """It in words, without the number.

        >>> Limit(0.05).words, Limit(0.05, per="pull").words, Limit(total=5).words
        ('per unit of cost', 'per pull', 'in total')
        """
        if self.total is not None:
            return "in total"
        return "per pull" if self.per == "pull" else f"per unit of {self.per}"

    def table(self) -> dict[str, object]:
        """It as a TOML table, which :func:`as_limit` reads."""
        number = {"at_most": self.at_most} if self.total is None else {"total": self.total}
        of = {} if self.of is None else {"of": self.of}
        return {**number, **of, **({} if self.per == "cost" else {"per": self.per})}


def as_limit(value: object) -> Limit:
    """A number, a :class:`Limit`, or a table as in TOML, as a limit; its number is not checked."""
    if isinstance(value, Limit):
        return value
    if isinstance(value, Mapping):
        table = known_keys(dict(value), ("at_most", "per", "of", "total"))
        if "at_most" not in table and "total" not in table:
            raise ProblemError(f"{shown(dict(value))}: must have at_most or total")
        return Limit(**table)
    if isinstance(value, str):
        raise ProblemError(f"{value!r} must be a number or a Limit; {nearest(value, BASES)}")
    return Limit(value)  # type: ignore[arg-type]
