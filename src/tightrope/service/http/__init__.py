"""An HTTP/1.1 server of our own, for one ASGI application. It knows nothing of campaigns.

``server`` listens, accepts and ends, ``connections`` answer requests one by one, ``reading`` has
the grammar of requests; ``requests`` and ``answers`` are what goes through them. The limits of
:class:`Limits` are kept for every client.

The hook for answers without ASGI is :meth:`Application.answer_directly`: it is called with every
request that was read, in the event loop, before ASGI. It returns False, and the request becomes an
ASGI call; or it returns True, and calls ``done`` with an :data:`Answer` once, in the loop, now or
later. No task and no framework are between the parser and such an answer.
"""

from __future__ import annotations

from tightrope.service.http.answers import Answer, RefusalError
from tightrope.service.http.requests import HttpRequest
from tightrope.service.http.server import Application, HttpServer, Limits

__all__ = ["Answer", "Application", "HttpRequest", "HttpServer", "Limits", "RefusalError"]
