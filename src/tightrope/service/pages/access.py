"""Access to the pages: a session in a cookie, created by the sign-in form.

Sessions are stored in the browser (see ``sessions``). A process only remembers which ones were
ended by signing out, and the wrong keys of each address.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence

from starlette.requests import Request
from starlette.responses import Response

from tightrope.service.http.answers import RefusalError, require_local
from tightrope.service.keys import OPEN, Grant, KeyRing
from tightrope.service.pages.sessions import LASTS, PageSession, opened, sealed
from tightrope.service.proxies import Proxies
from tightrope.service.signins import SignIns

COOKIE = "tightrope_session"
MOST_ENDED = 1000  # remembered sessions of a key that were ended by signing out


class Access:
    """Access to the pages of one process."""

    def __init__(
        self, keys: KeyRing | None, proxies: Proxies | None, log: Callable[..., None]
    ) -> None:
        self.keys, self.proxies, self._log = keys, proxies or Proxies(), log
        self.sign_ins = SignIns() if keys is None else keys.sign_ins
        self._ended: dict[bytes, deque[bytes]] = {}  # numbers of sessions, by the key's id

    def grant(self, request: Request) -> Grant | None:
        """The permissions of a request's sender; None without a session.

        Without keys everyone on loopback has access. The Host header must name loopback, so that
        a page of another host cannot use a name that resolves to this machine.
        """
        if self.keys is None:
            require_local(request.headers.get("host", "").encode("latin-1"))
            return OPEN
        self._refresh(self.keys)
        session = self._session(request, self.keys)
        return None if session is None else self.keys.grant(session.secret)

    def _refresh(self, keys: KeyRing) -> None:
        if keys.refresh():
            self._log("keys were read again", problem=keys.problem)

    def _session(self, request: Request, keys: KeyRing) -> PageSession | None:
        found = opened(request.cookies.get(COOKIE, ""), keys, time.time())
        if found is None or found.number in self._ended.get(found.key_id, ()):
            return None
        return found

    def require(
        self, request: Request, roles: Sequence[str], name: str | None, some: bool = False
    ) -> Grant:
        """The grant, if it has one of the roles for a campaign, or for ``some``; else raises."""
        found = self.grant(request)
        if found is None:
            raise RefusalError(401, "unauthorized", "this page needs a key")
        found.require(roles, name, some)
        return found

    def login(self, request: Request, secret: str, response: Response) -> None:
        """Start a session with a key; raises if it is not valid, or its address must wait."""
        address = self.proxies.address(request.scope)
        self.sign_ins.require_turn(address)
        if self.keys is not None:
            self._refresh(self.keys)
        if self.keys is None or self.keys.grant(secret.encode()) is None:
            raise self.sign_ins.refused(address, self._log)
        cookie = sealed(secret.encode(), time.time())
        secure = self.proxies.scheme(request.scope) == "https"
        response.set_cookie(COOKIE, cookie, LASTS, httponly=True, samesite="strict", secure=secure)

    def logout(self, request: Request, response: Response) -> None:
        """End a session in this process, and delete its cookie."""
        found = None if self.keys is None else self._session(request, self.keys)
        if found is not None:
            ended = self._ended.setdefault(found.key_id, deque(maxlen=MOST_ENDED))
            ended.append(found.number)
        secure = self.proxies.scheme(request.scope) == "https"
        response.delete_cookie(COOKIE, httponly=True, samesite="strict", secure=secure)

    def require_own_page(self, request: Request) -> None:
        """Raise unless a form was sent by one of our own pages, by its ``Origin`` header.

        An origin with TLS is accepted even if no proxy reports TLS for the request.
        """
        host, origin = request.headers.get("host", ""), request.headers.get("origin", "")
        schemes = ("https", self.proxies.scheme(request.scope))
        own = [f"{scheme}://{host}".lower() for scheme in schemes]
        if not host or origin.lower() not in own:
            shown = repr(origin[:80]) if origin else "none"
            raise RefusalError(403, "forbidden", f"origin {shown}: must be a page of this service")
