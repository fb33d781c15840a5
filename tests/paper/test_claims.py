"""Claims are judged on made-up runs whose truth is known, then on a small real sweep."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest

from tightrope import LyOff, LyOn, Stationary, oracle, ready_problem
from tightrope.engine.simulation import simulate
from tightrope.paper import EXPERIMENTS, Call, Evidence, measures
from tightrope.paper.claims import CLAIMS, judge
from tightrope.paper.fits import Fit, power_law
from tightrope.paper.measures import Wanted
from tightrope.paper.tracks import Track, tracks
from tightrope.report.verdicts import FAILS, HOLDS, TONES, UNKNOWN
from tightrope.results import Results
from tightrope.runs import Record, Runs
from tightrope.statistics import estimate

BUDGETS = (1000.0, 2000.0, 4000.0, 8000.0, 16000.0)
RUNS = 400


def made_up(policies, violation, problem="paper", reward=None, queue=None) -> Evidence:
    """Runs whose mean violation (and reward rate, and queue) at a budget is given; noisy."""
    call = Call(problem, tuple(policies), BUDGETS)
    noise = np.random.default_rng(5).normal(size=(len(BUDGETS), RUNS))
    noise -= noise.mean(axis=1, keepdims=True)
    budgets = np.array(BUDGETS)[:, None]
    arms = call.load().arm_count

    def record(policy):
        over = np.array([violation(policy, b) for b in BUDGETS])[:, None] + 0.0005 * noise
        rate = over + 1.3 if reward is None else np.array([reward(policy, b) for b in BUDGETS])
        rate = rate.reshape(len(BUDGETS), -1) + np.zeros_like(over)
        top = np.array([1.0 if queue is None else queue(b) for b in BUDGETS])[:, None] + noise
        flat = np.ones((len(BUDGETS), RUNS))
        runs = Runs(
            reward=rate * budgets,
            cost=flat * (budgets + 1),
            penalty=((over + 0.8) * budgets)[..., None],
            pulls=np.ones((len(BUDGETS), RUNS, arms), np.int64) * 1000,
            arm_cost=np.ones((len(BUDGETS), RUNS, arms)) * 400,
            queue=flat[..., None],
            queue_max=top[..., None],
        )
        return Record(policy.label, runs, (0.0,) * len(BUDGETS), 0.0, "cpu")

    results = Results(
        ready_problem(problem),
        BUDGETS,
        0,
        np.arange(RUNS),
        tuple(record(policy) for policy in policies),
        "test",
    )
    return Evidence([call], [results])


class TestFits:
    X = np.array(BUDGETS)

    def samples(self, mean, spread=0.01, seed=0):
        noise = np.random.default_rng(seed).normal(size=(len(mean), RUNS))
        return np.asarray(mean)[:, None] * (1.0 + spread * noise)

    @pytest.mark.parametrize("exponent", [-1.0, -0.5, 0.0, 0.5])
    @pytest.mark.parametrize("sign", [1.0, -1.0])
    def test_finds_the_exponent(self, exponent, sign):
        fit = power_law(self.X, self.samples(sign * 3.0 * self.X**exponent))
        assert abs(fit.exponent - exponent) < 0.01
        assert fit.low < exponent < fit.high
        assert fit.points == len(self.X)

    def test_its_interval_covers(self):
        """95 % intervals hold the truth about as often as they say, and no less."""
        covered = 0
        for seed in range(200):
            fit = power_law(self.X, self.samples(self.X**-0.5, spread=0.5, seed=seed))
            covered += fit.low <= -0.5 <= fit.high
        assert covered >= 185

    def test_shared_noise_says_nothing_of_the_slope(self):
        """Runs that are lucky at every budget move the line, not its slope."""
        policy_words = 1.0 + 0.3 * np.random.default_rng(0).normal(size=RUNS)
        fit = power_law(self.X, (self.X**-0.5)[:, None] * policy_words)
        assert fit.exponent == pytest.approx(-0.5)
        assert fit.reach < 1e-9

    def test_a_curve_widens_the_interval(self):
        straight = power_law(self.X, self.samples(self.X**-0.5, 0.001))
        bent = power_law(self.X, self.samples(self.X**-0.5 + 0.01, 0.001))
        assert bent.reach > 5 * straight.reach

    def test_only_the_clear_tail_of_one_sign(self):
        mean = np.array([0.2, -0.1, -0.05, -0.025, -0.0125])
        fit = power_law(self.X, self.samples(mean))
        assert (fit.points, fit.first) == (4, 2000.0)
        assert fit.exponent == pytest.approx(-1.0, abs=0.02)
        assert power_law(self.X, self.samples(mean[::-1])) is None
        unclear = self.samples([*mean[1:], 0.0]) + self.samples(np.ones(5), 0.001) - 1.0
        assert power_law(self.X, unclear).points == 4
        assert power_law(self.X, self.samples(mean, spread=100.0)) is None
        assert power_law(self.X, self.samples(mean)[:, :1]) is None

    def test_text(self):
        assert str(Fit(-0.5, 0.001, 1.0, 2.0, 3)) == "−0.500 ± 0.001"
        assert str(Fit(0.5, 0.04, 1.0, 2.0, 3)) == "0.50 ± 0.04"


def verdict(claim_text, evidence, experiment="fig1"):
    found = {one.claim: one for one in judge({experiment: evidence})}
    (one,) = [verdict for text, verdict in found.items() if claim_text in text]
    return one.verdict


@pytest.mark.parametrize(
    ("exponent", "linear", "root", "rate"),
    [
        (-1.0, HOLDS, HOLDS, HOLDS),
        (-0.5, FAILS, HOLDS, HOLDS),
        (-0.2, FAILS, FAILS, HOLDS),
        (0.1, FAILS, FAILS, FAILS),
    ],
)
def test_decay_of_the_violation(exponent, linear, root, rate):
    evidence = made_up([LyOff()], lambda _, budget: 10 * budget**exponent)
    assert verdict("LyOff's violation decays at the rate Õ(1/B)", evidence) == linear
    assert verdict("LyOff's violation is O(V/B − δ)", evidence) == root
    assert verdict("LyOff reaches π*'s reward rate", evidence) == rate


@pytest.mark.parametrize(
    ("exponent", "expected"), [(-1.0, HOLDS), (-0.7, UNKNOWN), (-0.5, UNKNOWN), (0.1, FAILS)]
)
def test_powers_of_log_leave_a_rate_of_nearly_one_over_the_budget_open(exponent, expected):
    evidence = made_up([LyOn()], lambda _, budget: 10 * budget**exponent)
    assert verdict("LyOn's violation decays at the rate Õ(1/B)", evidence) == expected


def test_what_would_settle_the_rate_is_said_with_its_numbers():
    """Runs of exactly log^2(B) / B: the power of log is found, and no verdict is given."""
    evidence = made_up([LyOn()], lambda _, budget: np.log(budget) ** 2 / budget)
    (one,) = [v for v in judge({"fig1": evidence}) if "LyOn's violation decays" in v.claim]
    assert one.verdict == UNKNOWN
    assert "log^p(B) / B with p = 2.0 falls as fast here" in one.measured
    assert "budgets up to the square of these, 2.6e+08" in one.measured  # 16,000 squared
    # v0 = multiplier = 1, delta0 = 1/2: the violation's limit is half of sqrt(log B / B)
    root = np.sqrt(np.log(16000) / 16000)
    factor = np.log(16000) ** 2 / 16000 / (0.5 * root)
    assert f"that is {0.5 * root:.4f}; measured is {factor:.2f} times as much" in one.measured


@pytest.mark.parametrize(
    ("value", "expected"), [(-0.1, HOLDS), (0.1, FAILS), (0.0, UNKNOWN)], ids=["-", "+", "0"]
)
def test_negative_violation(value, expected):
    evidence = made_up([LyOff(delta0=15.0)], lambda *_: value)
    assert verdict("LyOff's violation is negative", evidence) == expected


@pytest.mark.parametrize(("exponent", "expected"), [(-0.5, HOLDS), (-0.2, FAILS)])
def test_order_of_regret(exponent, expected):
    """Regret is - B times the gap: B^(1 + exponent)."""
    evidence = made_up([LyOff(delta0=15.0)], lambda _, budget: -5.0 * budget**exponent)
    assert verdict("regret is O(√B) (δ₀ = 15", evidence) == expected


def test_regret_says_nothing_where_the_limit_is_broken():
    evidence = made_up([LyOff()], lambda _, budget: budget**-0.5)
    (one,) = [v for v in judge({"fig1": evidence}) if "the limit broken" in v.claim]
    assert one.verdict == UNKNOWN
    assert "Lagrangian regret" in one.measured
    assert "under every policy" in one.measured


@pytest.mark.parametrize(
    ("queue", "expected"),
    [
        (lambda budget: budget**0.5, HOLDS),
        (lambda budget: 0.01 * budget**0.8, UNKNOWN),
        (lambda budget: budget, FAILS),
    ],
)
def test_queue(queue, expected):
    evidence = made_up([LyOff()], lambda *_: 0.1, queue=queue)
    assert verdict("LyOff's largest queue", evidence) == expected


GRID = [LyOff(v0=v0, delta0=delta0) for v0 in (0.5, 1.0, 2.0) for delta0 in (0.1, 1.0, 4.0)]


def test_trade_off():
    evidence = made_up(GRID, lambda policy, b: (policy.v0 - policy.delta0) / b**0.5)
    assert verdict("a larger V", evidence, "fig4") == HOLDS
    assert verdict("a smaller δ", evidence, "fig4") == HOLDS
    evidence = made_up(GRID, lambda policy, b: (-policy.v0 - policy.delta0) / b**0.5)
    assert verdict("a larger V", evidence, "fig4") == FAILS
    assert verdict("a smaller δ", evidence, "fig4") == HOLDS
    evidence = made_up(GRID, lambda policy, b: policy.v0 / b**0.5)
    assert verdict("a smaller δ", evidence, "fig4") == UNKNOWN


def test_neighbours_are_compared_with_the_other_parameter_held():
    found = measures.monotone(made_up(GRID, lambda *_: 0.0), LyOff, "v0", 1)
    assert f"of {2 * 3 * 2 * len(BUDGETS)} comparisons" in found.text


def test_arms():
    def sweep(value):
        parts = [
            made_up([LyOn()], lambda _, b, k=k: value(k, b), f"paper-arms-{k}", lambda *_: 1.0)
            for k in (2, 10, 20)
        ]
        return Evidence([c for p in parts for c in p.calls], [r for p in parts for r in p.results])

    text = "With more arms LyOn has at first a larger violation"
    assert verdict(text, sweep(lambda k, b: k / b), "fig2") == HOLDS
    assert verdict(text, sweep(lambda k, b: -k / b), "fig2") == FAILS
    assert verdict(text, sweep(lambda k, b: 1 / b), "fig2") == UNKNOWN


def test_pi_star_is_judged_exactly_whatever_was_simulated():
    """Every run of pi* costs B + 1, so it earns 1.3 B + 1.3, where OPT(B) is 1.3 B + 0.5."""
    for simulated in (lambda _, b: 0.8 / b, lambda _, b: b**-0.5):
        found = {v.claim: v for v in judge({"fig1": made_up([Stationary()], simulated)})}
        regret, violation = found["π*'s regret is O(1)"], found["π*'s violation is O(1/B)"]
        assert (regret.verdict, violation.verdict) == (HOLDS, HOLDS)
        assert (regret.short, violation.short) == ("exactly −0.8", "exactly +0.8")


def test_pi_star_on_continuous_costs_is_judged_by_an_interval():
    """The cost of a run is between B and B + 8 hours; the regret's interval is as wide."""
    problem = ready_problem("hiring")
    found = measures.exact_gap(made_up([Stationary()], lambda *_: 0.0, "hiring"), "regret")
    low, high = (float(x.replace("−", "-")) for x in found.short.split() if x[0] in "+−")
    assert high - low >= 8 * oracle(problem).reward_rate - 0.01
    assert found.verdict == HOLDS
    assert high <= 8 * oracle(problem).reward_rate + 0.01


def test_pi_star_would_fail_if_the_optimum_grew_faster(monkeypatch):
    monkeypatch.setattr(measures, "optimum", lambda _, budget: 1.3 * budget + budget**0.5)
    evidence = made_up([Stationary()], lambda *_: 0.0)
    assert verdict("π*'s regret is O(1)", evidence) == FAILS


def test_shares_of_ones_own_are_not_pi_star():
    evidence = made_up([Stationary(shares=(0.5, 0.5))], lambda *_: 0.0)
    assert judge({"fig1": evidence}) == []


def test_what_learning_adds_is_judged_by_the_bounds(monkeypatch):
    """The simulated regrets do not matter; a bound that grows faster than the claim would."""
    policies = [LyOff(delta0=15.0), LyOn(delta0=15.0)]
    text = "Learning raises the bound on the regret"
    for value in (-0.5, -1e-6):
        assert verdict(text, made_up(policies, lambda *_, v=value: v)) == HOLDS
    true = measures.lyon_regret
    monkeypatch.setattr(measures, "lyon_regret", lambda k, b, *rest: b**0.01 * true(k, b, *rest))
    assert verdict(text, made_up(policies, lambda *_: -0.5)) == FAILS
    monkeypatch.setattr(measures, "lyon_regret", lambda k, *rest: k.arm_count * true(k, *rest))
    assert verdict(text, made_up(policies, lambda *_: -0.5)) == FAILS


def test_erratum():
    policies = [LyOn(), LyOn(penalty_bonus="as-printed")]
    worse = made_up(policies, lambda p, b: 0.1 if p.penalty_bonus == "as-printed" else 0.01)
    assert verdict("as printed", worse, "erratum") == FAILS


def test_budgets_where_the_tightened_limit_leaves_no_choice_are_left_out():
    """delta = 15 / sqrt(B) is above c - 0.5 below B = 2,500."""
    evidence = made_up([LyOff(delta0=15.0)], lambda _, b: -5.0 * max(b, 4000.0) ** -0.5)
    (one,) = [v for v in judge({"fig1": evidence}) if "reward rate still" in v.claim]
    assert "(from 4,000 on, where some arm keeps c − δ)" in one.measured
    assert "B^(−0.50" in one.measured


def test_track_of_real_runs_agrees_with_the_summary():
    call = Call("paper", (LyOff(), LyOn(delta0=15.0), Stationary()), (500.0, 4000.0))
    with warnings.catch_warnings(action="ignore"):
        results = simulate(
            call.load(), call.policies, budgets=call.budgets, runs=64, progress=False
        )
    evidence = Evidence([call], [results])
    (one,) = tracks(evidence, LyOn, delta0=15.0)
    rows = evidence.rows_of("paper", call.policies[1])
    assert one.inside.tolist() == [False, True]
    for g, row in enumerate(rows):
        assert one.regret[g].mean() == pytest.approx(row.regret.mean)
        assert one.violation[g].mean() == pytest.approx(row.violation[0].mean)
        assert one.reward_gap[g].mean() == pytest.approx(row.reward_rate.mean - 1.3)
        assert one.share_gap[g].mean() == pytest.approx(row.pull_share[0] - 9 / 23)
        assert one.queue_max[g].mean() == pytest.approx(row.queue_max[0])
        assert one.pulls[g] == pytest.approx(row.pulls)
    assert one.arms_alike
    for track in tracks(evidence, LyOff):
        # The same for every policy: OPT less what any policy earns net of priced penalty.
        assert all(abs(found.mean) < 2 * found.reach for found in lagrangian(track))


def lagrangian(track: Track):
    return [estimate(values) for values in track.lagrangian_regret]


def test_thresholds_are_the_lemmas():
    """epsilon = 0.8 * 0.6 - 0.3 = 0.18, r_max = 2, y_max = 1.5."""
    evidence = made_up([LyOff(), LyOn()], lambda *_: 0.0)
    off, on = Wanted(LyOff).one(evidence), Wanted(LyOn).one(evidence)
    budgets = np.array(BUDGETS)
    assert measures._threshold(off) == pytest.approx(np.sqrt(budgets) * 2 / 0.18)
    v = np.sqrt(budgets * np.log(budgets))
    assert measures._threshold(on) == pytest.approx(v * (4 / 0.18 + 3 / 2.5))


def test_claims_are_data():
    assert {claim.experiment for claim in CLAIMS} == set(EXPERIMENTS)
    texts = [claim.text for claim in CLAIMS]
    assert len(set(texts)) == len(texts) > 30
    assert set(TONES) == {HOLDS, FAILS, UNKNOWN}


def test_what_was_not_run_is_left_out():
    assert judge({}) == []
    only = judge({"fig1": made_up([LyOff()], lambda *_: 0.1)})
    assert only
    assert all("LyOff" in one.claim for one in only)
    assert judge({"my own": made_up([LyOff()], lambda *_: 0.1)}) == []


def test_every_claim_has_a_verdict_on_the_papers_own_sweeps():
    """A few runs, a few budgets: nothing fails, everything is judged."""
    evidence = {}
    for name in ("fig1", "fig4", "fig5", "erratum"):
        calls = [replace(call, budgets=(3000.0, 5000.0)) for call in EXPERIMENTS[name].sweep]
        with warnings.catch_warnings(action="ignore"):
            results = [
                simulate(c.load(), c.policies, budgets=c.budgets, runs=8, progress=False)
                for c in calls
            ]
        evidence[name] = Evidence(calls, results)
    judged = judge(evidence)
    wanted = [claim for claim in CLAIMS if claim.experiment in evidence]
    assert {one.claim for one in judged} == {claim.text for claim in wanted}
    assert all(one.verdict in TONES and one.measured and one.short for one in judged)
