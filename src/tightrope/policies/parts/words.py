"""Parse values of policy parameters from the shell."""

from __future__ import annotations

__all__ = ["as_flag"]

FLAGS = {"true": True, "false": False, "yes": True, "no": False, "1.0": True, "0.0": False}


def as_flag(value: object) -> object:
    """A bool from the shell's word or number; any other value unchanged.

    >>> as_flag("true"), as_flag(0.0), as_flag(True), as_flag("maybe")
    (True, False, True, 'maybe')
    """
    return FLAGS.get(str(value).lower(), value)
