"""The service under load: waits at a steady rate, most requests per second, batches.

    python -m benchmarks.service [--seconds 10] [--store postgresql://...] [--busy] [--page]

The load generator is this module, in a process of its own: HTTP/1.1 over keep-alive connections of
loopback, asyncio (uvloop) protocols that write requests made beforehand and look for the end of an
answer; a general one cannot follow tickets. It shares the machine with the server. A *wait* is from
the moment at which a request was due, not from when it was sent, to the end of its answer, which
the server sends after the commit. Half of all operations are decisions, half reports. In the end
the ledger has to have every operation that was answered, once.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks import page
from tightrope.client import Client, new_id
from tightrope.service.server import Running

ARMS, CLIENTS, RATE, BATCH = 8, 64, 2000, 64
POLICY = "lyon"
TASK = {"arms": [{"name": f"arm {k}"} for k in range(ARMS)], "limits": {"bad": 0.05}}
OUTCOME = b'"cost":0.5,"reward":0.5,"penalty":0'
LEAD = 0.5  # seconds before a steady load begins
MOST = 2_000_000  # operations of one measurement; loops are bounded


class Connection(asyncio.Protocol):
    """A keep-alive connection: one request, one answer, in turn."""

    def __init__(self) -> None:
        self._answer: asyncio.Future[bytes] | None = None
        self._got, self._whole = b"", -1

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self._got += data
        if self._whole < 0:
            end = self._got.find(b"\r\n\r\n")
            if end < 0:
                return
            head = self._got[:end].lower()
            at = head.index(b"content-length:") + 15
            self._whole = end + 4 + int(head[at:].split(b"\r\n", 1)[0])
        if len(self._got) >= self._whole and self._answer is not None:
            answer, self._got, self._whole = self._got, b"", -1
            waiter, self._answer = self._answer, None
            if not waiter.done():
                waiter.set_result(answer)

    def connection_lost(self, error: Exception | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(ConnectionError("the server closed the connection"))

    def send(self, request: bytes) -> asyncio.Future[bytes]:
        """Write a request; its answer comes."""
        self._answer = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        return self._answer


def request(target: str, body: bytes) -> bytes:
    """A request's bytes."""
    head = f"POST {target} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
    return f"{head}content-length: {len(body)}\r\n\r\n".encode() + body


def decision(target: str, ticket: str) -> bytes:
    return request(f"{target}/decisions", b'{"id":"%s"}' % ticket.encode())


def report(target: str, ticket: str) -> bytes:
    return request(f"{target}/reports", b'{"id":"%s",%s}' % (ticket.encode(), OUTCOME))


def decisions(target: str, tickets: Sequence[str]) -> bytes:
    items = b",".join(b'{"id":"%s"}' % one.encode() for one in tickets)
    return request(f"{target}/decisions/batch", b'{"decisions":[%s]}' % items)


def reports(target: str, tickets: Sequence[str]) -> bytes:
    items = b",".join(b'{"id":"%s",%s}' % (one.encode(), OUTCOME) for one in tickets)
    return request(f"{target}/reports/batch", b'{"reports":[%s]}' % items)


class Load:
    """What clients do to one campaign, and what came of it."""

    def __init__(self, port: int, name: str, seconds: float) -> None:
        self.port, self.target, self.seconds = port, f"/v1/campaigns/{name}", seconds
        self.waits: list[float] = []
        self.asked = self.told = 0

    async def _connect(self) -> Connection:
        loop = asyncio.get_running_loop()
        return (await loop.create_connection(Connection, "127.0.0.1", self.port))[1]

    async def _send(self, connection: Connection, made: bytes, due: float, items: int = 1) -> None:
        answer = await connection.send(made)
        self.waits.append(time.perf_counter() - due)
        if not answer.startswith(b"HTTP/1.1 20"):
            raise RuntimeError(f"refused: {answer[:1000]!r}")
        if items > 1 and answer.count(b'"status":20') != items:
            raise RuntimeError(f"some refused: {answer[:1000]!r}")

    async def paced(self, number: int, clients: int, rate: float) -> None:
        """One client's share of a steady rate."""
        connection, start = await self._connect(), time.perf_counter() + LEAD
        for i in range(min(MOST, int(self.seconds * rate / clients) // 2)):
            ticket = new_id()
            for made, asks in ((decision, 1), (report, 0)):
                due = start + ((2 * i + 1 - asks) * clients + number) / rate
                if (rest := due - time.perf_counter()) > 0:
                    await asyncio.sleep(rest)
                await self._send(connection, made(self.target, ticket), due)
                self.asked, self.told = self.asked + asks, self.told + 1 - asks
        connection.transport.close()

    async def unpaced(self, batch: int) -> None:
        """One client that sends the next request when the last is answered."""
        connection, end = await self._connect(), time.perf_counter() + self.seconds
        while time.perf_counter() < end and self.asked < MOST:
            if batch == 1:
                ticket = new_id()
                first, second = decision(self.target, ticket), report(self.target, ticket)
            else:
                tickets = [new_id() for _ in range(batch)]
                first, second = decisions(self.target, tickets), reports(self.target, tickets)
            await self._send(connection, first, time.perf_counter(), batch)
            self.asked += batch
            await self._send(connection, second, time.perf_counter(), batch)
            self.told += batch
        connection.transport.close()


async def together(work: Sequence[Coroutine[Any, Any, None]]) -> float:
    start = time.perf_counter()
    await asyncio.gather(*work)
    return time.perf_counter() - start


def generate(port: int, name: str, seconds: float, clients: int, rate: float, batch: int) -> dict:
    """The load of one measurement; runs in a process of its own."""
    import uvloop

    gc.disable()  # its pauses would be the generator's, not the server's
    load = Load(port, name, seconds)
    if rate:
        work = [load.paced(n, clients, rate) for n in range(clients)]
    else:
        work = [load.unpaced(batch) for _ in range(clients)]
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        took = runner.run(together(work)) - (LEAD if rate else 0.0)
    return {"waits": load.waits, "asked": load.asked, "told": load.told, "took": took,
            "cpu": time.process_time() / took}  # fmt: skip


def cpu_of(pid: int) -> float:
    """Seconds of processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measured(
    server: Running, seconds: float, clients: int, rate: float = 0, batch: int = 1
) -> dict:
    """One measurement, on a new campaign of a server."""
    name = f"load-{new_id()}"
    with Client(server.url, deadline=60.0) as client:
        client.create(name, TASK, 1e9, policy=POLICY)
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            warm = pool.apply(generate, (server.port, name, 0.5, clients, 0, 1))  # and compile
            before = cpu_of(server.process.pid)
            found = pool.apply(generate, (server.port, name, seconds, clients, rate, batch))
            found["server_cpu"] = (cpu_of(server.process.pid) - before) / found["took"]
        status = client.status(name)
    told = warm["told"] + found["told"]
    found["exact"] = [status[key] for key in ("asked", "told", "in_flight", "spent")] == [
        warm["asked"] + found["asked"], told, 0, 0.5 * told,
    ]  # fmt: skip
    found["per_second"] = (found["asked"] + found["told"]) / found["took"]
    return found


def alone(store: str, *arguments: Any, **more: Any) -> dict:
    """One measurement on a new server."""
    with Running(store) as server:
        return measured(server, *arguments, **more)


def _spin(end: float) -> None:
    while time.time() < end:
        sum(range(10_000))


@contextmanager
def busy(seconds: float) -> Iterator[None]:
    """Every processor has something else to do."""
    context = multiprocessing.get_context("spawn")
    end = time.time() + seconds
    spinning = [context.Process(target=_spin, args=(end,)) for _ in range(os.cpu_count() or 1)]
    for one in spinning:
        one.start()
    try:
        yield
    finally:
        for one in spinning:
            one.terminate()
            one.join()


def percentile(waits: Sequence[float], share: float) -> float:
    """In milliseconds."""
    ordered = sorted(waits)
    return 1e3 * ordered[min(len(ordered) - 1, int(share * len(ordered)))]


HEAD = ["load", "operations/s", "median wait", "p99", "p99.9", "longest", "server's CPU",
        "generator's CPU", "ledger exact"]  # fmt: skip


def row(title: str, found: dict) -> list[str]:
    waits = [f"{percentile(found['waits'], share):.1f} ms" for share in (0.5, 0.99, 0.999, 1.0)]
    cpu = [f"{found[key]:.0%}" for key in ("server_cpu", "cpu")]
    return [title, f"{found['per_second']:,.0f}", *waits, *cpu, "yes" if found["exact"] else "NO"]


def rows(store: str, seconds: float, with_busy: bool, few: Sequence[int]) -> Iterator[list[str]]:
    """A row per load."""
    alone(store, 0.5, 4)  # kernels are compiled once: the next servers read them from the disk
    paced = f"{CLIENTS} clients, paced at {RATE:,}/s"
    yield row(paced, alone(store, seconds, CLIENTS, rate=RATE))
    if with_busy:
        with busy(seconds + 120):
            yield row(f"{paced}, all cores busy", alone(store, seconds, CLIENTS, rate=RATE))
    for clients in few:
        yield row(f"{clients} clients, one by one", alone(store, seconds, clients))
    for clients in (4, 16):
        found = alone(store, seconds, clients, batch=BATCH)
        yield row(f"{clients} clients, batches of {BATCH}", found)


@contextmanager
def temporary() -> Iterator[str]:
    with tempfile.TemporaryDirectory(
        prefix="tightrope-service-", dir=os.environ.get("LIVE_DIR")
    ) as one:
        yield one


def block(store: str | None, seconds: float, with_busy: bool, few: Sequence[int]) -> str:
    lines, found = [page.machine(), ""], []
    with temporary() as folder:
        stores = [("SQLite", str(Path(folder, "campaigns.db")))]
        if store is not None:
            stores.append(("PostgreSQL", store))
        for title, url in stores:
            for one in rows(url, seconds, with_busy, few):
                found.append([title, *one])
                print("|", " | ".join(found[-1]), "|", file=sys.stderr, flush=True)
    return "\n".join([*lines, page.table(["store", *HEAD], found)])


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--store", help="of a PostgreSQL database, to be measured too")
    parser.add_argument("--seconds", type=float, default=10.0, help="of each measurement")
    parser.add_argument("--busy", action="store_true", help="also while all cores have other work")
    parser.add_argument("--clients", type=int, nargs="+", default=[64, 256], help="one by one")
    parser.add_argument("--paced", action="store_true", help="only this, as JSON")
    parser.add_argument("--page", action="store_true", help="write the block of docs/benchmarks.md")
    options = parser.parse_args(arguments)
    if options.paced:
        with temporary() as folder:
            store = options.store or str(Path(folder, "campaigns.db"))
            alone(store, 0.5, 4)
            found = alone(store, options.seconds, CLIENTS, rate=RATE)
        print(json.dumps(dict(zip(HEAD, row("paced", found), strict=True))))
        return
    text = block(options.store, options.seconds, options.busy, options.clients)
    if options.page:
        page.publish({"service": text})
    print(text)


if __name__ == "__main__":
    main()
