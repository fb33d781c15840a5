"""A campaign: ask which arm to pull, tell what came of it, through crashes and from many machines.

Promises kept here:

P1 *Durable.* ``ask`` and ``tell`` return after their turn's commit, never before.
P3 *Exactly once.* If a commit fails with an unknown outcome, a new turn looks whether its events
   are in the log; nothing is decided again.
P7 *Constant cost.* Only tickets in flight are held in memory; a snapshot every 10,000 events is
   where opening starts from.
P8 *Fail closed.* After a failure the state is thrown away and read again before it is used.
P9 *No leader.* Every process that has opened the campaign is a replica: to act it takes the turn,
   follows the events it has not seen, chooses, appends and commits. Threads of one process share a
   turn: whoever gets it does the work of all that wait.
"""

from __future__ import annotations

import os
import time
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from tightrope.errors import (
    CampaignError,
    HaltedError,
    InputError,
    PolicyError,
    ReportError,
    StoreError,
    TightropeError,
)
from tightrope.live.arguments import as_policy, known_who, microseconds, own_name, positive
from tightrope.live.changing import Relearning
from tightrope.live.controller import Penalty
from tightrope.live.core import Core, digest_of
from tightrope.live.events import START, Event, Row
from tightrope.live.following import Follower, unknown_campaign
from tightrope.live.kinds import Discarded, Paused, Upgraded
from tightrope.live.log import events_of, rows_of, whole_log
from tightrope.live.outlook import Outlook
from tightrope.live.sharing import (
    MOST_TOGETHER,
    BrokenError,
    Desk,
    TurnRequest,
    UnexpectedError,
    act_all,
    fail,
)
from tightrope.live.stores import Saved, Store, Turn
from tightrope.live.tickets import Ticket
from tightrope.live.writing import Writer
from tightrope.policies.base import Policy
from tightrope.problem.laws import shown
from tightrope.version import __version__

if TYPE_CHECKING:
    from tightrope.live.describing import CampaignStatus, RefusedReport

__all__ = ["Campaign", "TurnRequest", "unknown_campaign"]

SNAPSHOT_EVERY = 10_000  # events
LONG_REPLAY = 1000  # events that were followed to open a campaign
TOLD = frozenset(["id", "cost", "reward", "penalty", "arm"])  # the names of a report
LONGEST_JUMP = 3600.0  # seconds by which a clock may run ahead of the process's own
JUMPED = "the clock jumped"  # why a campaign is paused
UPTIME = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
LONGEST_SILENCE = 31 * 86400.0  # seconds between two events that a new process takes for true


class Campaign:
    """A campaign in a store; see :func:`open_campaign`. Its methods may be called from threads.

    >>> import tempfile
    >>> from tightrope import Task, open_campaign
    >>> task = Task(arms=["mail", "call"], limits={"complaints": 0.1})
    >>> campaign = open_campaign(f"{tempfile.mkdtemp()}/sales.db", "spring", task=task, budget=20)
    >>> ticket = campaign.ask("lead-1")
    >>> campaign.tell(ticket.id, cost=0.25, reward=1, penalty={"complaints": 0})
    >>> campaign.status()["spent"], campaign.verify().good
    (0.25, True)
    >>> campaign.disconnect()
    """

    def __init__(
        self,
        store: Store,
        name: str,
        *,
        policy: Policy | None = None,
        who: str | None = None,
        owned: bool = False,
    ) -> None:
        """Go on with a campaign that exists. ``owned``: whether ``disconnect`` closes the store."""
        self.name, self.store = name, store
        self._given_who, self._owned = known_who(who), owned
        self._begin(policy)
        _campaigns.add(self)
        with self._desk:
            self._follower.load()

    def _begin(self, policy: Policy | None) -> None:
        """What belongs to one process; a forked one begins anew."""
        self.who = self._given_who or own_name()
        self._desk = Desk(self.name, self._work)
        self._follower = Follower(self.store, self.name, policy)
        self._refused = 0  # reports that were refused and not kept, to be counted
        self._clocks: tuple[int, float] | None = None  # the store's and our own, at the last turn

    # Doing things.

    def do(self, act: Callable[[Writer], Any], tickets: Sequence[str] = ()) -> Any:
        """Have something done in a turn; ``tickets`` are those that it will look at."""
        request = TurnRequest(act, tickets)
        self._desk.perform([request])
        if request.error is not None:
            raise request.error
        return request.result

    def work(self, requests: Sequence[TurnRequest]) -> None:
        """Have requests done in one turn, now; for a caller that has a queue of its own.

        Each ends with its own ``result`` or ``error``; all that succeeded is committed by then.
        """
        with self._desk:
            self._work(requests)

    def _work(self, requests: Sequence[TurnRequest]) -> None:
        while requests:  # more than one turn if a request breaks one
            requests = self._turn(requests)

    def _turn(self, batch: Sequence[TurnRequest]) -> Sequence[TurnRequest]:
        """Do a batch in one turn; returns those that need another one, because it was broken."""
        writer: Writer | None = None
        try:
            with self.store.turn(self.name, self._catch_up) as turn:
                writer = self._writer(turn, batch)
                act_all(batch, writer)
                self._count_refused(writer)
                if writer.rows:
                    turn.append(writer.rows, writer.notes)
                if writer.drop:
                    turn.drop(writer.drop)
        except BaseException as error:
            self._follower.forget()  # it may hold events that were not stored
            return self._end_failed(batch, writer, error)
        self._follower.hash = writer.hash
        for request in batch:
            request.done = True
        self._keep_snapshot(writer)
        return ()

    def _catch_up(self) -> int:
        """Follow what is committed while others have the turn, so that less is left to do in it."""
        if self._follower.core is not None:
            with suppress(TightropeError):  # the turn will tell
                return self._follower.follow_committed().ledger.seq
        return 0

    def _end_failed(
        self, batch: Sequence[TurnRequest], writer: Writer | None, error: BaseException
    ) -> Sequence[TurnRequest]:
        """End the requests of a turn that failed; returns those that another one broke."""
        if isinstance(error, BrokenError):
            fail([error.request], error.__cause__ or error, self.name)
            left = [request for request in batch if request is not error.request]
            for request in left:
                request.error = None
            return left
        if isinstance(error, StoreError) and writer is not None and writer.rows:
            try:
                if self._is_stored(writer.rows[-1], error):
                    for request in batch:
                        request.done = True
                    return ()
            except StoreError as unknown:
                error = unknown
        fail(batch, error, self.name)
        if not isinstance(error, Exception):
            raise error
        return ()

    def _writer(self, turn: Turn, batch: Sequence[TurnRequest]) -> Writer:
        """A writer at the end of the log that knows the past of the tickets it will meet."""
        core = self._follower.current(turn)
        wanted = [one for request in batch for one in request.tickets]
        writer = Writer(core, self._follower.hash, turn, self.who, wanted)
        if core.digest != (own := digest_of(core.controller)):
            core.digest, core.program = own, __version__
            writer.emit(Upgraded(**core.state(), program=core.program))
        self._watch_clock(writer)
        writer.expire()
        return writer

    def _watch_clock(self, writer: Writer) -> None:
        """Pause after a jump of the clock: it would expire tickets and release budget."""
        before, own, now = self._clocks or (None, 0.0), uptime(), writer.clock
        self._clocks = now, own
        last, bound = writer.ledger.at, LONGEST_SILENCE
        if before[0] is not None:
            last, bound = max(before[0], last), LONGEST_JUMP + (own - before[1])
        jumped = (now - last) / 1e6 > bound
        if jumped or writer.ledger.paused == JUMPED:  # log time stands still until it is resumed
            writer.now = writer.ledger.at
        if jumped and writer.ledger.paused != JUMPED:
            writer.emit(Paused(JUMPED))

    def _count_refused(self, writer: Writer) -> None:
        """Write how many reports were refused without being kept, beside other events."""
        self._refused += writer.overflow
        if self._refused and writer.rows:
            writer.emit(Discarded(refused=self._refused))
            self._refused = 0

    def _is_stored(self, row: Row, error: StoreError) -> bool:
        """Whether a turn that failed was stored after all: a new turn knows."""
        try:
            with self.store.turn(self.name) as turn:
                found = turn.read(row.seq - 1, 1)
        except StoreError:
            raise StoreError(
                f"{error}; it is not known whether this was recorded: repeat it with the same id"
            ) from error
        return bool(found) and found[0].hash == row.hash

    def _keep_snapshot(self, writer: Writer) -> None:
        if not writer.rows:
            return
        first, last = writer.rows[0].seq, writer.rows[-1]
        due = first // SNAPSHOT_EVERY != (last.seq + 1) // SNAPSHOT_EVERY
        if due or self._follower.replayed > LONG_REPLAY:  # the next process need not follow so many
            self._follower.replayed = 0
            try:
                self.store.save(self.name, Saved(last.seq, last.hash, writer.core.snapshot()))
            except StoreError as error:  # the log is the truth
                warnings.warn(f"no snapshot: {error}", stacklevel=2)

    # The public half.

    def ask(
        self,
        id: str | None = None,
        *,
        eligible: Sequence[int | str] | None = None,
        expire_after: timedelta | float | None = None,
    ) -> Ticket:
        """Which arm to pull now. The same ``id`` again gives the same ticket, and its state.

        ``eligible``: the arms that may be pulled this time, by name or number. ``expire_after``:
        how long this ticket is waited for, if not as long as the campaign's.
        """
        ttl = None if expire_after is None else microseconds(expire_after)
        return self.do(lambda w: w.ask(id, eligible, ttl), () if id is None else (str(id),))  # type: ignore[no-any-return]

    def ask_many(
        self,
        count: int | None = None,
        *,
        ids: Sequence[str] | None = None,
        eligible: Sequence[int | str] | None = None,
        expire_after: timedelta | float | None = None,
    ) -> list[Ticket]:
        """As many tickets in one turn, or one for each of ``ids``; fewer if the budget ends."""
        ttl = None if expire_after is None else microseconds(expire_after)
        names: Sequence[str | None] = [None] * (count or 0) if ids is None else ids
        if not names or (count is not None and count != len(names)):
            raise InputError(f"count = {shown(count)}: must be positive, and as many as the ids")

        def act(writer: Writer) -> list[Ticket]:
            found: list[Ticket] = []
            if ids is not None:
                writer.check_ids(ids, eligible, ttl)
            for one in names:
                try:
                    found.append(writer.ask(one, eligible, ttl))
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
        id: str,
        cost: float | None = None,
        reward: float | None = None,
        penalty: Penalty = None,
        *,
        arm: int | str | None = None,
    ) -> None:
        """What came of a ticket. Telling the same again is harmless.

        ``arm``: the arm that was pulled, where another system acts (``shadow``).
        """
        self.do(lambda w: w.tell(id, cost, reward, penalty, arm), (str(id),))

    def tell_many(self, reports: Iterable[Mapping[str, Any]]) -> list[ReportError]:
        """Many reports in as few turns as possible; returns the errors of those refused.

        A report has the names of ``tell``'s arguments: ``{"id": ..., "cost": ..., ...}``.
        """
        told = [_as_told(report) for report in reports]
        errors: list[ReportError] = []
        for start in range(0, len(told), MOST_TOGETHER):
            some = told[start : start + MOST_TOGETHER]
            try:
                found = self.do(partial(_tell_all, some), [str(one[0]) for one in some])
            except UnexpectedError:  # one of them broke the turn: the others have their own
                requests = [TurnRequest(_telling(one), (str(one[0]),)) for one in some]
                self._desk.perform(requests)
                found = [one.error for one in requests if one.error is not None]
            for error in found:
                if not isinstance(error, ReportError):
                    raise error
                errors.append(error)
        return errors

    def void(self, id: str) -> None:
        """Nothing was done for this ticket: its reservation is free again."""
        self.do(lambda w: w.void(id), (str(id),))

    def amend(
        self,
        id: str,
        cost: float | None = None,
        penalty: Mapping[str, float] | None = None,
        *,
        note: str | None = None,
    ) -> None:
        """Other money for a ticket that was told; what was learned from it stays."""
        self.do(lambda w: w.amend(id, cost, penalty, note), (str(id),))

    def amend_many(self, bill: Iterable[Mapping[str, Any]], *, note: str | None = None) -> int:
        """Amend tickets from a bill: rows with ``id``, ``cost`` and ``penalty``. All or none."""
        rows = [dict(row) for row in bill]

        def act(writer: Writer) -> int:
            for row in rows:  # first look, so that nothing is amended if one cannot be
                writer.check_amend(row)
            for row in rows:
                writer.amend(row["id"], row.get("cost"), row.get("penalty"), note)
            return len(rows)

        return int(self.do(act, [str(row.get("id")) for row in rows]))

    def correct(
        self, number: int, cost: float | None = None, reward: float | None = None,
        penalty: Penalty = None, *, id: str | None = None,
    ) -> None:  # fmt: skip
        """Tell a quarantined report, by its number, as it should have been."""
        ticket = self._quarantined_ticket(number) if id is None else id
        self.do(lambda w: w.correct(number, ticket, cost, reward, penalty), (ticket,))

    def discard(self, number: int, *, note: str | None = None) -> None:
        """Close a quarantined report that nobody will correct."""
        self.do(lambda w: w.discard(number, note))

    def pause(self, why: str = "by hand", *, note: str | None = None) -> None:
        """Make no decisions until ``resume``; reports are taken."""
        self.do(lambda w: w.pause(why, note))

    def resume(self) -> None:
        """Decide again."""
        self.do(lambda w: w.resume())

    def close(self) -> None:
        """Make no more decisions, for good; reports are still taken."""
        self.do(lambda w: w.close())

    def pin(self, arm: int | str | None) -> None:
        """Pull this arm until further notice; None lets the policy decide again."""
        self.do(lambda w: w.pin(arm))

    def add_budget(self, amount: float) -> None:
        """So much more budget from here on."""
        self.do(lambda w: w.add_budget(amount))

    def add_arm(self, name: str, **facts: Any) -> int:
        """A new arm; arguments and result as of :meth:`Controller.add_arm`."""
        return int(self.do(lambda w: w.add_arm(name=name, **facts)))

    def retire_arm(self, arm: int | str) -> None:
        """Never pull this arm again; its tickets in flight may still be told."""
        self.do(lambda w: w.retire_arm(arm))

    def reprice(self, arm: int | str, **prices: Any) -> None:
        """Other known prices of an arm; as :meth:`Controller.reprice`."""
        self.do(lambda w: w.reprice(arm=arm, **prices))

    def change(
        self,
        *,
        limits: Mapping[str, Any] | None = None,
        policy: Policy | str | None = None,
        expire_after: timedelta | float | None = None,
        per_day: float | None = None,
        archives: Sequence[str] = (),
    ) -> None:
        """Other limits, another policy, another expiry from here on.

        The new policy learns again from every report in the log; limits keep their names.
        ``archives``: the files with the events that were archived, if some were.
        """
        with self._desk:
            self.do(self.prepared_change(limits, policy, expire_after, per_day, archives))

    def prepared_change(
        self,
        limits: Mapping[str, Any] | None = None,
        policy: Policy | str | None = None,
        expire_after: timedelta | float | None = None,
        per_day: float | None = None,
        archives: Sequence[str] = (),
    ) -> Callable[[Writer], None]:
        """What makes a ``change`` in a turn, after it has learned from the log up to here."""
        core, changes, learning = self.refreshed(), dict[str, Any](), None
        if expire_after is not None:
            changes["expire_after"] = microseconds(expire_after)
        if per_day is not None:
            changes["per_day"] = positive(per_day, "per_day")
        chosen, text = as_policy(policy) if policy is not None else (None, None)
        if limits is not None or chosen is not None:
            rows = whole_log(self.store, self.name, archives)
            learning = Relearning(core, limits, chosen, events_of(rows, START))

        def act(writer: Writer) -> None:
            now = writer.core
            if chosen is not None:
                self._follower.policy = now.given = chosen
            rest = [] if learning is None else writer.turn.read(learning.seq, 10**9)
            changed = now.controller if learning is None else learning.controller
            settings = replace(now.settings, **changes)
            writer.change(learning, rest, text or now.policy_text, settings, digest_of(changed))

        return act

    def refreshed(self) -> Core:
        """The state after all events that are committed now."""
        with self._desk:
            return self._follower.refreshed()

    def status(self) -> CampaignStatus:
        """Where the campaign stands, in the user's units."""
        from tightrope.live.describing import status_of

        with self._desk:
            return status_of(self.name, self.refreshed())

    def outlook(self, doubt: float = 0.01) -> Outlook:
        """What can be said now about the end; see :meth:`Controller.outlook`."""
        with self._desk:
            return self.refreshed().controller.outlook(doubt)

    def events(self, after: int = 0, count: int | None = None) -> Iterator[Event]:
        """The log, in order, from number ``after`` + 1 on; read in short pieces."""
        return events_of(rows_of(self.store, self.name, after, count))

    def notes(self, forget: Sequence[int] = ()) -> dict[int, str]:
        """Free text by event number; ``forget`` deletes some of it first."""
        return self.store.notes(self.name, forget)

    def ticket(self, id: str) -> Ticket:
        """A ticket and its state, without any change."""
        from tightrope.live.describing import events_of, ticket_of

        with self._desk:
            return ticket_of(self.refreshed(), id, events_of(self.store, self.name, id))

    def why(self, id: str) -> Any:
        """Why a ticket's arm was chosen: what was known then."""
        from tightrope.live.describing import why_of

        return why_of(self.store, self.name, self._follower.policy, id)

    def quarantine(self) -> list[RefusedReport]:
        """The refused reports that wait to be corrected or discarded."""
        from tightrope.live.describing import refused_of

        with self._desk:
            numbers = dict(self.refreshed().ledger.quarantine)
        return refused_of(self.store, self.name, numbers)

    def _quarantined_ticket(self, number: int) -> str:
        found = self.refreshed().ledger.quarantine.get(number)
        if found is None:
            raise InputError(f"quarantine = {shown(number)}: is not a kept report of a ticket")
        return found

    def verify(self, progress: Callable[[int], None] | None = None) -> Any:
        """Follow the whole log again, and compare with every snapshot; see ``Verified``."""
        from tightrope.live.verifying import verified

        return verified(self.store, self.name, self._follower.policy, progress)

    def disconnect(self) -> None:
        """Let go of the store. The campaign goes on in other processes, and can be opened again."""
        if self._owned:
            self.store.close()

    def __enter__(self) -> Campaign:
        return self

    def __exit__(self, *error: object) -> None:
        self.disconnect()

    def __repr__(self) -> str:
        return f"Campaign({self.name!r} in {self.store.url!r})"


_campaigns: weakref.WeakSet[Campaign] = weakref.WeakSet()


def _begin_again() -> None:
    """In a forked process: its parent's threads, and what they hold, are not here."""
    for campaign in list(_campaigns):
        campaign._begin(campaign._follower.policy)


os.register_at_fork(after_in_child=_begin_again)


def _as_told(report: Mapping[str, Any]) -> Sequence[Any]:
    """The arguments of ``tell`` in a report, in order."""
    if report.keys() <= TOLD and "id" in report:
        given = report.get
        return given("id"), given("cost"), given("reward"), given("penalty"), given("arm")
    unknown = set(report) - TOLD
    wrong = sorted(unknown)[0] if unknown else "id is missing"
    raise InputError(f"report {shown(dict(report))}: {wrong!r}: must be as for tell")


def _telling(told: Sequence[Any]) -> Callable[[Writer], None]:
    return lambda writer: writer.tell(*told)


def _tell_all(reports: Sequence[Sequence[Any]], writer: Writer) -> list[TightropeError]:
    """Tell reports; returns the errors of those that were refused."""
    errors: list[TightropeError] = []
    for ticket, cost, reward, penalty, arm in reports:
        try:
            writer.tell(ticket, cost, reward, penalty, arm)
        except (HaltedError, StoreError, PolicyError):
            raise
        except TightropeError as error:
            errors.append(error)
    return errors


def uptime() -> float:
    """Seconds on a clock that nobody sets, and that goes on while the machine sleeps."""
    return time.clock_gettime(UPTIME)
