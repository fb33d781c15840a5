"""The linear program of a step, against the oracle, scipy's solver and its own compiled form."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.optimize import linprog

from tests.policies.driver import new_record
from tightrope.compiled.functions import compile_function, compile_kernel
from tightrope.policies.parts.mixture import (
    Program,
    best_pair,
    pick,
    pick_of_pair,
    rate_of,
    rate_of_pair,
    solve_program,
)
from tightrope.problem.mixtures import best_mixture as envelope

NUMBERS = st.one_of(
    st.sampled_from([0.0, 0.25, 0.5, 1.0, 2.0]),  # ties, duplicates, zeros
    st.floats(0.001, 4.0, allow_nan=False),
)


@st.composite
def programs(draw, least=0):
    """Rewards [K], penalties [K, M] and limits [M]."""
    limited = draw(st.integers(least, 3))
    count = draw(st.integers(1, 8))
    rows = [[draw(NUMBERS) for _ in range(1 + limited)] for _ in range(count)]
    rows += draw(st.lists(st.sampled_from(rows), max_size=3))  # duplicates
    table = np.array(rows)
    bounds = [draw(st.sampled_from([0.05, 0.5, 1.0, 1.7])) for _ in range(limited)]
    return table[:, 0], table[:, 1:], np.array(bounds)


def new_program(limits):
    return new_record(Program, 0, len(limits))


def solve(reward, penalty, limits):
    """Whether the limits can be kept, and the shares [K]."""
    program, shares = new_program(limits), np.zeros(len(reward))
    kept = solve_program(reward, penalty.ravel(), limits, program)
    for share, arm in zip(*program.mixture, strict=True):
        if 0 <= arm < len(reward):
            shares[int(arm)] += share
    return bool(kept), shares


def scipys(reward, penalty, limits):
    result = linprog(
        -reward,
        A_ub=penalty.T if len(limits) else None,
        b_ub=limits if len(limits) else None,
        A_eq=np.ones((1, len(reward))),
        b_eq=[1.0],
    )
    return None if result.status == 2 else -result.fun


@lru_cache
def compiled():
    """The program and the pick after it as machine code, found on the disk the next time."""
    solver, picker = (compile_function(function) for function in (solve_program, pick))

    def solve_and_pick(reward, penalty, limits, program, costs, coin):
        kept = solver(reward, penalty, limits, program)
        return kept, picker(program.mixture, costs, coin)

    return compile_kernel(solve_and_pick)


def excess(penalty, limits):
    """A mixture's largest penalty relative to its limit, at its least: again a program."""
    count = len(penalty)
    result = linprog(
        np.append(np.zeros(count), 1.0),
        A_ub=np.column_stack([(penalty / limits).T, -np.ones(len(limits))]),
        b_ub=np.zeros(len(limits)),
        A_eq=np.append(np.ones(count), 0.0)[None],
        b_eq=[1.0],
    )
    return result.fun


def clear(penalty, limits):
    """Whether rounding cannot decide if the limits can be kept."""
    return not len(limits) or abs(excess(penalty, limits) - 1.0) > 1e-7


@given(programs())
def test_it_finds_what_scipy_finds(program):
    reward, penalty, limits = program
    assume(clear(penalty, limits))
    kept, shares = solve(*program)
    best = scipys(*program)
    assert kept == (best is not None)
    if kept:
        assert shares.sum() == pytest.approx(1.0, abs=1e-9)
        assert shares @ reward == pytest.approx(best, abs=1e-7)
        assert np.all(shares @ penalty <= limits + 1e-9)


@given(programs())
def test_it_finds_what_the_oracle_finds(program):
    reward, penalty, limits = program
    assume(clear(penalty, limits))
    kept, shares = solve(*program)
    best = envelope(*program)
    assert kept == (best is not None)
    if best is not None:
        assert shares @ reward == pytest.approx(best.reward, abs=1e-7)


@given(programs(least=1))
def test_its_prices_prove_it(program):
    """Weak duality: at these prices no arm is worth more than the mixture, limits included."""
    reward, penalty, limits = program
    assume(clear(penalty, limits))
    found = new_program(limits)
    assume(solve_program(reward, penalty.ravel(), limits, found))
    prices = found.prices[:-1]
    assert np.all(prices >= -1e-8)
    assert (reward - penalty @ prices).max() + limits @ prices == pytest.approx(
        scipys(*program), abs=1e-6
    )


@given(programs(least=1))
def test_where_no_mixture_keeps_the_limits_it_violates_least(program):
    _, penalty, limits = program
    least = excess(penalty, limits)
    assume(least > 1.0 + 1e-7)
    kept, shares = solve(*program)
    assert not kept
    assert 0.0 < shares.sum() < 1.0
    found = (shares / shares.sum() @ penalty / limits).max()
    assert found == pytest.approx(least, rel=1e-6)


@given(programs())
def test_no_more_arms_than_limits_and_one_have_a_share(program):
    _, shares = solve(*program)
    assert np.count_nonzero(shares) <= len(program[2]) + 1
    assert np.all(shares >= 0.0)


@given(programs(), st.floats(0.0, 1.0, exclude_max=True))
def test_compiled_it_reaches_the_same_bits(program, coin):
    reward, penalty, limits = program
    costs = 0.1 + reward
    plain, machine = new_program(limits), new_program(limits)
    kept = solve_program(reward, penalty.ravel(), limits, plain)
    picked = pick(plain.mixture, costs, coin)
    found = compiled()(reward.copy(), penalty.ravel(), limits, machine, costs, coin)
    assert found == (kept, picked)
    for one, other in zip(
        (*plain.mixture, *plain[1:]), (*machine.mixture, *machine[1:]), strict=True
    ):
        np.testing.assert_array_equal(one, other)


def test_arms_are_picked_by_shares_of_pulls():
    program, costs = new_program([1.0]), np.array([0.25, 0.5])
    solve_program(np.array([2.0, 1.0]), np.array([1.5, 0.5]), np.array([1.0]), program)
    coins = (np.arange(1000) + 0.5) / 1000
    picked = [pick(program.mixture, costs, coin) for coin in coins]
    assert np.mean(picked) == pytest.approx((0.5 / 0.5) / (0.5 / 0.25 + 0.5 / 0.5), abs=0.002)


@given(programs(least=1), st.floats(0.0, 1.0, exclude_max=True))
def test_a_pair_is_a_mixture(program, coin):
    reward, penalty, limits = program
    costs, found = 0.1 + reward, new_program(limits[:1])
    solve_program(reward, penalty[:, 0].copy(), limits[:1], found)
    pair = best_pair(reward, penalty[:, 0].copy(), limits[0])
    assert pick_of_pair(pair, costs, coin) == pick(found.mixture, costs, coin)
    alone = pair.second < 0  # then its share, which may be below 1, does not matter
    rate = costs[pair.first] if alone else rate_of(found.mixture, costs, 0)
    assert rate_of_pair(pair, costs) == rate
