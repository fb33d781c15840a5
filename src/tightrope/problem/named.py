"""Values by name, and the names of arms and channels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar, cast

from tightrope.errors import ProblemError, nearest
from tightrope.problem.values import shown

Value = TypeVar("Value")


def channel_names(penalty_count: int) -> tuple[str, ...]:
    """The channels of limits without names: cost, reward, penalty (or penalty 1, 2, ...)."""
    if penalty_count == 1:
        return ("cost", "reward", "penalty")
    return ("cost", "reward", *(f"penalty {m + 1}" for m in range(penalty_count)))


class Named(Mapping[str, Value], Generic[Value]):
    """An immutable, hashable mapping of values by name; the order counts.

    >>> Named({"bad": 0.05})["bad"]
    0.05
    """

    def __init__(self, values: Mapping[str, Value]) -> None:
        self._values = dict(values)

    def __getitem__(self, name: str) -> Value:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mapping) and list(self.items()) == list(other.items())

    def __hash__(self) -> int:
        return hash(tuple(self.items()))

    def __repr__(self) -> str:
        return repr(self._values)

    def in_order(self, names: Sequence[str], what: str, default: Value | None) -> list[Value]:
        """The values of ``names``; raises for unknown names and for missing ones without a default.

        >>> Named({"bad": 2.0}).in_order(["dollars", "bad"], "scale", 1.0)
        [1.0, 2.0]
        """
        for name in self:
            if name not in names:
                raise ProblemError(f"unknown {what} {name!r}; {nearest_limit(name, names)}")
        for name in names:
            if default is None and name not in self:
                raise ProblemError(f"{what} {name!r} is missing; must have {', '.join(names)}")
        return [self._values.get(name, cast(Value, default)) for name in names]


def nearest_limit(name: str, names: Sequence[str]) -> str:
    """The hint for an unknown name of a limit."""
    return nearest(name, names) if names else "there are no limits"


class NumberedNames(Sequence[str]):
    """Names of very many arms, made on access: arm 1, arm 2, ..."""

    def __init__(self, count: int) -> None:
        self._numbers = range(1, count + 1)

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return tuple(f"arm {k}" for k in self._numbers[place])
        return f"arm {self._numbers[place]}"

    def __eq__(self, other: object) -> bool:
        if isinstance(other, NumberedNames):
            return self._numbers == other._numbers
        return tuple(self) == other

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"NumberedNames({len(self)})"


def check_names(names: Sequence[object]) -> None:
    """Raise a ``ProblemError`` unless the arms' names are non-empty strings, all different."""
    if not names:
        raise ProblemError("arms = []: must hold at least one arm")
    if isinstance(names, NumberedNames):
        return
    first_use: dict[str, int] = {}
    for k, name in enumerate(names, start=1):
        if not isinstance(name, str) or not name:
            raise ProblemError(f"arm name {shown(name)}: must be a non-empty string")
        if first_use.setdefault(name, k) != k:
            raise ProblemError(
                f"arm {k}: name {name!r} is already the name of arm {first_use[name]}; names "
                "must differ"
            )
