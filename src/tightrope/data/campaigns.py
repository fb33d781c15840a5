"""The log of a campaign, from the JSON lines that ``tightrope campaign export`` writes.

A ticket that was told is a row, in the order of the reports: the arm that was pulled, and the told
outcomes, with the corrections of ``amend``. Tickets in flight, voided, expired or refused are not.
"""

from __future__ import annotations

import json
import os
from base64 import b85decode
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tightrope.data.log import Log
from tightrope.errors import InputError, ProblemError
from tightrope.live.ledger import Account
from tightrope.live.snapshots import task_of
from tightrope.problem import Task
from tightrope.problem.changed import with_arm

__all__ = ["Export", "read_export"]


@dataclass(frozen=True, eq=False)
class Export:
    """The rows of a campaign, and its task at the end: arms, limits and scales."""

    log: Log
    task: Task


@dataclass
class _Tickets:
    """What was found so far."""

    task: Task | None = None
    accounts: list[Account] = field(default_factory=list)
    arms: list[int] = field(default_factory=list)
    rows: list[list[float]] = field(default_factory=list)  # cost, reward, own penalties
    places: dict[str, int] = field(default_factory=dict)  # the row of a ticket

    def take(self, event: dict[str, Any]) -> None:
        """Follow one event."""
        kind, body = event["kind"], event["body"]
        if "state" in body:  # of a campaign that was created, changed or upgraded
            self.task = task_of(b85decode(body["state"]))
        if kind == "created":
            self.accounts = [Account(*account) for account in body["accounts"]]
        elif self.task is None:
            raise InputError("the campaign's beginning is missing; must be the whole export")
        elif kind == "arm_added":
            facts = body["arm"]
            self.task = with_arm(self.task, facts["name"], facts.get("cost"), facts.get("penalty"))
        elif kind == "told":
            self._tell(event["ticket"], body, self.task)
        elif kind == "amended" and event["ticket"] in self.places:
            row = self.rows[self.places[event["ticket"]]]
            row[0] += self.accounts[0].amount(body["m"][1])
            for m, shift in body.get("p", {}).items():
                own = _own(self.task)
                if int(m) in own:
                    row[2 + own.index(int(m))] += shift

    def _tell(self, ticket: str, body: dict[str, Any], task: Task) -> None:
        arm, (cost, reward, *told), whole = body["arm"], body["v"], body.get("p")
        penalties = []
        for m in _own(task):
            if whole is not None:
                penalties.append(whole[m])
            elif m in task.told:
                penalties.append(told[task.told.index(m)])
            else:
                penalties.append(task.known[task.limit_names[m]][task.arms[arm]])
        self.places[ticket] = len(self.rows)
        self.arms.append(arm)
        self.rows.append([float(cost), float(reward), *map(float, penalties)])


def _own(task: Task) -> list[int]:
    """The limits, from 0, that have a penalty of their own, told or known."""
    return [m for m, limit in enumerate(task.limit_kinds) if limit.of is None]


def read_export(path: str | os.PathLike[str]) -> Export:
    """The rows of an exported campaign; arms that were never told have no rows.

    Raises an ``InputError`` with the line, from 1, for anything that is not such a file.
    """
    text, tickets = os.fspath(path), _Tickets()
    for number, line in _lines(text):
        try:
            tickets.take(json.loads(line))
        except (InputError, ProblemError) as error:
            raise InputError(f"log {text!r}, line {number:,}: {error}") from None
        except (ValueError, KeyError, TypeError, IndexError, AttributeError):
            allowed = "an event as 'tightrope campaign export' writes it"
            raise InputError(f"log {text!r}, line {number:,}: must be {allowed}") from None
    if tickets.task is None:
        raise InputError(f"log {text!r}: is empty; must be a campaign's export")
    if not tickets.rows:
        raise InputError(f"log {text!r}: has no ticket that was told; must have at least one")
    task = tickets.task
    outcomes = np.ascontiguousarray(np.array(tickets.rows, dtype=np.float64).T)
    penalties = tuple(task.limit_names[m] for m in _own(task))
    return Export(Log(task.arms, penalties, np.array(tickets.arms), outcomes), task)


def _lines(path: str) -> Iterator[tuple[int, str]]:
    try:
        with open(path, encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield number, line
    except OSError as error:
        raise InputError(f"log {path!r}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise InputError(f"log {path!r}: must be UTF-8 text ({error.reason})") from None
