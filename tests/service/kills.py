"""Kill -9 of servers under load, with a ledger outside: nothing lost, nothing settled twice.

    python -m tests.service.kills --cycles 50 [--servers 2 --postgres] [--drop 0.05]

Workers are clients that ask with ids of their own and report what came of it. Each writes what it
is about to do, and what it was answered, to a file of its own, synced. Servers are killed at random
moments and started again; the clients repeat what was not answered, under the same
ids. ``--postgres``: on a PostgreSQL server of the command's own, which is restarted, and crashes,
every few kills; ``--servers 2``: two servers on it, one killed at a time. ``--drop``: a proxy
between loses this share of all answers. At the end the log has to agree with the files, and with
the model of the ledger. All of it stays on loopback.
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
from contextlib import ExitStack
from pathlib import Path

from tests.live import kills as base
from tests.live.postgres import store
from tests.service.proxy import Proxy
from tightrope import open_campaign
from tightrope.client import Client
from tightrope.service.server import Running

POLICY = "tests.live.cheap:Rotation"  # nothing is compiled: servers are short-lived
MORE = 100.0  # budget, at every kill
DEADLINE = 60.0  # seconds in which a client gets its answer, whatever happens


class Remote:
    """A campaign's methods, carried out by a service."""

    def __init__(self, client):
        self.client = client

    def ask(self, name):
        return self.client.ask(base.NAME, name)

    def tell(self, name, cost, reward, penalty):
        self.client.report(base.NAME, name, cost, reward, penalty)

    def void(self, name):
        self.client.void(base.NAME, name)

    def discard(self, number):
        target = f"/v1/campaigns/{base.NAME}/quarantine/{number}/discard"
        try:
            self.client.request("POST", target, {})
        except ValueError:  # its answer was lost, and it was discarded before
            return


class Worker(base.Worker):
    """A client that works until it is told to stop."""

    def __init__(self, urls, number, path, seed):
        self.number, self.rng = number, random.Random(seed)
        self.out = base.Outside(path)
        client = Client(urls, deadline=DEADLINE, timeout=5.0, wait=0.0)
        self.campaign = Remote(client)
        self.count, self.held, self.told, self.over = 0, [], [], False
        self.contexts = None

    def run(self):
        signal.signal(signal.SIGTERM, self.end)
        while not self.over:
            self.act()

    def end(self, *_):
        self.over = True


def start(urls, number, folder, seed):
    """A worker in a process of its own; returns its number there."""
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        Worker(urls, number, folder / f"worker-{number}.jsonl", seed).run()
        status = 0
    except BaseException:
        import traceback

        (folder / f"failed-{number}.txt").write_text(traceback.format_exc())
    finally:
        os._exit(status)


def stop(pids):
    """Let workers finish what they are at."""
    for pid in pids:
        os.kill(pid, signal.SIGTERM)
    for pid in pids:
        os.waitpid(pid, 0)


def more_budget(url):
    """As much as is spent until the next kill."""
    with open_campaign(url, base.NAME) as campaign:
        campaign.add_budget(MORE)
        if campaign.status()["state"] == "paused":  # told after a void: it costs more than is left
            campaign.resume()


def wait_for(count, least):
    """Until there are so many: how long that takes depends on the machine."""
    deadline = time.monotonic() + DEADLINE
    while count() < least and time.monotonic() < deadline:
        time.sleep(0.05)


def reported(folder):
    """The reports that were answered."""
    lines = [line for path in folder.glob("worker-*.jsonl") for line in base.read_lines(path)]
    return sum(line["do"] == "tell" and "answer" in line for line in lines)


def run(url, folder, cycles, *, servers=1, workers=8, seed=0, longest=1.0, drop=0.0, losses=0,
        reports=0, database=None, progress=None):  # fmt: skip
    """So many kills, and lost answers and reports at least; returns the figures."""
    rng, folder, began = random.Random(seed), Path(folder), time.monotonic()
    with open_campaign(
        url, base.NAME, task=base.TASK, budget=base.START, policy=POLICY, expire_after=20.0
    ):
        pass
    restarts = dropped = 0
    with ExitStack() as stack:
        up = [stack.enter_context(Running(url)) for _ in range(servers)]
        proxies = [Proxy(one.port, drop, seed) for one in up]
        urls = [one.url for one in proxies]
        pids = [start(urls[n % servers :] + urls[: n % servers], n, folder, seed + n)
                for n in range(workers)]  # fmt: skip
        for one in proxies:  # they have threads, which a fork should not meet
            stack.enter_context(one)
        try:
            for cycle in range(cycles):
                time.sleep(rng.uniform(0.1, longest))
                more_budget(url)
                hit = rng.randrange(servers)
                up[hit].kill()
                if database is not None and cycle % 3 == 2:
                    database.stop(rng.choice([signal.SIGINT, signal.SIGQUIT]))
                    time.sleep(rng.uniform(0.0, 0.3))
                    database.start()
                    restarts += 1
                up[hit] = stack.enter_context(Running(url))
                proxies[hit].port = up[hit].port
                if progress is not None:
                    progress(cycle + 1)
            time.sleep(0.5)
            wait_for(lambda: sum(one.dropped for one in proxies), losses)
            wait_for(lambda: reported(folder), reports)
        finally:
            stop(pids)
        dropped = sum(one.dropped for one in proxies)
        failed = sorted(folder.glob("failed-*"))
        assert not failed, failed[0].read_text()
    found = base.checked(url, folder)
    more = {"kills": cycles, "servers": servers, "restarts": restarts, "dropped": dropped}
    return {**more, **found, "seconds": round(time.monotonic() - began, 1)}


def good(found):
    """Whether nothing was lost, doubled or overspent."""
    return found["verified"] and not (found["lost"] or found["doubled"] or found["overspent"])


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cycles", type=int, default=50)
    parser.add_argument("--servers", type=int, default=1)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--drop", type=float, default=0.0, help="the share of answers that is lost")
    parser.add_argument("--postgres", action="store_true")
    given = parser.parse_args(arguments)

    def progress(cycle):
        if cycle % 10 == 0:
            print(f"{cycle} kills", file=sys.stderr, flush=True)

    with (
        tempfile.TemporaryDirectory() as folder,
        store(folder, given.postgres) as (url, database),
    ):
        found = run(url, folder, given.cycles, servers=given.servers, workers=given.workers,
                    seed=given.seed, drop=given.drop, database=database,
                    progress=progress)  # fmt: skip
    print(json.dumps(found))
    return 0 if good(found) else 1


if __name__ == "__main__":
    sys.exit(main())
