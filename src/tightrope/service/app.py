"""The routes of the service, as an ASGI application.

Paths under ``/v1`` are split by hand, before they are decoded: a campaign's name may hold a slash.
The rest (pages) is Starlette's.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from math import isfinite
from typing import Any
from urllib.parse import unquote

import msgspec
from starlette.applications import Starlette
from starlette.routing import BaseRoute

from tightrope.errors import InputError, NotFoundError, TightropeError
from tightrope.live.core import Core
from tightrope.live.describing import status_of
from tightrope.problem.laws import shown
from tightrope.service import wire
from tightrope.service.desk import Service, asking, error_of, telling
from tightrope.service.keys import OPEN, Grant, KeyRing
from tightrope.service.wire import RefusalError, decoded, encode, finite, problem_of

__all__ = ["App", "make_app"]

BODY = 1 << 20  # bytes of a request, at most
LONGEST_TTL = 100 * 365 * 86400.0  # seconds
JSON = (b"content-type", b"application/json")
PROBLEM = (b"content-type", b"application/problem+json")
Answer = tuple[int, bytes]
decision_decoder = msgspec.json.Decoder(wire.Decision)
report_decoder = msgspec.json.Decoder(wire.Report)


def ttl_of(one: wire.Decision) -> int | None:
    """How long a ticket is waited for, in microseconds."""
    ttl = one.ttl_s
    if ttl is None:
        return None
    if not (isfinite(ttl) and 0 < ttl <= LONGEST_TTL and round(ttl * 1e6) > 0):
        allowed = f"positive, and at most {LONGEST_TTL:g} seconds"
        raise InputError(f"ttl_s = {shown(ttl)}: must be {allowed}")
    return round(ttl * 1e6)


class App:
    """The ASGI application of a service."""

    def __init__(
        self, service: Service, keys: KeyRing | None = None, pages: Sequence[BaseRoute] = ()
    ) -> None:
        self.service, self.keys = service, keys
        self.pages = Starlette(routes=list(pages))

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request."""
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
            return
        if scope["type"] != "http":
            return
        raw: bytes = scope.get("raw_path") or scope["path"].encode()
        if not raw.startswith((b"/v1/", b"/healthz", b"/readyz", b"/metrics", b"/openapi.json")):
            scope["state"]["service"] = self.service
            await self.pages(scope, receive, send)
            return
        headers: list[tuple[bytes, bytes]] = [JSON]
        try:
            status, body = await self._answer(raw, scope, receive)
        except TightropeError as error:
            problem, more = problem_of(error)
            status, body, headers = problem.status, encode(problem), [PROBLEM, *more]
        headers.append((b"content-length", str(len(body)).encode()))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _lifespan(self, receive: Any, send: Any) -> None:
        await receive()
        await self.service.start()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.service.drain()
        await send({"type": "lifespan.shutdown.complete"})

    def grant(self, scope: Any) -> Grant:
        """What whoever sent a request may do; raises if it has no valid key."""
        if self.keys is None:
            return OPEN
        self.keys.refresh()
        for name, value in scope["headers"]:
            if name == b"authorization":
                kind, _, secret = value.partition(b" ")
                if kind.lower() == b"bearer":
                    found = self.keys.grant(secret.strip())
                    if found is not None:
                        return found
        raise RefusalError(
            401,
            "unauthorized",
            "Authorization: must be 'Bearer KEY' with a valid key",
            www_authenticate="Bearer",
        )

    async def _answer(self, raw: bytes, scope: Any, receive: Any) -> Answer:
        if raw == b"/healthz":
            return 200, b'{"status":"alive"}'
        if raw == b"/readyz":
            return await self._ready()
        grant = self.grant(scope)
        parts = [unquote(part, errors="strict") for part in raw.decode("ascii").split("/")[2:]]
        method: str = scope["method"]
        body = await body_of(receive)
        if parts[0] != "campaigns":
            raise NotFoundError(f"path {raw.decode('ascii')!r}: does not exist")
        match (method, parts[1:]):
            case ("GET", []):
                return await self._list(grant)
            case ("PUT", [name]):
                return await self._create(name, body, grant)
            case ("GET", [name]) | ("GET", [name, "state"]):
                return 200, encode(finite(await self._status(name)))
            case ("POST", [name, "decisions"]):
                return await self._decide(name, body, grant)
            case ("POST", [name, "reports"]):
                return await self._report(name, body, grant)
            case ("POST", [name, "decisions", "batch"]):
                return await self._batch(name, body, grant, self._decisions)
            case ("POST", [name, "reports", "batch"]):
                return await self._batch(name, body, grant, self._reports)
        raise NotFoundError(f"path {raw.decode('ascii')!r}: does not exist")

    async def _ready(self) -> Answer:
        if self.service.draining:
            raise RefusalError(503, "overloaded", "the service ends")
        await self.service.read(self.service.names)
        return 200, b'{"status":"ready"}'

    async def _status(self, name: str) -> dict[str, Any]:
        return await self.service.look(name, Looker(name))

    async def _list(self, grant: Grant) -> Answer:
        found = []
        for name in await self.service.read(self.service.names):
            if grant.allows(("read",), name):
                try:
                    found.append(await self._status(name))
                except TightropeError as error:
                    found.append({"name": name, "state": "halted", "why": wire.one_line(error)})
        return 200, encode(finite({"campaigns": found}))

    async def _create(self, name: str, body: bytes, grant: Grant) -> Answer:
        given = decoded(msgspec.json.Decoder(wire.Campaign), body)
        made = await self.service.read(self._made, name, given, grant.name)
        return (201 if made else 200), encode(finite(await self._status(name)))

    def _made(self, name: str, given: wire.Campaign, who: str) -> bool:
        """Create a campaign, or see that the one of this name agrees; whether it is new."""
        from tightrope.live import open_campaign
        from tightrope.problem import Task

        new = name not in self.service.names()
        task = Task.from_table(given.task)
        facts = {
            key: value for key, value in msgspec.structs.asdict(given).items() if key != "task"
        }
        open_campaign(self.service.store, name, task=task, who=who, **facts)
        return new

    async def _decide(self, name: str, body: bytes, grant: Grant) -> Answer:
        one = decoded(decision_decoder, body) if body else wire.Decision()
        request = asking(one, ttl_of(one), grant.name)
        await self.service.performed(name, [request])
        if request.error is not None:
            raise error_of(request)  # type: ignore[misc]
        ticket, new = request.result
        return (201 if new else 200), encode(wire.DecisionAnswer.of(ticket))

    async def _report(self, name: str, body: bytes, grant: Grant) -> Answer:
        one = decoded(report_decoder, body)
        request = telling(one, grant.name)
        await self.service.performed(name, [request])
        if request.error is not None:
            raise error_of(request)  # type: ignore[misc]
        return 200, encode(wire.ReportAnswer(one.id, "told"))

    async def _batch(
        self,
        name: str,
        body: bytes,
        grant: Grant,
        act: Callable[[str, bytes, Grant], Awaitable[list[Any]]],
    ) -> Answer:
        return 200, encode({"results": await act(name, body, grant)})

    async def _decisions(self, name: str, body: bytes, grant: Grant) -> list[Any]:
        given = decoded(msgspec.json.Decoder(wire.Decisions), body).decisions
        requests = [asking(one, ttl_of(one), grant.name) for one in given]
        await self.service.performed(name, requests)
        return [
            wire.DecisionAnswer.of(request.result[0], 201 if request.result[1] else 200)
            if request.error is None
            else problem_of(error_of(request))[0]  # type: ignore[arg-type]
            for request in requests
        ]

    async def _reports(self, name: str, body: bytes, grant: Grant) -> list[Any]:
        given = decoded(msgspec.json.Decoder(wire.Reports), body).reports
        requests = [telling(one, grant.name) for one in given]
        await self.service.performed(name, requests)
        return [
            wire.ReportAnswer(one.id, "told", 200)
            if request.error is None
            else problem_of(error_of(request))[0]  # type: ignore[arg-type]
            for one, request in zip(given, requests, strict=True)
        ]


class Looker:
    """The status of a campaign; equal to others of the same name, so that one look serves all."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __hash__(self) -> int:
        return hash(self.name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Looker) and other.name == self.name

    def __call__(self, core: Core) -> dict[str, Any]:
        """Look."""
        return status_of(self.name, core)


async def body_of(receive: Any) -> bytes:
    """The body of a request."""
    message = await receive()
    body: bytes = message.get("body", b"")
    while message.get("more_body"):
        message = await receive()
        body += message.get("body", b"")
        if len(body) > BODY:
            raise RefusalError(413, "too_large", f"body: must be at most {BODY} bytes")
    return body


def make_app(
    service: Service, keys: KeyRing | None = None, pages: Sequence[BaseRoute] | None = None
) -> App:
    """The application of a service; ``pages``: routes of the dashboard, by default its own."""
    if pages is None:
        try:
            from tightrope.service.pages import page_routes  # type: ignore[import-not-found,unused-ignore]
        except ImportError:
            pages = ()
        else:
            pages = page_routes(service)
    return App(service, keys, pages)
