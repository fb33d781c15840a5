"""Decisions, reports, voids and amendments: one at a time, and in batches with a result per item.

Requests with and without ASGI share this code.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import msgspec

from tightrope.errors import HaltedError, InputError, PolicyError, StoreError, TightropeError
from tightrope.live.writer import Writer
from tightrope.service import wire
from tightrope.service.desk import ServiceRequest
from tightrope.service.http.answers import Answer, RefusalError
from tightrope.service.items import ITEMS, RequestItem
from tightrope.service.wire import decoded, encode, problem_of, unknown_field

Refused = Callable[[BaseException], Answer]  # makes the answer to an error


class ActCall(NamedTuple):
    """The caller of an act, the function that queues it, and the callbacks for its answer."""

    who: str
    submit: Callable[[ServiceRequest, Callable[[ServiceRequest], None]], None]
    outcomes: Counter[str]
    refused: Refused
    done: Callable[[Answer], None]


class Act:
    """One kind of act: its items, and batches of them."""

    def __init__(self, item: type[RequestItem]) -> None:
        self.name, self.item = item.path, item
        several = f"Several {item.path}, each with a result of its own."
        self.batch = msgspec.defstruct(
            item.path.capitalize(),
            [(item.path, list[item])],  # type: ignore[valid-type]
            forbid_unknown_fields=True,
            namespace={"__doc__": several},
        )
        self._one, self._many = msgspec.json.Decoder(item), msgspec.json.Decoder(self.batch)
        self._pieces = msgspec.json.Decoder(dict[str, msgspec.Raw])
        self._list = msgspec.json.Decoder(list[msgspec.Raw])

    def start(self, body: bytes, call: ActCall) -> None:
        """Queue one item; raises if it is refused before it is queued."""
        optional = not body and self.name == "decisions"
        one: RequestItem = self.item() if optional else decoded(self._one, body)
        one.check()

        def finish(request: ServiceRequest) -> None:
            error: Any = request.error
            call.outcomes["ok" if error is None else getattr(error, "code", "internal")] += 1
            if error is not None:
                call.done(call.refused(error))
                return
            status, found = one.answer(request.result)
            call.done((status, encode(found), None))

        call.submit(ServiceRequest(one.do, ids_of([one]), call.who), finish)

    def start_batch(self, body: bytes, call: ActCall) -> None:
        """Queue a batch as one request; the answer has a result per item."""
        items = [_checked(item) for item in self.items_of(body)]
        good: list[RequestItem] = [item for item in items if not isinstance(item, TightropeError)]

        def finish(request: ServiceRequest | None) -> None:
            if request is not None and request.error is not None:
                call.refused(request.error)  # the log has it once, not once for each item
            call.done(answer_to_all(items, request, call.outcomes))

        if good:
            together = ServiceRequest(partial(do_all, good), ids_of(good), call.who, len(items))
            call.submit(together, finish)
        else:
            finish(None)

    def items_of(self, body: bytes) -> list[Any]:
        """The items of a batch; a malformed item is replaced by its error."""
        try:
            found: list[Any] = getattr(self._many.decode(body), self.name)
        except msgspec.ValidationError:
            pieces = decoded(self._pieces, body)
            for key in pieces:
                if key != self.name:
                    raise unknown_field(key, [self.name]) from None
            if not pieces:
                raise InputError(f"body: must be {{{self.name!r}: [...]}}") from None
            found = [self._item(piece) for piece in decoded(self._list, pieces[self.name])]
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            found = decoded(self._many, body)  # raises, in words
        if not 0 < len(found) <= wire.BATCH:
            what = f"{self.name} = {len(found)} items: must be 1 to {wire.BATCH}"
            raise RefusalError(413, "too_large", what) if found else InputError(what)
        return found

    def _item(self, piece: bytes) -> Any:
        try:
            return decoded(self._one, piece)
        except TightropeError as error:
            return error


ACTS = {item.path: Act(item) for item in ITEMS}


def _checked(item: Any) -> Any:
    """The item, or the error if its values are not allowed."""
    try:
        if not isinstance(item, TightropeError):
            item.check()
    except TightropeError as error:
        return error
    return item


def ids_of(items: Sequence[Any]) -> list[str]:
    """The ids of the tickets of some items."""
    return [item.id for item in items if item.id.__class__ is str]


def do_all(items: Sequence[RequestItem], writer: Writer) -> list[Any]:
    """Do several items in one turn; returns a list of results and errors."""
    results: list[Any] = []
    for item in items:
        try:
            results.append(item.do(writer))
        except (HaltedError, PolicyError, StoreError):
            raise  # as of one request: nothing of this turn is kept
        except TightropeError as error:
            results.append(error)
    return results


def answer_to_all(
    items: Sequence[Any], request: ServiceRequest | None, outcomes: Counter[str]
) -> Answer:
    """The answer to a batch, with a result per item; ``outcomes`` counts the results by code."""
    failed = None if request is None else request.error
    found = iter(() if request is None or failed is not None else request.result)
    results: list[Any] = []
    for item in items:
        result = item if isinstance(item, TightropeError) else failed or next(found)
        if isinstance(result, BaseException):
            answer: Any = problem_of(result)[0]
            outcomes[answer.code] += 1
        else:
            status, answer = item.answer(result)
            answer.status = status
            outcomes["ok"] += 1
        results.append(answer)
    return 200, encode({"results": results}), None
