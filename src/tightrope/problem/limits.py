"""Limits on a penalty: per unit of cost, per pull, per unit of reward, or in total.

The sum of a penalty Y over a run stays at most c times the sum of its *base*: the cost X, one for
every pull, or the reward R. Internally, every limit is a limit per unit of cost on the *net
penalty*

    Y - c (base - X),

whose sum is at most c times the cost exactly if the limit is kept. For a limit per unit of cost,
the net penalty is the penalty. A limit T in total is a limit of T / budget per unit of cost.

All other modules ask the limit for its base, and kernels read the number from ``Known.net_bases``.
To add a base, add an entry to ``BASES``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from tightrope.errors import ProblemError, nearest
from tightrope.problem.values import known_keys, number, shown

CHANNELS = ("cost", "pull", "reward")  # a base counts one of them
OF = ("cost", "reward")  # channels that a limit can be on, without a penalty of its own
TEXT = re.compile(  # a number or a percentage, its base, and whether it is hard
    r"([^\s/%]+)\s*(%?)\s*(?:(?:/|per)\s*(?:unit\s+of\s+)?(\w+)|in\s+(total))?(,\s*hard)?"
)
SHARE_TEXT = re.compile(  # which bound, a number or a percentage, of what, and the arms
    r"at\s+(least|most)\s+([^\s%]+)\s*(%?)\s+(?:of\s+(?:the\s+)?(pull|cost|budget|reward)s?\s+)?for\s+(.+)"
)
Value = TypeVar("Value")
Own = TypeVar("Own", bound="_Based")


@dataclass(frozen=True)
class Base:
    """The base of a limit: an amount (``size``) of one ``channel``: cost, pull or reward.

    ``words`` follow the number of a limit; ``divisor`` is the base's name in a quotient.
    """

    channel: str
    words: str
    divisor: str
    size: float = 1.0

    def pick(self, cost: Value, pull: Value, reward: Value) -> Value:
        """The one of three values that belongs to its channel."""
        return (cost, pull, reward)[CHANNELS.index(self.channel)]

    def of(self, cost: Any, pulls: Any, reward: Any) -> Any:
        """The amount of the base in these totals: numbers or arrays, in the user's units."""
        return self.pick(cost, pulls, reward) / self.size


BASES = {
    "cost": Base("cost", "per unit of cost", "budget"),
    "pull": Base("pull", "per pull", "pulls"),
    "reward": Base("reward", "per unit of reward", "reward"),
}


class _Based:
    """The number and the base of a limit or a share."""

    per: str
    total: float | None

    @property
    def number(self) -> Any:
        """The largest allowed penalty over its base."""
        raise NotImplementedError

    @property
    def words(self) -> str:
        """It in words, without the number."""
        raise NotImplementedError

    @property
    def plain(self) -> bool:
        """Whether a plain number means the same: a limit per unit of cost."""
        return False

    @property
    def unit(self) -> Base:
        """Its base; that of a limit in total is the cost."""
        return BASES[self.per]

    @property
    def per_cost(self) -> bool:
        """Whether it is per unit of cost or in total, so that the net penalty is the penalty."""
        return self.unit.channel == "cost"

    def base(self, cost: Any, pulls: Any, reward: Any) -> Any:
        """The divisor of the penalty: numbers or arrays, in the user's units; 1 for a total.

        >>> [one.base(cost=20, pulls=80, reward=9) for one in (Limit(0.05), Limit(total=5))]
        [20.0, 1.0]
        """
        return 1.0 if self.total is not None else self.unit.of(cost, pulls, reward)

    def violation(
        self, penalty: Any, cost: Any, pulls: Any, reward: Any, planned: float | None = None
    ) -> Any:
        """The penalty over its base, minus the limit: positive if the limit is broken.

        Numbers or arrays, in the user's units. ``cost`` is the budget of a run. ``planned``: the
        whole budget that a limit in total refers to; default: ``cost``.

        >>> Limit(0.5, per="pull").violation(penalty=60.0, cost=20, pulls=80, reward=9).item()
        0.25
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            rate = np.where(penalty == 0.0, 0.0, np.divide(penalty, self.base(cost, pulls, reward)))
        in_part = self.total is not None and planned is not None
        return rate - (self.number * cost / planned if in_part else self.number)

    def spread(self, budget: float) -> float:
        """The cost that its number refers to: the budget for a total, otherwise 1."""
        return 1.0 if self.total is None else budget

    def at(self: Own, budget: float) -> Own:
        """The limit at a budget: a limit in total becomes one per unit of cost."""
        given: Any = {"at_most": self.number / budget, "total": None}
        return self if self.total is None else replace(self, **given)  # type: ignore[type-var]

    def with_number(self: Own, number: Any) -> Own:
        """The same limit with another number."""
        keys = ("at_most", "total", "at_least")
        given = next(key for key in keys if getattr(self, key, None) is not None)
        return replace(self, **{given: number})  # type: ignore[type-var]

    @property
    def short(self: Own) -> float | Own:
        """The plain number if it means the same, otherwise the limit."""
        return float(self.number) if self.plain else self

    @property
    def suffix(self) -> str:
        """The text after its number, where a limit per unit of cost is a plain number.

        >>> Limit(0.05).suffix, Limit(0.05, per="pull").suffix
        ('', ' per pull')
        """
        return "" if self.plain else f" {self.words}"

    @property
    def quotient(self) -> str:
        """The text after its penalty's name in a rate: " / pulls", " in total"."""
        return " in total" if self.total is not None else f" / {self.unit.divisor}"


@dataclass(frozen=True)
class Limit(_Based):
    """At most ``at_most`` of a penalty ``per`` unit of cost, pull or unit of reward.

    ``total``, instead of ``at_most``, limits the sum over the whole budget. ``hard`` makes the
    allowed total a second budget: the run ends with the pull that exceeds it. ``of`` puts the limit
    on the cost or the reward itself, so that no separate penalty is reported.

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
            raise ProblemError(f"{self!r}: must have exactly one of at_most and total")
        if self.per not in list(BASES):
            raise ProblemError(f"per = {shown(self.per)}: must be {' or '.join(map(repr, BASES))}")
        if self.total is not None and self.per != "cost":
            raise ProblemError(f"per = {self.per!r}: must be left out beside total")
        if self.of is not None and self.of not in OF:
            allowed = " or ".join(map(repr, OF))
            raise ProblemError(f"of = {shown(self.of)}: must be {allowed}, or be left out")
        if self.of is not None and self.of == self.unit.channel and self.total is None:
            raise ProblemError(f"of = {self.of!r}: must differ from per")
        if self.of == "cost" and self.total is not None:
            raise ProblemError("of = 'cost': must not be limited in total; the budget does that")

    def __repr__(self) -> str:
        named = self.table().items()
        parts = [f"{v!r}" if key == "at_most" else f"{key}={v!r}" for key, v in named]
        return f"Limit({', '.join(parts)})"

    @property
    def number(self) -> Any:
        """The number that was given: ``at_most`` or ``total``."""
        return self.at_most if self.total is None else self.total

    def weights(self, names: Sequence[str]) -> list[float]:
        """The weight of each arm for a limit on the cost or the reward: 1."""
        return [1.0] * len(names)

    @property
    def plain(self) -> bool:
        """Whether it is only a number per unit of cost."""
        return self.per == "cost" and self.of is None and self.total is None and not self.hard

    @property
    def words(self) -> str:
        """It in words, without the number.

        >>> Limit(0.05).words, Limit(0.05, per="pull").words, Limit(total=5).words
        ('per unit of cost', 'per pull', 'in total')
        """
        words = self.unit.words if self.total is None else "in total"
        return f"{words}{', hard' * self.hard}"

    def table(self) -> dict[str, object]:
        """The limit as a TOML table, which ``as_limit`` reads."""
        named = {"at_most": self.at_most, "total": self.total, "of": self.of}
        found: dict[str, object] = {key: v for key, v in named.items() if v is not None}
        per = {} if self.per == "cost" else {"per": self.per}
        return {**found, **per, **({"hard": True} if self.hard else {})}


@dataclass(frozen=True)
class Share(_Based):
    """A lower or upper bound on some arms' share of the pulls, the cost or the reward.

    Nothing is learned or reported for it. The penalty of a pull is its ``per`` if the arm is not
    among ``arms`` (``at_least``) or if it is (``at_most``). ``per="cost"`` means a share of the
    budget: money left at the end counts as not spent on those arms.

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
            raise ProblemError(f"{self!r}: must have exactly one of at_least and at_most")
        if self.per not in CHANNELS:
            raise ProblemError(
                f"per = {shown(self.per)}: must be {' or '.join(map(repr, CHANNELS))}"
            )
        name = "at_most" if self.at_least is None else "at_least"
        share = number(getattr(self, name), name)
        if not 0.0 < share < 1.0:
            raise ProblemError(f"{name} = {share!r}: must be a share, between 0 and 1")
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
        """The channel of its penalty: a pull, the cost or the reward of arms with a weight."""
        return self.per

    @property
    def words(self) -> str:
        """It in words, without the number."""
        what = {"pull": "of pulls", "cost": "of the budget", "reward": "of the reward"}[self.per]
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
    """A number, a limit or a TOML table as a limit; its number is not checked."""
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
    written = as_written(value)
    return written if isinstance(written, Kind) else Limit(written)  # type: ignore[arg-type]


def as_written(value: object) -> object:
    """Parse a text as a limit or a plain number; return other values unchanged.

    >>> as_written("5% per pull"), as_written("0.05/pull"), as_written("3%")
    (Limit(0.05, per='pull'), Limit(0.05, per='pull'), 0.03)
    >>> as_written("0.05 per cost"), as_written("30 in total")
    (Limit(0.05), Limit(total=30.0))
    >>> as_written("at least 20% of pulls for Ada, Bo")
    Share(['Ada', 'Bo'], at_least=0.2)
    >>> as_written("at most 30% of the budget for opus")
    Share(['opus'], at_most=0.3, per='cost')
    """
    if not isinstance(value, str):
        return value
    share = SHARE_TEXT.fullmatch(value.strip())
    return _limit_of_text(value) if share is None else _share_of_text(value, *share.groups())


def _amount(text: str, number: str, percent: str) -> float:
    """The number or percentage at the start of a text."""
    try:
        return float(number) / (100.0 if percent else 1.0)
    except ValueError:
        allowed = "a number or a percentage, such as 0.05/pull, 5% per pull or 30 in total"
        raise ProblemError(f"{shown(text)} must be {allowed}") from None


def _share_of_text(
    text: str, bound: str, number: str, percent: str, per: str | None, arms: str
) -> Share:
    share: Any = {f"at_{bound}": _amount(text, number, percent)}
    per = "cost" if per == "budget" else per or "pull"
    return Share([arm.strip() for arm in arms.split(",")], **share, per=per)


def _limit_of_text(text: str) -> float | Limit:
    found = TEXT.fullmatch(text.strip())
    number, percent, per, total, hard = found.groups() if found else ("", "", "", "", "")
    amount = _amount(text, number, percent)
    per = per or total
    if per and per not in (*BASES, "total"):
        allowed = f"{', '.join(BASES)} or total"
        raise ProblemError(f"{shown(text)}: {per!r} must be {allowed}")
    if not per and not hard:
        return amount
    if per == "total":
        return Limit(total=amount, hard=bool(hard))
    return Limit(amount, per=per or "cost", hard=bool(hard))
