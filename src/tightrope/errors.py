"""All errors that tightrope raises deliberately.

    TightropeError            500  a failure that the caller did not cause
    ├── InputError            422  a value that cannot be used; also a ValueError
    │   ├── NotFoundError     404  a campaign or a ticket that does not exist
    │   ├── ProblemError      422  an arm, a distribution, a limit, a scale, a TOML file
    │   │   └── InfeasibleError 409  no mixture of the arms keeps a limit
    │   ├── PolicyError       422  an unknown policy, or a parameter out of range
    │   ├── ResultsError      422  a results file that cannot be read or merged
    │   └── ReportError       422  a report that a campaign refused and put in quarantine
    │       └── ConflictError 409  a report, or an id, that contradicts an earlier one
    ├── ExhaustedError        402  a decision requested after the budget was spent
    ├── CampaignError         409  a campaign that is paused or closed
    │   ├── WaitError         429  no decision yet: retry at ``retry_at``, or after a report
    │   └── HaltedError       500  a log that cannot be read: a broken chain, a newer version ├──
    StoreError            503  a store that cannot be read or written; nothing was decided
    │   └── StoreBusyError    503  a store without a free turn within the deadline
    ├── OutputError           507  a file that could not be written: a full disk, a deleted folder
    └── BackendError          503  a backend that this machine does not have

A message is one line that names the value, the place and what is allowed.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import ClassVar

__all__ = [
    "BackendError",
    "CampaignError",
    "CoarseGridWarning",
    "ConflictError",
    "ExhaustedError",
    "HaltedError",
    "InfeasibleError",
    "InfeasibleLimitsWarning",
    "InputError",
    "LimitWarning",
    "LogWarning",
    "NotCompiledWarning",
    "NotFoundError",
    "OutputError",
    "OutsideTheoryWarning",
    "PolicyError",
    "ProblemError",
    "ReportError",
    "ReservationWarning",
    "ResultsError",
    "RiskWarning",
    "SoftBudgetWarning",
    "StoreBusyError",
    "StoreError",
    "StoreWarning",
    "TightropeError",
    "WaitError",
]


class TightropeError(Exception):
    """The base class of all errors of tightrope; ``status`` is its HTTP status.

    ``code`` is a word for the kind of error, which programs can compare.
    """

    status: ClassVar[int] = 500
    code: str = "internal"


class InputError(TightropeError, ValueError):
    """A value that cannot be used."""

    status = 422
    code = "invalid"


class NotFoundError(InputError):
    """A campaign, or a ticket, that does not exist."""

    status = 404
    code = "not_found"


class ProblemError(InputError):
    """An invalid problem or task: an arm, a distribution, a limit, a scale or a TOML file."""


class InfeasibleError(ProblemError):
    """No mixture of the arms keeps a limit."""

    status = 409
    code = "conflict"


class PolicyError(InputError):
    """An unknown policy, or a parameter out of range."""


class ResultsError(InputError):
    """Results that cannot be read, merged or written."""


class ReportError(InputError):
    """A refused report; ``quarantine`` is its number there, None if it was not stored."""

    def __init__(self, message: str, quarantine: int | None = None) -> None:
        super().__init__(message)
        self.quarantine = quarantine


class ConflictError(ReportError):
    """A report that contradicts an earlier one, or an id that was used for something else."""

    status = 409
    code = "conflict"


class ExhaustedError(TightropeError):
    """A decision was requested after the budget was spent."""

    status = 402
    code = "exhausted"


class CampaignError(TightropeError):
    """A campaign is paused or closed, as ``code`` says."""

    status = 409
    code = "conflict"

    def __init__(self, message: str, code: str | None = None) -> None:
        super().__init__(message)
        self.code = code or self.code


class WaitError(CampaignError):
    """No decision is possible yet; retry at ``retry_at``, or after a report if it is None."""

    status = 429

    def __init__(self, message: str, retry_at: datetime | None = None) -> None:
        super().__init__(message)
        self.retry_at = retry_at
        self.code = "fully_reserved" if retry_at is None else "not_released"


class HaltedError(CampaignError):
    """A campaign whose log this process cannot read any further."""

    status = 500
    code = "halted"


class StoreError(TightropeError):
    """A store that cannot be read or written; nothing was decided."""

    status = 503
    code = "store"


class StoreBusyError(StoreError):
    """A store without a free turn within the deadline."""


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
    >>> nearest("model", ["Model", "Cost"])
    "did you mean 'Model'?"
    """
    from difflib import get_close_matches  # needed only after a mistake

    names = list(known)
    lower = [name.lower() for name in names]
    close = get_close_matches(word.lower(), lower, n=1)
    if close:
        return f"did you mean {names[lower.index(close[0])]!r}?"
    return "known: " + ", ".join(name if name.isprintable() else repr(name) for name in names)


class CoarseGridWarning(UserWarning):
    """The points of an interval or a box may miss much of the best reward; give it more points."""


class InfeasibleLimitsWarning(UserWarning):
    """No mixture of a problem's arms keeps its limits, so no policy can keep them for long."""


class LimitWarning(UserWarning):
    """A named limit is a plain number, which means per unit of cost and is rarely intended."""


class OutsideTheoryWarning(UserWarning):
    """A policy's parameters are outside the range that the paper's theorems cover."""


class RiskWarning(UserWarning):
    """A limit allows too few penalties for the requested risk, and no safe arm is declared."""


class StoreWarning(UserWarning):
    """Some finished runs could not be written to the disk or read back."""


class NotCompiledWarning(UserWarning):
    """A policy cannot be compiled and runs in plain Python, about a thousand times slower."""


class LogWarning(UserWarning):
    """A property of a log that may bias results."""


class ReservationWarning(UserWarning):
    """A campaign reserves 1 per decision, because the scale of its costs is the default."""


class SoftBudgetWarning(UserWarning):
    """A campaign cannot reserve costs, because the largest cost is unknown."""
