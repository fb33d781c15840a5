"""Campaigns behind HTTP: ``tightrope serve`` (extra ``serve``).

``changes`` describes all that can be asked of a campaign: to add one, add its class there. ``desk``
opens the store and commits it, ``wire`` has the shapes of answers. ``acts`` are decisions and
reports, ``campaigns`` all other routes; ``app`` finds them and asks ``keys`` who may do what.
``http`` is the HTTP server, which knows nothing of campaigns; ``server`` has the signals and the
log; ``metrics`` and ``openapi`` are read by machines.
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
