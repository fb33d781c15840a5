"""Numbers as arms for requests with types: problems, the best mixture, engines, live."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.intervals import CASES, SALE, on_grid, over_interval, second_price
from tests.policies.test_smooth import basis, prior
from tightrope import (
    Arm,
    Bernoulli,
    Constant,
    Controller,
    Interval,
    Limit,
    LyOn,
    Problem,
    Resolve,
    Scales,
    Task,
    TwoPoint,
    Types,
    open_campaign,
    oracle,
    simulate,
)
from tightrope.engine import python, single
from tightrope.engine.planning import plan_jobs
from tightrope.errors import InputError, ProblemError
from tightrope.problem import Box

BIDS = Interval(0.0, 1.0, name="bid", points=11)
BOX = Box({"bid": (0, 1), "rate": (0, 1)}, points=7)
LIMITS = {"bad": Limit(0.1, per="pull")}
SHARES = {"day": 1, "night": 2}


def clicks(worth):
    return lambda bid, rate=0.0: Arm(
        "any", Constant(1), Bernoulli(worth * bid), Bernoulli(bid * bid / 4 + rate / 9)
    )


BY_TYPE = {"day": clicks(0.9), "night": clicks(0.3)}


# --- problems and the best mixture --------------------------------------------------------------


@pytest.mark.parametrize("space", [BIDS, BOX], ids=["interval", "box"])
def test_a_problem_is_written_and_read(space):
    problem = Problem(space, arm=BY_TYPE, contexts=SHARES, limits=LIMITS)
    again = Problem.from_toml(problem.to_toml())
    assert again == problem
    assert again.task.space == space
    assert again.task.contexts == Types(["day", "night"])


def test_points_by_type_are_written_as_points():
    points = {name: {0.0: arm(0.0), 1.0: arm(1.0)} for name, arm in BY_TYPE.items()}
    problem = Problem(BIDS, arm=points, contexts=SHARES, limits=LIMITS)
    text = problem.to_toml()
    assert text.count("[[arms]]") == 2
    assert Problem.from_toml(text) == problem
    assert problem.by_type[0].arms[5].reward.mean == pytest.approx(0.45)


@pytest.mark.parametrize(
    ("arm", "line"),
    [
        (clicks(0.5), "arm = .*: must be functions, or arms by point, for each type"),
        ({"day": clicks(0.5)}, r"arms: types = \['day'\]: must be those of contexts"),
        (
            {"day": {0.0: clicks(1)(0.0), 1.0: clicks(1)(1.0)}, "night": clicks(0.5)},
            "arm: points must be the same for every type",
        ),
    ],
)
def test_curves_that_do_not_fit_the_types_are_refused(arm, line):
    with pytest.raises(ProblemError, match=line):
        Problem(BIDS, arm=arm, contexts=SHARES, limits=LIMITS)


def test_the_best_bids_of_two_second_price_auctions_have_a_closed_form():
    """With sales of chance s_x, the best bid of type x under a limit L per sale is 2 s_x L."""

    def auction(share):
        def arm(bid):
            rows = second_price(bid)
            return Arm(
                "bid",
                Constant(1),
                Bernoulli(bid * SALE * share),
                TwoPoint(0, 1, rows.penalties[0].mean),
            )

        return arm

    space = Interval(0.0, 1.0, name="bid", points=31)
    curves = {"rare": auction(1.0), "often": auction(2.0)}
    limits = {"dollars": Limit(0.8, per="reward")}
    best = oracle(Problem(space, arm=curves, contexts={"rare": 3, "often": 1}, limits=limits))
    for name, share in (("rare", 1.0), ("often", 2.0)):
        bids = best.numbers_by_type[name]
        bid = float(np.dot(list(bids), list(bids.values())))
        assert bid == pytest.approx(2.0 * SALE * share * 0.8, abs=1e-3)
    assert 0.0 <= best.error < 1e-6
    shares = [best.numbers_by_type[name] for name in ("rare", "often")]
    total = {
        bid: 0.75 * shares[0].get(bid, 0) + 0.25 * shares[1].get(bid, 0) for bid in best.numbers
    }
    assert best.numbers == pytest.approx(total)


@pytest.mark.parametrize("points", [11, 21])
def test_the_best_mixture_of_any_numbers_is_that_of_a_fine_grid(points):
    best = oracle(over_interval(CASES["segments"], points))
    fine = oracle(on_grid(CASES["segments"], 1001)).reward_rate
    assert fine * (1 - 1e-8) <= best.reward_rate <= fine * (1 + 1e-5)
    assert best.error < 1e-6


def test_equal_types_have_the_best_mixture_of_one():
    one = oracle(Problem(BIDS, arm=clicks(0.9), limits=LIMITS))
    same = {"day": clicks(0.9), "night": clicks(0.9)}
    two = oracle(Problem(BIDS, arm=same, contexts=SHARES, limits=LIMITS))
    assert two.reward_rate == pytest.approx(one.reward_rate)
    assert two.error == pytest.approx(one.error)
    assert two.numbers == one.numbers
    assert two.numbers_by_type == {"day": one.numbers, "night": one.numbers}
    assert two.by_type.shape == (2, 11)


# --- engines ------------------------------------------------------------------------------------


def costly(worth):
    return lambda x: Arm(
        "a",
        TwoPoint(1, 9, x / 2),
        Bernoulli(worth * x),
        TwoPoint(0, 4, x / 2),
    )


SITUATIONS = {
    "interval": (Problem(BIDS, arm=BY_TYPE, contexts=SHARES, limits=LIMITS, costs=1), 40),
    "per reward": (
        Problem(BIDS, arm=BY_TYPE, contexts=SHARES, limits={"bad": Limit(0.3, per="reward")}),
        30,
    ),
    "random costs": (
        Problem(
            BIDS,
            arm={"day": costly(0.8), "night": costly(0.2)},
            contexts=SHARES,
            limit=0.15,
            scales=Scales(cost=9, penalty=4),
        ),
        120,
    ),
    "two limits": (
        Problem(
            BIDS,
            arm={
                name: lambda x, w=worth: Arm(
                    "a", Constant(1), Bernoulli(w * x), [Bernoulli(x / 2), Bernoulli(0.2)]
                )
                for name, worth in (("day", 0.9), ("night", 0.3))
            },
            contexts=SHARES,
            limit=(0.3, 0.3),
        ),
        30,
    ),
    "one type": (
        Problem(BIDS, arm={"day": clicks(0.9)}, contexts={"day": 1}, limits=LIMITS),
        20,
    ),
    "box": (Problem(BOX, arm=BY_TYPE, contexts=SHARES, limits=LIMITS), 8),
}
RUNS = [
    *((situation, Resolve()) for situation in SITUATIONS),
    ("interval", Resolve(risk=0.1)),
    ("interval", LyOn(v=5, delta=0.01)),
]


@pytest.mark.filterwarnings("ignore:policy resolve")
@pytest.mark.parametrize(
    ("situation", "policy"),
    RUNS,
    ids=[f"{situation}, {policy.label}" for situation, policy in RUNS],
)
def test_compiled_runs_are_those_of_plain_python(situation, policy):
    problem, budget = SITUATIONS[situation]
    job = plan_jobs(problem, {"p": policy}, [budget], 2, seed=7, backend="cpu")["p", budget]
    plain, compiled = (
        plan(job).run(np.arange(2), np.zeros(1, np.uint8))[0]
        for plan in (python.plan, single.plan_single)
    )
    for mine, theirs in zip(vars(plain).values(), vars(compiled).values(), strict=True):
        assert np.array_equal(mine, theirs)


def test_types_get_their_own_prices():
    problem = over_interval(CASES["segments"])
    results = simulate(problem, [Resolve()], budgets=[4000], runs=8, seed=3)
    row = results.summary()[0]
    assert row["reward_rate"] > 0.85 * oracle(problem).reward_rate


# --- curves -------------------------------------------------------------------------------------


def taught(reports=96):
    """A controller after some reports: most of them of type day."""
    space = Interval(0, 1, name="x", points=21)
    task = Task(space, {"bad": Limit(0.1)}, contexts=["day", "night"])
    controller, random, told = (
        Controller(task, Resolve(), budget=1000, seed=3),
        np.random.default_rng(5),
        [],
    )
    for k in range(reports):
        kind, point = ("night" if k % 8 == 0 else "day"), k * 5 % 21
        x = space.value(point)
        law = BY_TYPE[kind](x)
        outcomes = [1.0, *(float(random.random() < one.mean) for one in law.laws[1:])]
        controller.tell(x, *outcomes, context=kind)
        told.append((kind == "night", point, *outcomes))
    type(controller.policy).renew(
        controller._state.constants, controller._state.record, controller._state.scratch
    )
    return space, controller, np.array(told)


def test_the_curve_of_a_type_lies_around_that_of_all():
    space, controller, told = taught()
    scratch, phi = controller._state.scratch, basis(space)
    own, whole = scratch.curves, scratch.whole
    for channel in (1, 2):
        of = {
            name: getattr(own, name).reshape(2, 21, 3)[:, :, channel]
            for name in ("mean", "unsure", "noise")
        }
        centre, error = (
            getattr(whole, name).reshape(-1, 3)[:21, channel] for name in ("mean", "unsure")
        )
        before = prior(space, own.height[channel], own.bend[channel], own.size[channel])
        first = np.einsum("kd,kd->k", phi, np.linalg.solve(before, phi.T).T)
        for kind in (0, 1):
            rows = told[told[:, 0] == kind]
            design, places = phi[rows[:, 1].astype(int)], rows[:, 1].astype(int)
            variance = of["noise"][kind][places]
            precision = before + design.T @ (design / variance[:, None])
            away = rows[:, 2 + channel] - centre[places]
            weights = np.linalg.solve(precision, design.T @ (away / variance))
            assert of["mean"][kind] == pytest.approx(centre + phi @ weights, abs=1e-9)
            spread = np.einsum("kd,kd->k", phi, np.linalg.solve(precision, phi.T).T)
            wanted = spread + (spread / first) ** 2 * error
            assert of["unsure"][kind] == pytest.approx(wanted, rel=1e-6)


# --- live ---------------------------------------------------------------------------------------

TASK = Task(BIDS, LIMITS, contexts=["day", "night"], costs=1)


def test_a_controller_takes_numbers_and_types():
    controller = Controller(TASK, Resolve(), budget=100, seed=1)
    for k in range(12):
        kind = "day" if k % 3 else "night"
        bid = controller.ask(context=kind)
        assert 0.0 <= bid <= 1.0
        controller.tell(bid, reward=k % 2, penalty=0, context=kind)
    controller.tell(0.52, reward=1, penalty=0, context="night")
    assert 0.2 <= controller.ask((0.2, 0.5), "day") <= 0.5
    assert sum(controller.tried.values()) == 13
    assert sum(controller.pulls_by_type["night"]) == 5
    again = Controller.restore(controller.snapshot())
    assert again == controller
    assert again.ask(context="day") == controller.ask(context="day")
    controller.void(controller.ask(context="night"), context="night")


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (lambda c: c.ask(), "context is missing; must be one of 'day', 'night'"),
        (lambda c: c.ask(context="dya"), "context 'dya' is unknown; did you mean 'day'?"),
        (
            lambda c: c.tell(1.2, reward=0, penalty=0, context="day"),
            r"arm: bid = 1.2: must lie in \[0.0, 1.0\]",
        ),
    ],
)
def test_a_wrong_request_is_refused_in_one_line(call, line):
    controller = Controller(TASK, Resolve(), budget=100)
    with pytest.raises(InputError, match=line):
        call(controller)


@pytest.mark.parametrize("contexts", [["day", "night"], Types()], ids=["listed", "open"])
def test_a_campaign_keeps_its_ledger(tmp_path, contexts):
    task = Task(BIDS, LIMITS, contexts=contexts, costs=1)
    with open_campaign(tmp_path / "a.db", "bids", task=task, budget=50) as campaign:
        for k in range(10):
            ticket = campaign.ask(f"r{k}", context="night" if k % 4 == 0 else "day")
            campaign.tell(ticket, reward=k % 2, penalty=0)
        ticket = campaign.ask("last", context="day", eligible=(0.3, 0.6))
        assert 0.3 <= ticket.value <= 0.6
        assert ticket.context == "day"
        status = campaign.status()
        assert {one["type"]: one["asked"] for one in status["types"]} == {"night": 3, "day": 8}
        assert sum(point["pulls"] for point in status["curve"]) == 10
        assert not campaign.verify().wrong
    with open_campaign(tmp_path / "a.db", "bids") as campaign:
        assert campaign.ask("next", context="night").context == "night"
