"""Optional packages that reports need."""

from __future__ import annotations

from importlib.util import find_spec

from tightrope.errors import TightropeError

MODULES = ("matplotlib", "jinja2")


def require(*modules: str) -> None:
    """Raise, with the command to install it, if one of ``modules`` is missing."""
    for module in modules:
        if find_spec(module) is None:
            raise TightropeError(
                f"reports need {module}, which is not installed; pip install 'tightrope[report]'"
            )
