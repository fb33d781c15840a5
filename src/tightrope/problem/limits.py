"""A limit as people say it: so much of a penalty per unit of cost, per pull, per reward, in total.

The sum of a penalty Y over a run stays at most c times the sum of its *base*: the cost X, one for
every pull, or the reward R. Everything inside is about limits per unit of cost on the *net penalty*

    Y - c (base - X),

whose sum stays at most c times the cost exactly where the limit is kept. For a limit per unit of
cost it is the penalty itself. A limit in total T is one per unit of cost at T over the budget.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tightrope.errors import ProblemError, nearest
from tightrope.problem.laws import known_keys, number, shown

__all__ = ["BASES", "PER_COST", "PER_PULL", "PER_REWARD", "Kind", "Limit", "Share", "as_limit"]

PER_COST, PER_PULL, PER_REWARD = 0, 1, 2  # the codes of the bases, in this order
BASES = ("cost", "pull", "reward")
OF = ("cost", "reward")  # channels that a limit may be on without a penalty of its own


@dataclass(frozen=True)
class Limit:
    """At most ``at_most`` of a penalty ``per`` unit of cost, pull or unit of reward.

    ``total`` in place of ``at_most``: at most so much over the whole budget. ``hard`` makes what is
    allowed in all a second budget: the run ends with the pull that exceeds it. ``of``: the limit is
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
    hard: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.hard, bool):
            raise ProblemError(f"hard = {shown(self.hard)}: must be true or false")
        if self.hard and self.per != "cost":
            raise ProblemError(f"hard = True: must be in total or per unit of cost, not {self.per}")
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
        parts += ["hard=True"] * self.hard
        return f"Limit({', '.join(parts)})"

    @property
    def number(self) -> Any:
        """The number that was given."""
        return self.at_most if self.total is None else self.total

    def weights(self, names: Sequence[str]) -> list[float]:
        """The weight of each arm where it is of the cost or the reward: 1."""
        return [1.0] * len(names)

    @property
    def base(self) -> int:
        """The code of its base."""
        return BASES.index(self.per)

    @property
    def plain(self) -> bool:
        """Whether a number alone says as much: one per unit of cost."""
        return self.per == "cost" and self.of is None and self.total is None and not self.hard

    @property
    def words(self) -> str:
        """It in words, without the number.

        >>> Limit(0.05).words, Limit(0.05, per="pull").words, Limit(total=5).words
        ('per unit of cost', 'per pull', 'in total')
        """
        if self.total is not None:
            return "in total, hard" if self.hard else "in total"
        hard = ", hard" if self.hard else ""
        return "per pull" if self.per == "pull" else f"per unit of {self.per}{hard}"

    def table(self) -> dict[str, object]:
        """It as a TOML table, which ``as_limit`` reads."""
        number = {"at_most": self.at_most} if self.total is None else {"total": self.total}
        of = {} if self.of is None else {"of": self.of}
        hard = {"hard": True} if self.hard else {}
        return {**number, **of, **({} if self.per == "cost" else {"per": self.per}), **hard}


@dataclass(frozen=True)
class Share:
    """At least, or at most, a share of the pulls, the cost or the reward is that of some arms.

    There is nothing to learn about it and nothing to tell: the penalty of a pull is its ``per`` if
    the arm is not among ``arms`` (``at_least``), or if it is (``at_most``).

    >>> Share(["newcomer"], at_least=0.2)
    Share(['newcomer'], at_least=0.2)
    >>> Share(["a", "b"], at_most=0.5, per="cost").weights(["a", "b", "c"])
    [1.0, 1.0, 0.0]
    """

    arms: Sequence[str]  # kept as a tuple
    at_least: float | None = None
    at_most: float | None = None
    per: str = "pull"

    total, hard = None, False  # as a Limit has them

    def __post_init__(self) -> None:
        if isinstance(self.arms, str) or not isinstance(self.arms, Iterable):
            raise ProblemError(f"arms = {shown(self.arms)}: must be a list of arms' names")
        object.__setattr__(self, "arms", tuple(self.arms))
        if not self.arms:
            raise ProblemError("arms = []: must name at least one arm")
        if (self.at_least is None) == (self.at_most is None):
            raise ProblemError(f"{self!r}: must have either at_least or at_most")
        if self.per not in BASES:
            raise ProblemError(f"per = {shown(self.per)}: must be {', '.join(map(repr, BASES))}")
        name = "at_most" if self.at_least is None else "at_least"
        share = number(getattr(self, name), name)
        if not 0.0 < share < 1.0:
            raise ProblemError(f"{name} = {share!r}: must lie between 0 and 1, a share")
        object.__setattr__(self, name, share)

    def __repr__(self) -> str:
        bound = f"at_least={self.at_least!r}" if self.at_most is None else f"at_most={self.at_most}"
        per = "" if self.per == "pull" else f", per={self.per!r}"
        return f"Share({list(self.arms)!r}, {bound}{per})"

    @property
    def number(self) -> float:
        """The limit of its penalty."""
        return 1.0 - self.at_least if self.at_least is not None else float(self.at_most or 0.0)

    @property
    def of(self) -> str:
        """What its penalty is: a pull, the cost or the reward, of arms with a weight."""
        return self.per

    @property
    def base(self) -> int:
        """The code of its base."""
        return BASES.index(self.per)

    @property
    def plain(self) -> bool:
        """A number alone does not say as much."""
        return False

    @property
    def words(self) -> str:
        """It in words, without the number."""
        what = "of pulls" if self.per == "pull" else f"of {self.per}"
        return f"{what} for all but {', '.join(self.arms)}" if self.at_least else what

    def weights(self, names: Sequence[str]) -> list[float]:
        """Whether a pull of each arm counts against it, 1 or 0."""
        for name in self.arms:
            if name not in names:
                raise ProblemError(f"share: {shown(name)} is not an arm; {nearest(name, names)}")
        inside = 0.0 if self.at_most is None else 1.0
        return [inside if name in self.arms else 1.0 - inside for name in names]

    def table(self) -> dict[str, object]:
        """It as a TOML table."""
        bound = {"at_least": self.at_least} if self.at_most is None else {"at_most": self.at_most}
        return {"share": list(self.arms), **bound, "per": self.per}


Kind = Limit | Share


def as_limit(value: object) -> Kind:
    """A number, a limit, or a table as in TOML, as a limit; its number is not checked."""
    if isinstance(value, Kind):
        return value
    if isinstance(value, Mapping) and "share" in value:
        table = known_keys(dict(value), ("share", "at_least", "at_most", "per"))
        return Share(table.pop("share"), **table)
    if isinstance(value, Mapping):
        table = known_keys(dict(value), ("at_most", "per", "of", "total", "hard"))
        if "at_most" not in table and "total" not in table:
            raise ProblemError(f"{shown(dict(value))}: must have at_most or total")
        return Limit(**table)
    if isinstance(value, str):
        raise ProblemError(f"{value!r} must be a number or a Limit; {nearest(value, BASES)}")
    return Limit(value)  # type: ignore[arg-type]
