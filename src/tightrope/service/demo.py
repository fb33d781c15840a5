"""``tightrope demo``: a service with a simulated campaign.

A router spends dollars on three language models; at most one answer in twenty may be bad. The
campaign learns what the models cost and how good they are. When half of the budget is spent, one
model gets worse. Only the users are simulated: they ask and report over HTTP. A few never report,
some report late or report invalid values. Everything is in memory.
"""

from __future__ import annotations

import asyncio
import os
import random
import socket
import threading
import webbrowser
from collections.abc import Callable
from dataclasses import dataclass

from tightrope.client import AsyncClient, Ticket, UnreachableError
from tightrope.errors import ExhaustedError, InputError, TightropeError
from tightrope.service.app import make_app
from tightrope.service.desk import Service
from tightrope.service.http import Limits
from tightrope.service.server import PORT, JsonLog, Server, checked_address

SLOWEST, FASTEST = 0.1, 20.0  # speeds
BUDGET, MOST, EXPIRES = 50.0, 0.06, 20.0  # dollars, dollars of one answer, seconds
LIMIT = 0.05  # bad answers per answer
RATE = 25.0  # questions per second at speed 1
MOST_OPEN = 200  # questions at once
MOST_CAMPAIGNS = 12  # one after the other; then the page stays as it is
NEVER, LATE, NONSENSE = 0.01, 0.02, 0.0004  # shares of reports
POLICY = "resolve:risk=0.01,watch=0.01"


@dataclass(frozen=True)
class Model:
    """The true behaviour of a language model, which the campaign has to learn."""

    cost: float  # dollars of an answer, on average
    good: float  # share of answers that are good
    bad: float  # share that does harm
    seconds: float  # until it answers

    def answer(self, luck: random.Random) -> tuple[float, float, float]:
        """The cost in dollars, 1 for a good answer, 1 for a bad one."""
        quality = luck.random()
        cost = min(self.cost * luck.lognormvariate(-0.125, 0.5), MOST)
        return round(cost, 6), float(quality < self.good), float(quality > 1.0 - self.bad)


MODELS = {
    "haiku": Model(0.003, 0.45, 0.09, 0.4),
    "sonnet": Model(0.005, 0.84, 0.025, 0.8),
    "opus": Model(0.015, 0.92, 0.012, 1.6),
}
WORSE = {"sonnet": Model(0.005, 0.60, 0.16, 0.8)}  # when half the budget is spent
UNKNOWN = Model(0.01, 0.8, 0.05, 1.0)  # an arm that somebody adds by hand
TASK = {
    "arms": [{"name": name} for name in MODELS],
    "limits": {"bad": {"at_most": LIMIT, "per": "pull"}},
    "scales": {"cost": MOST},
}
ABOUT = f"""\
A simulated router spends ${BUDGET:g} among {len(MODELS)} language models; at most {LIMIT:.0%} of
the answers may be bad. It learns what they cost and how good they are. When half of the
budget is spent, sonnet gets worse: its share falls, so that the limit is kept.
Everything is in memory: Ctrl-C ends it and leaves nothing behind."""


class Traffic:
    """Simulated users of several campaigns in sequence."""

    def __init__(self, client: AsyncClient, speed: float, say: Callable[[str], None]) -> None:
        self._client, self._speed, self._say = client, speed, say
        self._luck = random.Random(1)
        self._open: set[asyncio.Task[None]] = set()
        self._name, self._spent, self._worse, self._over = "", 0.0, False, False

    async def run(self) -> None:
        """Run campaigns in sequence until cancelled."""
        try:
            for number in range(1, MOST_CAMPAIGNS + 1):
                await self.campaign(f"router {number}", seed=number)
                await asyncio.sleep(20.0 / self._speed)
        finally:
            for task in self._open:
                task.cancel()

    async def campaign(self, name: str, seed: int = 0) -> None:
        """Ask one campaign's questions until its budget is spent."""
        self._name, self._spent, self._worse, self._over = name, 0.0, False, False
        await self._client.create(
            name, TASK, BUDGET, policy=POLICY, seed=seed, expire_after=EXPIRES
        )
        self._say(f"campaign {name!r} begins")
        now = asyncio.get_running_loop().time
        due = now()
        while not self._over:
            if len(self._open) < MOST_OPEN:
                task = asyncio.create_task(self._question())
                self._open.add(task)
                task.add_done_callback(self._open.discard)
            due = max(due, now() - 1.0) + self._luck.expovariate(RATE * self._speed)
            await asyncio.sleep(due - now())
        await asyncio.gather(*self._open, return_exceptions=True)
        self._say(f"campaign {name!r} has spent its budget")

    async def _question(self) -> None:
        """One user's question: ask for a decision, wait, report."""
        try:
            ticket = await self._client.ask(self._name)
        except ExhaustedError:
            self._over = True
        except TightropeError as error:  # paused, or what is left is reserved for others: later
            self._over = self._over or error.code == "closed"
            await asyncio.sleep(1.0)
        else:
            await self._answer(ticket)

    async def _answer(self, ticket: Ticket) -> None:
        model = self._model(ticket.arm)
        cost, good, bad = model.answer(self._luck)
        self._spend(cost)
        wait, chance = self._luck.expovariate(1.0 / model.seconds), self._luck.random()
        if chance < NEVER:
            return  # this user's program died: the ticket expires
        nonsense = chance > 1.0 - NONSENSE
        await asyncio.sleep(wait / self._speed + (1.2 * EXPIRES if chance < NEVER + LATE else 0.0))
        try:
            await self._client.report(
                self._name, ticket.id, -1.0 if nonsense else cost, good, {"bad": bad}
            )
        except TightropeError:  # it is in the quarantine, or the service ends
            return

    def _model(self, arm: str) -> Model:
        worse = WORSE.get(arm) if self._worse else None
        return worse or MODELS.get(arm, UNKNOWN)

    def _spend(self, cost: float) -> None:
        self._spent += cost
        if self._spent > BUDGET / 2 and not self._worse:
            self._worse = True
            self._say(f"half of ${BUDGET:g} is spent: sonnet gets worse")


class Quiet(JsonLog):
    """A log that discards its lines: the terminal shows the demo's own text."""

    def __call__(self, message: str, **facts: object) -> None:
        """Write nothing."""


def run_demo(
    port: int | None = None,
    *,
    browser: bool = True,
    speed: float = 1.0,
    show: Callable[[str], None] = print,
    say: Callable[[str], None] = print,
) -> None:
    """Serve the demo until Ctrl-C or SIGTERM. ``show`` prints the address, ``say`` the rest."""
    if not SLOWEST <= speed <= FASTEST:
        raise InputError(f"--speed {speed:g}: must be from {SLOWEST:g} to {FASTEST:g}")
    port = _usable(port)
    users: list[asyncio.Task[None]] = []

    def ready(url: str) -> None:
        show(f"{url}/")
        for line in ABOUT.splitlines():
            say(line)
        if browser and _has_display():
            threading.Thread(target=webbrowser.open, args=(f"{url}/",), daemon=True).start()
        users.append(asyncio.get_running_loop().create_task(_use(url, speed, say)))

    async def work() -> None:
        server = Server(make_app(Service("memory:"), unit="$"), Quiet(), Limits(), 0.0)
        try:
            await server.run("127.0.0.1", port, None, ready)
        finally:
            for task in users:
                task.cancel()
            await asyncio.gather(*users, return_exceptions=True)

    asyncio.run(work())
    say("ended; nothing is left behind")


async def _use(url: str, speed: float, say: Callable[[str], None]) -> None:
    async with AsyncClient(url, deadline=5.0, wait=0.0) as client:
        try:
            await Traffic(client, speed, say).run()
        except UnreachableError:
            return  # the service ends
        except TightropeError as error:
            say(f"the simulated users stopped: {error}")


def _has_display() -> bool:
    """Whether a browser would open a window instead of using the terminal."""
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def _usable(port: int | None) -> int:
    """The given port; by default 8321, or 0 (any free port) if that is in use."""
    if port is not None:
        checked_address("127.0.0.1", port, None)
        return port
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", PORT))
        except OSError:
            return 0
    return PORT
