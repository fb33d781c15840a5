"""The routes of the pages. Paths are split before decoding: names may contain a slash."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import datetime
from functools import partial
from typing import Any
from urllib.parse import unquote

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from tightrope.changes import CampaignChange
from tightrope.errors import ConflictError, InputError, NotFoundError, TightropeError
from tightrope.formats import Money
from tightrope.live.events import Row as EventLine
from tightrope.live.events import line_of, when, words_of
from tightrope.live.status import refused_of, why_of
from tightrope.names import csv_text
from tightrope.service.campaigns import made_campaign
from tightrope.service.desk import Service
from tightrope.service.http.answers import RefusalError
from tightrope.service.keys import Grant, KeyRing
from tightrope.service.pages.access import Access
from tightrope.service.pages.actions import (
    FORMS,
    FilledForm,
    act_of,
    creation_form,
    filled,
    known_of,
    new_campaign,
    turn_of,
)
from tightrope.service.pages.actions import PATH as CREATE
from tightrope.service.pages.answers import (
    HEADERS,
    NOTHING,
    PageAnswers,
    attachment,
    form_of,
    is_partial,
    no_page,
    path_of,
    read_query,
)
from tightrope.service.pages.curves import curves_table, curves_text
from tightrope.service.pages.facts import Facts
from tightrope.service.pages.history import Trouble, View
from tightrope.service.pages.limit_words import Badge
from tightrope.service.pages.listing import LIST_QUERY, Broken, Listing, Row
from tightrope.service.pages.watch import LOOK, NotYetError, Watch
from tightrope.service.proxies import Proxies
from tightrope.service.values import BoundedText, OneOf, Query, WholeNumber

PATIENCE = 0.15  # seconds that a page waits for the newest events
PAGE = 50  # events of a page
NEWEST = 12  # events beside a campaign
ROWS = 40  # of the table of the curves
AT_ONCE = 1000  # events that an export reads at once
KINDS = {"asked": "decision", "told": "report"}  # of events, as a page calls them
KEPT = FEW = 6  # quarantined reports, and others that went wrong, beside a campaign

LISTED = 500  # campaigns of the list: the newest

Handler = Callable[[Request, str], Awaitable[Response]]
QUERIES: dict[str, Query] = {  # of the pages of a campaign; a form's own are in actions.py
    "": {"done": OneOf([*FORMS, "create"])},
    "curves": {"have": WholeNumber(0), "generation": BoundedText(40)},
    "events": {"before": WholeNumber(0)},
    "why": {"ticket": BoundedText()},
    "export": {"format": OneOf(["ndjson", "csv"])},
}


class Pages(PageAnswers):
    """The pages of a service."""

    def __init__(
        self,
        service: Service,
        keys: KeyRing | None = None,
        unit: str = "",
        proxies: Proxies | None = None,
    ) -> None:
        """``keys``: the keys with access; None: no key is needed.

        ``unit``: the unit of costs, such as $ or cents; empty for none.
        """
        self.service, self.unit = service, unit
        self.access = Access(keys, proxies, lambda *said, **facts: service.log(*said, **facts))
        look = partial(service.look_now, LOOK)
        self.watch = Watch(
            service.store,
            look,
            ending=lambda: service.draining,
            estimates=service.estimates,
            opening=service.opening,
        )
        super().__init__(login=keys is not None)
        self.watch.want(service.names())  # so that the first page does not wait
        self._under: dict[str, Handler] = {
            "": self.campaign,
            "now": self.campaign_now,
            "curves": self.curves,
            "curves.csv": self.curves_csv,
            "data": self.data,
            "events": self.events,
            "reports": self.reports,
            "why": self.why,
            "export": self.export,
        }

    def routes(self) -> list[BaseRoute]:
        """The routes for Starlette."""
        return [
            Route("/", self.safe(self.index, LIST_QUERY)),
            Route("/now", self.safe(self.index_now, LIST_QUERY)),
            Route(CREATE, self.safe(self.create), methods=["GET", "POST"]),
            Route(
                "/login",
                self.safe(self.login, {"next": BoundedText(2000)}),
                methods=["GET", "POST"],
            ),
            Route("/logout", self.safe(self.logout), methods=["POST"]),
            Route("/campaigns/{rest:path}", self.safe(self.under, None), methods=["GET", "POST"]),
            Route("/static/{name}", self.safe(self.file, {"v": BoundedText()})),
            Route("/favicon.ico", self.safe(self.icon)),
            Route("/{rest:path}", self.safe(self.nowhere)),
        ]

    async def nowhere(self, request: Request) -> Response:
        """The answer for a path without a page."""
        self.access.grant(request)
        raise no_page(request)

    def _count(self, grant: Grant | None) -> None:
        """Raise if a key has sent too many requests."""
        if grant is not None and self.service.rate is not None:
            self.service.rate.take(grant.name)

    # Sessions.

    async def login(self, request: Request) -> Response:
        """The sign-in form."""
        if self.access.keys is None:
            return self.go(request, "/")
        after = request.state.query.get("next", "/")
        after = after if after.startswith("/") and not after.startswith(("//", "/\\")) else "/"
        if request.method in ("GET", "HEAD"):
            return self.page("login.html.j2", message="", next=after)
        self.access.require_own_page(request)
        values = await form_of(request)
        answer = self.go(request, after)
        try:
            self.access.login(request, values.get("key", "").strip(), answer)
        except RefusalError as error:
            answer = self.page("login.html.j2", error.status, message=str(error), next=after)
            answer.raw_headers.extend(error.headers)
        return answer

    async def logout(self, request: Request) -> Response:
        """End a session."""
        self.access.require_own_page(request)
        answer = self.go(request, "/login")
        self.access.logout(request, answer)
        return answer

    # The list.

    async def _listed(self, request: Request) -> dict[str, Any]:
        grant = self.access.grant(request)
        if grant is None:
            raise RefusalError(401, "unauthorized", "this page needs a key")
        self._count(grant)
        all_names = await self.service.read(self.service.names)
        names = [name for name in all_names if grant.allows(("read",), name)]
        older, names = max(len(names) - LISTED, 0), names[-LISTED:]
        rows: list[Row] = []
        now = time.time()
        self.watch.want(names)
        for name in names:
            try:
                left = max(now + PATIENCE - time.time(), 0.0)  # all of them share it
                view = await self.service.read(self.watch.look, name, left)
                rows.append(Facts(view, now, self.unit))
            except NotYetError as error:
                rows.append(Broken(name, Badge("open", "Opening", error.progress)))
            except TightropeError as error:
                rows.append(Broken(name, Badge("bad", "Halted", str(error))))
        listing = Listing(rows, request.state.query, older)
        return {"listing": listing, "may_create": grant.has(()), "who": grant.name}

    async def index(self, request: Request) -> Response:
        """All campaigns."""
        return self.page("index.html.j2", **await self._listed(request))

    async def index_now(self, request: Request) -> Response:
        """The part of the list that changes."""
        return self.page("index_now.html.j2", oob=True, **await self._listed(request))

    async def create(self, request: Request) -> Response:
        """The form that creates a campaign, and its submission."""
        self._count(self.access.grant(request))
        if request.method in ("GET", "HEAD"):
            self.access.require(request, ("admin",), None, some=True)
            return self._asked(request, creation_form({}))
        self.access.require_own_page(request)
        values = await form_of(request)
        try:
            name, given = new_campaign(values)
            grant = self.access.require(request, ("admin",), name)
            if (
                await self.service.read(made_campaign, self.service, name, grant.name, given)
                is None
            ):
                raise ConflictError(f"name = {name!r}: is a campaign already")
        except TightropeError as error:
            if error.status >= 500 or error.status in (401, 403):
                raise
            return self._asked(request, creation_form(values), str(error), error.status)
        self.service.log("changed", what=CREATE, campaign=name, who=grant.name)
        return self.go(request, f"{path_of(name)}?done=create")

    # A campaign.

    async def under(self, request: Request) -> Response:
        """The pages under /campaigns/."""
        raw: bytes = request.scope.get("raw_path") or request.scope["path"].encode()
        try:
            parts = [unquote(part, errors="strict") for part in raw.decode("ascii").split("/")[2:]]
        except UnicodeDecodeError:
            raise no_page(request) from None
        name, rest = parts[0], "/".join(parts[1:])
        if "\0" in name:  # which a database may not take
            raise no_page(request)
        self._count(self.access.grant(request))
        if rest.startswith("act/"):
            return await self.act(request, name, rest[4:])
        handler = self._under.get(rest) if request.method in ("GET", "HEAD") else None
        if handler is None:
            raise no_page(request)
        read_query(request, QUERIES.get(rest, NOTHING))
        return await handler(request, name)

    async def _look(
        self, request: Request, name: str, roles: tuple[str, ...] = ("read",), fresh: bool = False
    ) -> View:
        self.access.require(request, roles, name)
        return await self.service.read(self.watch.look, name, 1.0 if fresh else PATIENCE, fresh)

    async def _facts(self, request: Request, name: str) -> dict[str, Any]:
        view = await self._look(request, name)
        grant = self.access.require(request, ("read",), name)
        facts = Facts(view, now := time.time(), self.unit)
        newest, kept = await self.service.read(self._newest, view, KEPT)
        return {
            "c": facts,
            "now": now,
            "newest": newest,
            "kept": kept,
            "troubles": _open_first(view)[:FEW],
            "more": max(len(_open_first(view)) - FEW, 0) + max(len(view.quarantine) - KEPT, 0),
            "may_act": grant.allows((), name),
            "may_report": grant.allows(("report",), name),
            "who": grant.name,
        }

    def _newest(self, view: View, most: int) -> tuple[list[Any], list[Any]]:
        """The last events, and the quarantined reports with their content."""
        store, seq = self.service.store, view.status["events"]
        rows = store.read(view.name, max(seq - NEWEST, 0), NEWEST)
        newest = [EventRow(row, view, self.unit) for row in reversed(rows)]
        numbers = list(view.quarantine)[-most:][::-1]
        kept = refused_of(store, view.name, {number: view.quarantine[number] for number in numbers})
        times = [datetime.fromisoformat(one["at"]).timestamp() for one in kept]
        return newest, [{**one, "at": at} for one, at in zip(kept, times, strict=True)]

    async def campaign(self, request: Request, name: str) -> Response:
        """One campaign."""
        asked = request.state.query.get("done", "")
        done = FORMS[asked][1].done if asked in FORMS else "The campaign was created." * bool(asked)
        facts = await self._facts(request, name)
        return self.page("campaign.html.j2", oob=False, done=done, **facts)

    async def reports(self, request: Request, name: str) -> Response:
        """All stored reports that went wrong."""
        facts = await self._facts(request, name)
        view: View = facts["c"].view
        _, kept = await self.service.read(self._newest, view, len(view.quarantine))
        facts.update(kept=kept, troubles=_open_first(view), more=0)
        return self.page("reports.html.j2", oob=False, alone=True, **facts)

    async def campaign_now(self, request: Request, name: str) -> Response:
        """The parts of a campaign's page that change."""
        return self.page("campaign_now.html.j2", oob=True, **await self._facts(request, name))

    # Curves.

    async def curves(self, request: Request, name: str) -> Response:
        """The points of the charts that a page does not have yet."""
        view = await self._look(request, name)
        asked = request.state.query
        have, same = asked.get("have", 0), asked.get("generation") == str(view.generation)
        start = max(min(have - 1, len(view.points) - 1), 0) if same else 0
        text = await self.service.read(curves_text, view, start, self.unit)
        headers = {**HEADERS, "cache-control": "no-store"}
        return Response(text, 200, headers, "application/json")

    async def data(self, request: Request, name: str) -> Response:
        """The charts as an accessible table."""
        view = await self._look(request, name)
        headings, rows = await self.service.read(curves_table, view, ROWS)
        return self.page("data.html.j2", name=name, headings=headings, rows=rows, who="")

    async def curves_csv(self, request: Request, name: str) -> Response:
        """All points of the charts as a file."""
        view = await self._look(request, name)
        headings, rows = await self.service.read(curves_table, view, len(view.points), False)
        headers = {**attachment(f"{name}-curves.csv"), "cache-control": "no-store"}
        return Response(csv_text([headings, *rows]), 200, headers, "text/csv; charset=utf-8")

    # The log.

    async def events(self, request: Request, name: str) -> Response:
        """The log, newest first."""
        view = await self._look(request, name)
        head = view.status["events"]
        before = min(request.state.query.get("before", head + 1), head + 1)
        first = max(before - 1 - PAGE, 0)
        rows = await self.service.read(self.service.store.read, name, first, before - 1 - first)
        shown_rows = [EventRow(row, view, self.unit) for row in reversed(rows) if row.seq < before]
        return self.page(
            "events.html.j2",
            name=name,
            rows=shown_rows,
            head=head,
            older=first + 1 if first > 0 else None,
            newer=min(before + PAGE, head + 1) if before <= head else None,
            now=time.time(),
            who="",
        )

    async def why(self, request: Request, name: str) -> Response:
        """Why a ticket's arm was chosen."""
        view = await self._look(request, name)
        ticket = request.state.query.get("ticket", "").strip()
        found, message, status = None, "", 200
        if ticket:
            try:
                found = await self.service.read(why_of, self.service.store, name, None, ticket)
            except InputError as error:
                message, status = str(error), error.status
        elif "ticket" in request.state.query:
            message, status = "ticket: is missing; must be the id of a decision", 422
        part = is_partial(request)
        template = "why_part.html.j2" if part else "why.html.j2"
        money, channels = Money(view.status["budget"], self.unit), list(view.task.channels)
        facts = {"ticket": ticket, "why": found, "message": message, "money": money}
        more = {"name": name, "channels": channels, "now": time.time(), "who": ""}
        return self.page(template, status, **facts, **more)

    async def export(self, request: Request, name: str) -> Response:
        """The whole log as a file, read in short pieces."""
        self.access.require(request, ("read",), name)
        await self.service.read(self.service.require, name)
        kind = request.state.query.get("format", "ndjson")
        media = "application/x-ndjson" if kind == "ndjson" else "text/csv; charset=utf-8"
        headers = attachment(f"{name}-events.{kind}")
        return StreamingResponse(self._log(name, kind), 200, headers, media)

    async def _log(self, name: str, kind: str) -> AsyncIterator[str]:
        store, after = self.service.store, 0
        notes = await self.service.read(store.notes, name)
        if kind == "csv":
            yield "number,at,kind,ticket,who,body\n"
        while rows := await self.service.read(store.read, name, after, AT_ONCE):
            if kind == "csv":
                cells = [[one.seq, when(one.at).isoformat(), *one[2:5], one.body] for one in rows]
                yield csv_text(cells)
            else:
                yield "".join(f"{line_of(row, notes.get(row.seq))}\n" for row in rows)
            after = rows[-1].seq

    # Acting.

    async def act(self, request: Request, name: str, action: str) -> Response:
        """A form of a campaign, and its submission."""
        if action not in FORMS:
            raise NotFoundError(f"action {action[:80]!r}: does not exist")
        kind, form = FORMS[action]
        grant = self.access.require(request, form.roles, name)
        view = await self._look(request, name, (*form.roles, "read"), fresh=True)
        read_query(request, known_of(kind, form, view))
        if request.method in ("GET", "HEAD"):
            asked = filled(kind, form, view, request.state.query, self.unit)
            return self._asked(request, asked)
        self.access.require_own_page(request)
        values = await form_of(request)
        try:
            wanted, place = act_of(kind, form, view, values), values.get(kind.place(), "")
            if isinstance(wanted, CampaignChange) and wanted.learns:
                await self.service.change(name, grant.name, wanted, place)
            else:
                await self.service.do(name, turn_of(wanted, form, place), grant.name)
        except TightropeError as error:
            if error.status >= 500:
                raise
            asked = filled(kind, form, view, values, self.unit)
            return self._asked(request, asked, str(error), error.status)
        await self.service.read(self.watch.look, name, 1.0, True)
        return self.go(request, f"{path_of(name)}?done={action}")

    def _asked(
        self, request: Request, form: FilledForm, message: str = "", status: int = 200
    ) -> Response:
        template, heading = "form.html.j2", "h1"
        if is_partial(request):
            template, heading = "form_part.html.j2", "h2"
        facts = {"form": form, "message": message, "heading": heading}
        return self.page(template, status, who="", **facts)


class EventRow:
    """An event as a line of a table."""

    def __init__(self, row: EventLine, view: View, unit: str) -> None:
        self.seq, self.at, self.kind = row.seq, row.at / 1e6, KINDS.get(row.kind, row.kind)
        self.ticket, self.who = row.ticket, row.who
        self.text = words_of(row, view.task, Money(view.status["budget"], unit))[:300]


def _open_first(view: View) -> list[Trouble]:
    """The reports that went wrong outside the quarantine; those that can be settled come first."""
    found = [one for one in view.troubles if one.kind != "quarantined"]
    return sorted(found, key=lambda one: (one.kind == "late", -one.seq))
