"""Asks, tells, voids, rescales, additions and retirements in any order, on every policy.

The slow, obvious model: a ledger of what was asked and told, and the same controller without
compiled code, which decides on a plain copy of the whole state.
"""

from __future__ import annotations

import random

import numpy as np
import pytest

from tightrope import Controller, Limit, LyOn, Resolve, Scales, Task, parse_policy
from tightrope.errors import InputError
from tightrope.live.calls import Background
from tightrope.policies import POLICIES
from tightrope.policies.base import InformedPolicy, set_up

TASK = Task(["a", "b", "c"], {"bad": Limit(0.4)}, smallest_cost=0.2, slack=0.5, safe="b")
MEANS = {"a": (0.6, 0.7, 0.3), "b": (0.4, 0.4, 0.05), "c": (0.5, 0.5, 0.2)}
LABELS = sorted(
    {
        label
        for kind in POLICIES.values()
        if not issubclass(kind, InformedPolicy)
        for label in (kind.name, *kind.contestants, *kind.forgetful)
    }
    - {"fixed", "control-budget:known=true"}
)


COMPILED = {"lyon", "resolve", "ts-lp", "primal-dual-bwk", "pessimistic-optimistic"}  # the others
# are compared with the model alone: compiling every one would take half of the time of all tests


def policy_of(label):
    policy = parse_policy(label)
    return None if isinstance(policy, InformedPolicy) and policy.needs_laws(TASK) else policy


def coins(rng, name):
    return tuple(float(rng.random() < mean) for mean in MEANS.get(name, (0.5, 0.5, 0.1)))


@pytest.fixture
def plain(monkeypatch):
    """A function that makes a controller without compiled code."""

    def make(*arguments, **options):
        with monkeypatch.context() as patch:
            patch.setattr(Background, "wanted", False)
            return Controller(*arguments, **options, background=True)

    return make


@pytest.mark.parametrize("label", LABELS)
def test_any_order_decides_as_the_plain_model_does(label, plain):
    policy = policy_of(label)
    if policy is None:
        pytest.skip(f"{label} is told the laws")
    rng = random.Random(label)
    fast = (Controller if label in COMPILED else plain)(TASK, policy, 60, seed=5)
    slow = plain(TASK, policy, 60, seed=5)
    asked, told, spent = [], [0, 0, 0], 0.0
    for turn in range(120):
        what = rng.choice(("ask", "ask", "tell", "tell", "void", "eligible", "restore"))
        if what == "restore" and label in COMPILED:
            again = Controller.restore(fast.snapshot())
            assert again == fast
            fast = again
        elif what in ("ask", "eligible", "restore"):
            eligible = None if what != "eligible" else rng.choice((["b"], ["a", "b"], [1, 2]))
            arm = fast.ask(eligible)
            assert arm == slow.ask(eligible), turn
            assert eligible is None or arm in eligible or TASK.names[arm] in eligible
            asked.append(arm)
        elif asked:
            arm = asked.pop(rng.randrange(len(asked)))
            if what == "void":
                fast.void(arm)
                slow.void(TASK.names[arm])
            else:
                cost, reward, penalty = coins(rng, TASK.names[arm])
                fast.tell(arm, cost, reward, penalty)
                slow.tell(arm, cost, reward, penalty)
                told[arm], spent = told[arm] + 1, spent + cost
        counted = [asked.count(k) for k in range(3)]
        assert fast.in_flight == slow.in_flight == counted
        assert fast.pulls == told
        assert fast.spent == spent
        assert fast.queues == slow.queues


@pytest.mark.parametrize("label", ["lyon", "resolve", "ts-lp", "pessimistic-optimistic"])
def test_what_was_in_flight_leaves_nothing_behind(label):
    """Once all is told or voided, the state is that of the tells alone."""
    rng = random.Random(3)
    busy, calm = (Controller(TASK, parse_policy(label), 60, seed=5) for _ in range(2))
    for _ in range(12):
        asked = busy.ask_many(5)
        rng.shuffle(asked)
        busy.void(asked.pop())
        for arm in asked:
            outcomes = coins(rng, TASK.names[arm])
            busy.tell(arm, *outcomes)
            calm.tell(arm, *outcomes)
    assert busy.pulls == calm.pulls
    assert busy.queues == calm.queues
    assert busy.spent == calm.spent
    if calm._state.spec.remembers:
        for name in ("pulls", "totals", "squares", "products", "remaining", "steps", "flight"):
            seen, wanted = (getattr(one._state.record, name) for one in (busy, calm))
            assert np.array_equal(seen, wanted), name


@pytest.mark.parametrize("label", ["lyon", "lyon:alpha=0.1", "resolve", "ucb-bwi", "lyon-ts"])
def test_two_hundred_asks_without_a_tell_are_no_herd(label):
    controller = Controller(TASK, parse_policy(label), 400, seed=1)
    controller.ask_many(200)
    assert min(controller.in_flight) >= 40


def test_an_allowance_is_charged_with_what_is_in_flight():
    """500 asks at once spread as 500 asks one by one would, not as one asked 500 times."""
    task = Task(["bold", "calm"], {"bad": Limit(0.2)}, costs=1)
    outcomes = {0: (0.9, 0.5), 1: (0.5, 0.0)}
    controller = Controller(task, Resolve(), 1000, seed=2)
    for _ in range(200):
        arm = controller.ask()
        controller.tell(arm, reward=outcomes[arm][0], penalty=outcomes[arm][1])
    before = controller.pulls[0]
    bold = controller.ask_many(500).count(0)
    assert 0.3 * 500 < bold < 0.5 * 500  # two fifths keep the limit
    assert 0.5 * (before + bold) * 0.95 <= 0.2 * 1000


def test_voids_and_tells_of_nothing_in_flight():
    controller = Controller(TASK, LyOn(), 60)
    with pytest.raises(InputError, match=r"arm = 'a': has no pull in flight to void"):
        controller.void("a")
    controller.tell("a", 1, 1, 0)  # an outcome from elsewhere
    assert controller.in_flight == [0, 0, 0]
    assert controller.pulls == [1, 0, 0]
    with pytest.raises(InputError, match=r"arm = 'd': is not an arm"):
        controller.void("d")
    with pytest.raises(InputError, match=r"eligible = \[\]: must name an arm"):
        controller.ask([])
    with pytest.raises(InputError, match=r"arm = 'e': is not an arm"):
        controller.ask(["e"])


# Arms that come and go.


@pytest.mark.parametrize("label", LABELS)
def test_arms_come_and_go(label, plain):
    policy = policy_of(label)
    if policy is None:
        pytest.skip(f"{label} is told the laws")
    rng = random.Random(label)
    controller = (Controller if label in COMPILED else plain)(TASK, policy, 200, seed=5)
    names = ["a", "b", "c"]

    def pull(times):
        chosen = []
        for _ in range(times):
            arm = controller.ask()
            controller.tell(arm, *coins(rng, names[arm]))
            chosen.append(arm)
        return chosen

    pull(40)
    late = controller.ask()
    pulls, spent = controller.pulls, controller.spent
    assert controller.add_arm("d") == 3
    names.append("d")
    assert controller.pulls == [*pulls, 0]
    assert controller.spent == spent
    assert controller.in_flight == [int(k == late) for k in range(4)]
    controller.retire_arm("a")
    chosen = pull(40)
    assert 0 not in chosen
    assert controller.retired == ["a"]
    controller.tell(late, *coins(rng, names[late]))
    again = Controller.restore(controller.snapshot())
    assert again == controller
    assert again.retired == ["a"]
    if label in COMPILED:
        assert again.ask_many(10) == controller.ask_many(10)


@pytest.mark.parametrize("label", ["lyon", "resolve", "ts-lp", "ucb-lp", "identify-resolve"])
def test_a_newcomer_is_tried(label):
    rng = random.Random(1)
    controller = Controller(TASK, parse_policy(label), 400, seed=5)
    for _ in range(60):
        arm = controller.ask()
        controller.tell(arm, *coins(rng, TASK.names[arm]))
    new = controller.add_arm("d")
    chosen = []
    for _ in range(60):
        chosen.append(controller.ask())
        controller.tell(chosen[-1], *((1.0, 1.0, 0.0) if chosen[-1] == new else (1.0, 0.2, 0.1)))
    assert chosen.count(new) >= 3


def test_a_newcomer_like_another_has_its_means():
    controller = Controller(TASK, Resolve(), 400)
    for _ in range(30):
        controller.tell("a", 0.5, 0.8, 0.2)
    controller.add_arm("d", like="a", weight=5)
    record = controller._state.record
    assert record.pulls[3] == 5.0
    assert np.allclose(record.totals[9:], 5 * np.array([0.5, 0.8, 0.2]))
    assert controller.pulls == [30, 0, 0, 0]  # it was not pulled
    assert controller.spent == 15.0


def test_a_safe_arm_cannot_leave():
    controller = Controller(TASK, Resolve(risk=0.05), 400)
    with pytest.raises(InputError, match="must keep the safe arm 'b'"):
        controller.retire_arm("b")
    with pytest.raises(InputError, match="must keep the safe arm 'b'"):
        controller.ask(["a", "c"])
    controller.retire_arm("a")
    controller.retire_arm("c")
    with pytest.raises(InputError, match="is the last arm"):
        controller.retire_arm("b")
    assert controller.ask_many(3) == [1, 1, 1]


def test_a_promise_rests_on_the_scales():
    grows = Task(["a", "b"], {"bad": Limit(0.4)}, "grow", safe="b")
    policy = Resolve(risk=0.05).for_task(grows)
    assert type(policy) is Resolve  # without the guard, and it says so
    assert "relies on scales that do not grow" in set_up(policy, grows, 100).warning
    task = Task(
        ["a", "b"],
        {"dollars": Limit(0.5)},
        costs=1,
        known={"dollars": {"a": 0.2, "b": 1}},
        safe="a",
    )
    controller = Controller(task, Resolve(risk=0.05), 100)
    with pytest.raises(InputError, match="must stay within the scales"):
        controller.reprice("b", penalty={"dollars": 3})
    assert controller.task == task


def test_prices_change():
    task = Task(
        ["a", "b"],
        {"dollars": Limit(0.5), "bad": Limit(0.2)},
        costs=1,
        known={"dollars": {"a": 0.2, "b": 1}},
    )
    controller = Controller(task, Resolve(), 100)
    for _ in range(5):
        controller.tell("a", reward=1.0, penalty={"bad": 0})
        controller.tell("b", reward=0.5, penalty={"bad": 0})
    controller.reprice("b", penalty={"dollars": 0.1})
    record = controller._state.record
    assert record.totals.reshape(2, -1)[1].tolist() == [5.0, 2.5, 0.5, 0.0]
    left = record.remaining[1] * controller.task.scales.penalties[0]
    assert left == pytest.approx(0.5 * 100 - 5 * 0.2 - 5 * 1.0)  # what was paid stays paid
    controller.tell("b", reward=0.5, penalty={"bad": 0})
    with pytest.raises(InputError, match="must be the known value 1"):
        controller.tell("b", cost=0.5, reward=0.5, penalty={"bad": 0})
    with pytest.raises(InputError, match="penalty 'bad': is not a known penalty"):
        controller.reprice("b", penalty={"bad": 0.1})
    with pytest.raises(InputError, match="must come with its cost"):
        controller.add_arm("c", penalty={"dollars": 1})
    with pytest.raises(InputError, match="known penalties"):
        controller.add_arm("c", cost=1)
    assert controller.add_arm("c", cost=1, penalty={"dollars": 3}) == 2
    assert controller.task.scales.penalties[0] == 4.0  # doubled until it fits
    assert controller.ask() in (0, 1, 2)


# Scales that grow.


@pytest.mark.parametrize("label", LABELS)
def test_scales_grow_by_powers_of_two_and_nothing_is_rounded(label, plain):
    policy = policy_of(label)
    if policy is None:
        pytest.skip(f"{label} is told the laws")
    rng = random.Random(label)
    limits = {"bad": Limit(0.3, per="pull")}
    small = Task(["a", "b"], limits, Scales(0.25, 0.5, 0.125, grow=True), smallest_cost=0.01)
    large = Task(["a", "b"], limits, Scales(4.0, 2.0, 2.0), smallest_cost=0.01)
    make = Controller if label in COMPILED else plain
    growing, wide = (make(task, policy, 400, seed=1) for task in (small, large))
    for turn in range(60):
        top = 0.1 if turn < 30 else 1.0
        outcomes = 3.1 * top * rng.random(), 1.9 * top * rng.random(), 1.7 * top * rng.random()
        arm = turn % 2
        growing.tell(arm, *outcomes)
        wide.tell(arm, *outcomes)
    growing.tell(0, 3.1, 1.9, 1.7)
    wide.tell(0, 3.1, 1.9, 1.7)
    assert growing.task.scales.channels == wide.task.scales.channels == (4.0, 2.0, 2.0)
    assert growing.spent == pytest.approx(wide.spent, rel=1e-14)
    assert np.allclose(growing._state["totals"], wide._state["totals"], rtol=1e-13)
    same_window = wide._state.setup.window == growing._state.setup.window
    same_window = same_window and wide._state.setup.fade == growing._state.setup.fade
    if wide._state.spec.remembers and growing._state.spec.remembers and same_window:
        for name in ("pulls", "totals", "squares", "net_squares", "remaining", "limits", "bases"):
            seen, wanted = (getattr(one._state.record, name) for one in (growing, wide))
            assert np.allclose(seen, wanted, rtol=1e-12, atol=1e-15), name
    assert growing.ask() in (0, 1)
    if label in COMPILED:
        again = Controller.restore(growing.snapshot())
        assert again == growing
        assert again.task == growing.task


def test_a_limit_on_the_cost_grows_with_its_scale(plain):
    limits = {"price": Limit(0.5, of="cost", per="reward"), "bad": Limit(0.3)}
    tasks = (Task(["a", "b"], limits, Scales(cost, grow=["cost"])) for cost in (0.25, 4.0))
    growing, wide = (plain(task, Resolve(), 400, seed=1) for task in tasks)
    for turn in range(20):
        for one in (growing, wide):
            one.tell(turn % 2, 0.2 if turn < 10 else 3.0, 0.5, [0.25])
    assert growing.task.scales.channels == wide.task.scales.channels == (4.0, 1.0, 4.0, 1.0)
    assert growing.means == wide.means
    assert growing.queues == pytest.approx(wide.queues)


def test_what_does_not_fit_is_refused():
    controller = Controller(Task(["a"], {"bad": Limit(0.3)}, "grow"), LyOn(), 60)
    with pytest.raises(InputError, match=r"cost = 17.0: must be a number in \[0, 16\]"):
        controller.tell("a", 17.0, 0.5, 0.1)
    assert controller.task.scales.cost == 1.0
    assert controller.pulls == [0]
    controller.tell("a", 16.0, 0.5, 0.1)
    assert controller.task.scales.cost == 16.0
    with pytest.raises(InputError, match="bad = -1"):
        controller.tell("a", 1.0, 0.5, -1)
    with pytest.raises(InputError, match="reward = nan"):
        controller.tell("a", 1.0, float("nan"), 0)
    fixed = Controller(Task(["a"], {"bad": Limit(0.3)}, Scales(grow=["bad"])), LyOn(), 60)
    with pytest.raises(InputError, match=r"cost = 2: must be a number in \[0, 1\]"):
        fixed.tell("a", 2, 0.5, 0)
    fixed.tell("a", 1, 0.5, 3)
    assert fixed.task.scales.penalties == (4.0,)


def test_what_is_above_a_cap_is_charged_and_not_learned():
    task = Task(["a"], {"dollars": Limit(0.3)}, Scales(penalty=0.25, grow={"dollars": 2.0}))
    controller = Controller(task, Resolve(), 60)
    controller.tell("a", 1, 0.5, 100.0)
    record, scale = controller._state.record, controller.task.scales.penalties[0]
    assert scale == 2.0
    assert controller.cut == 1
    assert record.totals[2] * scale == 2.0  # learned
    assert record.remaining[1] * scale == pytest.approx(0.3 * 60 - 100.0)  # charged
    assert Controller.restore(controller.snapshot()).cut == 1


@pytest.mark.parametrize("grow", [["dolars"], {"bad": 0}, 3, "cost"])
def test_wrong_words_for_scales_that_grow(grow):
    with pytest.raises(InputError, match="grow"):
        Task(["a"], {"bad": Limit(0.3)}, Scales(grow=grow))


def test_a_task_whose_scales_grow_is_the_same_in_toml():
    task = Task(
        ["a"],
        {"bad": Limit(0.3), "dollars": Limit(1)},
        Scales(cost=2, grow={"dollars": 3, "cost": 9}),
    )
    assert Task.from_toml(task.to_toml()) == task
    assert Task.from_toml('scales = "grow"\n[[arms]]\nname = "a"').scales.grow == {
        "cost": float("inf"),
        "reward": float("inf"),
    }


@pytest.mark.parametrize("limit", [Limit(0.1, per="pull"), Limit(0.1, per="reward")], ids=str)
def test_what_is_charged_for_no_pull_allows_no_penalties(limit):
    """As for tickets that expire: every fourth ask is charged, and nothing is told of it."""
    controller = Controller(
        Task(["bold", "calm"], {"bad": limit}), Resolve(risk=0.01), 1000, seed=3
    )
    luck, penalties, pulls = np.random.default_rng(5), 0.0, 0
    while controller.spent <= controller.budget - 1.0:
        arm = controller.ask()
        if luck.random() < 0.25:
            controller.void(arm)
            controller.charge(1.0)
            continue
        penalty = float(luck.random() < (0.3, 0.02)[arm])
        controller.tell(arm, cost=1.0, reward=1.0, penalty=penalty)
        penalties, pulls = penalties + penalty, pulls + 1
    assert 0.06 < penalties / pulls <= 0.1
