"""Campaigns behind HTTP: ``tightrope serve`` (extra ``serve``).

``changes`` describes all changes of a campaign: to add one, add its class there. ``desk`` opens the
store and commits requests, ``wire`` has the JSON of answers. ``acts`` has decisions and reports,
``campaigns`` all other routes; ``app`` dispatches requests and checks permissions with ``keys``.
``http`` is the HTTP server, which is independent of campaigns; ``server`` has the signals and the
log; ``metrics`` and ``openapi`` are for machines.
"""

from __future__ import annotations

from tightrope.errors import BackendError

__all__ = ["require_extra"]


def require_extra() -> None:
    """Raise unless the packages of the extra are installed."""
    try:
        import jinja2  # noqa: F401
        import msgspec  # noqa: F401
        import starlette  # noqa: F401
        import uvloop  # noqa: F401
    except ImportError as error:
        raise BackendError(
            f"the service needs the package {error.name}, which is not installed: pip install"
            " 'tightrope[serve]'"
        ) from error
