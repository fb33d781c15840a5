"""Parameters, schedules, words of the shell, and the shape that every policy has."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import bernoulli_problem
from tightrope import LyOff, LyOn, Resolve, Stationary, oracle, parse_policy, ready_problem
from tightrope.errors import PolicyError
from tightrope.policies import (
    POLICIES,
    ControlBudget,
    FixedArm,
    OptPessLP,
    PessimisticOptimistic,
    UCBBwI,
    UniformRandom,
)
from tightrope.policies.base import IndexPolicy, InformedPolicy, Statistics, advance, set_up
from tightrope.policies.choice import ChoicePolicy
from tightrope.policies.rivals.pessimistic_optimistic import slack_of
from tightrope.policies.state import State, field_sizes, field_starts, record_maker, record_text
from tightrope.problem import Task


def test_schedules_are_the_papers(paper):
    budget = 10_000.0
    off, on = (
        LyOff(v0=2, delta0=3).setup(paper, budget),
        LyOn(v0=2, delta0=3).setup(paper.task, budget),
    )
    assert off.constants[0] == pytest.approx(2 * 100)
    assert off.allowance == pytest.approx((0.8 - 3 / 100,))
    assert on.constants[0] == pytest.approx(2 * math.sqrt(budget * math.log(budget)))
    assert on.allowance == pytest.approx((0.8 - 3 * math.sqrt(math.log(budget) / budget),))
    assert on.explore == math.ceil(math.log(2 * budget / 0.4))
    assert off.explore == 0


@pytest.mark.parametrize("policy", [LyOff(v=7, delta=0.1), LyOn(v=7, delta=0.1)])
def test_plain_numbers_override_the_schedules(paper, policy):
    setup = set_up(policy, paper, 500.0)
    assert setup.constants[0] == 7
    assert setup.allowance == pytest.approx((0.7,))


def test_mu_min_and_beta0_set_the_exploration(paper):
    assert LyOn(mu_min=0.1).setup(paper.task, 500.0).explore == math.ceil(math.log(2 * 500 / 0.1))
    assert LyOn(beta0=3.0).setup(paper.task, 500.0).explore == math.ceil(
        3 * math.log(2 * 500 / 0.4)
    )
    assert LyOn(beta0=0.0).setup(paper.task, 500.0).explore == 0


UNKNOWN = Task(["a", "b"], limit=0.8)  # nothing is declared


def test_what_nobody_declared_has_a_default():
    assert UNKNOWN.smallest_cost is UNKNOWN.slack is None
    for policy in (LyOn, UCBBwI):
        assert policy().setup(UNKNOWN, 500.0).explore == math.ceil(math.log(2 * 500 / 0.1))
    assert slack_of(UNKNOWN) == pytest.approx(0.1 * 0.8)


def test_what_is_declared_is_used():
    task = Task(["a", "b"], limit=0.8, smallest_cost=0.3, slack=0.25)
    assert LyOn().setup(task, 500.0).explore == math.ceil(math.log(2 * 500 / 0.3))
    assert slack_of(task) == pytest.approx(0.25 * 0.8)
    lost = Task(["a", "b"], limit=0.8, slack=-1.0)
    assert slack_of(lost) == 1e-3


@pytest.mark.parametrize("policy", [LyOff(), Stationary()])
def test_informed_policies_need_a_problem(policy, paper):
    assert set_up(policy, paper, 100.0).terms is not None
    with pytest.raises(PolicyError) as caught:
        set_up(policy, paper.task, 100.0)
    assert str(caught.value) == (
        f"policy {policy.name}: knows the arms' distributions, so it needs a Problem; a Task "
        "was given"
    )


def test_learners_get_the_task_alone(paper, monkeypatch):
    given = []
    monkeypatch.setattr(LyOn, "setup", lambda self, known, budget: given.append(known))
    set_up(LyOn(), paper, 100.0)
    set_up(LyOn(), paper.task, 100.0)
    assert given == [paper.task, paper.task]
    for policy in (Stationary((0.5, 0.5)), FixedArm(2), UniformRandom()):
        assert set_up(policy, paper.task, 9.0).terms.tolist() == (
            set_up(policy, paper, 9.0).terms.tolist()
        )


@pytest.mark.parametrize(
    ("policy", "knows"),
    [
        (LyOff(), "laws"),
        (Stationary(), "laws"),
        (Stationary((0.5, 0.5)), ""),
        (LyOn(), "smallest cost"),
        (LyOn(mu_min=0.1), ""),
        (UCBBwI(), "smallest cost"),
        (UCBBwI(mu_min=0.1), ""),
        (PessimisticOptimistic(), "slack"),
        (PessimisticOptimistic(slack=0.1), ""),
        (OptPessLP(), "safe arm"),
        (OptPessLP(safe=2, safe_rate=0.5), ""),
        (ControlBudget(), ""),
        (ControlBudget(known=True), "laws"),
        (Resolve(), ""),
    ],
)
def test_they_say_what_they_know(policy, knows):
    assert policy.knows == knows
    assert knows != "laws" or isinstance(policy, InformedPolicy)


def test_a_record_lies_in_one_block():
    fields = ["pulls", "totals", "squares", "products", "remaining", "steps", "limits", "bases"]
    fields += ["net_squares", "known", "weights", "sources", "flight"]
    fields += ["expected", "flying", "stated"]
    sizes = [3, 12, 12, 6, 3, 1, 2, 2, 6, 12, 6, 2, 3, 12, 1, 1]
    assert list(field_sizes(State, 3, 2)) == list(zip(fields, sizes, strict=True))
    starts = field_starts(State, 3, 2)
    block = np.arange(float(starts[-1]))
    state = record_maker(State)(block, starts)
    assert np.concatenate(state).tolist() == block.tolist()
    names: dict[str, object] = {}
    assert record_text(State, names, "f{}".format) == (
        "State(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15)"
    )
    assert names == {"State": State}


def test_a_record_may_hold_others():
    names = [name for name, _ in field_sizes(Resolve.Scratch, 2, 1)]
    assert "program.mixture.shares" in names
    assert len(set(names)) == len(names)


def test_a_budget_below_one_pull_is_refused_by_the_log(paper):
    with pytest.raises(PolicyError, match=r"lyon: budget = 0\.5 .*must be above 1,"):
        LyOn().setup(paper.task, 0.5)
    assert LyOn(v=1, delta=0).setup(paper.task, 0.5).constants[0] == 1


def test_stationary_takes_the_oracles_shares(paper):
    reach = Stationary().setup(paper, 100.0).terms[:, 0, 0]
    assert reach[0] == pytest.approx(oracle(paper).pull_share[0])
    assert reach[-1] == 1.0


@pytest.mark.parametrize("policy", POLICIES.values(), ids=lambda p: p.name)
def test_every_policy_has_the_one_shape(policy, paper):
    made = policy()
    assert dataclasses.is_dataclass(policy)
    assert issubclass(policy, IndexPolicy | ChoicePolicy)
    assert policy.summary
    assert policy.__doc__
    assert parse_policy(made.label) == made
    assert made.label == policy.name
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.name = "other"
    setup = set_up(made, paper, 1000.0)
    assert all(isinstance(value, float) for value in (*setup.constants, *setup.allowance))
    assert getattr(policy, "learns", True) == (setup.terms is None)


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        ("lyon", LyOn()),
        ("lyon:delta0=15,alpha=2", LyOn(delta0=15.0)),
        ("lyon:penalty_bonus=as-printed", LyOn(penalty_bonus="as-printed")),
        ("lyon:mu_min=none", LyOn()),
        ("lyoff:v=3,delta=0.01", LyOff(v=3.0, delta=0.01)),
        ("stationary:shares=0.25/0.75", Stationary((0.25, 0.75))),
    ],
)
def test_the_shells_words(text, policy):
    assert parse_policy(text) == policy
    assert parse_policy(policy.label) == policy


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("lyonn", ["lyonn", "'lyon'"]),
        ("nothing", ["nothing", "known", "lyoff"]),
        ("lyon:delta=x", ["delta", "'x'", "finite number"]),
        ("lyon:detla0=3", ["detla0", "'delta0'"]),
        ("lyon:delta0", ["delta0", "parameter=value"]),
        ("lyon:v0=0", ["v0", "0.0", "above 0"]),
        ("lyon:v0=nan", ["v0", "nan"]),
        ("lyon:v0=inf", ["v0", "inf"]),
        ("lyon:alpha=1,alpha=2", ["alpha", "twice"]),
        ("lyon:penalty_bonus=printed", ["penalty_bonus", "printed", "as-printed"]),
        ("lyoff:alpha=2", ["alpha", "known: v0"]),
        ("uniform-random:x=1", ["'x'", "takes no parameters"]),
        ("epsilon-greedy:epsilon=1.5", ["epsilon", "1.5", "[0, 1]"]),
        ("stationary:shares=0.5/0.6", ["shares", "sum to 1"]),
        ("stationary:shares=a/b", ["shares", "'a'"]),
        ("fixed-arm:arm=1.5", ["arm", "1.5"]),
    ],
)
def test_bad_words_are_named(text, words):
    with pytest.raises(PolicyError) as caught:
        parse_policy(text)
    assert "\n" not in str(caught.value)
    assert all(word in str(caught.value) for word in words), str(caught.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("fixed-arm:arm=3", ["arm", "3", "1 to 2"]),
        ("fixed-arm:arm=arm1", ["arm1", "'arm 1'"]),
        ("stationary:shares=1", ["shares", "2 numbers"]),
    ],
)
def test_parameters_that_do_not_fit_the_problem(paper, text, words):
    with pytest.raises(PolicyError) as caught:
        parse_policy(text).setup(paper.task, 100.0)
    assert all(word in str(caught.value) for word in words), str(caught.value)


numbers = st.just(0.0) | st.floats(1e-9, 1.0)  # no outcome's inverse overflows


@given(
    st.lists(st.tuples(st.integers(1, 50), numbers, numbers, numbers), min_size=2, max_size=6),
    st.floats(0, 30),
    st.data(),
)
def test_permuting_what_was_seen_permutes_the_choice(arms, queue, data):
    """For every learning policy, as long as no two arms have the same index."""
    order = data.draw(st.permutations(range(len(arms))))
    problem = bernoulli_problem([(0.5, 0.5, 0.5)] * len(arms), 0.8)
    for policy in (LyOn(), LyOn(penalty_bonus="as-printed"), UCBBwI()):
        setup = policy.setup(problem.task, 1000.0)
        straight, turned = (_statistics([arms[k] for k in o]) for o in (range(len(arms)), order))
        first = policy.decide(setup, 100, straight, [queue], 0.0)
        second = policy.decide(setup, 100, turned, [queue], 0.0)
        assert arms[first] == arms[order[second]] or _tied(policy, setup, straight, queue)


def _statistics(arms):
    return Statistics(
        [float(t) for t, *_ in arms],
        [t * x for t, x, _, _ in arms],
        [t * r for t, _, r, _ in arms],
        [[t * y] for t, _, _, y in arms],
    )


def _tied(policy, setup, seen, queue):
    clock = policy.clock(setup.constants, 100.0)
    indices = []
    for t, x, r, (y,) in zip(seen.pulls, seen.cost, seen.reward, seen.penalty, strict=True):
        reward = policy.reward_terms(setup.constants, t, x, r)
        penalty = policy.penalty_terms(setup.constants, t, x, y)
        indices.append(
            policy.reward_index(setup.constants, clock, 0.0, 0.0, *reward)
            + queue * policy.penalty_index(setup.constants, clock, *penalty)
        )
    low, next_low = sorted(indices)[:2]
    return low == next_low or next_low - low <= 1e-9 * abs(low)


@given(queue=st.floats(0, 1e6), cost=numbers, penalty=numbers, allowance=st.floats(-1, 2))
def test_the_queue_is_never_negative_and_loses_nothing(queue, cost, penalty, allowance):
    moved, lost = advance(queue, 0.0, allowance, cost, penalty)
    assert moved >= 0
    exact = queue + (penalty - allowance * cost)
    assert moved + lost == pytest.approx(max(0.0, exact), rel=1e-15, abs=1e-12)


def test_kahan_carry_keeps_what_single_precision_drops():
    queue, lost = np.float32(4000.0), np.float32(0.0)
    for _ in range(10_000):
        queue, lost = advance(queue, lost, np.float32(0.0), np.float32(0.0), np.float32(1e-5))
        queue, lost = np.float32(queue), np.float32(lost)
    assert float(queue) + float(lost) == pytest.approx(4000.1, abs=1e-4)


@pytest.mark.parametrize(
    ("policy", "budget", "message"),
    [
        (
            LyOff(delta0=3),
            500,
            "policy lyoff:delta0=3: delta = 0.03 is not below limit = 0.02 at budget 500, so no"
            " theorem covers it; the value is used unchanged. The smallest budget inside the"
            " theory is about 1,126",
        ),
        (
            LyOn(delta=0.9),
            500,
            "policy lyon:delta=0.9: delta = 0.045 is not below limit = 0.02, so no theorem "
            "covers it; the value is used unchanged",
        ),
        (LyOn(), 500, None),
    ],
)
def test_warnings_are_in_the_users_units(policy, budget, message):
    """Costs of up to 20 ms, a limit of 0.02 late packets per ms."""
    wireless = ready_problem("wireless")
    assert set_up(policy, wireless, wireless.normal_budget(budget)).warning == message


def test_too_small_a_budget_is_named_in_the_users_units():
    wireless = ready_problem("wireless")
    with pytest.raises(PolicyError) as caught:
        set_up(LyOn(), wireless, wireless.normal_budget(5))
    assert str(caught.value) == (
        "policy lyon: budget = 5 is too small for its schedules; must be above 20, the largest"
        " cost of one pull, or give v and delta as numbers"
    )


@pytest.mark.parametrize("value", [1e300, 5e-324, 1e16, math.inf, math.nan, 10**400, "1", True])
def test_parameters_out_of_size_are_refused(value):
    with pytest.raises(PolicyError, match=r"^policy lyon: delta0 = [^\n]* must be [^\n]*$"):
        LyOn(delta0=value)


def test_an_exploration_beyond_any_run_is_cut_short(paper):
    setup = set_up(LyOn(beta0=1e15), paper, 1e6)
    assert setup.explore == 2**52
