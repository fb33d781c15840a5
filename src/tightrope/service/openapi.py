"""The OpenAPI document, generated from the routes and the types of bodies and answers."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec

from tightrope.changes import TICKET_SCHEMA
from tightrope.live.status import CampaignStatus
from tightrope.service import wire
from tightrope.service.acts import ACTS, Act
from tightrope.service.campaigns import TABLE, Route
from tightrope.version import __version__

REFS = "#/components/schemas/{name}"
PLACES = {
    "campaign": {"type": "string", "minLength": 1, "maxLength": 128},
    "ticket": TICKET_SCHEMA,
    "arm": {"type": "string", "minLength": 1},
    "number": {"type": "integer", "minimum": 1},
}
REFUSALS = {
    400: "malformed: the body is not JSON, a query or a header has a value that is not allowed,"
    " or the request is not HTTP",
    401: "unauthorized: no valid key",
    402: "exhausted: the budget is spent",
    403: "forbidden: the key may not do this",
    404: "not_found: no such campaign, ticket, arm or report",
    405: "method: the path does not take this method",
    409: "paused, closed or conflict",
    413: "too_large: the body, or the batch",
    415: "malformed: the body must be application/json",
    422: "invalid: a value that is not allowed; a refused report has its number in the quarantine",
    429: "fully_reserved, not_released or rate_limited: retry after Retry-After seconds",
    431: "too_large: the headers",
    500: "halted: the log cannot be followed; internal: an error of the service",
    503: "overloaded or store: retry after Retry-After seconds",
}
COMMON = (400, 401, 403, 404, 405, 413, 415, 422, 429, 431, 500, 503)


def ref(kind: Any) -> dict[str, Any]:
    """A reference to a schema."""
    return {"$ref": REFS.format(name=kind.__name__)}


def document_of() -> dict[str, Any]:
    """The document."""
    paths: dict[str, dict[str, Any]] = {}
    for one in TABLE:
        paths.setdefault(one.path, {})[one.method.lower()] = operation_of(one)
    for act in ACTS.values():
        path = f"/v1/campaigns/{{campaign}}/{act.name}"
        paths.setdefault(path, {})["post"] = act_of(act)
        paths.setdefault(f"{path}/batch", {})["post"] = batch_of(act)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "tightrope",
            "version": __version__,
            "summary": "Decisions under a budget and a promise",
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "servers": [{"url": "/"}],
        "security": [{}, {"key": []}],
        "paths": paths,
        "components": {
            "schemas": schemas(),
            "securitySchemes": {
                "key": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "a key of tightrope keys; none on loopback without keys",
                }
            },
        },
    }


def schemas() -> dict[str, Any]:
    """The schemas by name."""
    kinds: list[Any] = [wire.ProblemDetails]
    for one in TABLE:
        kinds += [kind for kind in (one.takes, one.answers) if isinstance(kind, type)]
    for act in ACTS.values():
        kinds += [act.item, act.batch, act.item.answers]
    kinds.append(wire.HaltedCampaign)
    _, found = msgspec.json.schema_components(list(dict.fromkeys(kinds)), ref_template=REFS)
    listed = {"anyOf": [ref(CampaignStatus), ref(wire.HaltedCampaign)]}
    found["StatusList"]["properties"]["campaigns"]["items"] = listed
    for act in ACTS.values():
        found[act.batch.__name__]["properties"][act.name] |= {"minItems": 1, "maxItems": wire.BATCH}
    return found


def parameters(path: str) -> list[dict[str, Any]]:
    """The parameters of a path."""
    names = [part[1:-1] for part in path.split("/") if part.startswith("{")]
    return [{"name": n, "in": "path", "required": True, "schema": PLACES[n]} for n in names]


def refusals(*more: int) -> dict[str, Any]:
    """The errors of every route, and those in ``more``."""
    content = {"application/problem+json": {"schema": ref(wire.ProblemDetails)}}
    return {
        str(status): {"description": REFUSALS[status], "content": content}
        for status in sorted({*COMMON, *more})
    }


def body(kind: Any, required: bool = True) -> dict[str, Any]:
    """A request's body."""
    return {"required": required, "content": {"application/json": {"schema": ref(kind)}}}


def answers(statuses: Any, schema: dict[str, Any], media: str = "application/json") -> Any:
    """Successful answers."""
    content = {media: {"schema": schema}}
    words = {200: "done", 201: "new"}
    return {str(one): {"description": words[one], "content": content} for one in statuses}


def operation_of(one: Route) -> dict[str, Any]:
    """The operation of a route."""
    schema: dict[str, Any] = {}
    if isinstance(one.answers, type):
        schema = ref(one.answers)
    elif one.answers is not None:
        schema = {"type": "object"}
    elif one.media != "application/json":
        schema = {"type": "string"}
    good = [status for status in one.statuses if status < 300]
    more = (409,) if one.changes else ()
    found: dict[str, Any] = {
        "operationId": one.answer.__name__,
        "summary": one.summary,
        "description": f"{one.answer.__doc__} Role: {' or '.join(one.roles)}.",
        "parameters": parameters(one.path),
        "responses": answers(good, schema, one.media) | refusals(*more),
    }
    for name, known in one.query.items():
        facts = {"schema": known.schema, "description": known.text}
        found["parameters"].append({"name": name, "in": "query", "required": False, **facts})
    if one.takes is not None:
        needed = bool(
            msgspec.json.schema_components([one.takes])[1][one.takes.__name__]["required"]
        )
        found["requestBody"] = body(one.takes, needed)
    if one.public:
        found["security"] = [{}]
        found["description"] = one.answer.__doc__
    return found


def act_of(act: Act) -> dict[str, Any]:
    """The operation of a decision, a report, a void or an amendment."""
    item, decides = act.item, act.name == "decisions"
    good, more = ((200, 201), (402, 409)) if decides else ((200,), (409,))
    return {
        "operationId": act.name,
        "summary": item.summary,
        "description": f"Answered after the commit. Role: {' or '.join(item.roles)}.",
        "parameters": parameters("/{campaign}"),
        "requestBody": body(item, not decides),
        "responses": answers(good, ref(item.answers)) | refusals(*more),
    }


def batch_of(act: Act) -> dict[str, Any]:
    """The operation of a batch, with a result per item."""
    each = {"anyOf": [ref(act.item.answers), ref(wire.ProblemDetails)]}
    results = {"type": "array", "items": each}
    schema = {"type": "object", "required": ["results"], "properties": {"results": results}}
    many = f"up to {wire.BATCH} at once, a result per item, in order"
    own = "Each result has its own status; items do not depend on each other."
    return act_of(act) | {
        "operationId": f"{act.name}_batch",
        "summary": f"{act.item.summary}; {many}",
        "description": f"{own} Role: {' or '.join(act.item.roles)}.",
        "requestBody": body(act.batch),
        "responses": answers((200,), schema) | refusals(409),
    }


@cache
def document_text() -> bytes:
    """The document as JSON."""
    return msgspec.json.encode(document_of())
