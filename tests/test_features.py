"""Requests with features: contexts, linear models against numpy, the controller, replay."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tightrope import (
    Controller,
    Features,
    FullTable,
    Limit,
    LyOn,
    Resolve,
    Scales,
    Task,
    Types,
    replay,
)
from tightrope.data.tables import task_of
from tightrope.errors import InputError, ProblemError
from tightrope.policies import UCBALP, featured
from tightrope.policies.parts import linear, matrices, regression
from tightrope.problem import Mixed

LIMITS = {"bad": Limit(0.4, per="pull")}


def task(contexts, arms=("a", "b", "c"), **more):
    return Task(list(arms), LIMITS, costs=1, contexts=contexts, **more)


# --- contexts -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "contexts", [Features(3), Features(["length", "code"]), Mixed(["x", "y"], ["length", "code"])]
)
def test_a_task_with_features_is_the_same_after_toml(contexts):
    made = task(contexts)
    assert Task.from_toml(made.to_toml()) == made
    assert made.contexts == contexts


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Features(0), "features = 0: must be from 1 to 64"),
        (lambda: Features(65), "features = 65: must be from 1 to 64"),
        (lambda: Features(["a", "a"]), "feature 'a' is there twice; names must differ"),
        (lambda: Features(["a", ""]), "feature '': must be a name, not empty"),
        (lambda: Features("length"), "features = 'length': must be a number or a list of names"),
        (lambda: Mixed(Types(), 2), "types: must be named where contexts have features"),
        (lambda: Mixed(["x"], ["type"]), "feature 'type': must have another name beside types"),
    ],
)
def test_what_features_must_be(make, message):
    with pytest.raises(ProblemError, match=message):
        make()


@pytest.mark.parametrize(
    ("context", "message"),
    [
        (None, "context is missing; must be 2 numbers"),
        ([1.0], "context: 1 numbers must be 2, one for each feature"),
        (np.zeros((2, 2)), r"context: shape \(2, 2\) must be 2, one for each feature"),
        ([1.0, float("nan")], "feature 'code' = nan: must be a finite number"),
        ([1.0, -float("inf")], "feature 'code' = -inf: must be a finite number"),
        ([1e39, 1.0], "feature 'length' = 1e\\+39: must be a finite number, at most 3.4e38"),
        (np.array([1.0, np.nan], np.float32), "feature 'code' = nan: must be a finite number"),
        (["far", 1.0], "must be 2 numbers"),
        ({"length": 1.0}, "feature 'code' is missing; the context must have a number"),
        ({"length": 1.0, "cod": 1.0}, "feature 'cod' is unknown; did you mean 'code'?"),
        (10**400, "context = "),
    ],
)
def test_a_wrong_context_is_one_line_and_changes_nothing(context, message):
    controller = Controller(task(Features(["length", "code"])), Resolve(), budget=10)
    before = controller.snapshot()
    with pytest.raises(InputError, match=message) as caught:
        controller.ask(context=context)
    assert "\n" not in str(caught.value)
    assert controller.snapshot() == before


def test_every_form_of_a_context_is_the_same():
    forms = [
        [0.1, 2.0],
        (0.1, 2.0),
        {"code": 2, "length": 0.1},
        np.array([0.1, 2.0]),
        np.array([0.1, 2.0], np.float32),
    ]
    found = set()
    for form in forms:
        controller = Controller(task(Features(["length", "code"])), Resolve(), budget=10)
        controller.tell(controller.ask(context=form), reward=0.5, penalty=0.0)
        found.add(controller.snapshot())
    assert len(found) == 1


def test_a_mixed_context_is_a_pair_or_a_mapping():
    mixed = Mixed(["x", "y"], ["length"])
    assert mixed.row(("y", [3.0])).tolist() == [3.0, 0.0, 1.0]
    assert mixed.row({"type": "y", "length": 3.0}).tolist() == [3.0, 0.0, 1.0]
    with pytest.raises(InputError, match="context 'z' is unknown"):
        mixed.row(("z", [3.0]))
    with pytest.raises(InputError, match="must be a type and its features"):
        mixed.row([3.0])


# --- linear models against numpy ----------------------------------------------------------------


def played(steps, features, *, seed=0, policy=None, contexts=None, types=0):
    """A controller after some steps, with the contexts, arms and outcomes that it saw."""
    random = np.random.default_rng(seed)
    names = [f"t{kind}" for kind in range(types)]
    made = contexts or (Mixed(names, features) if types else Features(features))
    controller = Controller(task(made), policy or Resolve(), budget=2 * steps)
    rows = random.normal(size=(steps, features)) * 10.0 ** np.arange(features) + 5.0
    seen = []
    for step, row in enumerate(rows):
        kind = int(random.integers(types)) if types else 0
        context = (names[kind], row.tolist()) if types else row
        if step + 1 == steps and controller._aware:
            controller._state.scratch.models.clock[linear.NEXT] = 0.0
        arm = controller.ask(context=context)
        reward = float(np.clip(0.5 + 0.02 * (row[0] - 5.0) * (arm - 1) + 0.05 * kind, 0.0, 1.0))
        penalty = float(random.random() < 0.2 + 0.1 * arm)
        controller.tell(arm, reward=reward, penalty=penalty, context=context)
        seen.append((controller.contexts.row(context), arm, reward, penalty))
    solve(controller)
    return controller, seen


def solve(controller):
    """Solve all models again, in plain Python."""
    if controller._aware:
        for arm in range(3):
            record, models = controller._state.record, controller._state.scratch.models
            features = controller.contexts.columns - 1 - controller.contexts.types
            regression.solve(record, models, arm, features)


def prior_of(controller, arm, channel):
    """Ridges and prior means of a model, after a refresh at the last report."""
    state, models = controller._state.record, controller._state.scratch.models
    size, channels = controller.contexts.columns, 3
    types = controller.contexts.types
    ridge = np.full(size, models.ridge[4 * channel])
    ridge[size - types :] = models.ridge[4 * channel + 1]
    at = arm * channels + channel
    totals, squares = (one.reshape(3, 3)[:, channel].sum() for one in (state.totals, state.squares))
    guess = 0.5 * squares / totals
    ridge[0] = 1.0
    mean = models.usual[at] * models.common.reshape(channels, -1)[channel, :size]
    mean[0] = min(guess, 0.4) if channel == 2 else guess
    return ridge, mean


@pytest.mark.parametrize("types", [0, 3])
def test_the_models_are_ridge_regressions(types):
    """Rewards: all outcomes weigh the same, so the sums follow from what was reported."""
    controller, seen = played(120, 4, types=types)
    models, size = controller._state.scratch.models, controller.contexts.columns
    for arm in range(3):
        mine = [(row, reward) for row, chosen, reward, _ in seen if chosen == arm]
        raw = np.array([[1.0, *row] for row, _ in mine], np.float64).reshape(-1, size)
        design = (raw - models.centre[:size]) * models.unit[:size]
        design[:, 0] = 1.0
        rewards = np.array([reward for _, reward in mine])
        ridge, mean = prior_of(controller, arm, 1)
        square = design.T @ design + np.diag(ridge)
        slopes = np.linalg.solve(square, design.T @ rewards + ridge * mean)
        found = models.slopes.reshape(3, 3, -1)[arm, 1, :size]
        np.testing.assert_allclose(found, slopes, rtol=1e-7, atol=1e-9)
        inverse = inverse_of(models, 3 * arm + 1, size)
        np.testing.assert_allclose(inverse, np.linalg.inv(square), rtol=1e-6, atol=1e-10)
        assert models.doubt[3 * arm + 1] == pytest.approx(inverse[0, 0])


def inverse_of(models, at, size):
    """The inverse of a model's matrix, from Cholesky's factor with 1 / F_ii on the diagonal."""
    width = len(models.here)
    factor = np.tril(models.factors.reshape(-1, width, width)[at, :size, :size])
    np.fill_diagonal(factor, 1.0 / factor.diagonal())
    return np.linalg.inv(factor.T @ factor)


def test_corrections_bring_slopes_near_to_solving_again():
    """Of all channels, weighted ones included, against numpy; the sums have every report."""
    controller, _ = played(300, 5, seed=3)
    models, size = controller._state.scratch.models, 6
    width = len(models.here)
    models.clock[linear.NEXT] = 1e9
    models.due[0::2], models.due[1::2] = 1e9, 0.0  # never solve again; correct at every report
    before = models.slopes.copy()
    random = np.random.default_rng(0)
    for _ in range(6):
        context = random.normal(size=5) * 10.0 ** np.arange(5) + 5.0
        arm = controller.ask(context=context)
        controller.tell(arm, reward=float(random.random()), penalty=float(random.random() < 0.3))
        models.due[1::2] = 0.0
    moved = []
    for arm in range(3):
        regression.complete(models, arm, 3)
        for channel in (1, 2):
            at, (ridge, mean) = 3 * arm + channel, prior_of(controller, arm, channel)
            lower = np.tril(models.gram.reshape(-1, width, width)[at, :size, :size])
            square = lower + np.tril(lower, -1).T + np.diag(ridge)
            moments = models.moments.reshape(-1, width)[at, :size]
            solved = np.linalg.solve(square, moments + ridge * mean)
            slopes, old = (one.reshape(-1, width)[at, :size] for one in (models.slopes, before))
            moved.append(np.linalg.norm(solved - old))
            assert np.linalg.norm(slopes - solved) <= 0.1 * moved[-1] + 1e-4  # guesses moved too
    assert max(moved) > 1e-3


def test_corrections_do_not_diverge():
    """Two reports that outweigh all others: the old factors are far from those of the new sums."""
    controller, _ = played(120, 5, seed=4)
    record, models = controller._state.record, controller._state.scratch.models
    arm, at, size, width = 1, 4, 6, len(models.here)
    ridge, mean = prior_of(controller, arm, 1)
    gram = models.gram.reshape(-1, width, width)[at, :size, :size]
    moments, slopes = (one.reshape(-1, width)[at, :size] for one in (models.moments, models.slopes))
    for z, weight in ((np.array([1.0, 3, 3, 3, 3, 3]), 40.0), (np.array([1.0, 3, -2, 0, 1, 0]), 9)):
        gram += weight * np.outer(z, z)
        moments += weight * 0.9 * z
    square = np.tril(gram) + np.tril(gram, -1).T + np.diag(ridge)
    solved, away = np.linalg.solve(square, moments + ridge * mean), []
    for _ in range(5):
        away.append((slopes - solved) @ square @ (slopes - solved))
        regression._add_prior(record, models, arm, 1, 5)
        regression._step(models, at)
    assert all(later < before or later < 1e-20 for before, later in pairwise(away))
    assert away[-1] < 0.5 * away[0]


def test_after_many_reports_the_window_leaves_requests_out():
    """Of 40,960 reports, 256 requests span a 16th if they are ten apart."""
    controller, _ = played(40, 2)
    models, seen = controller._state.scratch.models, []
    models.clock[[linear.REPORTS, linear.NEXT, linear.LATER]] = 40960.0, 1e9, 0.0
    for step in range(25):
        controller.tell(controller.ask(context=[step, 1.0]), reward=0.5, penalty=0.0)
        last = (int(models.clock[linear.PLACE]) - 1) % linear.RECENT
        seen.append(models.recent[linear.STRIDE + last])
    assert seen == [0.0] * 10 + [10.0] * 11 + [21.0] * 4


def test_matrices_agree_with_numpy():
    random = np.random.default_rng(0)
    for used in (1, 3, 8, 13, 24):
        size = -(-used // 8) * 8
        vectors = np.zeros((8, size))
        vectors[:, :used] = random.normal(size=(8, used))
        weights, vector, found = random.random(10), np.zeros(size), np.zeros(size)
        vector[:used] = random.normal(size=used)
        square, start = np.zeros(2 * size * size), size * size
        matrices.add_squares(square, start, size, used, vectors.reshape(-1), 0, weights, 2)
        made = np.tril(square[start:].reshape(size, size)[:used, :used])
        made += np.tril(made, -1).T
        expected = (vectors.T * weights[2:]) @ vectors
        np.testing.assert_allclose(made, expected[:used, :used], atol=1e-12)
        made += np.eye(used)
        square[start :: size + 1] += 1.0
        product = np.zeros(size)
        matrices.times(square, start, used, vector, product)
        np.testing.assert_allclose(product[:used], made @ vector[:used], atol=1e-10)
        matrices.factor(square, start, size, used)
        matrices.solve_factored(square, start, used, vector, found, 0)
        solved = np.linalg.solve(made, vector[:used])
        np.testing.assert_allclose(found[:used], solved, atol=1e-10)
        one = matrices.squares_of_root(square, start, used, vector, np.zeros(size))
        assert one == pytest.approx(vector[:used] @ solved)
        matrices.squares_of_inverse(square, start, used, np.zeros(size * size), found)
        np.testing.assert_allclose(found[:used], np.linalg.inv(made).diagonal(), atol=1e-10)
        assert matrices.total(vector, 0, used) == pytest.approx(vector.sum())


def test_the_ridge_follows_the_data():
    """Features that explain the reward get less than the prior ridge, those that do not more."""
    ridges = []
    for slope in (0.0, 0.2):
        random = np.random.default_rng(1)
        controller = Controller(task(Features(4)), Resolve(), budget=2000)
        for _ in range(800):
            row = random.normal(size=4)
            arm = controller.ask(context=row)
            reward = np.clip(0.5 + slope * row[arm] + 0.1 * random.normal(), 0.0, 1.0)
            controller.tell(arm, reward=float(reward), penalty=0.0)
        ridges.append(controller._state.scratch.models.ridge[4])
    prior = 4 / (0.5 * regression.EXPLAINED)  # of rewards
    assert ridges[1] < 0.8 * prior < 1.25 * prior < ridges[0]


def test_plain_python_and_compiled_code_agree_to_the_bit():
    compiled, _ = played(40, 3, types=2)
    plain = Controller(compiled.task, Resolve(), budget=80)
    plain._set_calls(None)
    random = np.random.default_rng(0)
    rows = random.normal(size=(40, 3)) * 10.0 ** np.arange(3) + 5.0
    for step, row in enumerate(rows):
        kind = int(random.integers(2))
        context = (f"t{kind}", row.tolist())
        if step == 39:
            plain._state.scratch.models.clock[linear.NEXT] = 0.0
        arm = plain.ask(context=context)
        reward = float(np.clip(0.5 + 0.02 * (row[0] - 5.0) * (arm - 1) + 0.05 * kind, 0.0, 1.0))
        plain.tell(arm, reward=reward, penalty=float(random.random() < 0.2 + 0.1 * arm))
    solve(plain)
    assert plain.pulls == compiled.pulls
    np.testing.assert_array_equal(plain._state["scratch"], compiled._state["scratch"])


# --- failing well -------------------------------------------------------------------------------

SINGLES = st.floats(width=32, allow_nan=False, allow_infinity=False)
KINDS = st.sampled_from(["constant", "usual", "tiny", "huge", "late", "same", "rare", "drift"])


def column(kind, steps, random):
    noise = random.normal(size=steps)
    return {
        "constant": np.full(steps, 3.3e5),
        "usual": noise,
        "tiny": 1e-40 * noise,
        "huge": 1e38 * np.tanh(noise),
        "late": np.where(np.arange(steps) < steps // 2, 0.0, 1e6 * noise),
        "same": random.normal() + 0.0 * noise,
        "rare": np.where(random.random(steps) < 0.05, 3e38, noise),
        "drift": 1e9 + np.arange(steps) * 60.0,
    }[kind]


@settings(max_examples=15, deadline=None)
@given(
    kinds=st.lists(KINDS, min_size=3, max_size=3),
    odd=st.lists(st.lists(SINGLES, min_size=4, max_size=4), max_size=6),
    seed=st.integers(0, 100),
)
def test_no_context_makes_a_number_of_the_state_invalid(kinds, odd, seed):
    """Constant, collinear, huge, tiny, drifting and late features: finite sums, sane decisions."""
    random, steps = np.random.default_rng(seed), 60
    columns = [column(kind, steps, random) for kind in kinds]
    rows = np.column_stack([*columns, 2.0 * columns[0].clip(-1e38, 1e38)])
    rows = [*rows.astype(np.float32), *odd, *rows.astype(np.float32)]
    controller = Controller(task(Features(4)), Resolve(risk=0.01), budget=400)
    for number, row in enumerate(rows):
        arm = controller.ask(context=row)
        controller.tell(arm, reward=float(arm == 2), penalty=float(number % 5 == 0))
        assert np.isfinite(controller._state["scratch"]).all()
    restored = Controller.restore(controller.snapshot())
    assert restored == controller
    assert restored.ask(context=rows[0]) == controller.copy().ask(context=rows[0])


def test_an_outlier_does_not_hide_a_feature_for_good():
    random = np.random.default_rng(0)
    controller = Controller(task(Features(1), ("a", "b")), Resolve(), budget=4000)
    good = 0
    for step in range(2000):
        value = 1e12 if step == 50 else float(random.choice([-1.0, 1.0]))
        arm = controller.ask(context=[value])
        best = arm == (value > 0.0)
        good += best and step >= 1500
        controller.tell(arm, reward=0.2 + 0.6 * best, penalty=0.0)
    assert good > 480


# --- the controller -----------------------------------------------------------------------------


def test_each_request_gets_the_arm_that_suits_it():
    random = np.random.default_rng(0)
    controller = Controller(task(Features(2), ("a", "b")), Resolve(), budget=1000)
    good = 0
    for step in range(600):
        row = random.normal(size=2)
        arm = controller.ask(context=row)
        best = arm == (row[1] > 0.0)
        good += best and step >= 300
        controller.tell(arm, reward=float(random.random() < 0.2 + 0.6 * best), penalty=0.0)
    assert good > 260
    assert controller.spent == 600


def test_the_first_request_after_a_log_has_prices():
    """The arm with the largest reward is far too dear, as the log shows."""
    contexts = np.random.default_rng(0).normal(size=(200, 2))
    outcomes = np.ones((200, 1, 1)) * [[1.0, 0.5, 0.1], [1.0, 0.6, 0.5], [1.0, 0.62, 1.0]]
    log = FullTable(["a", "b", "c"], ["bad"], outcomes, contexts=contexts)
    controller = Controller(task(Features(2)), Resolve(), budget=1000, learn_from=log, weight=1.0)
    assert controller.ask(context=contexts[0]) != 2


def test_equal_features_are_like_none():
    """Features that say nothing cost at most a few hundredths of the reward."""
    earned = []
    for contexts in (None, Features(5)):
        total = 0.0
        for seed in range(10):
            random = np.random.default_rng(seed)
            controller = Controller(task(contexts), Resolve(), budget=600, seed=seed)
            for _ in range(500):
                row = random.normal(size=5)
                arm = controller.ask(context=row) if contexts else controller.ask()
                reward = float(random.random() < (0.3, 0.5, 0.7)[arm])
                controller.tell(arm, reward=reward, penalty=float(random.random() < 0.3))
                total += reward
        earned.append(total / 5000)
    assert earned[1] > earned[0] - 0.03


def test_the_window_has_the_net_penalties_of_all_requests():
    """Learned costs and a limit per pull: what is expected is the penalty less its allowance."""
    bad = {"bad": Limit(0.2, per="pull")}
    controller = Controller(Task(["a", "b"], bad, contexts=Features(2)), Resolve(), budget=100)
    random = np.random.default_rng(0)
    for _ in range(30):
        arm = controller.ask(context=random.normal(size=2))
        controller.tell(arm, 1.0, 0.5, float(random.random() < 0.3))
    state, models = controller._state.record, controller._state.scratch.models
    cost, _, net = models.means.reshape(2, 3, -1)[..., :30].swapaxes(0, 1)
    penalty = net - state.limits[0] * (cost - state.bases[0])
    assert penalty.min() >= 0.0
    assert penalty.max() <= 1.0


@pytest.mark.parametrize("per", ["pull", "reward"])
def test_costs_that_are_learned_earn_as_much_as_known_ones(per):
    """The best arm alone just keeps the limit: any other price loses much."""
    earned, bad = [], {"bad": Limit(0.2 if per == "pull" else 0.3, per=per)}
    for known in ({"costs": 1}, {}):
        total, told = 0.0, {} if known else {"cost": 1.0}
        for seed in range(8):
            random = np.random.default_rng(seed)
            made = Task(["a", "b", "c"], bad, contexts=Features(2), **known)
            controller = Controller(made, Resolve(), budget=600, seed=seed)
            for _ in range(600):
                arm = controller.ask(context=random.normal(size=2))
                reward = float(random.random() < (0.45, 0.7, 0.85)[arm])
                penalty = (0.066, 0.2, 0.66)[arm] * random.uniform(0.5, 1.5)
                controller.tell(arm, reward=reward, penalty=penalty, **told)
                total += reward
        earned.append(total / 4800)
    assert earned[1] > earned[0] - 0.03


def test_limits_are_kept():
    broken = 0
    for seed in range(20):
        random = np.random.default_rng(seed)
        controller = Controller(task(Features(2)), Resolve(risk=0.01), budget=500, seed=seed)
        bad = 0.0
        for _ in range(500):
            row = random.normal(size=2)
            arm = controller.ask(context=row)
            chance = (0.1, 0.4, 0.9)[arm] + 0.05 * np.tanh(row[0])
            penalty = float(random.random() < chance)
            bad += penalty
            controller.tell(arm, reward=(0.2, 0.5, 1.0)[arm], penalty=penalty)
        broken += bad > 0.4 * 500
    assert broken <= 1


def routed(seed, rows=400):
    """The small model earns least, and the dollars of the large one are hard to foresee."""
    random = np.random.default_rng(seed)
    outcomes = np.ones((rows, 3, 3))
    outcomes[:, :, 1] = np.clip(random.normal([0.5, 0.9, 0.95], 0.05, (rows, 3)), 0.0, 1.0)
    outcomes[:, :, 2] = np.minimum(random.exponential([0.001, 0.01, 0.2], (rows, 3)), 1.0)
    arms, features = ["small", "middle", "large"], random.normal(size=(rows, 1))
    return FullTable(arms, ["dollars"], outcomes, contexts=features)


def test_near_the_end_the_best_arm_that_is_bearable_takes_the_place_of_a_dear_one():
    """An answer of the large model could break the limit then, one of the middle one could not."""
    full, limits = routed(0), {"dollars": Limit(0.06, per="pull")}
    made = {"budget": 399, "orders": 10, "learn_from": routed(1)}
    (row,) = replay(full, limits, "resolve:risk=0.01", **made).rows
    assert row.pull_share[0] * row.pulls < 2.0
    assert row.pull_share[2] > 0.2
    assert row.broken[0][0] == 0.0


def test_an_arm_with_few_penalties_may_have_larger_ones():
    """Where it takes the place of another arm, it has one more of the usual size of all arms."""
    controller, _ = played(120, 2)
    state, scratch = controller._state.record, controller._state.scratch
    scratch.models.usual[2], scratch.models.noise[2], scratch.penalty[0] = 0.05, 0.0025, 0.05
    scratch.arms.pooled[2] = 0.9
    assert featured._size_here(state, scratch, 0, 0) == pytest.approx(0.1)
    for told, size in ((1.0, 0.91 / 1.9), (9.0, 1.71 / 9.9), (1e9, 0.1)):
        state.totals[2] = told
        assert featured._cautious_size(state, scratch, 0, 0) == pytest.approx(size)


@pytest.mark.parametrize("limits", [{}, {"bad": Limit(0.4, per="pull"), "slow": Limit(0.6)}])
def test_any_number_of_limits_and_costs_that_are_learned(limits):
    random = np.random.default_rng(0)
    made = Task(["a", "b", "c"], limits, contexts=Features(2))
    controller = Controller(made, Resolve(), budget=200)
    totals = np.zeros(4)
    for _ in range(250):
        row = random.normal(size=2)
        arm = controller.ask(context=row)
        cost = float(random.uniform(0.2, 0.8 + 0.1 * arm))
        penalties = [float(random.random() < chance) for chance in (0.1 + 0.3 * arm, 0.3)]
        reward = float(random.random() < 0.3 + 0.2 * arm)
        controller.tell(arm, cost=cost, reward=reward, penalty=penalties[: len(limits)])
        totals += [1.0, cost, *penalties]
    assert np.isfinite(controller._state["scratch"]).all()
    if limits:
        assert totals[2] < 0.45 * totals[0]


def test_a_context_may_be_left_out_where_one_pull_is_in_flight():
    controller = Controller(task(Features(1)), Resolve(), budget=40)
    arm = controller.ask(context=[1.0], eligible=["b"])
    assert arm == 1
    controller.ask(context=[2.0], eligible=["a"])
    controller.tell("b", reward=1.0, penalty=0.0)
    controller.ask(context=[3.0], eligible=["a"])
    with pytest.raises(InputError, match="context is missing; must be given, because 2 pulls of"):
        controller.tell("a", reward=1.0, penalty=0.0)
    restored = Controller.restore(controller.snapshot())
    assert restored == controller
    for one in (controller, restored):
        one.tell("a", reward=1.0, penalty=0.0, context=[3.0])
        one.tell("a", reward=0.5, penalty=0.0)
        assert one.in_flight == [0, 0, 0]
        assert one._state.scratch.models.recent[linear.STRIDE : linear.STRIDE + 3].tolist() == [
            1.0,
            3.0,
            2.0,
        ]
    assert restored == controller
    controller.ask(context=[7.0])
    controller.void(int(np.argmax(controller.in_flight)))
    assert sum(controller.in_flight) == 0
    assert not any(controller._beside.vectors.values())


def test_pulls_in_flight_do_not_change_what_is_learned():
    controller, _ = played(30, 2)
    models = controller._state.scratch.models
    before = models.gram.copy()
    controller.ask_many(5, contexts=[[1.0, float(number)] for number in range(5)])
    assert sum(controller.in_flight) == 5
    np.testing.assert_array_equal(models.gram, before)
    with pytest.raises(InputError, match="contexts: 1 must be 2, one for each decision"):
        controller.ask_many(2, contexts=[[1.0, 2.0]])


@pytest.mark.parametrize("policy", [LyOn(window0=8), UCBALP()])  # the second uses types
def test_other_policies_ignore_features(policy):
    controller = Controller(task(Features(2)), policy, budget=40)
    plain = Controller(task(None), policy, budget=40)
    for number in range(20):
        arm = controller.ask(context=[1.0, number])
        assert plain.ask() == arm
        controller.tell(arm, reward=number % 2, penalty=0.0, context=[1.0, number])
        plain.tell(arm, reward=number % 2, penalty=0.0)
    assert sum(controller.pulls) == 20
    assert Controller.restore(controller.snapshot()) == controller
    with pytest.raises(InputError, match="1 numbers must be 2"):
        controller.ask(context=[1.0])


def test_scales_that_grow_keep_what_was_learned():
    made = Task(["a", "b"], LIMITS, Scales(grow=True), costs=1, contexts=Features(1))
    controller = Controller(made, Resolve(), budget=400)
    random = np.random.default_rng(0)
    for step in range(200):
        row = [float(random.choice([-1.0, 1.0]))]
        arm = controller.ask(context=row)
        best = arm == (row[0] > 0.0)
        reward = 3.0 if step == 100 else float(best)
        controller.tell(arm, reward=reward, penalty=0.0)
    asked = [controller.choose(context=[1.0]) for _ in range(20)]
    assert asked.count(1) >= 18
    assert np.isfinite(controller._state["scratch"]).all()


def test_a_retired_arm_is_not_pulled():
    controller = Controller(task(Features(1)), Resolve(), budget=100)
    controller.retire_arm("a")
    for number in range(20):
        arm = controller.ask(context=[float(number)])
        assert arm != 0
        controller.tell(arm, reward=0.5, penalty=0.0)
    with pytest.raises(InputError, match="arm 'd': cannot be added to a task with contexts"):
        controller.add_arm("d")


# --- data ---------------------------------------------------------------------------------------


def table(rows=400, seed=0, mixed=False):
    """Arm 0 is good where the first feature is negative, arm 1 where it is positive."""
    random = np.random.default_rng(seed)
    features = random.normal(size=(rows, 3))
    good = np.column_stack([features[:, 0] < 0.0, features[:, 0] >= 0.0])
    outcomes = np.ones((rows, 2, 3))
    outcomes[:, :, 1] = random.random((rows, 2)) < np.where(good, 0.9, 0.2)
    outcomes[:, :, 2] = random.random((rows, 2)) < 0.1
    contexts = features
    if mixed:
        contexts = [("xy"[number % 2], row.tolist()) for number, row in enumerate(features)]
    return FullTable(["a", "b"], ["bad"], outcomes, contexts=contexts)


@pytest.mark.parametrize("mixed", [False, True])
def test_a_replay_sees_the_features_of_the_rows(mixed):
    full = table(mixed=mixed)
    found = {
        row.policy: row.reward_rate.mean
        for row in replay(full, LIMITS, ["resolve", "ts-lp"], budget=399, orders=4)
    }
    assert found["resolve"] > 0.75
    assert found["ts-lp"] < 0.7


def test_what_a_log_taught_is_used_from_the_first_pull_on():
    full = table(600, seed=5)
    made = task_of(full, LIMITS)
    controller = Controller(made, Resolve(), budget=100, learn_from=full, weight=0.5)
    assert controller.spent == 0
    assert controller.pulls == [0, 0]
    for arm, value in enumerate((-1.0, 1.0)):  # a first step looks at any arm from time to time
        assert [controller.choose(context=[value, 0.0, 0.0]) for _ in range(20)].count(arm) >= 15
    assert Controller.restore(controller.snapshot()) == controller


def test_a_log_without_features_is_refused():
    plain = FullTable(["a", "b"], ["bad"], np.ones((3, 2, 3)))
    with pytest.raises(InputError, match="learn_from: has no contexts, which the task needs"):
        Controller(task(Features(3), "ab"), Resolve(), budget=10, learn_from=plain)
    pairs = task(Mixed(["x", "y"], ["length"]), "ab")  # three columns, as the features have
    numbers = FullTable(["a", "b"], ["bad"], np.ones((3, 2, 3)), contexts=np.full((3, 3), 0.5))
    with pytest.raises(InputError, match=r"context = array.*: must be a type and its features"):
        Controller(pairs, Resolve(), budget=10, learn_from=numbers)
    with pytest.raises(InputError, match="contexts: row 1, feature 2 = nan: must be a finite"):
        FullTable(["a"], [], np.ones((1, 1, 2)), contexts=np.array([[1.0, np.nan]]))
