"""The Bayesian bootstrap over rows: closed forms, coverage on logs whose truth is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.logs import coverage
from tightrope import Arm, Bernoulli, Change, Limit, LyOn, Problem, oracle, simulate
from tightrope import optimum as exact_optimum
from tightrope.data import bootstrap
from tightrope.data import draws as module
from tightrope.data.best_rates import best_rate
from tightrope.data.bootstraps import optima
from tightrope.data.draws import Chance, Draws, Split, sample, split
from tightrope.engine.simulation import SimulationSettings
from tightrope.errors import InputError
from tightrope.policies import FixedArm
from tightrope.statistics import wilson

QUIET = SimulationSettings(progress=False)
PULLS = 21  # a run with a cost of 1 and a budget of 20


def unit_cost_arm(name, rewards, penalty=0.0):
    count = len(rewards)
    return Arm.from_rows(name, np.column_stack([np.ones(count), rewards, np.full(count, penalty)]))


def log_of(problem, rows, stream):
    """A problem whose arms are so many rows drawn from another's zero-one laws."""
    arms = [
        Arm.from_rows(arm.name, (stream.random((rows, 3)) < [law.mean for law in arm.laws]) * 1.0)
        for arm in problem.arms
    ]
    return replace(problem, arms=arms)


def test_the_posterior_variance_of_a_mean_is_the_closed_form():
    rewards = np.random.default_rng(1).random(12)
    problem = Problem([unit_cost_arm("seen", rewards)], limit=0.5)
    draws = Draws.of(problem, 1500, seed=5)
    found = draws.spread(draws.values(lambda one: one.arms[0].reward.mean))
    assert found.mean == pytest.approx(rewards.mean())
    assert found.log == pytest.approx(np.sqrt(rewards.var() / 13), rel=0.08)
    assert found.simulation == 0.0


def test_rows_that_had_weights_keep_their_means():
    seen = unit_cost_arm("seen", np.array([0.0, 0.0, 1.0, 0.5])).weighted([5, 1, 3, 1])
    draws = Draws.of(Problem([seen], limit=0.5), 1000, seed=2)
    means = draws.values(lambda one: one.arms[0].reward.mean)[1:]
    assert means.mean() == pytest.approx(0.35, abs=0.03)
    assert means.std() > 0.1


def test_a_simulated_row_has_both_parts():
    rewards = (np.random.default_rng(3).random(40) < 0.5) * 1.0
    problem = Problem([unit_cost_arm("seen", rewards)], limit=0.5)
    found = bootstrap(problem, FixedArm(1), budgets=20, runs=4000, draws=200, seed=1)
    rate = found.rows[0].reward_rate
    spread = rewards.mean() * (1 - rewards.mean())
    assert rate.mean == pytest.approx(rewards.mean() * PULLS / 20, abs=4 * rate.log / np.sqrt(200))
    assert rate.log == pytest.approx(np.sqrt(spread / 41) * PULLS / 20, rel=0.15)
    assert rate.simulation == pytest.approx(np.sqrt(PULLS * spread / 4000) / 20, rel=0.1)
    assert found.oracle.log == pytest.approx(np.sqrt(spread / 41), rel=0.15)
    assert found.optimum[0].log == pytest.approx(20 * found.oracle.log)
    assert found.rows[0].regret.log < 0.3 * 20 * rate.log, "the optimum varies with the reward"


def test_without_rows_it_is_the_usual_standard_error(paper):
    found = bootstrap(paper, LyOn(), budgets=[50, 100], runs=300, seed=4)
    usual = simulate(paper, LyOn(), budgets=[50, 100], runs=300, seed=4).rows()
    assert found.draws == 0
    assert found.notes == [
        "The arms have distributions, not rows: the errors are those of the simulation."
    ]
    for row, other in zip(found.rows, usual, strict=True):
        pairs = [(row.reward_rate, other.reward_rate), (row.violation[0], other.violation[0])]
        for one, known in [*pairs, (row.regret, other.regret)]:
            assert (one.mean, one.simulation) == pytest.approx((known.mean, known.error))
            assert one.log == 0.0
    assert found.oracle == Split(oracle(paper).reward_rate)


def test_the_oracles_interval_contains_the_truth_as_often_as_stated(paper):
    """Two arms under a limit: the mixture that keeps it, from 200 rows of each."""
    truth, inside, logs = oracle(paper).reward_rate, 0, 100
    for number in range(logs):
        log = log_of(paper, 200, np.random.default_rng(number))
        draws = Draws.of(log, 40, seed=number)
        found = draws.spread(draws.values(lambda one: oracle(one).reward_rate))
        low, high = found.interval
        inside += low <= truth <= high
    assert 0.88 * logs <= inside <= logs


def test_a_simulated_rows_interval_contains_the_truth_and_the_usual_one_does_not():
    truth, logs = 0.3 * PULLS / 20, 60
    whole, usual = 0, 0
    for number in range(logs):
        rewards = (np.random.default_rng(number).random(50) < 0.3) * 1.0
        problem = Problem([unit_cost_arm("seen", rewards)], limit=0.5)
        draws = Draws.of(problem, 40, seed=number)
        (one,) = sample(draws, [({"fixed": FixedArm(1)}, [20.0])], 400, QUIET)
        rate = split(one.reward / 20.0)
        whole += rate.interval[0] <= truth <= rate.interval[1]
        usual += abs(rate.mean - truth) <= 1.96 * rate.simulation
    assert whole >= 0.87 * logs
    assert usual <= 0.6 * logs


def test_draws_depend_on_the_seed_and_their_number_alone():
    problem = Problem([unit_cost_arm("seen", np.arange(5) / 5)], limit=0.5)

    def weights(draws, seed):
        made = Draws.of(problem, draws, seed).problems()
        return np.array([one.arms[0].cost.weights for one in made])

    assert np.array_equal(weights(3, 7), weights(8, 7)[:3])
    assert not np.array_equal(weights(3, 7), weights(3, 8))
    again = [bootstrap(problem, FixedArm(1), budgets=5, runs=20, seed=3).summary() for _ in "ab"]
    assert again[0] == again[1]


def test_only_arms_with_rows_vary_also_after_changes():
    seen, known = unit_cost_arm("seen", np.arange(5) / 5), Bernoulli(0.5)
    other = Arm("known", known, known, known)
    changed = Change(0.5, [unit_cost_arm("seen", np.arange(4) / 4), other])
    problem = Problem([seen, other], limit=0.9, changes=[changed], name="mixed")
    first, second = Draws.of(problem, 2, seed=1).problems()
    assert first.arms[1] == other == first.changes[0].arms[1]
    assert first.arms[0] != second.arms[0]
    assert first.changes[0].arms[0] != second.changes[0].arms[0]
    found = bootstrap(replace(problem, changes=()), FixedArm(1), budgets=10, runs=20, seed=1)
    assert found.varied == ("seen",)
    assert "Arms with distributions count as known: known." in found.notes


def test_tables_that_do_not_fit_are_made_in_parts(monkeypatch):
    problem = Problem([unit_cost_arm("seen", np.arange(5) / 5)], limit=0.5)
    draws, group, heard = Draws.of(problem, 6, seed=1), [({"fixed": FixedArm(1)}, [20.0])], []
    (whole,) = sample(draws, group, 30, QUIET)
    monkeypatch.setattr(module, "MOST_BYTES", 2 * draws.tables)
    (parts,) = sample(draws, group, 30, SimulationSettings(progress=heard.append))
    assert np.array_equal(whole.reward, parts.reward)
    assert np.array_equal(whole.violation, parts.violation)
    assert heard == sorted(heard)
    assert heard[-1] == pytest.approx(1.0)


def test_the_engines_agree_on_the_draws():
    problem = Problem([unit_cost_arm("seen", np.arange(5) / 5, 0.1)], limit=0.5)
    ways = [
        bootstrap(problem, FixedArm(1), budgets=5, runs=40, draws=8, seed=3, backend=one)
        for one in ("cpu", "python")
    ]
    one, two = (way.rows[0].reward_rate for way in ways)
    assert vars(one) == pytest.approx(vars(two))


def test_a_draws_optimum_is_that_of_its_weights_within_a_pull(paper):
    stream = np.random.default_rng(8)
    arms = [Arm.from_rows(arm.name, 0.2 + 0.8 * stream.random((30, 3))) for arm in paper.arms]
    problem = replace(paper, arms=arms, limit=1.1)
    draws = Draws.of(problem, 4, seed=2)
    found = optima(draws, 40.0)
    known = [exact_optimum(one, 40.0) for one in (problem, *draws.problems())]
    assert found[0] == known[0]
    assert found == pytest.approx(known, abs=1.0)
    assert np.ptp(known) > 4.0, "the draws differ by more than that"


def test_draws_that_cannot_keep_the_limit_are_counted():
    penalties = np.array([0.0] * 9 + [1.0] * 3)
    rows = np.column_stack([np.ones(12), np.full(12, 0.5), penalties])
    problem = Problem([Arm.from_rows("only", rows)], limit=0.26)
    found = bootstrap(problem, FixedArm(1), budgets=20, runs=200, draws=100, seed=1)
    rates = [one.arms[0].penalties[0].mean for one in Draws.of(problem, 100, 1).problems()]
    assert found.infeasible == pytest.approx(np.mean(np.array(rates) > 0.26))
    assert 0.2 < found.infeasible < 0.8
    assert any("no mixture of the arms keeps the limits" in note for note in found.notes)


def test_a_chance_is_wilsons_and_wider_where_draws_differ():
    stream = np.random.default_rng(1)
    alike = stream.random((1, 400)) < 0.2
    low, high = wilson(int(alike.sum()), 400)
    found = Chance.of(alike)
    assert (found.low, found.high) == pytest.approx((float(low), float(high)), abs=2e-4)
    never = Chance.of(np.zeros((5, 20)))
    assert (never.low, never.high) == pytest.approx((0.0, float(wilson(0, 100)[1])))
    apart = np.repeat([[True], [False], [False], [False], [False]], 80, axis=1)
    assert Chance.of(apart).high - Chance.of(apart).low > 4 * (found.high - found.low)


def test_it_is_shown_with_both_parts():
    problem = Problem([unit_cost_arm("seen", np.arange(5) / 5, 0.1)], limits={"<b>": Limit(0.5)})
    found = bootstrap(problem, FixedArm(1), budgets=20, runs=100, seed=1)
    text, html = str(found), found._repr_html_()
    assert "of the simulation" in text
    assert "of the log" in text
    assert "OPT(20)" in text
    assert "50 draws of the Bayesian bootstrap" in html
    assert "<b>" not in html.replace("<p><b>", "")


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"draws": 1}, "draws = 1 must be 0, or a whole number from 2 to 10,000"),
        ({"draws": -3}, "draws = -3 must be 0, or a whole number from 2 to 10,000"),
        ({"draws": 2.5}, "draws = 2.5 must be 0, or a whole number from 2 to 10,000"),
        ({"draws": 10**9}, "draws = 1000000000 must be 0, or a whole number from 2 to 10,000"),
        ({"runs": 1}, "runs = 1 must be at least 2: one run has no interval"),
    ],
)
def test_bad_arguments_are_refused_in_one_line(paper, changed, text):
    with pytest.raises(InputError) as caught:
        bootstrap(paper, FixedArm(1), budgets=10, **changed)
    assert str(caught.value) == text


def test_means_of_draws_are_those_of_their_problems():
    rows = np.random.default_rng(6).random((2, 30, 3))
    seen = [Arm.from_rows(f"arm {k}", rows[k]) for k in range(2)]
    laws = Arm("law", cost=Bernoulli(0.5), reward=Bernoulli(0.2), penalty=Bernoulli(0.1))
    problem = Problem([seen[0], laws, seen[1].weighted(np.arange(1, 31))], limit=0.5)
    draws = Draws.of(problem, 3, seed=4)
    for moments, one in zip(draws.moments(), draws.problems(), strict=True):
        for name in ("cost", "reward", "penalty"):
            assert getattr(moments, name) == pytest.approx(getattr(one.moments, name))


@pytest.mark.parametrize("binding", [False, True])
def test_the_interval_of_the_best_of_equal_arms(binding):
    """For other cases: python -m benchmarks.logs optimum."""
    found = coverage("equal", 12, binding, logs=60)
    assert found.corrected >= 48  # 90 % of them; 47 or fewer have a chance of 1 in 400
    assert abs(found.bias) < 0.7 * found.own_bias
    if not binding:
        assert found.own < 30


def test_the_interval_of_the_best_of_equal_arms_for_each_type():
    """For other cases: python -m benchmarks.logs optimum --types 3."""
    found = coverage("equal", 12, True, logs=20, types=2)
    assert found.corrected >= 15  # 90 % of them; 14 or fewer have a chance of 1 in 400
    assert abs(found.bias) < 0.7 * found.own_bias


def test_types_that_are_all_one_are_corrected_as_none():
    arms = [unit_cost_arm(f"arm {k}", [0.3, 0.5, 0.7 + 0.01 * k] * 20) for k in range(4)]
    plain = best_rate(Draws.of(Problem(arms, limit=0.5), 50, seed=1))
    typed = Problem({"all": arms}, limit=0.5, contexts={"all": 1})
    for one, other in zip(plain, best_rate(Draws.of(typed, 50, seed=1)), strict=True):
        assert (one.mean, one.log) == pytest.approx((other.mean, other.log))


def test_an_arm_that_is_clearly_best_is_not_corrected():
    arms = [unit_cost_arm("good", [0.7, 0.8, 0.9] * 20), unit_cost_arm("poor", [0.1, 0.2] * 30)]
    own, rate = best_rate(Draws.of(Problem(arms, limit=0.5), 50, seed=1))
    assert rate == own
    assert rate.mean == pytest.approx(0.8)
