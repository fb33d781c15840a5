"""Values in queries and headers: each is parsed here, or refused with 400.

A value is checked as text before it is converted, because ``int`` and ``float`` also accept digits
of other scripts, underscores, ``nan`` and numbers of any length.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv6Address
from typing import Any
from urllib.parse import unquote_to_bytes

from tightrope.problem.values import shown
from tightrope.service.http.answers import RefusalError

LARGEST = 2**53  # largest whole number that every JSON parser reads exactly
FIELDS = 100  # of a query
WHOLE = re.compile(r"[0-9]{1,16}")
DECIMAL = re.compile(r"[+-]?([0-9]{1,40}(\.[0-9]{0,40})?|\.[0-9]{1,40})([eE][+-]?[0-9]{1,3})?")
HOST = rb"(?:[A-Za-z0-9._~-]{1,255}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{0,5})?"
HOSTS = re.compile(HOST)
ORIGINS = re.compile(rb"[A-Za-z][A-Za-z0-9+.-]{0,20}://(" + HOST + rb")")
TOKEN = rb"[A-Za-z0-9!#$&^_.+-]{1,127}"
MEDIA = re.compile(rb"(" + TOKEN + rb"/" + TOKEN + rb")[ \t]*(?:;[\t -~]*)?")


def malformed(place: str, given: object, allowed: str) -> RefusalError:
    """The refusal of a value: what was given, where, and what is allowed."""
    return RefusalError(400, "malformed", f"{place} = {shown(given)}: must be {allowed}")


def whole_of(text: str) -> int | None:
    """A whole number of at most 16 ASCII digits; None for other text."""
    return int(text) if WHOLE.fullmatch(text) else None


# Queries.


class QueryParameter(ABC):
    """One parameter of a query; ``text`` describes it in the OpenAPI document."""

    text: str

    @property
    @abstractmethod
    def schema(self) -> dict[str, Any]:
        """Its schema in the OpenAPI document."""

    @abstractmethod
    def read(self, text: str, place: str) -> Any:
        """The value; raises a refusal that names ``place``."""


Query = Mapping[str, QueryParameter]


@dataclass(frozen=True)
class WholeNumber(QueryParameter):
    """A whole number, from ``least`` to ``most``; a cursor if ``most`` is left out."""

    least: int
    most: int = LARGEST
    text: str = ""

    @property
    def schema(self) -> dict[str, Any]:
        return {"type": "integer", "minimum": self.least, "maximum": self.most}

    def read(self, text: str, place: str) -> int:
        found = whole_of(text)
        if found is None or not self.least <= found <= self.most:
            allowed = f"a whole number from {self.least} to {self.most}, in digits 0 to 9"
            raise malformed(place, text, allowed)
        return found


@dataclass(frozen=True)
class DecimalNumber(QueryParameter):
    """A number, from ``least`` to ``most``."""

    least: float
    most: float
    text: str = ""

    @property
    def schema(self) -> dict[str, Any]:
        return {"type": "number", "minimum": self.least, "maximum": self.most}

    def read(self, text: str, place: str) -> float:
        found = float(text) if DECIMAL.fullmatch(text) else None
        if found is None or not self.least <= found <= self.most:
            raise malformed(place, text, f"a number from {self.least:g} to {self.most:g}")
        return found


@dataclass(frozen=True)
class OneOf(QueryParameter):
    """One of a few words."""

    words: Collection[str]
    text: str = ""

    @property
    def schema(self) -> dict[str, Any]:
        return {"type": "string", "enum": list(self.words)}

    def read(self, text: str, place: str) -> str:
        if text not in self.words:
            raise malformed(place, text, " or ".join(map(repr, self.words)))
        return text


@dataclass(frozen=True)
class BoundedText(QueryParameter):
    """A name, an id or other text without NUL, of at most ``longest`` characters."""

    longest: int = 500
    text: str = ""

    @property
    def schema(self) -> dict[str, Any]:
        return {"type": "string", "maxLength": self.longest}

    def read(self, text: str, place: str) -> str:
        if len(text) > self.longest or "\0" in text:
            raise malformed(place, text, f"at most {self.longest} characters, without NUL")
        return text


def query_of(raw: bytes, known: Query) -> dict[str, Any]:
    """The values of a query; one that is unknown, repeated or malformed is refused."""
    found: dict[str, Any] = {}
    pieces = raw.split(b"&", FIELDS)
    if len(pieces) > FIELDS:
        raise RefusalError(400, "malformed", f"query: must have at most {FIELDS} fields")
    for piece in filter(None, pieces):
        key, value = (_decoded(part) for part in (*piece.split(b"=", 1), b"")[:2])
        if key not in known:
            names = ", ".join(known) or "none"
            text = f"query {shown(key)}: is unknown; known: {names}"
            raise RefusalError(400, "malformed", text)
        if key in found:
            raise RefusalError(400, "malformed", f"query {key}: must be given once")
        found[key] = known[key].read(value, f"query {key}")
    return found


def _decoded(part: bytes) -> str:
    try:
        return unquote_to_bytes(part.replace(b"+", b" ")).decode()
    except UnicodeDecodeError:
        allowed = "percent-encoded UTF-8"
        raise malformed("query", part.decode("latin-1"), allowed) from None


# Headers.


def repeated(name: bytes) -> RefusalError:
    """The refusal of a repeated header."""
    return RefusalError(400, "malformed", f"{name.decode().title()}: must be given once")


class Sender:
    """The sender's headers; each may be given once.

    ``origin`` is the host of the sending page, or ``null`` if the browser hides it.
    """

    __slots__ = ("authorization", "content_type", "host", "origin")

    def __init__(self, headers: Sequence[tuple[bytes, bytes]]) -> None:
        self.authorization = self.content_type = self.host = self.origin = b""
        for name, value in headers:
            if name == b"authorization":
                if self.authorization:
                    raise repeated(name)
                self.authorization = value
            elif name == b"content-type":
                if self.content_type:
                    raise repeated(name)
                self.content_type = _media(value)
            elif name == b"host":
                if self.host:
                    raise repeated(name)
                self.host = _host(value)
            elif name == b"origin":
                if self.origin:
                    raise repeated(name)
                self.origin = _origin(value)


def is_host(value: bytes) -> bool:
    """Whether a value is a name or an address, with or without a port."""
    if not HOSTS.fullmatch(value):
        return False
    try:
        if value[:1] == b"[":
            IPv6Address(value[1 : value.index(b"]")].decode())
    except ValueError:
        return False
    return True


@lru_cache(maxsize=256)
def _host(value: bytes) -> bytes:
    if value and not is_host(value):
        raise malformed("Host", value.decode("latin-1"), "a host's name or address, and its port")
    return value


@lru_cache(maxsize=256)
def _origin(value: bytes) -> bytes:
    if not value or value == b"null":
        return value
    found = ORIGINS.fullmatch(value)
    if found is None or not is_host(found[1]):
        raise malformed("Origin", value.decode("latin-1"), "scheme://host:port, or null")
    return found[1]


@lru_cache(maxsize=256)
def _media(value: bytes) -> bytes:
    """The type alone, in lower case."""
    found = MEDIA.fullmatch(value)
    if value and found is None:
        raise malformed(
            "Content-Type", value.decode("latin-1"), "type/subtype, such as application/json"
        )
    return b"" if found is None else found[1].lower()
