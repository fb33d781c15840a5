"""A campaign in words and tables: its status, a ticket, why an arm was chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NotRequired, TypedDict, cast

from tightrope.errors import InputError
from tightrope.live.core import Core
from tightrope.live.events import START, Row, event_of, when
from tightrope.live.featured import FeaturedController
from tightrope.live.follower import state_before
from tightrope.live.kinds import Asked, Quarantined
from tightrope.live.learned import CurvePoint, PointSums, curve_of, point_sums
from tightrope.live.ledger import Account, Ledger, TypeCounts, mix_changed
from tightrope.live.log import events_of as chained
from tightrope.live.log import rows_of
from tightrope.live.outlook import promise_of
from tightrope.live.stores import Store
from tightrope.live.tickets import Past, Ticket, good_id
from tightrope.live.vectors import ErasedError
from tightrope.policies.base import Policy
from tightrope.problem import Task
from tightrope.problem.features import Features, Mixed
from tightrope.problem.values import shown


class AccountAmounts(TypedDict):
    """An account, in its own unit: budget = spent + reserved + free."""

    budget: float
    spent: float
    reserved: float
    free: float


class LimitNumbers(TypedDict, total=False):
    """The optional fields of a limit; see ``Limit`` and ``Share``."""

    at_most: float
    total: float
    at_least: float
    share: list[str]  # arms
    of: str
    hard: bool


class StatusLimit(LimitNumbers):
    """A limit, as in a task's table."""

    per: str


class StatusArm(TypedDict):
    """An arm: its reported pulls and its pulls in flight."""

    arm: str
    pulls: int
    in_flight: int
    retired: bool


class StatusType(TypedDict):
    """A type of requests: what it gets, earns and breaks."""

    type: str
    asked: int
    share: float  # of all requests
    recent: float  # share of the last requests: 500 to 999 of them, if there are so many
    told: int
    reward: float
    penalties: dict[str, float]
    pulls: dict[str, int]  # reported, by arm


class StatusFeature(TypedDict):
    """A feature of requests: its mean, and whether that has changed."""

    feature: str
    first: float | None  # its mean in the first 1,000 requests; None until it is compared
    recent: float | None  # its mean in the last 500 to 999 requests
    moved: float | None  # the difference, in deviations of the first requests
    drifted: bool  # whether the difference is an alarm


class CampaignStatus(AccountAmounts):
    """The status of a campaign, in the user's units."""

    name: str
    state: str  # open, paused, exhausted, closed
    why: str | None  # it is paused
    in_flight: int
    asked: int
    told: int
    voided: int
    expired: int
    late: int
    quarantined: int
    refused: int
    overruns: int
    reward: float
    penalties: dict[str, float]
    limits: dict[str, StatusLimit]
    hard: dict[str, AccountAmounts]
    stop: str
    on_overrun: str  # pause, alert
    promise: str | None  # what remains of a promised risk
    shadow: bool
    policy: str
    pinned: str | None
    arms: list[StatusArm]
    epoch: int
    doubtful: list[str]  # tickets
    events: int
    at: str
    types: NotRequired[list[StatusType]]  # of requests, if the task has contexts
    mix_changed: NotRequired[bool]  # whether the types' shares among the last requests are new
    curve: NotRequired[list[CurvePoint]]  # of one campaign over an interval: what was learned
    features: NotRequired[list[StatusFeature]]  # if the task has features that the policy uses
    features_changed: NotRequired[bool]  # whether the mean of one has drifted


class RefusedReport(TypedDict):
    """A report in the quarantine."""

    number: int
    ticket: str | None
    at: str
    why: str
    report: str


def amounts_of(account: Account) -> AccountAmounts:
    """An account in its own unit."""
    amount = account.amount
    return {
        "budget": amount(account.budget),
        "spent": amount(account.spent),
        "reserved": amount(account.reserved),
        "free": amount(account.free),
    }


def status_of(name: str, core: Core) -> CampaignStatus:
    """The status of a campaign, in the user's units, as a JSON object."""
    ledger, controller, settings = core.ledger, core.controller, core.settings
    task = controller.task
    contexts = {**_types(core), **_features(core)}
    return {
        "name": name,
        "state": _state(core),
        "why": ledger.paused,
        **amounts_of(ledger.accounts[0]),
        "in_flight": len(ledger.tickets),
        "asked": ledger.asked,
        "told": ledger.told,
        "voided": ledger.voided,
        "expired": ledger.expired,
        "late": ledger.late,
        "quarantined": len(ledger.quarantine),
        "refused": ledger.refused,
        "overruns": ledger.overruns,
        "reward": ledger.reward,
        "penalties": dict(zip(task.limit_names, ledger.penalties, strict=True)),
        "limits": _limits(task),
        "hard": {one.name: amounts_of(one) for one in ledger.accounts[1:]},
        "stop": settings.stop,
        "on_overrun": settings.on_overrun,
        "promise": promise_of(controller),
        "shadow": settings.shadow,
        "policy": core.policy_text,
        "pinned": None if ledger.pinned is None else controller.arm_name(ledger.pinned),
        "arms": _arms(core),
        "epoch": ledger.epoch,
        "doubtful": list(ledger.doubtful),
        "events": ledger.seq,
        "at": when(ledger.at).isoformat(),
        **contexts,  # type: ignore[typeddict-item]
    }


def status_and_sums(name: str, core: Core) -> tuple[CampaignStatus, PointSums | None]:
    """The status, and what ``with_curve`` adds to it outside of a turn."""
    return status_of(name, core), point_sums(core.controller)


def with_curve(status: CampaignStatus, sums: PointSums | None) -> CampaignStatus:
    """The status of a campaign over an interval with the curve of its outcomes."""
    return status if sums is None else {**status, "curve": curve_of(sums).points()}


def _types(core: Core) -> dict[str, Any]:
    """The requests of each type, and whether their shares have changed; empty without types."""
    task, controller = core.controller.task, core.typed
    if isinstance(task.contexts, Mixed):
        found = {name: TypeCounts() for name in task.contexts.kinds.names}
    elif controller is None:
        return {}
    else:
        merged = controller.types.merged
        found = {name: TypeCounts() for name in controller.type_names if name not in merged}
    for name, one in core.ledger.types.items():
        found[name if controller is None else controller.type_name(name)].add(one)
    asked = sum(one.asked for one in found.values())
    last = sum(one.block + one.recent for one in found.values())
    rows: list[StatusType] = [
        {
            "type": name,
            "asked": one.asked,
            "share": one.asked / asked if asked else 0.0,
            "recent": (one.block + one.recent) / last if last else 0.0,
            "told": one.told,
            "reward": one.reward,
            "penalties": _named(task.limit_names, one.penalties, 0.0),
            "pulls": _named(task.names, one.pulls),
        }
        for name, one in found.items()
    ]
    return {"types": rows, "mix_changed": mix_changed(list(found.values()))}


def _features(core: Core) -> dict[str, Any]:
    """The features' means, and whether they have changed; empty without features."""
    controller = core.controller
    if core.means is None or not isinstance(controller, FeaturedController):
        return {}
    drift, names = core.means.drift(), controller.feature_names
    rows: list[StatusFeature] = [
        {
            "feature": name,
            "first": drift[at][0] if drift else None,
            "recent": drift[at][1] if drift else None,
            "moved": drift[at][2] if drift else None,
            "drifted": bool(drift) and drift[at][3],
        }
        for at, name in enumerate(names)
    ]
    return {"features": rows, "features_changed": any(row["drifted"] for row in rows)}


def _named(names: Sequence[str], values: Sequence[Any], none: float = 0) -> dict[str, Any]:
    """Values by name; ``none`` where there is none yet."""
    return {name: values[at] if at < len(values) else none for at, name in enumerate(names)}


def ledger_status(store: Store, name: str) -> dict[str, Any]:
    """A campaign's money and counts, from its ledger, without running the policy."""
    saved = store.saved(name)
    ledger = Ledger() if saved is None else Ledger.in_snapshot(saved.body)
    rows = rows_of(store, name, ledger.seq)
    for event in chained(rows, START if saved is None else saved.hash):
        ledger.follow(event)
    counts = ("asked", "told", "voided", "expired", "late", "refused", "overruns", "reward")
    return {
        "name": name,
        **amounts_of(ledger.accounts[0]),
        "in_flight": len(ledger.tickets),
        **{count: getattr(ledger, count) for count in counts},
        "hard": {one.name: amounts_of(one) for one in ledger.accounts[1:]},
        "events": ledger.seq,
        "at": when(ledger.at).isoformat(),
    }


def _state(core: Core) -> str:
    if core.ledger.closed:
        return "closed"
    if core.ledger.paused is not None:
        return "paused"
    return "exhausted" if core.exhausted else "open"


def _limits(task: Task) -> dict[str, StatusLimit]:
    pairs = zip(task.limit_names, task.limit_kinds, strict=True)
    return {name: cast(StatusLimit, {**one.table(), "per": one.per}) for name, one in pairs}


def _arms(core: Core) -> list[StatusArm]:
    controller = core.controller
    columns = controller.task.names, controller.pulls, controller.in_flight
    return [
        {"arm": arm, "pulls": pulls, "in_flight": flying, "retired": arm in controller.retired}
        for arm, pulls, flying in zip(*columns, strict=True)
    ]


def events_of(store: Store, name: str, ticket: str) -> list[Row]:
    """The events of a ticket, in order."""
    return store.read(name, tickets=[ticket]) if good_id(ticket) else []


def ticket_of(core: Core, ticket: str, rows: Sequence[Row]) -> Ticket:
    """A ticket and its state; ``rows``: its events, for one that is not in flight."""
    flying = core.ledger.tickets.get(ticket) if good_id(ticket) else None
    found = flying or Past.of_rows(rows)
    if found is None:
        raise InputError(f"ticket = {shown(ticket)}: is unknown")
    return Ticket.of(core, ticket, found)


def refused_of(
    store: Store, name: str, quarantine: Mapping[int, str | None]
) -> list[RefusedReport]:
    """The reports of a quarantine, in its order; ``quarantine``: tickets by number."""
    found: list[RefusedReport] = []
    for number, ticket in quarantine.items():
        rows = store.read(name, number - 1, 1)
        if rows and rows[0].seq == number:
            body, at = event_of(rows[0]).body, when(rows[0].at).isoformat()
            assert isinstance(body, Quarantined)
            why, report = body.why, body.report
            found.append(
                {"number": number, "ticket": ticket, "at": at, "why": why, "report": report}
            )
    return found


@dataclass(frozen=True)
class Why:
    """What the policy knew when it chose a ticket's arm, in the user's units."""

    id: str
    arm: str
    at: datetime
    event: int
    policy: str
    pinned: bool
    among: list[str]  # the eligible arms
    free: float  # of the budget
    arms: list[dict[str, Any]]  # for each: pulls reported and in flight, mean outcomes so far
    context: Any = None  # the type of the request, to which the arms' numbers belong; or features

    def table(self) -> dict[str, Any]:
        """The explanation as a JSON object."""
        table = {**vars(self), "at": self.at.isoformat()}
        if self.context is None:
            del table["context"]
        return table


def why_of(store: Store, name: str, policy: Policy | None, ticket: str) -> Why:
    """Replay the log up to the decision."""
    rows = [row for row in events_of(store, name, ticket) if row.kind == "asked"]
    if not rows:
        raise InputError(f"ticket = {shown(ticket)}: is unknown")
    row = rows[0]
    try:
        core = state_before(store, name, policy, row.seq)
    except ErasedError as error:
        raise InputError(f"ticket = {shown(ticket)}: cannot be explained; {error}") from None
    body = cast(Asked, event_of(row).body)
    controller = core.controller
    task, account = controller.task, core.ledger.accounts[0]
    among = range(task.arm_count) if body.allowed is None else body.allowed
    seen = controller.pulls, controller.in_flight, controller.means
    if core.typed is not None and body.context is not None:
        seen = core.typed.of_type(body.context)
    return Why(
        id=ticket,
        arm=controller.arm_name(body.arm),
        at=when(row.at),
        event=row.seq,
        policy=core.policy_text,
        pinned=body.pinned,
        among=[name for name in map(controller.arm_name, among) if name not in controller.retired],
        free=account.amount(account.free),
        arms=[
            {
                "arm": arm,
                "pulls": pulls,
                "in_flight": flying,
                **{
                    channel: None if mean is None else float(mean)
                    for channel, mean in zip(task.channels, means, strict=True)
                },
            }
            for arm, pulls, flying, means in zip(task.names, *seen, strict=True)
        ],
        context=_context_of(core, body),
    )


def _context_of(core: Core, body: Asked) -> Any:
    """The type of a request, or its features by name; only the type if they were erased."""
    contexts = core.controller.task.contexts
    if body.features is None or not isinstance(contexts, Features | Mixed):
        return body.context
    try:
        row = contexts.joined(body.context, core.vectors.text(body.features)).tolist()
    except ErasedError:
        return body.context
    features = contexts if isinstance(contexts, Features) else contexts.features
    found = dict(zip(cast(Sequence[str], features.names), row, strict=False))
    return found if body.context is None else {"type": body.context, **found}
