"""The erratum: LyOn's index as printed (Definition 8) against the one its proof uses.

Letters: G budgets, R runs, K arms.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tightrope.paper.base import Call, Evidence, Experiment
from tightrope.paper.pairs import shown
from tightrope.policies import LyOn
from tightrope.problem.values import Floats
from tightrope.report.panels import (
    Panel,
    PolicyCurve,
    curve,
    limit_line,
    optimum_line,
    stationary_line,
)
from tightrope.statistics import wilson

PROBLEM = "paper"
BUDGETS = (1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000)
POLICIES = {
    "LyOn, index of the proof": LyOn(),
    "LyOn, index as printed": LyOn(penalty_bonus="as-printed"),
}
LOCKED = 0.9  # share of a run's pulls on one arm; pi* gives no arm more than 0.61


def locked(evidence: Evidence, policy: LyOn) -> npt.NDArray[np.bool_]:
    """Whether each run is locked on each arm [G, R, K]: more than 0.9 of its pulls."""
    pulls = evidence.results[0][policy.label].runs.pulls
    shares: Floats = pulls / pulls.sum(axis=-1, keepdims=True)
    return shares > LOCKED


def fraction(chosen: npt.NDArray[np.bool_]) -> tuple[Floats, Floats, Floats]:
    """The fraction of runs [G] of ``chosen`` [G, R], and Wilson's 95 % interval."""
    return chosen.mean(axis=1), *wilson(chosen.sum(axis=1), chosen.shape[1])


def panels(evidence: Evidence) -> list[Panel]:
    """(a) the reward rate, (b) the violation, (c) the fraction of runs that are locked."""
    problem, rows = evidence.results[0].problem, evidence.rows
    rate = [*optimum_line(rows), *stationary_line(problem, "reward_rate")]
    over = _curves(evidence, "violation"), limit_line("violation")
    return [
        shown("a", "reward_rate", "", _curves(evidence, "reward_rate"), rate, x_log=True),
        shown("b", "violation", "", *over, x_log=True),
        shown("c", "locked", "", _locked_curves(evidence), [], x_log=True),
    ]


def notes(evidence: Evidence) -> list[str]:
    """What locked means, and how the other runs do."""
    return [
        "A run is locked when more than 0.9 of all its pulls, exploration included, went to one"
        " arm; π* gives arm 1 a share of 0.39 of the pulls, arm 2 0.61. " + _gap(evidence),
        "Why it locks: as printed, an uncertain arm's index rises with the queue. When arm 2 looks"
        " poor after its few first pulls, arm 1 is pulled, which fills the queue, which makes the"
        " uncertain arm 2 look worse still: the queue that should lead away from arm 1 holds the"
        " run there.",
        _others(evidence),
        "Either arm's reward rate is its penalty rate plus 0.5, so (a) is (b) plus 1.3 + 0.5 / B in"
        " expectation, under every policy: whatever the printed sign earns above π*, it earns by"
        " breaking the limit.",
        "The band of (c) is Wilson's 95 % interval.",
    ]


def _curves(evidence: Evidence, metric: str) -> list[PolicyCurve]:
    return [
        curve(evidence.rows_of(PROBLEM, policy), metric, name=name)
        for name, policy in POLICIES.items()
    ]


def _locked_curves(evidence: Evidence) -> list[PolicyCurve]:
    x = np.array(evidence.results[0].budgets, float)
    nothing = np.zeros(len(x), bool)
    return [
        PolicyCurve(policy.label, name, x, *fraction(locked(evidence, policy)[..., 0]), nothing)
        for name, policy in POLICIES.items()
    ]


def _gap(evidence: Evidence) -> str:
    """How clearly the threshold 0.9 separates the runs, and how many are locked on arm 2."""
    made = [evidence.results[0][policy.label].runs.pulls for policy in POLICIES.values()]
    shares = np.concatenate([(one[..., 0] / one.sum(axis=-1)).ravel() for one in made])
    free, held = shares[shares <= LOCKED], shares[shares > LOCKED]
    ends = [f"up to {free.max():.3f}"] if len(free) else []
    ends += [f"from {held.min():.3f} on"] if len(held) else []
    second = int((shares < 1.0 - LOCKED).sum())
    return f"Arm 1's shares are {' or '.join(ends)}; {second} runs are locked on arm 2."


def _others(evidence: Evidence) -> str:
    """The violation of the runs that are not locked, compared with the proof's index."""
    results = evidence.results[0]
    proof, printed = POLICIES.values()
    free = ~locked(evidence, printed)[-1].any(axis=-1)
    budget, limit = results.budgets[-1], results.problem.limits[0]
    over = [results[p.label].runs.penalty[-1, :, 0] / budget - limit for p in (proof, printed)]
    among = f"{over[1][free].mean():+.4f}" if free.any() else "not measured (none)"
    return (
        f"At B = {budget:,g} the index as printed locks {(~free).mean():.1%} of the runs, and the"
        f" violation averages {over[1].mean():+.4f}; among the runs that are not locked it is"
        f" {among}, with the proof's index {over[0].mean():+.4f} over all runs. The printed sign"
        " explores less: in some runs that is enough, and the others never recover."
    )


ERRATUM = Experiment(
    name="erratum",
    title="Erratum: the sign of the penalty's bonus in LyOn's index",
    lead="The paper prints LyOn's index with the exploration bonus of the penalty added. Its text"
    " calls the index a lower confidence bound, and its proof subtracts the bonus. With the printed"
    " sign many runs lock on arm 1, which breaks the limit at any budget; v₀ = 1,"
    " δ₀ = 0.5, Figure 1's arms.",
    sweep=(Call(PROBLEM, tuple(POLICIES.values()), BUDGETS),),
    panels=panels,
    notes=notes,
)
