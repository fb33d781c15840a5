"""Check the targets that were set for ``resolve`` against the rows of an arena.

tightrope arena --json > rows.json
python -m benchmarks.resolve_targets rows.json
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from math import ceil
from pathlib import Path

import numpy as np

from tightrope.arena.ranking import at_place, percent
from tightrope.arena.rows import TOLERANCE, ArenaRow, Scene
from tightrope.problem import Problem
from tightrope.problem.ready import load_problem
from tightrope.statistics import NORMAL_99, Floats

__all__ = ["MET", "MISSED", "OPEN", "Target", "has_room", "noise", "targets"]

PLAIN, CAREFUL, RIVAL = "resolve", "resolve:risk=0.01", "lyon"
FROM_BUDGET, AT_BUDGET = 1000.0, 10_000.0
SMALLEST_SLACK = 0.02  # relative to the limit: with less slack, a problem is nearly infeasible
TENTH = 0.1  # share of LyOn's violation that is allowed on such a problem
MOST_BROKEN = 0.015
OFTEN = 14 / 16  # required share of the problems

POINTS = 2**14  # of a law, for its variance

MET, MISSED, OPEN = "met", "missed", "cannot be told"


@dataclass(frozen=True)
class Target:
    """One aim, its measurement, and the outcome: met, missed or cannot be told."""

    aim: str
    definition: str
    measured: str
    outcome: str


def targets(rows: Sequence[ArenaRow], scenes: Mapping[str, Scene]) -> list[Target]:
    """The three targets, on problems whose arms do not change; ``rows`` are ranked."""
    steady = [row for row in rows if not scenes[row.problem].changes]
    return [_violation(steady, scenes), _risk(steady, scenes), _regret(steady)]


def _violation(rows: Sequence[ArenaRow], scenes: Mapping[str, Scene]) -> Target:
    """The target for the mean violation."""
    mine = [row for row in _of(rows, PLAIN) if row.budget >= FROM_BUDGET]
    allowed = {_place(row): _allowed(row, rows, scenes) for row in mine}
    judged = [row for row in mine if allowed[_place(row)] is not None]
    above = [row for row in judged if row.violation_share > (allowed[_place(row)] or 0.0)]
    surely = [row for row in above if _low(row) > (allowed[_place(row)] or 0.0)]
    over = [row for row in above if row not in surely]
    told = f"{len(judged) - len(above)} of {len(judged)} problems and budgets."
    told += _named(" Above, beyond the error of the runs", surely, _share)
    told += _named(" Above, within the error of the runs", over, _share)
    return Target(
        aim="resolve's mean violation is at most 0.001 c at every B ≥ 1,000",
        definition="On a nearly infeasible problem (slack below 2 % of the limit): at most a tenth"
        " of lyon's. The mean over runs, of the limit kept worst.",
        measured=told if judged else "Not run.",
        outcome=_outcome(judged, surely, over),
    )


def _low(row: ArenaRow) -> float:
    """The lower end of the violation's interval; -1 for a single run."""
    low, _ = row.violation_share_interval or (-1.0, 0.0)
    return float(low)


def _allowed(row: ArenaRow, rows: Sequence[ArenaRow], scenes: Mapping[str, Scene]) -> float | None:
    """The largest allowed violation, as a share of the limit; None if it is unknown."""
    if scenes[row.problem].slack >= SMALLEST_SLACK:
        return TOLERANCE
    there = at_place(rows, row.problem, row.budget)
    rival = [one for one in there if one.policy == RIVAL]
    return max(TOLERANCE, TENTH * rival[0].violation_share) if rival else None


def _risk(rows: Sequence[ArenaRow], scenes: Mapping[str, Scene]) -> Target:
    """The target for P(limit broken)."""
    mine = _of(rows, CAREFUL)
    judged = [row for row in mine if has_room(scenes[row.problem], row.budget)]
    above = [row for row in judged if row.broken > MOST_BROKEN]
    surely = [row for row in above if row.broken_interval[0] > MOST_BROKEN]
    over = [row for row in above if row not in surely]
    told = f"{len(judged) - len(above)} of {len(judged)} problems and budgets with room"
    told += f" ({len(mine) - len(judged)} have none)."
    told += _named(" Above, beyond the error of the runs", surely, _odds)
    told += _named(" Above, within the error of the runs", over, _odds)
    return Target(
        aim="With risk=0.01 the limit is broken in at most 1.5 % of the runs, where there is room",
        definition="Room: the most careful mixture's slack is at least 2.33 standard deviations of"
        " a run's penalty (the largest of any arm's), so that a policy that knows the means can"
        " keep the limit with probability 99 %.",
        measured=told if judged else "Not run.",
        outcome=_outcome(judged, surely, over),
    )


def has_room(scene: Scene, budget: float) -> bool:
    """Whether who knows the means can keep the limits with 99 % at a budget in largest costs.

    The most careful mixture's slack must cover 2.33 standard deviations of a run's penalty.
    """
    return bool(scene.slack * np.sqrt(max(budget, 0.0)) >= NORMAL_99 * noise(scene))


@cache
def noise(scene: Scene) -> float:
    """Of sqrt(B): the largest deviation of a run's penalty, as a share of c B, of any arm."""
    found = [0.0]
    for phase in scene.settled.phases:
        moments = phase.problem.moments
        for k in range(phase.problem.arm_count):
            spread = _spreads(k, phase.problem) / np.sqrt(moments.cost[k])
            found += (spread / moments.limits).tolist()
    return max(found)


def _spreads(k: int, problem: Problem) -> Floats:
    """The deviation [M] of a pull's penalty less the limit times what it is per, normalised."""
    uniforms, arm = (np.arange(POINTS) + 0.5) / POINTS, problem.arms[k]
    scales = np.array(problem.stated.told_scales)
    drawn = np.array([cells.outcomes(uniforms) for cells in arm.cells()]) / scales[:, None]
    constant, found = np.zeros(POINTS), []
    for m, limit in enumerate(problem.moments.limits):
        per = problem.limit_kinds[m].unit.pick(0, -1, 1)
        at = int(problem.columns[0][k, 2 + m])
        penalty, base = (drawn[one] if one >= 0 else constant for one in (at, per))
        together = 0.0
        if min(at, per) >= 0 and arm.sources[at] == arm.sources[per]:
            together = float(np.mean(penalty * base) - penalty.mean() * base.mean())
        found.append(penalty.var() + limit**2 * base.var() - 2.0 * limit * together)
    return np.sqrt(np.maximum(found, 0.0))


def _regret(rows: Sequence[ArenaRow]) -> Target:
    """The target for regret: the lowest among policies that keep the limit."""
    mine = [row for row in _of(rows, PLAIN) if row.budget == AT_BUDGET]
    alone, tied, missed = [], [], []
    for row in mine:
        rivals = _rivals(at_place(rows, row.problem, row.budget))
        if not row.keeps:
            missed.append(row)
        elif all(row.counted >= rival.counted for rival in rivals):
            alone.append(row)
        elif all((rival.rank or 0) >= (row.rank or 0) for rival in rivals):
            tied.append(row)
        else:
            missed.append(row)
    needed = ceil(OFTEN * len(mine) - 1e-9)
    told = f"The lowest on {len(alone)} of {len(mine)}, tied for it on {len(tied)};"
    told += f" {needed} are required." + _named(" Not on", missed, _regret_words)
    outcome = MET if len(alone) >= needed else MISSED
    if outcome == MISSED and len(alone) + len(tied) >= needed:
        outcome = OPEN
    return Target(
        aim="resolve's regret is the lowest among policies that keep the limit, on at least"
        " fourteen of sixteen problems at B = 10,000",
        definition="Compared with every learning policy except resolve's own settings, without the"
        " reward that a violation within the tolerance earned. Tied: another mean is lower, but not"
        " significantly.",
        measured=told if mine else "Not run.",
        outcome=outcome if mine else OPEN,
    )


def _rivals(rows: Iterable[ArenaRow]) -> list[ArenaRow]:
    """The other policies that keep the limit and do not know the means."""
    return [
        row
        for row in rows
        if row.keeps and not row.knows_means and row.policy.partition(":")[0] != PLAIN
    ]


def _outcome(
    judged: Sequence[ArenaRow], surely: Sequence[ArenaRow], over: Sequence[ArenaRow]
) -> str:
    if surely:
        return MISSED
    return OPEN if over or not judged else MET


def _of(rows: Iterable[ArenaRow], policy: str) -> list[ArenaRow]:
    return [row for row in rows if row.policy == policy]


def _place(row: ArenaRow) -> tuple[str, float]:
    return row.problem, row.budget


def _named(text: str, rows: Sequence[ArenaRow], value: Callable[[ArenaRow], str]) -> str:
    """The problems and budgets that miss, with their numbers; "" if there are none."""
    told = [f"{row.problem} at {row.budget:,g} ({value(row)})" for row in rows]
    return f"{text}: {', '.join(told)}." if told else ""


def _share(row: ArenaRow) -> str:
    return f"{percent(row.violation_share)} of c"


def _odds(row: ArenaRow) -> str:
    return f"{percent(row.broken)} of {row.runs:,} runs"


def _regret_words(row: ArenaRow) -> str:
    return f"rank {row.rank}" if row.keeps else "not shown to keep the limit"


def main() -> None:
    """Print the targets and their outcomes."""
    known = [field.name for field in fields(ArenaRow)]
    read = json.loads(Path(sys.argv[1]).read_text())
    rows = [ArenaRow(**{name: row[name] for name in known if name in row}) for row in read]
    names = dict.fromkeys(row.problem for row in rows)
    scenes = {name: Scene(name, "", load_problem(name)) for name in names}
    for one in targets(rows, scenes):
        print(f"{one.outcome}: {one.aim}. {one.definition} {one.measured}")


if __name__ == "__main__":
    main()
