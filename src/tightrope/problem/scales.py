"""The largest value of one outcome of each channel, and how it can grow."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from tightrope.errors import ProblemError, nearest
from tightrope.problem.limits import Kind
from tightrope.problem.named import Named
from tightrope.problem.values import LARGEST, at, number, shown

# Bounds that keep every product and square of these values within the range of floats.
SMALLEST = 1e-30  # of a scale, a limit or a budget, in the user's units; LARGEST likewise


def quantity(value: object, place: str) -> float:
    """``value`` as a positive float within these bounds; errors name it ``place``."""
    converted = number(value, place)
    if converted <= 0:
        raise ProblemError(f"{place} = {converted!r}: must be positive")
    if not SMALLEST <= converted <= LARGEST:
        allowed = f"lie between {SMALLEST:g} and {LARGEST:g}; choose another unit"
        raise ProblemError(f"{place} = {converted!r}: must {allowed}")
    return converted


@dataclass(frozen=True)
class Scales:
    """The largest value that one outcome of each channel can have, in the user's units.

    ``penalty``: one number, M numbers in the order of the limits, or a mapping by the limits'
    names; default: 1.

    ``grow``: the channels (cost, reward, the limits' names) whose scale is a first guess,
    optionally with a cap on the outcomes to learn from: ``grow={"dollars": 2}``; True means all. In
    a live run, a larger outcome doubles the scale until it fits, at most 16 times. The part of an
    outcome above the cap is charged, but policies do not learn from it.

    >>> Scales(cost=50, penalty={"dollars": 0.05}).cost
    50.0
    """

    cost: float = 1.0
    reward: float = 1.0
    penalty: float | Sequence[float] | Mapping[str, float] = ()
    grow: bool | Sequence[str] | Mapping[str, float] = ()

    def __new__(cls, *given: Any, **named: Any) -> Scales:
        """Remember whether a scale of costs was given, even if it equals the default."""
        made = super().__new__(cls)
        made.__dict__["_said"] = bool(given) or "cost" in named
        return made

    @property
    def says_cost(self) -> bool:
        """Whether a scale of costs was given, even if it equals the default."""
        return bool(self.__dict__["_said"])

    def __post_init__(self) -> None:
        object.__setattr__(self, "penalty", _one_or_more(self.penalty, "scale of", "penalty"))
        if not isinstance(self.grow, bool):
            object.__setattr__(self, "grow", _caps(self.grow))
        for channel in ("cost", "reward"):
            value = quantity(getattr(self, channel), f"scale of {channel}")
            object.__setattr__(self, channel, value)

    @property
    def penalties(self) -> tuple[float, ...]:
        """The M scales of the penalties."""
        given = self.penalty
        return tuple(given.values() if isinstance(given, Mapping) else cast(Sequence[float], given))

    @property
    def channels(self) -> tuple[float, ...]:
        """The scale of every channel, [2 + M]."""
        return (self.cost, self.reward, *self.penalties)

    def for_limits(self, limits: Mapping[str, Kind]) -> Scales:
        """The same scales with one for each limit, in order: the scale of the limit's channel."""
        names = tuple(limits)
        if isinstance(self.penalty, Mapping):
            with at("scales"):
                in_order = Named(self.penalty).in_order(names, "penalty", 1.0)
        else:
            in_order = list(self.penalties) or [1.0] * len(names)
        if len(in_order) != len(names):
            raise ProblemError(
                f"scales: penalties = {len(in_order)}, limits = {len(names)}; must be equal"
            )
        for m, limit in enumerate(limits.values()):
            if limit.of is not None:
                in_order[m] = 1.0 if limit.of == "pull" else getattr(self, limit.of)
        grow = self._growing({name for name in names if limits[name].of is None}, names)
        return self.changed(penalty=tuple(in_order), grow=grow)

    def changed(self, **changes: Any) -> Scales:
        """A copy with other values; a scale of costs that was not given counts as not given."""
        made = replace(self, **changes)
        made.__dict__["_said"] = self.says_cost
        return made

    def _growing(self, own: set[str], names: tuple[str, ...]) -> Named[float]:
        """The caps of the scales that grow, by channel; the limits ``own`` have a penalty."""
        if isinstance(self.grow, bool):
            channels = ("cost", "reward", *(name for name in names if name in own))
            return Named(dict.fromkeys(channels, math.inf) if self.grow else {})
        caps = cast(Mapping[str, float], self.grow)
        for name in caps:
            if name not in ("cost", "reward", *own):
                allowed = nearest(name, ("cost", "reward", *own))
                raise ProblemError(f"scales: grow = {name!r}: is not a channel; {allowed}")
        return Named({name: caps[name] for name in ("cost", "reward", *names) if name in caps})


def _caps(value: object) -> Named[float]:
    """The caps of scales that grow, by channel; infinite by default."""
    if isinstance(value, Mapping):
        for name, cap in value.items():
            good = isinstance(cap, int | float) and not isinstance(cap, bool) and cap > 0
            if not good:
                raise ProblemError(f"scales: grow of {name} = {shown(cap)}: must be positive")
        return Named({str(name): float(cap) for name, cap in value.items()})
    if isinstance(value, str) or not isinstance(value, Iterable):
        allowed = "true, a list of channels, or the largest outcome of each"
        raise ProblemError(f"scales: grow = {shown(value)}: must be {allowed}")
    return Named({str(name): math.inf for name in value})


def _one_or_more(value: object, place: str, what: str = "") -> tuple[float, ...] | Named[float]:
    """None, one number or several as a tuple of floats; a mapping as ``Named``."""
    if isinstance(value, Mapping):
        return Named({name: quantity(v, f"{place} {name}") for name, v in value.items()})
    place = f"{place} {what}" if what else place
    if value is None:
        return ()
    if isinstance(value, str) or not isinstance(value, Iterable):
        return (quantity(value, place),)
    several = list(value)
    places = [place] if len(several) == 1 else [f"{place} {m + 1}" for m in range(len(several))]
    return tuple(map(quantity, several, places))


UNSCALED = Scales()
