"""Who may do what: bearer keys with roles, kept as SHA-256 in a file that is read when it changes.

A key is ``tr_`` and 256 random bits. The file holds its SHA-256 alone: who reads the file cannot
use it. The lines are JSON, a key each::

    {"name": "router", "sha256": "...", "roles": ["decide", "report"], "campaigns": ["november"]}

Two keys may have one name: so a key is rotated without a moment in which neither is valid.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tightrope.errors import InputError, nearest
from tightrope.files import whole_file
from tightrope.problem.values import shown

__all__ = [
    "OPEN",
    "ROLES",
    "Grant",
    "Key",
    "KeyRing",
    "made_key",
    "new_secret",
    "read_keys",
    "write_keys",
]

ROLES = ("admin", "decide", "report", "read")
PREFIX = "tr_"
LOOK_EVERY = 1.0  # seconds between two looks at the file


@dataclass(frozen=True)
class Grant:
    """What a key may do; ``campaigns`` is None for all of them."""

    name: str
    roles: frozenset[str]
    campaigns: frozenset[str] | None = None

    def allows(self, roles: Sequence[str], campaign: str | None) -> bool:
        """Whether one of these roles is granted for a campaign; None: for the whole store."""
        if self.campaigns is not None and campaign not in self.campaigns:
            return False
        return self.has(roles)

    def has(self, roles: Sequence[str]) -> bool:
        """Whether one of these roles is granted, for whichever campaign."""
        return "admin" in self.roles or any(role in self.roles for role in roles)


OPEN = Grant("http", frozenset(ROLES))  # without keys, on loopback


@dataclass(frozen=True)
class Key:
    """A line of the file."""

    name: str
    sha256: str  # in hex digits
    roles: tuple[str, ...]
    campaigns: tuple[str, ...] | None = None
    made: str = ""

    @property
    def grant(self) -> Grant:
        """What it may do."""
        campaigns = None if self.campaigns is None else frozenset(self.campaigns)
        return Grant(self.name, frozenset(self.roles), campaigns)

    def line(self) -> str:
        """As the file has it."""
        row: dict[str, Any] = {"name": self.name, "sha256": self.sha256, "roles": self.roles}
        if self.campaigns is not None:
            row["campaigns"] = self.campaigns
        return json.dumps({**row, "made": self.made})


def new_secret() -> str:
    """A key of 256 random bits."""
    return PREFIX + secrets.token_urlsafe(32)


def digest_of(secret: str) -> str:
    """What is kept of a key."""
    return hashlib.sha256(secret.encode()).hexdigest()


def key_of(row: Mapping[str, Any], place: str) -> Key:
    """A key from its line; raises an error that calls it ``place``."""
    known = ("name", "sha256", "roles", "campaigns", "made")
    for word in row:
        if word not in known:
            raise InputError(f"{place}: {word!r} is unknown; {nearest(word, known)}")
    name, sha256 = row.get("name"), row.get("sha256")
    if not isinstance(name, str) or not 0 < len(name) <= 64 or not name.isprintable():
        raise InputError(f"{place}: name = {shown(name)}: must be 1 to 64 printable characters")
    hexed = isinstance(sha256, str) and len(sha256) == 64
    if not hexed or set(str(sha256)) - set("0123456789abcdef"):
        raise InputError(f"{place}: sha256: must be 64 hex digits")
    roles, campaigns = row.get("roles"), row.get("campaigns")
    if not isinstance(roles, list) or not roles or not all(role in ROLES for role in roles):
        raise InputError(f"{place}: roles = {shown(roles)}: must be some of {', '.join(ROLES)}")
    if campaigns is not None and not (
        isinstance(campaigns, list) and campaigns and all(isinstance(c, str) for c in campaigns)
    ):
        raise InputError(f"{place}: campaigns = {shown(campaigns)}: must be a list of names")
    scope = None if campaigns is None else tuple(campaigns)
    return Key(name, str(sha256), tuple(roles), scope, str(row.get("made", "")))


def read_keys(path: str | Path, *, missing: bool = False) -> list[Key]:
    """The keys of a file; raises if a line is wrong, rather than to leave one out.

    ``missing``: whether a file that is not there has no keys.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        if missing:
            return []
        raise InputError(f"keys {str(path)!r}: there is no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "is not text"
        raise InputError(f"keys {str(path)!r}: cannot be read ({reason})") from None
    keys = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        place = f"keys {str(path)!r}, line {number}"
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if not isinstance(row, dict):
            raise InputError(f"{place}: must be a JSON object")
        keys.append(key_of(row, place))
    return keys


def write_keys(path: str | Path, keys: Sequence[Key]) -> None:
    """Replace the file, whole or not at all; only its owner may read a new one."""
    before = os.umask(0o077)
    try:
        with whole_file(str(path)) as file:
            file.write("".join(f"{key.line()}\n" for key in keys).encode())
    finally:
        os.umask(before)


def made_key(
    name: str, roles: Sequence[str], campaigns: Sequence[str] | None = None
) -> tuple[str, Key]:
    """A new key: the secret, which is shown once, and what is kept of it."""
    secret = new_secret()
    made = datetime.now(UTC).isoformat(timespec="seconds")
    row = {"name": name, "sha256": digest_of(secret), "roles": list(roles), "made": made}
    if campaigns:
        row["campaigns"] = list(campaigns)
    return secret, key_of(row, "key")


class KeyRing:
    """The keys of a file; it is read again when it has changed.

    While a changed file cannot be read, the keys that were read before stay valid.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        self._mutex = threading.Lock()
        self._looked = 0.0
        self._seen: object = None
        self.problem: str | None = None  # why the file as it is now cannot be used
        self._keys: list[tuple[bytes, Grant]] = []
        self._found: dict[bytes, Grant] = {}
        self._read()
        if self.problem is not None:
            raise InputError(self.problem)
        if not self._keys:
            raise InputError(f"keys {str(path)!r}: there is none; add one with tightrope keys add")

    def _stamp(self) -> object:
        try:
            found = os.stat(self._path)
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino

    def _read(self) -> None:
        self._looked, self._seen = time.monotonic(), self._stamp()
        try:
            keys = read_keys(self._path)
        except InputError as error:
            self.problem = str(error)
            return
        self.problem = None
        self._keys = [(bytes.fromhex(key.sha256), key.grant) for key in keys]
        self._found = {}

    def refresh(self) -> bool:
        """Look whether the file has changed, now and then; whether it was read again."""
        if time.monotonic() - self._looked < LOOK_EVERY:
            return False
        with self._mutex:
            self._looked = time.monotonic()
            if self._stamp() == self._seen:
                return False
            self._read()
            return True

    def grant(self, secret: bytes) -> Grant | None:
        """What a key may do; None if it is not valid."""
        digest = hashlib.sha256(secret).digest()
        found = self._found.get(digest)
        if found is None:
            for own, grant in self._keys:  # all of them, whichever it is
                if hmac.compare_digest(own, digest):
                    found = grant
            if found is not None:
                self._found[digest] = found
        return found
