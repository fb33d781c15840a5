"""What reports need beyond tightrope's own requirements."""

from __future__ import annotations

from importlib.util import find_spec

from tightrope.errors import TightropeError

__all__ = ["MODULES", "require"]

MODULES = ("matplotlib", "jinja2")


def require(*modules: str) -> None:
    """Say how to get the first of ``modules`` that is not installed."""
    for module in modules:
        if find_spec(module) is None:
            raise TightropeError(
                f"reports need {module}, which is not installed; pip install 'tightrope[report]'"
            )
