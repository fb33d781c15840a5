"""The store behind the service: requests of the event loop become turns of campaigns.

Promises kept here:

- *An answer only after the commit.* One thread per campaign, its committer, takes all requests that
  wait and has them done in one turn (group commit); only then are they answered.
- *Bounded, and nothing dropped.* A committer takes no more than ``most_waiting`` requests; beyond
  that a request is refused, before anything is done for it. One that was taken is committed, or
  answered with its error; also while the service drains, and if its client has gone.
- *A reader never waits for a disk, and no writer waits for a reader.* What is read of the state is
  read by the committer between two turns, in microseconds; longer reads have threads and a replica
  of their own.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from tightrope.errors import CampaignError, HaltedError, NotFoundError, nearest
from tightrope.live.campaign import Campaign, Request
from tightrope.live.core import Core
from tightrope.live.ledger import Ledger
from tightrope.live.stores import Store, open_store
from tightrope.live.writing import Writer
from tightrope.service.metrics import Counts
from tightrope.service.wire import RefusalError

__all__ = ["By", "Committer", "Service", "named_code"]

MOST_WAITING = 10_000  # items of one campaign that wait for their turn
MOST_TOGETHER = 1000  # items of one turn
READERS = 4  # threads for long reads
OPENED = 64  # campaigns that are opened before they are asked for
READY = 0.5  # seconds for which the store is believed to answer
Value = TypeVar("Value")


class By:
    """Something to be done in a turn, in the name of whoever asked for it."""

    __slots__ = ("act", "who")

    def __init__(self, act: Callable[[Writer], Any], who: str) -> None:
        self.act, self.who = act, who

    def __call__(self, writer: Writer) -> Any:
        """Do it, within a turn."""
        before, writer.who = writer.who, self.who
        try:
            return self.act(writer)
        except CampaignError as error:
            named_code(error, writer.ledger)
            raise
        finally:
            writer.who = before


def named_code(error: CampaignError, ledger: Ledger) -> None:
    """Say in an error's code whether the campaign is closed or paused."""
    if error.code == "conflict":
        if ledger.closed:
            error.code = "closed"
        elif ledger.paused is not None:
            error.code = "paused"


class Work:
    """Requests that were handed in together, or something to look at; ``done`` is called after."""

    __slots__ = ("done", "error", "function", "items", "requests", "result", "since")

    def __init__(
        self,
        requests: Sequence[Request],
        done: Callable[[Work], None],
        items: int,
        function: Callable[[Core], Any] | None = None,
    ) -> None:
        self.requests, self.done, self.items, self.function = requests, done, items, function
        self.since = time.perf_counter()
        self.result: Any = None
        self.error: BaseException | None = None


class Committer:
    """One campaign's thread: it does all that waits, in turns. Its methods belong to the loop."""

    def __init__(self, service: Service, name: str) -> None:
        self.name, self.counts = name, service.counts.of(name)
        self._service, self._loop = service, service.loop
        self._queue: deque[Work] = deque()
        self._looks: deque[Work] = deque()
        self.waiting = 0  # items that were taken and not answered; the loop's
        self.halted = False  # whether the log cannot be followed here
        self._campaign: Campaign | None = None
        self._core: Core | None = None  # as it was last looked at; turns go on with it
        self._asleep, self._bell = False, threading.Lock()
        self._bell.acquire()
        self._ending = False
        self._thread = threading.Thread(target=self._run, name=f"committer {name}", daemon=True)
        self._thread.start()

    def submit(
        self, requests: Sequence[Request], done: Callable[[Work], None], items: int = 0
    ) -> None:
        """Have requests done; ``done`` is called in the loop, when each has a result or error.

        ``items``: how many things they do, if not one each.
        """
        items = items or len(requests)
        if self._ending:
            raise RefusalError(503, "overloaded", "the service ends", retry_after="1")
        if self.waiting + items > self._service.most_waiting:
            self.counts.outcomes["overloaded"] += items - 1  # and one where it is answered
            raise RefusalError(
                503,
                "overloaded",
                f"campaign {self.name!r}: {self.waiting} items wait; come back in a second",
                retry_after="1",
            )
        self.waiting += items
        self._queue.append(Work(requests, done, items))
        self._call()

    def look(self, function: Callable[[Core], Any], done: Callable[[Work], None]) -> None:
        """Have a short function look at the state after all that is committed."""
        self._looks.append(Work((), done, 0, function))
        self._call()

    def _call(self) -> None:
        if self._asleep:
            self._asleep = False
            with suppress(RuntimeError):  # it was called already
                self._bell.release()

    def end(self) -> None:
        """Take nothing more; the thread ends when all is done."""
        self._ending = True
        self._asleep = True
        self._call()

    def join(self, seconds: float | None = None) -> bool:
        """Whether the thread has ended by then."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    @property
    def followed(self) -> int | None:
        """The number of the last event that was followed here; None before the first look."""
        return None if self._core is None else self._core.ledger.seq

    # The rest is the thread's.

    def _run(self) -> None:
        while True:
            if not self._queue and not self._looks:
                if self._ending:
                    return
                self._asleep = True
                if not self._queue and not self._looks and not self._ending:
                    self._bell.acquire()
                continue
            works = self._take()
            if works:
                self._commit(works)
            looks = [self._looks.popleft() for _ in range(len(self._looks))]
            if looks:
                self._look(looks)
            with suppress(RuntimeError):  # the loop was closed: nobody waits any more
                self._loop.call_soon_threadsafe(self._finish, works + looks)

    def _take(self) -> list[Work]:
        """What waits, up to the most requests of one turn."""
        works: list[Work] = []
        count = 0
        while self._queue and count < MOST_TOGETHER:
            works.append(self._queue.popleft())
            count += works[-1].items
        return works

    def _opened(self) -> Campaign:
        if self._campaign is None:
            self._campaign = Campaign(self._service.store, self.name, who=self._service.who)
        return self._campaign

    def _commit(self, works: Sequence[Work]) -> None:
        requests = [request for work in works for request in work.requests]
        began = time.perf_counter()
        try:
            self._opened().perform(requests)
        except BaseException as error:
            for request in requests:
                if not request.done:
                    request.error = error
        self._mark(requests[0].error)
        self.counts.committed(sum(work.items for work in works), time.perf_counter() - began)

    def _mark(self, error: BaseException | None) -> None:
        """Remember whether the campaign is halted here, and say it when that changes."""
        halted = isinstance(error, HaltedError)
        if halted != self.halted:
            self.halted = halted
            message = "a campaign is halted" if halted else "a campaign goes on"
            self._service.log(message, campaign=self.name, why=str(error) if halted else None)

    def _look(self, looks: Sequence[Work]) -> None:
        try:
            core = self._core = self._opened().refreshed()
        except BaseException as error:
            self._mark(error)
            for look in looks:
                look.error = error
            return
        self._mark(None)
        results: dict[Any, Any] = {}
        for look in looks:  # many who look for the same are answered by one look
            function = look.function
            assert function is not None
            try:
                if function not in results:
                    results[function] = function(core)
                look.result = results[function]
            except Exception as error:
                look.error = error

    def _finish(self, works: Sequence[Work]) -> None:
        """Answer what was done; in the loop."""
        now, waited = time.perf_counter(), self.counts.waited
        for work in works:
            if work.items:
                self.waiting -= work.items
                waited(now - work.since)
            try:
                work.done(work)
            except Exception as error:
                self._service.log("an answer failed", campaign=self.name, error=repr(error))


class Service:
    """The campaigns of a store, for one event loop.

    ``most_waiting``: requests of one campaign that may wait for their turn.
    """

    def __init__(
        self, store: str | Store, *, who: str = "http", most_waiting: int = MOST_WAITING
    ) -> None:
        self.store = open_store(store)
        self._owned = self.store is not store
        self.who, self.most_waiting = who, most_waiting
        self.counts = Counts()
        self.draining = False
        self._answered = -READY  # when the store was last seen to answer
        self.loop: asyncio.AbstractEventLoop = None  # type: ignore[assignment]
        self._committers: dict[str, Committer] = {}
        self._replicas: dict[str, Campaign] = {}
        self._opening = threading.Lock()
        self._readers = ThreadPoolExecutor(READERS, "reader")
        self.log: Callable[..., None] = lambda message, **facts: None
        self._changing = threading.Lock()

    # For the loop.

    async def start(self) -> None:
        """Belong to the running loop, and begin to open campaigns: the newest of them."""
        self.loop = asyncio.get_running_loop()
        for name in (await self.read(self.store.names))[-OPENED:]:
            self._committer(name).look(_nothing, lambda work: None)

    async def committer(self, name: str) -> Committer:
        """A campaign's committer; raises a ``NotFoundError`` if there is no such campaign."""
        found = self._committers.get(name)
        if found is None:
            await self.read(self.require, name)
            found = self._committer(name)
        return found

    def known(self, name: str) -> Committer | None:
        """The committer of a campaign that was met before."""
        return self._committers.get(name)

    def _committer(self, name: str) -> Committer:
        found = self._committers.get(name)
        if found is None:
            if self.draining:
                raise RefusalError(503, "overloaded", "the service ends", retry_after="1")
            found = self._committers[name] = Committer(self, name)
        return found

    async def perform(self, name: str, requests: Sequence[Request], who: str) -> None:
        """Have requests done in a turn; each ends with its own ``result`` or ``error``."""
        for request in requests:
            request.act = By(request.act, who)
        await self.performed(name, requests)

    async def performed(self, name: str, requests: Sequence[Request]) -> None:
        """As ``perform``, of requests that say by themselves in whose name they are."""
        if not requests:
            return
        committer, waiter = await self.committer(name), self.loop.create_future()
        committer.submit(requests, partial(_wake, waiter))
        await asyncio.shield(waiter)

    async def do(self, name: str, act: Callable[[Writer], Any], who: str, *tickets: str) -> Any:
        """Have one thing done in a turn; returns its result, or raises its error."""
        request = Request(By(act, who), tickets)
        await self.performed(name, [request])
        if request.error is not None:
            raise request.error
        return request.result

    async def look(self, name: str, function: Callable[[Core], Value]) -> Value:
        """What a short function sees in the state after all that is committed.

        It holds up the campaign's decisions while it runs: microseconds, and no waiting.
        """
        committer, waiter = await self.committer(name), self.loop.create_future()
        committer.look(function, partial(_wake, waiter))
        work: Work = await asyncio.shield(waiter)
        if work.error is not None:
            raise work.error
        return work.result  # type: ignore[no-any-return]

    async def read(self, function: Callable[..., Value], *arguments: Any) -> Value:
        """What a function returns that may take its time; it runs in one of a few threads."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._readers, partial(function, *arguments))

    async def answers(self) -> None:
        """Raise unless the store can be read; many who want to know share one look."""
        if time.monotonic() - self._answered > READY:
            self._answered = time.monotonic()
            try:
                await asyncio.wait_for(self.read(self.store.names), 5.0)
            except BaseException:
                self._answered = -READY
                raise

    async def drain(self) -> None:
        """Take nothing more, finish what was taken, and close the store."""
        self.draining = True
        committers = list(self._committers.values())
        for one in committers:
            one.end()
        while any(not one.join(0) for one in committers):
            await asyncio.sleep(0.01)
        await asyncio.sleep(0)  # the last answers
        self._readers.shutdown(wait=True, cancel_futures=True)
        if self._owned:
            self.store.close()

    # For any thread.

    def names(self) -> list[str]:
        """The campaigns of the store."""
        return self.store.names()

    def require(self, name: str) -> None:
        """Raise a ``NotFoundError`` unless there is a campaign of this name."""
        if name not in self._committers and name not in (names := self.names()):
            hint = nearest(name, names) if names else "there is none yet"
            raise NotFoundError(f"campaign {name!r}: does not exist; {hint}")

    def campaign(self, name: str) -> Campaign:
        """A replica of a campaign for long reads, which no decision waits for; opened once."""
        with self._opening:
            found = self._replicas.get(name)
            if found is None:
                self.require(name)
                found = self._replicas[name] = Campaign(self.store, name, who=self.who)
            return found

    @property
    def halted(self) -> bool:
        """Whether there are campaigns, and none can be followed here: restart this process."""
        committers = list(self._committers.values())
        return bool(committers) and all(one.halted for one in committers)

    def keep(self, campaign: Campaign) -> None:
        """Take a campaign that was just opened for a replica, if there is none yet."""
        with self._opening:
            self._replicas.setdefault(campaign.name, campaign)

    def change(self, name: str, who: str, **changes: Any) -> None:
        """Other limits, another policy or expiry; decisions go on while the log is learned from."""
        campaign = self.campaign(name)
        with self._changing:
            before, campaign.who = campaign.who, who
            try:
                campaign.change(**changes)
            finally:
                campaign.who = before

    @property
    def waiting(self) -> dict[str, int]:
        """Items that were taken and not answered, by campaign."""
        return {name: one.waiting for name, one in list(self._committers.items())}


def _nothing(core: Core) -> None:
    """A look that opens a campaign."""


def _wake(waiter: asyncio.Future[Work], work: Work) -> None:
    if not waiter.done():
        waiter.set_result(work)
