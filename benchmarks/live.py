"""Live campaigns: events per second beside what the store does without us, waits, growth, opening.

    python -m benchmarks.live [--store postgresql://...] [--growth 1e4 1e5 1e6 1e7] [--page]

Everything is measured in one run on one machine. *Limit*: the same rows, in transactions of the
same size, written by the store's own driver with the same settings (synced at every commit), with
no ledger and no policy. *Wait*: from a call to its answer, which includes the work. Every event is
followed by every process, mostly while it waits for its turn: several processes give reach, not
speed.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import sqlite3
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

from benchmarks import page
from tightrope import Controller, Limit, Task, open_campaign, parse_policy
from tightrope.errors import ExhaustedError, WaitError
from tightrope.live import Campaign
from tightrope.live.calls import Background
from tightrope.live.events import START, Row, stored, text_of
from tightrope.live.kinds import Asked
from tightrope.live.stores.memory import MemoryStore
from tightrope.live.stores.statements import SQLITE_TABLES

ARMS, BATCH = 8, 64
POLICY = "lyon"
TASK = Task(arms=[f"arm {k}" for k in range(ARMS)], limits={"bad": Limit(0.05)})
REPORT = {"cost": 0.5, "reward": 0.5, "penalty": 0.0}


def opened(store: Any, name: str, budget: float = 1e9) -> Campaign:
    return open_campaign(store, name, task=TASK, budget=budget, policy=POLICY)


def turn(campaign: Campaign, batch: int) -> None:
    """Ask for a batch, then tell it: 2 x batch events."""
    tickets = campaign.ask_many(batch)
    campaign.tell_many([{"id": one.id, **REPORT} for one in tickets])


def rate(campaign: Campaign, batch: int, seconds: float) -> tuple[float, list[float]]:
    """Events per second, and how long each call took."""
    waits, events, start = [], 0, time.perf_counter()
    while (now := time.perf_counter()) - start < seconds:
        tickets = campaign.ask_many(batch)
        told = time.perf_counter()
        campaign.tell_many([{"id": one.id, **REPORT} for one in tickets])
        waits += [told - now, time.perf_counter() - told]
        events += 2 * batch
    return events / (time.perf_counter() - start), waits


# Memory.


def in_memory(repeats: int = 100) -> tuple[float, float, float]:
    """Microseconds of CPU per event in batches, one by one, and of the policy alone.

    Each time in a new store, as Python's collector of garbage looks at all that a store holds.
    """
    found = []
    for batch in (BATCH, 1):
        best = float("inf")
        for _ in range(10):
            campaign = opened(MemoryStore(), "memory")
            turn(campaign, batch)
            Background.wait()  # plain Python decides until then
            start = time.process_time()
            for _ in range(repeats):
                turn(campaign, batch)
            best = min(best, (time.process_time() - start) / (2 * batch * repeats))
        found.append(1e6 * best)
    controller, best = Controller(TASK, parse_policy(POLICY), 1e9), float("inf")
    for _ in range(5):
        start = time.process_time()
        for _ in range(repeats):
            for arm in controller.ask_many(BATCH):
                controller.tell(arm, 0.5, 0.5, 0.0)
        best = min(best, (time.process_time() - start) / (2 * BATCH * repeats))
    return found[0], found[1], 1e6 * best


def following(repeats: int = 100) -> float:
    """Microseconds of CPU to follow an event that another process wrote."""
    store, best = MemoryStore(), float("inf")
    campaign = opened(store, "memory")
    other = Campaign(store, "memory")
    seen = other.refreshed().ledger.seq
    for _ in range(10):
        for _ in range(repeats // 10):
            turn(campaign, BATCH)
        start = time.process_time()
        seq = other.refreshed().ledger.seq
        best = min(best, (time.process_time() - start) / (seq - seen))
        seen = seq
    return 1e6 * best


# SQLite.


def rows_like_ours(count: int) -> list[Row]:
    """Rows of the size that a campaign writes."""
    made, before = [], START
    for seq in range(1, count + 1):
        text = text_of(Asked(seq % ARMS, 10**15 + seq, moves=[0, 0, 10**9]))
        made.append(stored(before, seq, 10**15, "asked", f"1-{seq:08d}", "host:1", 1, text))
        before = made[-1].hash
    return made


def sqlite_limit(folder: str, batch: int, seconds: float) -> float:
    """Events per second of SQLite alone, in transactions of ``batch`` rows."""
    path = Path(folder, f"limit-{time.monotonic_ns()}.db")
    connection = sqlite3.connect(str(path), isolation_level=None)
    connection.executescript("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;")
    connection.executescript(SQLITE_TABLES)
    rows, done, start = rows_like_ours(2000 * max(batch, 8)), 0, time.perf_counter()
    while time.perf_counter() - start < seconds and done + batch <= len(rows):
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(
            "INSERT INTO events VALUES (1, ?, ?, ?, ?, ?, ?, ?, ?)", rows[done : done + batch]
        )
        connection.execute("COMMIT")
        done += batch
    taken = time.perf_counter() - start
    connection.close()
    return done / taken


# Several processes.


def _worker(store: str, name: str, batch: int, seconds: float, ready: Barrier, out: Any) -> None:
    campaign = opened(store, name)
    turn(campaign, batch)
    ready.wait()
    out.put(rate(campaign, batch, seconds))


def several(
    store: str, name: str, processes: int, batch: int, seconds: float
) -> tuple[float, list[float], list[float]]:
    """Events per second of all, of each, and all waits."""
    opened(store, name).disconnect()
    context = multiprocessing.get_context("spawn")
    ready, out = context.Barrier(processes), context.Queue()
    workers = [
        context.Process(target=_worker, args=(store, name, batch, seconds, ready, out))
        for _ in range(processes)
    ]
    for one in workers:
        one.start()
    found = [out.get() for _ in workers]
    for one in workers:
        one.join()
    rates = [one for one, _ in found]
    return sum(rates), rates, [wait for _, waits in found for wait in waits]


# Growth.


def growth(folder: str, sizes: Sequence[float]) -> Iterator[tuple[int, float, float, float]]:
    """At each size: milliseconds of a single ask and of a batch, and seconds to open."""
    store = str(Path(folder, "growth.db"))
    campaign = opened(store, "growth")
    for size in sorted(sizes):
        while campaign.refreshed().ledger.seq < size:
            turn(campaign, 256)
        singles, batches = [], []
        for _ in range(200):
            start = time.perf_counter()
            ticket = campaign.ask()
            singles.append(time.perf_counter() - start)
            campaign.tell(ticket.id, **REPORT)  # type: ignore[arg-type]
        for _ in range(50):
            start = time.perf_counter()
            turn(campaign, BATCH)
            batches.append((time.perf_counter() - start) / 2)
        best = float("inf")
        for _ in range(3):
            start = time.perf_counter()
            again = open_campaign(store, "growth")
            best = min(best, time.perf_counter() - start)
            again.disconnect()
        yield int(size), 1e3 * median(singles), 1e3 * median(batches), best


def median(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 2]


# A hard budget.


def hard_budget(budget: float = 5000.0, flying: int = 512) -> tuple[float, int]:
    """The share of a hard budget that is spent with so many pulls in flight, and the pulls."""
    store, luck = MemoryStore(), random.Random(1)
    campaign = open_campaign(store, "hard", task=TASK, budget=budget, policy=POLICY)
    tickets: list[str] = []
    while True:
        try:
            while len(tickets) < flying:
                tickets.append(campaign.ask().id)
        except WaitError:
            pass
        except ExhaustedError:
            break
        one = tickets.pop(luck.randrange(len(tickets)))
        campaign.tell(one, cost=luck.random(), reward=luck.random(), penalty=0.0)
    status = campaign.status()
    assert status["spent"] <= status["budget"]
    return status["spent"] / status["budget"], status["told"]


@contextmanager
def temporary() -> Iterator[str]:
    with tempfile.TemporaryDirectory(
        prefix="tightrope-live-", dir=os.environ.get("LIVE_DIR")
    ) as one:
        yield one


def block(store: str | None, sizes: Sequence[float], seconds: float) -> str:
    lines = [page.machine(), ""]
    batches, single, policy = in_memory()
    lines += [
        f"In memory, with {ARMS} arms and `{POLICY}`, an event takes {batches:.1f} µs of CPU in"
        f" batches of {BATCH} and {single:.1f} µs alone; the policy takes {policy:.1f} µs of that."
        f" Reading an event of another process takes {following():.1f} µs.",
        "",
    ]
    head = ["store", "processes", "batch", "events/s", "its limit", "ratio", "median wait",
            "longest wait", "slowest process"]  # fmt: skip
    rows = []
    with temporary() as folder:
        stores = [("SQLite", str(Path(folder, "campaign.db")), (1, 4))]
        if store is not None:
            stores.append(("PostgreSQL", store, (1, 8)))
        for title, url, counts in stores:
            for processes in counts:
                for batch in (BATCH, 1):
                    limit = limit_of(title, url, folder, batch, seconds)
                    name = f"bench-{os.getpid()}-{processes}-{batch}"
                    total, each, waits = several(url, name, processes, batch, seconds)
                    rows.append([
                        title, str(processes), str(batch), f"{total:,.0f}", f"{limit:,.0f}",
                        f"{total / limit:.2f}", f"{1e3 * median(waits):.1f} ms",
                        f"{1e3 * max(waits):.1f} ms", f"{min(each):,.0f}",
                    ])  # fmt: skip
                    print("|", " | ".join(rows[-1]), "|", file=sys.stderr)
        lines += [page.table(head, rows), ""]
        grown = [
            [f"{size:,}", f"{one:.2f} ms", f"{many:.2f} ms", f"{start:.3f} s"]
            for size, one, many, start in growth(folder, sizes)
        ]
    lines += [page.table(["events", "one ask", f"a batch of {BATCH}", "opening"], grown), ""]
    share, pulls = hard_budget()
    lines += [
        f"With a hard budget of 5,000 and 512 outstanding decisions, {share:.4%} of the budget was"
        f" spent after {pulls:,} pulls."
    ]
    return "\n".join(lines)


def limit_of(title: str, url: str, folder: str, batch: int, seconds: float) -> float:
    if title == "SQLite":
        return sqlite_limit(folder, batch, seconds)
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS tightrope_limit")
        connection.execute(
            "CREATE TABLE tightrope_limit (campaign int, seq bigint, at bigint, kind text,"
            " ticket text, who text, version int, body text, hash bytea,"
            " PRIMARY KEY (campaign, seq))"
        )
        rows, done, start = rows_like_ours(2000 * max(batch, 8)), 0, time.perf_counter()
        marks = ", ".join(["%s"] * 8)
        while time.perf_counter() - start < seconds and done + batch <= len(rows):
            with connection.transaction(), connection.cursor() as cursor:
                cursor.executemany(
                    f"INSERT INTO tightrope_limit VALUES (1, {marks})", rows[done : done + batch]
                )
            done += batch
        taken = time.perf_counter() - start
        connection.execute("DROP TABLE tightrope_limit")
    return done / taken


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--store", help="of a PostgreSQL database, to be measured too")
    parser.add_argument("--growth", type=float, nargs="+", default=[1e4, 1e5])
    parser.add_argument("--seconds", type=float, default=4.0, help="of each measurement")
    parser.add_argument("--page", action="store_true", help="write the block of docs/benchmarks.md")
    options = parser.parse_args(arguments)
    text = block(options.store, options.growth, options.seconds)
    if options.page:
        page.publish({"live": text})
    print(text)


if __name__ == "__main__":
    main()
