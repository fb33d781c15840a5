"""resolve over numbers for requests with features: models and prices against numpy, engines."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.interval_features import CASES, best_rate, problem_of
from tightrope import (
    Controller,
    Features,
    FullTable,
    Interval,
    Limit,
    Problem,
    Resolve,
    Scales,
    Task,
    open_campaign,
    replay,
    simulate,
)
from tightrope.policies.parts.linear import SEEN
from tightrope.policies.parts.regression import complete, solve_channel
from tightrope.policies.state import WAVES, request_waves
from tightrope.problem import Box, Mixed

POINTS = 9
BIDS = Interval(0.0, 2.0, name="bid", points=POINTS)
BOX = Box({"bid": (0, 2), "rate": (0, 1)}, points=7)
LIMITS = {"bad": Limit(0.2, per="pull")}
PAIR = Mixed(["u", "v"], ["length"])


def task(contexts, **more):
    return Task(BIDS, LIMITS, contexts=contexts, **{"costs": 1, **more})


def taught(contexts, reports=150, seed=5, **more):
    """A controller after some reports, and those [n]: columns of the request, point, reward."""
    controller = Controller(task(contexts, **more), Resolve(), budget=1000, seed=3)
    random, told = np.random.default_rng(seed), []
    for number in range(reports):
        row = [random.normal(3.0 + number / 100, 2.0), random.gamma(2.0, 10.0)]
        context = ("uv"[number % 3 > 0], row[:1]) if isinstance(contexts, Mixed) else row
        bid = controller.ask(context=context)
        chance = np.clip(0.1 + 0.3 * bid + 0.1 * (row[0] - 3.0) * (bid - 1.0), 0.0, 1.0)
        reward = float(random.random() < chance)
        controller.tell(bid, reward=reward, penalty=float(random.random() < bid / 5))
        columns = controller.contexts.row(context).astype(float)
        told.append((columns, BIDS.number_of(bid), reward))
    return controller, told


def waves():
    """The waves at every point, by their definition."""
    turns = np.outer(np.linspace(0.0, 1.0, POINTS), np.arange(WAVES))
    return np.where(np.arange(WAVES) > 0, np.sqrt(2.0), 1.0) * np.cos(np.pi * turns)


def pairs(scratch, told):
    """The columns of reported pairs in the present frame, and the rewards."""
    models, each = scratch.models, request_waves(1 + len(told[0][0]))
    own, shared = models.sizes.reshape(2, -1)
    found = []
    for columns, point, _ in told:
        size = 1 + len(columns)
        z = (columns - models.centre[1:size]) * models.unit[1:size]
        wave = waves()[point]
        found.append(np.concatenate([own * wave, np.kron(z, (shared * wave)[:each])]))
    return np.array(found), np.array([reward for *_, reward in told])


@pytest.mark.parametrize("contexts", [Features(2), PAIR], ids=["features", "mixed"])
def test_the_model_is_a_ridge_regression_on_all_pairs(contexts):
    """Also after the requests were standardised anew, many times."""
    controller, told = taught(contexts)
    scratch, record = controller._state.scratch, controller._state.record
    joint, columns = scratch.joint, pairs(scratch, told)
    complete(joint, 0, 3)
    size, used = len(joint.here), columns[0].shape[1]
    gram = np.tril(joint.gram.reshape(3, size, size)[1])[:used, :used]
    np.testing.assert_allclose(gram, np.tril(columns[0].T @ columns[0]), rtol=1e-9, atol=1e-7)
    moments = columns[0].T @ columns[1]
    np.testing.assert_allclose(joint.moments.reshape(3, -1)[1][:used], moments, atol=1e-7)
    assert record.totals.reshape(-1, 3)[:, 1].sum() == scratch.whole.totals[1] == columns[1].sum()

    solve_channel(scratch.whole, joint, 0, 1, WAVES - 1)
    ridge = np.where(np.arange(used) < WAVES, joint.ridge[4], joint.ridge[5])
    ridge[0], guess = 1.0, 0.5  # one pull's worth of half of a reward's size
    precision, right = columns[0].T @ columns[0] + np.diag(ridge), moments
    right[0] += guess
    slopes = joint.slopes.reshape(3, -1)[1][:used]
    np.testing.assert_allclose(slopes, np.linalg.solve(precision, right), atol=1e-7)


def test_the_curve_of_the_average_request_is_as_sure_as_its_posterior():
    controller, _ = taught(Features(2), reports=40)
    scratch = controller._state.scratch
    joint, models, size = scratch.joint, scratch.models, len(scratch.joint.here)
    factor = np.tril(joint.factors.reshape(3, size, size)[1])
    used = int(joint.clock[4])
    factor = factor[:used, :used]
    np.fill_diagonal(factor, 1.0 / factor.diagonal())
    average = np.zeros((POINTS, used))
    average[:, :WAVES] = models.sizes[:WAVES] * waves()
    expected = np.einsum("ki,ij,kj->k", average, np.linalg.inv(factor.T @ factor), average)
    np.testing.assert_allclose(models.doubt.reshape(POINTS, 3)[:, 1], expected, rtol=1e-6)
    curve = average @ joint.slopes.reshape(3, -1)[1][:used]
    assert models.usual.reshape(POINTS, 3)[:, 1] == pytest.approx(np.clip(curve, 0, 1), abs=0.05)


def test_the_price_is_the_least_at_which_the_window_keeps_the_rate():
    """Brute force over all requests of the window and all points, on a fine list of prices."""
    controller, _ = taught(Features(2), reports=120)
    scratch = controller._state.scratch
    while scratch.solved[0] != controller._state.record.steps[0] + 1.0:
        controller.ask(context=[3.0, 20.0])
        controller.tell(0.25, reward=0.0, penalty=0.0, context=[3.0, 20.0])
        controller.choose(context=[3.0, 20.0])
    seen = int(scratch.models.clock[SEEN])
    means = scratch.models.means.reshape(POINTS, 3, 256)[:, :, :seen]
    drawn = means + scratch.drawn.reshape(POINTS, 3, 1)

    def incurred(price):
        best = (drawn[:, 1] - price * drawn[:, 2]).argmax(axis=0)
        return means[best, 2, np.arange(seen)].mean()

    price, promised = scratch.price[1], scratch.promised[0]
    rates = {one: incurred(one) for one in np.geomspace(1e-4, 1e4, 2000)}
    keeps = [one for one, rate in rates.items() if rate <= promised]
    assert keeps
    assert price > 0.0
    assert incurred(price) <= promised
    assert incurred(price / 1.03) > promised or price == pytest.approx(keeps[0], rel=0.03)


def test_the_best_number_moves_with_the_request():
    """A second-price auction: the best bid is in proportion to the chance of a sale."""
    case = CASES["capped"]
    problem, best = problem_of(case), best_rate(case)
    runs = {"budgets": 8000, "runs": 6, "seed": 4}
    [seen] = simulate(problem, "resolve", **runs).rows()
    [blind] = simulate(problem.blind, "resolve", **runs).rows()
    assert seen.reward_rate.mean > blind.reward_rate.mean + 0.03 * best
    assert seen.reward_rate.mean > 0.9 * best
    assert seen.violation[0].mean < 0.01 * case.limit.number

    controller = Controller(problem.task, Resolve(), budget=3000, seed=1)
    random, bids = np.random.default_rng(2), []
    for _ in range(2900):
        x, price = random.random(2)
        bid = controller.ask(context=[x])
        won = bid > price
        sale = float(won and random.random() < 0.1 + 0.5 * x)
        controller.tell(bid, cost=1, reward=sale, penalty=won * price)
        bids.append((x, bid))
    late = np.array(bids[1500:])
    low, high = (late[side, 1].mean() for side in (late[:, 0] < 0.3, late[:, 0] > 0.7))
    assert high > 1.6 * low


def test_the_waves_of_a_box_are_products_in_the_order_of_their_frequency():
    controller = Controller(Task(BOX, LIMITS, costs=1, contexts=Features(1)), Resolve(), budget=9)
    models = controller._state.scratch.models
    t = np.linspace(0.0, 1.0, 7)
    alone = np.array([np.ones(7), *(np.sqrt(2.0) * np.cos(np.pi * j * t) for j in (1, 2, 3))])
    pairs = [(0, 0), (0, 1), (1, 0), (1, 1), (0, 2), (2, 0), (1, 2), (2, 1), (2, 2), (0, 3), (3, 0)]
    expected = np.array([np.outer(alone[i], alone[j]).ravel() for i, j in [*pairs, (1, 3)]])
    np.testing.assert_allclose(models.waves.reshape(-1, WAVES).T, expected, atol=1e-12)
    sizes = models.sizes[WAVES + 1 : 2 * WAVES] / models.sizes[WAVES]
    frequency = np.hypot(*np.array([*pairs, (1, 3)]).T)[1:]
    np.testing.assert_allclose(sizes, frequency**-2.0)


def test_two_numbers_move_with_the_request():
    """The best price is the lowest or the highest by the feature; the best effort is 0.5."""
    box = Box({"price": (0, 1), "effort": (0, 1)}, points=11)
    task, random = Task(box, {}, costs=1, contexts=Features(1)), np.random.default_rng(3)
    controller, late = Controller(task, Resolve(), budget=1000, seed=1), []
    for number in range(1000):
        x = random.random()
        price, effort = controller.ask(context=[x])
        chance = 0.5 + 0.4 * (2.0 * x - 1.0) * (2.0 * price - 1.0) - (effort - 0.5) ** 2
        controller.tell((price, effort), reward=float(random.random() < chance))
        late += [(x, price, effort)] if number > 600 else []
    x, price, effort = np.array(late).T
    assert price[x > 0.7].mean() > price[x < 0.3].mean() + 0.7
    assert abs(effort - 0.5).mean() < 0.25


# --- hostile requests ---------------------------------------------------------------------------


HOSTILE = {
    "constant": lambda n: [1.0, 2.0],
    "huge": lambda n: [3e38 * (-1) ** n, 1e-38],
    "jump": lambda n: [0.0 if n < 40 else 1e30, n],
    "one far": lambda n: [1e6 if n == 20 else n % 3, 0.0],
    "drift": lambda n: [1e9 + n, n * n],
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("risk", [None, 0.05])
def test_the_state_stays_finite(name, risk):
    limits = {"bad": Limit(0.3, per="reward")}
    made = Task(BIDS, limits, Scales(grow=True), contexts=Features(2))
    controller = Controller(made, Resolve(risk=risk), budget=300)
    random = np.random.default_rng(1)
    for number in range(90):
        bid = controller.ask(context=HOSTILE[name](number))
        cost, reward = random.random() * 4.0, float(random.random() < bid / 3)
        controller.tell(bid, cost=cost, reward=reward, penalty=bid * random.random())
        assert 0.0 <= bid <= 2.0
    assert np.isfinite(controller._state["scratch"]).all()
    assert (controller._state.scratch.models.doubt >= 0.0).all()


def test_scales_that_grow_keep_the_models():
    """The slopes in the user's units are those with scales that were large from the start."""
    found = []
    for scales in (Scales(grow=True), Scales(cost=5, reward=7, penalty=1)):
        made = Task(BIDS, LIMITS, scales, contexts=Features(2))
        controller, random = Controller(made, Resolve(), budget=1000), np.random.default_rng(1)
        for number in range(60):
            context, bid = random.normal(size=2), [0.0, 1.0, 2.0][number % 3]
            controller.ask(context=context)
            cost, reward, penalty = random.random(3) * [1 + number // 30 * 4, 1 + number / 10, 0.5]
            controller.tell(bid, cost=cost, reward=reward, penalty=penalty, context=context)
        slopes = controller._state.scratch.joint.slopes.reshape(3, -1)
        found.append(slopes * np.array(controller.task.scales.channels)[:, np.newaxis])
    np.testing.assert_allclose(found[0], found[1], atol=1e-6)


# --- engines and live ---------------------------------------------------------------------------


def table(rows=60, *, mixed=False, costly=False, penalties=("bad",), space=BIDS):
    random, numbers = np.random.default_rng(0), np.array(space.grid)[:, 0] / 2.0
    x, points = random.normal(size=(rows, 2)) * [1.0, 50.0], len(space)
    first, outcomes = np.tanh(x[:, :1]), np.ones((rows, points, 2 + len(penalties)))
    outcomes[:, :, 1] = random.random((rows, points)) < 0.5 + 0.4 * first * (numbers - 0.5)
    for m in range(len(penalties)):
        chance = 0.5 * numbers * (1.0 + 0.5 * first)
        outcomes[:, :, 2 + m] = random.random((rows, points)) < chance
    if costly:
        outcomes[:, :, 0] = random.uniform(0.2, 1.0, (rows, points)) * (0.5 + 0.5 * numbers)
    pair = [("xy"[number % 2], row.tolist()) for number, row in enumerate(x)]
    return FullTable(space, penalties, outcomes, contexts=pair if mixed else x)


SITUATIONS = {
    "per pull": ({}, LIMITS, "resolve"),
    "mixed": ({"mixed": True}, {"bad": Limit(0.3, per="reward")}, "resolve"),
    "costs": ({"costly": True}, {"bad": Limit(0.3, per="cost")}, "resolve:risk=0.05"),
    "two limits": (
        {"penalties": ("bad", "slow")},
        {"bad": Limit(0.2, per="pull"), "slow": Limit(0.1, per="reward")},
        "resolve",
    ),
    "no limit": ({"penalties": ()}, {}, "resolve"),
    "box": ({"space": BOX, "rows": 20}, LIMITS, "resolve:risk=0.05"),
}


@pytest.mark.filterwarnings("ignore:policy resolve")
@pytest.mark.parametrize("name", SITUATIONS)
def test_engines_agree_to_the_bit(name):
    more, limits, policy = SITUATIONS[name]
    made = Problem.from_table(table(**more), limits)
    budget = 8 if name == "box" else 30  # plain Python is slow over many points
    more = {"budgets": budget, "runs": 2}
    found = [simulate(made, policy, backend=one, **more) for one in ("python", "cpu")]
    plain, compiled = (one[policy].normalised_runs for one in found)
    for field in ("reward", "cost", "penalty", "pulls", "queue"):
        np.testing.assert_array_equal(getattr(plain, field), getattr(compiled, field))


def test_engines_agree_with_late_reports():
    made = Problem.from_table(table(), LIMITS)
    more = {"budgets": 20, "runs": 2, "delay": 3}
    found = [simulate(made, "resolve", backend=one, **more) for one in ("python", "cpu")]
    plain, compiled = (one["resolve"].normalised_runs for one in found)
    np.testing.assert_array_equal(plain.pulls, compiled.pulls)


def test_a_problem_is_written_and_read():
    made = Problem.from_table(table(), LIMITS)
    assert made.space == BIDS
    assert Problem.from_toml(made.to_toml()) == made
    assert made.blind.space == BIDS


@pytest.mark.parametrize("contexts", [Features(2), PAIR, Features(2, erasable=True)])
def test_a_campaign_decides_verifies_and_forgets(contexts, tmp_path):
    campaign = open_campaign(tmp_path / "c.db", "auctions", task=task(contexts), budget=500)
    random = np.random.default_rng(0)

    def context():
        row = random.normal(size=2).tolist()
        return ("v", row[:1]) if isinstance(contexts, Mixed) else row

    tickets = [campaign.ask(context=context(), eligible=(0.5, 1.5)) for _ in range(4)]
    for _ in range(30):
        tickets.append(campaign.ask(context=context()))
        ticket = tickets.pop(0)
        campaign.tell(ticket, reward=float(random.random() < ticket.value / 2), penalty=0.0)
        assert 0.0 <= ticket.value <= 2.0
    status = campaign.status()
    assert len(status["curve"]) == POINTS
    assert status["features"]
    assert campaign.verify().good
    if contexts.erasable:
        assert campaign.erase_contexts() == 30
        campaign.tell(campaign.ask(context=context()), reward=1.0, penalty=0.0)
        assert campaign.verify().good
    last = context()
    asked = campaign.ask("next", context=last).value
    campaign.disconnect()
    again = open_campaign(tmp_path / "c.db", "auctions")
    assert again.ask("next", context=last).value == asked
    again.disconnect()


def test_a_controller_is_restored_and_learns_from_a_table():
    controller, _ = taught(Features(2), reports=40)
    again = Controller.restore(controller.snapshot())
    assert again == controller
    for number in range(10):
        context = [float(number), 20.0]
        assert again.ask(context=context) == controller.ask(context=context)
    made = Problem.from_table(table(), LIMITS)
    before = Controller(made.task, Resolve(), budget=200, learn_from=table(), weight=0.3)
    assert before._state.scratch.whole.pulls[0] == pytest.approx(0.3 * 60 * POINTS)
    assert before.effects() == []


@pytest.mark.parametrize("space", [BIDS, BOX], ids=["interval", "box"])
def test_a_table_over_numbers_is_replayed(space):
    found = replay(table(space=space), LIMITS, ["resolve", "lyon"], budget=20, orders=2)
    for row in found:
        assert row.pulls == 21
        assert len(row.pull_share) == len(space)


@pytest.mark.parametrize(("columns", "each"), [(2, 6), (17, 6), (33, 3), (65, 2), (128, 2)])
def test_the_columns_of_a_pair_stay_few(columns, each):
    assert request_waves(columns) == each
    assert WAVES + each * (columns - 1) <= 270
