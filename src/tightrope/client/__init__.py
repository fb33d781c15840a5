"""A client of the service: decisions and reports over HTTP, with safe retries.

``drivers`` has ``Client`` and ``AsyncClient`` (httpx, extra ``client``), ``decisions`` their
``with`` blocks, ``core`` their shared logic, ``operations`` the blocking and awaited forms of
methods, ``spool`` their data on disk, ``answers`` the service's answers, ``ids`` the tickets' ids.
This package does not need the rest of the library.
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
