"""The service as an ASGI application: who asks, what for, and which function answers.

Paths under ``/v1`` are split by hand, before they are decoded: a campaign's name may hold a slash.
Decisions and reports are also answered without ASGI (``answer_directly``); the pages are
Starlette's.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from starlette.applications import Starlette
from starlette.routing import BaseRoute

from tightrope.errors import InputError, NotFoundError, TightropeError
from tightrope.service import wire
from tightrope.service.acts import ACTS, Act
from tightrope.service.campaigns import ROUTES, CampaignCall, Route
from tightrope.service.desk import Committer, Service
from tightrope.service.http import HttpRequest
from tightrope.service.http.answers import JSON
from tightrope.service.http.requests import Sender, body_of, decoded_part, require_local
from tightrope.service.keys import OPEN, Grant, KeyRing
from tightrope.service.wire import Answer, RefusalError, answer_of, decoded

__all__ = ["App", "make_app"]

MOST_PATHS = 1000  # that are remembered
OWN_PATHS = (b"/v1/", b"/v1", b"/healthz", b"/readyz", b"/metrics", b"/openapi.json")


class Hot(NamedTuple):
    """A path of decisions or reports that was met before."""

    act: Act
    name: str  # of the campaign
    batch: bool


class App:
    """The ASGI application of a service."""

    def __init__(
        self, service: Service, keys: KeyRing | None = None, pages: Sequence[BaseRoute] = ()
    ) -> None:
        self.service, self.keys = service, keys
        self.pages = Starlette(routes=list(pages))
        self.connections: Callable[[], int] = lambda: 0
        self.access: Callable[..., None] | None = None  # writes a line per request, if wanted
        self._hot: dict[bytes, Hot | None] = {}

    # Who may.

    def grant(
        self, sender: Sender, roles: Sequence[str], name: str | None, some: bool = False
    ) -> Grant:
        """What whoever sent a request may do; raises unless it may do this.

        ``some``: it is enough if it may do this for some campaign.
        """
        if self.keys is None:
            found: Grant | None = OPEN
            if sender.host:
                require_local(sender.host)
        else:
            if self.keys.refresh():
                self.service.log("keys were read again", problem=self.keys.problem)
            kind, _, secret = sender.authorization.partition(b" ")
            found = self.keys.grant(secret.strip()) if kind.lower() == b"bearer" else None
        if found is None:
            text = "Authorization: must be 'Bearer KEY', with a key that is valid here"
            raise RefusalError(401, "unauthorized", text, www_authenticate="Bearer")
        found.require(roles, name, some)
        return found

    def check(self, sender: Sender, body: bytes) -> None:
        """Raise for a change that a page of another host would have a browser send."""
        if sender.origin and urlsplit(sender.origin).netloc != sender.host:
            origin = sender.origin[:80].decode("latin-1")
            raise RefusalError(403, "forbidden", f"Origin {origin!r}: must be this service")
        kind = sender.content_type
        if body and kind and not kind.startswith(b"application/json"):
            given = kind[:80].decode("latin-1")
            text = f"Content-Type {given!r}: must be application/json"
            raise RefusalError(415, "malformed", text)

    # Decisions, reports, voids, amendments.

    def answer_directly(self, request: HttpRequest, done: Callable[[Answer], None]) -> bool:
        """Whether a request is answered by a call of ``done``, now or after its commit."""
        if request.method != b"POST":
            return False
        url = request.url
        try:
            hot = self._hot[url]
        except KeyError:
            hot = self._remembered(url)
        if hot is None:
            return False
        committer = self.service.known(hot.name)
        if committer is None or self.access is not None:
            return False  # it may have to be opened, which takes its time
        try:
            self._start(hot, committer, Sender(request.headers), request.body, done)
        except TightropeError as error:
            committer.counts.outcomes[error.code] += 1
            done(answer_of(error))
        return True

    def _remembered(self, url: bytes) -> Hot | None:
        """Which act a path is for; None if it is another one."""
        hot = None
        parts = url.split(b"/")
        if 5 <= len(parts) <= 6 and parts[:3] == [b"", b"v1", b"campaigns"] and b"?" not in url:
            act = ACTS.get(parts[4].decode("ascii", "replace"))
            if act is not None and parts[5:] in ([], [b"batch"]):
                try:
                    hot = Hot(act, decoded_part(parts[3]), len(parts) == 6)
                except RefusalError:
                    hot = None
        if hot is not None and self.service.known(hot.name) is not None:
            if len(self._hot) >= MOST_PATHS:
                self._hot.clear()
            self._hot[url] = hot
        return hot

    def _start(
        self,
        hot: Hot,
        committer: Committer,
        sender: Sender,
        body: bytes,
        done: Callable[[Answer], None],
    ) -> None:
        """Hand in what a request asks for; raises if it is refused before that."""
        grant = self.grant(sender, hot.act.item.roles, hot.name)
        self.check(sender, body)
        start = hot.act.start_batch if hot.batch else hot.act.start
        start(body, grant.name, committer.submit, committer.counts.outcomes, done)

    async def _act(self, hot: Hot, sender: Sender, body: bytes) -> Answer:
        """As ``answer_directly``, where the campaign may have to be opened first."""
        committer = await self.service.committer(hot.name)
        waiter = self.service.loop.create_future()

        def done(answer: Answer) -> None:
            if not waiter.done():
                waiter.set_result(answer)

        try:
            self._start(hot, committer, sender, body, done)
        except TightropeError as error:
            committer.counts.outcomes[error.code] += 1
            raise
        return await waiter  # type: ignore[no-any-return]

    # ASGI.

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request."""
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
            return
        if scope["type"] != "http":
            return
        raw: bytes = scope.get("raw_path") or scope["path"].encode()
        if not raw.startswith(OWN_PATHS):
            await self.pages(scope, receive, send)
            return
        began, who = time.perf_counter(), [""]
        try:
            answer = await self._answer(raw, scope, receive, who)
        except TightropeError as error:
            answer = answer_of(error)
        except Exception as error:
            self.service.log("a request failed", path=raw.decode("latin-1"), error=repr(error))
            answer = answer_of(error)
        status, body, headers = answer
        headers = [JSON] if headers is None else headers
        headers = [*headers, (b"content-length", str(len(body)).encode())]
        if self.access is not None:
            self.access(scope["method"], raw, status, time.perf_counter() - began, who[0])
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _lifespan(self, receive: Any, send: Any) -> None:
        await receive()
        await self.service.start()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.service.drain()
        await send({"type": "lifespan.shutdown.complete"})

    async def _answer(self, raw: bytes, scope: Any, receive: Any, who: list[str]) -> Answer:
        sender, method = Sender(scope["headers"]), scope["method"]
        body = await body_of(receive)
        hot = self._remembered(raw) if method == "POST" else None
        if hot is not None:
            who[0] = self.grant(sender, hot.act.item.roles, hot.name).name
            return await self._act(hot, sender, body)
        route, name, place = route_of("GET" if method == "HEAD" else method, raw)
        grant = OPEN if route.public else self.grant(sender, route.roles, name, route.some)
        who[0] = grant.name
        if method not in ("GET", "HEAD"):
            self.check(sender, body)
        query = query_of(scope["query_string"], route)
        given = None
        if route.takes is not None:
            given = decoded(route.decoder, body or b"{}")
        asked = CampaignCall(self, grant, name or "", place, query, given)
        answer = await route.answer(asked)
        if route.changes:
            self.service.log("changed", what=route.path, campaign=name, who=grant.name)
        return answer


def route_of(method: str, raw: bytes) -> tuple[Route, str | None, str]:
    """The route of a path, the campaign that it names, and the ticket, arm or report in it."""
    parts = [decoded_part(part) for part in raw.split(b"/")[1:]]
    shapes: list[tuple[str, ...]] = [tuple(parts)]
    if len(parts) >= 3:
        shapes = [(*parts[:2], "{}", *parts[3:])]
    if len(parts) >= 5:
        shapes.append((*parts[:2], "{}", parts[3], "{}", *parts[5:]))
    found = [by_method for shape in shapes if (by_method := ROUTES.get(shape))]
    for by_method in found:
        if method in by_method:
            place = parts[4] if len(parts) >= 5 else ""
            return by_method[method], parts[2] if len(parts) >= 3 else None, place
    path = wire.one_line(raw.decode("latin-1"))
    if found:
        allowed = ", ".join(sorted({one for by_method in found for one in by_method}))
        text = f"method {method} of {path}: must be {allowed}"
        raise RefusalError(405, "method", text, allow=allowed)
    raise NotFoundError(f"path {path!r}: does not exist; see /openapi.json")


def query_of(text: bytes, route: Route) -> dict[str, int | float]:
    """The numbers in a query; unknown ones are refused."""
    found: dict[str, int | float] = {}
    for key, value in parse_qsl(text.decode("latin-1"), keep_blank_values=True):
        if key not in route.query:
            known = ", ".join(route.query) or "none"
            raise InputError(f"query {wire.one_line(key)!r}: is unknown; known: {known}")
        kind, least, most, _ = route.query[key]
        try:
            found[key] = kind(value)
        except ValueError:
            found[key] = least - 1
        if not least <= found[key] <= most:
            what = "a whole number" if kind is int else "a number"
            given = wire.one_line(value)
            raise InputError(f"query {key} = {given!r}: must be {what} from {least:g} to {most:g}")
    return found


def make_app(
    service: Service,
    keys: KeyRing | None = None,
    pages: Sequence[BaseRoute] | None = None,
    unit: str = "",
    trusted_proxies: Sequence[str] = (),
) -> App:
    """The application of a service; ``pages``: other routes than those of the dashboard.

    ``unit``: what costs are in, such as $, for the pages. ``trusted_proxies``: addresses or
    networks of proxies that say who a client is, and whether it uses TLS.
    """
    if pages is None:
        from tightrope.service.pages import page_routes
        from tightrope.service.pages.proxies import Proxies

        pages = page_routes(service, keys, unit, Proxies(trusted_proxies))
    return App(service, keys, pages)
