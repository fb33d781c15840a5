"""Permissions: bearer keys with roles. A file with their SHA-256 is read again when it changes.

A key is ``tr_`` and 256 random bits. The file contains only its SHA-256, so a reader of the file
cannot use the key. Each line is a key in JSON::

    {"name": "router", "sha256": "...", "roles": ["decide", "report"], "campaigns": ["november"]}

Two keys may have the same name, so that a key can be rotated without an interruption.
"""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import os
import secrets
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from msgspec import Struct

from tightrope.errors import InputError
from tightrope.files import read_file, whole_file
from tightrope.problem.values import shown
from tightrope.service.http.answers import RefusalError
from tightrope.service.signins import SignIns

ROLES = ("admin", "decide", "report", "read")
PREFIX = "tr_"
LOOK_EVERY = 1.0  # seconds between two checks of the file
MOST_BYTES = 1 << 20  # of the file
LOCK_WAIT = 10.0  # seconds to wait for another command


@dataclass(frozen=True)
class Grant:
    """The permissions of a key; ``campaigns`` is None for all campaigns."""

    name: str
    roles: frozenset[str]
    campaigns: frozenset[str] | None = None

    def allows(self, roles: Sequence[str], campaign: str | None) -> bool:
        """Whether one of these roles is granted for a campaign; None: for the whole store."""
        if self.campaigns is not None and campaign not in self.campaigns:
            return False
        return self.has(roles)

    def has(self, roles: Sequence[str]) -> bool:
        """Whether one of these roles is granted for any campaign."""
        return "admin" in self.roles or any(role in self.roles for role in roles)

    def require(self, roles: Sequence[str], campaign: str | None, some: bool = False) -> None:
        """Raise unless one of these roles is granted; ``some``: for any campaign."""
        if not (self.has(roles) if some else self.allows(roles, campaign)):
            needed = " or ".join(dict.fromkeys([*roles, "admin"]))
            where = "the whole store" if campaign is None else f"campaign {campaign!r}"
            text = f"key {self.name!r}: must have the role {needed} for {where}"
            raise RefusalError(403, "forbidden", text)


OPEN = Grant("http", frozenset(ROLES))  # without keys, on loopback


class Key(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A line of the file; ``sha256``: in hex digits."""

    name: str
    sha256: str
    roles: tuple[str, ...]
    campaigns: tuple[str, ...] | None = None
    made: str = ""

    def __post_init__(self) -> None:
        if not 0 < len(self.name) <= 64 or not self.name.isprintable():
            allowed = "must be 1 to 64 printable characters"
            raise ValueError(f"name = {shown(self.name)}: {allowed}")
        if len(self.sha256) != 64 or set(self.sha256) - set("0123456789abcdef"):
            raise ValueError("sha256: must be 64 hex digits")
        if not self.roles or not set(self.roles) <= set(ROLES):
            raise ValueError(f"roles = {shown(self.roles)}: must be some of {', '.join(ROLES)}")
        if self.campaigns == ():
            raise ValueError("campaigns = []: must be a list of names")

    @property
    def grant(self) -> Grant:
        """The permissions of the key."""
        campaigns = None if self.campaigns is None else frozenset(self.campaigns)
        return Grant(self.name, frozenset(self.roles), campaigns)


def new_secret() -> str:
    """A key of 256 random bits."""
    return PREFIX + secrets.token_urlsafe(32)


def digest_of(secret: str) -> str:
    """The hash of a key that the file stores."""
    return hashlib.sha256(secret.encode()).hexdigest()


def key_id(digest: bytes) -> bytes:
    """The id of a key in a session; it does not reveal the key's hash."""
    return hmac.digest(digest, b"tightrope key id", "sha256")[:8]


def read_keys(path: str | Path, *, missing: bool = False) -> list[Key]:
    """The keys of a file; raises if a line is not valid.

    ``missing``: whether a missing file counts as one without keys.
    """
    if missing and not os.path.exists(path):
        return []
    try:
        text = read_file(path, "keys", MOST_BYTES).decode()
    except UnicodeDecodeError:
        raise InputError(f"keys {str(path)!r}: cannot be read (is not text)") from None
    keys = []
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            place = f"keys {str(path)!r}, line {number}"
            try:
                keys.append(msgspec.json.decode(line, type=Key))
            except msgspec.ValidationError as error:
                raise InputError(f"{place}: {error}") from None
            except (msgspec.DecodeError, RecursionError):
                raise InputError(f"{place}: must be a JSON object") from None
    return keys


def write_keys(path: str | Path, keys: Sequence[Key]) -> None:
    """Replace the file atomically; only its owner may read a new one."""
    content = b"".join(msgspec.json.encode(key) + b"\n" for key in keys)
    if len(content) > MOST_BYTES:
        raise InputError(f"keys {str(path)!r}: the file must have at most {MOST_BYTES:,} bytes")
    before = os.umask(0o077)
    try:
        with whole_file(str(path)) as file:
            file.write(content)
    finally:
        os.umask(before)


@contextmanager
def changed_keys(path: str | Path, *, missing: bool = False) -> Iterator[list[Key]]:
    """The keys of a file as a list to change; written if the block ends without an error.

    Only one process at a time runs such a block, so no change is lost. ``missing``: whether a
    missing file counts as one without keys.
    """
    read_keys(path, missing=missing)  # raises before a lock file is created
    with _locked(path):
        keys = read_keys(path, missing=missing)
        yield keys
        write_keys(path, keys)


@contextmanager
def _locked(path: str | Path) -> Iterator[None]:
    """Hold the lock of a file: another file beside it, which is never deleted."""
    name, until = f"{os.path.realpath(path)}.lock", time.monotonic() + LOCK_WAIT
    try:
        lock = os.open(name, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        text = f"its lock {name!r} cannot be opened ({error.strerror})"
        raise InputError(f"keys {str(path)!r}: {text}") from None
    try:
        while not _taken(lock):
            if time.monotonic() > until:
                text = f"another command has held the lock {name!r} for {LOCK_WAIT:g} seconds"
                raise InputError(f"keys {str(path)!r}: {text}; try again when it has ended")
            time.sleep(0.02)
        yield
    finally:
        os.close(lock)


def _taken(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def made_key(
    name: str, roles: Sequence[str], campaigns: Sequence[str] | None = None
) -> tuple[str, Key]:
    """A new key: the secret, which is shown once, and its entry in the file."""
    secret = new_secret()
    made = datetime.now(UTC).isoformat(timespec="seconds")
    scope = tuple(campaigns) if campaigns else None
    try:
        return secret, Key(name, digest_of(secret), tuple(roles), scope, made)
    except ValueError as error:
        raise InputError(f"key: {error}") from None


class KeyRing:
    """The keys of a file, which is read again after a change.

    While a changed file cannot be read, the keys that were read before stay valid.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        self._mutex = threading.Lock()
        self._looked = 0.0
        self._seen: object = None
        self.problem: str | None = None  # why the current file cannot be used
        self._keys: list[tuple[bytes, Grant]] = []
        self._found: dict[bytes, Grant] = {}
        self._digests: dict[bytes, bytes] = {}  # by the key's id
        self.sign_ins = SignIns()
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
        self._digests = {key_id(digest): digest for digest, _ in self._keys}
        self._found = {digest: one for digest, one in self._keys if digest in self._found}

    def refresh(self) -> bool:
        """Check at intervals whether the file has changed; returns whether it was read again."""
        if time.monotonic() - self._looked < LOOK_EVERY:
            return False
        with self._mutex:
            self._looked = time.monotonic()
            if self._stamp() == self._seen:
                return False
            self._read()
            return True

    def grant(self, secret: bytes) -> Grant | None:
        """The permissions of a key; None if it is not valid."""
        digest = hashlib.sha256(secret).digest()
        found = self._found.get(digest)
        if found is None:
            for own, grant in self._keys:  # compares with all keys, for constant time
                if hmac.compare_digest(own, digest):
                    found = grant
            if found is not None:
                self._found[digest] = found
        return found

    def seen(self, secret: bytes) -> Grant | None:
        """The permissions of a key that was accepted here before; None for other keys."""
        return self._found.get(hashlib.sha256(secret).digest())

    def digest(self, found: bytes) -> bytes | None:
        """The hash of the key with this id, or None."""
        return self._digests.get(found)
