"""Who is ahead: the arena's rule, from rows alone.

On each problem and budget the policies that keep the limit come first, by regret, without what they
earned by penalties beyond it; those that break it come after all of them, by how much. Policies
that the runs cannot tell from the first of a group (their difference is within 1.96 combined
standard errors) share its rank. Policies that know the means are shown and not ranked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import hypot
from statistics import median

from tightrope.experiments.arena_rows import ArenaRow
from tightrope.statistics import NORMAL_95

__all__ = ["Standing", "at_place", "judged", "percent", "ranked", "standings", "verdict"]


def ranked(rows: Iterable[ArenaRow]) -> list[ArenaRow]:
    """The rows, each with ``rank`` (None: not ranked) and ``tied``, by problem, budget and rank.

    Problems come in the order in which they first appear; references stand last.
    """
    listed = list(rows)
    places = dict.fromkeys((row.problem, row.budget) for row in listed)
    order = list(dict.fromkeys(problem for problem, _ in places))
    found: list[ArenaRow] = []
    for problem, budget in sorted(places, key=lambda place: (order.index(place[0]), place[1])):
        found += _ranked_once(at_place(listed, problem, budget))
    return found


def at_place(rows: Iterable[ArenaRow], problem: str, budget: float) -> list[ArenaRow]:
    """The rows of one problem at one budget."""
    return [row for row in rows if (row.problem, row.budget) == (problem, budget)]


def _ranked_once(rows: Sequence[ArenaRow]) -> list[ArenaRow]:
    playing = [row for row in rows if not row.knows_means]
    keepers = sorted((row for row in playing if row.keeps), key=_reward)
    breakers = sorted((row for row in playing if not row.keeps), key=_excess)
    found = _shared(keepers, _reward, _reward_error, 1)
    found += _shared(breakers, _excess, _excess_error, 1 + len(keepers))
    aside = [row for row in rows if row.knows_means]
    return found + [replace(row, rank=None, tied=False) for row in aside]


def _reward(row: ArenaRow) -> float:
    """Lower is better: regret, but for a constant of the problem and the budget."""
    return -row.counted


def _reward_error(row: ArenaRow) -> float:
    return row.earned_se or 0.0


def _excess(row: ArenaRow) -> float:
    return row.violation_share


def _excess_error(row: ArenaRow) -> float:
    return (row.violation_se or 0.0) / (row.limit or 1.0)


def _shared(
    rows: Sequence[ArenaRow],
    value: Callable[[ArenaRow], float],
    error: Callable[[ArenaRow], float],
    first: int,
) -> list[ArenaRow]:
    """Ranks from ``first`` on; who cannot be told from the first of a group shares its rank.

    ``error``: the standard error of ``value``; 0 for a single run.
    """
    ranks: list[int] = []
    head = 0
    for i, row in enumerate(rows):
        if i and value(row) - value(rows[head]) > NORMAL_95 * hypot(error(rows[head]), error(row)):
            head = i
        ranks.append(first + head)
    return [
        replace(row, rank=rank, tied=ranks.count(rank) > 1)
        for row, rank in zip(rows, ranks, strict=True)
    ]


def judged(rows: Sequence[ArenaRow], wanted: float) -> float:
    """The budget that verdicts are about: ``wanted`` if it was run, else the largest."""
    budgets = {row.budget for row in rows}
    return wanted if wanted in budgets else max(budgets)


def verdict(rows: Sequence[ArenaRow]) -> str:
    """One sentence or two on one problem at one budget, from its ranked rows."""
    playing = [row for row in rows if not row.knows_means]
    keepers = [row for row in playing if row.keeps]
    breakers = [row for row in playing if not row.keeps]
    if not playing:
        return "Only policies that know the laws were run."
    if len(playing) == 1:
        return _alone(playing[0])
    return " ".join(filter(None, [_leaders(keepers), _broken(breakers, keepers)]))


def _alone(row: ArenaRow) -> str:
    """The verdict on a policy that nobody competes with."""
    if not row.keeps:
        return f"{row.policy} breaks the limit by {percent(row.violation_share)}."
    known = row.regret_share is not None
    return f"{row.policy} keeps the limit" + f", regret{_of_optimum(row)[1:]}" * known + "."


def _leaders(keepers: Sequence[ArenaRow]) -> str:
    if not keepers:
        return "No policy keeps the limit."
    ahead = [row for row in keepers if row.rank == 1]
    behind = [row for row in keepers if row.rank != 1]
    names = _listed([row.policy for row in ahead])
    most = "keeps" if len(ahead) == 1 else "keep"
    text = f"{names} {most} the limit with the lowest regret{_of_optimum(ahead[0])}"
    if len(ahead) > 1:
        text += " (no telling them apart)"
    if not behind:
        return f"{text}; no other policy keeps it." if len(ahead) == 1 else f"{text}."
    return f"{text}; next is {behind[0].policy}{_of_optimum(behind[0])}."


def _of_optimum(row: ArenaRow) -> str:
    share = row.regret_share
    return "" if share is None else f", {percent(share)} of OPT(B)"


def _broken(breakers: Sequence[ArenaRow], keepers: Sequence[ArenaRow]) -> str:
    if not breakers:
        return "Nobody breaks it." if len(keepers) > 1 else ""
    told = [f"{row.policy} (by {percent(row.violation_share)})" for row in breakers]
    return f"{_listed(told)} {'breaks' if len(told) == 1 else 'break'} it."


def percent(share: float) -> str:
    """Two decimals where they matter.

    >>> percent(0.1234), percent(0.00126), percent(1.0), percent(-1.5)
    ('12.3 %', '0.13 %', '100 %', '-150 %')
    """
    value = 100.0 * share
    decimals = 0 if value == round(value) or abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{value:z.{decimals}f} %"


def _listed(words: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


@dataclass(frozen=True)
class Standing:
    """A policy over all problems at one budget."""

    policy: str
    knows: str  # of the arms: "laws", a declared fact, or nothing
    knows_means: bool
    problems: int
    keeps: int
    first: int  # how often its rank is 1, shared or not
    regret_share: float | None  # median where it keeps the limit
    worst: float  # the largest mean violation, as a share of the limit
    broken: float  # the mean over problems of P(limit broken)


def standings(rows: Sequence[ArenaRow], budget: float) -> list[Standing]:
    """Every policy at a budget, by how often it keeps the limits, first ranks, then regret."""
    labels = dict.fromkeys(row.policy for row in rows)
    found = [
        _standing(label, mine)
        for label in labels
        if (mine := [row for row in rows if (row.policy, row.budget) == (label, budget)])
    ]
    return sorted(found, key=_order)


def _order(one: Standing) -> tuple[float, ...]:
    regret = float("inf") if one.regret_share is None else one.regret_share
    return one.knows_means, -one.keeps, -one.first, regret, one.broken


def _standing(label: str, rows: Sequence[ArenaRow]) -> Standing:
    kept = [row.regret_share for row in rows if row.keeps and row.regret_share is not None]
    return Standing(
        policy=label,
        knows=rows[0].knows,
        knows_means=rows[0].knows_means,
        problems=len(rows),
        keeps=sum(row.keeps for row in rows),
        first=sum(row.rank == 1 and row.keeps for row in rows),
        regret_share=median(kept) if kept else None,
        worst=max(row.violation_share for row in rows),
        broken=sum(row.broken for row in rows) / len(rows),
    )
