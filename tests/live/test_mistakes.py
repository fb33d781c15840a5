"""Calls of a campaign that are typed wrongly: one line that names the value, and no event."""

from __future__ import annotations

import sqlite3

import numpy as np
import pytest

from tests.live.cheap import Rotation
from tightrope import Controller, Limit, Log, Resolve, Scales, Task, open_campaign
from tightrope.client.spool import Spool
from tightrope.errors import CampaignError, InputError
from tightrope.live.stores.memory import MemoryStore

TASK = Task(["a", "b"], {"bad": Limit(0.4, per="pull")})
REPORT = {"id": "x", "cost": 0.5, "reward": 1, "penalty": 0}


@pytest.fixture
def campaign(clock):
    with open_campaign(MemoryStore(clock), "one", task=TASK, budget=100, policy=Rotation()) as made:
        yield made


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda c: c.ask_many("3"), r"^count = '3': must be positive, a whole number$"),
        (lambda c: c.ask_many(2.5), r"^count = 2.5: must be positive, a whole number$"),
        (lambda c: c.ask_many(0), r"^count = 0: must be positive, a whole number$"),
        (lambda c: c.ask_many(), r"^count = None: must be positive, a whole number$"),
        (lambda c: c.ask_many(contexts="code"), r"^contexts = 'code': must be a list, one for"),
        (lambda c: c.ask_many(ids=[]), r"^count = None: must be positive and equal to the number"),
        (lambda c: c.tell_many(REPORT), r"^reports = \{'cost': 0.5.*: must be a list of reports$"),
        (lambda c: c.tell_many(3), r"^reports = 3: must be a list of reports$"),
        (lambda c: c.tell_many(["x"]), r"^report 'x': must be a mapping with the arguments of"),
        (lambda c: c.amend_many({"id": "x", "cost": 1}), r"^bill = .*: must be a list of rows$"),
        (lambda c: c.amend_many("bill.csv"), r"^bill = 'bill.csv': must be a list of rows$"),
        (lambda c: c.amend_many(["x"]), r"^bill = \['x'\]: must be mappings with id, cost and"),
        (lambda c: c.add_budget(1e-12), r"^amount = 1e-12: must be at least 1e-10 for this"),
        (lambda c: c.add_budget(1e300), r"^amount = 1e\+300: must be at most 900620 for this"),
    ],
)
def test_a_wrong_argument_is_named_and_nothing_is_written(campaign, call, said):
    before = campaign.status()["events"]
    with pytest.raises(InputError, match=said):
        call(campaign)
    assert campaign.status()["events"] == before


def test_a_truth_value_is_no_money(campaign):
    ticket = campaign.ask()
    with pytest.raises(InputError, match=r"cost = True: must be a number, an amount of money"):
        campaign.tell(ticket.id, cost=True, reward=True, penalty=False)
    campaign.tell(ticket.id, cost=0.5, reward=True, penalty=False)
    assert campaign.status()["spent"] == 0.5


@pytest.mark.parametrize(
    "change",
    [
        lambda c: c.add_budget(1),
        lambda c: c.set_budget(50),
        lambda c: c.add_arm("c"),
        lambda c: c.retire_arm("a"),
        lambda c: c.pin("b"),
    ],
)
def test_a_closed_campaign_takes_no_change(campaign, change):
    ticket = campaign.ask()
    campaign.close()
    before = campaign.status()["events"]
    with pytest.raises(CampaignError, match=r"^the campaign is closed; ") as refused:
        change(campaign)
    assert refused.value.code == "closed"
    assert campaign.status()["events"] == before
    campaign.tell(ticket.id, cost=0.5, reward=1, penalty=0)


@pytest.mark.parametrize("name", [".", ".."])
def test_a_name_that_a_path_cannot_have_is_refused(name):
    store = MemoryStore()
    with pytest.raises(InputError, match=r"^name = '\.+': must be a name other than \. and \.\.$"):
        open_campaign(store, name, task=TASK, budget=10, policy=Rotation())
    assert store.names() == []


def test_a_count_of_numpy_is_a_count(campaign):
    assert len(campaign.ask_many(np.int64(3))) == 3


def test_a_budget_whose_ticks_are_too_coarse_for_a_pull_is_refused():
    small = Task(["a", "b"], {"bad": Limit(0.4)}, scales=Scales(cost=1e-8))
    said = (
        r"^budget = 1000: must be below 100 for pulls that cost at most 1e-08; .* units of 1e-09$"
    )
    with pytest.raises(InputError, match=said):
        open_campaign(MemoryStore(), "one", task=small, budget=1000, policy=Rotation())
    open_campaign(MemoryStore(), "one", task=small, budget=99, policy=Rotation()).disconnect()


def logged(cost):
    """A log of 20 rows, of which each costs as much as is said."""
    outcomes = np.stack([np.broadcast_to(cost, 20), np.ones(20), np.zeros(20)])
    return Log(["a", "b"], ["bad"], np.arange(20) % 2, outcomes)


def test_a_log_in_other_units_is_refused():
    said = r"^learn_from: cost = 250 is above its scale 1, as in 100% of the rows; are the units"
    with pytest.raises(InputError, match=said):
        Controller(TASK, Resolve(), 100.0, learn_from=logged(250.0))
    rare = np.where(np.arange(20) == 7, 250.0, 0.5)  # counts as the scale
    Controller(TASK, Resolve(), 100.0, learn_from=logged(rare))
    grown = Task(["a", "b"], {"bad": Limit(0.4, per="pull")}, scales=Scales(grow=True))
    Controller(grown, Resolve(), 100.0, learn_from=logged(250.0))


def test_a_spool_leaves_the_file_of_another_program_alone(tmp_path):
    path = str(tmp_path / "orders.db")
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE orders (id)")
    with pytest.raises(InputError, match=r"orders.db': is another program's file; must be a new"):
        Spool(path, "http://127.0.0.1:1")
    with sqlite3.connect(path) as other:
        assert other.execute("SELECT name FROM sqlite_master").fetchall() == [("orders",)]
        assert other.execute("PRAGMA journal_mode").fetchone() == ("delete",)
