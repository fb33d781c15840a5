"""What a controller knows besides reports: pulls in flight and retired arms."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from operator import index
from typing import Any


@dataclass
class Beside:
    """What a controller knows besides reports."""

    flight: array[float]  # [K] pulls asked for, neither reported nor voided
    retired: set[int]  # arms
    regular: bool  # whether all arms can be pulled and no pull is in flight
    cut: int = 0  # outcomes above the cap of a scale
    types: list[str] = field(default_factory=list)  # of requests, where they are added as they come
    vectors: dict[int, list[tuple[float, ...]]] = field(default_factory=dict)  # of pulls in flight

    @classmethod
    def nothing(cls, arms: int) -> Beside:
        """The value at the start of a run."""
        return cls(array("d", bytes(8 * arms)), set(), True)

    @property
    def asides(self) -> int:
        """The number of reasons not to decide from reports alone."""
        return int(sum(self.flight)) + (not self.regular)

    def copy(self) -> Beside:
        """Another one."""
        flight, retired = array("d", self.flight), set(self.retired)
        vectors = {arm: list(listed) for arm, listed in self.vectors.items()}
        types = list(self.types)
        return replace(self, flight=flight, retired=retired, types=types, vectors=vectors)

    def table(self) -> dict[str, Any]:
        """As a table of plain values."""
        flight = {str(k): int(count) for k, count in enumerate(self.flight) if count}
        listed = {"flight": flight, "retired": sorted(self.retired)}
        more: dict[str, Any] = {"types": self.types} if self.types else {}
        if any(self.vectors.values()):
            more["vectors"] = {str(k): vectors for k, vectors in self.vectors.items() if vectors}
        return {**listed, "regular": self.regular, "cut": self.cut, **more}

    @classmethod
    def of_table(cls, table: Mapping[str, Any], arms: int) -> Beside:
        """The value in a table; the start value for an empty table."""
        made = cls.nothing(arms)
        for arm, count in table.get("flight", {}).items():
            made.flight[index(int(arm))] = float(count)
        made.retired.update(map(index, table.get("retired", [])))
        made.types.extend(map(str, table.get("types", [])))
        for arm, vectors in table.get("vectors", {}).items():
            made.vectors[index(int(arm))] = [tuple(map(float, one)) for one in vectors]
        made.regular, made.cut = bool(table.get("regular", True)), index(table.get("cut", 0))
        return made

    def with_arms(self, arms: int, more: int) -> Beside:
        """The same with more arms than ``arms``, for every type; no pull of them is in flight."""
        if not more:
            return self
        flight = array("d")
        for start in range(0, len(self.flight), arms):
            flight.extend([*self.flight[start : start + arms], *[0.0] * more])
        retired = {row + row // arms * more for row in self.retired}
        return replace(self, flight=flight, retired=retired, regular=False)
