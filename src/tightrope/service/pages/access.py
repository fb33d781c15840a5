"""Who may see and do what on the pages: a session in a cookie, made by a form that takes a key.

The cookie is a random word; which key it stands for is known to this process alone, and the key
is looked up again with every request, so that a key that was removed ends its sessions. A session
ends with the process, after twelve hours, or with the button.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Sequence
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response

from tightrope.service.http.requests import require_local
from tightrope.service.keys import OPEN, Grant, KeyRing
from tightrope.service.wire import RefusalError

__all__ = ["Access"]

COOKIE = "tightrope_session"
LASTS = 12 * 3600  # seconds
MOST_SESSIONS = 1000


class Access:
    """The sessions of one process."""

    def __init__(self, keys: KeyRing | None) -> None:
        self.keys = keys
        self._sessions: dict[bytes, tuple[bytes, float]] = {}  # digest of the word: key, until

    def grant(self, request: Request) -> Grant | None:
        """What whoever sent a request may do; None if that is not known.

        Without keys everything is open on loopback: only to those who call it so, lest a page of
        another host be let in by a name that leads here.
        """
        if self.keys is None:
            require_local(request.headers.get("host", "").encode("latin-1"))
            return OPEN
        self.keys.refresh()
        word = request.cookies.get(COOKIE)
        found = None if word is None else self._sessions.get(_digest(word))
        if found is None or found[1] < time.monotonic():
            return None
        return self.keys.grant(found[0])

    def require(self, request: Request, roles: Sequence[str], name: str | None) -> Grant:
        """The grant, if it has one of the roles for a campaign; raises otherwise."""
        found = self.grant(request)
        if found is None:
            raise RefusalError(401, "unauthorized", "this page needs a key")
        found.require(roles, name)
        return found

    def login(self, request: Request, secret: str, response: Response) -> bool:
        """Begin a session with a key; whether it is valid."""
        if self.keys is None or self.keys.grant(secret.encode()) is None:
            return False
        now = time.monotonic()
        self._sessions = {w: s for w, s in self._sessions.items() if s[1] > now}
        while len(self._sessions) >= MOST_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        word = secrets.token_urlsafe(32)
        self._sessions[_digest(word)] = secret.encode(), now + LASTS
        response.set_cookie(
            COOKIE,
            word,
            max_age=LASTS,
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )
        return True

    def logout(self, request: Request, response: Response) -> None:
        """End a session."""
        self._sessions.pop(_digest(request.cookies.get(COOKIE, "")), None)
        response.delete_cookie(COOKIE, httponly=True, samesite="strict")


def _digest(word: str) -> bytes:
    return hashlib.sha256(word.encode()).digest()


def require_own_page(request: Request) -> None:
    """Raise unless a form was sent by one of our own pages; a browser says where it comes from."""
    origin, host = request.headers.get("origin"), request.headers.get("host", "")
    if origin is None or urlsplit(origin).netloc.lower() != host.lower():
        shown = "none" if origin is None else repr(origin[:80])
        raise RefusalError(403, "forbidden", f"origin {shown}: must be a page of this service")
