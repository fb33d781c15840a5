"""``tightrope serve | keys | demo``: campaigns behind HTTP, their keys, and a simulated one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from tightrope.errors import InputError, nearest
from tightrope.files import MOST_TEXT, require_file
from tightrope.shell.campaigns.access import trust
from tightrope.shell.commands import Argument, Group
from tightrope.shell.options import Json, StoreName, TrustPolicy, Unit
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
    unit: Unit = "",
    access_log: bool = False,
    trust_policy: TrustPolicy = (),
    rate: float | None = None,
    burst: float | None = None,
) -> int:
    """Serve a store's campaigns over HTTP, with a dashboard.

    The service runs until Ctrl-C or SIGTERM, then finishes the open requests and exits with
    status 0. It logs JSON lines to standard error. A store that does not exist is created, with a
    line in the log.

    tightrope serve router.db --unit $
    tightrope serve router.db --host 0.0.0.0 --keys keys.jsonl --certificate server.pem

    host ADDRESS: address to listen on
    port: port to listen on; 0 takes a free one; default 8321
    keys FILE: keys file made by tightrope keys; required beyond loopback
    certificate FILE: PEM file; the service then answers with TLS
    private_key FILE: PEM file, if the certificate's file has no private key
    trusted_proxy ADDRESS[/BITS]: proxy whose X-Forwarded-For and X-Forwarded-Proto are trusted
    connections: largest number of open connections
    body_bytes: largest size of a request's body; default 1 MiB
    waiting: largest number of requests of a campaign that wait for their commit
    grace SECONDS: time after SIGTERM in which /readyz answers 503 and requests are still served
    access_log: log a line per request
    rate: requests per second of each key; default no limit
    burst: requests that a key may send at once; default one second's worth
    """
    from tightrope.service import require_extra

    require_extra()
    from tightrope.service.http import Limits
    from tightrope.service.server import serve as run
    from tightrope.service.signins import RateLimit

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
    """Show the dashboard with a simulated campaign, until Ctrl-C.

    A router spends $50 on three language models; at most 5 % of its answers may be bad. When half
    of the budget is spent, one model gets worse. Everything is in memory: the demo needs no
    account, no network and no file. Ctrl-C or SIGTERM ends it with status 0.

    tightrope demo --speed 5

    port: default 8321, or a free one
    no_browser: print the address and open no browser
    speed: from 0.1 to 20; at 1 a campaign takes about five minutes
    """
    from tightrope.service import require_extra

    require_extra()
    from tightrope.service.demo import run_demo

    show = partial(print, flush=True)
    run_demo(port, browser=not no_browser, speed=speed, show=show, say=say)
    return 0


# Keys.


KeysFile = Annotated[str, Argument("FILE", "the keys file that serve --keys reads")]
KeyName = Annotated[str, Argument("NAME", "owner of the key, whom the log names")]


def add(
    file: KeysFile,
    name: KeyName,
    *,
    json: Json = False,
    role: Sequence[str],
    campaign: Sequence[str] | None = None,
) -> int:
    """Add a key and print it, once.

    tightrope keys add keys.jsonl router --role decide --role report --campaign november

    role ROLE: admin, decide, report or read
    campaign NAME: campaign that the key may use; default all
    """
    from tightrope.service.keys import changed_keys, made_key

    secret, key = made_key(name, role, campaign)
    with changed_keys(file, missing=True) as keys:
        if any(key.name == name for key in keys):
            raise InputError(f"key {name!r}: exists; rotate it, or take another name")
        keys.append(key)
    return answer(json, {**_row(key), "key": secret}, [secret])


def rotate(file: KeysFile, name: KeyName, *, json: Json = False) -> int:
    """Add a second key with the same name, roles and campaigns, and print it.

    tightrope keys rotate keys.jsonl router
    """
    from tightrope.service.keys import changed_keys, made_key

    with changed_keys(file) as keys:
        newest = _named(keys, name)[-1]
        secret, key = made_key(newest.name, newest.roles, newest.campaigns)
        keys.append(key)
    say(f"the old key stays valid until you run: tightrope keys remove {file} {key.name} --older")
    return answer(json, {**_row(key), "key": secret}, [secret])


def remove(file: KeysFile, name: KeyName, *, json: Json = False, older: bool = False) -> int:
    """Remove a key.

    tightrope keys remove keys.jsonl router --older

    older: remove all keys of this name except the newest
    """
    from tightrope.service.keys import changed_keys

    with changed_keys(file) as keys:
        named, before = _named(keys, name), len(keys)
        gone = named[:-1] if older else named
        if not gone:
            raise InputError(f"key {name!r}: has no older one; leave out --older to remove it")
        keys[:] = [key for key in keys if key not in gone]
    say(f"removed {len(gone)} of {before} keys; a running service notices within a second")
    return answer(json, [_row(key) for key in keys], [])


def list_(file: KeysFile, *, json: Json = False) -> int:
    """List the keys with their roles, campaigns and dates.

    tightrope keys list keys.jsonl
    """
    from tightrope.service.keys import read_keys

    keys = read_keys(file)
    return answer(json, [_row(key) for key in keys], map(_words, keys))


KEYS = Group(
    "keys",
    """\
Make, list, rotate and remove the keys of a service.

A running service reads the file again when it changes. A key is printed once, to standard output;
the file holds only its SHA-256.

tightrope keys add keys.jsonl ops --role admin
tightrope keys rotate keys.jsonl ops             # the old key stays valid
tightrope keys remove keys.jsonl ops --older     # until now
""",
    {"commands": (add, rotate, remove, list_)},
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
