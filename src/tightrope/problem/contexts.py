"""Contexts: what a policy sees of a request before it chooses an arm.

:class:`Types` are kinds of requests that are counted: a benchmark, a country, a customer segment.
What is learned belongs to a *row*, ``type * K + arm``, for K arms.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tightrope.errors import InputError, ProblemError, nearest
from tightrope.problem.named import Named
from tightrope.problem.values import known_keys, number, shown

MOST = 64  # types that are learned as they come, by default
MOST_EVER = 4096  # of them, or of listed ones
KEYS = ("most", "missing", "merged")  # of a TOML table, besides the names
OTHER = "(other)"  # the type that the rest share
# The entries of an arm in TOML, which stand beside its tables for each type.
ARM_KEYS = ("name", "cost", "reward", "penalty", "penalties", "rows", "weights")
ROUNDING = 1e-12  # of a sum of shares


@dataclass(frozen=True)
class Types:
    """Types of requests, by name.

    ``names``: all types, at most 4,096. Without names, a type is added when a request with a new
    name comes, at most ``most`` of them; requests with further names share the type ``(other)``.
    ``missing``: the type of requests without a context; by default they are refused. ``merged``:
    types whose requests count for another one, by name.

    >>> Types(["math", "code"]).number("code")
    1
    >>> Types(["math", "code"]).number("cod")
    Traceback (most recent call last):
    tightrope.errors.InputError: context 'cod' is unknown; did you mean 'code'?
    """

    names: Sequence[str] = ()  # kept as a tuple
    most: int = MOST
    missing: str | None = None
    merged: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.merged, Mapping):
            raise ProblemError(f"types: merged = {shown(self.merged)}: must be names by name")
        object.__setattr__(self, "merged", Named(self.merged))
        if isinstance(self.names, str) or not isinstance(self.names, Iterable):
            raise ProblemError(f"types = {shown(self.names)}: must be a list of names")
        names = tuple(self.names)
        if self.missing is not None and names and self.missing not in names:
            names = (*names, self.missing)
        object.__setattr__(self, "names", names)
        given = [*names, *self.merged, *self.merged.values()]
        for name in given if self.missing is None else [*given, self.missing]:
            if not isinstance(name, str) or not name:
                raise ProblemError(f"type {shown(name)}: must be a name, not empty")
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise ProblemError(f"type {twice!r} is there twice; names must differ")
        for old, new in self.merged.items():
            if new in self.merged or (names and not {old, new} <= {*names}):
                allowed = "two types, of which the second one is not merged"
                raise ProblemError(f"types: merged {old!r} into {new!r}: must be {allowed}")
        whole = isinstance(self.most, int) and not isinstance(self.most, bool)
        if not whole or not 1 <= self.most <= MOST_EVER or len(names) > MOST_EVER:
            value = len(names) if len(names) > MOST_EVER else self.most
            raise ProblemError(f"types: most = {shown(value)}: must be from 1 to {MOST_EVER:,}")

    @property
    def open(self) -> bool:
        """Whether names are added as they come."""
        return not self.names

    @property
    def count(self) -> int:
        """T: how many types there are room for."""
        return self.most + 1 if self.open else len(self.names)

    def name(self, context: object, seen: Sequence[str] = ()) -> str:
        """The name of a request's type, which may be a new one; see ``number``."""
        name = self.missing if context is None else context
        if name is None:
            raise InputError(f"context is missing; must be one of {_listed(self.names or seen)}")
        if not isinstance(name, str) or not name:
            raise InputError(f"context = {shown(name)}: must be the name of a type")
        return self.merged.get(name, name)

    def number(self, context: object, seen: Sequence[str] = ()) -> int:
        """The number of a request's type, from 0; ``seen``: the names that came so far.

        Where types are added as they come, the number of a new one is ``len(seen)``.
        """
        name, names = self.name(context, seen), self.names or seen
        if name in names:
            return names.index(name)
        if not self.open:
            raise InputError(f"context {name!r} is unknown; {nearest(name, names)}")
        return min(len(seen), self.most)

    def of_untyped(self, number: int) -> str | None:
        """The type that an earlier request without one counts for: in turn, by its ``number``."""
        if self.missing is not None or self.open:
            return self.missing
        return self.names[number % len(self.names)]

    def table(self) -> dict[str, Any]:
        """As TOML and JSON have it, without what is as by default."""
        found: dict[str, Any] = {"types": list(self.names)} if self.names else {"most": self.most}
        found |= {} if self.missing is None else {"missing": self.missing}
        return found | ({"merged": dict(self.merged)} if self.merged else {})


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names)) or "the name of a type"


def as_types(contexts: object) -> Types | None:
    """What a task was given as its contexts: types, their names, their shares, or a TOML table."""
    if contexts is None or isinstance(contexts, Types):
        return contexts
    if isinstance(contexts, Mapping):
        if isinstance(contexts.get("types"), list | str) or set(contexts) <= {*KEYS}:
            given = dict(known_keys(dict(contexts), ("types", *KEYS)))
            return Types(given.pop("types", ()), **given)
        return Types(tuple(shares_of(contexts)))
    if isinstance(contexts, Iterable) and not isinstance(contexts, str):
        return Types(tuple(contexts))
    raise ProblemError(f"contexts = {shown(contexts)}: must be Types, or a list of names")


def shares_of(contexts: Mapping[str, Any]) -> dict[str, float]:
    """How often each type comes, as shares that add up to 1."""
    if not isinstance(contexts, Mapping) or not contexts:
        allowed = "a table of shares by type, such as { weekday = 5, weekend = 2 }"
        raise ProblemError(f"contexts = {shown(contexts)}: must be {allowed}")
    found = {}
    for name, value in contexts.items():
        if name in ARM_KEYS:
            raise ProblemError(f"contexts: type {name!r}: must not be one of {', '.join(ARM_KEYS)}")
        share = number(value, f"contexts: {name}")
        if not share > 0:
            raise ProblemError(f"contexts: {name} = {shown(value)}: must be above 0")
        found[name] = share
    total = sum(found.values())
    if abs(total - 1.0) < ROUNDING:  # shares that were written stay what they are
        return found
    return {name: share / total for name, share in found.items()}


def types_table(types: Types | None) -> dict[str, Any]:
    """The types as a TOML entry; empty if there are none."""
    return {} if types is None else types.table()


def row_names(types: Types, arms: Sequence[str]) -> tuple[str, ...]:
    """The names of the rows, [T * K]."""
    kinds = types.names or [f"type {at + 1}" for at in range(types.count)]
    return tuple(f"{kind}/{arm}" for kind in kinds for arm in arms)
