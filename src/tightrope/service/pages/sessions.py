"""Sessions of the pages, which only the browser keeps: a cookie that is sealed with a key's hash.

The cookie holds the key's id, when it was issued, when it expires, and the key itself, encrypted.
The cipher and the seal come from the key's hash in the keys file. So every process with that file
opens the cookie, also after a restart, and a key that is removed ends its sessions. The cookie
alone tells neither the key nor its hash; the file alone does not suffice to make a cookie, because
the key must be in it.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import struct
from typing import NamedTuple

from tightrope.service.keys import KeyRing, key_id

__all__ = ["LASTS", "PageSession", "opened", "sealed"]

LASTS = 12 * 3600  # seconds
SKEW = 300  # seconds by which the clocks of two machines may differ
HEAD = struct.Struct(">8sQQ16s")  # the key's id, seconds since 1970 twice, random bytes
SEAL = hashlib.sha256().digest_size


class PageSession(NamedTuple):
    """What a cookie says."""

    key_id: bytes
    issued: int  # seconds since 1970
    expires: int
    number: bytes  # random: it tells sessions of one key apart
    secret: bytes  # the key


def sealed(secret: bytes, now: float) -> str:
    """The cookie of a new session."""
    digest, issued = hashlib.sha256(secret).digest(), int(now)
    head = HEAD.pack(key_id(digest), issued, issued + LASTS, secrets.token_bytes(16))
    content = head + _ciphered(secret, digest, head)
    text = base64.urlsafe_b64encode(content + _seal(digest, content))
    return text.decode().rstrip("=")


def opened(cookie: str, keys: KeyRing, now: float) -> PageSession | None:
    """The session of a cookie; None unless its seal is that of a key and it has not expired.

    Whether the key in it is valid is still to be found out.
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
