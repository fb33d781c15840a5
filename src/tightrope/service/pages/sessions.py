"""Sessions of the pages, stored only in the browser: a cookie sealed with a key's hash.

The cookie contains the key's id, the times of issue and expiry, and the encrypted key. The cipher
and the seal are derived from the key's hash in the keys file. Every process with that file can open
the cookie, even after a restart, and removing a key ends its sessions. The cookie alone reveals
neither the key nor its hash. The file alone is not enough to make a cookie, because the cookie
contains the key.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import struct
from typing import NamedTuple

from tightrope.service.keys import KeyRing, key_id

LASTS = 12 * 3600  # seconds
SKEW = 300  # seconds by which the clocks of two machines may differ
HEAD = struct.Struct(">8sQQ16s")  # the key's id, seconds since 1970 twice, random bytes
SEAL = hashlib.sha256().digest_size


class PageSession(NamedTuple):
    """The content of a cookie."""

    key_id: bytes
    issued: int  # seconds since 1970
    expires: int
    number: bytes  # random; differs between sessions of one key
    secret: bytes  # the key


def sealed(secret: bytes, now: float) -> str:
    """The cookie of a new session."""
    digest, issued = hashlib.sha256(secret).digest(), int(now)
    head = HEAD.pack(key_id(digest), issued, issued + LASTS, secrets.token_bytes(16))
    content = head + _ciphered(secret, digest, head)
    text = base64.urlsafe_b64encode(content + _seal(digest, content))
    return text.decode().rstrip("=")


def opened(cookie: str, keys: KeyRing, now: float) -> PageSession | None:
    """The session of a cookie; None if its seal does not match a key, or it has expired.

    The caller must still check the key in it.
    """
    try:
        text = base64.b64decode(cookie + "=" * (-len(cookie) % 4), b"-_", validate=True)
    except ValueError:
        return None
    content, seal, head = text[:-SEAL], text[-SEAL:], text[: HEAD.size]
    if len(content) < HEAD.size:
        return None
    found, issued, expires, number = HEAD.unpack(head)
    digest = keys.digest(found)
    if digest is None or not hmac.compare_digest(seal, _seal(digest, content)):
        return None
    if not issued - SKEW <= now < expires:
        return None
    secret = _ciphered(content[HEAD.size :], digest, head)
    return PageSession(found, issued, expires, number, secret)


def _seal(digest: bytes, content: bytes) -> bytes:
    return hmac.digest(hmac.digest(digest, b"tightrope session seal", "sha256"), content, "sha256")


def _ciphered(text: bytes, digest: bytes, head: bytes) -> bytes:
    """Encrypt or decrypt; ``head`` differs in every session, and so does the stream."""
    start = hmac.digest(digest, b"tightrope session cipher", "sha256")
    stream = hashlib.shake_256(start + head).digest(len(text))
    return bytes(one ^ other for one, other in zip(text, stream, strict=True))
