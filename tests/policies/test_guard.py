"""The guard: its inequalities, its account, and its promise against hostile arms."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tightrope.policies.choice import record
from tightrope.policies.parts.guard import (
    TILTS,
    allows,
    chance_allowed,
    chance_of_breaking,
    move,
    price_of,
    rate_at_least,
    rate_at_most,
    root_tilt,
    settle,
)
from tightrope.statistics import wilson

from .hostile import Game, hostile_runs

shares = st.floats(0.0, 1.0)
RISK = 0.01


# --- the inequalities ---------------------------------------------------------------------


@given(
    st.lists(st.tuples(shares, shares, st.floats(0.01, 1.0)), min_size=1, max_size=6),
    st.floats(0.01, 3.0),
)
def test_the_safe_arm_does_not_raise_the_bound(rows: list, tilt: float) -> None:
    """E exp(lambda Y - kappa X) <= 1 for every joint law of X and Y with E Y = rate E X."""
    cost, penalty, weight = np.array(rows).T
    weight = weight / weight.sum()
    mean_cost = float(weight @ cost)
    if mean_cost < 1e-6:
        return
    rate = float(weight @ penalty) / mean_cost
    tilt = min(tilt, 0.99 * math.log1p(1.0 / max(rate, 1e-9)))
    price = price_of(rate, tilt)
    assert weight @ np.exp(tilt * penalty - price * cost) <= 1.0 + 1e-9


@given(st.floats(0.001, 5.0), st.floats(0.001, 5.0))
def test_the_root_separates_tilts_that_gain_from_those_that_lose(rate: float, limit: float) -> None:
    root = root_tilt(0.0, rate, limit)
    if rate >= limit:
        assert root == pytest.approx(0.0, abs=1e-9)
    elif rate < 0.999 * limit:
        assert price_of(rate, 0.9 * root) < limit * 0.9 * root
        assert price_of(rate, 1.01 * root + 1e-9) > limit * root


@pytest.mark.parametrize("rate", [0.003, 0.4, 2.0])
def test_learnt_rates_hold_at_all_times_at_once(rate: float) -> None:
    """Worst laws: X and Y never come together. The chance that a bound ever fails is ``doubt``."""
    doubt, runs, pulls = 0.1, 250, 1500
    random = np.random.default_rng(4)
    p = 0.9 / (1.0 + rate)
    drawn = random.random((runs, pulls))
    cost = np.cumsum(drawn < p, axis=1)
    penalty = np.cumsum((drawn >= p) & (drawn < p + rate * p), axis=1)
    high, low = np.zeros(runs, bool), np.zeros(runs, bool)
    for at in np.unique(np.geomspace(1, pulls, 25).astype(int)) - 1:
        for run in range(runs):
            x, y = float(cost[run, at]), float(penalty[run, at])
            high[run] |= rate_at_most(0.0, x, y, doubt, 1e6) < rate
            low[run] |= rate_at_least(0.0, x, y, doubt) > rate
    for failed in (high, low):
        assert wilson(int(failed.sum()), runs)[0] <= doubt


@pytest.mark.parametrize("rate", [0.01, 0.3, 0.9])
def test_learnt_rates_per_pull_hold_and_are_closer(rate: float) -> None:
    doubt, runs, pulls = 0.1, 250, 1000
    penalty = np.cumsum(np.random.default_rng(4).random((runs, pulls)) < rate, axis=1)
    high, low = np.zeros(runs, bool), np.zeros(runs, bool)
    for at in np.unique(np.geomspace(1, pulls, 20).astype(int)) - 1:
        for run in range(runs):
            seen = float(at + 1), float(penalty[run, at])
            most, least = rate_at_most(1.0, *seen, doubt, 1.0), rate_at_least(1.0, *seen, doubt)
            high[run] |= most < rate
            low[run] |= least > rate
            assert most <= rate_at_most(0.0, *seen, doubt, 1.0)
    for failed in (high, low):
        assert wilson(int(failed.sum()), runs)[0] <= doubt


def test_learnt_rates_close_in_on_the_rate() -> None:
    for rate in (0.01, 0.5, 3.0):
        known = [rate_at_most(0.0, n, rate * n, 0.005, 1e6) for n in (1e3, 1e4, 1e5)]
        least = [rate_at_least(0.0, n, rate * n, 0.005) for n in (1e3, 1e4, 1e5)]
        assert known[0] > known[1] > known[2] > rate > least[2] > least[1] > least[0]
        assert known[2] < 1.25 * rate
        assert least[2] > 0.75 * rate
    assert rate_at_most(0.0, 0.0, 0.0, 0.005, 0.8) == 0.8
    assert rate_at_least(0.0, 0.0, 0.0, 0.005) == 0.0


# --- what a limit is per ------------------------------------------------------------------

PER = {"cost": 0.0, "pull": 1.0, "half a pull": 0.5, "reward": -1.0}  # what a state has for it
corner = st.sampled_from([0.0, 0.3, 1.0])


def rate_per(base: float, rows: np.ndarray, weight: np.ndarray) -> float:
    """The penalty rate of an arm with these outcomes (cost, penalty, reward)."""
    cost, penalty, reward = weight @ rows
    return float(penalty / (cost if base == 0.0 else reward if base < 0.0 else 1.0))


@given(
    st.sampled_from([*PER]),
    st.lists(st.tuples(corner, corner, corner, st.floats(0.01, 1.0)), min_size=2, max_size=5),
    st.floats(1.02, 4.0),
    st.booleans(),
    st.tuples(st.floats(0.0, 60.0), st.floats(0.0, 25.0)),
)
def test_w_is_no_bet_that_wins_on_average(
    per: str, law: list, room: float, known: bool, left: tuple
) -> None:
    """After a pull of the safe arm, of any law, W is at most what it was on average, and U <= W."""
    base, rows = PER[per], np.array(law)[:, :3]
    weight = np.array(law)[:, 3] / np.array(law)[:, 3].sum()
    if known:
        rows[:, 0] = rows[0, 0] or 1.0
    means = weight @ rows
    if means[0] < 1e-3 or (base < 0.0 and means[2] < 1e-3):
        return
    rate = rate_per(base, rows, weight)
    costs = (rows[0, 0], 1.0) if known else (-1.0, -1.0)
    outcomes = [(1.0, *row) for row in rows.tolist()]
    limit = (max(room * rate, 0.01),)
    game = Game(outcomes, outcomes, limit, (rate,), 60.0, 0.9, bases=(base,), costs=costs)
    after, before = [], 0.0
    for row in rows:
        state, guard = game.fresh()
        state.remaining[:] = left[0], left[1] + (state.limits[0] * left[0] if base else 0.0)
        move(guard, state, state)
        if not guard.made[0]:
            return
        before = chance_allowed(guard, state, 0)
        record(state, 0, np.array([row[0], row[2], row[1]]))
        settle(guard, state, 0)
        after.append(float(guard.spare[0]) + chance_of_breaking(guard, state, 0))
        assert after[-1] >= chance_of_breaking(guard, state, 0) - 1e-12
    assert weight @ np.array(after) <= before + 1e-9


@pytest.mark.parametrize("base", [1.0, -1.0])
def test_no_strategy_breaks_the_promise_more_often(base: float) -> None:
    """All of a short game: the best that an adversary can do who sees everything."""
    rate, risk, budget = 0.1, 0.5, 7.0
    game = Game([], [], (0.5,), (rate,), budget, risk, bases=(base,), costs=(1.0, 1.0))
    safe = [(rate, (1.0, 1.0, 1.0)), (1.0 - rate, (1.0, 1.0, 0.0))]  # chance; X, R, Y
    others = [(1.0, 0.0, 1.0), (0.5, 0.0, 1.0)]
    pulls = [0]

    def after(state, guard, arm: int, outcome: tuple) -> float:
        state, guard = (type(one)(*(part.copy() for part in one)) for one in (state, guard))
        record(state, arm, np.array(outcome))
        settle(guard, state, arm)
        return chance(state, guard)

    def chance(state, guard) -> float:
        """The largest chance, over all strategies, that the promise is made and broken."""
        left, allowance = state.remaining.tolist()
        if left < 0.0:
            return float(guard.made[0] > 0.0 and allowance - state.limits[0] * left < -1e-9)
        best = sum(p * after(state, guard, 0, outcome) for p, outcome in safe)
        if allows(guard, state, 0.0, 1.0):
            pulls[0] += 1
            best = max(best, *(after(state, guard, 1, outcome) for outcome in others))
        return best

    assert 0.0 < chance(*game.fresh()) <= risk
    assert pulls[0] > 10


def test_a_safe_arm_of_known_cost_leaves_more_room() -> None:
    """Per pull at a known cost U is below that of the same limit per unit of cost."""
    for budget in (50.0, 200.0, 1000.0):
        cost = Game([], [], (0.5,), (0.2,), budget).fresh()
        pull = Game([], [], (0.5,), (0.2,), budget, bases=(1.0,), costs=(1.0, 1.0)).fresh()
        assert chance_of_breaking(pull[1], pull[0], 0) < chance_of_breaking(cost[1], cost[0], 0)


def test_per_reward_slack_is_earned_first() -> None:
    state, guard = Game([], [], (0.5,), (0.2,), 1000.0, bases=(-1.0,)).fresh()
    assert chance_of_breaking(guard, state, 0) == 1.0
    earned = 0
    while not allows(guard, state, 0.0, 1.0):
        record(state, 0, np.array([1.0, 1.0, 0.0]))
        settle(guard, state, 0)
        earned += 1
    assert 5 < earned < 60


def test_rates_per_pull_and_per_reward_are_learnt() -> None:
    for base in (1.0, -1.0):
        state, guard = Game([], [], (0.5,), (-1.0,), 3000.0, bases=(base,)).fresh()
        pulls = 0
        while not allows(guard, state, 0.0, 1.0):
            record(state, 0, np.array([0.5, 1.0, 0.2]))
            settle(guard, state, 0)
            pulls += 1
        assert 0.2 < guard.rate[0] < 0.5
        assert pulls < 500


def test_a_rate_may_be_learnt_from_the_last_pulls() -> None:
    for base in (1.0, -1.0):
        state, guard = Game([], [], (0.5,), (-1.0,), 20.0, bases=(base,)).fresh()
        for _ in range(200):  # told late, after the budget is spent
            record(state, 0, np.array([0.9, 1.0, 0.1]))
            settle(guard, state, 0)
        assert guard.rate[0] < 0.5
        assert (guard.tilt > 0.0).all()


def test_another_pull_than_the_guard_allows_ends_the_promise() -> None:
    for base in (0.0, 1.0):
        state, guard = Game([], [], (0.5,), (0.2,), 100.0, bases=(base,)).fresh()
        assert guard.made[0]
        while guard.made[0]:
            record(state, 1, np.array([1.0, 0.0, 1.0]))
            settle(guard, state, 1)
        assert chance_allowed(guard, state, 0) > chance_of_breaking(guard, state, 0) > RISK


def test_a_lower_budget_leaves_w_or_ends_the_promise() -> None:
    for base in (0.0, 1.0, -1.0):
        state, guard = Game([], [], (0.5,), (0.2,), 400.0, bases=(base,)).fresh()
        for _ in range(60):
            record(state, 0, np.array([1.0, 1.0, 0.0]))
            settle(guard, state, 0)
        whole = chance_allowed(guard, state, 0)
        state.remaining[:] -= [40.0, 40.0 * state.limits[0]]
        move(guard, state, state)
        assert guard.made[0]
        assert chance_allowed(guard, state, 0) == pytest.approx(whole, rel=1e-9)


# --- the account --------------------------------------------------------------------------

PAPER = Game(
    safe=[(1.0, 1.0, 0.5)], other=[(1.0, 0.4, 0.6)], limits=(0.8,), rates=(0.5,), budget=1e3
)


def pull(game: Game, state, guard, arm: int, *outcome: float) -> None:
    state.remaining[:] -= outcome
    settle(guard, state, arm)


def test_w_stays_at_other_pulls_and_the_worst_pull_is_covered() -> None:
    state, guard = PAPER.fresh()
    assert chance_allowed(guard, state, 0) == RISK
    for _ in range(5000):
        if not allows(guard, state, 0.0, 1.0):
            break
        pull(PAPER, state, guard, 1, 0.0, 1.0)
        assert chance_allowed(guard, state, 0) == pytest.approx(RISK, rel=1e-9)
        assert chance_of_breaking(guard, state, 0) <= RISK
    assert guard.others[0] > 100
    assert not allows(guard, state, 0.0, 1.0)


@given(
    st.lists(st.tuples(st.booleans(), shares, shares), min_size=1, max_size=60),
    st.sampled_from([(0.5,), (0.65,), (-1.0,)]),
)
def test_the_account_is_the_sum_of_its_bets(pulls: list, rates: tuple) -> None:
    """W, followed step by step with numpy: what the best tilt before each safe pull made of it."""
    game = Game([], [], (0.8,), rates, 100.0)
    state, guard = game.fresh()
    wealth = float(guard.risk[0]) if guard.made[0] else math.nan
    others = 0

    def exponents() -> np.ndarray:
        budget, allowance = state.remaining
        return guard.price * (budget + 1.0) - guard.tilt * allowance

    for wants_other, cost, penalty in pulls:
        other = wants_other and allows(guard, state, 0.0, 1.0)
        before, made = exponents(), bool(guard.made[0])
        pull(game, state, guard, int(other), cost, penalty)
        others += other
        if not made:
            wealth = float(guard.risk[0])
        elif not other:
            at = int(np.argmin(before))
            wealth += math.exp(exponents()[at]) - math.exp(before[at])
        if guard.made[0] and rates[0] >= 0.0:
            assert chance_allowed(guard, state, 0) == pytest.approx(min(wealth, 1.0))
    assert guard.others[0] == others
    assert guard.tilt.size == TILTS


def test_nothing_but_the_safe_arm_before_the_promise_can_be_made() -> None:
    for rates, budget in (((-1.0,), 1000.0), ((0.79,), 100.0)):
        state, guard = Game([], [], (0.8,), rates, budget).fresh()
        assert not allows(guard, state, 0.0, 1.0)
    state, guard = Game([], [], (0.8,), (-1.0,), 1000.0).fresh()
    while not allows(guard, state, 0.0, 1.0):  # it learns that the rate is below the limit
        pull(PAPER, state, guard, 0, 1.0, 0.4)
    assert 0.4 < guard.rate[0] < 0.8
    assert 10 < guard.cost[0] < 500


def test_a_safe_arm_that_never_incurs_anything() -> None:
    state, guard = Game([], [], (0.1,), (0.0,), 100.0).fresh()
    for _ in range(8):
        assert allows(guard, state, 0.0, 1.0)
        pull(PAPER, state, guard, 1, 0.0, 1.0)
    assert state.remaining[1] == pytest.approx(2.0)
    pull(PAPER, state, guard, 1, 0.0, 1.0)
    assert not allows(guard, state, 0.0, 1.0)


def test_nothing_is_allowed_once_a_limit_is_broken() -> None:
    state, guard = PAPER.fresh()
    pull(PAPER, state, guard, 1, 0.0, 1.0)
    for left in (0.0, 10.0):
        state.remaining[:] = left, -1.0
        guard.left[:] = state.remaining
        assert not allows(guard, state, 0.0, 1.0)
        assert chance_allowed(guard, state, 0) == 1.0  # U is


# --- the promise --------------------------------------------------------------------------


def corners(rate: float, busy: float) -> list[tuple[float, ...]]:
    """Cost and penalty are 0 or 1, and never come together: the worst law with this rate."""
    p = busy / (1.0 + rate)
    return [(p * rate, 0.0, 1.0), (p, 1.0, 0.0), (1.0 - busy + 1e-18, 0.0, 0.0)]


def tiny(rate: float, cost: float) -> list[tuple[float, ...]]:
    """Every pull costs next to nothing, and rarely incurs the most there is."""
    return [(rate * cost, cost, 1.0), (1.0 - rate * cost, cost, 0.0)]


def together(rate: float) -> list[tuple[float, ...]]:
    """What incurs a penalty costs, and the other way round."""
    return [(0.5 * min(rate, 1.0), 1.0 / max(rate, 1.0), 1.0), (0.5, 0.0, 0.0)] + (
        [(0.5 * (1.0 - rate), 1.0, 0.0)] if rate < 1.0 else []
    )


WORST, HALF, DEAR = [(1.0, 0.0, 1.0)], [(0.5, 0.0, 1.0), (0.5, 1.0, 0.0)], [(1.0, 1.0, 1.0)]
RUNS = 500  # of each game; the bound over all games is on thousands
PROBLEMS = [(0.8, 0.5), (0.02, 0.01), (0.1, 0.09), (3.0, 1.0)]  # limit, the safe arm's rate


@pytest.mark.parametrize(("limit", "rate"), PROBLEMS)
@pytest.mark.parametrize("declared", [True, False])
def test_the_promise_is_kept_against_hostile_arms(
    limit: float, rate: float, declared: bool
) -> None:
    """Whatever the laws: the promise is made and the limit broken in 1 % of runs at most."""
    broken = left_safe = 0
    safes = [corners(rate, 1.0), corners(rate, 0.6), tiny(rate, 0.4), together(rate)]
    games = list(itertools.product(safes, (WORST, HALF, DEAR)))
    plays = itertools.cycle([(100.0, 1.0), (100.0, 0.1), (200.0, 1.0), (100.0, 1.0), (130.0, 1.0)])
    for seed, ((safe, other), (budget, eager)) in enumerate(zip(games, plays, strict=False)):
        rates = (rate if declared else -1.0,)
        game = Game(safe, other, (limit,), rates, budget, eager=eager)
        others, left, made = hostile_runs(game, RUNS, seed)
        assert not others[~made].any()
        bad = int((made & (left[:, 0] < -1e-9)).sum())
        assert wilson(bad, RUNS)[0] <= RISK, (safe, other, budget, eager, bad)
        broken, left_safe = broken + bad, left_safe + int((others > 0).sum())
    runs = RUNS * len(games)
    assert wilson(broken, runs)[1] <= RISK
    if declared and limit > 0.1:
        assert left_safe > 0.5 * runs  # it is not kept by doing nothing


@pytest.mark.parametrize("delay", [3, 20])
@pytest.mark.parametrize("declared", [True, False])
def test_the_promise_is_kept_with_pulls_in_flight(delay: int, declared: bool) -> None:
    broken = left_safe = runs = 0
    for seed, (limit, rate) in enumerate(PROBLEMS):
        for safe, other in itertools.product([corners(rate, 1.0), tiny(rate, 0.4)], (WORST, HALF)):
            rates = (rate if declared else -1.0,)
            game = Game(safe, other, (limit,), rates, 150.0, delay=delay)
            others, left, made = hostile_runs(game, RUNS, seed)
            bad = int((made & (left[:, 0] < -1e-9)).sum())
            assert wilson(bad, RUNS)[0] <= RISK, (safe, other, bad)
            broken, left_safe = broken + bad, left_safe + int((others > 0).sum())
            runs += RUNS
    assert wilson(broken, runs)[1] <= RISK
    assert left_safe > 0.1 * runs


def rewarding(rate: float, chance: float) -> list[tuple[float, ...]]:
    """Reward and penalty are 0 or 1, and never come together; the cost is 0.4."""
    p = chance / (1.0 + rate)
    return [(p * rate, 0.4, 1.0, 0.0), (p, 0.4, 0.0, 1.0), (1.0 - chance + 1e-18, 0.4, 0.0, 0.0)]


def costly(rate: float) -> list[tuple[float, ...]]:
    """What incurs a penalty costs the most, the rest a tenth."""
    return [(rate, 1.0, 1.0, 1.0), (1.0 - rate, 0.1, 0.0, 1.0)]


def dear(rate: float) -> list[tuple[float, ...]]:
    """Every pull costs the most: as few pulls as there can be."""
    return [(rate, 1.0, 1.0, 1.0), (1.0 - rate, 1.0, 0.0, 1.0)]


PULL_GAMES = [(1.0, (dear, costly, lambda r: tiny(r / 0.4, 0.4)), (0.0, 1.0))]
REWARD_GAMES = [(-1.0, (dear, costly, lambda r: rewarding(r, 0.5)), (0.0,))]


@pytest.mark.parametrize(("limit", "rate"), [(0.5, 0.3), (0.05, 0.03), (0.1, 0.02)])
@pytest.mark.parametrize("declared", [True, False])
@pytest.mark.parametrize(("base", "laws", "reserves"), PULL_GAMES + REWARD_GAMES)
def test_the_promise_is_kept_per_pull_and_per_reward(
    base: float, laws: tuple, reserves: tuple, limit: float, rate: float, declared: bool
) -> None:
    """An adversary who pulls the worst arm; a run may end with less than a reserve left."""
    broken = left_safe = runs = 0
    others = ([(1.0, 1.0, 1.0, 0.0)], [(0.5, 0.0, 1.0, 0.0), (0.5, 1.0, 1.0, 0.0)])
    for seed, (law, other, reserve) in enumerate(itertools.product(laws, others, reserves)):
        rates, budget = (rate if declared else -1.0,), 150.0 if seed % 2 else 400.0
        game = Game(law(rate), other, (limit,), rates, budget, bases=(base,), reserve=reserve)
        pulled, left, made = hostile_runs(game, 500, seed)
        assert not pulled[~made].any()
        bad = int((made & (left[:, 0] < -1e-9)).sum())
        assert wilson(bad, 500)[0] <= RISK, (seed, bad)
        broken, left_safe = broken + bad, left_safe + int((pulled > 0).sum())
        runs += 500
    assert wilson(broken, runs)[0] <= RISK
    if declared and limit == 0.5:
        assert left_safe > 0.5 * runs


@pytest.mark.parametrize("delay", [0, 7])
def test_known_costs_and_pulls_in_flight(delay: int) -> None:
    for seed, (limit, rate) in enumerate([(0.5, 0.3), (0.05, 0.03)]):
        for base, costs in ((1.0, (1.0, 1.0)), (1.0, (0.3, 0.6)), (-1.0, (-1.0, -1.0))):
            cost, other = (0.3, 0.6) if costs == (0.3, 0.6) else (1.0, 1.0)
            safe = [(rate, cost, 1.0, 1.0), (1.0 - rate, cost, 0.0, 1.0)]
            worst = [(1.0, other, 1.0, 0.0)]
            how = {"bases": (base,), "costs": costs, "delay": delay, "reserve": 0.5 * cost}
            game = Game(safe, worst, (limit,), (rate,), 300.0 * cost, **how)
            pulled, left, made = hostile_runs(game, RUNS, seed)
            assert wilson(int((made & (left[:, 0] < -1e-9)).sum()), RUNS)[0] <= RISK
            assert limit < 0.5 or (pulled > 0).mean() > 0.9


def test_limits_per_different_things_are_promised_together() -> None:
    """One limit per unit of cost, one per pull, one per reward."""
    safe = [(0.2, 0.5, 1.0, 0.0, 0.0, 1.0), (0.2, 0.5, 0.0, 1.0, 1.0, 1.0)]
    safe += [(0.6, 0.5, 0.0, 0.0, 0.0, 1.0)]
    other = [(0.5, 0.0, 1.0, 1.0, 1.0, 0.0), (0.5, 1.0, 0.0, 1.0, 0.0, 0.0)]
    limits, rates = (0.8, 0.4, 0.5), (0.4, 0.2, 0.2)
    game = Game(safe, other, limits, rates, 200.0, risk=0.05, bases=(0.0, 0.5, -0.5))
    pulled, left, made = hostile_runs(game, 2000)
    assert (pulled > 0).mean() > 0.9
    assert wilson(int((made & (left < -1e-9).any(axis=1)).sum()), 2000)[0] <= 0.05


def test_the_promise_is_not_for_a_false_declaration() -> None:
    for base in (0.0, 1.0):
        safe = corners(0.75, 1.0) if base == 0.0 else [(0.75, 1.0, 1.0), (0.25, 1.0, 0.0)]
        game = Game(safe, DEAR if base else WORST, (0.8,), (0.4,), 200.0, bases=(base,))
        _, left, made = hostile_runs(game, 1000)
        assert wilson(int((made & (left[:, 0] < 0)).sum()), 1000)[0] > RISK


def test_the_promise_covers_all_limits_together() -> None:
    """Two limits, penalties that come one after the other; each gets half of the risk."""
    safe = [(0.2, 0.0, 1.0, 0.0), (0.2, 0.0, 0.0, 1.0), (0.5, 1.0, 0.0, 0.0), (0.1, 0.0, 0.0, 0.0)]
    other = [(0.5, 0.0, 1.0, 1.0), (0.5, 1.0, 0.0, 1.0)]
    game = Game(safe, other, (0.8, 0.6), (0.4, 0.4), 200.0, risk=0.05)
    others, left, _ = hostile_runs(game, 4000)
    assert (others > 0).mean() > 0.9
    assert wilson(int((left < -1e-9).any(axis=1).sum()), 4000)[0] <= 0.05
