"""Kill -9 under load, with a ledger outside: nothing is lost, doubled or overspent.

    python -m tests.live.kills --cycles 1000 [--postgres] [--workers 3]

Workers ask with ids of their own and tell what came of it. Each writes what it is about to do, and
what it was answered, to a file of its own, synced. They are killed at random moments, one or all,
and started again: then they repeat what was not answered, under the same id. At the end the log has
to agree with the files, and with the model of the ledger. With ``--types`` requests have types,
with ``--features`` features that are erased now and then.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from tests.live.cheap import Rotation  # nothing is compiled: processes are short-lived
from tests.live.ledger_model import Model, follow
from tests.live.postgres import store
from tightrope import Limit, Task, open_campaign
from tightrope.errors import CampaignError, ConflictError, ExhaustedError, StoreError

NAME = "killed"
ARMS = {"cheap": 0.25, "dear": 1.0}  # what each costs; the dear one may cost less
TASK = Task(list(ARMS), {"bad": Limit(0.4)})
TYPES = ["math", "code", "chat", "art", "law"]  # more than there is room for
FEATURES = {"features": ["long", "hard"], "erasable": True}  # 0.2 imports this module, too
START, MORE, EVERY = 20.0, 20.0, 4  # the budget, and what is added to it every so many kills
SNAPSHOTS = 500  # events between two


def unit(amount):
    """An amount in thousandths."""
    return round(amount * 1000)


class Outside:
    """A worker's own ledger: a line before each call and one after its answer."""

    def __init__(self, path):
        self.file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        self.lines = read_lines(path)

    def write(self, **line):
        os.write(self.file, json.dumps(line).encode() + b"\n")
        os.fsync(self.file)


def read_lines(path):
    """The lines of a file; a last one without an end was not written."""
    *whole, _ = Path(path).read_bytes().split(b"\n")
    return [json.loads(line) for line in whole]


class Worker:
    """A process that works on the campaign until it is killed."""

    def __init__(self, url, number, path, seed):
        self.number, self.rng = number, random.Random(seed)
        self.out = Outside(path)
        self.campaign = open_campaign(url, NAME, who=f"worker {number}")
        self.contexts = getattr(self.campaign.refreshed(), "types", None)
        self.count, self.held, self.told = 0, [], []

    def run(self):
        self.go_on()
        while True:
            try:
                self.act()
            except StoreError:  # busy: it is repeated, as after a kill
                self.go_on()

    def go_on(self):
        """Learn from the own ledger what there is, and repeat what was not answered."""
        begun, self.held, self.told = {}, [], []
        for line in read_lines(self.path):
            begun[line["id"], line["do"]] = line
        for (name, what), line in sorted(begun.items(), key=lambda item: item[1]["n"]):
            self.count = max(self.count, line["n"])
            if what != "ask":
                self.held = [one for one in self.held if one != name]
            if "answer" not in line:
                self.do(line)
            elif what == "ask" and line["answer"] == "open":
                self.held.append(name)
            elif what == "tell":
                self.told.append((name, line["v"]))

    @property
    def path(self):
        return f"/proc/self/fd/{self.out.file}"

    def act(self):
        rng, roll = self.rng, self.rng.random()
        if self.told and roll < 0.05:  # again the same
            name, values = rng.choice(self.told[-20:])
            self.campaign.tell(name, *values)
            assert self.campaign.ask(name, **self.context(name)).state == "told", name
        elif self.told and roll < 0.07:  # something else
            name, values = rng.choice(self.told[-20:])
            try:
                self.campaign.tell(name, values[0] / 2, 0.5, 0)
                raise AssertionError(f"{name}: a conflicting report was taken")
            except ConflictError as error:
                if error.quarantine is not None:
                    self.campaign.discard(error.quarantine)
        elif len(self.held) < 8 and roll < 0.6:
            self.begin("ask", f"w{self.number}-{self.count + 1}")
        elif self.held:
            name = self.held.pop(rng.randrange(len(self.held)))
            if roll < 0.63:
                self.begin("void", name)
            else:
                self.begin("tell", name, v=[rng.randrange(1, 251) / 1000, 1.0, 0.25])

    def context(self, name):
        """The context of a request, as an argument: always the same for the same id."""
        number = sum(name.encode())
        if getattr(self.contexts, "erasable", False):
            return {"context": [number / 7, number % 5]}
        return {} if self.contexts is None else {"context": TYPES[number % len(TYPES)]}

    def begin(self, what, name, **more):
        self.count += 1
        line = {"do": what, "id": name, "n": self.count, **more}
        self.out.write(**line)
        self.do(line)

    def do(self, line):
        """Make the call of a line, and write its answer."""
        name, what = line["id"], line["do"]
        answer = "done"
        try:
            if what == "ask":
                ticket = self.campaign.ask(name, **self.context(name))
                answer, line["arm"] = ticket.state, ticket.number
                line["context"] = getattr(ticket, "context", None)
                self.held.append(name)
            elif what == "tell":
                self.campaign.tell(name, *line["v"])
                self.told.append((name, line["v"]))
            else:
                self.campaign.void(name)
        except (ExhaustedError, CampaignError) as error:
            answer = type(error).__name__
        except ConflictError:  # a void of a ticket that has expired meanwhile
            answer = "conflict"
        self.out.write(**line, answer=answer)


def start(url, number, folder, seed):
    """A worker in a process of its own; returns its number there."""
    pid = os.fork()
    if pid:
        return pid
    try:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        from tightrope.live import turns  # here: version 0.2 has none

        turns.SNAPSHOT_EVERY = SNAPSHOTS  # in this process alone
        Worker(url, number, folder / f"worker-{number}.jsonl", seed).run()
    except BaseException:
        import traceback

        (folder / f"failed-{number}-{seed}.txt").write_text(traceback.format_exc())
    finally:
        os._exit(1)


def stop(pids):
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    for pid in pids:
        os.waitpid(pid, 0)


def more_budget(url):
    with open_campaign(url, NAME) as campaign:
        campaign.add_budget(MORE)
        if getattr(campaign.refreshed().types, "erasable", False):
            campaign.erase_contexts()
        if campaign.status()["state"] == "paused":  # told after a void: it costs more than there is
            campaign.resume()


def run(url, folder, cycles, workers=3, seed=0, longest=0.4, progress=None, task=TASK):
    """So many kills; returns the figures."""
    rng, folder = random.Random(seed), Path(folder)
    with open_campaign(
        url, NAME, task=task, budget=START, policy=Rotation(), expire_after=0.4, seed=seed
    ):
        pass
    began, seeds = time.monotonic(), iter(range(10**9))
    pids = [start(url, n, folder, next(seeds)) for n in range(workers)]
    try:
        for cycle in range(cycles):
            time.sleep(rng.uniform(0.0, longest))
            if cycle % EVERY == EVERY - 1:
                more_budget(url)
            hit = range(workers) if rng.random() < 0.2 else [rng.randrange(workers)]
            stop([pids[n] for n in hit])
            for n in hit:
                pids[n] = start(url, n, folder, next(seeds))
            if progress is not None:
                progress(cycle + 1)
    finally:
        stop(pids)
    failed = sorted(folder.glob("failed-*"))
    assert not failed, failed[0].read_text()
    return {"cycles": cycles, **checked(url, folder), "seconds": time.monotonic() - began}


def checked(url, folder):
    """Compare the log with the files outside and with the model."""
    with open_campaign(url, NAME) as campaign:
        events = list(campaign.events())
        verified, status = campaign.verify(), campaign.status()
        ledger = campaign.refreshed().ledger
    model = Model([unit(START)], [(1000,), (1000,)])
    lost, overspent, doubled = [], 0, 0
    asked, told, voided = {}, {}, set()
    for event in events[1:]:
        if event.kind in ("asked", "told"):
            doubled += event.ticket in (asked if event.kind == "asked" else told)
        if event.kind == "asked":
            asked[event.ticket] = event.body.arm, getattr(event.body, "context", None)
        elif event.kind == "told":
            told[event.ticket] = event.body.values
        elif event.kind == "voided":
            voided.add(event.ticket)
        follow(model, event, unit)
        overspent += model.spent[0] + model.reserved[0] > model.budgets[0]
    answered = dict.fromkeys(("ask", "tell", "void"), 0)
    for path in sorted(folder.glob("worker-*.jsonl")):
        for line in read_lines(path):
            name, what, answer = line["id"], line["do"], line.get("answer")
            if answer is None:
                continue
            answered[what] += 1
            refused = answer in ("WaitError", "ExhaustedError", "CampaignError", "conflict")
            there = {
                "ask": asked.get(name) == (line.get("arm"), line.get("context")),
                "tell": told.get(name) == line.get("v"),
                "void": name in voided,
            }[what]
            if there == refused and not (refused and what == "void"):
                lost.append(line)
    unit_ticks = 10 ** (ledger.accounts[0].digits - 3)
    account = ledger.accounts[0]
    same = [account.budget, account.spent, account.reserved] == [
        one * unit_ticks for one in (model.budgets[0], model.spent[0], model.reserved[0])
    ]
    assert same, (account, model.table())
    assert (ledger.asked, ledger.told, ledger.voided, ledger.expired, ledger.late) == (
        len(model.slips), model.told, model.voided, model.expired, model.late,
    )  # fmt: skip
    return {
        "events": len(events),
        "asks": answered["ask"],
        "tells": answered["tell"],
        "voids": answered["void"],
        "expired": status["expired"],
        "late": status["late"],
        "snapshots": verified.snapshots,
        "verified": verified.good and verified.to_the_bit == verified.snapshots,
        "lost": len(lost),
        "doubled": doubled,
        "overspent": overspent,
    }


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cycles", type=int, default=20)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--postgres", action="store_true", help="on a server of its own")
    parser.add_argument("--types", action="store_true", help="requests have types")
    parser.add_argument("--features", action="store_true", help="requests have features")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder, store(folder, given.postgres) as (url, _):

        def progress(cycle):
            if cycle % 50 == 0:
                print(f"{cycle} cycles", file=sys.stderr, flush=True)

        task = replace(TASK, contexts={"most": 3}) if given.types else TASK
        task = replace(TASK, contexts=FEATURES) if given.features else task
        found = run(
            url, folder, given.cycles, given.workers, given.seed, progress=progress, task=task
        )
    print(json.dumps(found))
    good = found["verified"] and not (found["lost"] or found["doubled"] or found["overspent"])
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
