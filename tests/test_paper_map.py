"""docs/paper-map.md: every label of the paper is there, every target exists."""

from __future__ import annotations

import re
from functools import reduce
from importlib import import_module
from pathlib import Path

import pytest

MAP = Path(__file__).parents[1] / "docs" / "paper-map.md"
# every \label of the paper's LaTeX but those of sections (sec:, app:), in order
LABELS = """
    eqn:reward eqn:optimization-problem def:stat def:osrp prop:optimality-gap assn:slater
    assn:bounded-moment eqn:q-length def:dppr eqn:lyapunov-dppr eqn:lyapunov-dppr-random
    policy:offline eqn:drift-min prop:offline-opt alg:LyOff def:cradius eqn:ly-index alg:LyOn
    thm:regret fig:Reward_Rate_0_5 fig:Constraint_Violation_0_5 fig:Time_Allocation_0_5
    fig:Reward_Rate_3 fig:Constraint_Violation_3 fig:Time_Allocation_3 fig:simulation_main
    eqn:renewal-concentration prop:renewal-concentration prop:srp lemma:regret-decomp
    eqn:reward-rate-filtration eqn:wald-b eqn:wald-c eqn:pi_star_up_b eqn:pi_star_up_c
    eqn:pi_star_gap_c lemma:constraint-decomp eqn:penalty-rate-filtration
    eqn:constraint_decomp_b eqn:constraint_decomp_d eqn:constraint_decomp_e eqn:wald-srp-a
    eqn:wald-srp-b eqn:opt-gap-a eqn:bound_s_n eqn:opt-gap-b eqn:violation prop:offline-determ
    eqn:lyapunov-dppr-psi lemma:drift-bound-offline lemma:lyapunov_drift eqn:regret_offline_V
    eqn:constraint_offline_V eqn:exp_Q_n lemma:bound-psi eqn:pac-bound lemma:drift-bound
    lemma:max-Q rho_def_2 eta_def neg_drift_2 bound_inc_2 bound_exp_y_temp bound_z_n 2nd_moment
    bound_2nd_moment bound_exp_y bound_alpha_n bound_beta_n bound_exp_y_2 exp_bound_max
    eqn:regret_online_V_1 eqn:regret_online_V_2 eqn:regret_online_V_3
    fig:K_delta_0_5_large_B_reward_rate fig:K_delta_0_5_large_B_constraint_violation
    fig:increasing_K fig:K_delta_15_large_B_reward_rate
    fig:K_delta_15_large_B_constraint_violation fig:increasing_K_large_delta
    fig:Offline_V_Delta_Reward_Rate fig:Offline_V_Delta_Constraint fig:tradeoff_delta_V_Offline
    fig:Online_V_Delta_Reward_Rate fig:Online_V_Delta_Constraint fig:tradeoff_delta_V_Online
""".split()
ROWS = re.findall(r"^\| (.+?) \| (.*?) ?\| (.+) \|$", MAP.read_text(), re.MULTILINE)
TARGETS = sorted({target for _, _, where in ROWS for target in re.findall(r"`(.+?)`", where)})


def test_every_label_is_in_the_map_once_and_in_order():
    listed = [label for labels, _, _ in ROWS for label in re.findall(r"`(.+?)`", labels)]
    assert listed == LABELS


def test_every_row_says_where():
    for label, _, where in ROWS:
        assert where in ("where", "proof only") or re.fullmatch(r"`\S+`(, `\S+`)*", where), label


@pytest.mark.parametrize("target", TARGETS)
def test_the_target_exists(target):
    file, name = target.split(":")
    module = import_module("tightrope." + file.removesuffix(".py").replace("/", "."))
    first, *rest = name.split(".")
    found = getattr(module, first)
    if rest and rest[0] in getattr(found, "__dataclass_fields__", {}):
        return
    assert reduce(getattr, rest, found) is not None
