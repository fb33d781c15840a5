"""Arms that change: phases, TOML, what is refused, the optimum, and the arena's two problems."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Sequence
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog

from tests.conftest import bernoulli_problem
from tightrope.errors import InfeasibleError, PolicyError, ProblemError
from tightrope.optimum.exact import optimum
from tightrope.optimum.pi_star import best_arms, best_phases, least_excess, oracle, oracle_of_phases
from tightrope.policies import FixedArm, LyOff, Stationary
from tightrope.problem import Arm, Change, Phase, Problem, Scales
from tightrope.problem.distributions import Bernoulli, TwoPoint, Uniform
from tightrope.problem.mixtures import conflict
from tightrope.problem.ready import ready_problem
from tightrope.theory.bounds import bounds

Odds = Sequence[tuple[float, ...]]

COIN = Bernoulli(0.5)
BEFORE = [(0.4, 0.8, 0.6), (0.6, 0.6, 0.3)]
AFTER = [(0.5, 0.2, 0.3), (0.7, 0.7, 0.6)]
TOML = """\
limit = 0.8

[[arms]]
name = "bold"
cost = { bernoulli = 0.4 }
reward = { bernoulli = 0.8 }
penalty = { bernoulli = 0.6 }

[[changes]]
at = 0.5

[[changes.arms]]
name = "bold"
cost = { bernoulli = 0.4 }
reward = { bernoulli = 0.2 }
penalty = { bernoulli = 0.6 }

[[changes]]
at = 0.7

[[changes.arms]]
name = "bold"
rows = [[1.0, 0.5, 0.0],
        [0.2, 0.1, 1.0]]
"""


def coins(odds: Odds) -> Sequence[Arm]:
    return bernoulli_problem(list(odds), [1.0] * (len(odds[0]) - 2)).arms


def changing(limit: object, before: Odds, *later: tuple[float, Odds], name: str = "") -> Problem:
    """Bernoulli arms from their means, and from a share of the budget on other means."""
    changes = [Change(at, coins(odds)) for at, odds in later]
    return Problem(coins(before), limit=limit, name=name, changes=changes)  # type: ignore[arg-type]


# --- phases and TOML ----------------------------------------------------------------------


def test_phases_are_problems_of_their_own() -> None:
    problem = changing(0.8, BEFORE, (0.25, AFTER), (0.75, BEFORE), name="x")
    assert [(phase.start, phase.share) for phase in problem.phases] == [
        (0.0, 0.25),
        (0.25, 0.5),
        (0.75, 0.25),
    ]
    start = Problem(coins(BEFORE), limit=0.8, name="x")
    assert [phase.problem for phase in problem.phases] == [
        start,
        Problem(coins(AFTER), limit=0.8, name="x"),
        start,
    ]
    assert all(not phase.problem.changes for phase in problem.phases)
    np.testing.assert_array_equal(problem.bernoulli(), start.bernoulli())
    np.testing.assert_array_equal(problem.moments.reward, start.moments.reward)
    np.testing.assert_array_equal(problem.tables().split, start.tables().split)


def test_arms_that_do_not_change_have_one_phase(paper: Problem) -> None:
    assert paper.changes == ()
    assert paper.phases == (Phase(0.0, 1.0, paper),)
    assert paper.phases[0].problem is paper


def test_changes_make_a_different_problem() -> None:
    problem = changing(0.8, BEFORE, (0.5, AFTER))
    same = changing(0.8, BEFORE, (0.5, AFTER))
    assert (problem, hash(problem)) == (same, hash(same))
    assert problem != changing(0.8, BEFORE)
    assert problem != changing(0.8, BEFORE, (0.6, AFTER))
    assert pickle.loads(pickle.dumps(problem)) == problem
    assert pickle.loads(pickle.dumps(problem)).phases == problem.phases


def test_many_coins_can_change() -> None:
    before, after = (
        Problem.from_bernoulli(*np.array(odds).T, limit=0.8) for odds in (BEFORE, AFTER)
    )
    problem = Problem(before.arms, limit=0.8, changes=[Change(0.5, after.arms)])
    assert problem == changing(0.8, BEFORE, (0.5, AFTER))
    assert problem.phases[1].problem.arms is after.arms
    assert Problem.from_toml(problem.to_toml()) == problem


def test_toml_of_changes_reads_and_writes() -> None:
    problem = Problem.from_toml(TOML)
    assert problem.to_toml() == TOML
    assert [change.at for change in problem.changes] == [0.5, 0.7]
    assert problem.changes[1].arms == (Arm.from_rows("bold", [(1.0, 0.5, 0.0), (0.2, 0.1, 1.0)]),)


BAD_TOML = [
    (
        "changes = 3\n" + TOML[: TOML.index("[[changes]]")],
        "changes = 3: must be [[changes]] tables",
    ),
    (
        TOML.replace("at = 0.7", "att = 0.7"),
        "change 2: unknown key 'att'; did you mean 'at'?",
    ),
    (TOML.replace("at = 0.7\n", ""), "change 2: has arms; must have at and arms"),
    (
        TOML.replace("at = 0.7", "at = 0.5"),
        "change 2: at = 0.5: must be above 0.5, the value of change 1",
    ),
    (
        TOML.replace("0.7", "1.0"),
        "change 2: at = 1.0: must be a share of the budget, between 0 and 1",
    ),
    (TOML.replace("0.7", "'x'"), "change 2: at = 'x': must be a finite number"),
    (
        TOML.replace("0.2", "1.2", 1),
        "change 1 (at 0.5), arm 'bold', reward: bernoulli p = 1.2: must lie in [0, 1]",
    ),
    (
        TOML.replace("[1.0, 0.5, 0.0]", "[9.0, 0.5, 0.0]"),
        "change 2 (at 0.7), arm 'bold', cost: outcome 9.0 must lie in [0, 1.0];"
        " declare a scale of cost of at least 9.0",
    ),
    (
        TOML.replace("rows", "row"),
        "change 2 (at 0.7), arm 1: unknown key 'row'; did you mean 'rows'?",
    ),
    (
        "[[arms]]\nrows = [[1, 1]]\n[[changes]]\nat = 0.5\narms = 3",
        "change 1 (at 0.5), arms = 3: must be [[changes.arms]] tables",
    ),
]
BAD = [
    (
        lambda: Change(0, [Arm("a", COIN, COIN)]),
        "at = 0.0: must be a share of the budget, between 0 and 1",
    ),
    (lambda: Change(0.5, 3), "arms = 3: must be a list of arms"),
    (lambda: Problem([Arm("a", COIN, COIN)], changes=3), "changes = 3: must be a list of changes"),
    (lambda: Problem([Arm("a", COIN, COIN)], changes=[0.5]), "change 1: 0.5 must be a Change"),
    (
        lambda: Problem([Arm("a", COIN, COIN)], changes=[Change(0.5, [COIN])]),
        "change 1 (at 0.5), arm 1: Bernoulli(p=0.5) must be an Arm",
    ),
    (
        lambda: Problem([Arm("a", COIN, COIN)], changes=[Change(0.5, [])]),
        "change 1 (at 0.5), arms = 0: must be 1, as many as at the start",
    ),
    (
        lambda: Problem([Arm("a", COIN, COIN)], changes=[Change(0.5, [Arm("b", COIN, COIN)])]),
        "change 1 (at 0.5), arm 1: name 'b' must be 'a', as at the start",
    ),
    (
        lambda: Problem(
            [Arm("a", COIN, COIN)], changes=[Change(0.5, [Arm("a", COIN, COIN, COIN)])]
        ),
        "change 1 (at 0.5), arm 'a': penalties = 1, limits = 0; must be equal",
    ),
]


@pytest.mark.parametrize(("text", "message"), BAD_TOML, ids=[m for _, m in BAD_TOML])
def test_bad_toml_is_named_in_one_line(text: str, message: str) -> None:
    with pytest.raises(ProblemError) as caught:
        Problem.from_toml(text)
    assert str(caught.value) == message


@pytest.mark.parametrize(("make", "message"), BAD, ids=[message for _, message in BAD])
def test_bad_changes_are_named_in_one_line(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ProblemError) as caught:
        make()
    assert str(caught.value) == message


# --- who needs arms that do not change ----------------------------------------------------


def test_the_oracle_says_what_to_take_instead() -> None:
    with pytest.raises(ProblemError) as caught:
        oracle(changing(0.8, BEFORE, (0.5, AFTER), name="x"))
    assert str(caught.value) == (
        "oracle: the best stationary policy is defined for arms that do not change;"
        " problem 'x' changes; use optimum(problem, budget), or oracle(phase.problem) for each of"
        " problem.phases"
    )


def test_the_bounds_are_for_arms_that_stay() -> None:
    with pytest.raises(ProblemError) as caught:
        bounds(changing(0.8, BEFORE, (0.5, AFTER)), 1000)
    assert str(caught.value) == (
        "the paper's bounds are for arms that do not change; the problem changes"
    )


def test_policies_that_know_the_means_refuse() -> None:
    problem = changing(0.8, BEFORE, (0.5, AFTER), name="x")
    with pytest.raises(PolicyError) as caught:
        LyOff().setup(problem, 100.0)
    assert str(caught.value) == (
        "policy lyoff: knows the means of arms that do not change; problem 'x' changes"
    )
    with pytest.raises(PolicyError, match=r"^policy stationary: .* 'x' changes; state the shares$"):
        Stationary().setup(problem, 100.0)
    assert Stationary((0.5, 0.5)).setup(problem, 100.0).terms is not None
    assert FixedArm(2).setup(problem, 100.0).terms is not None


# --- the best mixtures of the phases ------------------------------------------------------


def test_one_phase_is_the_oracle(paper: Problem) -> None:
    found = best_phases(paper, [10.0])
    assert found is not None
    best = best_arms(paper)
    assert found.reward == pytest.approx(10 * best.reward, rel=1e-12)
    np.testing.assert_allclose(found.shares, [oracle(paper).cost_share], atol=1e-9)
    np.testing.assert_allclose(found.multiplier, best.multiplier)
    excess, prices = least_excess(paper, [10.0])
    expected = conflict(paper.moments.penalty_rate, paper.moments.limits)
    assert excess == pytest.approx(expected.excess)
    np.testing.assert_allclose(prices, expected.prices / 10)


def test_penalty_is_spent_where_it_earns_most() -> None:
    """Slopes 1 and 3: the second phase takes all that the first can do without."""
    problem = changing(
        0.5, [(1.0, 0.6, 0.7), (1.0, 0.0, 0.1)], (0.5, [(1.0, 0.9, 0.4), (1.0, 0.0, 0.1)])
    )
    found = best_phases(problem, [1.0, 1.0])
    assert found is not None
    np.testing.assert_allclose(found.shares, [[5 / 6, 1 / 6], [1, 0]], atol=1e-9)
    assert found.reward == pytest.approx(0.5 + 0.9)
    np.testing.assert_allclose(found.multiplier, [1.0])


def test_the_oracle_of_the_phases_is_the_best_of_each_in_the_users_units() -> None:
    """Dollars of cost up to 5: the optimum per dollar is what the phases earn together."""

    def arms(odds: Odds) -> list[Arm]:
        return [
            Arm(name, TwoPoint(0.0, 5.0, p=cost), Bernoulli(reward), Bernoulli(penalty))
            for name, (cost, reward, penalty) in zip("ab", odds, strict=True)
        ]

    dollars = Problem(
        arms(BEFORE), limit=0.16, scales=Scales(cost=5.0), changes=[Change(0.25, arms(AFTER))]
    )
    first, second = best = oracle_of_phases(dollars)
    reward = 0.25 * first.reward_rate + 0.75 * second.reward_rate
    assert reward == pytest.approx(optimum(dollars, 5e6) / 5e6, rel=1e-5)
    penalty = 0.25 * first.penalty_rate[0] + 0.75 * second.penalty_rate[0]
    assert penalty == pytest.approx(0.16)
    assert first.multiplier == second.multiplier
    for one in best:
        assert one.cost_share.sum() == pytest.approx(1.0)
        assert one.pull_share.sum() == pytest.approx(1.0)


def test_the_oracle_of_phases_that_break_the_limit_says_so() -> None:
    hard = changing(0.6, [(0.5, 0.5, 0.4)], (0.5, [(0.5, 0.5, 0.3)]))
    with pytest.raises(InfeasibleError, match=r"limit = 0.6: must be .* 1.16667 times the limits"):
        oracle_of_phases(hard)


def test_the_shell_shows_the_best_of_each_phase(shell: Any) -> None:
    status, text, _ = shell("oracle", "arena-abrupt", "--budget", "1000")
    assert status == 0
    assert "the best of each phase of arena-abrupt" in text
    assert "optimum at budget 1,000: 1,275.45" in text
    _, text, _ = shell("oracle", "arena-abrupt", "--json")
    told = json.loads(text)
    assert [phase["start"] for phase in told["phases"]] == [0.0, 0.5]
    assert told["reward_rate"] == pytest.approx(1.275)
    assert told["penalty_rate"] == pytest.approx(0.8)


def test_least_excess_adds_up_the_most_careful_arms() -> None:
    problem = changing(0.8, BEFORE, (0.5, AFTER))
    careful = [phase.problem.moments.penalty_rate.min() for phase in problem.phases]
    excess, _ = least_excess(problem, [2.0, 3.0], [1.5])
    assert excess == pytest.approx((2 * careful[0] + 3 * careful[1]) / 1.5)
    tight = excess * 1.5
    assert best_phases(problem, [2.0, 3.0], [tight * (1 - 1e-6)]) is None
    assert best_phases(problem, [2.0, 3.0], [tight * (1 + 1e-6)]) is not None


def test_without_limits_each_phase_takes_its_best_arm() -> None:
    problem = changing((), [row[:2] for row in BEFORE], (0.5, [row[:2] for row in AFTER]))
    found = best_phases(problem, [1.0, 1.0])
    assert found is not None
    assert found.reward == pytest.approx(2 + 1)
    assert least_excess(problem, [1.0, 1.0])[0] == 0.0


# --- the optimum --------------------------------------------------------------------------


def by_corners(problem: Problem, budget: int) -> float:
    """All policies that choose by the cost spent, by the renewal equation, and their best mixture.

    With i spent, arm k gives V(i) = E[outcome] + E[X] V(i + 1) + (1 - E[X]) V(i).
    """
    arms = []
    for spent in range(budget + 1):
        phase = [one for one in problem.phases if one.start * budget <= spent + 1e-9][-1]
        arms.append(phase.problem.bernoulli())
    corners = []
    for choice in product(range(problem.arm_count), repeat=budget + 1):
        value = np.zeros(1 + problem.penalty_count)
        for odds, k in zip(arms[::-1], choice, strict=True):
            cost, *outcomes = odds[k]
            value = (np.array(outcomes) + cost * value) / (1 - (1 - cost))
        corners.append(value)
    reward, *penalties = np.array(corners).T
    result = linprog(
        -reward,
        A_ub=np.array(penalties),
        b_ub=np.array(problem.limits) * budget,
        A_eq=np.ones((1, len(reward))),
        b_eq=[1.0],
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    assert result.success
    return -float(result.fun)


@pytest.mark.parametrize("budget", [2, 3, 4])
@pytest.mark.parametrize("at", [0.2, 1 / 3, 0.5, 0.75, 0.99])
def test_agrees_with_all_policies_by_enumeration(budget: int, at: float) -> None:
    problem = changing(1.2, BEFORE, (at, AFTER))
    assert optimum(problem, budget) == pytest.approx(by_corners(problem, budget), abs=1e-9)


def test_agrees_by_enumeration_with_two_limits_and_three_phases() -> None:
    before = [(0.4, 0.8, 0.6, 0.1), (0.6, 0.6, 0.3, 0.6)]
    after = [(0.5, 0.2, 0.3, 0.5), (0.7, 0.7, 0.6, 0.2)]
    problem = changing((1.3, 0.9), before, (0.3, after), (0.6, before))
    assert optimum(problem, 4) == pytest.approx(by_corners(problem, 4), abs=1e-9)


@pytest.mark.parametrize("budget", [2.0, 7.3, 100.0, 1e4])
def test_changing_to_the_same_arms_changes_nothing(budget: float) -> None:
    same = changing(0.8, BEFORE, (0.07, BEFORE), (0.5, BEFORE), (0.7, BEFORE))
    expected = optimum(changing(0.8, BEFORE), budget)
    assert optimum(same, budget) == pytest.approx(expected, rel=1e-9)


def test_a_level_at_the_change_is_the_later_phases() -> None:
    """0.07 * 100 is a little above 7 in floats: level 7 still sees the new arms."""
    problem = changing((), [(1.0, 0.0)], (0.07, [(1.0, 1.0)]))
    assert optimum(problem, 100) == pytest.approx(94)
    assert optimum(problem, 100.5) == pytest.approx(93)


def test_costs_in_other_units() -> None:
    def dollars(odds: Odds) -> list[Arm]:
        return [
            Arm(f"arm {k}", TwoPoint(0, 50, x), TwoPoint(0, 8, r), TwoPoint(0, 3, y))
            for k, (x, r, y) in enumerate(odds)
        ]

    scales = Scales(cost=50.0, reward=8.0, penalty=3.0)
    problem = Problem(dollars(BEFORE), 0.8 * 3 / 50, scales, changes=[Change(0.4, dollars(AFTER))])
    expected = 8 * optimum(changing(0.8, BEFORE, (0.4, AFTER)), 60)
    assert optimum(problem, 50 * 60) == pytest.approx(expected, rel=1e-9)


def test_other_costs_are_a_fluid() -> None:
    """Near the exact optimum where the arms stay the same; a pull's worth a phase away from it."""
    arms = [
        Arm("a", Uniform(0.0, 0.8), Bernoulli(0.8), Bernoulli(0.6)),
        Arm("b", Uniform(0.2, 1.0), Bernoulli(0.6), Bernoulli(0.3)),
    ]
    still, same = Problem(arms, 0.8), Problem(arms, 0.8, changes=[Change(0.5, arms)])
    assert optimum(same, 500) == pytest.approx(500 * oracle(still).reward_rate, rel=1e-9)
    assert abs(optimum(same, 500) - optimum(still, 500)) < 2


def test_a_phase_that_breaks_the_limit_can_be_paid_for_by_another() -> None:
    problem = changing(0.55, BEFORE, (0.8, AFTER))
    with pytest.raises(InfeasibleError):
        oracle(problem.phases[1].problem)
    assert optimum(problem, 1000) > 0


def test_limits_that_no_policy_keeps_are_named() -> None:
    problem = changing(0.5, BEFORE, (0.5, AFTER))
    with pytest.raises(InfeasibleError) as caught:
        optimum(problem, 1000)
    assert str(caught.value) == (
        "budget = 1000.0 with limit = 0.5: must be such that some policy keeps the expected"
        " penalty within limit times budget; the least possible is 1.1012 times that"
    )


def simulated(problem: Problem, pulls: np.ndarray, budget: float, runs: int) -> np.ndarray:
    """Total reward and penalty [runs, 2] of pulling with the shares [J, K] of the phases."""
    random = np.random.default_rng(7)
    odds = np.array([phase.problem.bernoulli() for phase in problem.phases])
    starts = np.array([phase.start for phase in problem.phases]) * budget
    totals = np.zeros((runs, 3))
    while (running := np.flatnonzero(totals[:, 0] <= budget)).size:
        phase = np.searchsorted(starts, totals[running, 0], side="right") - 1
        arm = (random.random((running.size, 1)) > pulls.cumsum(axis=1)[phase][:, :-1]).sum(axis=1)
        totals[running] += random.random((running.size, 3)) < odds[phase, arm]
    return totals[:, 1:]


def test_the_best_mixtures_of_the_phases_earn_it_and_no_more() -> None:
    problem, budget, runs = ready_problem("arena-abrupt"), 60.0, 4000
    found = best_phases(problem, [30.0, 31.0], [0.8 * budget])
    assert found is not None
    pulls = found.shares / [phase.problem.moments.cost for phase in problem.phases]
    totals = simulated(problem, pulls / pulls.sum(axis=1, keepdims=True), budget, runs)
    error = totals.std(axis=0) / runs**0.5
    expected = np.array([optimum(problem, budget), 0.8 * budget])
    assert np.all(np.abs(totals.mean(axis=0) - expected) < 4 * error)


# --- the arena's problems -----------------------------------------------------------------


def kept_mixture(problem: Problem) -> np.ndarray:
    """Reward and penalty rate [J, 2] of the first phase's pi* in every phase."""
    shares, rates = oracle(problem.phases[0].problem).pull_share, []
    for phase in problem.phases:
        moments = phase.problem.moments
        rates.append([shares @ moments.reward, shares @ moments.penalty[:, 0]])
        rates[-1] = [total / (shares @ moments.cost) for total in rates[-1]]
    return np.array(rates)


def pairs(problem: Problem) -> list[tuple[int, ...]]:
    """The arms that pi* mixes in each phase, from 1."""
    found = [np.flatnonzero(oracle(phase.problem).cost_share) + 1 for phase in problem.phases]
    return [tuple(members.tolist()) for members in found]


@pytest.mark.parametrize("name", ["arena-abrupt", "arena-drift"])
def test_the_limit_binds_and_can_be_kept_in_every_phase(name: str) -> None:
    problem = ready_problem(name)
    assert problem.limits == (0.8,)
    for phase in problem.phases:
        moments = phase.problem.moments
        assert moments.penalty_rate.min() <= 0.7 * 0.8
        assert moments.cost.min() >= 0.4
        assert moments.cost.max() <= 0.7
        assert oracle(phase.problem).multiplier[0] > 0.5
    assert all(len(members) == 2 for members in pairs(problem))


@pytest.mark.parametrize(("name", "loss"), [("arena-abrupt", 0.3), ("arena-drift", 0.2)])
def test_who_never_notices_loses_a_lot(name: str, loss: float) -> None:
    problem, budget = ready_problem(name), 1000
    shares = np.array([phase.share for phase in problem.phases])
    earned, _ = shares @ kept_mixture(problem)
    assert earned * budget < (1 - loss) * optimum(problem, budget)


def test_abrupt_turns_everything_round() -> None:
    problem = ready_problem("arena-abrupt")
    before, after = (phase.problem.moments for phase in problem.phases)
    assert pairs(problem) == [(1, 2), (3, 4)]
    assert before.reward_rate.argmax() == 0
    assert after.reward_rate[0] < 0.3 * before.reward_rate[0]
    assert before.reward_rate.argmin() == 2
    assert after.reward_rate.argmax() == 2
    assert (before.penalty_rate.argmin(), after.penalty_rate.argmin()) == (1, 3)
    rates = kept_mixture(problem)
    assert rates[0, 1] == pytest.approx(0.8)
    assert rates[1, 1] > 1.3 * 0.8
    each = [oracle(phase.problem).reward_rate for phase in problem.phases]
    assert optimum(problem, 1000) == pytest.approx(1000 * np.mean(each), rel=1e-3)


def test_drift_is_slow_and_its_best_arms_cross() -> None:
    problem = ready_problem("arena-drift")
    assert len(problem.changes) == 40
    best = pairs(problem)
    runs = [members for members, then in pairwise(best) if members != then] + best[-1:]
    assert runs == [(1, 3), (2, 3), (2, 4), (1, 4)]
    odds = np.array([phase.problem.bernoulli() for phase in problem.phases])
    assert np.abs(np.diff(odds, axis=0)).max() < 0.06
    np.testing.assert_array_equal(odds, odds.round(3))
    rates = [oracle(phase.problem).reward_rate for phase in problem.phases]
    assert max(rates) < 1.1 * min(rates)
