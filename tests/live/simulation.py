"""A seeded simulation of a campaign's core against the model of its ledger.

    python -m tests.live.simulation --events 1e8 --seed 0

One campaign after another is asked, told (well, badly, late, twice, otherwise), voided, left to
expire, paused, pinned, corrected, amended, given arms and budget, crashed, and restarted from its
snapshots. After every request its ledger has to be the model's, and its answer what the model says.
After every restart it has to be what it was before, to the bit.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from dataclasses import replace

from tests.live.ledger_model import Model
from tightrope import Limit, Task, open_campaign
from tightrope.errors import (
    CampaignError,
    ConflictError,
    ExhaustedError,
    InputError,
    ReportError,
)
from tightrope.live.core import Core
from tightrope.live.events import START, event_of
from tightrope.live.stores import Saved
from tightrope.live.stores.memory import MemoryStore
from tightrope.live.writer import Writer
from tightrope.policies import UniformRandom

NAME, BUDGET, ALLOWED, KEEPS = "simulated", 400, 3000, 15
SECOND = 1_000_000  # microseconds
WAIT = 60 * SECOND  # until a ticket expires
LIFE = 20_000  # events of one campaign
BAD = [float("nan"), float("inf"), -0.001, None, "1", 1e300, 10**400]
RATE = 8  # of a hard limit per unit of cost
KINDS = [  # stop, whether the limit is hard and of which kind, what happens at an overrun
    ("hard", None, "pause"), ("hard", "total", "pause"), ("paper", None, "pause"),
    ("hard", None, "alert"), ("hard", "rate", "alert"), ("paper", None, "alert"),
]  # fmt: skip


class Simulation:
    """One campaign and its model."""

    def __init__(self, seed, stop, hard, on_overrun):
        self.rng, self.at = random.Random(seed), 1_700_000_000 * SECOND
        self.store = MemoryStore(lambda: self.at)
        hard_limit = Limit(RATE, hard=True) if hard == "rate" else Limit(total=ALLOWED, hard=True)
        limit = hard_limit if hard else Limit(0.4)
        task = Task(["a", "b", "c"], {"bad": limit})
        campaign = open_campaign(
            self.store, NAME, task=task, budget=BUDGET, policy=UniformRandom(), stop=stop,
            expire_after=WAIT / SECOND, seed=seed, on_overrun=on_overrun,
        )  # fmt: skip
        self.core, self.hash = campaign.refreshed(), campaign._follower.hash
        self.keep_few()
        allowed = RATE * BUDGET if hard == "rate" else ALLOWED
        budgets = [1000 * BUDGET, 1000 * allowed] if hard else [1000 * BUDGET]
        rates = [1, RATE if hard == "rate" else None][: len(budgets)]
        most = [(1000,) * len(budgets)] * 3
        self.model = Model(
            budgets, most, reserves=stop == "hard", keeps=KEEPS, pauses=on_overrun == "pause",
            rates=rates,
        )  # fmt: skip
        self.units = [10 ** (one.digits - 3) for one in self.core.ledger.accounts]
        self.known, self.count, self.last, self.refused = [], 0, 0, 0
        self.wait, self.now = WAIT, 0
        self.plan, weights = zip(*PLAN, strict=True)
        self.weights = list(weights)

    @property
    def free_limit(self):
        """What is free of the hard limit: when it is used up, this campaign is over."""
        return min(self.model.free()[1:], default=0)

    def keep_few(self):
        self.core.settings = replace(self.core.settings, quarantine_most=KEEPS)

    # One turn, and what is between turns.

    def turn(self):
        rng = self.rng
        self.at += rng.choice((0, 1, SECOND // 20, SECOND // 5, SECOND, -SECOND))
        if rng.random() < 0.01:
            self.at += 2 * WAIT
        crash = rng.random() < 0.002
        with self.store.turn(NAME) as turn:
            self.writer = Writer(self.core, self.hash, turn, "me")
            assert self.writer.now >= self.core.ledger.at, "log time went back"
            self.writer.expire()
            if crash:  # decide and learn, and forget it all
                for _ in range(5):
                    self.try_(self.writer.ask, None, None)
            else:
                self.now = self.writer.now
                self.model.expire(self.now)
                for act in rng.choices(self.plan, self.weights, k=rng.randrange(1, 40)):
                    act(self)
                    self.check()
                turn.append(self.writer.rows, {})
        if crash:
            self.restart(compare=False)
            return
        self.hash, self.refused = self.writer.hash, self.refused + self.writer.overflow
        if self.core.ledger.seq - self.last > 2000:
            self.last = self.core.ledger.seq
            if rng.random() < 0.4:
                self.restart()
            else:
                self.check_all()
                self.save(self.core)

    def restart(self, compare=True):
        """Follow the log from the last snapshot, or from the start."""
        before = self.core
        saved = self.store.saved(NAME) if self.rng.random() < 0.96 else None
        core, seen = Core(), START
        if saved is not None:
            core, seen = Core.restore(saved.body), saved.hash
        while rows := self.store.read(NAME, core.ledger.seq):
            for row in rows:
                assert row.at >= core.ledger.at, "log time went back"
                core.follow(event_of(row, seen))
                seen = row.hash
        assert seen == self.hash, "the chain is broken"
        self.core = core
        self.keep_few()
        self.check()
        self.check_all()
        if compare:
            assert core.ledger == before.ledger, (core.ledger, before.ledger)
            assert core.controller == before.controller, "what was learned differs"
            self.save(core)

    def save(self, core):
        self.store.save(NAME, Saved(core.ledger.seq, self.hash, core.snapshot()))

    # The ledger is the model's.

    def check(self):
        ledger, model = self.core.ledger, self.model
        for i, account in enumerate(ledger.accounts):
            unit = self.units[i]
            seen = account.budget, account.spent, account.reserved
            wanted = model.budgets[i] * unit, model.spent[i] * unit, model.reserved[i] * unit
            assert seen == wanted, (account, wanted)
            assert account.budget == account.spent + account.reserved + account.free
            if model.reserves:
                assert account.free >= -model.excess[i] * unit, account
        seen = (len(ledger.tickets), ledger.asked, ledger.told, ledger.voided, ledger.expired,
                ledger.late, ledger.overruns, ledger.paused, ledger.closed, ledger.pinned,
                len(ledger.quarantine))  # fmt: skip
        wanted = (len(model.open), len(model.slips), model.told, model.voided, model.expired,
                  model.late, model.overruns, model.paused, model.closed, model.pinned,
                  len(model.quarantine))  # fmt: skip
        assert seen == wanted, (seen, wanted)

    def check_all(self):
        ledger, model = self.core.ledger, self.model
        assert list(ledger.tickets) == list(model.open)
        assert ledger.quarantine == model.quarantine
        for name, one in ledger.tickets.items():
            slip, units = model.open[name], self.units
            wanted = tuple(n * unit for n, unit in zip(slip.reserved, units, strict=True))
            assert (one.arm, one.expires_at, one.reserved) == (slip.arm, slip.expires, wanted)
        flying = [0] * len(model.most)
        for slip in model.open.values():
            flying[slip.arm] += 1
        assert self.core.controller.in_flight == flying
        account = ledger.accounts[0]  # the policy knows of all money
        assert abs(self.core.controller.spent - account.amount(account.spent)) < 1e-6
        for name in self.known[-20:]:
            past = ledger.tickets.get(name) and "open"
            with self.store.turn(NAME) as turn:
                past = past or Writer(self.core, b"", turn, "me").past(name).state
            assert past == model.slips[name].state, (name, past)

    def try_(self, act, *arguments):
        """An answer, or the error."""
        try:
            return act(*arguments)
        except (CampaignError, ExhaustedError, InputError) as error:
            return error

    # What may happen.

    def ask(self):
        rng, model = self.rng, self.model
        eligible = None
        if rng.random() < 0.1:
            eligible = sorted(rng.sample(range(len(model.most)), rng.randrange(1, 3)))
        name = None if rng.random() < 0.3 else f"t{self.count}"
        self.count += 1
        may = model.may_pull(eligible)
        got = self.try_(self.writer.ask, name, eligible)
        if isinstance(got, Exception):
            assert not may, (got, may)
            if not model.paused and not model.closed and rng.random() < 0.005:
                self.add_budget()
            return
        assert got.number in may, (got, may)
        assert name is None or got.id == name
        model.ask(got.id, got.number, self.now + self.wait)
        self.known.append(got.id)

    def ask_again(self):
        if self.known:
            name = self.some()
            got = self.try_(self.writer.ask, name, None)
            if isinstance(got, ConflictError):
                got = self.try_(self.writer.ask, name, [0, 1])  # asked for among some
                return
            slip = self.model.slips[name]
            assert (got.state, got.number) == (slip.state, slip.arm), (got, slip)

    def some(self):
        """A ticket, more likely a late one."""
        return self.known[-1 - int(len(self.known) * self.rng.random() ** 4)]

    def one_open(self):
        if not self.model.open:
            return self.some() if self.known else "nobody"
        names = self.known[-40:]
        name = self.rng.choice(names)
        return name if name in self.model.open else next(iter(self.model.open))

    def values(self):
        rng = self.rng
        cost = rng.randrange(1001)
        if rng.random() < 0.0005:
            cost += 1000  # above what is possible
        return cost, rng.randrange(1001), rng.randrange(1001)

    def tell_open(self):
        self.tell(self.one_open(), self.values())

    def tell_some(self):
        self.tell(self.some() if self.known else "nobody", self.values())

    def tell_again(self):
        if self.known:
            name = self.some()
            self.tell(name, self.model.slips[name].said or self.values())

    def tell(self, name, values):
        cost, reward, penalty = values
        paid = [cost, penalty][: len(self.units)]
        expected = self.model.tell(name, paid, values, cost <= 1000)
        got = self.try_(self.writer.tell, name, cost / 1000, reward / 1000, penalty / 1000)
        kind = {"taken": type(None), "same": type(None), "conflict": ConflictError,
                "unknown": ReportError}[expected]  # fmt: skip
        assert type(got) is kind, (got, expected)
        if got is not None:
            self.refuse(name, got)

    def refuse(self, name, error):
        seq = error.quarantine
        assert self.model.refuse(name, self.core.ledger.seq) == (seq is not None), error
        assert seq in (None, self.core.ledger.seq)

    def tell_badly(self):
        rng = self.rng
        name = rng.choice((self.one_open(), self.some() if self.known else "x", f"no{self.count}"))
        values = [0.5, 0.5, 0.5]
        place = rng.randrange(3)
        values[place] = rng.choice(BAD if place else BAD[:5])
        got = self.try_(self.writer.tell, name, *values)
        assert isinstance(got, ReportError), got
        self.refuse(name, got)

    def void(self):
        name = self.one_open() if self.rng.random() < 0.7 else self.some() if self.known else "x"
        expected = self.model.void(name)
        got = self.try_(self.writer.void, name)
        assert (got is None) == (expected == "voided"), (got, expected)

    def correct(self):
        for seq, name in list(self.model.quarantine.items())[:3]:
            slip = self.model.slips.get(name)
            if seq not in self.model.quarantine:
                continue  # it was of the ticket that was just corrected
            if slip is not None and slip.state in ("quarantined", "expired", "open"):
                values = self.values()
                paid = [values[0], values[2]][: len(self.units)]
                assert self.model.tell(name, paid, values, values[0] <= 1000) == "taken"
                self.writer.correct(seq, name, *(value / 1000 for value in values))
            else:
                self.writer.discard(seq, None)
            self.model.quarantine.pop(seq, None)

    def amend(self):
        if self.known:
            name, rng = self.some(), self.rng
            slip = self.model.slips[name]
            amounts = [(None, rng.randrange(1001), rng.randrange(1101)) for _ in range(2)]
            cost, penalty = map(rng.choice, amounts)
            known = len(slip.charged) and [cost, penalty][: len(self.units)]
            taken = bool(known) and self.model.amend(name, known)
            cost = None if cost is None else cost / 1000
            penalty = None if penalty is None else {"bad": penalty / 1000}
            got = self.try_(self.writer.amend, name, cost, penalty, None)
            assert (got is None) == taken, (got, slip)

    def pause(self):
        self.writer.pause("x")
        self.model.paused = self.model.paused or "x"

    def resume(self):
        got = self.try_(self.writer.resume)
        assert (got is None) != self.model.closed
        if not self.model.closed:
            self.model.paused = None

    def pin(self):
        left = [arm for arm in range(len(self.model.most)) if arm not in self.model.retired]
        arm = self.rng.choice(left) if self.model.pinned is None else None
        self.writer.pin(arm)
        self.model.pinned = arm

    def add_arm(self):
        if len(self.model.most) < 8:
            self.writer.add_arm(name=f"n{len(self.model.most)}")
            self.model.most.append(self.model.most[0])

    def retire(self):
        arm = self.rng.randrange(len(self.model.most))
        left = len(self.model.most) - len(self.model.retired)
        got = self.try_(self.writer.retire_arm, arm)
        if arm not in self.model.retired:
            assert (got is None) == (left > 1 and arm != self.model.pinned), got
        if got is None:
            self.model.retired.add(arm)

    def add_budget(self):
        amount = self.rng.randrange(1, 500_001)
        self.writer.add_budget(amount / 1000)
        assert self.model.set_budget(self.model.budgets[0] + amount)

    def set_budget(self):
        """Around what is spent and reserved, or anywhere."""
        model, rng = self.model, self.rng
        used = model.spent[0] + model.reserved[0]
        budget = rng.choice((used, used - 1, rng.randrange(used, used + 400_000)))
        if budget <= 0 or rng.random() < 0.3:
            budget = rng.randrange(1, 2 * model.budgets[0])
        got = self.try_(self.writer.set_budget, budget / 1000)
        assert (got is None) == model.set_budget(budget), (got, budget)
        if got is not None:
            assert "is spent and" in str(got), got

    def change(self):
        self.wait = self.rng.randrange(WAIT // 4, 2 * WAIT)
        settings = replace(self.core.settings, expire_after=self.wait)
        core = self.core
        self.writer.change(None, [], core.policy_text, settings, core.digest)

    def close(self):
        if self.core.ledger.seq > 0.985 * LIFE:
            self.writer.close()
            self.model.closed = True


PLAN = [
    (Simulation.ask, 400),
    (Simulation.tell_open, 330),
    (Simulation.ask_again, 15),
    (Simulation.tell_some, 12),
    (Simulation.tell_again, 15),
    (Simulation.tell_badly, 10),
    (Simulation.void, 25),
    (Simulation.correct, 25),
    (Simulation.amend, 8),
    (Simulation.pause, 1),
    (Simulation.resume, 12),
    (Simulation.pin, 0.5),
    (Simulation.add_arm, 0.05),
    (Simulation.retire, 0.05),
    (Simulation.add_budget, 0.2),
    (Simulation.set_budget, 0.5),
    (Simulation.change, 0.2),
    (Simulation.close, 0.1),
]


def simulate(events, seed=0, progress=None):
    """So many events, or a few more, of as many campaigns as that takes; returns the figures."""
    done, campaigns, began = 0, 0, time.perf_counter()
    figures = dict.fromkeys("asked told voided expired late overruns refused".split(), 0)
    while done < events:
        made = Simulation(seed * 1_000_000 + campaigns, *KINDS[campaigns % len(KINDS)])
        try:
            while made.core.ledger.seq < min(LIFE, events - done) and made.free_limit >= 0:
                made.turn()
            made.restart()
        except AssertionError as error:
            at = f"seed {seed}, campaign {campaigns}, event {made.core.ledger.seq}"
            raise AssertionError(f"{at}: {error}") from error
        done, campaigns = done + made.core.ledger.seq, campaigns + 1
        for name in figures:
            source = made if name == "refused" else made.model
            figures[name] += len(source.slips) if name == "asked" else getattr(source, name)
        if progress is not None:
            progress(done)
    seconds = time.perf_counter() - began
    each = round(seconds / done * 1e6, 2)
    return {"events": done, "campaigns": campaigns, **figures, "seconds": round(seconds, 1),
            "us_per_event": each}  # fmt: skip


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--events", type=float, default=1e6)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after so many")
    given = parser.parse_args(arguments)
    began, found, seed = time.perf_counter(), None, given.seed

    def progress(done):
        nonlocal found
        found = done
        if time.perf_counter() - began > given.seconds:
            raise TimeoutError

    try:
        print(json.dumps(simulate(int(given.events), seed, progress)))
    except TimeoutError:
        seconds = time.perf_counter() - began
        print(json.dumps({"events": found, "seconds": round(seconds, 1), "seed": seed}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
