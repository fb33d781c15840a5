"""The store behind the service: requests of the event loop become turns of campaigns.

Promises kept here:

- *An answer only after the commit.* One thread per campaign, its committer, processes all waiting
  requests in one turn (group commit). They are answered after its commit.
- *Bounded, and nothing dropped.* At most ``most_waiting`` requests wait for a committer; further
  requests are refused before they have any effect. An accepted request is committed, or answered
  with its error, even while the service drains or after its client has gone.
- *Readers and writers do not wait for each other.* The committer runs short reads between two
  turns, in microseconds; longer reads run in other threads.
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

from tightrope.changes import CampaignChange
from tightrope.errors import HaltedError, NotFoundError, StoreError, nearest
from tightrope.live.archive import erase_contexts
from tightrope.live.calls import Background
from tightrope.live.campaign import Campaign
from tightrope.live.core import Core
from tightrope.live.follower import Follower
from tightrope.live.queue import TurnRequest
from tightrope.live.stores import Store, open_store
from tightrope.live.writer import Writer
from tightrope.service.estimates import Estimates
from tightrope.service.failures import FailureLog, Outage, WatchedStore
from tightrope.service.http.answers import RefusalError
from tightrope.service.metrics import Counts
from tightrope.service.signins import RateLimit

MOST_WAITING = 10_000  # items of one campaign that wait for their turn
MOST_TOGETHER = 1000  # items of one turn
READERS = 4  # threads for long reads
OPENED = 64  # campaigns that are opened in advance
PATIENCE = 5.0  # seconds in which a ready store answers
READY = 0.5  # seconds until the store is checked again
Value = TypeVar("Value")


class ServiceRequest(TurnRequest):
    """Work for a turn, or a look at the state; ``finish`` is called afterwards.

    ``items``: the number of its items; 0 for a look.
    """

    __slots__ = ("finish", "items", "since")

    def __init__(
        self,
        act: Callable[[Any], Any],
        tickets: Sequence[str] = (),
        who: str | None = None,
        items: int = 1,
    ) -> None:
        super().__init__(act, tickets, who)
        self.items, self.since = items, time.perf_counter()
        self.finish: Callable[[ServiceRequest], None]


Finish = Callable[[ServiceRequest], None]


class Committer:
    """The thread of one campaign, which commits requests in turns. Call its methods in the loop."""

    def __init__(self, service: Service, name: str) -> None:
        self.name, self.counts = name, service.counts.of(name)
        self._service, self._loop = service, service.loop
        self._queue: deque[ServiceRequest] = deque()
        self._looks: deque[ServiceRequest] = deque()
        self.waiting = 0  # accepted items without an answer; changed in the loop only
        self.halted = False  # whether this process cannot follow the log
        self.campaign: Campaign | None = None  # before it is opened
        self._follower: Follower | None = None  # before the campaign begins to be opened
        self._core: Core | None = None  # at the last look; turns continue with it
        self._asleep, self._bell = False, threading.Lock()
        self._bell.acquire()
        self._ending = False
        self._thread = threading.Thread(target=self._run, name=f"committer {name}", daemon=True)
        self._thread.start()

    def submit(self, request: ServiceRequest, finish: Finish) -> None:
        """Queue a request; ``finish`` is called in the loop when it has a result or an error."""
        items = request.items
        if self._ending:
            raise RefusalError(503, "overloaded", "the service is shutting down", retry_after="1")
        if self.waiting + items > self._service.most_waiting:
            self.counts.outcomes["overloaded"] += items - 1  # and one more in the answer
            raise RefusalError(
                503,
                "overloaded",
                f"campaign {self.name!r}: {self.waiting} items wait; try again in a second",
                retry_after="1",
            )
        self.waiting += items
        request.finish = finish
        self._queue.append(request)
        self._call()

    def look(self, request: ServiceRequest, finish: Finish) -> None:
        """Queue a short function of the state after all committed events."""
        request.finish = finish
        self._looks.append(request)
        self._call()

    def _call(self) -> None:
        if self._asleep:
            self._asleep = False
            with suppress(RuntimeError):  # it is awake already
                self._bell.release()

    def end(self) -> None:
        """Accept no more requests; the thread ends after those in the queue."""
        self._ending = True
        self._asleep = True
        self._call()

    def join(self, seconds: float | None = None) -> bool:
        """Wait at most so many seconds; whether the thread has ended."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    @property
    def followed(self) -> int | None:
        """The number of the last event that was applied here; None before the first look."""
        return None if self._core is None else self._core.ledger.seq

    # The rest runs in the thread.

    def _run(self) -> None:
        while True:
            if not self._queue and not self._looks:
                if self._ending:
                    return
                self._asleep = True
                if not self._queue and not self._looks and not self._ending:
                    self._bell.acquire()
                continue
            requests = self._take()
            if requests:
                self._commit(requests)
            looks = [self._looks.popleft() for _ in range(len(self._looks))]
            if looks:
                self._look(looks)
            with suppress(RuntimeError):  # the loop is closed: no request waits
                self._loop.call_soon_threadsafe(self._finish, requests + looks)

    def _take(self) -> list[ServiceRequest]:
        """The waiting requests, up to the largest number of items of a turn."""
        requests: list[ServiceRequest] = []
        count = 0
        while self._queue and count < MOST_TOGETHER:
            requests.append(self._queue.popleft())
            count += requests[-1].items
        return requests

    def _opened(self) -> Campaign:
        if self.campaign is None:
            service = self._service
            opening = partial(setattr, self, "_follower")
            self.campaign = Campaign(service.store, self.name, who=service.who, opening=opening)
        return self.campaign

    @property
    def opened(self) -> int | None:
        """The number of events applied to open the campaign; None before the first."""
        return None if self._follower is None else self._follower.followed

    def _commit(self, requests: Sequence[ServiceRequest]) -> None:
        began = time.perf_counter()
        try:
            self._opened().work(requests)
        except BaseException as error:
            for request in requests:
                if not request.done:
                    request.error = error
        self._mark(requests[0].error)
        self.counts.committed(sum(one.items for one in requests), time.perf_counter() - began)

    def _mark(self, error: BaseException | None) -> None:
        """Record whether the campaign is halted here, and log a change of that."""
        halted = isinstance(error, HaltedError)
        if halted != self.halted:
            self.halted = halted
            message = "a campaign is halted" if halted else "a campaign goes on"
            self._service.log(message, campaign=self.name, why=str(error) if halted else None)

    def _look(self, looks: Sequence[ServiceRequest]) -> None:
        try:
            core = self._core = self._opened().refreshed()
        except BaseException as error:
            self._mark(error)
            for look in looks:
                look.error = error
            return
        self._mark(None)
        results: dict[Any, Any] = {}
        for look in looks:  # requests for the same look share its result
            function: Any = look.act
            try:
                if function not in results:
                    results[function] = function(core)
                look.result = results[function]
            except Exception as error:
                look.error = error

    def _finish(self, requests: Sequence[ServiceRequest]) -> None:
        """Answer processed requests; runs in the loop."""
        now, waited = time.perf_counter(), self.counts.waited
        for request in requests:
            if request.items:
                self.waiting -= request.items
                waited(now - request.since)
            try:
                request.finish(request)
            except Exception as error:
                self._service.log("an answer failed", campaign=self.name, error=repr(error))


class Service:
    """The campaigns of a store, for one event loop.

    ``most_waiting``: the largest number of items of one campaign that wait for their commit.
    """

    def __init__(
        self, store: str | Store, *, who: str = "http", most_waiting: int = MOST_WAITING
    ) -> None:
        self.log: Callable[..., None] = lambda message, **facts: None
        say = self._say
        self.outage, self.failures = Outage(say), FailureLog(say)
        opened = open_store(store)
        self._owned = opened is not store
        self.store: Store = WatchedStore(opened, self.outage)
        self.who, self.most_waiting = who, most_waiting
        self.counts = Counts()
        self.rate: RateLimit | None = None  # of each key; None: no limit
        self.draining = False
        self._answered = -READY  # when the store last answered
        self.loop: asyncio.AbstractEventLoop = None  # type: ignore[assignment]
        self._committers: dict[str, Committer] = {}
        self._readers = ThreadPoolExecutor(READERS, "reader")
        self.estimates = Estimates()
        self._changing = asyncio.Lock()

    def _say(self, message: str, **facts: object) -> None:
        self.log(message, **facts)

    # For the loop.

    def failed(self, method: str, path: str, status: int, error: BaseException | None) -> None:
        """Log an answer of 500 or above with its cause."""
        if isinstance(error, StoreError):
            self.outage.refused()
        self.failures(method, path, status, error)

    async def start(self) -> None:
        """Attach to the running loop, and start to open the newest campaigns."""
        self.loop = self.outage.loop = asyncio.get_running_loop()
        for name in (await self.read(self.store.names))[-OPENED:]:
            self._committer(name).look(ServiceRequest(_nothing, items=0), _nothing)

    async def committer(self, name: str) -> Committer:
        """A campaign's committer; raises a ``NotFoundError`` if there is no such campaign."""
        found = self._committers.get(name)
        if found is None:
            await self.read(self.require, name)
            found = self._committer(name)
        return found

    def known(self, name: str) -> Committer | None:
        """The committer of a campaign, if it has been created."""
        return self._committers.get(name)

    def _committer(self, name: str) -> Committer:
        found = self._committers.get(name)
        if found is None:
            if self.draining:
                raise RefusalError(
                    503, "overloaded", "the service is shutting down", retry_after="1"
                )
            found = self._committers[name] = Committer(self, name)
        return found

    async def do(self, name: str, act: Callable[[Writer], Any], who: str, *tickets: str) -> Any:
        """Do one act in a turn; returns its result, or raises its error."""
        committer = await self.committer(name)
        return await self._finished(committer.submit, ServiceRequest(act, tickets, who))

    async def look(self, name: str, function: Callable[[Core], Value]) -> Value:
        """The result of a short function of the state after all committed events.

        The campaign's decisions wait for it, so it must take microseconds and never block.
        """
        committer = await self.committer(name)
        found = await self._finished(committer.look, ServiceRequest(function, items=0))
        return found  # type: ignore[no-any-return]

    async def _finished(
        self, hand_in: Callable[[ServiceRequest, Finish], None], request: ServiceRequest
    ) -> Any:
        waiter = self.loop.create_future()
        hand_in(request, partial(_wake, waiter))
        await asyncio.shield(waiter)
        if request.error is not None:
            raise request.error
        return request.result

    async def change(self, name: str, who: str, change: CampaignChange, place: str) -> None:
        """Make a change in a turn; decisions continue while a policy learns from the log."""
        if not change.learns:
            await self.do(name, partial(change.do, place=place), who)
            return
        async with self._changing:
            act = await self.read(change.prepared, await self._campaign(name))
            await self.do(name, act, who)

    async def erase(self, name: str, who: str, before: str | None) -> int:
        """Erase the features of requests; returns how many. Decisions continue meanwhile."""
        async with self._changing:
            return await self.read(erase_contexts, await self._campaign(name), before, who)

    async def _campaign(self, name: str) -> Campaign:
        """An opened campaign."""
        await self.look(name, _nothing)
        found = self._committers[name].campaign
        assert found is not None
        return found

    async def read(self, function: Callable[..., Value], *arguments: Any) -> Value:
        """Run a function that may take long in one of a few threads; returns its result."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._readers, partial(function, *arguments))

    async def answers(self) -> None:
        """Raise unless the store can be read; concurrent callers share one read."""
        if time.monotonic() - self._answered > READY:
            self._answered = time.monotonic()
            try:
                await asyncio.wait_for(self.read(self.store.names), PATIENCE)
            except TimeoutError:
                self._answered = -READY
                error = StoreError(f"the store does not answer within {PATIENCE:g} seconds")
                self.outage.failed("read", error)
                raise error from None
            except BaseException:
                self._answered = -READY
                raise

    async def drain(self) -> None:
        """Accept no more requests, finish the accepted ones, and close the store."""
        self.draining = True
        committers = list(self._committers.values())
        for one in committers:
            one.end()
        while any(not one.join(0) for one in committers):
            await asyncio.sleep(0.01)
        await asyncio.sleep(0)  # the last answers
        self._readers.shutdown(wait=True, cancel_futures=True)
        self.estimates.end()
        self.failures.flush()
        self.outage.tell()
        if self._owned:
            self.store.close()

    # For any thread.

    def look_now(self, seconds: float, name: str, function: Callable[[Core], Value]) -> Value:
        """Same as ``look`` from another thread; raises a ``TimeoutError`` after so many seconds."""
        if self.loop is None:
            raise TimeoutError("the service has not started")
        look = self.look(name, function)
        try:
            waiter = asyncio.run_coroutine_threadsafe(look, self.loop)
        except RuntimeError:  # the loop is closed
            look.close()
            raise TimeoutError("the service has ended") from None
        return waiter.result(seconds)

    def opening(self, name: str) -> tuple[str, int, int]:
        """The current step of opening a campaign, the events applied, and their total."""
        found = self._committers.get(name)
        followed = None if found is None else found.opened
        if followed is None:
            return "its last snapshot and its policy are loaded", 0, 0
        head = self.store.head(name)
        compiled = " while its policy is compiled" if Background.running else ""
        return f"its log is read{compiled}", followed, head[0] if head else 0

    def names(self) -> list[str]:
        """The campaigns of the store."""
        return self.store.names()

    def require(self, name: str) -> None:
        """Raise a ``NotFoundError`` if no campaign has this name."""
        if name not in self._committers and name not in (names := self.names()):
            hint = nearest(name, names) if names else "there is none yet"
            raise NotFoundError(f"campaign {name!r}: does not exist; {hint}")

    @property
    def halted(self) -> bool:
        """Whether campaigns exist but none can be followed here: restart this process."""
        committers = list(self._committers.values())
        return bool(committers) and all(one.halted for one in committers)

    @property
    def waiting(self) -> dict[str, int]:
        """The number of accepted items without an answer, by campaign."""
        return {name: one.waiting for name, one in list(self._committers.items())}


def _nothing(given: object) -> None:
    """A look that only opens a campaign, and its callback."""


def _wake(waiter: asyncio.Future[None], request: ServiceRequest) -> None:
    if not waiter.done():
        waiter.set_result(None)
