"""``tightrope serve``: campaigns behind HTTP."""

from __future__ import annotations

import argparse
from typing import Any

from tightrope.shell.commands import whole

__all__ = ["add_serve"]


def serve(options: argparse.Namespace) -> int:
    """Serve a store's campaigns over HTTP, with a page that shows them."""
    from tightrope.service import require_extra

    require_extra()
    from tightrope.service.server import serve as run

    run(options.store, host=options.host, port=options.port, keys=options.keys)
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
    parser.add_argument("--port", type=whole, default=8321, metavar="N", help="default 8321")
    parser.add_argument("--keys", metavar="FILE", help="of tightrope keys; needed beyond loopback")
