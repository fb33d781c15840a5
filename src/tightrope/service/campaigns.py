"""Everything but decisions and reports: campaigns, their state, their changes, their log.

A route lists its body, roles and answer; the OpenAPI document is generated from the same table.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import msgspec

from tightrope.changes import CHANGES, CampaignChange, name_of
from tightrope.errors import (
    ConflictError,
    HaltedError,
    InputError,
    NotFoundError,
    TightropeError,
    nearest,
)
from tightrope.formats import finite
from tightrope.live.core import Core
from tightrope.live.events import when
from tightrope.live.learned import PointSums
from tightrope.live.log import lines_of
from tightrope.live.status import (
    CampaignStatus,
    Why,
    amounts_of,
    events_of,
    refused_of,
    status_and_sums,
    ticket_of,
    why_of,
    with_curve,
)
from tightrope.live.stores import Store
from tightrope.names import one_line
from tightrope.policies.naming import known_policies
from tightrope.problem import Task
from tightrope.problem.values import at, shown
from tightrope.service import metrics, wire
from tightrope.service.http.answers import Answer, RefusalError
from tightrope.service.keys import Grant
from tightrope.service.values import BoundedText, DecimalNumber, OneOf, Query, WholeNumber
from tightrope.service.wire import encode

if TYPE_CHECKING:
    from tightrope.data import Log
    from tightrope.service.app import App
    from tightrope.service.desk import Service

MOST_EVENTS = 10_000  # of one answer
MOST_BYTES = 16 << 20  # of the events of one answer; the last one may go beyond
MOST_LISTED = 1000  # campaigns of one answer
TEXT = [(b"content-type", b"text/plain; version=0.0.4; charset=utf-8")]
LINES = [(b"content-type", b"application/x-ndjson")]


@dataclass(frozen=True)
class CampaignCall:
    """A request whose sender and body were checked."""

    app: App
    grant: Grant
    name: str  # of the campaign
    place: str  # a ticket's id, an arm's name, a report's number
    query: dict[str, Any]
    body: Any

    async def look(self, function: Callable[[Core], Any]) -> Any:
        """The result of a short function of the campaign's state."""
        return await self.app.service.look(self.name, function)


Answering = Callable[[CampaignCall], Awaitable[Answer]]


@dataclass
class Route:
    """A method of a path."""

    method: str
    path: str
    answer: Answering
    summary: str
    roles: tuple[str, ...] = ("read",)
    public: bool = False  # no key is needed
    some: bool = False  # the answer is about the campaigns of the key
    takes: type[msgspec.Struct] | None = None
    answers: Any = None  # the shape of the answer, for the document
    query: Query = field(default_factory=dict)
    statuses: tuple[int, ...] = (200,)
    media: str = "application/json"

    def __post_init__(self) -> None:
        self.decoder: Any = None if self.takes is None else msgspec.json.Decoder(self.takes)

    @property
    def changes(self) -> bool:
        """Whether the route changes something."""
        return self.method != "GET"

    @property
    def shape(self) -> tuple[str, ...]:
        """The path's parts, with ``{}`` for those that vary."""
        return tuple("{}" if part.startswith("{") else part for part in self.path[1:].split("/"))


TABLE: list[Route] = []
ROUTES: dict[tuple[str, ...], dict[str, Route]] = {}


def route(method: str, path: str, summary: str, **facts: Any) -> Callable[[Answering], Answering]:
    """Add a function to the routes."""

    def added(function: Answering) -> Answering:
        one = Route(method, path, function, summary, **facts)
        TABLE.append(one)
        ROUTES.setdefault(one.shape, {})[method] = one
        return function

    return added


def as_json(value: Any, status: int = 200) -> Answer:
    """An answer in JSON."""
    return status, encode(finite(value)), None


# The service.


@route("GET", "/healthz", "Whether the process is alive", public=True, answers=wire.Health)
async def healthz(asked: CampaignCall) -> Answer:
    """The process answers."""
    return as_json({"status": "alive"})


@route("GET", "/readyz", "Whether the store answers and the service is not draining",
       public=True, answers=wire.Health, statuses=(200, 503))  # fmt: skip
async def readyz(asked: CampaignCall) -> Answer:
    """The store answers, the service is not draining, and a campaign can be followed."""
    service = asked.app.service
    if service.draining:
        raise RefusalError(503, "draining", "the service is shutting down")
    if service.halted:
        raise RefusalError(503, "halted", "no campaign can be followed here; restart this process")
    await service.answers()
    return as_json({"status": "ready"})


@route("GET", "/openapi.json", "This document", public=True)
async def document(asked: CampaignCall) -> Answer:
    """The OpenAPI document."""
    from tightrope.service.openapi import document_text

    return 200, document_text(), None


@route("GET", "/metrics", "Metrics for Prometheus", media="text/plain", some=True)
async def metrics_page(asked: CampaignCall) -> Answer:
    """Counters and gauges of the campaigns that the key may read."""
    app = asked.app
    service, facts, lags = app.service, dict[str, Any](), dict[str, tuple[int, float]]()
    for name in await service.read(service.names):
        if not asked.grant.allows(("read",), name):
            continue
        committer = await service.committer(name)
        if committer.followed is not None:
            rows = await service.read(service.store.read, name, committer.followed, 1000)
            lags[name] = metrics.lag_of(rows)
        try:
            facts[name] = await service.look(name, metrics.facts_of)
        except TightropeError:
            facts[name] = None
    text = metrics.text_of(
        facts, service.counts.campaigns, service.waiting, lags, app.connections(), service.rate
    )
    return 200, text.encode(), TEXT


# Campaigns.


@lru_cache(maxsize=1000)
def status_look(name: str) -> Callable[[Core], tuple[CampaignStatus, PointSums | None]]:
    """The function that reads a campaign's status; one per name, so that requests share a look."""
    return partial(status_and_sums, name)


async def answer_status(asked: CampaignCall) -> Answer:
    """The status of a campaign."""
    found, sums = await asked.look(status_look(asked.name))
    if sums is not None:
        found = await asked.app.service.read(with_curve, found, sums)
    return as_json(found)


@route("GET", "/v1/campaigns", "The campaigns that the key may read, with their status",
       query={"after": BoundedText(128, "only campaigns that are listed after this one"),
              "limit": WholeNumber(1, MOST_LISTED, "at most so many; 1000")},
       answers=wire.StatusList, some=True)  # fmt: skip
async def list_campaigns(asked: CampaignCall) -> Answer:
    """A campaign that this process cannot follow is listed as halted."""
    service, found = asked.app.service, list[Any]()
    names = [n for n in await service.read(service.names) if asked.grant.allows(("read",), n)]
    after, limit = asked.query.get("after"), asked.query.get("limit", MOST_LISTED)
    if after is not None and after not in names:
        raise NotFoundError(
            f"query after = {shown(after)}: must be a campaign that the key may read"
        )
    first = 0 if after is None else names.index(after) + 1
    for name in names[first : first + limit]:
        try:
            found.append((await service.look(name, status_look(name)))[0])
        except TightropeError as error:
            found.append(wire.HaltedCampaign(name, "halted", one_line(error)))
    return as_json({"campaigns": found})


@route("PUT", "/v1/campaigns/{campaign}", "Create a campaign, or check that an existing one agrees",
       roles=("admin",), takes=wire.NewCampaign, answers=wire.CreatedStatus,
       statuses=(200, 201))  # fmt: skip
async def create(asked: CampaignCall) -> Answer:
    """201 for a new campaign, 200 for an existing one that agrees, 409 for one that does not."""
    from tightrope.live.creation import notices_of

    service, who = asked.app.service, asked.grant.name
    task = await service.read(made_campaign, service, asked.name, who, asked.body)
    if task is None:
        return await answer_status(asked)
    settings, controller = await asked.look(lambda core: (core.settings, core.controller))
    budget, policy = controller.budget, controller.policy
    notices = list(notices_of(asked.name, task, settings, budget, policy))
    status, _ = await asked.look(status_look(asked.name))
    return as_json({**status, "notices": notices}, 201)


def made_campaign(service: Service, name: str, who: str, wanted: wire.NewCampaign) -> Task | None:
    """Create a campaign, or check that the existing one agrees; returns the task of a new one."""
    from tightrope.live import open_campaign
    from tightrope.problem.meaning import require_binding

    given = msgspec.structs.asdict(wanted)
    require_installed(given["policy"])
    task = Task.from_table(given.pop("task"))
    new = name not in service.names()
    if new:
        require_binding(task, task.limit_names)
    if wanted.learn_from is not None:
        given["learn_from"] = past_of(wanted.learn_from, task)
    try:
        open_campaign(service.store, name, task=task, who=who, **given)
    except HaltedError:
        raise
    except InputError as error:
        if new:
            raise
        raise ConflictError(str(error)) from None
    return task if new else None


def past_of(columns: Mapping[str, Any], task: Task) -> Log:
    """The log in the columns of a request; raises for a column that the task has no use for."""
    from tightrope.data import read_log

    described: Any = getattr(task.contexts, "features", task.contexts)
    features = list(described.names) if task.feature_columns else []
    space, told, roles = task.space, task.told_names, ("cost", "reward", "context", "propensity")
    known = [*(["arm"] if space is None else space.ranges), *roles, *told, *features]
    numbers = {name: one for name, one in columns.items() if isinstance(one, float)}
    given: Any = {role: numbers.get(role, role) for role in roles if role in columns}
    given["penalty"] = {name: numbers.get(name, name) for name in told if name in columns}
    with at("learn_from"):
        for name in columns:
            if name not in known:
                raise InputError(f"column {shown(name)} is unknown; known: {', '.join(known)}")
        return read_log(
            {name: one for name, one in columns.items() if name not in numbers},
            arm="arm" if space is None else None,
            features=features,
            interval=space,
            **given,
        )


@route("GET", "/v1/campaigns/{campaign}", "The status of a campaign", answers=CampaignStatus)
async def status(asked: CampaignCall) -> Answer:
    """Money, tickets, limits and arms."""
    return await answer_status(asked)


@route("GET", "/v1/campaigns/{campaign}/state", "The status of a campaign", answers=CampaignStatus)
async def state(asked: CampaignCall) -> Answer:
    """The same status under another path."""
    return await answer_status(asked)


@route("GET", "/v1/campaigns/{campaign}/outlook", "Bounds and projections for the end",
       query={"doubt": DecimalNumber(1e-9, 0.5, "chance that a bound is wrong, at most; 0.01"),
              "estimate": OneOf(["true", "false"], "also `estimate` of each limit: the share of "
                  "forward runs of the policy that end above it, at most half a minute old")},
       answers=dict[str, Any])  # fmt: skip
async def outlook(asked: CampaignCall) -> Answer:
    """Computed from a copy in another thread; decisions continue."""
    copied, service = await asked.look(lambda core: core.controller.copy()), asked.app.service
    found = await service.read(copied.outlook, asked.query.get("doubt", 0.01))
    if asked.query.get("estimate") == "true":
        made = await asyncio.wrap_future(service.estimates.wanted(asked.name, copied, found))
        found = made.within(found)
    return as_json(found.table())


@route("GET", "/v1/campaigns/{campaign}/ledger", "The money, in units and in ticks",
       answers=wire.LedgerAnswer)  # fmt: skip
async def ledger(asked: CampaignCall) -> Answer:
    """In ticks, budget = spent + reserved + free holds exactly for each account."""
    return as_json(await asked.look(_ledger))


def _ledger(core: Core) -> dict[str, Any]:
    found, keys = core.ledger, ("budget", "spent", "reserved", "free")
    return {
        "events": found.seq,
        "at": when(found.at).isoformat(),
        "accounts": [
            {
                "name": account.name,
                **amounts_of(account),
                "ticks": {key: getattr(account, key) for key in keys},
                "tick": 10.0**-account.digits,
            }
            for account in found.accounts
        ],
        "tickets": {
            "in_flight": len(found.tickets),
            **{key: getattr(found, key) for key in ("asked", "told", "voided", "expired", "late")},
            "quarantined": len(found.quarantine),
        },
    }


@route("GET", "/v1/campaigns/{campaign}/events", "The log, an event per line",
       query={"after": WholeNumber(0, text="only events with larger numbers; 0"),
              "limit": WholeNumber(1, MOST_EVENTS, "at most so many; 1000")},
       media="application/x-ndjson")  # fmt: skip
async def events(asked: CampaignCall) -> Answer:
    """Events in order, each with its stored hash."""
    service = asked.app.service
    await service.read(service.require, asked.name)
    after, limit = asked.query.get("after", 0), asked.query.get("limit", 1000)
    return 200, await service.read(_lines, service.store, asked.name, after, limit), LINES


def _lines(store: Store, name: str, after: int, limit: int) -> bytes:
    """Events as lines of JSON, with all stored fields."""
    found, size = [], 0
    for number, line in enumerate(lines_of(store, name, after, limit), start=1):
        found.append(line.encode() + b"\n")
        size += len(found[-1])
        if size > MOST_BYTES:
            break
        if number % 500 == 0:
            time.sleep(0)  # let other threads run
    return b"".join(found)


@route("GET", "/v1/campaigns/{campaign}/decisions/{ticket}", "A ticket and its state",
       roles=("read", "decide", "report"), answers=wire.DecisionAnswer)  # fmt: skip
async def ticket(asked: CampaignCall) -> Answer:
    """A ticket in flight, or its last state in the log."""
    service, id = asked.app.service, asked.place
    await service.read(service.require, asked.name)
    rows = await service.read(events_of, service.store, asked.name, id)
    try:
        found = await asked.look(lambda core: ticket_of(core, id, rows))
    except InputError as error:
        raise NotFoundError(str(error)) from None
    return 200, encode(wire.DecisionAnswer(*found)), None


@route("GET", "/v1/campaigns/{campaign}/decisions/{ticket}/why", "Why a ticket's arm was chosen",
       answers=Why)  # fmt: skip
async def why(asked: CampaignCall) -> Answer:
    """What the policy had learned at the decision, from a replay of the log."""
    service = asked.app.service
    await service.read(service.require, asked.name)
    try:
        found = await service.read(why_of, service.store, asked.name, None, asked.place)
    except InputError as error:
        raise NotFoundError(str(error)) from None
    return as_json(found.table())


@route("GET", "/v1/campaigns/{campaign}/quarantine", "The reports in quarantine",
       answers=wire.Quarantine)  # fmt: skip
async def quarantine(asked: CampaignCall) -> Answer:
    """The reports, each with the reason of its refusal."""
    numbers = await asked.look(lambda core: dict(core.ledger.quarantine))
    service = asked.app.service
    return as_json({"reports": await service.read(refused_of, service.store, asked.name, numbers)})


@route("DELETE", "/v1/campaigns/{campaign}/contexts", "Erase the features of requests",
       query={"before": BoundedText(64, "only those of requests before this time, in ISO 8601")},
       roles=("admin",), answers=wire.ErasedContexts)  # fmt: skip
async def erase_contexts(asked: CampaignCall) -> Answer:
    """Of a campaign whose features are erasable. Tickets in flight keep theirs."""
    count = await asked.app.service.erase(asked.name, asked.grant.name, asked.query.get("before"))
    return as_json({"erased": count})


# Changes.


def require_installed(policy: str | None) -> None:
    """Raise unless a policy is installed; a file or module would be executed here."""
    known = known_policies()
    if policy is not None and (".py:" in policy or policy.partition(":")[0] not in known):
        hint = nearest(policy.partition(":")[0], sorted(known))
        raise InputError(f"policy = {shown(policy)}: must be an installed one; {hint}")


def add_change(kind: type[CampaignChange]) -> None:
    """Add the route of a change, which answers with the campaign's status."""
    takes = None if kind.method == "DELETE" else kind

    async def answer(asked: CampaignCall) -> Answer:
        wanted: CampaignChange = kind() if takes is None else asked.body
        wanted.require_some()
        require_installed(getattr(wanted, "policy", None))
        await asked.app.service.change(asked.name, asked.grant.name, wanted, asked.place)
        return await answer_status(asked)

    answer.__name__ = name_of(kind)
    answer.__doc__ = kind.__doc__
    route(kind.method, f"/v1/campaigns/{{campaign}}/{kind.path}", kind.summary, roles=kind.roles,
          takes=takes, answers=CampaignStatus)(answer)  # fmt: skip


for change in CHANGES:
    add_change(change)
