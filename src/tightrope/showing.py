"""Show objects of all layers: ``report`` registers the forms and is imported when needed.

A class needs no import of ``report``: ``_repr_html_ = html_of`` is enough for notebooks.
"""

from __future__ import annotations

from functools import singledispatch
from importlib import import_module
from typing import Any

FORMS = "tightrope.report.forms"


@singledispatch
def html_of(shown: object) -> str:
    """The object as HTML, for notebooks."""
    return str(_registered(html_of, shown)(shown))


@singledispatch
def text_of(shown: object) -> str:
    """The object as plain text, with tables."""
    return str(_registered(text_of, shown)(shown))


@singledispatch
def write_report(shown: object, folder: str) -> tuple[str, ...]:
    """Write the object's page and the files beside it; returns their paths."""
    return tuple(_registered(write_report, shown)(shown, folder))


def _registered(verb: Any, shown: object) -> Any:
    import_module(FORMS)
    form = verb.dispatch(type(shown))
    if form is verb.dispatch(object):
        raise TypeError(f"{type(shown).__name__}: cannot be shown in this form")
    return form
