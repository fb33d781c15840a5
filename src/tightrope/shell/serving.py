"""``tightrope serve``: campaigns behind HTTP. ``tightrope keys``: who may use them."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tightrope.errors import InputError, nearest
from tightrope.names import in_text
from tightrope.shell.commands import HelpOfCommands, number, whole
from tightrope.shell.saying import print_json, say

if TYPE_CHECKING:
    from tightrope.service.keys import Key

__all__ = ["add_keys", "add_serve"]

KEYS_SUMMARY = "Make, list, rotate and remove the keys of a service."
KEYS = f"""\
{KEYS_SUMMARY}
A running service reads the file again when it changes. A key is printed once,
to standard output; the file holds its SHA-256 alone.

  tightrope keys add keys.jsonl ops --role admin
  tightrope keys add keys.jsonl router --role decide --role report \\
      --campaign november
  tightrope keys rotate keys.jsonl router     # the old one stays valid, until
  tightrope keys remove keys.jsonl router --older
"""


def serve(options: argparse.Namespace) -> int:
    """Serve a store's campaigns over HTTP, with a page that shows them."""
    from tightrope.service import require_extra

    require_extra()
    from tightrope.service.http import Limits
    from tightrope.service.server import serve as run

    for option in ("connections", "body_bytes", "waiting"):
        if getattr(options, option) < 1:
            given = getattr(options, option)
            raise InputError(f"--{option.replace('_', '-')} {given}: must be at least 1")
    if not 0 <= options.grace <= 3600:
        raise InputError(f"--grace {options.grace:g}: must be 0 to 3600 seconds")
    run(
        options.store,
        host=options.host,
        port=options.port,
        keys=options.keys,
        certificate=options.certificate,
        private_key=options.private_key,
        limits=Limits(connections=options.connections, body_bytes=options.body_bytes),
        most_waiting=options.waiting,
        access_log=options.access_log,
        grace=options.grace,
        unit=options.unit,
    )
    return 0


def add_serve(commands: Any) -> None:
    """Add the command."""
    text = serve.__doc__ or ""
    parser = commands.add_parser("serve", help=text, description=text)
    parser.set_defaults(command=serve)
    parser.add_argument(
        "store", metavar="STORE", help="a SQLite file, or postgresql://USER@HOST/DATABASE"
    )
    parser.add_argument("--host", default="127.0.0.1", metavar="ADDRESS", help="default 127.0.0.1")
    parser.add_argument(
        "--port", type=whole, default=8321, metavar="N", help="default 8321; 0 takes a free one"
    )
    parser.add_argument("--keys", metavar="FILE", help="of tightrope keys; needed beyond loopback")
    parser.add_argument("--certificate", metavar="FILE", help="PEM: answer with TLS")
    parser.add_argument("--private-key", metavar="FILE", help="PEM, if not in the certificate's")
    parser.add_argument(
        "--connections", type=whole, default=1000, metavar="N", help="at most; default 1000"
    )
    parser.add_argument(
        "--body-bytes", type=whole, default=1 << 20, metavar="N", help="at most; default 1 MiB"
    )
    parser.add_argument(
        "--waiting",
        type=whole,
        default=10_000,
        metavar="N",
        help="requests of a campaign that may wait for their commit; default 10000",
    )
    parser.add_argument(
        "--grace",
        type=number,
        default=0.0,
        metavar="SECONDS",
        help="after SIGTERM, in which /readyz says 503 and requests are taken; default 0",
    )
    parser.add_argument("--unit", default="", metavar="TEXT", help="of costs, on the pages: $, USD")
    parser.add_argument("--access-log", action="store_true", help="write a line per request")


# Keys.


def add(options: argparse.Namespace) -> int:
    """Add a key, and print it."""
    from tightrope.service.keys import made_key, read_keys, write_keys

    keys = read_keys(options.file, missing=True)
    if any(key.name == options.name for key in keys):
        raise InputError(f"key {options.name!r}: exists; rotate it, or take another name")
    secret, key = made_key(options.name, options.role, options.campaign)
    write_keys(options.file, [*keys, key])
    return _print_secret(options, secret, key)


def rotate(options: argparse.Namespace) -> int:
    """Add another key with the same name, roles and campaigns, and print it."""
    from tightrope.service.keys import made_key, read_keys, write_keys

    keys = read_keys(options.file)
    newest = _named(keys, options.name)[-1]
    secret, key = made_key(newest.name, newest.roles, newest.campaigns)
    write_keys(options.file, [*keys, key])
    say(f"the old key stays valid until: tightrope keys remove {options.file} {key.name} --older")
    return _print_secret(options, secret, key)


def remove(options: argparse.Namespace) -> int:
    """Remove a key, or all but the newest of a name."""
    from tightrope.service.keys import read_keys, write_keys

    keys = read_keys(options.file)
    named = _named(keys, options.name)
    gone = named[:-1] if options.older else named
    if not gone:
        raise InputError(f"key {options.name!r}: has no older one; leave out --older to remove it")
    left = [key for key in keys if key not in gone]
    write_keys(options.file, left)
    say(f"removed {len(gone)} of {len(keys)} keys; a running service follows within a second")
    if options.json:
        print_json([_row(key) for key in left])
    return 0


def list_keys(options: argparse.Namespace) -> int:
    """List the keys: names, roles, campaigns, when they were made."""
    from tightrope.service.keys import read_keys

    keys = read_keys(options.file)
    if options.json:
        print_json([_row(key) for key in keys])
        return 0
    for key in keys:
        where = "every campaign" if key.campaigns is None else ", ".join(key.campaigns)
        line = f"{key.name}: {', '.join(key.roles)}; {where}; made {key.made or '?'}"
        print(in_text(f"{line}; sha256 {key.sha256[:12]}..."))
    return 0


def _named(keys: Sequence[Key], name: str) -> list[Key]:
    found = [key for key in keys if key.name == name]
    if not found:
        known = list(dict.fromkeys(key.name for key in keys))
        hint = nearest(name, known) if known else "there is none"
        raise InputError(f"key {name!r}: is unknown; {hint}")
    return found


def _row(key: Key) -> dict[str, Any]:
    campaigns = None if key.campaigns is None else list(key.campaigns)
    row = {"name": key.name, "roles": list(key.roles), "campaigns": campaigns}
    return {**row, "made": key.made, "sha256": key.sha256}


def _print_secret(options: argparse.Namespace, secret: str, key: Key) -> int:
    if options.json:
        print_json({**_row(key), "key": secret})
    else:
        print(secret)
    return 0


def add_keys(commands: Any) -> None:
    """Add the group of commands."""
    parser = commands.add_parser(
        "keys", help=KEYS_SUMMARY, description=KEYS, formatter_class=HelpOfCommands
    )
    inner = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    made = _add(inner, add)
    made.add_argument(
        "--role",
        action="append",
        required=True,
        metavar="ROLE",
        help="admin, decide, report or read; may be repeated",
    )
    made.add_argument(
        "--campaign", action="append", metavar="NAME", help="may be repeated; default every one"
    )
    _add(inner, rotate)
    _add(inner, remove).add_argument("--older", action="store_true", help="all but the newest")
    _add(inner, list_keys, "list", named=False)
    parser.commands = inner.choices


def _add(
    commands: Any,
    command: Callable[[argparse.Namespace], int],
    name: str = "",
    *,
    named: bool = True,
) -> argparse.ArgumentParser:
    text = command.__doc__ or ""
    parser: argparse.ArgumentParser = commands.add_parser(
        name or command.__name__, help=text, description=text
    )
    parser.set_defaults(command=command)
    parser.add_argument("file", metavar="FILE", help="the keys, as serve --keys takes them")
    if named:
        parser.add_argument("name", metavar="NAME", help="whose key it is: the log says who did it")
    parser.add_argument("--json", action="store_true", help="print JSON, nothing else")
    return parser
