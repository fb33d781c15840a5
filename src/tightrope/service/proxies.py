"""Trusted proxies, and the client's address and scheme in their headers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any

from tightrope.errors import InputError

Address = IPv4Address | IPv6Address
Scope = Mapping[str, Any]  # of a request, as ASGI has it


class Proxies:
    """The trusted proxies; the headers of other senders are ignored."""

    def __init__(self, trusted: Sequence[str] = ()) -> None:
        """``trusted``: addresses or networks, such as 10.0.0.7 or 10.0.0.0/8."""
        try:
            self._networks = [ip_network(text := one) for one in trusted]
        except ValueError:
            what = "must be an address such as 10.0.0.7, or a network's first with its bits such as"
            raise InputError(f"--trusted-proxy {text!r}: {what} 10.0.0.0/8") from None

    def address(self, scope: Scope) -> Address | None:
        """A client's address: the last one on the way that is not a trusted proxy's."""
        found = _peer(scope)
        hops = [hop for line in _lines(scope, b"x-forwarded-for") for hop in line.split(",")]
        while hops and self._trusts(found):
            before = _read(hops.pop())
            if before is None:
                break
            found = before
        return found

    def scheme(self, scope: Scope) -> str:
        """The client's scheme, towards the service or its trusted proxy: http or https."""
        scheme: str = scope["scheme"]
        lines = _lines(scope, b"x-forwarded-proto")
        if lines and self._trusts(_peer(scope)):
            told = lines[-1].rpartition(",")[2].strip().lower()
            scheme = told if told in ("http", "https") else scheme
        return scheme

    def _trusts(self, address: Address | None) -> bool:
        return address is not None and any(address in one for one in self._networks)


def _peer(scope: Scope) -> Address | None:
    return _read(scope["client"][0]) if scope.get("client") else None


def _lines(scope: Scope, header: bytes) -> list[str]:
    return [value.decode("latin-1") for name, value in scope["headers"] if name == header]


def _read(text: str) -> Address | None:
    """An address with or without a port; None if it is not valid."""
    text = text.strip()
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        found = ip_address(text)
    except ValueError:
        return None
    return found.ipv4_mapped or found if isinstance(found, IPv6Address) else found
