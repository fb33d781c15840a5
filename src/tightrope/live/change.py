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
from tightrope.live.kinds import Asked, Created, Told, TypeAdded
from tightrope.live.past import NOT_KEPT, PastLines, past_sums, spread
from tightrope.live.spaced import by_place
from tightrope.live.typed import TypedController
from tightrope.live.vectors import ErasedError
from tightrope.policies.base import Policy
from tightrope.policies.naming import stored_policy
from tightrope.problem import Task, Types
from tightrope.problem.contexts import as_types
from tightrope.problem.meaning import require_binding
from tightrope.problem.values import shown

FEW = 1000  # reports that are learned again without compiling


class Relearning:
    """A controller that learns from every report of a log again."""

    def __init__(
        self,
        core: Core,
        limits: Mapping[str, Any] | None,
        policy: Policy | None,
        contexts: Any,
        events: Iterator[Event],
    ) -> None:
        """``contexts``: types of requests, None for those there are.

        ``events``: all committed events, from the first one on.
        """
        first = next(events)
        assert isinstance(first.body, Created)
        task = _with_limits(core.controller.task, limits or {})
        if contexts is not None:
            task = _with_types(task, as_types(contexts))
        chosen = policy or core.given or stored_policy(core.policy_text, core.code)
        few = core.ledger.told < FEW
        budget = core.controller.budget
        seed = first.body.seed
        self.controller = by_place(task)(task, chosen, budget, seed=seed, background=few)
        self.types = task.contexts if isinstance(task.contexts, Types) else None
        if first.body.past:
            self.controller.learn_sums(spread(first.body.past, self.types))
        self.lost = first.body.lines == NOT_KEPT  # what a log taught
        if first.body.lines and not self.lost:
            self._learn_lines(PastLines.of_text(first.body.lines))
        self._trial = Core(core.given)  # for the contexts of requests
        self._trial.vectors.find = core.vectors.find
        self._trial.controller, self._trial.types = self.controller, task.contexts
        self._requests: dict[str | None, str] = {}  # features of tickets without a report so far
        self.erased = 0  # reports that nothing is learned from, because their features are erased
        self.seq = first.seq
        self.follow(events)

    def _learn_lines(self, lines: PastLines) -> None:
        """Learn from the lines of a log; without their features, if requests have types now."""
        if self.types is None:
            self.controller.learn_past(lines, lines.weight)
        else:
            plain = lines._replace(columns=[*lines.columns[:2], None, lines.columns[3]])
            sums = past_sums(plain, self.controller.task, lines.weight)
            self.controller.learn_sums(spread(sums, self.types))

    def follow(self, events: Iterable[Event]) -> None:
        """Learn from the reports among these events."""
        for event in events:
            if isinstance(event.body, Told):
                self._tell(event.body, event.seq, self._requests.pop(event.ticket, None))
            elif isinstance(event.body, Asked):
                if event.body.features is not None:
                    self._requests[event.ticket] = event.body.features
            elif isinstance(event.body, TypeAdded):
                self._require_type(event.body.name)
            self.seq = event.seq

    def _require_type(self, name: str) -> None:
        """Add a type, or raise unless it is one of them."""
        if isinstance(self.controller, TypedController):
            self.controller.kind_of(name)

    def _tell(self, body: Told, seq: int, features: str | None) -> None:
        task = self.controller.task
        arm, values = body.arm, list(body.learned)
        known = task.known_outcomes[arm]
        for place, at in enumerate((0, 1, *(2 + m for m in task.told))):
            if not isnan(known[at]):  # its price may have been another one then
                values[place] = float(known[at])
        context = body.context
        if context is None and self.types is not None:
            context = self.types.of_untyped(seq)
        if context is not None:
            self._require_type(context)
        try:
            request = self._trial.in_context(context, features)
        except ErasedError:
            self.erased += 1
            self._trial.charge_report(values)
            return
        self.controller.tell(arm, values[0], values[1], values[2:], **request)

    def finish(self, core: Core) -> Controller:
        """The controller at the end of the log, with pulls in flight and money spent."""
        made, accounts = self.controller, core.ledger.accounts
        for name in core.controller.retired:
            made.retire_arm(name)
        made.charge(accounts[0].amount(accounts[0].spent) - made.spent)
        for name in core.ledger.types:  # also those that only requests without a report had
            self._require_type(name)
        for one in core.ledger.tickets.values():
            kind = self._trial.context_of(one)
            made.launch(one.arm, **self._trial.in_context(kind, one.features))
        return made


def _with_types(task: Task, types: Types | None) -> Task:
    """The task with types of requests, or with other ones."""
    if types is None or (types.open and types.missing is None and task.contexts is None):
        allowed = "names, or missing, which is the type of the requests so far"
        raise InputError(f"contexts = {shown(types)}: must have {allowed}")
    return replace(task, contexts=types)


def _with_limits(task: Task, limits: Mapping[str, Any]) -> Task:
    """The task with other limits, or other numbers for some of them."""
    made = task.other_limits(limits)
    for before, (name, after) in zip(task.limit_kinds, made.items(), strict=True):
        if (before.hard, before.of) != (after.hard, after.of):
            raise InputError(f"limit {name!r}: must stay {'hard' if before.hard else 'as it is'}")
    changed = replace(task, limits=made)
    require_binding(changed, limits)
    return changed
