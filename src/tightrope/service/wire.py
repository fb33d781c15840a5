"""The JSON of the API: bodies, answers, and one format for all errors."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from tightrope.errors import InputError, ReportError, TightropeError, WaitError, nearest
from tightrope.live.status import AccountAmounts, CampaignStatus, RefusedReport
from tightrope.names import one_line
from tightrope.problem.values import shown
from tightrope.service.http.answers import PROBLEM, Answer, RefusalError, failure_of
from tightrope.service.http.answers import TITLES as HTTP_TITLES

BATCH = 1000  # items of one batch, at most
LONGEST_FIELD = 100  # characters of an unknown field that are compared with known fields
UNKNOWN = re.compile("Object contains unknown field `(.*)`", re.DOTALL)
MISSING = re.compile("Object missing required field `([^`]*)`")
WRONG = re.compile(r"Expected `([^`]*)`, got `([^`]*)`(?: - at `\$\.?(.*)`)?")
OUTSIDE = re.compile(r"(.*) out of range(?: - at `\$\.?(.*)`)?")
WORDS = {
    "str": "text", "float": "a number", "int": "a whole number", "bool": "true or false",
    "object": "an object", "array": "a list", "null": "null",
}  # fmt: skip
encode = msgspec.json.encode


class NewCampaign(Struct, forbid_unknown_fields=True):
    """The settings of a new campaign."""

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
    on_overrun: str = "pause"  # or alert
    learn_from: Annotated[
        dict[str, list[str | float] | float] | None,
        Meta(
            description="a log, as columns with a value for each row, or a number for all rows: "
            "arm, cost, reward, each reported penalty by name; context, propensity, features"
        ),
    ] = None
    weight: Annotated[float, Meta(description="pulls that a row of learn_from counts as")] = 0.3


# Answers.


class DecisionAnswer(Struct, omit_defaults=True):
    """A ticket; ``status`` in a batch only."""

    id: str
    arm: Annotated[str, Meta(description="the name of the arm to pull")]
    number: Annotated[int, Meta(description="the number of that arm, from 0")]
    reserved: Annotated[float, Meta(description="held of the budget until the report")]
    expires_at: datetime
    state: Annotated[str, Meta(description="open, told, voided, expired or quarantined")]
    context: Annotated[str | None, Meta(description="the type of the request, if any")] = None
    value: Annotated[
        float | list[float] | None,
        Meta(description="the arm's number in an interval; one for each side of a box"),
    ] = None
    status: int | UnsetType = UNSET


class ReportAnswer(Struct, omit_defaults=True):
    """The state of the ticket that a report, a void or an amendment was for."""

    id: str
    state: str
    status: int | UnsetType = UNSET


class CreatedStatus(CampaignStatus, total=False):
    """The status of a campaign that was created, or that agrees."""

    notices: list[str]  # of a new campaign: warnings for its creator


class Health(Struct):
    """Whether the service is alive, or ready."""

    status: str


class HaltedCampaign(Struct):
    """A campaign that this process cannot follow."""

    name: str
    state: Literal["halted"]
    why: str


class StatusList(Struct):
    """Campaigns: each a ``CampaignStatus``, or a ``HaltedCampaign``."""

    campaigns: list[dict[str, Any]]  # msgspec has no union of the two


class AccountAnswer(AccountAmounts):
    """The budget, or a hard limit: budget = spent + reserved + free."""

    name: str
    ticks: dict[str, int]
    tick: float  # the size of one


class LedgerAnswer(Struct):
    """The money and the tickets of a campaign."""

    events: int
    at: str
    accounts: list[AccountAnswer]
    tickets: dict[str, int]


class Quarantine(Struct):
    """Refused reports."""

    reports: list[RefusedReport]


class ErasedContexts(Struct):
    """The number of requests whose features were erased."""

    erased: int


class ProblemDetails(Struct, omit_defaults=True):
    """An error in the format of RFC 9457 (problem+json)."""

    title: str
    status: int
    detail: str
    code: str
    type: str = "about:blank"
    retry_at: datetime | None = None
    quarantine: int | None = None


TITLES = HTTP_TITLES | {
    401: "no valid key",
    402: "budget exhausted",
    403: "not allowed",
    404: "not found",
    405: "method not allowed",
    409: "conflict",
    415: "media type not supported",
    422: "bad value",
    429: "try again later",
    507: "storage full",
}


def problem_of(error: BaseException) -> tuple[ProblemDetails, list[tuple[bytes, bytes]]]:
    """The answer to an error, and its headers."""
    headers: list[tuple[bytes, bytes]] = []
    if not isinstance(error, TightropeError):
        error = failure_of(error)
    status = error.status
    found = ProblemDetails(TITLES.get(status, "failure"), status, one_line(error), error.code)
    if isinstance(error, RefusalError):
        headers += error.headers
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


def answer_of(error: BaseException) -> Answer:
    """An error as a complete answer."""
    problem, headers = problem_of(error)
    return problem.status, encode(problem), [PROBLEM, *headers]


def unknown_field(name: str, known: Sequence[str]) -> InputError:
    """The refusal of an unknown field of a body; names the known ones."""
    close = nearest(name[:LONGEST_FIELD], known) if known else ""
    hint = f"{close} known: " if close.startswith("did") else "known: "
    return InputError(f"body: field {shown(name)} is unknown; {hint}{', '.join(known) or 'none'}")


def _wrong_type(body: bytes, wanted: str, got: str, place: str) -> InputError:
    """The refusal of a value of another type; shows it unless its place is not known exactly."""
    allowed = " or ".join(WORDS.get(one, one) for one in wanted.split(" | "))
    if not place or "..." in place:
        return InputError(f"{place or 'body'}: must be {allowed}, not {WORDS.get(got, got)}")
    value = decoded(msgspec.json.Decoder(), body)  # the rest of it may be no JSON
    for part in re.findall(r"[^.\[\]]+", place):
        value = value[int(part) if isinstance(value, list) else part]
    return InputError(f"{place} = {shown(value)}: must be {allowed}")


def decoded(decoder: msgspec.json.Decoder[Any], body: bytes) -> Any:
    """The decoded body; raises a refusal that names what is wrong."""
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        if found := UNKNOWN.fullmatch(str(error)):
            raise unknown_field(found[1], decoder.type.__struct_encode_fields__) from None
        if found := MISSING.fullmatch(str(error)):
            raise InputError(f"body: {found[1]} is missing") from None
        if found := WRONG.fullmatch(str(error)):
            raise _wrong_type(body, *found.groups("")) from None
        if found := OUTSIDE.fullmatch(str(error)):
            raise InputError(f"{found[2] or 'body'}: must be below 1.8e308 in size") from None
        raise InputError(f"body: {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        what = str(error).replace("Input data was truncated", "ends too early")
        what = f"is not JSON: {what}" if body.strip() else "is empty; must be JSON"
        raise RefusalError(400, "malformed", f"body: {what}") from None
    except RecursionError:
        raise RefusalError(400, "malformed", "body: is nested too deeply") from None
