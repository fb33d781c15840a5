"""The paper's numbers for its LaTeX labels: ``thm:regret`` is Theorem 1."""

from __future__ import annotations

import re

# An equation is cited by the result that contains it: equation numbers differ between versions.
CITED = {
    "def:stat": "Definition 4",
    "def:osrp": "Definition 4",
    "prop:optimality-gap": "Proposition 1",
    "assn:slater": "Assumption 1",
    "assn:bounded-moment": "Assumption 2",
    "def:dppr": "Definition 5",
    "eqn:lyapunov-dppr": "Definition 5",
    "policy:offline": "Definition 6",
    "eqn:drift-min": "Definition 6",
    "prop:offline-opt": "Proposition 2",
    "alg:LyOff": "Algorithm 1",
    "def:cradius": "Definition 7",
    "eqn:ly-index": "Definition 8",
    "alg:LyOn": "Algorithm 2",
    "thm:regret": "Theorem 1",
    "fig:Reward_Rate_0_5": "Figure 1 (a)",
    "fig:Constraint_Violation_0_5": "Figure 1 (b)",
    "fig:Time_Allocation_0_5": "Figure 1 (c)",
    "fig:Reward_Rate_3": "Figure 1 (d)",
    "fig:Constraint_Violation_3": "Figure 1 (e)",
    "fig:Time_Allocation_3": "Figure 1 (f)",
    "fig:simulation_main": "Figure 1",
    "prop:renewal-concentration": "Proposition 3",
    "prop:srp": "Proposition 4",
    "lemma:regret-decomp": "Lemma 1",
    "lemma:constraint-decomp": "Lemma 2",
    "prop:offline-determ": "Proposition 5",
    "eqn:lyapunov-dppr-psi": "Proposition 5",
    "lemma:drift-bound-offline": "Lemma 3",
    "lemma:lyapunov_drift": "Lemma 4",
    "eqn:regret_offline_V": "proof of Proposition 2",
    "eqn:constraint_offline_V": "proof of Proposition 2",
    "eqn:exp_Q_n": "proof of Proposition 2",
    "lemma:bound-psi": "Lemma 5",
    "lemma:drift-bound": "Lemma 6",
    "lemma:max-Q": "Lemma 7",
    "fig:increasing_K": "Figure 2",
    "fig:increasing_K_large_delta": "Figure 3",
    "fig:tradeoff_delta_V_Offline": "Figure 4",
    "fig:tradeoff_delta_V_Online": "Figure 5",
    "sec:simulations": "section Simulations",
    "sec:LyOn": "section on LyOn",
}
LABEL = re.compile("|".join(map(re.escape, sorted(CITED, key=len, reverse=True))))


def cited(text: str) -> str:
    """The text with the paper's numbers instead of labels.

    >>> cited("fig:Constraint_Violation_3, thm:regret")
    'Figure 1 (e), Theorem 1'
    """
    return LABEL.sub(lambda found: CITED[found[0]], text)
