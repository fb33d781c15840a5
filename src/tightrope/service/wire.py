"""What goes over the wire: the shapes of requests and answers, and one shape of all errors.

A report's numbers may be anything here: what a campaign cannot take it refuses and keeps in its
quarantine, so that a report of money that was spent is not lost because of a wrong type.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from tightrope.errors import InputError, ReportError, TightropeError, WaitError
from tightrope.formats import finite
from tightrope.live.writing import Ticket
from tightrope.names import one_line

__all__ = [
    "BATCH",
    "Amendment",
    "Amendments",
    "Answer",
    "ArmFacts",
    "Budget",
    "Campaign",
    "Change",
    "Correction",
    "Decision",
    "DecisionAnswer",
    "Decisions",
    "Note",
    "Pause",
    "Pin",
    "Problem",
    "RefusalError",
    "Report",
    "ReportAnswer",
    "Reports",
    "Void",
    "Voids",
    "answer_of",
    "decoded",
    "encode",
    "finite",
    "one_line",
    "problem_of",
]

BATCH = 1000  # items of one batch, at most
encode = msgspec.json.encode


class RefusalError(TightropeError):
    """A request that the service itself refuses, before any campaign sees it."""

    def __init__(self, status: int, code: str, message: str, **headers: str) -> None:
        super().__init__(message)
        self.status = status  # type: ignore[misc]
        self.code = code
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


# Requests. Unknown fields are refused: a misspelled one would be a silent default.


class Decision(Struct, forbid_unknown_fields=True):
    """Which arm now? The same ``id`` again gives the same ticket."""

    id: str | None = None
    eligible: list[int | str] | None = None  # arms by name or number; all if left out
    ttl_s: float | None = None  # seconds after which this ticket expires


class Decisions(Struct, forbid_unknown_fields=True):
    """Several decisions, each with a result of its own."""

    decisions: list[Decision]


class Report(Struct, forbid_unknown_fields=True):
    """What came of a ticket."""

    id: Any
    cost: Any = None
    reward: Any = None
    penalty: Any = None  # by the limits' names; a number alone if there is one limit
    arm: int | str | None = None  # the arm that was pulled, where another system acts


class Reports(Struct, forbid_unknown_fields=True):
    """Several reports, each with a result of its own."""

    reports: list[Report]


class Void(Struct, forbid_unknown_fields=True):
    """Nothing was done for this ticket."""

    id: str


class Voids(Struct, forbid_unknown_fields=True):
    """Several voids, each with a result of its own."""

    voids: list[Void]


class Amendment(Struct, forbid_unknown_fields=True):
    """Other money for a ticket that was told."""

    id: str
    cost: float | None = None
    penalty: dict[str, float] | None = None
    note: str | None = None


class Amendments(Struct, forbid_unknown_fields=True):
    """Several amendments, each with a result of its own."""

    amendments: list[Amendment]


class Campaign(Struct, forbid_unknown_fields=True):
    """All that a new campaign keeps to."""

    task: dict[str, Any]  # the task's TOML as JSON
    budget: float
    policy: str | None = None
    seed: int = 0
    stop: str = "hard"
    expire_after: float = 86400.0  # seconds
    release: str | None = None
    starts: str | None = None
    ends: str | None = None
    per_day: float | None = None
    shadow: bool = False


class Pause(Struct, forbid_unknown_fields=True):
    """Why no decisions are made."""

    why: str = "by hand"
    note: str | None = None


class Pin(Struct, forbid_unknown_fields=True):
    """The arm to be pulled until further notice; null lets the policy decide again."""

    arm: int | str | None


class Budget(Struct, forbid_unknown_fields=True):
    """So much more budget."""

    amount: float


class ArmFacts(Struct, forbid_unknown_fields=True):
    """A new arm, and what is known of it."""

    name: str
    like: int | str | None = None  # an arm whose mean outcomes are expected of it
    weight: float | None = None  # as if seen in so many pulls
    cost: float | None = None  # its price, where the task knows costs
    penalty: dict[str, float] | None = None  # those that the task knows


class Change(Struct, forbid_unknown_fields=True):
    """Other limits, another policy, another expiry from here on."""

    limits: dict[str, Any] | None = None
    policy: str | None = None
    expire_after: float | None = None
    per_day: float | None = None


class Correction(Struct, forbid_unknown_fields=True):
    """A quarantined report as it should have been; ``id`` where the report's own is wrong."""

    cost: Any = None
    reward: Any = None
    penalty: Any = None
    id: str | None = None


class Note(Struct, forbid_unknown_fields=True):
    """Free text, kept beside the log."""

    note: str | None = None


class Nothing(Struct, forbid_unknown_fields=True):
    """An empty object."""


# Answers.


class DecisionAnswer(Struct, omit_defaults=True):
    """A ticket; ``status`` in a batch only."""

    id: str
    arm: str
    number: int  # the arm's, from 0
    reserved: float
    expires_at: datetime
    state: str
    status: int | UnsetType = UNSET

    @classmethod
    def of(cls, ticket: Ticket, status: int | UnsetType = UNSET) -> DecisionAnswer:
        """From a ticket."""
        return cls(*ticket, status)


class ReportAnswer(Struct, omit_defaults=True):
    """The state of the ticket that a report, a void or an amendment was for."""

    id: str
    state: str
    status: int | UnsetType = UNSET


class Health(Struct):
    """Whether the service is alive, or ready."""

    status: str


class Status(Struct):
    """Where a campaign stands, in its own units."""

    name: str
    state: str  # open, paused, exhausted, closed; halted in a list
    why: str | None  # it is paused
    budget: float
    spent: float
    reserved: float
    free: float
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
    limits: dict[str, str]
    policy: str
    pinned: str | None
    arms: list[dict[str, Any]]
    events: int
    at: str


class StatusList(Struct):
    """Campaigns; one that cannot be followed has a name, the state halted and why."""

    campaigns: list[dict[str, Any]]


class AccountAnswer(Struct):
    """The budget, or a hard limit: budget = spent + reserved + free."""

    name: str
    budget: float
    spent: float
    reserved: float
    free: float
    ticks: dict[str, int]
    tick: float  # the size of one


class Ledger(Struct):
    """The money and the tickets of a campaign."""

    events: int
    at: str
    accounts: list[AccountAnswer]
    tickets: dict[str, int]


class Kept(Struct):
    """A refused report."""

    number: int
    ticket: str | None
    at: str
    why: str
    report: str


class Quarantine(Struct):
    """Refused reports."""

    reports: list[Kept]


class Problem(Struct, omit_defaults=True):
    """An error, as RFC 9457 has it (problem+json)."""

    title: str
    status: int
    detail: str
    code: str
    type: str = "about:blank"
    retry_at: datetime | None = None
    quarantine: int | None = None


TITLES = {
    400: "malformed request",
    401: "no valid key",
    402: "budget exhausted",
    403: "not allowed",
    404: "not found",
    405: "method not allowed",
    408: "request too slow",
    409: "conflict",
    413: "too large",
    415: "media type not supported",
    422: "bad value",
    429: "no decision yet",
    431: "headers too large",
    500: "failure",
    501: "not implemented",
    503: "not available",
    507: "storage full",
}


def problem_of(error: BaseException) -> tuple[Problem, list[tuple[bytes, bytes]]]:
    """The answer to an error, and its headers."""
    headers: list[tuple[bytes, bytes]] = []
    if not isinstance(error, TightropeError):
        kind = type(error).__name__
        return Problem(TITLES[500], 500, f"an error in the service: {kind}", "internal"), headers
    status = error.status
    found = Problem(TITLES.get(status, "failure"), status, one_line(error), error.code)
    if isinstance(error, RefusalError):
        headers += [(name.encode(), value.encode()) for name, value in error.headers.items()]
    elif isinstance(error, WaitError):
        wait = 1
        if error.retry_at is not None:
            found.retry_at = error.retry_at
            wait = max(1, math.ceil((error.retry_at - datetime.now(UTC)).total_seconds()))
        headers.append((b"retry-after", str(wait).encode()))
    elif status == 503:
        headers.append((b"retry-after", b"1"))
    if isinstance(error, ReportError):
        found.quarantine = error.quarantine
    return found, headers


Answer = tuple[int, bytes, "list[tuple[bytes, bytes]] | None"]  # None: the headers of plain JSON
JSON = (b"content-type", b"application/json")
PROBLEM = (b"content-type", b"application/problem+json")


def answer_of(error: BaseException) -> Answer:
    """An error as a whole answer."""
    problem, headers = problem_of(error)
    return problem.status, encode(problem), [PROBLEM, *headers]


def decoded(decoder: msgspec.json.Decoder[Any], body: bytes) -> Any:
    """A body as its shape; raises a refusal that names what is wrong."""
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        raise InputError(f"body: {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RefusalError(400, "malformed", f"body: is not JSON: {error}") from None
    except RecursionError:
        raise RefusalError(400, "malformed", "body: is nested too deeply") from None
