"""Answers of the pages: templates, headers, files and errors."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Awaitable, Callable
from inspect import getmembers, isfunction
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from tightrope import formats
from tightrope.errors import InputError, NotFoundError, TightropeError
from tightrope.problem.values import shown
from tightrope.service.http.answers import RefusalError
from tightrope.service.pages.watch import NotYetError
from tightrope.service.values import Query, query_of

FOLDER = Path(__file__).parent
TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
    " connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}
BODY = 64 * 1024  # bytes of a form, at most
NOTHING: Query = {}


class PageAnswers:
    """The templates and static files of the pages, and the answers made from them."""

    def __init__(self, login: bool) -> None:
        """``login``: whether there are keys to sign in with."""
        self.static = {
            path.name: (path.read_bytes(), TYPES[path.suffix])
            for path in sorted((FOLDER / "static").iterdir())
            if path.suffix in TYPES
        }
        self.version = hashlib.sha256(
            b"".join(content for content, _ in self.static.values())
        ).hexdigest()[:12]
        self.templates = Environment(
            loader=FileSystemLoader(FOLDER / "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self.templates.globals.update(
            static=lambda name: f"/static/{name}?v={self.version}",
            path=path_of,
            login=login,
            **dict(getmembers(formats, isfunction)),
        )

    def page(self, template: str, status: int = 200, **facts: Any) -> Response:
        """A page or a part of one."""
        text = self.templates.get_template(template).render(**facts)
        headers = {**HEADERS, "cache-control": "no-store", "vary": "HX-Request, Cookie"}
        return Response(text, status, headers, "text/html; charset=utf-8")

    def safe(
        self, handler: Callable[[Request], Awaitable[Response]], known: Query | None = NOTHING
    ) -> Callable[[Request], Awaitable[Response]]:
        """The handler, with errors shown as a page; ``known``: the allowed query."""

        async def answer(request: Request) -> Response:
            try:
                if known is not None:
                    read_query(request, known)
                return await handler(request)
            except RefusalError as error:
                if error.status == 401 and request.method in ("GET", "HEAD"):
                    if is_partial(request):
                        return self.go(request, "/login")
                    back = request.scope["path"] if request.scope["path"] != "/" else ""
                    return self.go(request, "/login" + (f"?next={quote(back)}" if back else ""))
                return self._failed(request, error)
            except NotYetError as error:
                if request.method != "GET" or is_partial(request):
                    return self._failed(request, error)
                return self.page("opening.html.j2", message=str(error), opening=error.opening)
            except TightropeError as error:
                return self._failed(request, error)

        return answer

    def _failed(self, request: Request, error: TightropeError) -> Response:
        request.scope["tightrope.error"] = error  # for the log
        facts = {"status_code": error.status, "message": str(error)}
        name = "error_part.html.j2" if is_partial(request) else "error.html.j2"
        return self.page(name, error.status, **facts)

    def go(self, request: Request, to: str) -> Response:
        """Redirect a browser; htmx uses its own header."""
        if is_partial(request):
            return Response(status_code=204, headers={**HEADERS, "HX-Redirect": to})
        return RedirectResponse(to, 303, headers=HEADERS)

    async def file(self, request: Request) -> Response:
        """A static file."""
        found = self.static.get(request.path_params["name"])
        if found is None:
            return Response("not found", 404, HEADERS, "text/plain")
        content, kind = found
        stays = request.state.query.get("v") == self.version
        age = "public, max-age=31536000, immutable" if stays else "no-cache"
        return Response(content, 200, {**HEADERS, "cache-control": age}, f"{kind}; charset=utf-8")

    async def icon(self, request: Request) -> Response:
        """The icon under its traditional path."""
        return RedirectResponse(f"/static/icon.svg?v={self.version}", 301, headers=HEADERS)


def read_query(request: Request, known: Query) -> None:
    """Parse the query into ``request.state.query``; raises for values that are not allowed."""
    request.state.query = query_of(request.scope["query_string"], known)


def no_page(request: Request) -> NotFoundError:
    """The error for a path without a page."""
    return NotFoundError(f"page {shown(request.scope['path'])}: does not exist")


def is_partial(request: Request) -> bool:
    """Whether htmx requests a part of a page."""
    return request.headers.get("hx-request") == "true"


def path_of(name: str, rest: str = "") -> str:
    """The path of a campaign's pages."""
    return f"/campaigns/{quote(name, safe='')}" + (f"/{rest}" if rest else "")


async def form_of(request: Request) -> dict[str, str]:
    """The fields of a form, up to a total size."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > BODY:
            raise RefusalError(413, "too_large", f"form: must be at most {BODY} bytes")
    try:
        return dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=200))
    except ValueError:
        raise InputError("form: cannot be read") from None


def attachment(name: str) -> dict[str, str]:
    """The headers of a download with a file name."""
    plain = re.sub(r"[^A-Za-z0-9_.-]", "_", name)
    where = f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"
    return {**HEADERS, "content-disposition": where}
