"""Estimates of the end: one at a time, kept for a while, shown on the page as what they are."""

from __future__ import annotations

import random
import threading
import time
from dataclasses import replace

import pytest

from tests.service.samples import SimulatedClock
from tests.service.test_history import NOW, looking, plain_campaign, pull
from tightrope import Controller, Limit, Resolve, Task
from tightrope.live.stores.memory import MemoryStore
from tightrope.service import estimates as estimating
from tightrope.service.estimates import Estimates
from tightrope.service.pages.limit_words import LimitFacts
from tightrope.service.pages.watch import Watch

TASK = Task(["a", "b"], {"bad": Limit(0.3)})


@pytest.fixture
def controller():
    made = Controller(TASK, Resolve(), 200.0)
    for turn in range(60):
        made.tell(turn % 2, 1.0, 0.5, float(turn % 4 == 0))
    return made


@pytest.fixture
def estimates():
    made = Estimates()
    yield made
    made.end()


def test_an_estimate_is_the_controllers_own(estimates, controller):
    outlook = controller.outlook()
    assert estimates.last("one") is None
    made = estimates.wanted("one", controller, outlook).result(60)
    assert estimates.last("one") is made
    assert made.within(outlook) == controller.outlook(estimate=True)
    assert made.within(
        Controller(Task(["a"], {"other": Limit(0.3)}), Resolve(), 9.0).outlook()
    ) == (Controller(Task(["a"], {"other": Limit(0.3)}), Resolve(), 9.0).outlook())


def test_an_estimate_is_kept_for_a_while(estimates, controller, monkeypatch):
    first = estimates.wanted("one", controller, controller.outlook()).result(60)
    controller.tell(0, 1.0, 0.5, 0.0)
    outlook = controller.outlook()
    assert estimates.wanted("one", controller, outlook).result(60) is first
    monkeypatch.setattr(estimating, "KEPT", -1.0)
    second = estimates.wanted("one", controller, outlook).result(60)
    assert (second.pulls, first.pulls) == (61, 60)
    assert estimates.wanted("one", controller, outlook).result(60) is second  # nothing is new


@pytest.mark.parametrize("change", ["limit", "budget"])
def test_an_estimate_is_made_anew_after_a_change_of_terms(estimates, controller, change):
    """An estimate of a limit of 30 % says nothing about one of 40 %, with no pull between."""
    outlook = controller.outlook()
    first = estimates.wanted("one", controller, outlook).result(60)
    if change == "limit":
        other = replace(outlook, limits=[replace(one, limit=0.4) for one in outlook.limits])
    else:
        other = replace(outlook, budget=300.0)
    assert first.within(outlook).forward > 0
    assert first.within(other).forward == 0
    second = estimates.wanted("one", controller, other).result(60)
    assert second is not first
    assert second.within(other).forward > 0


def test_the_page_waits_for_no_estimate_and_shows_the_last(estimates, monkeypatch):
    """It is there from when the policy is compiled, which happens in another thread."""
    let, estimate_of = threading.Event(), estimating.estimate_of

    def held_back(*given):
        assert let.wait(60)
        return estimate_of(*given)

    monkeypatch.setattr(estimating, "estimate_of", held_back)
    monkeypatch.setattr(estimating, "KEPT", 0.0)
    store = MemoryStore(SimulatedClock(NOW))
    pull(plain_campaign(store, budget=200.0), 40, random.Random(1))
    watch = Watch(store, looking(store), estimates=estimates)
    try:
        assert watch.look("plain", 30.0, True).outlook.forward == 0
        let.set()
        until = time.monotonic() + 120.0
        while not (view := watch.look("plain", 1.0, True)).outlook.forward:
            assert time.monotonic() < until
            time.sleep(0.05)
    finally:
        let.set()
        watch.end()
    facts = LimitFacts(view, 0, view.outlook.limits[0])
    assert facts.estimate.startswith(("about ", "below "))
    low, middle, high = view.outlook.limits[0].expected
    assert 0.0 <= low <= middle <= high <= 1.0
    assert facts.expected == f"{middle:.1%} ({low:.1%} to {high:.1%})".replace("%", " %")
