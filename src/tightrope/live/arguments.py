"""Check the arguments of a campaign and convert them to the units of its log."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from tightrope.errors import InputError
from tightrope.policies.base import Policy
from tightrope.policies.naming import lasting, parse_policy
from tightrope.problem.values import shown

MOST_WAIT = 100 * 365 * 86400.0  # seconds until a ticket expires, at most


def as_policy(policy: Policy | str) -> tuple[Policy, str]:
    """A policy and its text, which finds it again from any working folder."""
    if isinstance(policy, str):
        return parse_policy(policy), lasting(policy)
    if not isinstance(policy, Policy):
        raise InputError(f"policy = {shown(policy)}: must be a policy, such as Resolve()")
    return policy, policy.label


def own_name() -> str:
    """The default author of events: this machine's name and the process."""
    return f"{socket.gethostname()}:{os.getpid()}"


def known_who(who: str | None) -> str | None:
    """The author's name, checked."""
    if who is None or (isinstance(who, str) and 0 < len(who) <= 128 and who.isprintable()):
        return None if who is None else str(who)
    raise InputError(f"who = {shown(who)}: must be 1 to 128 printable characters")


def one_of(value: Any, allowed: Sequence[str], place: str) -> str:
    """One of a few words."""
    if isinstance(value, str) and value in allowed:
        return value
    raise InputError(f"{place} = {shown(value)}: must be {' or '.join(map(repr, allowed))}")


def positive(value: Any, place: str) -> float:
    """A number above 0."""
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < float("inf"):
        return float(value)
    raise InputError(f"{place} = {shown(value)}: must be a positive number")


def microseconds(value: timedelta | float) -> int:
    """The time until a ticket expires."""
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if positive(seconds, "expire_after") > MOST_WAIT:
        raise InputError(f"expire_after = {shown(value)}: must be at most {MOST_WAIT:g} seconds")
    return round(seconds * 1e6)


def moment(value: datetime | str, place: str) -> int:
    """A date, or its ISO text, in microseconds; without a time zone it is UTC."""
    try:
        found = datetime.fromisoformat(value) if isinstance(value, str) else value
        if found.tzinfo is None:
            found = found.replace(tzinfo=UTC)
        return round(found.timestamp() * 1e6)
    except (ValueError, AttributeError, TypeError):
        allowed = "a date such as 2026-11-01T00:00:00+00:00"
        raise InputError(f"{place} = {shown(value)}: must be {allowed}") from None
