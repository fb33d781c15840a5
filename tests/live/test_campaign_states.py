"""Any order of asks, tells, voids, expiries, crashes, through two handles on one SQLite file."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.live.cheap import Rotation
from tests.live.ledger_model import Model
from tightrope import Limit, Task, open_campaign
from tightrope.errors import CampaignError, ConflictError, ExhaustedError, InputError, ReportError
from tightrope.live.campaign import Campaign
from tightrope.live.stores.sqlite import SQLiteStore

SECOND = 1_000_000
WAIT = 60 * SECOND
COSTS = st.integers(0, 1000)  # thousandths
WHICH = st.integers(0, 1)


class TwoHandles(RuleBasedStateMachine):
    """The oracle is the model of the ledger."""

    @initialize(budget=st.integers(2, 9), on_overrun=st.sampled_from(["pause", "alert"]))
    def begin(self, budget, on_overrun):
        self.folder, self.at = Path(tempfile.mkdtemp()), 1_700_000_000 * SECOND
        self.path = str(self.folder / "campaigns.db")
        self.stores = [self.opened(), self.opened()]
        options = {"task": Task(["a", "b"], {"bad": Limit(0.4)}), "policy": Rotation()}
        options["on_overrun"] = on_overrun
        open_campaign(self.stores[0], "one", budget=budget, expire_after=60, **options)
        self.handles = [Campaign(store, "one") for store in self.stores]
        self.model = Model([1000 * budget], [(1000,)] * 2, pauses=on_overrun == "pause")
        self.names = []

    def opened(self):
        return SQLiteStore(self.path, clock=lambda: self.at)

    def expire(self):
        self.model.expire(self.at)

    @rule(which=WHICH)
    def ask(self, which):
        self.expire()
        name, may = f"t{len(self.names)}", self.model.may_pull()
        if may:
            ticket = self.handles[which].ask(name)
            assert ticket.number in may
            self.model.ask(name, ticket.number, self.at + WAIT)
            self.names.append(name)
        else:
            with pytest.raises((CampaignError, ExhaustedError)):
                self.handles[which].ask(name)
            self.turn()

    def turn(self):
        """A turn that changes nothing is not stored, and neither are its expiries."""
        self.handles[0].pause("x")
        self.handles[0].resume()
        self.model.paused = None

    @precondition(lambda self: self.names)
    @rule(which=WHICH, place=st.integers(0, 10**6))
    def ask_again(self, which, place):
        name = self.names[place % len(self.names)]
        self.expire()
        ticket, slip = self.handles[which].ask(name), self.model.slips[name]
        assert (ticket.state, ticket.number) == (slip.state, slip.arm)

    @precondition(lambda self: self.names)
    @rule(which=WHICH, place=st.integers(0, 10**6), cost=COSTS, back=st.booleans())
    def tell(self, which, place, cost, back):
        name = self.names[-1 - place % min(len(self.names), 4) if back else place % len(self.names)]
        self.expire()
        expected = self.model.tell(name, [cost], (cost,), True)
        if expected == "conflict":
            with pytest.raises(ConflictError) as caught:
                self.handles[which].tell(name, cost / 1000, 1, 0)
            self.model.refuse(name, caught.value.quarantine)
        else:
            self.handles[which].tell(name, cost / 1000, 1, 0)

    @precondition(lambda self: self.names)
    @rule(which=WHICH, place=st.integers(0, 10**6), bad=st.sampled_from([-1, float("nan"), "x"]))
    def tell_badly(self, which, place, bad):
        name = self.names[place % len(self.names)]
        self.expire()
        with pytest.raises(ReportError) as caught:
            self.handles[which].tell(name, bad, 1, 0)
        self.model.refuse(name, caught.value.quarantine)

    @precondition(lambda self: self.names)
    @rule(which=WHICH, place=st.integers(0, 10**6))
    def void(self, which, place):
        name = self.names[place % len(self.names)]
        self.expire()
        if self.model.void(name) == "refused":
            with pytest.raises(ConflictError):
                self.handles[which].void(name)
        else:
            self.handles[which].void(name)

    @precondition(lambda self: self.names)
    @rule(which=WHICH, place=st.integers(0, 10**6), cost=st.integers(0, 1500))
    def amend(self, which, place, cost):
        name = self.names[place % len(self.names)]
        self.expire()
        if self.model.amend(name, [cost]):
            self.handles[which].amend(name, cost / 1000)
        else:
            with pytest.raises(InputError, match="must be a reported ticket"):
                self.handles[which].amend(name, cost / 1000)

    @rule(which=WHICH, far=st.integers(-1500, 3000))
    def set_budget(self, which, far):
        """Around what is spent and reserved."""
        self.expire()
        budget = max(self.model.spent[0] + self.model.reserved[0] + far, 1)
        if self.model.set_budget(budget):
            self.handles[which].set_budget(budget / 1000)
        else:
            with pytest.raises(InputError, match=r"at least .* is spent and .* is reserved"):
                self.handles[which].set_budget(budget / 1000)

    @rule(seconds=st.sampled_from([1, 20, 61]), which=WHICH)
    def wait(self, seconds, which):
        self.at += seconds * SECOND
        self.handles[which].pause("x")  # a turn, in which due tickets expire
        self.expire()
        self.handles[which].resume()
        self.model.paused = None

    @rule(which=WHICH)
    def crash(self, which):
        """Nothing is closed; the locks that a dead process leaves are given up by the kernel."""
        self.stores[which] = self.opened()
        self.handles[which] = Campaign(self.stores[which], "one")

    @invariant()
    def the_ledger_is_the_model(self):
        if not hasattr(self, "model"):
            return
        ledgers = [handle.refreshed().ledger for handle in self.handles]
        assert ledgers[0] == ledgers[1]
        ledger, model = ledgers[0], self.model
        account = ledger.accounts[0]
        unit = 10 ** (account.digits - 3)
        seen = [account.budget, account.spent, account.reserved]
        assert seen == [unit * one for one in (*model.budgets, *model.spent, *model.reserved)]
        assert list(ledger.tickets) == list(model.open)
        counted = ledger.asked, ledger.told, ledger.voided, ledger.expired, ledger.late
        wanted = model.told, model.voided, model.expired, model.late
        assert counted == (len(model.slips), *wanted)
        assert ledger.quarantine == model.quarantine
        assert (ledger.overruns, ledger.paused) == (model.overruns, model.paused)

    def teardown(self):
        if hasattr(self, "model"):
            assert self.handles[0].verify().good
            for store in self.stores:
                store.close()
            shutil.rmtree(self.folder)


TestTwoHandles = TwoHandles.TestCase
TestTwoHandles.settings = settings(max_examples=25, stateful_step_count=40, deadline=None)
