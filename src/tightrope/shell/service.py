"""``tightrope serve | keys | demo``: campaigns behind HTTP, who may use them, a simulated one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from tightrope.errors import InputError, nearest
from tightrope.files import MOST_TEXT, require_file
from tightrope.shell.campaigns.access import trust
from tightrope.shell.commands import Argument, Group
from tightrope.shell.options import Json, StoreName, TrustPolicy
from tightrope.shell.output import answer, say

if TYPE_CHECKING:
    from tightrope.service.keys import Key


def serve(
    store: StoreName,
    *,
    host: str = "127.0.0.1",
    port: int = 8321,
    keys: str | None = None,
    certificate: str | None = None,
    private_key: str | None = None,
    trusted_proxy: Sequence[str] = (),
    connections: int = 1000,
    body_bytes: int = 1 << 20,
    waiting: int = 10_000,
    grace: float = 0.0,
    unit: str = "",
    access_log: bool = False,
    trust_policy: TrustPolicy = (),
    rate: float | None = None,
    burst: float | None = None,
) -> int:
    """Serve a store's campaigns over HTTP, with a page that shows them.

    host ADDRESS:
    port: default 8321; 0 takes a free one
    keys FILE: of tightrope keys; needed beyond loopback
    certificate FILE: PEM: answer with TLS
    private_key FILE: PEM, if not in the certificate's
    trusted_proxy ADDRESS[/BITS]: a proxy whose X-Forwarded-For and -Proto are believed
    connections: at most
    body_bytes: at most; default 1 MiB
    waiting: requests of a campaign that may wait for their commit
    grace SECONDS: after SIGTERM, in which /readyz says 503 and requests are taken
    unit TEXT: of costs, on the pages: $, USD
    access_log: write a line per request
    rate: requests a second that each key may send; default any number
    burst: requests that a key may send at once; default as many as in a second
    """
    from tightrope.service import require_extra

    require_extra()
    from tightrope.service.http import Limits
    from tightrope.service.rates import RateLimit
    from tightrope.service.server import serve as run

    most = {"connections": connections, "body-bytes": body_bytes, "waiting": waiting}
    for option, given in most.items():
        if given < 1:
            raise InputError(f"--{option} {given}: must be at least 1")
    for option, path in (("certificate", certificate), ("private-key", private_key)):
        if certificate is not None and path is not None:
            require_file(path, f"--{option}", MOST_TEXT)
    if not 0 <= grace <= 3600:
        raise InputError(f"--grace {grace:g}: must be 0 to 3600 seconds")
    trust(trust_policy)
    if rate is not None and not 0.001 <= rate <= 1e6:
        raise InputError(f"--rate {rate:g}: must be 0.001 to 1000000 requests a second")
    if burst is not None and (rate is None or not 1 <= burst <= 1e6):
        raise InputError(f"--burst {burst:g}: must be 1 to 1000000 requests, and come with --rate")
    run(
        store,
        host=host,
        port=port,
        keys=keys,
        certificate=certificate,
        private_key=private_key,
        trusted_proxies=trusted_proxy or (),
        limits=Limits(connections=connections, body_bytes=body_bytes),
        most_waiting=waiting,
        access_log=access_log,
        grace=grace,
        unit=unit,
        rate=None if rate is None else RateLimit(rate, burst or max(rate, 1.0)),
    )
    return 0


def demo(*, port: int | None = None, no_browser: bool = False, speed: float = 1.0) -> int:
    """Show the service and its page with a simulated campaign; Ctrl-C ends it.

    port: default 8321, or any that is free
    no_browser: print the address only
    speed: from 0.1 to 20
    """
    from tightrope.service import require_extra

    require_extra()
    from tightrope.service.demo import run_demo

    show = partial(print, flush=True)
    run_demo(port, browser=not no_browser, speed=speed, show=show, say=say)
    return 0


# Keys.


KeysFile = Annotated[str, Argument("FILE", "the keys, as serve --keys takes them")]
KeyName = Annotated[str, Argument("NAME", "whose key it is: the log says who did it")]


def add(
    file: KeysFile,
    name: KeyName,
    *,
    json: Json = False,
    role: Sequence[str],
    campaign: Sequence[str] | None = None,
) -> int:
    """Add a key, and print it.

    role ROLE: admin, decide, report or read
    campaign NAME: default every one
    """
    from tightrope.service.keys import changed_keys, made_key

    secret, key = made_key(name, role, campaign)
    with changed_keys(file, missing=True) as keys:
        if any(key.name == name for key in keys):
            raise InputError(f"key {name!r}: exists; rotate it, or take another name")
        keys.append(key)
    return answer(json, {**_row(key), "key": secret}, [secret])


def rotate(file: KeysFile, name: KeyName, *, json: Json = False) -> int:
    """Add another key with the same name, roles and campaigns, and print it."""
    from tightrope.service.keys import changed_keys, made_key

    with changed_keys(file) as keys:
        newest = _named(keys, name)[-1]
        secret, key = made_key(newest.name, newest.roles, newest.campaigns)
        keys.append(key)
    say(f"the old key stays valid until: tightrope keys remove {file} {key.name} --older")
    return answer(json, {**_row(key), "key": secret}, [secret])


def remove(file: KeysFile, name: KeyName, *, json: Json = False, older: bool = False) -> int:
    """Remove a key, or all but the newest of a name.

    older: all but the newest
    """
    from tightrope.service.keys import changed_keys

    with changed_keys(file) as keys:
        named, before = _named(keys, name), len(keys)
        gone = named[:-1] if older else named
        if not gone:
            raise InputError(f"key {name!r}: has no older one; leave out --older to remove it")
        keys[:] = [key for key in keys if key not in gone]
    say(f"removed {len(gone)} of {before} keys; a running service follows within a second")
    return answer(json, [_row(key) for key in keys], [])


def list_(file: KeysFile, *, json: Json = False) -> int:
    """List the keys: names, roles, campaigns, when they were made."""
    from tightrope.service.keys import read_keys

    keys = read_keys(file)
    return answer(json, [_row(key) for key in keys], map(_words, keys))


KEYS = Group(
    "keys",
    """\
Make, list, rotate and remove the keys of a service.
A running service reads the file again when it changes. A key is printed once,
to standard output; the file holds its SHA-256 alone.

  tightrope keys add keys.jsonl ops --role admin
  tightrope keys add keys.jsonl router --role decide --role report \\
      --campaign november
  tightrope keys rotate keys.jsonl router     # the old one stays valid, until
  tightrope keys remove keys.jsonl router --older
""",
    *(add, rotate, remove, list_),
)


def _named(keys: Sequence[Key], name: str) -> list[Key]:
    found = [key for key in keys if key.name == name]
    if not found:
        known = list(dict.fromkeys(key.name for key in keys))
        hint = nearest(name, known) if known else "there is none"
        raise InputError(f"key {name!r}: is unknown; {hint}")
    return found


def _words(key: Key) -> str:
    where = "every campaign" if key.campaigns is None else ", ".join(key.campaigns)
    line = f"{key.name}: {', '.join(key.roles)}; {where}; made {key.made or '?'}"
    return f"{line}; sha256 {key.sha256[:12]}..."


def _row(key: Key) -> dict[str, Any]:
    campaigns = None if key.campaigns is None else list(key.campaigns)
    row = {"name": key.name, "roles": list(key.roles), "campaigns": campaigns}
    return {**row, "made": key.made, "sha256": key.sha256}
