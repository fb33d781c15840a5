"""The service as an ASGI application: permissions, routes and answers.

Paths under ``/v1`` are split before they are decoded: a campaign's name may contain a slash.
Decisions and reports are also answered without ASGI (``answer_directly``); the pages use Starlette.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from starlette.routing import BaseRoute, Router

from tightrope.errors import NotFoundError
from tightrope.names import one_line
from tightrope.service.acts import ACTS, Act, ActCall, Refused
from tightrope.service.campaigns import ROUTES, CampaignCall, Route
from tightrope.service.desk import Committer, Service
from tightrope.service.http import HttpRequest
from tightrope.service.http.answers import (
    JSON,
    Answer,
    RefusalError,
    body_of,
    decoded_part,
    require_local,
)
from tightrope.service.keys import OPEN, Grant, KeyRing
from tightrope.service.proxies import Proxies
from tightrope.service.values import Sender, query_of
from tightrope.service.wire import answer_of, decoded

MOST_PATHS = 1000  # in the cache of paths
OWN_PATHS = (b"/v1/", b"/v1", b"/healthz", b"/readyz", b"/metrics", b"/openapi.json")


class Hot(NamedTuple):
    """A path of decisions or reports that was requested before."""

    act: Act
    name: str  # of the campaign
    batch: bool
    refused: Refused  # makes the answer to an error


class App:
    """The ASGI application of a service."""

    def __init__(
        self,
        service: Service,
        keys: KeyRing | None = None,
        pages: Sequence[BaseRoute] = (),
        proxies: Proxies | None = None,
    ) -> None:
        self.service, self.keys, self.proxies = service, keys, proxies or Proxies()
        self.pages = Router(routes=list(pages))
        self.connections: Callable[[], int] = lambda: 0
        self.access: Callable[..., None] | None = None  # writes a line per request, if given
        self._hot: dict[bytes, Hot | None] = {}

    # Permissions.

    def known(self, sender: Sender) -> Grant | None:
        """The grant of a key that this process has accepted before; None for other keys."""
        if self.keys is None:
            if sender.host:
                require_local(sender.host)
            return OPEN
        if self.keys.refresh():
            self.service.log("keys were read again", problem=self.keys.problem)
        return self.keys.seen(_secret_of(sender))

    def grant(self, sender: Sender, scope: Any) -> Grant:
        """The grant of a request's sender; raises without a valid key.

        While an address must wait, only keys that were accepted before are checked.
        """
        found, secret = self.known(sender), _secret_of(sender)
        if found is None and self.keys is not None and secret:
            address = self.proxies.address(scope)
            self.keys.sign_ins.require_turn(address)
            found = self.keys.grant(secret)
            if found is None:
                refused, log = self.keys.sign_ins.refused, self.service.log
                raise refused(address, log, www_authenticate="Bearer")
        if found is None:
            text = "Authorization: must be 'Bearer KEY', with a key that is valid here"
            raise RefusalError(401, "unauthorized", text, www_authenticate="Bearer")
        return found

    def require(
        self, found: Grant, roles: Sequence[str], name: str | None, some: bool = False
    ) -> Grant:
        """Raise unless a key has a role and is within its rate; ``some``: for any campaign."""
        if self.service.rate is not None:
            self.service.rate.take(found.name)
        found.require(roles, name, some)
        return found

    def check(self, sender: Sender, body: bytes) -> None:
        """Raise for a request that a page of another host made a browser send."""
        if sender.origin and sender.origin.lower() != sender.host.lower():
            origin = sender.origin[:80].decode("latin-1")
            raise RefusalError(403, "forbidden", f"Origin {origin!r}: must be this service")
        kind = sender.content_type
        if body and kind and kind != b"application/json":
            given = kind[:80].decode("latin-1")
            text = f"Content-Type {given!r}: must be application/json"
            raise RefusalError(415, "malformed", text)

    # Failures.

    def failed(self, method: bytes, url: bytes, status: int, error: BaseException) -> None:
        """Log that the HTTP server answered with 500 or above, or aborted an answer."""
        self.service.failed(method.decode("latin-1"), url.decode("latin-1"), status, error)

    def refused(self, method: str, path: str, error: BaseException) -> Answer:
        """The answer to an error; a status of 500 or above is logged with its cause."""
        answer = answer_of(error)
        if answer[0] >= 500:
            self.service.failed(method, path, answer[0], error)
        return answer

    # Decisions, reports, voids, amendments.

    def answer_directly(self, request: HttpRequest, done: Callable[[Answer], None]) -> bool:
        """Answer by a call of ``done``, now or after the commit; returns False if it cannot."""
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
            return False  # the campaign may have to be opened, which takes long
        try:
            sender = Sender(request.headers)
            grant = self.known(sender)
            if grant is None:
                return False  # the address may have to wait: see ``grant``
            self.require(grant, hot.act.item.roles, hot.name)
            self._start(hot, committer, grant, sender, request.body, done)
        except Exception as error:
            committer.counts.outcomes[getattr(error, "code", "internal")] += 1
            done(hot.refused(error))
        return True

    def _remembered(self, url: bytes) -> Hot | None:
        """The act of a path; None for other paths."""
        hot = None
        parts = url.split(b"/")
        if 5 <= len(parts) <= 6 and parts[:3] == [b"", b"v1", b"campaigns"] and b"?" not in url:
            act = ACTS.get(parts[4].decode("ascii", "replace"))
            if act is not None and parts[5:] in ([], [b"batch"]):
                try:
                    refused = partial(self.refused, "POST", url.decode("latin-1"))
                    hot = Hot(act, decoded_part(parts[3]), len(parts) == 6, refused)
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
        grant: Grant,
        sender: Sender,
        body: bytes,
        done: Callable[[Answer], None],
    ) -> None:
        """Queue the items of a request; raises if they are refused before that."""
        self.check(sender, body)
        start = hot.act.start_batch if hot.batch else hot.act.start
        outcomes = committer.counts.outcomes
        start(body, ActCall(grant.name, committer.submit, outcomes, hot.refused, done))

    async def _act(self, hot: Hot, grant: Grant, sender: Sender, body: bytes) -> Answer:
        """Same as ``answer_directly``, but opens the campaign first if needed."""
        committer = await self.service.committer(hot.name)
        waiter = self.service.loop.create_future()

        def done(answer: Answer) -> None:
            if not waiter.done():
                waiter.set_result(answer)

        try:
            self._start(hot, committer, grant, sender, body, done)
        except Exception as error:
            committer.counts.outcomes[getattr(error, "code", "internal")] += 1
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
        began, who, page = time.perf_counter(), [""], PageCall(self, raw, scope, send)
        try:
            sender = Sender(scope["headers"])
            if not raw.startswith(OWN_PATHS):
                await self.pages(scope, receive, page.send)
                return
            answer = await self._answer(sender, raw, scope, receive, who)
        except Exception as error:
            if page.started:
                raise  # the HTTP server aborts the answer and logs it
            answer = self.refused(scope["method"], raw.decode("latin-1"), error)
        status, body, headers = answer
        headers = [*(headers or [JSON]), (b"content-length", str(len(body)).encode())]
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

    async def _answer(
        self, sender: Sender, raw: bytes, scope: Any, receive: Any, who: list[str]
    ) -> Answer:
        method, body = scope["method"], await body_of(receive)
        hot = self._remembered(raw) if method == "POST" else None
        if hot is not None:
            grant = self.require(self.grant(sender, scope), hot.act.item.roles, hot.name)
            who[0] = grant.name
            query_of(scope["query_string"], {})
            return await self._act(hot, grant, sender, body)
        route, name, place = route_of("GET" if method == "HEAD" else method, raw)
        grant = OPEN
        if not route.public:
            grant = self.require(self.grant(sender, scope), route.roles, name, route.some)
        who[0] = grant.name
        if method not in ("GET", "HEAD"):
            self.check(sender, body)
        query = query_of(scope["query_string"], route.query)
        given = None
        if route.takes is not None:
            given = decoded(route.decoder, body or b"{}")
        asked = CampaignCall(self, grant, name or "", place, query, given)
        answer = await route.answer(asked)
        if route.changes:
            self.service.log("changed", what=route.path, campaign=name, who=grant.name)
        return answer


def _secret_of(sender: Sender) -> bytes:
    """The key in a request's headers; empty without one."""
    kind, _, secret = sender.authorization.partition(b" ")
    return secret.strip() if kind.lower() == b"bearer" else b""


def route_of(method: str, raw: bytes) -> tuple[Route, str | None, str]:
    """The route of a path, its campaign, and the ticket, arm or report in it."""
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
    path = one_line(raw.decode("latin-1"))
    methods = {one for by_method in found for one in by_method}
    acts = parts[:2] == ["v1", "campaigns"] and parts[4:] in ([], ["batch"])
    if acts and parts[3:4] and parts[3] in ACTS:
        methods.add("POST")
    if methods:
        allowed = ", ".join(sorted(methods))
        text = f"method {method} of {path}: must be {allowed}"
        raise RefusalError(405, "method", text, allow=allowed)
    raise NotFoundError(f"path {path!r}: does not exist; see /openapi.json")


class PageCall:
    """The answer of a page while it is sent; a status of 500 or above is logged with its cause."""

    def __init__(self, app: App, raw: bytes, scope: Any, send: Any) -> None:
        self._app, self._raw, self._scope, self._send = app, raw, scope, send
        self.started = False

    async def send(self, message: Any) -> None:
        """The ``send`` of ASGI."""
        if message["type"] == "http.response.start":
            self.started = True
            if message["status"] >= 500:
                path, error = self._raw.decode("latin-1"), self._scope.get("tightrope.error")
                method = self._scope["method"]
                self._app.service.failed(method, path, message["status"], error)
        await self._send(message)


def make_app(
    service: Service,
    keys: KeyRing | None = None,
    pages: Sequence[BaseRoute] | None = None,
    unit: str = "",
    trusted_proxies: Sequence[str] = (),
) -> App:
    """The application of a service; ``pages``: routes instead of those of the dashboard.

    ``unit``: the unit of costs on the pages, such as $. ``trusted_proxies``: addresses or
    networks of proxies whose X-Forwarded-For and X-Forwarded-Proto are trusted.
    """
    proxies = Proxies(trusted_proxies)
    if pages is None:
        from tightrope.service.pages import Pages

        pages = Pages(service, keys, unit, proxies).routes()
    return App(service, keys, pages, proxies)
