"""What the paper claims of its simulations and of its orders, and how each claim is checked.

A claim is data and a measure; the measure reads the evidence of one experiment and never runs
anything. One more claim is one more entry of ``CLAIMS``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from tightrope.paper import measures
from tightrope.paper.base import Evidence
from tightrope.paper.measures import Measured, Wanted
from tightrope.policies import LyOff, LyOn
from tightrope.report.verdicts import Verdict
from tightrope.theory.citations import cited

__all__ = ["CLAIMS", "Claim", "judge"]


@dataclass(frozen=True)
class Claim:
    """``source``: label or figure of the paper; ``experiment``: whose evidence decides it."""

    text: str
    source: str
    experiment: str
    measure: Callable[[Evidence], Measured | None]


def judge(evidence: Mapping[str, Evidence]) -> list[Verdict]:
    """A verdict on every claim that the experiments at hand, by name, can decide."""
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


def _wanted(name: str, delta0: float) -> Wanted:
    return Wanted(KINDS[name], (("v0", 1.0), ("delta0", delta0)))


def _small_delta(name: str) -> Iterator[Claim]:
    """Figure 1 (a-c)."""
    policy, log = _wanted(name, 0.5), -1.0 if name == "LyOn" else 0.0
    yield Claim(
        f"{name} reaches π*'s reward rate (δ₀ = 0.5)",
        "fig:Reward_Rate_0_5",
        "fig1",
        partial(measures.converges, wanted=policy, quantity=measures.reward_gap),
    )
    yield Claim(
        f"{name}'s pull shares converge to π*'s (δ₀ = 0.5)",
        "fig:Time_Allocation_0_5",
        "fig1",
        partial(measures.converges, wanted=policy, quantity=measures.share_gap),
    )
    linear = partial(measures.order, wanted=policy, quantity=measures.violation, claimed=-1.0)
    yield Claim(
        f"{name}'s violation decays at the rate Õ(1/B)"
        + (" (δ₀ = 0.5)" if name == "LyOn" else ", here 1/B (δ₀ = 0.5)"),
        "fig:Constraint_Violation_0_5, sec:simulations",
        "fig1",
        partial(measures.nearly_linear, wanted=policy) if name == "LyOn" else linear,
    )
    rate = "√(log B / B)" if name == "LyOn" else "1/√B"
    yield Claim(
        f"{name}'s violation is O(V/B − δ), here {rate} (δ₀ = 0.5)",
        "thm:regret" if name == "LyOn" else "prop:offline-opt",
        "fig1",
        partial(measures.order, wanted=policy, quantity=measures.violation, claimed=-0.5, log=log),
    )


def _large_delta(name: str) -> Iterator[Claim]:
    """Figure 1 (d-f)."""
    policy, result = _wanted(name, 15.0), "thm:regret" if name == "LyOn" else "prop:offline-opt"
    yield Claim(
        f"{name}'s violation is negative for large B (δ₀ = 15)",
        f"fig:Constraint_Violation_3, {result}",
        "fig1",
        partial(measures.negative, wanted=policy),
    )
    yield Claim(
        f"{name}'s violation is −Ω(1/√B), printed as O(−1/√B) (δ₀ = 15)",
        result,
        "fig1",
        partial(
            measures.order,
            wanted=policy,
            quantity=measures.violation,
            claimed=-0.5,
            at_most=False,
        ),
    )
    yield Claim(
        f"{name}'s reward rate still converges to π*'s (δ₀ = 15)",
        "fig:Reward_Rate_3",
        "fig1",
        partial(measures.converges, wanted=policy, quantity=measures.reward_gap),
    )
    yield Claim(
        f"{name}'s pull shares still converge to π*'s (δ₀ = 15)",
        "fig:Time_Allocation_3",
        "fig1",
        partial(measures.converges, wanted=policy, quantity=measures.share_gap),
    )


def _regret(name: str) -> Iterator[Claim]:
    learns = name == "LyOn"
    source, bound = ("thm:regret", "√(K B log B)") if learns else ("prop:offline-opt", "√B")
    yield Claim(
        f"{name}'s regret is O({bound}) (δ₀ = 15, the limit kept)",
        source,
        "fig1",
        partial(
            measures.order,
            wanted=_wanted(name, 15.0),
            quantity=measures.regret,
            claimed=0.5,
            log=1.0 if learns else 0.0,
        ),
    )
    yield Claim(
        f"{name}'s regret is O({bound}) (δ₀ = 0.5, the limit broken)",
        source,
        "fig1",
        partial(measures.negative_regret, wanted=_wanted(name, 0.5)),
    )


def _queue(name: str) -> Claim:
    label = "lemma:max-Q" if name == "LyOn" else "lemma:drift-bound-offline"
    return Claim(
        f"{name}'s largest queue is O(l* + log N)",
        label,
        "fig1",
        partial(measures.queue, wanted=_wanted(name, 0.5)),
    )


def _many_arms() -> Iterator[Claim]:
    """Figures 2 and 3."""
    small, large = _wanted("LyOn", 0.5), _wanted("LyOn", 15.0)
    grows = {"violation": measures.violation, "reward rate": measures.reward_gap}
    for what, quantity in grows.items():
        yield Claim(
            f"With more arms LyOn has at first a larger {what} (δ₀ = 0.5)",
            "fig:increasing_K",
            "fig2",
            partial(measures.grows_with_arms, wanted=small, quantity=quantity),
        )
    for figure, wanted, label in (
        ("fig2", small, "fig:increasing_K"),
        ("fig3", large, "fig:increasing_K_large_delta"),
    ):
        yield Claim(
            f"LyOn's reward rate converges to the optimum for all K"
            f" (δ₀ = {dict(wanted.parameters)['delta0']:g})",
            label,
            figure,
            partial(measures.converges_for_all, wanted=wanted, quantity=measures.reward_gap),
        )
    yield Claim(
        "LyOn's violation is not positive for all K when B is large (δ₀ = 15)",
        "fig:increasing_K_large_delta",
        "fig3",
        partial(measures.negative, wanted=large),
    )
    yield Claim(
        "LyOn's regret grows with the arms at most like √K (δ₀ = 15)",
        "thm:regret",
        "fig3",
        partial(measures.arms_order, wanted=large),
    )


def _tradeoff(name: str, figure: str, label: str) -> Iterator[Claim]:
    """Figures 4 and 5."""
    for parameter, symbol, words, direction in (
        ("v0", "V", "larger", 1),
        ("delta0", "δ", "smaller", -1),
    ):
        yield Claim(
            f"{name}: a {words} {symbol} earns more and breaks the limit by more",
            label,
            figure,
            partial(measures.monotone, kind=KINDS[name], parameter=parameter, direction=direction),
        )


CLAIMS: tuple[Claim, ...] = (
    *(claim for name in KINDS for claim in _small_delta(name)),
    *(claim for name in KINDS for claim in _large_delta(name)),
    *(claim for name in KINDS for claim in _regret(name)),
    Claim(
        "Learning raises the bound on the regret by a factor of order √(K log B) (δ₀ = 15)",
        "after thm:regret",
        "fig1",
        partial(
            measures.bound_of_learning,
            known=_wanted("LyOff", 15.0),
            learned=_wanted("LyOn", 15.0),
        ),
    ),
    Claim(
        "π*'s regret is O(1)",
        "prop:optimality-gap",
        "fig1",
        partial(measures.exact_gap, what="regret"),
    ),
    Claim(
        "π*'s violation is O(1/B)",
        "prop:optimality-gap",
        "fig1",
        partial(measures.exact_gap, what="violation × B"),
    ),
    *(_queue(name) for name in KINDS),
    *_many_arms(),
    *_tradeoff("LyOff", "fig4", "fig:tradeoff_delta_V_Offline"),
    *_tradeoff("LyOn", "fig5", "fig:tradeoff_delta_V_Online"),
    Claim(
        "The index as printed is a lower confidence bound, and learns",
        "eqn:ly-index, remark after alg:LyOn",
        "erratum",
        measures.as_printed,
    ),
)
