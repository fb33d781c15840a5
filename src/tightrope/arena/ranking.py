"""The arena's ranking, from rows alone.

On each problem and budget the policies that are shown to keep the limit (see ``rows``) come first,
by regret, without what they earned by penalties beyond it. All others follow, by the 99th
percentile of their violation. Policies whose difference from the first of a group is within 1.96
combined standard errors share its rank. Policies that know the means are shown and not ranked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import hypot
from statistics import median

from tightrope import formats
from tightrope.arena.rows import FAR, TOLERANCE, ArenaRow
from tightrope.statistics import NORMAL_95

percent = partial(formats.percent, digits=None)
MOST_NAMED = 5  # policies in a list of a verdict


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
    keepers = _shared([row for row in playing if row.keeps], _reward, 1)
    others = [row for row in playing if not row.keeps]
    found = keepers + _shared(others, _tail, 1 + len(keepers))
    aside = [row for row in rows if row.knows_means]
    return found + [replace(row, rank=None, tied=False) for row in aside]


Measure = Callable[[ArenaRow], tuple[float, float]]  # lower is better; its error, 0 for one run


def _reward(row: ArenaRow) -> tuple[float, float]:
    """Regret, but for a constant of the problem and the budget."""
    return -row.counted, row.earned_se or 0.0


def _tail(row: ArenaRow) -> tuple[float, float]:
    return row.violation_p99_share, (row.violation_p99_se or 0.0) / (row.limit or 1.0)


def _shared(rows: Sequence[ArenaRow], measure: Measure, first: int) -> list[ArenaRow]:
    """Rows by rank, from ``first`` on; those within the noise of a group's first share its rank."""
    rows = sorted(rows, key=lambda row: measure(row)[0])
    ranks: list[int] = []
    head = 0
    for i, row in enumerate(rows):
        (best, error), (value, own) = measure(rows[head]), measure(row)
        if value - best > NORMAL_95 * hypot(error, own):
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
    breakers = [row for row in playing if row.kept == "breaks"]
    unclear = [row for row in playing if row.kept == "unclear"]
    if not playing:
        return "Only policies that know the distributions were run."
    if len(playing) == 1:
        return _alone(playing[0])
    if len(keepers) == len(playing):
        return f"{_leaders(keepers)} No policy breaks it."
    return " ".join(filter(None, [_leaders(keepers), _broken(breakers), _unclear(unclear)]))


def _alone(row: ArenaRow) -> str:
    """The verdict where only one policy takes part."""
    if row.kept == "breaks":
        return f"{row.policy} breaks the limit, {_how(row)}."
    if row.kept == "unclear":
        return f"The runs do not show whether {row.policy} keeps the limit."
    regret = _of_optimum(row).removeprefix(", ")
    return f"{row.policy} keeps the limit" + f", regret {regret}" * bool(regret) + "."


def _leaders(keepers: Sequence[ArenaRow]) -> str:
    if not keepers:
        return "No policy is shown to keep the limit."
    ahead = [row for row in keepers if row.rank == 1]
    behind = [row for row in keepers if row.rank != 1]
    names = _listed([row.policy for row in ahead])
    most = "keeps" if len(ahead) == 1 else "keep"
    text = f"{names} {most} the limit with the lowest regret{_of_optimum(ahead[0])}"
    if len(ahead) > 1:
        text += " (a tie)"
    if not behind:
        return f"{text}; no other policy is shown to keep it." if len(ahead) == 1 else f"{text}."
    return f"{text}; next is {behind[0].policy}{_of_optimum(behind[0])}."


def _of_optimum(row: ArenaRow) -> str:
    share = row.regret_share
    return "" if share is None or not row.regret_tells else f", {percent(share)} of OPT(B)"


def _broken(breakers: Sequence[ArenaRow]) -> str:
    if not breakers:
        return ""
    told = [f"{row.policy} ({_how(row)})" for row in breakers]
    return f"{_listed(told)} {'breaks' if len(told) == 1 else 'break'} it."


def _how(row: ArenaRow) -> str:
    """By how much on average; where that is nothing, how often by much."""
    if row.violation_share > TOLERANCE:
        return f"by {percent(row.violation_share)}"
    return f"by more than {percent(FAR)} in {percent(row.broken_far)} of the runs"


def _unclear(rows: Sequence[ArenaRow]) -> str:
    if not rows:
        return ""
    return f"The runs do not show whether {_listed([row.policy for row in rows])} would."


def _listed(words: Sequence[str]) -> str:
    """Words with commas and an "and"; of many, the first ones and how many follow."""
    if len(words) > MOST_NAMED:
        words = [*words[: MOST_NAMED - 1], f"{len(words) - MOST_NAMED + 1} others"]
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


@dataclass(frozen=True)
class Standing:
    """A policy over all problems at one budget."""

    policy: str
    knows: str  # of the arms: "laws" (the distributions), a declared fact, or nothing
    knows_means: bool
    problems: int
    keeps: int
    breaks: int
    first: int  # how often its rank is 1, shared or not
    regret_share: float | None  # median where it keeps the limit and regret tells something
    worst: float  # the largest mean violation, as a share of the limit
    worst_p99: float  # the largest 99th percentile of a run's violation, likewise
    broken: float  # the mean over problems of P(limit broken)
    types: str = ""  # whether it "uses" or "ignores" types, if some requests have them


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
    telling = [row for row in rows if row.keeps and row.regret_tells]
    regrets = [row.regret_share for row in telling if row.regret_share is not None]
    return Standing(
        policy=label,
        knows=rows[0].knows,
        knows_means=rows[0].knows_means,
        problems=len(rows),
        keeps=sum(row.keeps for row in rows),
        breaks=sum(row.breaks for row in rows),
        first=sum(row.rank == 1 and row.keeps for row in rows),
        regret_share=median(regrets) if regrets else None,
        worst=max(row.violation_share for row in rows),
        worst_p99=max(row.violation_p99_share for row in rows),
        broken=sum(row.broken for row in rows) / len(rows),
        types=max(row.types for row in rows),
    )
