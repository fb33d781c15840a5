"""The paper's claims about its simulations and orders of growth, and their checks.

A claim is data and a measure, which reads the evidence of one experiment and runs nothing. To add a
claim, add an entry to ``CLAIMS``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from tightrope.paper import measures
from tightrope.paper.base import Evidence
from tightrope.paper.measures import Measured, Wanted
from tightrope.policies import LyOff, LyOn
from tightrope.report.verdicts import Verdict
from tightrope.theory.citations import cited


@dataclass(frozen=True)
class Claim:
    """``source``: label or figure of the paper; ``experiment``: whose evidence decides it."""

    text: str
    source: str
    experiment: str
    measure: Callable[[Evidence], Measured | None]


def judge(evidence: Mapping[str, Evidence]) -> list[Verdict]:
    """A verdict on every claim that these experiments, by name, can decide."""
    return [
        Verdict(
            claim=claim.text,
            source=cited(claim.source),
            experiment=claim.experiment,
            measured=measured.text,
            short=measured.short,
            verdict=measured.verdict,
        )
        for claim in CLAIMS
        if claim.experiment in evidence
        if (measured := claim.measure(evidence[claim.experiment])) is not None
    ]


KINDS: Mapping[str, type[LyOff | LyOn]] = {"LyOff": LyOff, "LyOn": LyOn}
THEOREMS = {"LyOff": "prop:offline-opt", "LyOn": "thm:regret"}
QUEUES = {"LyOff": "lemma:drift-bound-offline", "LyOn": "lemma:max-Q"}


def _wanted(name: str, delta0: float) -> Wanted:
    return Wanted(KINDS[name], (("v0", 1.0), ("delta0", delta0)))


def _claim(
    text: str,
    source: str,
    measure: Callable[..., Measured | None],
    *,
    experiment: str = "fig1",
    **arguments: Any,
) -> Claim:
    """A claim that ``measure`` decides with these arguments."""
    return Claim(text, source, experiment, partial(measure, **arguments))


def _small_delta(name: str) -> Iterator[Claim]:
    """Figure 1 (a-c)."""
    about = partial(_claim, wanted=_wanted(name, 0.5))
    approaches = partial(about, measure=measures.converges)
    text, figure = f"{name} reaches π*'s reward rate (δ₀ = 0.5)", "fig:Reward_Rate_0_5"
    yield approaches(text, figure, quantity=measures.reward_gap)
    text, figure = f"{name}'s pull shares converge to π*'s (δ₀ = 0.5)", "fig:Time_Allocation_0_5"
    yield approaches(text, figure, quantity=measures.share_gap)
    learns, text = name == "LyOn", f"{name}'s violation decays at the rate Õ(1/B)"
    figure = "fig:Constraint_Violation_0_5, sec:simulations"
    falls = partial(about, measure=measures.order, quantity=measures.violation)
    if learns:
        yield about(f"{text} (δ₀ = 0.5)", figure, measures.nearly_linear)
    else:
        yield falls(f"{text}, here 1/B (δ₀ = 0.5)", figure, claimed=-1.0)
    rate = "√(log B / B)" if learns else "1/√B"
    text = f"{name}'s violation is O(V/B − δ), here {rate} (δ₀ = 0.5)"
    yield falls(text, THEOREMS[name], claimed=-0.5, log=-1.0 if learns else 0.0)


def _large_delta(name: str) -> Iterator[Claim]:
    """Figure 1 (d-f)."""
    about = partial(_claim, wanted=_wanted(name, 15.0))
    yield about(
        f"{name}'s violation is negative for large B (δ₀ = 15)",
        f"fig:Constraint_Violation_3, {THEOREMS[name]}",
        measures.negative,
    )
    yield about(
        f"{name}'s violation is −Ω(1/√B), printed as O(−1/√B) (δ₀ = 15)",
        THEOREMS[name],
        measures.order,
        quantity=measures.violation,
        claimed=-0.5,
        at_most=False,
    )
    approaches = partial(about, measure=measures.converges)
    text, figure = f"{name}'s reward rate still converges to π*'s (δ₀ = 15)", "fig:Reward_Rate_3"
    yield approaches(text, figure, quantity=measures.reward_gap)
    text = f"{name}'s pull shares still converge to π*'s (δ₀ = 15)"
    yield approaches(text, "fig:Time_Allocation_3", quantity=measures.share_gap)


def _regret(name: str) -> Iterator[Claim]:
    log, bound = (1.0, "√(K B log B)") if name == "LyOn" else (0.0, "√B")
    yield _claim(
        f"{name}'s regret is O({bound}) (δ₀ = 15, the limit kept)",
        THEOREMS[name],
        measures.order,
        wanted=_wanted(name, 15.0),
        quantity=measures.regret,
        claimed=0.5,
        log=log,
    )
    yield _claim(
        f"{name}'s regret is O({bound}) (δ₀ = 0.5, the limit broken)",
        THEOREMS[name],
        measures.negative_regret,
        wanted=_wanted(name, 0.5),
    )


def _queue(name: str) -> Claim:
    text, wanted = f"{name}'s largest queue is O(l* + log N)", _wanted(name, 0.5)
    return _claim(text, QUEUES[name], measures.queue, wanted=wanted)


def _many_arms() -> Iterator[Claim]:
    """Figures 2 and 3."""
    small = partial(_claim, experiment="fig2", wanted=_wanted("LyOn", 0.5))
    large = partial(_claim, experiment="fig3", wanted=_wanted("LyOn", 15.0))
    figures = "fig:increasing_K", "fig:increasing_K_large_delta"
    grows = {"violation": measures.violation, "reward rate": measures.reward_gap}
    for what, quantity in grows.items():
        text = f"With more arms LyOn has at first a larger {what} (δ₀ = 0.5)"
        yield small(text, figures[0], measures.grows_with_arms, quantity=quantity)
    for about, figure, delta0 in ((small, figures[0], "0.5"), (large, figures[1], "15")):
        text = f"LyOn's reward rate converges to the optimum for all K (δ₀ = {delta0})"
        yield about(text, figure, measures.converges_for_all, quantity=measures.reward_gap)
    text = "LyOn's violation is not positive for all K when B is large (δ₀ = 15)"
    yield large(text, figures[1], measures.negative)
    text = "LyOn's regret grows with the arms at most like √K (δ₀ = 15)"
    yield large(text, "thm:regret", measures.arms_order)


def _tradeoff(name: str, figure: str, label: str) -> Iterator[Claim]:
    """Figures 4 and 5."""
    about = partial(_claim, source=label, measure=measures.monotone, experiment=figure)
    for parameter, change, direction in (("v0", "larger V", 1), ("delta0", "smaller δ", -1)):
        text = f"{name}: a {change} earns more and breaks the limit by more"
        yield about(text, kind=KINDS[name], parameter=parameter, direction=direction)


CLAIMS: tuple[Claim, ...] = (
    *(claim for name in KINDS for claim in _small_delta(name)),
    *(claim for name in KINDS for claim in _large_delta(name)),
    *(claim for name in KINDS for claim in _regret(name)),
    _claim(
        "Learning raises the bound on the regret by a factor of order √(K log B) (δ₀ = 15)",
        "after thm:regret",
        measures.bound_of_learning,
        known=_wanted("LyOff", 15.0),
        learned=_wanted("LyOn", 15.0),
    ),
    _claim("π*'s regret is O(1)", "prop:optimality-gap", measures.exact_gap, what="regret"),
    _claim(
        "π*'s violation is O(1/B)", "prop:optimality-gap", measures.exact_gap, what="violation × B"
    ),
    *(_queue(name) for name in KINDS),
    *_many_arms(),
    *_tradeoff("LyOff", "fig4", "fig:tradeoff_delta_V_Offline"),
    *_tradeoff("LyOn", "fig5", "fig:tradeoff_delta_V_Online"),
    _claim(
        "The index as printed is a lower confidence bound, and learns",
        "eqn:ly-index, remark after alg:LyOn",
        measures.as_printed,
        experiment="erratum",
    ),
)
