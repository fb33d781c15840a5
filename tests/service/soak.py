"""The service under a steady load for long, its ledger compared with an outside one every minute.

    python -m tests.service.soak --minutes 60 [--rate 200] [--every 60] [--kill-every 0]
                                 [--postgres]

Clients ask, report, void and repeat themselves at a steady rate; each counts, in thousandths, what
it was answered. Every so often they are held between two calls: then the ledger of the service has
to be the sum of theirs, to the tick. The server's memory and the store's size are printed with each
check. ``--kill-every``: seconds between kills of the server. ``--postgres``: on a PostgreSQL of the
command's own, which crashes or is restarted at every tenth kill. In the end the log is verified.
All of it stays on loopback; the loops end with the time.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path

from tests.live.postgres import store as store_in
from tests.service.proxy import Proxy
from tightrope import Limit, Task, open_campaign
from tightrope.client import Client
from tightrope.errors import CampaignError, ConflictError, ExhaustedError
from tightrope.service.server import Running

NAME, POLICY = "soak", "lyon"
TASK = Task(["cheap", "dear"], {"bad": Limit(0.4)})
BUDGET = 1_000_000.0
HELD = 8  # tickets of one client


def unit(amount):
    """An amount in thousandths."""
    return round(amount * 1000)


class User(threading.Thread):
    """A client with a ledger of its own."""

    def __init__(self, url, number, rate):
        super().__init__(name=f"user {number}", daemon=True)
        self.client = Client(url, deadline=60.0, wait=0.0)
        self.rng, self.rate = random.Random(number), rate
        self.between, self.over = threading.Lock(), False
        self.held, self.told = [], []
        self.asked = self.voided = self.reports = self.spent = self.repeated = 0
        self.failure = None

    def run(self):
        due = time.monotonic()
        try:
            while not self.over:
                with self.between:
                    self.act()
                due = max(due, time.monotonic() - 1.0) + self.rng.expovariate(self.rate)
                time.sleep(max(due - time.monotonic(), 0.0))
        except BaseException as error:
            self.failure = error
        finally:
            self.client.close()

    def act(self):
        roll = self.rng.random()
        if self.told and roll < 0.05:  # again the same: nothing changes
            self.client.report(NAME, *self.rng.choice(self.told[-20:]))
            self.repeated += 1
        elif len(self.held) < HELD and roll < 0.55:
            try:
                self.held.append(self.client.ask(NAME).id)
                self.asked += 1
            except (ExhaustedError, CampaignError):
                return
        elif self.held:
            ticket = self.held.pop(self.rng.randrange(len(self.held)))
            if roll < 0.6:
                self.client.void(NAME, ticket)
                self.voided += 1
            else:
                self.report(ticket, self.rng.randrange(1, 1001))

    def report(self, ticket, thousandths):
        outcome = (ticket, thousandths / 1000, 1.0, 0.25)
        self.client.report(NAME, *outcome)
        self.told = [*self.told[-50:], outcome]
        self.reports, self.spent = self.reports + 1, self.spent + thousandths
        if self.rng.random() < 0.01:
            try:
                self.client.report(NAME, ticket, 0.5, 0.5, 0.5)
                raise AssertionError(f"{ticket}: a conflicting report was taken")
            except ConflictError:
                return


def compared(client, users):
    """Hold everybody between two calls, and compare; returns what differs and the ledger."""
    with ExitStack() as stack:
        for user in users:
            stack.enter_context(user.between)
            if user.failure is not None:
                raise user.failure
        ledger = client.ledger(NAME)
        (account,), tickets = ledger["accounts"], ledger["tickets"]
        ticks = account["ticks"]
        per_unit = round(0.001 / account["tick"])
        flying = sum(len(user.held) for user in users)
        outside = {
            "budget": unit(BUDGET) * per_unit,
            "spent": sum(user.spent for user in users) * per_unit,
            "reserved": flying * 1000 * per_unit,
            "in_flight": flying,
            "asked": sum(user.asked for user in users),
            "told": sum(user.reports for user in users),
            "voided": sum(user.voided for user in users),
            "expired": 0,
        }
    inside = {**ticks, **tickets}
    wrong = {key: (inside[key], value) for key, value in outside.items() if inside[key] != value}
    if ticks["budget"] != ticks["spent"] + ticks["reserved"] + ticks["free"]:
        wrong["free"] = ticks
    return wrong, ledger


def memory_of(pid):
    """Mebibytes that a process has in memory."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def size_of(folder, database):
    """Mebibytes of the store."""
    if database is None:
        return sum(one.stat().st_size for one in Path(folder).iterdir()) / 2**20
    with database.connect() as connection:
        (bytes_,) = connection.execute("SELECT pg_database_size('postgres')").fetchone()
    return bytes_ / 2**20


def restart(database, restarts):
    """A crash of the database, or a restart."""
    database.stop(signal.SIGQUIT if restarts % 2 else signal.SIGINT)
    time.sleep(0.3)
    database.start()


def run(folder, seconds, *, every=60.0, rate=200.0, clients=8, kill_every=0.0, say=print,
        postgres=False):  # fmt: skip
    """So long, on a store in a folder or in a PostgreSQL; returns the figures."""
    with store_in(folder, postgres) as (store, database):
        return _run(folder, store, database, seconds, every, rate, clients, kill_every, say)


def _run(folder, store, database, seconds, every, rate, clients, kill_every, say):
    open_campaign(store, NAME, task=TASK, budget=BUDGET, policy=POLICY).disconnect()
    checks, kills, restarts, differences = 0, 0, 0, []
    with ExitStack() as stack:
        server = stack.enter_context(Running(store))
        proxy = stack.enter_context(Proxy(server.port))
        watcher = stack.enter_context(Client(proxy.url, deadline=60.0))
        users = [User(proxy.url, n, rate / clients) for n in range(clients)]
        began = time.monotonic()
        for user in users:
            user.start()
        try:
            check_at, kill_at = began + every, began + (kill_every or float("inf"))
            while (now := time.monotonic()) < began + seconds or checks == 0:
                time.sleep(max(min(check_at, kill_at) - now, 0.0))
                if kill_at < check_at:
                    server.kill()
                    if database is not None and kills % 10 == 9:
                        restart(database, restarts := restarts + 1)
                    server = stack.enter_context(Running(store))
                    proxy.port, kills, kill_at = server.port, kills + 1, kill_at + kill_every
                    continue
                wrong, ledger = compared(watcher, users)
                checks, check_at = checks + 1, check_at + every
                differences += [wrong] if wrong else []
                say(json.dumps({
                    "minutes": round((time.monotonic() - began) / 60, 2),
                    "events": ledger["events"],
                    "exact": not wrong,
                    "server_mib": round(memory_of(server.process.pid), 1),
                    "store_mib": round(size_of(folder, database), 1),
                    **({"wrong": wrong} if wrong else {}),
                }))  # fmt: skip
        finally:
            for user in users:
                user.over = True
            for user in users:
                user.join(90)
        wrong, _ = compared(watcher, users)
        differences += [wrong] if wrong else []
    with open_campaign(store, NAME) as campaign:
        verified = campaign.verify().good
    return {
        "seconds": round(time.monotonic() - began, 1),
        "checks": checks + 1,
        "kills": kills,
        "restarts": restarts,
        "asks": sum(user.asked for user in users),
        "reports": sum(user.reports for user in users),
        "repeated": sum(user.repeated for user in users),
        "differences": len(differences),
        "verified": verified,
    }


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--every", type=float, default=60.0, help="seconds between checks")
    parser.add_argument("--rate", type=float, default=200.0, help="operations per second")
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--kill-every", type=float, default=0.0, help="seconds; 0 for never")
    parser.add_argument("--postgres", action="store_true")
    given = parser.parse_args(arguments)

    def say(line):
        print(line, file=sys.stderr, flush=True)

    with tempfile.TemporaryDirectory() as folder:
        found = run(folder, 60 * given.minutes, every=given.every, rate=given.rate,
                    clients=given.clients, kill_every=given.kill_every, say=say,
                    postgres=given.postgres)  # fmt: skip
    print(json.dumps(found))
    return 0 if found["verified"] and not found["differences"] else 1


if __name__ == "__main__":
    sys.exit(main())
