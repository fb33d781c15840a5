"""``tightrope demo``: the service with a simulated campaign."""

from __future__ import annotations

from tightrope.shell.saying import say

__all__ = ["demo"]


def demo(*, port: int | None = None, no_browser: bool = False, speed: float = 1.0) -> int:
    """Show the service and its page with a simulated campaign; Ctrl-C ends it.

    port: default 8321, or any that is free
    no_browser: print the address only
    speed: from 0.1 to 20
    """
    from tightrope.service import require_extra

    require_extra()
    from tightrope.service.demo import run_demo

    run_demo(
        port,
        browser=not no_browser,
        speed=speed,
        show=lambda url: print(url, flush=True),
        say=say,
    )
    return 0
