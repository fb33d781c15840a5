"""Change the policy or limits of a running campaign: learn again from the whole log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from math import isnan
from typing import Any

from tightrope.errors import InputError
from tightrope.live.controller import Controller
from tightrope.live.core import Core
from tightrope.live.events import Event
from tightrope.live.kinds import Created, Told
from tightrope.policies.base import Policy
from tightrope.policies.naming import stored_policy
from tightrope.problem import Task
from tightrope.problem.meaning import require_binding

__all__ = ["Relearning"]

FEW = 1000  # reports that are learned again without compiling


class Relearning:
    """A controller that learns from every report of a log again."""

    def __init__(
        self,
        core: Core,
        limits: Mapping[str, Any] | None,
        policy: Policy | None,
        events: Iterator[Event],
    ) -> None:
        """``events``: all committed events, from the first one on."""
        first = next(events)
        assert isinstance(first.body, Created)
        task = _with_limits(core.controller.task, limits or {})
        chosen = policy or core.given or stored_policy(core.policy_text, core.code)
        few = core.ledger.told < FEW
        budget = core.controller.budget
        seed = first.body.seed
        self.controller = Controller(task, chosen, budget, seed=seed, background=few)
        self.seq = first.seq
        self.follow(events)

    def follow(self, events: Iterable[Event]) -> None:
        """Learn from the reports among these events."""
        for event in events:
            if isinstance(event.body, Told):
                self._tell(event.body)
            self.seq = event.seq

    def _tell(self, body: Told) -> None:
        task = self.controller.task
        arm, values = body.arm, list(body.learned)
        known = task.known_outcomes[arm]
        for place, at in enumerate((0, 1, *(2 + m for m in task.told))):
            if not isnan(known[at]):  # its price may have been another one then
                values[place] = float(known[at])
        self.controller.tell(arm, values[0], values[1], values[2:])

    def finish(self, core: Core) -> Controller:
        """The controller at the end of the log, with pulls in flight and money spent."""
        made, accounts = self.controller, core.ledger.accounts
        for name in core.controller.retired:
            made.retire_arm(name)
        made.charge(accounts[0].amount(accounts[0].spent) - made.spent)
        for one in core.ledger.tickets.values():
            made.launch(one.arm)
        return made


def _with_limits(task: Task, limits: Mapping[str, Any]) -> Task:
    """The task with other limits, or other numbers for some of them."""
    made = task.other_limits(limits)
    for before, (name, after) in zip(task.limit_kinds, made.items(), strict=True):
        if (before.hard, before.of) != (after.hard, after.of):
            raise InputError(f"limit {name!r}: must stay {'hard' if before.hard else 'as it is'}")
    changed = replace(task, limits=made)
    require_binding(changed, limits)
    return changed
