"""A campaign: ask which arm to pull, report the outcome. It survives crashes and many machines.

Promises kept here:

P1 *Durable.* ``ask`` and ``tell`` return after their turn's commit, never before; see ``turns``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from operator import index
from typing import TYPE_CHECKING, Any, SupportsIndex

from tightrope.callers import warn_caller
from tightrope.errors import (
    CampaignError,
    HaltedError,
    InputError,
    LogWarning,
    PolicyError,
    ReportError,
    StoreError,
    TightropeError,
)
from tightrope.live.arguments import as_policy, microseconds, one_of, positive
from tightrope.live.change import Relearning
from tightrope.live.controller import Penalty
from tightrope.live.core import ON_OVERRUN, Core, digest_of
from tightrope.live.events import START, Event
from tightrope.live.log import events_of, rows_of, whole_log
from tightrope.live.outlook import Outlook
from tightrope.live.queue import (
    MOST_TOGETHER,
    TurnRequest,
    UnexpectedError,
)
from tightrope.live.tickets import Ticket, id_of
from tightrope.live.turns import TurnTaker
from tightrope.live.writer import Writer
from tightrope.policies.base import Policy
from tightrope.problem.values import shown

if TYPE_CHECKING:
    from tightrope.live.status import CampaignStatus, RefusedReport

Eligible = Sequence[int | float | str] | Mapping[str, Sequence[float]] | None
TOLD = frozenset(["id", "cost", "reward", "penalty", "arm"])  # the names of a report


class Campaign(TurnTaker):
    """A campaign in a store; see :func:`open_campaign`. Its methods are thread-safe.

    >>> import tempfile
    >>> from tightrope import Task, open_campaign
    >>> task = Task(arms=["mail", "call"], limits={"complaints": "10% per pull"})
    >>> campaign = open_campaign(f"{tempfile.mkdtemp()}/sales.db", "spring", task=task, budget=20)
    >>> ticket = campaign.ask("lead-1")
    >>> campaign.tell(ticket, cost=0.25, reward=1, penalty={"complaints": 0})
    >>> campaign.status()["spent"], campaign.verify().good
    (0.25, True)
    >>> campaign.disconnect()
    """

    def ask(
        self,
        id: str | None = None,
        *,
        eligible: Eligible = None,
        expire_after: timedelta | float | None = None,
        context: Any = None,
    ) -> Ticket:
        """Decide which arm to pull. The same ``id`` returns the same ticket and its state.

        ``eligible``: the arms that can be pulled this time, by name or number; over an interval
        the lowest and the highest number, over a box such pairs by name. ``expire_after``: seconds
        until this ticket expires; default: the campaign's. ``context``: the type of the request, or
        its features, if the task has contexts.
        """
        ttl = None if expire_after is None else microseconds(expire_after)
        wanted = () if id is None else (str(id),)
        return self.do(lambda w: w.ask(id, eligible, ttl, context), wanted)  # type: ignore[no-any-return]

    def ask_many(
        self,
        count: int | None = None,
        *,
        ids: Sequence[str] | None = None,
        eligible: Eligible = None,
        expire_after: timedelta | float | None = None,
        contexts: Sequence[Any] | None = None,
    ) -> list[Ticket]:
        """Several tickets in one turn, by ``count`` or ``ids``; fewer if the budget ends.

        ``contexts``: the type or the features of each request, if the task has contexts. They also
        say how many tickets there are.
        """
        if count is None and ids is None and contexts is not None:
            count = len(contexts)
        ttl = None if expire_after is None else microseconds(expire_after)
        if not isinstance(count, SupportsIndex | None) or (ids is None and not count):
            raise InputError(f"count = {shown(count)}: must be positive, a whole number")
        if isinstance(contexts, str):
            allowed = "must be a list, one for each decision"
            raise InputError(f"contexts = {shown(contexts)}: {allowed}")
        names: Sequence[str | None] = [None] * index(count or 0) if ids is None else ids
        if not names or (count is not None and count != len(names)):
            raise InputError(
                f"count = {shown(count)}: must be positive and equal to the number of ids"
            )
        kinds = [None] * len(names) if contexts is None else list(contexts)
        if len(kinds) != len(names):
            raise InputError(f"contexts: {len(kinds)} must be {len(names)}, one for each decision")

        def act(writer: Writer) -> list[Ticket]:
            found: list[Ticket] = []
            if ids is not None or contexts is not None:
                writer.check_ids(names, eligible, ttl, kinds)
            for one, kind in zip(names, kinds, strict=True):
                try:
                    found.append(writer.ask(one, eligible, ttl, kind))
                except CampaignError:
                    if not found:
                        raise
                    break
                except TightropeError as error:
                    if not found or isinstance(error, InputError):
                        raise
                    break
            return found

        return self.do(act, [one for one in names if one is not None])  # type: ignore[no-any-return]

    def tell(
        self,
        id: str | Ticket,
        cost: float | None = None,
        reward: float | None = None,
        penalty: Penalty = None,
        *,
        arm: float | str | Sequence[float] | None = None,
    ) -> None:
        """Report the outcome of a ticket, by ticket or id. Repeating the same report is harmless.

        ``arm``: the arm that was pulled, if another system decides (``shadow``), by name or number;
        over an interval or a box its number or numbers.
        """
        name = id_of(id)
        self.do(lambda w: w.tell(name, cost, reward, penalty, arm), (str(name),))

    def tell_many(self, reports: Iterable[Mapping[str, Any]]) -> list[ReportError]:
        """Make many reports in as few turns as possible; returns the errors of refused reports.

        A report is a mapping with the arguments of ``tell``: ``{"id": ..., "cost": ..., ...}``.
        """
        if isinstance(reports, Mapping) or not isinstance(reports, Iterable):
            raise InputError(f"reports = {shown(reports)}: must be a list of reports")
        told = [_as_told(report) for report in reports]
        errors: list[ReportError] = []
        for start in range(0, len(told), MOST_TOGETHER):
            some = told[start : start + MOST_TOGETHER]
            try:
                found = self.do(partial(_tell_all, some), [str(one[0]) for one in some])
            except UnexpectedError:  # one of them broke the turn: the others get their own
                requests = [TurnRequest(_telling(one), (str(one[0]),)) for one in some]
                self._desk.perform(requests)
                found = [one.error for one in requests if one.error is not None]
            for error in found:
                if not isinstance(error, ReportError):
                    raise error
                errors.append(error)
        return errors

    def void(self, id: str | Ticket) -> None:
        """Cancel a ticket that was not used; its reservation is free again."""
        name = id_of(id)
        self.do(lambda w: w.void(name), (str(name),))

    def amend(
        self,
        id: str | Ticket,
        cost: float | None = None,
        penalty: Mapping[str, float] | None = None,
        *,
        note: str | None = None,
    ) -> None:
        """Correct the money of a reported ticket; what the policy learned from it stays."""
        name = id_of(id)
        self.do(lambda w: w.amend(name, cost, penalty, note), (str(name),))

    def amend_many(self, bill: Iterable[Mapping[str, Any]], *, note: str | None = None) -> int:
        """Amend all tickets of a bill, or none: rows with ``id``, ``cost`` and ``penalty``."""
        if isinstance(bill, Mapping | str) or not isinstance(bill, Iterable):
            raise InputError(f"bill = {shown(bill)}: must be a list of rows")
        if isinstance(bill, list) and not all(isinstance(row, Mapping) for row in bill):
            allowed = "must be mappings with id, cost and penalty"
            raise InputError(f"bill = {shown(bill)}: {allowed}")
        rows = [{key: id_of(one) for key, one in row.items()} for row in bill]

        def act(writer: Writer) -> int:
            for row in rows:  # check all rows first, so that nothing is amended if one fails
                writer.check_amend(row)
            for row in rows:
                writer.amend(row["id"], row.get("cost"), row.get("penalty"), note)
            return len(rows)

        return int(self.do(act, [str(row.get("id")) for row in rows]))

    def correct(
        self, number: int, cost: float | None = None, reward: float | None = None,
        penalty: Penalty = None, *, id: str | Ticket | None = None,
    ) -> None:  # fmt: skip
        """Correct a quarantined report, by its number."""
        ticket = self._quarantined_ticket(number) if id is None else id_of(id)
        self.do(lambda w: w.correct(number, ticket, cost, reward, penalty), (ticket,))

    def discard(self, number: int, *, note: str | None = None) -> None:
        """Discard a quarantined report."""
        self.do(lambda w: w.discard(number, note))

    def pause(self, why: str = "by hand", *, note: str | None = None) -> None:
        """Stop decisions until ``resume``; reports are still accepted."""
        self.do(lambda w: w.pause(why, note))

    def resume(self) -> None:
        """Resume decisions."""
        self.do(lambda w: w.resume())

    def close(self) -> None:
        """Stop decisions for good; reports are still accepted."""
        self.do(lambda w: w.close())

    def pin(self, arm: float | str | None) -> None:
        """Always pull this arm; None lets the policy decide again."""
        self.do(lambda w: w.pin(arm))

    def add_budget(self, amount: float) -> None:
        """Add to the budget."""
        self.do(lambda w: w.add_budget(amount))

    def set_budget(self, budget: float) -> Outlook:
        """Change the budget; it must cover what is spent and reserved.

        Limits per unit of cost apply to the new budget, so a lower budget may end a promise with a
        ``risk``. The returned outlook states what remains of the promise (``outlook.promise``).
        """
        self.do(lambda w: w.set_budget(budget))
        return self.outlook()

    def add_arm(self, name: str, **facts: Any) -> int:
        """Add an arm; see :meth:`Controller.add_arm`."""
        return int(self.do(lambda w: w.add_arm(name=name, **facts)))

    def retire_arm(self, arm: int | str) -> None:
        """Never pull this arm again; its tickets in flight can still be reported."""
        self.do(lambda w: w.retire_arm(arm))

    def merge_types(self, type: str, into: str) -> None:
        """Count requests of ``type`` for the type ``into``, also those before."""
        self.do(lambda w: w.merge_types(type, into))

    def reprice(self, arm: int | str, **prices: Any) -> None:
        """Change the known prices of an arm; see :meth:`Controller.reprice`."""
        self.do(lambda w: w.reprice(arm=arm, **prices))

    def change(
        self,
        *,
        limits: Mapping[str, Any] | None = None,
        policy: Policy | str | None = None,
        expire_after: timedelta | float | None = None,
        per_day: float | None = None,
        archives: Sequence[str] = (),
        on_overrun: str | None = None,
        contexts: Any = None,
    ) -> None:
        """Change limits, the policy, the expiry, ``on_overrun`` or the types from now on.

        A new policy learns from every report in the log. Limits keep their names. ``archives``: the
        files of archived events, if there are any. ``contexts``: types of requests; requests so far
        without a type count for ``missing``, or for each type in turn.
        """
        given = limits, policy, expire_after, per_day, archives, on_overrun, contexts
        with self._desk:
            self.do(self.prepared_change(*given))

    def prepared_change(
        self,
        limits: Mapping[str, Any] | None = None,
        policy: Policy | str | None = None,
        expire_after: timedelta | float | None = None,
        per_day: float | None = None,
        archives: Sequence[str] = (),
        on_overrun: str | None = None,
        contexts: Any = None,
    ) -> Callable[[Writer], None]:
        """A function that makes a ``change`` in a turn, after learning from the log so far."""
        if limits is not None and not isinstance(limits, Mapping):
            what = "must be by name, such as {'bad': '5% per pull'}"
            raise InputError(f"limits = {shown(limits)}: {what}")
        core, changes, learning = self.refreshed(), dict[str, Any](), None
        if expire_after is not None:
            changes["expire_after"] = microseconds(expire_after)
        if per_day is not None:
            changes["per_day"] = positive(per_day, "per_day")
        if on_overrun is not None:
            changes["on_overrun"] = one_of(on_overrun, ON_OVERRUN, "on_overrun")
        chosen, text = as_policy(policy) if policy is not None else (None, None)
        if limits is not None or chosen is not None or contexts is not None:
            rows = whole_log(self.store, self.name, archives)
            learning = Relearning(core, limits, chosen, contexts, events_of(rows, START))
            if learning.erased or learning.lost:
                lost = f"the features of {learning.erased:,} reports were erased"
                lost = lost if learning.erased else "the log of learn_from is not kept"
                text = "the policy learns from the other reports, and all of them are charged"
                warn_caller(f"campaign {self.name!r}: {lost}; {text}", LogWarning)

        def act(writer: Writer) -> None:
            now = writer.core
            if chosen is not None:
                self._follower.policy = now.given = chosen
            rest = [] if learning is None else writer.turn.read(learning.seq, 10**9)
            changed = now.controller if learning is None else learning.controller
            settings = replace(now.settings, **changes)
            writer.change(learning, rest, text or now.policy_text, settings, digest_of(changed))

        return act

    def erase_contexts(self, before: datetime | str | None = None) -> int:
        """Erase the features of requests, of a task with ``Features(..., erasable=True)``.

        ``before``: only those of requests before this time. Tickets in flight keep theirs. Returns
        how many were erased.
        """
        from tightrope.live.archive import erase_contexts

        return erase_contexts(self, before)

    def refreshed(self) -> Core:
        """The state after all committed events."""
        with self._desk:
            return self._follower.refreshed()

    def status(self) -> CampaignStatus:
        """The status of the campaign, in the user's units."""
        from tightrope.live.status import status_and_sums, with_curve

        with self._desk:
            found = status_and_sums(self.name, self.refreshed())
        return with_curve(*found)

    def outlook(self, doubt: float = 0.01, *, estimate: bool = False) -> Outlook:
        """Bounds and projections for the end of the run; see :meth:`Controller.outlook`."""
        with self._desk:
            copied = self.refreshed().controller.copy()
        if estimate:  # its forward runs need a compiled policy
            copied = copied.compiled()
        return copied.outlook(doubt, estimate=estimate)

    def events(self, after: int = 0, count: int | None = None) -> Iterator[Event]:
        """The events of the log, in order, from number ``after`` + 1 on; read in short pieces."""
        return events_of(rows_of(self.store, self.name, after, count))

    def notes(self, forget: Sequence[int] = ()) -> dict[int, str]:
        """Notes by event number; ``forget`` deletes some of them first."""
        return self.store.notes(self.name, forget)

    def ticket(self, id: str | Ticket) -> Ticket:
        """Look up a ticket and its state."""
        from tightrope.live.status import events_of, ticket_of

        name = id_of(id)
        with self._desk:
            return ticket_of(self.refreshed(), name, events_of(self.store, self.name, name))

    def why(self, id: str | Ticket) -> Any:
        """What the policy knew when it chose the arm of a ticket."""
        from tightrope.live.status import why_of

        return why_of(self.store, self.name, self._follower.policy, id_of(id))

    def quarantine(self) -> list[RefusedReport]:
        """The refused reports that you can correct or discard."""
        from tightrope.live.status import refused_of

        with self._desk:
            numbers = dict(self.refreshed().ledger.quarantine)
        return refused_of(self.store, self.name, numbers)

    def _quarantined_ticket(self, number: int) -> str:
        found = self.refreshed().ledger.quarantine.get(number)
        if found is None:
            raise InputError(f"quarantine = {shown(number)}: is not a report in quarantine")
        return found

    def verify(self, progress: Callable[[int], None] | None = None) -> Any:
        """Replay the whole log and compare it with every snapshot; see ``Verified``."""
        from tightrope.live.verification import verified

        return verified(self.store, self.name, self._follower.policy, progress)

    def disconnect(self) -> None:
        """Disconnect from the store. The campaign goes on elsewhere and can be reopened."""
        if self._owned:
            self.store.close()

    def __enter__(self) -> Campaign:
        return self

    def __exit__(self, *error: object) -> None:
        self.disconnect()

    def __repr__(self) -> str:
        return f"Campaign({self.name!r} in {self.store.url!r})"


def _as_told(report: Mapping[str, Any]) -> Sequence[Any]:
    """The arguments of ``tell`` in a report, in order."""
    if not hasattr(report, "keys"):
        raise InputError(f"report {shown(report)}: must be a mapping with the arguments of tell")
    if report.keys() <= TOLD and "id" in report:
        given = report.get
        return id_of(given("id")), given("cost"), given("reward"), given("penalty"), given("arm")
    unknown = set(report) - TOLD
    wrong = sorted(unknown)[0] if unknown else "id is missing"
    raise InputError(f"report {shown(dict(report))}: {wrong!r}: must be the arguments of tell")


def _telling(told: Sequence[Any]) -> Callable[[Writer], None]:
    return lambda writer: writer.tell(*told)


def _tell_all(reports: Sequence[Sequence[Any]], writer: Writer) -> list[TightropeError]:
    """Make reports; returns the errors of refused ones."""
    errors: list[TightropeError] = []
    for ticket, cost, reward, penalty, arm in reports:
        try:
            writer.tell(ticket, cost, reward, penalty, arm)
        except (HaltedError, StoreError, PolicyError):
            raise
        except TightropeError as error:
            errors.append(error)
    return errors
