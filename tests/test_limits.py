"""Limits as people say them: per pull, per reward, in total, on a channel that is there already."""

import itertools

import numpy as np
import pytest
from scipy.optimize import linprog

import tightrope
from tightrope import (
    Arm,
    Bernoulli,
    Constant,
    Controller,
    Discrete,
    Limit,
    LyOn,
    Problem,
    Resolve,
    Scales,
    Share,
    Task,
    Uniform,
    optimum,
    oracle,
    parse_policy,
    simulate,
)
from tightrope.errors import InfeasibleError, InputError, ProblemError
from tightrope.optimum.pi_star import infeasible
from tightrope.policies import TSLP, FixedArm, LinConTS, LyOnWilson, UniformRandom
from tightrope.policies.base import set_up
from tightrope.runs import violations


def router(**more):
    given = {"limits": {"bad": Limit(0.05, per="pull"), "dollars": Limit(0.004)}}
    return Task(["haiku", "sonnet", "opus"], **given | more)


def arms(*means):
    return [
        Arm(f"arm {k}", Bernoulli(x), Bernoulli(r), Bernoulli(y))
        for k, (x, r, y) in enumerate(means)
    ]


MEANS = ((0.4, 0.8, 0.6), (0.6, 0.6, 0.3), (0.5, 0.5, 0.2), (0.9, 0.3, 0.05))


# What can be said.


def test_a_limit_is_kept_as_it_was_said():
    task = router()
    assert task.limit_kinds == (Limit(0.05, per="pull"), Limit(0.004))
    assert task.limits == {"bad": Limit(0.05, per="pull"), "dollars": 0.004}
    assert task.limit_text(0) == "limit 'bad' = 0.05 per pull"
    assert task.limit_text(1) == "limit 'dollars' = 0.004"


@pytest.mark.parametrize(
    "limit",
    [
        Limit(0.05, per="pull"),
        Limit(20.0, of="cost", per="reward"),
        Limit(total=500.0),
        Limit(2.0, per="reward"),
        Limit(0.3, of="reward"),
    ],
)
def test_toml_gives_a_limit_back(limit):
    task = Task(["a", "b"], {"one": limit, "two": Limit(0.5)})
    assert Task.from_toml(task.to_toml()) == task
    assert Task.from_toml(task.to_toml()).limit_kinds[0] == limit


def test_toml_of_a_problem_leaves_out_what_is_not_told():
    limits = {"bad": Limit(0.5, per="pull"), "cpa": Limit(2.0, of="cost", per="reward")}
    problem = Problem([Arm("a", Bernoulli(0.4), Bernoulli(0.8), [Bernoulli(0.6)])], limits=limits)
    assert Problem.from_toml(problem.to_toml()) == problem
    assert "cpa" not in problem.to_toml().split("[[arms]]")[1]


def test_the_design_s_toml_is_read():
    text = """
[limits]
dollars = 0.004
bad = { at_most = 0.05, per = "pull" }

[[arms]]
name = "haiku"
[[arms]]
name = "opus"
"""
    assert Task.from_toml(text).limit_kinds == (Limit(0.004), Limit(0.05, per="pull"))


BAD = [
    (lambda: Limit(0.1, per="click"), "per = 'click': must be 'cost' or 'pull' or 'reward'"),
    (lambda: Limit(), "Limit(): must have exactly one of at_most and total"),
    (lambda: Limit(1, total=2), "Limit(1, total=2): must have exactly one of at_most and total"),
    (lambda: Limit(total=2, per="pull"), "per = 'pull': must be left out beside total"),
    (lambda: Limit(1, of="bad"), "of = 'bad': must be 'cost' or 'reward', or be left out"),
    (lambda: Limit(1, of="cost"), "of = 'cost': must differ from per"),
    (
        lambda: Limit(total=1, of="cost"),
        "of = 'cost': must not be limited in total; the budget does that",
    ),
    (lambda: router(limits={"bad": Limit(-1)}), "limit 'bad' = -1.0: must be positive"),
    (
        lambda: router(limits={"bad": {"at_most": 1, "par": "pull"}}),
        "limit 'bad': unknown key 'par'; did you mean 'per'?",
    ),
    (
        lambda: Problem(arms(*MEANS), limits={"cpa": Limit(2, of="cost", per="reward")}),
        "arm 'arm 0': penalties = 1, limits = 0; must be equal",
    ),
    (
        lambda: oracle(Problem(arms(*MEANS), limit=Limit(total=500))),
        "limit = 500.0 in total: must come with a budget, which it is spread over",
    ),
]


@pytest.mark.parametrize(("make", "message"), BAD, ids=[message for _, message in BAD])
def test_bad_limits_are_named_in_one_line(make, message):
    with pytest.raises(ProblemError) as caught:
        make()
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


# The best there is.


def best_rate(means, limits):
    """The best reward per cost by a program over shares of pulls: a second way to the oracle."""
    x, r, y = (np.array(column) for column in zip(*means, strict=True))
    rows, rhs = [], []
    for penalty, c, base in limits:
        rows.append({"y": y, "x": x}[penalty] - c * {"pull": np.ones_like(x), "r": r, "x": x}[base])
        rhs.append(0.0)
    # pulls n_k per unit of cost: maximise n.r with n.x = 1 and every net penalty at most 0
    found = linprog(-r, A_ub=rows, b_ub=rhs, A_eq=[x], b_eq=[1.0])
    return -found.fun if found.success else None


CASES = [
    ({"bad": Limit(0.4, per="pull")}, [("y", 0.4, "pull")]),
    ({"bad": Limit(0.5, per="reward")}, [("y", 0.5, "r")]),
    ({"bad": Limit(0.15, per="pull")}, [("y", 0.15, "pull")]),
    (
        {"bad": Limit(0.35, per="pull"), "cpa": Limit(0.9, of="cost", per="reward")},
        [("y", 0.35, "pull"), ("x", 0.9, "r")],
    ),
    (
        {"bad": Limit(0.8), "cpa": Limit(0.8, of="cost", per="reward")},
        [("y", 0.8, "x"), ("x", 0.8, "r")],
    ),
]


@pytest.mark.parametrize(("limits", "plain"), CASES)
def test_the_oracle_is_the_program_over_pulls(limits, plain):
    problem = Problem(arms(*MEANS), limits=limits)
    found = oracle(problem)
    assert found.reward_rate == pytest.approx(best_rate(MEANS, plain), rel=1e-9)
    for rate, limit in zip(found.penalty_rate, problem.limits, strict=True):
        assert rate <= limit * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(20))
def test_the_oracle_of_random_arms_is_the_program_over_pulls(seed):
    random = np.random.default_rng(seed)
    means = [tuple(random.uniform(0.05, 0.95, 3)) for _ in range(5)]
    kinds = [("y", random.uniform(0.1, 0.8), "pull"), ("x", random.uniform(0.3, 2.0), "r")]
    limits = {
        "bad": Limit(kinds[0][1], per="pull"),
        "cpa": Limit(kinds[1][1], of="cost", per="reward"),
    }
    problem, expected = Problem(arms(*means), limits=limits), best_rate(means, kinds)
    if expected is None:
        assert infeasible(problem)
        with pytest.raises(InfeasibleError):
            oracle(problem)
    else:
        assert infeasible(problem) is None
        assert oracle(problem).reward_rate == pytest.approx(expected, rel=1e-7)


def occupation(problem, budget, limits):
    """OPT(B) by a program over how often each arm is pulled with each budget left.

    Costs are whole numbers; ``limits``: (penalty, c, base) as functions of an arm's means.
    """
    laws = [dict(zip(arm.cost.values, arm.cost.weights, strict=True)) for arm in problem.arms]
    means = [tuple(law.mean for law in arm.marginals()) for arm in problem.arms]
    states, count = range(budget + 1), len(laws)
    size = len(states) * count
    flow, start = np.zeros((len(states), size)), np.zeros(len(states))
    start[budget] = 1.0
    for b, k in itertools.product(states, range(count)):
        at = b * count + k
        flow[b, at] += 1.0
        for cost, chance in laws[k].items():
            if cost <= b:
                flow[b - int(cost), at] -= chance
    rewards = np.array([means[k][1] for _ in states for k in range(count)])
    rows = [[net(*means[k]) for _ in states for k in range(count)] for net, _ in limits]
    allowed = [most for _, most in limits]
    found = linprog(-rewards, A_ub=rows, b_ub=allowed, A_eq=flow, b_eq=start, method="highs")
    return -found.fun


def costly(limits):
    laws = [
        (Discrete((1.0, 3.0), (0.5, 0.5)), 0.9, 0.6),
        (Discrete((1.0, 2.0), (0.3, 0.7)), 0.5, 0.2),
        (Discrete((2.0, 3.0), (0.6, 0.4)), 0.7, 0.1),
    ]
    listed = [Arm(f"arm {k}", x, Bernoulli(r), Bernoulli(y)) for k, (x, r, y) in enumerate(laws)]
    return Problem(listed, limits=limits, scales=Scales(cost=3.0))


@pytest.mark.parametrize("budget", [1, 4, 9, 20])
@pytest.mark.parametrize(
    ("limit", "net", "allowed"),
    [
        (Limit(0.3, per="pull"), lambda x, r, y: y - 0.3, lambda b: 0.0),
        (Limit(0.5, per="reward"), lambda x, r, y: y - 0.5 * r, lambda b: 0.0),
        (Limit(0.2), lambda x, r, y: y, lambda b: 0.2 * b),
        (Limit(total=1.5), lambda x, r, y: y, lambda b: 1.5),
    ],
)
def test_the_optimum_is_the_program_over_occupation(budget, limit, net, allowed):
    problem = costly({"bad": limit})
    expected = occupation(problem, budget, [(net, allowed(budget))])
    assert optimum(problem, budget) == pytest.approx(expected, rel=1e-7)


def test_the_optimum_with_unit_costs_keeps_the_limit_exactly():
    problem = Problem(arms(*MEANS), limits={"bad": Limit(0.4, per="pull")})
    assert optimum(problem, 1000) == pytest.approx(1001 * oracle(problem).reward_rate, rel=1e-9)


# Infeasible, and by how much.


def test_an_infeasible_limit_says_what_would_do():
    problem = Problem(arms(*MEANS), limits={"bad": Limit(0.04, per="pull")})
    assert infeasible(problem) == (
        "limit 'bad' = 0.04 per pull: must be at least 0.05, the penalty rate of the least"
        " violating arm 'arm 3'"
    )


def test_limits_that_cannot_be_kept_together_say_what_would_do():
    limits = {"bad": Limit(0.06, per="pull"), "cpa": Limit(0.5, of="cost", per="reward")}
    told = infeasible(Problem(arms(*MEANS), limits=limits))
    assert told is not None
    assert "limit 'bad' = 0.06 per pull and limit 'cpa' = 0.5 per unit of reward" in told
    least = [float(one) for one in told.split("can reach is ")[1].split(";")[0].split(" and ")]
    relaxed = dict(zip(limits, least, strict=True))
    for factor, kept in ((1.001, True), (0.999, False)):
        scaled = {
            "bad": Limit(relaxed["bad"] * factor, per="pull"),
            "cpa": Limit(relaxed["cpa"] * factor, of="cost", per="reward"),
        }
        assert (infeasible(Problem(arms(*MEANS), limits=scaled)) is None) is kept


# In runs.


def test_a_violation_is_in_the_limit_s_own_terms():
    limits = {
        "bad": Limit(0.4, per="pull"),
        "cpa": Limit(0.9, of="cost", per="reward"),
    }
    problem = Problem(arms(*MEANS), limits=limits)
    found = simulate(problem, Resolve(), budgets=100, runs=20, backend="cpu", progress=False)
    runs = found.records[0].runs
    bad, cost = runs.penalty[0, :, 0], runs.penalty[0, :, 1]
    np.testing.assert_array_equal(cost, runs.cost[0])
    per_pull = (bad / runs.pulls[0].sum(axis=1) - 0.4).mean()
    per_reward = (cost / runs.reward[0] - 0.9).mean()
    shown = found.rows()[0].violation
    assert shown[0].mean == pytest.approx(per_pull)
    assert shown[1].mean == pytest.approx(per_reward)


def test_a_total_is_the_same_at_every_budget():
    problem = Problem(arms(*MEANS), limits={"bad": Limit(total=60)})
    found = simulate(
        problem, Resolve(risk=0.01), budgets=[100, 400], runs=40, backend="cpu", progress=False
    )
    for g, budget in enumerate((100, 400)):
        runs = found.records[0].normalised_runs[g]
        over = violations(problem, runs, budget)[:, 0]
        np.testing.assert_allclose(over, runs.penalty[:, 0] - 60)
        assert (over > 0).mean() <= 0.1
        assert found.rows()[g].regret is not None


@pytest.mark.parametrize("seed", [1, 2])
def test_resolve_keeps_limits_per_pull_and_per_reward(seed):
    random = np.random.default_rng(seed)
    means = [tuple(random.uniform(0.2, 0.9, 3)) for _ in range(4)]
    least = min(y for _, _, y in means)
    limits = {"bad": Limit(least + 0.15, per="pull")}
    problem = Problem(arms(*means), limits=limits)
    found = simulate(problem, Resolve(), budgets=3000, runs=60, backend="cpu", progress=False)
    row = found.rows()[0]
    assert row.violation[0].mean <= 0.005
    assert row.regret.mean <= 0.06 * optimum(problem, 3000)


def test_means_and_draws_of_a_derived_channel_are_the_channel_s():
    listed = [Arm("a", Uniform(1.0, 3.0), Uniform(0.0, 2.0)), Arm("b", Constant(2.0), Bernoulli(1))]
    limits = {"cpa": Limit(4.0, of="cost", per="reward"), "most": Limit(0.9, of="reward")}
    problem = Problem(listed, limits=limits, scales=Scales(cost=3.0, reward=2.0))
    assert problem.own_rates[0].tolist() == pytest.approx([2.0, 0.5])
    runs = simulate(
        problem, UniformRandom(), budgets=50, runs=3, backend="python", progress=False
    ).records[0].runs  # fmt: skip
    np.testing.assert_allclose(runs.penalty[0, :, 0], runs.cost[0])
    np.testing.assert_allclose(runs.penalty[0, :, 1], runs.reward[0])


# Live.


def test_a_derived_penalty_is_not_told():
    limits = {"bad": Limit(0.1, per="pull"), "cpa": Limit(20, of="cost", per="reward")}
    controller = Controller(Task(["a", "b"], limits), Resolve(), budget=100)
    controller.tell(controller.ask(), cost=0.5, reward=1, penalty={"bad": 0})
    controller.tell(controller.ask(), cost=0.5, reward=1, penalty=0)
    with pytest.raises(InputError, match=r"penalty = .*: must be a number, or by name: 'bad'"):
        controller.tell(0, cost=0.5, reward=1, penalty={"bad": 0, "cpa": 1})
    totals = controller._state["totals"]
    assert totals[:, 4].sum() == totals[:, 1].sum() == 1.0


def test_a_controller_takes_a_total():
    controller = Controller(Task(["a", "b"], {"bad": Limit(total=5)}), Resolve(), budget=100)
    controller.tell(controller.ask(), cost=1, reward=1, penalty=1)
    assert controller._state.record.remaining.tolist() == [99.0, 4.0]
    assert Controller.restore(controller.snapshot()) == controller


# What is known.


ROUTER = """
costs = 1
skip = "decline"
limits = { dollars = 0.004, bad = { at_most = 0.05, per = "pull" } }
known = { dollars = { haiku = 0.001, opus = 0.02, decline = 0.0 } }

[[arms]]
name = "haiku"
reward = { bernoulli = 0.6 }
penalties.bad = { bernoulli = 0.06 }

[[arms]]
name = "opus"
reward = { bernoulli = 0.9 }
penalties.bad = { bernoulli = 0.01 }

[[arms]]
name = "decline"
"""


def test_arms_in_a_file_leave_out_what_is_known():
    problem = Problem.from_toml(ROUTER)
    assert problem.told_names == ("bad",)
    np.testing.assert_allclose(problem.own_rates, [[0.001, 0.06], [0.02, 0.01], [0.0, 0.0]])
    assert Problem.from_toml(problem.to_toml()) == problem
    best = oracle(problem)
    assert best.penalty_rate == pytest.approx((0.004, 0.05), rel=0.2)


def test_what_is_known_need_not_be_told():
    controller = Controller(Problem.from_toml(ROUTER), Resolve(), budget=50)
    controller.tell("haiku", reward=1, penalty={"bad": 0})
    controller.tell("opus", cost=1, reward=1, penalty=1)
    controller.tell("decline")
    assert controller.spent == 3.0
    totals = controller._state["totals"][:, 3:] * controller.task.scales.penalties
    assert totals.sum(axis=0).tolist() == pytest.approx([0.021, 1.0])
    before = controller.snapshot()
    for told, message in (
        ({"cost": 2, "reward": 1, "penalty": 0}, "cost = 2: must be a number in [0, 1]"),
        (
            {"cost": 0.5, "reward": 1, "penalty": 0},
            "cost = 0.5 of arm 'haiku': must be the known value 1, or be left out",
        ),
        ({"reward": 1}, "penalty = None: must be a number, or by name: 'bad'"),
        ({"penalty": 0}, "reward = None: must be a number in [0, 1]"),
        (
            {"reward": 1, "penalty": {"bad": 0, "dollars": 0.001}},
            "penalty = {'bad': 0, 'dollars': 0.001}: must be a number, or by name: 'bad'",
        ),
    ):
        with pytest.raises(InputError) as caught:
            controller.tell("haiku", **told)
        assert str(caught.value) == message
    assert controller.snapshot() == before


def test_a_budget_of_pulls_makes_a_limit_per_pull_one_per_cost():
    listed = [
        Arm(f"arm {k}", Constant(1.0), Bernoulli(r), Bernoulli(y))
        for k, (_, r, y) in enumerate(MEANS)
    ]
    by_cost, by_pull = (
        Problem(listed, limits={"bad": Limit(0.3, per=per)}, costs=1) for per in ("cost", "pull")
    )
    for policy in (
        TSLP(),
        TSLP(update=True),
        LinConTS(),
    ):
        made = [
            simulate(one, policy, budgets=200, runs=5, backend="cpu", progress=False)
            for one in (by_cost, by_pull)
        ]
        for name in ("reward", "penalty", "pulls"):
            first, second = (getattr(one.records[0].runs, name) for one in made)
            np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("per", ["pull", "cost", "reward"])
def test_a_share_is_kept_and_needs_no_telling(per):
    limits = {"newcomers": Share(["arm 1", "arm 3"], at_least=0.4, per=per)}
    listed = [Arm(a.name, a.cost, a.reward) for a in arms(*MEANS)]
    problem = Problem(listed, limits=limits)
    found = simulate(
        problem, Resolve(risk=0.01), budgets=2000, runs=20, backend="cpu", progress=False
    )
    runs = found.records[0].runs
    if per == "pull":
        shares = runs.pulls[0][:, [1, 3]].sum(axis=1) / runs.pulls[0].sum(axis=1)
        np.testing.assert_allclose(found.rows()[0].violation[0].mean, 0.4 - shares.mean())
        assert (shares >= 0.4).mean() >= 0.9
    if per == "cost":
        others = runs.arm_cost[0][:, [0, 2]].sum(axis=1) / 2000
        np.testing.assert_allclose(found.rows()[0].violation[0].mean, others.mean() - 0.6)
    assert found.rows()[0].violation[0].mean <= 0.002
    controller = Controller(problem, Resolve(), budget=20)
    controller.tell(controller.ask(), cost=1, reward=0.5)


@pytest.mark.filterwarnings("ignore::tightrope.errors.OutsideTheoryWarning")
def test_plain_python_agrees_on_shares_and_price_lists():
    problem = Problem.from_toml(ROUTER)
    for policy in (
        Resolve(),
        TSLP(),
        tightrope.LyOn(mu_min=1),
        LyOnWilson(),
    ):
        ours, plain = (
            simulate(problem, policy, budgets=40, runs=3, backend=one, progress=False)
            for one in ("cpu", "python")
        )
        for name in ("reward", "penalty", "pulls"):
            first, second = (getattr(one.records[0].runs, name) for one in (ours, plain))
            np.testing.assert_array_equal(first, second)


BAD_KNOWN = [
    (lambda: Share(["a"], at_least=1.5), "at_least = 1.5: must be a share, between 0 and 1"),
    (lambda: Share([], at_least=0.5), "arms = []: must name at least one arm"),
    (lambda: Share(["a"]), "must have exactly one of at_least and at_most"),
    (
        lambda: Task(["a", "b"], {"new": Share(["c"], at_least=0.5)}),
        "limit 'new': share: 'c' is not an arm; known: a, b",
    ),
    (lambda: Task(["a", "b"], costs={"a": 1}), "costs: arm 'b' is missing"),
    (lambda: Task(["a", "b"], costs=0), "costs = 0.0: must be positive"),
    (lambda: Task(["a"], skip="a"), "skip = 'a': must come with costs"),
    (
        lambda: Task(["a"], {"bad": Limit(1)}, known={"bed": {"a": 1}}),
        "known: unknown limit 'bed'; did you mean 'bad'?",
    ),
    (
        lambda: Problem(arms(*MEANS), limit=0.5, costs=1),
        "arm 'arm 0', cost: Bernoulli(p=0.4) must be the constant 1.0",
    ),
]


@pytest.mark.parametrize(("make", "message"), BAD_KNOWN, ids=[text for _, text in BAD_KNOWN])
def test_what_cannot_be_known_is_refused(make, message):
    with pytest.raises(ProblemError) as caught:
        make()
    assert message in str(caught.value)


def test_shares_that_exclude_each_other_are_infeasible():
    limits = {"a": Share(["arm 0"], at_least=0.7), "b": Share(["arm 1"], at_least=0.6)}
    told = infeasible(Problem([Arm(a.name, a.cost, a.reward) for a in arms(*MEANS)], limits=limits))
    assert told is not None
    assert "limit 'a'" in told
    assert "limit 'b'" in told


# The outlook.


def told(controller, rows):
    for arm, cost, reward, bad in rows:
        controller.tell(arm, cost=cost, reward=reward, penalty=bad)
    return controller.outlook()


def test_the_outlook_is_in_the_limit_s_own_terms():
    task = Task(["a", "b"], {"bad": Limit(0.4, per="pull")}, Scales(cost=2.0))
    controller = Controller(task, Resolve(), budget=1000)
    found = told(controller, [(0, 0.5, 1, 0), (0, 1.5, 1, 1), (1, 0.5, 0, 0), (1, 0.5, 0, 0)])
    (one,) = found.limits
    assert one.rate == 0.25
    assert one.low == 0.0
    assert one.high >= 0.25
    assert one.chance == 1.0
    assert not one.broken


def test_the_outlook_names_a_limit_that_cannot_be_kept():
    task = Task(["a", "b"], {"bad": Limit(0.1, per="pull"), "euros": Limit(2, per="reward")})
    controller = Controller(task, Resolve(), budget=10_000)
    for number in range(600):
        controller.tell(number % 2, cost=0.3, reward=1, penalty={"bad": number % 4 < 2, "euros": 0})
    found = controller.outlook()
    assert found.infeasible == ("bad",)
    assert 0.1 < found.limits[0].least < 0.5
    assert "no mixture of the arms keeps bad (at least 0." in str(found)
    assert "is needed) (doubt: 0.01)" in str(found)
    assert not found.safe


@pytest.mark.parametrize("limit", [Limit(0.45, per="pull"), Limit(0.65, per="reward")])
def test_chances_of_limits_per_pull_and_reward_come_true_at_most_as_often(limit):
    problem = Problem(arms((0.6, 0.8, 0.2), (0.5, 0.7, 0.25)), limits={"bad": limit})
    random, stated, broken = np.random.default_rng(4), [], 0
    for _ in range(60):
        controller = Controller(problem, UniformRandom(), 600, seed=1)
        asked = 0
        while not controller.exhausted:
            arm = int(random.integers(2))
            values = random.random(3) < [law.mean for law in problem.arms[arm].marginals()]
            controller.tell(arm, *map(float, values))
            asked += 1
            if asked == 500:
                stated.append(controller.outlook().limits[0])
        end = controller.outlook().limits[0]
        broken += end.broken
        assert stated[-1].low <= end.rate <= stated[-1].high
    mean = np.mean([one.chance for one in stated])
    assert broken / 60 <= mean + 0.1
    assert mean < 0.5, "something is said"


# Hard limits.


HARD = {"bad": Limit(total=12, hard=True)}


@pytest.mark.filterwarnings("ignore::tightrope.errors.OutsideTheoryWarning")
@pytest.mark.parametrize(
    "policy",
    [Resolve(), tightrope.LyOn(), UniformRandom()],
    ids=lambda one: one.name,
)
def test_a_hard_limit_ends_the_run_on_every_engine(policy):
    problem = Problem(arms(*MEANS), limits=HARD)
    ours, plain = (
        simulate(problem, policy, budgets=[20, 200], runs=6, backend=one, progress=False)
        for one in ("cpu", "python")
    )
    for name in ("reward", "penalty", "pulls", "cost"):
        first, second = (getattr(one.records[0].runs, name) for one in (ours, plain))
        np.testing.assert_array_equal(first, second)
    runs = ours.records[0].runs
    assert (runs.penalty <= 13).all(), "it is exceeded by one pull at most"
    over, spent = runs.penalty[..., 0] > 12, runs.cost > np.array([[20], [200]])
    assert (over ^ spent).all() or (over | spent).all()
    for row in ours.rows():
        assert row.regret.mean > 0, "OPT is an upper bound here"


def test_a_controller_stops_at_a_hard_limit_and_survives_a_snapshot():
    controller = Controller(Task(["a", "b"], HARD), Resolve(), budget=1000)
    for _ in range(12):
        controller.tell(controller.ask(), cost=1, reward=1, penalty=1)
    assert not controller.exhausted
    controller = Controller.restore(controller.snapshot())
    controller.tell(controller.ask(), cost=1, reward=1, penalty=1)
    assert controller.exhausted
    with pytest.raises(tightrope.errors.ExhaustedError) as caught:
        controller.ask()
    assert str(caught.value) == "limit 'bad' = 12.0 in total, hard: used up; no pull is left"


def test_hard_is_for_what_is_allowed_in_all():
    with pytest.raises(ProblemError, match=r"hard = True: must be in total or per unit of cost"):
        Limit(0.1, per="pull", hard=True)
    assert Task.from_toml(Task(["a"], HARD).to_toml()) == Task(["a"], HARD)


def test_no_policy_earns_more_than_the_bound_under_a_hard_limit():
    problem = Problem(arms(*MEANS), limits=HARD)
    for budget in (10, 50, 400):
        bound = optimum(problem, budget)
        for policy in (Resolve(), FixedArm(4), FixedArm(1)):
            found = simulate(
                problem, policy, budgets=budget, runs=50, backend="cpu", progress=False
            )
            assert found.records[0].runs.reward.mean() <= bound


# What is known tightens bounds.


@pytest.mark.parametrize("label", ["lyon", "lincon-kl-ucb", "primal-dual-bwk"])
def test_who_knows_prices_breaks_the_limit_by_less(label):
    """Optimism about costs and penalties breaks the limit; there is none where both are known."""
    rng = np.random.default_rng(4)
    costs, names = rng.uniform(0.2, 1.0, 10), [f"arm {k}" for k in range(10)]
    rewards = rng.uniform(0.2, 0.9, 10) * costs
    penalties = rewards * rng.uniform(0.3, 1.0, 10)
    limit = float(np.sort(penalties / costs)[3])
    laws = [
        (name, Constant(float(x)), Bernoulli(float(r)))
        for name, x, r in zip(names, costs, rewards, strict=True)
    ]
    told = Problem(
        [Arm(*law, Constant(float(y))) for law, y in zip(laws, penalties, strict=True)], limit=limit
    )
    prices = dict(zip(names, map(float, costs), strict=True))
    known = {"penalty": dict(zip(names, map(float, penalties), strict=True))}
    sure = Problem([Arm(*law) for law in laws], limit=limit, costs=prices, known=known)
    excess = []
    for problem in (told, sure):
        found = simulate(problem, parse_policy(label), budgets=1000, runs=40, seed=1)[label].runs
        excess.append(found.penalty.mean() / 1000 - limit)
    assert excess[1] < 0.6 * excess[0]


def test_lyon_s_width_is_that_of_the_reward_alone_where_costs_are_known():
    task = Task(["a", "b"], {"bad": Limit(0.3)}, costs=0.5)
    known, told = (
        set_up(LyOn(), one, 100.0).constants for one in (task, Task(["a"], {"bad": Limit(0.3)}))
    )
    assert (known[3], told[3]) == (1.0, 0.0)
    rate, width = LyOn.reward_terms(known, 16.0, 8.0, 12.0)
    assert (rate, width) == (1.5, 4.0 / 8.0)  # sqrt(n) / cost
    assert LyOn.reward_terms(told, 16.0, 8.0, 12.0) == (1.5, 2.5 * 4.0 / 8.0)
    sure = Task(["a"], {"bad": Limit(0.3)}, costs=0.5, known={"bad": {"a": 0.1}})
    constants = set_up(LyOn(), sure, 100.0).constants
    assert LyOn.penalty_terms(constants, 16.0, 8.0, 4.0)[1] == 0.0  # known too


# Other numbers.


def test_other_numbers_stay_per_what_they_were():
    limits = {"bad": Limit(0.05, per="pull"), "late": Limit(total=9), "new": Share(["a"], 0.2)}
    task = Task(["a", "b"], limits)
    assert task.other_limits({"bad": 0.1, "late": 7, "new": 0.3}) == {
        "bad": Limit(0.1, per="pull"),
        "late": Limit(total=7),
        "new": Share(["a"], at_least=0.3),
    }
    assert task.other_limits({"bad": {"at_most": 2, "per": "reward"}})["bad"].per == "reward"
    with pytest.raises(InputError, match="limit 'bda' is unknown; did you mean 'bad'"):
        task.other_limits({"bda": 0.1})
