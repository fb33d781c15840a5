"""An HTTP/1.1 server for one ASGI application. It is independent of campaigns.

``server`` listens and accepts, ``connections`` answers requests in order, ``reading`` parses them;
``requests`` and ``answers`` have their types. The limits of :class:`Limits` apply to every client.

:meth:`Application.answer_directly` answers without ASGI: it is called in the event loop with every
parsed request. If it returns False, the request becomes an ASGI call. If it returns True, it calls
``done`` with an :data:`Answer` once, in the loop, now or later. Such an answer needs no task and no
framework.
"""

from __future__ import annotations

from tightrope.service.http.answers import Answer, HttpRequest, RefusalError
from tightrope.service.http.server import Application, HttpServer, Limits

__all__ = ["Answer", "Application", "HttpRequest", "HttpServer", "Limits", "RefusalError"]
