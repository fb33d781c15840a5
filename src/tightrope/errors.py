"""Every error that tightrope raises on purpose.

    TightropeError            500  a failure that the caller did not cause
    ├── InputError            422  a value that cannot be used; also a ValueError
    │   ├── ProblemError      422  an arm, a law, a limit, a scale, a TOML file
    │   │   └── InfeasibleError 409  no mixture of the arms keeps a limit
    │   ├── PolicyError       422  an unknown policy, or a parameter out of range
    │   └── ResultsError      422  a results file that cannot be read or merged
    ├── ExhaustedError        409  a decision requested after the budget was spent
    ├── OutputError           507  a file that could not be written: a full disk, a deleted folder
    └── BackendError          503  a backend that this machine does not have

A message is one line that names the value, the place and what is allowed.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import ClassVar

__all__ = [
    "BackendError",
    "ExhaustedError",
    "InfeasibleError",
    "InputError",
    "OutputError",
    "PolicyError",
    "ProblemError",
    "ResultsError",
    "TightropeError",
    "nearest",
]


class TightropeError(Exception):
    """The base class of all errors here; ``status`` is the HTTP status a service answers with."""

    status: ClassVar[int] = 500


class InputError(TightropeError, ValueError):
    """A value that cannot be used."""

    status = 422


class ProblemError(InputError):
    """An invalid problem or task: an arm, a law, a limit, a scale or a TOML file."""


class InfeasibleError(ProblemError):
    """No mixture of the arms keeps a limit."""

    status = 409


class PolicyError(InputError):
    """An unknown policy, or a parameter out of range."""


class ResultsError(InputError):
    """Results that cannot be read, merged or written."""


class ExhaustedError(TightropeError):
    """A decision was requested after the budget was spent."""

    status = 409


class OutputError(TightropeError):
    """Writing a file failed although its path had passed the checks, as on a full disk."""

    status = 507


class BackendError(TightropeError):
    """A backend that cannot run on this machine."""

    status = 503


def nearest(word: str, known: Iterable[str]) -> str:
    """The hint for an unknown ``word``: the closest known word, or all of them if none is close.

    >>> nearest("lyonn", ["lyon", "lyoff"])
    "did you mean 'lyon'?"
    >>> nearest("x", ["lyon", "lyoff"])
    'known: lyon, lyoff'
    """
    names = list(known)
    close = get_close_matches(word.lower(), names, n=1)
    return f"did you mean {close[0]!r}?" if close else "known: " + ", ".join(names)
