"""A client of the service: decisions and reports over HTTP, with retries that are safe.

``drivers`` has ``Client`` and ``AsyncClient`` (httpx, extra ``client``), ``decisions`` their
blocks, ``core`` what both do, ``operations`` how a method blocks or is awaited, ``spool`` what they
keep on the disk, ``answers`` what a service answers, ``ids`` the tickets' ids.
Nothing here needs the rest of the library.
"""

from __future__ import annotations

from tightrope.client.answers import (
    AccessError,
    NotExecuted,
    SpoolWarning,
    Ticket,
    UnreachableError,
    UnreportedWarning,
)
from tightrope.client.decisions import AsyncDecision, Decision
from tightrope.client.ids import new_id
from tightrope.errors import InputError

try:
    from tightrope.client.drivers import AsyncClient, Client
except ModuleNotFoundError as error:  # pragma: no cover
    if error.name != "httpx":
        raise
    raise InputError(
        "the client needs httpx, which is not installed; pip install 'tightrope[client]'"
    ) from None

__all__ = [
    "AccessError",
    "AsyncClient",
    "AsyncDecision",
    "Client",
    "Decision",
    "NotExecuted",
    "SpoolWarning",
    "Ticket",
    "UnreachableError",
    "UnreportedWarning",
    "new_id",
]
