"""``tightrope demo``: the service with a simulated campaign."""

from __future__ import annotations

import argparse
from typing import Any

from tightrope.shell.commands import number, whole
from tightrope.shell.saying import say

__all__ = ["add_demo"]


def demo(options: argparse.Namespace) -> int:
    """Show the service and its page with a simulated campaign; Ctrl-C ends it."""
    from tightrope.service import require_extra

    require_extra()
    from tightrope.service.demo import run_demo

    run_demo(
        options.port,
        browser=not options.no_browser,
        speed=options.speed,
        show=lambda url: print(url, flush=True),
        say=say,
    )
    return 0


def add_demo(commands: Any) -> None:
    """Add the command."""
    text = demo.__doc__ or ""
    parser = commands.add_parser("demo", help=text, description=text)
    parser.set_defaults(command=demo)
    parser.add_argument("--port", type=whole, metavar="N", help="default 8321, or any that is free")
    parser.add_argument("--no-browser", action="store_true", help="print the address only")
    parser.add_argument(
        "--speed", type=number, default=1.0, metavar="X", help="from 0.1 to 20; default 1"
    )
