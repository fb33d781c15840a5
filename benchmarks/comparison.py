"""One row of a comparison: which package is ahead and, if it is not ours, why."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """A compared quantity: our figure, the others' by name, and which direction is better."""

    label: str
    ours: float
    others: dict[str, float]
    more_is_better: bool = True
    unit: str = ""
    why: str = "The reason is unknown."  # shown only if ours is not ahead

    def cell(self, figure: float) -> str:
        """The figure with three digits and the unit."""
        rounded = float(f"{figure:.3g}")
        return f"{rounded:,.0f}{self.unit}" if rounded >= 100 else f"{rounded:g}{self.unit}"

    def cells(self) -> list[str]:
        """The row's cells in the table."""
        return [self.label, *map(self.cell, (self.ours, *self.others.values()))]

    def lead(self, other: str) -> float:
        """How many times better ours is; below 1, it is worse."""
        theirs = self.others[other]
        return self.ours / theirs if self.more_is_better else theirs / self.ours

    def verdict(self) -> str:
        """A sentence: ahead of all others, or behind which ones, and why."""
        if not self.others:
            return f"{self.label}: nothing to compare with."
        leads = {other: self.lead(other) for other in self.others}
        behind = [f"{name} ({self.cell(self.others[name])})" for name in leads if leads[name] <= 1]
        if behind:
            return (
                f"{self.label}: **not ahead** of {', '.join(behind)}, "
                f"with {self.cell(self.ours)}. {self.why}"
            )
        nearest = min(leads, key=leads.__getitem__)
        times = f"{leads[nearest]:,.{0 if leads[nearest] >= 100 else 1}f}"
        return f"{self.label}: ahead of all; {times} times better than {nearest}."
