"""Methods are written once, as coroutines, and also get a blocking form."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from functools import wraps
from types import MethodType
from typing import Any, Concatenate, Generic, ParamSpec, TypeAlias, TypeVar, overload

P = ParamSpec("P")
T = TypeVar("T")
Async: TypeAlias = Callable[P, Coroutine[Any, Any, T]]


class Blocking:
    """A class whose methods block the calling thread."""


class Awaiting:
    """A class whose methods are awaited."""


class Operation(Generic[P, T]):
    """A method of both clients, or of both decisions: a coroutine function, and its blocking form.

    >>> import inspect
    >>> from tightrope.client import AsyncClient, Client
    >>> inspect.iscoroutinefunction(AsyncClient.ask), inspect.iscoroutinefunction(Client.ask)
    (True, False)
    """

    def __init__(self, written: Async[Concatenate[Any, P], T]) -> None:
        @wraps(written)
        def blocking(*given: Any, **named: Any) -> T:
            return finished(written(*given, **named))

        self._written, self._blocking = written, blocking

    @overload
    def __get__(self, of: Blocking, kind: Any) -> Callable[P, T]: ...
    @overload
    def __get__(self, of: Awaiting, kind: Any) -> Async[P, T]: ...
    @overload
    def __get__(self, of: None, kind: type[Blocking]) -> Callable[Concatenate[Any, P], T]: ...
    @overload
    def __get__(self, of: None, kind: Any) -> Async[Concatenate[Any, P], T]: ...
    def __get__(self, of: Any, kind: Any) -> Any:
        made = self._blocking if issubclass(kind, Blocking) else self._written
        return made if of is None else MethodType(made, of)


def finished(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that waits in its thread, and so ends without a pause."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    raise AssertionError(f"{coroutine!r} is paused")


async def result(found: T | Awaitable[T]) -> T:
    """The result of a method of either client."""
    return await found if isinstance(found, Awaitable) else found
