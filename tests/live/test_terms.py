"""The terms of a campaign: overruns and what follows, budgets, reservations, what agrees."""

from __future__ import annotations

import warnings
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.live.cheap import Rotation
from tests.live.test_golden_logs import LOGS, read
from tightrope import Controller, Limit, LyOn, Resolve, Scales, Task, open_campaign
from tightrope.errors import InputError, ReservationWarning, SoftBudgetWarning
from tightrope.live.core import CampaignSettings
from tightrope.live.events import event_of
from tightrope.live.stores.memory import MemoryStore

PLAIN = Task(["a", "b"], {"bad": Limit(0.4)})
HARD = Task(["a", "b"], {"bad": Limit(total=30, hard=True)})
KNOWN = Task(["a", "b"], {"bad": Limit(0.4)}, costs={"a": 0.3, "b": 0.7})
SAFE = Task(["new", "old"], {"bad": Limit(0.05)}, safe="old", safe_rates={"bad": 0.02})


def made(task=PLAIN, budget=50, **options):
    return open_campaign(
        MemoryStore(), "one", task=task, budget=budget, **{"policy": Rotation(), **options}
    )


def states(campaign):
    status = campaign.status()
    return status["overruns"], status["state"], status["why"]


# Overruns.


@pytest.mark.parametrize("on_overrun", ["pause", "alert"])
@pytest.mark.parametrize(
    ("task", "options", "first", "amended"),
    [
        (PLAIN, {}, (0.5, 1, 0), {"cost": 1.25}),
        (PLAIN, {"stop": "paper"}, (0.5, 1, 0), {"cost": 1.25}),
        (PLAIN, {"shadow": True}, (0.5, 1, 0), {"cost": 1.25}),
        (HARD, {}, (0.5, 1, 0), {"penalty": {"bad": 1.25}}),
        (HARD, {"stop": "paper"}, (0.5, 1, 0), {"penalty": {"bad": 1.25}}),
        (KNOWN, {}, (0.3, 1, 0), {"cost": 0.31}),
        (KNOWN, {"stop": "paper"}, (0.3, 1, 0), {"cost": 0.31}),
    ],
)
def test_an_amendment_that_overruns_is_an_overrun(task, options, first, amended, on_overrun):
    campaign = made(task, on_overrun=on_overrun, **options)
    ticket = campaign.ask()
    campaign.tell(ticket, *first)
    assert states(campaign) == (0, "open", None)
    campaign.amend(ticket, **amended)
    after = ("paused", "overrun") if on_overrun == "pause" else ("open", None)
    assert states(campaign) == (1, *after)
    campaign.amend(ticket, **amended)  # again, which changes nothing
    assert states(campaign) == (1, *after)
    campaign.resume()
    campaign.ask()
    assert campaign.verify().good


AMOUNTS = st.integers(0, 2500).map(lambda thousandths: thousandths / 1000)


@settings(max_examples=60, deadline=None)
@given(
    task=st.sampled_from([PLAIN, HARD]),
    stop=st.sampled_from(["hard", "paper"]),
    cost=AMOUNTS,
    penalty=AMOUNTS,
    on_overrun=st.sampled_from(["pause", "alert"]),
)
def test_an_amendment_overruns_exactly_where_a_report_does(task, stop, cost, penalty, on_overrun):
    """The same money, told at once or amended later: the same ledger, the same state."""
    penalty = penalty if task is HARD else 0.0
    found = []
    for first in ((cost, penalty), (0.0, 0.0)):
        campaign = made(task, stop=stop, on_overrun=on_overrun)
        ticket = campaign.ask()
        campaign.tell(ticket, first[0], 1, first[1])
        campaign.amend(ticket, cost, {"bad": penalty})
        status = campaign.status()
        del status["events"], status["at"]
        found.append(status)
    assert found[0] == found[1]


def test_less_money_and_the_noise_of_floats_are_no_overrun():
    campaign = made(KNOWN, on_overrun="pause")
    ticket = campaign.ask(eligible=["a"])
    campaign.tell(ticket, reward=1, penalty=0)
    campaign.amend(ticket, 0.1)
    campaign.amend(ticket, 0.1 + 0.2)
    campaign.amend(ticket, 0.3 * (1 + 1e-12))
    assert states(campaign) == (0, "open", None)
    campaign.amend(ticket, 0.9)
    campaign.amend(ticket, 0.8)  # less than before, and still above
    assert states(campaign) == (1, "paused", "overrun")
    campaign.amend(ticket, 0.85)
    assert campaign.status()["overruns"] == 2


def test_a_bill_pauses_once_and_is_taken_whole():
    campaign = made()
    tickets = campaign.ask_many(3)
    for ticket in tickets:
        campaign.tell(ticket, 0.5, 1, 0)
    assert campaign.amend_many([{"id": one, "cost": 1.5} for one in tickets]) == 3
    assert states(campaign) == (3, "paused", "overrun")
    assert [one.kind for one in campaign.events()].count("paused") == 1
    assert campaign.status()["spent"] == 4.5


def test_what_happens_at_an_overrun_is_kept_shown_and_can_be_changed():
    campaign = made(on_overrun="alert")
    assert next(campaign.events()).body.settings["on_overrun"] == "alert"
    assert open_campaign(campaign.store, "one").status()["on_overrun"] == "alert"
    campaign.tell(campaign.ask(), 2, 1, 0)
    assert states(campaign) == (1, "open", None)
    campaign.change(on_overrun="pause")
    campaign.tell(campaign.ask(), 2, 1, 0)
    assert states(campaign) == (2, "paused", "overrun")
    for act in (lambda: made(on_overrun="stop"), lambda: campaign.change(on_overrun="stop")):
        with pytest.raises(InputError, match="on_overrun = 'stop': must be 'pause' or 'alert'"):
            act()


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.stem)
def test_campaigns_that_say_nothing_about_overruns_pause(path):
    kept = event_of(read(path)[0][0]).body.settings
    wanted = "alert" if path.stem.startswith("budgets") else "pause"
    assert CampaignSettings(**kept).on_overrun == wanted


def test_a_campaign_that_goes_on_never_decides_without_free_budget():
    campaign = made(budget=3, on_overrun="alert")
    ticket, other = campaign.ask(), campaign.ask()
    campaign.tell(ticket, 2.5, 1, 0)
    assert campaign.status()["free"] == -0.5
    with pytest.raises(Exception, match="reserved for 1 pull in flight"):
        campaign.ask()
    campaign.tell(other, 0.5, 1, 0)
    assert states(campaign) == (1, "exhausted", None)


# Budgets.


@settings(max_examples=40, deadline=None)
@given(
    costs=st.lists(st.integers(0, 1000), min_size=1, max_size=8),
    flying=st.integers(0, 3),
    unit=st.sampled_from([1.0, 1e-3, 7.3, 1e6]),
)
def test_a_budget_is_lowered_to_what_is_spent_and_reserved_and_no_further(costs, flying, unit):
    task = Task(["a", "b"], {"bad": Limit(0.4)}, Scales(cost=unit))
    campaign = made(task, 50 * unit)
    for cost in costs:
        campaign.tell(campaign.ask(), cost / 1000 * unit, 1, 0)
    campaign.ask_many(flying) if flying else None
    status = campaign.status()
    used = status["spent"] + status["reserved"]
    if used:
        with pytest.raises(InputError, match=r"must be at least .* is spent and .* is reserved"):
            campaign.set_budget(used * (1 - 1e-6))
        campaign.set_budget(used)
        assert campaign.status()["free"] == 0.0
    campaign.set_budget(used + 3 * unit)
    assert campaign.status()["free"] == pytest.approx(3 * unit)
    assert len(campaign.ask_many(5)) == 3
    assert campaign.verify().good


@pytest.mark.parametrize("bad", [0, -1, float("nan"), float("inf"), "8", None, True, 1e-20, 1e30])
def test_a_budget_that_is_none_is_refused(bad):
    campaign = made()
    with pytest.raises(InputError, match=r"^budget = "):
        campaign.set_budget(bad)
    assert campaign.status()["events"] == 1


def test_a_hard_limit_per_unit_of_cost_follows_the_budget_and_one_in_total_stays():
    limits = {"rate": Limit(0.5, hard=True), "all": Limit(total=30, hard=True)}
    campaign = made(Task(["a", "b"], limits), 40)
    campaign.tell(campaign.ask(), 0.5, 1, {"rate": 0.75, "all": 1})
    campaign.ask()
    campaign.set_budget(20)
    hard = campaign.status()["hard"]
    assert (hard["rate"]["budget"], hard["all"]["budget"]) == (10, 30)
    with pytest.raises(
        InputError, match=r"must be at least 3\.5, because 0.75 of hard limit 'rate'"
    ):
        campaign.set_budget(3)
    campaign.set_budget(3.5)
    assert campaign.status()["hard"]["rate"]["free"] == 0
    campaign.add_budget(6.5)
    assert campaign.status()["hard"]["rate"]["budget"] == 5
    assert campaign.verify().good


def test_a_budget_that_was_overspent_may_be_raised_below_what_is_spent_but_not_lowered():
    campaign = made(budget=2)
    campaign.tell(campaign.ask(), 3, 1, 0)
    with pytest.raises(InputError, match="must be at least 3, because 3 is spent"):
        campaign.set_budget(1.5)
    campaign.set_budget(2.5)
    assert campaign.status()["free"] == -0.5


@pytest.mark.parametrize("policy", [LyOn(), Resolve(), Resolve(risk=0.01)], ids=lambda p: p.label)
def test_a_budget_that_was_lowered_and_raised_again_leaves_the_policy_as_it_was(policy):
    mine, other = (Controller(PLAIN, policy, 100) for _ in range(2))
    for step in range(30):
        for controller in (mine, other):
            arm = controller.ask()
            controller.tell(arm, 0.5, 0.1 * arm, step % 3 == 0)
        if step == 20:
            mine.set_budget(40)
            mine.set_budget(100)
    assert [mine.ask(), mine.budget, mine.pulls] == [other.ask(), other.budget, other.pulls]


def test_a_promise_stands_ends_and_is_made_again_with_the_budget():
    campaign = made(SAFE, 5000, policy=Resolve(risk=0.01))
    assert campaign.status()["promise"].startswith("risk = 0.01 is promised: the chance to end")
    outlook = campaign.set_budget(2000)
    assert outlook.limits[0].promised
    assert outlook.promise == campaign.status()["promise"]
    outlook = campaign.set_budget(100)
    assert not outlook.limits[0].promised
    assert "risk = 0.01 cannot be promised yet: the chance to end above limit 'bad'" in str(outlook)
    assert {one.arm for one in campaign.ask_many(20)} == {"old"}
    assert campaign.set_budget(5000).limits[0].promised


@pytest.mark.parametrize("costs", [None, 1])
def test_a_promise_per_pull_stands_ends_and_is_made_again_with_the_budget(costs):
    """The page, the status and the outlook say the same; what was asked for is not forgotten."""
    limit = {"bad": Limit(0.05, per="pull")}
    task = Task(["new", "old"], limit, safe="old", safe_rates={"bad": 0.02}, costs=costs)
    campaign = made(task, 5000, policy=Resolve(risk=0.01))
    assert campaign.status()["promise"].startswith("risk = 0.01 is promised: the chance to end")
    outlook = campaign.set_budget(2000)
    assert outlook.limits[0].promised
    assert outlook.promise == campaign.status()["promise"]
    assert outlook.limits[0].chance_if_safe < 0.02
    outlook = campaign.set_budget(100)
    assert not outlook.limits[0].promised
    assert "risk = 0.01 cannot be promised yet" in outlook.promise
    assert {one.arm for one in campaign.ask_many(20)} == {"old"}
    assert campaign.set_budget(5000).limits[0].promised


def test_a_ticket_that_is_never_told_takes_pulls_from_a_promise_per_pull():
    task = Task(["new", "old"], {"bad": Limit(0.5, per="pull")}, safe="old", safe_rates={"bad": 0})
    controller = Controller(task, Resolve(risk=0.01), 30)
    before = controller.outlook().limits[0]
    controller.charge(5.0)  # the money is gone, and no pull was made
    after = controller.outlook().limits[0]
    assert after.promised
    assert after.chance == before.chance
    assert after.chance_if_safe >= before.chance_if_safe
    controller.charge(24.0)
    assert not controller.outlook().limits[0].promised


def test_a_dearer_safe_arm_leaves_fewer_pulls():
    limit, costs = {"bad": Limit(0.5, per="pull")}, {"new": 1, "old": 0.01}
    task = Task(["new", "old"], limit, safe="old", safe_rates={"bad": 0.2}, costs=costs)
    controller = Controller(task, Resolve(risk=0.01), 1)
    assert controller.outlook().limits[0].promised
    controller.reprice("old", cost=0.5)
    assert not controller.outlook().limits[0].promised


def test_a_lower_budget_may_break_a_limit_at_once_and_says_so():
    campaign = made(SAFE, 100, policy=Resolve(risk=0.01))
    for _ in range(4):
        campaign.tell(campaign.ask(), 0.5, 1, 1)
    outlook = campaign.set_budget(50)
    assert outlook.promise == campaign.status()["promise"]
    assert outlook.promise.startswith("limit 'bad' is broken")


def test_the_guard_learns_nothing_from_a_change_of_the_budget():
    task = Task(["new", "old"], {"bad": Limit(0.05)}, safe="old")  # its rate is learned
    controller = Controller(task, Resolve(risk=0.05), 4000)
    for step in range(50):
        controller.tell(controller.ask(), 0.5, 1, step % 40 == 0)
    before = controller._state.scratch.guard
    seen = [before.cost[0], before.penalty[0], before.rate[0]]
    controller.set_budget(1000)
    after = controller._state.scratch.guard
    assert seen == [after.cost[0], after.penalty[0], after.rate[0]]
    controller.tell("old", 0.5, 1, 0)
    assert controller._state.scratch.guard.cost[0] == pytest.approx(seen[0] + 0.5)


# What is said at creation.


@pytest.mark.parametrize(
    ("task", "options", "said"),
    [
        (PLAIN, {}, "campaign 'one' reserves 1 per decision: at most 50 in flight"),
        (PLAIN, {"stop": "paper"}, None),
        (PLAIN, {"shadow": True}, None),
        (KNOWN, {}, None),
        (Task(["a"], scales=Scales(cost=0.5)), {}, None),
        (Task(["a"], scales=Scales(cost=1)), {}, None),  # who says it knows it
        (Task(["a"], scales=Scales(1.0)), {}, None),
        (Task.from_toml("limit = 0.5\n[scales]\ncost = 1\n[[arms]]\nname = 'a'"), {}, None),
        (Task(["a"], scales=Scales(reward=5)), {}, "reserves 1 per decision"),
        (replace(Task(["a"], scales=Scales(reward=5)), name="x"), {}, "reserves 1 per decision"),
        (Task(["a"], scales=Scales(grow={"cost": 5})), {}, None),
        (Task(["a"], costs=1), {}, None),
    ],
)
def test_what_is_reserved_is_said_once_at_creation(task, options, said):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        campaign = made(task, **options)
        open_campaign(campaign.store, "one", task=task)
    found = [str(one.message) for one in caught if one.category is ReservationWarning]
    assert len(found) == (said is not None)
    assert said is None or (
        said in found[0] and "declare it as the cost in the task's scales" in found[0]
    )


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"task": "task.toml", "budget": 10},
            "task = 'task.toml': must be a Task; load_task reads",
        ),
        ({"task": Task(["a"])}, "campaign 'new': budget is missing; a new campaign needs it"),
        ({"task": Task(["a"]), "budget": 0.1}, "budget = 0.1: must be at least 1, the largest"),
    ],
)
def test_what_a_new_campaign_lacks_is_said_without_a_warning_before(given, said):
    store = made().store
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(InputError, match=said):
            open_campaign(store, "new", **given)


def test_a_soft_campaign_says_that_and_not_what_it_reserves():
    with pytest.warns(SoftBudgetWarning, match="is soft: it may overspend"):
        made(Task(["a"], scales="grow"))


# Tickets.


def test_a_ticket_is_taken_wherever_its_id_is():
    campaign = made()
    told, voided, many, bad = campaign.ask_many(4)
    campaign.tell(told, 0.5, 1, 0)
    campaign.void(voided)
    assert campaign.tell_many([{"id": many, "cost": 0.5, "reward": 1, "penalty": 0}]) == []
    with pytest.raises(InputError, match="kept in quarantine"):
        campaign.tell(bad, -1, 1, 0)
    campaign.correct(campaign.quarantine()[0]["number"], 0.5, 1, 0, id=bad)
    campaign.amend(told, 0.25)
    campaign.amend_many([{"id": many, "cost": 0.75}])
    assert campaign.why(told).id == told.id
    states = [campaign.ticket(one).state for one in (told, voided, many, bad)]
    assert states == ["told", "voided", "told", "told"]
    assert campaign.status()["spent"] == 1.5
    for wrong in ((), ("x",), 7, None):
        with pytest.raises(InputError):
            campaign.tell(wrong, 0.5, 1, 0)


# What agrees.


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"budget": 60}, ["budget (50.0 there, 60.0 here)"]),
        ({"policy": LyOn()}, ["policy (uniform-random there, lyon here)"]),
        ({"task": Task(["a", "c"], {"bad": Limit(0.4)})}, ["arm 'c' (none there, declared here)"]),
        ({"task": Task(["a", "b"], {"bad": Limit(0.3)})}, ["limit 'bad' (0.4 there, 0.3 here)"]),
        (
            {"task": Task(["a", "b"], {"bad": Limit(0.4, per="pull")})},
            ["limit 'bad' (0.4 there, Limit(0.4, per='pull') here)"],
        ),
        (
            {"task": Task(["a", "b"], {"worse": Limit(0.4)})},
            ["limit 'worse' (none there, 0.4 here)", "limit 'bad' (0.4 there, none here)"],
        ),
        (
            {"task": Task(["a", "b"], {"bad": Limit(0.4)}, Scales(cost=5, penalty=2))},
            ["scale of cost (1.0 there, 5.0 here)", "scale of bad (1.0 there, 2.0 here)"],
        ),
        ({"task": KNOWN}, ["cost of arm 'a' (none there, 0.3 here)"]),
        (
            {"task": Task(["a", "b"], {"bad": Limit(0.4)}, safe="a")},
            ["safe arm (none there, 'a' here)"],
        ),
        (
            {"budget": 60, "task": Task(["a", "b"], {"bad": Limit(0.3)})},
            ["budget (50.0 there", "limit 'bad' (0.4 there"],
        ),
    ],
)
def test_what_differs_is_named_with_both_values(given, said):
    store = made(policy="uniform-random").store
    with pytest.raises(
        InputError, match="campaign 'one': already exists with other terms: "
    ) as caught:
        open_campaign(store, "one", **given)
    for one in said:
        assert one in str(caught.value)


def test_terms_agree_as_they_were_at_creation_and_as_they_are_now():
    campaign = made(KNOWN)
    campaign.set_budget(40)
    campaign.change(limits={"bad": 0.3})
    campaign.reprice("a", cost=0.2)
    campaign.add_arm("c", cost=0.5)
    now = Task(["a", "b", "c"], {"bad": Limit(0.3)}, costs={"a": 0.2, "b": 0.7, "c": 0.5})
    for task, budget in ((KNOWN, 50), (now, 40), (KNOWN, 40), (None, None)):
        open_campaign(campaign.store, "one", task=task, budget=budget)
    with pytest.raises(InputError, match=r"budget \(40.0 there, 45.0 here\)"):
        open_campaign(campaign.store, "one", budget=45)
    with pytest.raises(InputError, match=r"cost of arm 'a' \(0.2 there, 0.25 here\)"):
        open_campaign(campaign.store, "one", task=Task(["a", "b"], {"bad": Limit(0.3)}, costs=0.25))


def test_a_scale_that_grew_agrees():
    task = Task(["a", "b"], {"bad": Limit(0.4)}, Scales(grow={"cost": 8}))
    campaign = made(task)
    campaign.tell(campaign.ask(), 5, 1, 0)
    assert campaign.refreshed().controller.task.scales.cost == 8
    open_campaign(campaign.store, "one", task=task)


# Arguments.


@pytest.mark.parametrize("store", [None, 3])
def test_a_store_is_a_path_and_not_any_value(store, tmp_path, monkeypatch):
    """A variable of the environment that is not set would be a file with the name None."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=f"^store = {store}: must be a path"):
        open_campaign(store, "one", task=PLAIN, budget=50)
    assert not list(tmp_path.iterdir())


def test_dates_without_a_release_name_the_value_to_give():
    with pytest.raises(InputError, match=r"^release = None: must be 'even' if starts or ends"):
        made(starts="2026-11-20", ends="2026-11-30")
    with pytest.raises(InputError, match=r"^release = 'even': must come with starts and ends"):
        made(release="even", starts="2026-11-20")


def test_new_limits_must_have_names():
    with pytest.raises(InputError, match=r"^limits = 0\.1: must be by name"):
        made().change(limits=0.1)
