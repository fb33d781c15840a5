"""The log of a campaign, from the JSON lines of an export or an archive.

Each reported ticket is a row, in the order of the reports: the pulled arm and the reported
outcomes, with the corrections of ``amend``. Tickets in flight, voided, expired or refused are left
out.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tightrope.callers import warn_caller
from tightrope.data.log import Log
from tightrope.errors import InputError, LogWarning, TightropeError
from tightrope.live.events import Event, event_of
from tightrope.live.kinds import Amended, ArmAdded, Asked, Created, Stateful, Told, TypesMerged
from tightrope.live.ledger import Account
from tightrope.live.log import first_event, read_lines
from tightrope.live.snapshots import task_of
from tightrope.problem import Task, Types
from tightrope.problem.changed import with_arm
from tightrope.problem.features import Features, Mixed
from tightrope.problem.values import shown


@dataclass(frozen=True, eq=False)
class Export:
    """The rows of a campaign, and its task at the end: arms, limits and scales."""

    log: Log
    task: Task


@dataclass
class _Tickets:
    """The rows found so far."""

    task: Task | None = None
    accounts: list[Account] = field(default_factory=list)
    arms: list[int] = field(default_factory=list)
    rows: list[list[float]] = field(default_factory=list)  # cost, reward, own penalties
    places: dict[str, int] = field(default_factory=dict)  # the row of a ticket
    types: list[str | None] = field(default_factory=list)  # of each row, if it has one
    asked: dict[str, str] = field(default_factory=dict)  # the features of tickets without a row
    features: list[str] = field(default_factory=list)  # of each row, as an event has them

    def take(self, event: Event) -> None:
        """Process one event."""
        body, ticket = event.body, event.ticket
        if isinstance(body, Created):
            self.accounts = [Account(*account) for account in body.accounts]
        elif self.task is None:
            raise InputError(
                "the first events are missing; must be the whole export, or come with the "
                "archives of earlier events"
            )
        if isinstance(body, Stateful):
            self.task = task_of(body.snapshot)
        assert self.task is not None
        if isinstance(body, ArmAdded):
            facts = body.facts
            self.task = with_arm(self.task, facts["name"], facts.get("cost"), facts.get("penalty"))
        elif isinstance(body, Told) and ticket is not None:
            self._tell(ticket, body, self.task)
        elif isinstance(body, Asked) and ticket is not None:
            self.asked[ticket] = body.features or ""
        elif isinstance(body, TypesMerged):
            self.types = [body.into if name == body.name else name for name in self.types]
        elif isinstance(body, Amended) and ticket in self.places:
            row = self.rows[self.places[ticket]]
            row[0] += self.accounts[0].amount(body.moves[1])
            for m, shift in body.shifts.items():
                own = _own(self.task)
                if m in own:
                    row[2 + own.index(m)] += shift

    def _tell(self, ticket: str, body: Told, task: Task) -> None:
        cost, reward, *told = body.values
        if not 0 <= body.arm < task.arm_count:
            raise InputError(f"arm = {body.arm}: must be from 0 to {task.arm_count - 1}")
        penalties = []
        for m in _own(task):
            if body.penalties is not None:
                penalties.append(body.penalties[m])
            elif m in task.told:
                penalties.append(told[task.told.index(m)])
            else:
                penalties.append(task.known[task.limit_names[m]][task.arms[body.arm]])
        self.places[ticket] = len(self.rows)
        self.arms.append(body.arm)
        self.types.append(body.context)
        self.features.append(self.asked.pop(ticket, ""))
        self.rows.append([cost, reward, *map(float, penalties)])

    def log(self, task: Task) -> Log:
        """The rows as a log; those without a type, if others have one, are left out."""
        outcomes = np.ascontiguousarray(np.array(self.rows, dtype=np.float64).T)
        penalties = tuple(task.limit_names[m] for m in _own(task))
        log = Log(task.arms, penalties, np.array(self.arms), outcomes, space=task.space)
        if isinstance(task.contexts, Features | Mixed):
            return self._with_features(log, task.contexts)
        missing = task.contexts.missing if isinstance(task.contexts, Types) else None
        types = [missing if name is None else name for name in self.types]
        typed = np.array([name is not None for name in types])
        if not typed.any():
            return log
        if not typed.all():
            count = f"{np.count_nonzero(~typed):,} of {len(typed):,}"
            text = f"{count} reports are left out, from before the campaign had contexts"
            warn_caller(text, LogWarning)
        names = [name for name in types if name is not None]
        kept = np.ascontiguousarray(outcomes[:, typed])
        return replace(log, chosen=log.chosen[typed], outcomes=kept, contexts=names)

    def _with_features(self, log: Log, contexts: Features | Mixed) -> Log:
        """The log with the features of its rows; rows that have lost them are left out."""
        known = np.array([text != "" and ":" not in text for text in self.features])
        if not known.all():
            count = f"{np.count_nonzero(~known):,} of {len(known):,}"
            rest = "they are left out" if known.any() else "the log is read without features"
            text = f"the features of {count} reports were erased or not exported; {rest}"
            warn_caller(text, LogWarning)
        if not known.any():
            return log
        pairs = [
            (kind, contexts.joined(kind, text))
            for kind, text, there in zip(self.types, self.features, known, strict=True)
            if there
        ]
        rows: Any = np.array([row for _, row in pairs])
        if isinstance(contexts, Mixed):
            rows = [(kind, row[: contexts.features.count].tolist()) for kind, row in pairs]
        kept = np.ascontiguousarray(log.outcomes[:, known])
        return replace(log, chosen=log.chosen[known], outcomes=kept, contexts=rows)


def _own(task: Task) -> list[int]:
    """The limits, from 0, that have a penalty of their own, reported or known."""
    return [m for m, limit in enumerate(task.limit_kinds) if limit.of is None]


def read_export(
    path: str | os.PathLike[str], archives: Sequence[str] = (), **columns: object
) -> Export:
    """The rows of an exported campaign; arms without reports have no rows.

    ``archives``: files with earlier events. ``columns``: all None, because the export has its own.
    Raises an ``InputError`` with the line, from 1, for anything that is not such a file.
    """
    for role, value in columns.items():
        if value is not None:
            raise InputError(f"{role} = {shown(value)}: must be left out; the export contains it")
    text, tickets, last = os.fspath(path), _Tickets(), 0
    for file in [*sorted(archives, key=first_event), text]:
        for number, row in read_lines(file, whole=True):
            if row.seq <= last:  # it is in an archive too
                continue
            try:
                tickets.take(event_of(row))
            except TightropeError as error:
                raise InputError(f"log {file!r}, line {number:,}: {error}") from None
            except (ValueError, LookupError, TypeError, ArithmeticError, AttributeError):
                allowed = "an event as 'tightrope campaign export' writes it"
                raise InputError(f"log {file!r}, line {number:,}: must be {allowed}") from None
            last = row.seq
    if tickets.task is None:
        raise InputError(f"log {text!r}: is empty; must be a campaign's export")
    if not tickets.rows:
        raise InputError(f"log {text!r}: has no reported ticket; must have at least one")
    task = tickets.task
    return Export(tickets.log(task), task)
