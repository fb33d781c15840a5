"""Figure 1 (a-f) of the paper: LyOff, LyOn and pi* on two arms, fifteen budgets, two delta0."""

from __future__ import annotations

from collections.abc import Sequence

from tightrope.paper.base import Call, Evidence, Experiment
from tightrope.paper.pairs import shown
from tightrope.policies import LyOff, LyOn, Stationary
from tightrope.report.panels import (
    Panel,
    PolicyCurve,
    Reference,
    curve,
    limit_line,
    optimum_line,
    stationary_line,
)
from tightrope.theory.formulas import constants, lyoff_delta0, lyon_delta0

PROBLEM = "paper"
DELTA0 = (0.5, 15.0)  # panels a-c, panels d-f
BUDGETS = (*range(1000, 10_001, 1000), *range(20_000, 60_001, 10_000))
STATIONARY = Stationary()  # pi*
ARM = 0  # the arm whose share of the pulls is shown
METRICS = {"reward_rate": None, "violation": None, "pull_share": ARM}  # the part of a list


def learners(delta0: float) -> dict[str, LyOff | LyOn]:
    """The paper's two policies by their names in the paper."""
    return {"LyOff": LyOff(v0=1.0, delta0=delta0), "LyOn": LyOn(v0=1.0, delta0=delta0, alpha=2.0)}


def panels(evidence: Evidence) -> list[Panel]:
    """(a) to (f), as in the paper."""
    pairs = [(delta0, metric) for delta0 in DELTA0 for metric in METRICS]
    return [
        _panel(evidence, letter, delta0, metric)
        for letter, (delta0, metric) in zip("abcdef", pairs, strict=True)
    ]


def notes(evidence: Evidence) -> list[str]:
    """How to read the numbers."""
    known = constants(evidence.results[0].problem)
    offline, online = (found(known, BUDGETS[-1], 1.0)[0] for found in (lyoff_delta0, lyon_delta0))
    return [
        "Regret is measured against OPT(B), the exact optimum over all causal policies that keep"
        " the expected penalty at or below c B. A policy that breaks the limit can earn more, so"
        " its regret can be negative: read it beside the violation.",
        "A run ends with the pull that first exceeds the budget, and that pull counts: with these"
        " arms every run spends B + 1. So π* itself breaks the limit by c / B.",
        "Where no band is visible around a curve, the 95 % interval is narrower than the line.",
        "Time allocation is the share of pulls, averaged over runs; of its cost, π* spends 0.3 on"
        " arm 1.",
        f"For a violation below 0 the corrected proofs ask for δ₀ above {offline:.1f} (LyOff,"
        f" Proposition 2) and {online:.1f} (LyOn, Theorem 1). So no theorem covers LyOn in panels"
        " (d) to (f), where δ₀ = 15: its violation there is an observation.",
    ]


def _panel(evidence: Evidence, letter: str, delta0: float, metric: str) -> Panel:
    curves = _curves(evidence, delta0, metric, METRICS[metric])
    references = _references(evidence, metric, METRICS[metric])
    return shown(letter, metric, f"δ₀ = {delta0:g}", curves, references, from_zero=True)


def _curves(
    evidence: Evidence, delta0: float, metric: str, number: int | None
) -> list[PolicyCurve]:
    learned = [
        curve(evidence.rows_of(PROBLEM, policy), metric, number, name=name)
        for name, policy in learners(delta0).items()
    ]
    best = evidence.rows_of(PROBLEM, STATIONARY)
    return [*learned, curve(best, metric, number, name="π*, simulated", line=False)]


def _references(evidence: Evidence, metric: str, number: int | None) -> Sequence[Reference]:
    problem = evidence.results[0].problem
    lines = [*stationary_line(problem, metric, number), *limit_line(metric)]
    return [*optimum_line(evidence.rows), *lines] if metric == "reward_rate" else lines


FIGURE1 = Experiment(
    name="fig1",
    title="Figure 1: LyOff, LyOn and π* as the budget grows",
    lead="Two arms, a limit of 0.8 on the penalty per unit of cost. LyOff knows the means, LyOn"
    " learns them; π* is the best fixed mixture (stationary in the table). With δ₀ = 0.5 (a to c)"
    " both approach π* while the violation decays to 0; with δ₀ = 15 (d to f) both keep the limit"
    " with room to spare, and pay for it in reward.",
    sweep=(
        Call(
            PROBLEM,
            (*(policy for d in DELTA0 for policy in learners(d).values()), STATIONARY),
            BUDGETS,
        ),
    ),
    panels=panels,
    notes=notes,
)
