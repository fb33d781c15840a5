"""The answers of a service: tickets, and errors read from ``application/problem+json``.

    code                            raised here
    exhausted                       ExhaustedError
    fully_reserved, not_released    WaitError, with retry_at
    paused, closed                  CampaignError
    conflict                        ConflictError
    invalid                         ReportError if it is in quarantine, otherwise InputError
    malformed, too_large            InputError
    not_found                       NotFoundError
    unauthorized, forbidden         AccessError
    overloaded                      StoreBusyError
    store                           StoreError
    halted                          HaltedError
    (no answer)                     UnreachableError, a StoreError

``error.code`` is the code of an error that a service answered with.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple

from tightrope.errors import (
    CampaignError,
    ConflictError,
    ExhaustedError,
    HaltedError,
    InputError,
    NotFoundError,
    ReportError,
    StoreBusyError,
    StoreError,
    TightropeError,
    WaitError,
)


class AccessError(TightropeError):
    """A key that the service does not accept, or that lacks the role."""

    status = 403
    code = "forbidden"


class UnreachableError(StoreError):
    """No service answered in time; the request may have been done."""

    code = "unreachable"


class NotExecuted(Exception):  # noqa: N818, it is a statement, not an error
    """Raise it inside ``with client.decide(...)`` to void the ticket: nothing was done."""


class UnreportedWarning(UserWarning):
    """A decision without a report: its ticket stays in flight until it expires."""


class SpoolWarning(UserWarning):
    """A spooled report that the service refused when it was sent later."""


class Ticket(NamedTuple):
    """A decision: pull ``arm``, then report the outcome under ``id``.

    >>> Ticket.of_table({"id": "lead-1", "arm": "mail", "number": 0, "reserved": 1.0,
    ...                  "expires_at": "2030-01-01T00:00:00Z"}).arm
    'mail'
    """

    id: str
    arm: str  # its name
    number: int  # the arm's number, from 0
    reserved: float  # of the budget, until it is reported
    expires_at: datetime
    state: str = "open"  # or told, voided, expired, quarantined
    spare: bool = False  # reserved in advance, used while the service was unreachable
    context: str | None = None  # the type of the request, in a campaign with contexts
    value: float | tuple[float, ...] | None = None  # in a campaign over an interval or a box

    @classmethod
    def of_table(cls, table: Mapping[str, Any], *, spare: bool = False) -> Ticket:
        """From a JSON object."""
        known = {key: table[key] for key in cls._fields if key in table}
        known["expires_at"] = datetime.fromisoformat(table["expires_at"])
        if isinstance(table.get("value"), list):
            known["value"] = tuple(table["value"])
        return cls(**{**known, "spare": spare})

    def table(self) -> dict[str, Any]:
        """The ticket as a JSON object."""
        return {**self._asdict(), "expires_at": self.expires_at.isoformat()}


def id_of(ticket: Any) -> Any:
    """The id of a ticket; anything else unchanged."""
    return getattr(ticket, "id", ticket) if isinstance(ticket, tuple) else ticket


class Reply(NamedTuple):
    """An HTTP answer."""

    status: int
    headers: Mapping[str, str]  # names in any case
    content: bytes


def decoded(reply: Reply) -> Any:
    """The JSON of an answer."""
    try:
        return json.loads(reply.content)
    except ValueError:
        return None


KINDS: dict[str, Callable[[str], TightropeError]] = {
    "exhausted": ExhaustedError,
    "paused": CampaignError,
    "closed": CampaignError,
    "malformed": InputError,
    "too_large": InputError,
    "not_found": NotFoundError,
    "invalid": InputError,
    "unauthorized": AccessError,
    "forbidden": AccessError,
    "overloaded": StoreBusyError,
    "store": StoreError,
    "halted": HaltedError,
}


def error_of(problem: Mapping[str, Any], status: int) -> TightropeError:
    """The error in an ``application/problem+json`` answer.

    >>> error_of({"code": "exhausted", "detail": "the budget is spent"}, 402)
    ExhaustedError('the budget is spent')
    """
    code = str(problem.get("code", ""))
    text = str(problem.get("detail") or problem.get("title") or f"the service answered {status}")
    found: TightropeError
    if code in ("fully_reserved", "not_released"):
        found = WaitError(text, _moment(problem.get("retry_at")))
    elif code == "conflict":
        found = ConflictError(text, problem.get("quarantine"))
    elif code == "invalid" and "quarantine" in problem:
        found = ReportError(text, problem["quarantine"])
    elif code in KINDS:
        found = KINDS[code](text)
    elif status in (401, 403):
        found = AccessError(text)
    elif 400 <= status < 500 and status not in (408, 429):
        found = InputError(text)
    elif status >= 502 or status in (408, 429):  # from a proxy
        found = UnreachableError(text)
    else:
        found = TightropeError(text)
    found.code = code or found.code
    return found


def error_of_reply(reply: Reply) -> TightropeError:
    """The error of an unsuccessful answer."""
    problem = decoded(reply)
    return error_of(problem if isinstance(problem, dict) else {}, reply.status)


def _moment(text: object) -> datetime | None:
    try:
        return datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None


def retry_after(reply: Reply) -> float:
    """The seconds to wait according to an answer; 0 if it names none.

    >>> retry_after(Reply(429, {"retry-after": "3"}, b""))
    3.0
    """
    text = reply.headers.get("retry-after", "")
    try:
        return max(float(text), 0.0)
    except ValueError:
        pass
    try:
        moment = parsedate_to_datetime(text)
        return max((moment - datetime.now(moment.tzinfo)).total_seconds(), 0.0)
    except (TypeError, ValueError):
        return 0.0
