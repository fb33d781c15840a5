"""The contract of every store of campaigns."""

from __future__ import annotations

import os
import sqlite3
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import partial
from typing import ClassVar

from tightrope.errors import StoreBusyError, StoreError
from tightrope.live.events import START, Row, stored
from tightrope.live.stores import Saved, Store, open_store


def _rows(count: int, after: int = 0, ticket: str | None = None, who: str = "me") -> list[Row]:
    """Events with numbers above ``after``."""
    text = r"a \"quoted\" \\ 'word' {x,y} " + "\u00e9 \u2713"
    return [
        stored(START, seq, 10 * seq, "asked", ticket, who, 1, f'{{"of": {seq}, "text": "{text}"}}')
        for seq in range(after + 1, after + count + 1)
    ]


def _append(
    store: Store, name: str, rows: Sequence[Row], notes: dict[int, str] | None = None
) -> None:
    with store.turn(name) as turn:
        turn.append(rows, notes or {})


@contextmanager
def _refused(kind: type[Exception]) -> Iterator[None]:
    """The block must raise this error, with one line."""
    told = None
    try:
        yield
    except kind as error:
        told = str(error)
    assert told is not None, f"{kind.__name__} was not raised"
    assert "\n" not in told, f"{told!r}: must be one line"


def _in_threads(*acts: Callable[[], None]) -> None:
    """Run these functions at once; raises the error of one of them."""
    with ThreadPoolExecutor(len(acts)) as pool:
        for done in [pool.submit(act) for act in acts]:
            done.result()


def _in_fork(act: Callable[[], object]) -> None:
    """Run a function in a forked process, which must not fail."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads
        child = os.fork()
    if child == 0:
        status = 1
        try:
            act()
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0, "the forked process failed"


class _UndoneError(Exception):
    """A deliberate failure within a turn."""


class StoreContract:
    """The contract of every store of campaigns: override ``store`` and ``again``."""

    durable: ClassVar[bool] = True  # whether another handle or process sees committed events

    def store(self) -> Store:
        """A new, empty store; called once in each test."""
        raise NotImplementedError("make a new, empty store")

    def again(self, store: Store) -> Store:
        """Another handle on the same data; the same handle, if the store is in memory."""
        raise NotImplementedError("open the same store again")

    @contextmanager
    def _two(self) -> Iterator[tuple[Store, Store]]:
        """Two handles."""
        with closing(self.store()) as first, closing(self.again(first)) as second:
            yield first, second

    def test_events_are_read_in_order(self) -> None:
        """All events from a number on, at most as many as requested; every column unchanged."""
        with self._two() as (store, other):
            rows = _rows(2500)
            assert store.read("a") == []
            _append(store, "a", rows[:1200])
            _append(store, "a", rows[1200:])
            for one in (store, other):
                assert one.read("a", 0, 5000) == rows
                assert one.read("a") == rows[:1000]
                assert one.read("a", 2490) == rows[2490:]
                assert one.read("a", 7, 3) == rows[7:10]
                assert one.read("a", 2500) == []
                assert one.read("b") == []
            for after in (0, 1199, 2400, 2499, 2500, 2600):
                for handle in (store, other, store):
                    with handle.turn("a") as turn:
                        assert turn.read(after) == rows[after : after + 1000]
                        assert turn.read(after, 2) == rows[after : after + 2]
                        assert turn.read(100, 2) == rows[100:102]
            for row in store.read("a", 0, 1):
                kinds = (int, int, str, type(None), str, int, str, bytes)
                assert tuple(map(type, row)) == kinds

    def test_events_are_found_by_ticket(self) -> None:
        """In the order of the log, whatever the order of the tickets, and each once."""
        with self._two() as (store, other):
            tickets = ["1-00000001", "a'b\\\"c", None, "{x,y}", "1-00000001"]
            rows = [_rows(1, seq, ticket)[0] for seq, ticket in enumerate(tickets)]
            _append(store, "a", rows)
            _append(store, "b", _rows(3, ticket="1-00000001"))
            wanted = ["{x,y}", "none", "1-00000001", "a'b\\\"c", "{x,y}"]
            found = [rows[0], rows[1], rows[3], rows[4]]
            assert store.read("a", tickets=wanted) == other.read("a", tickets=wanted) == found
            assert store.read("a", tickets=[]) == store.read("c", tickets=wanted) == []
            with other.turn("a") as turn:
                assert turn.find(wanted) == found
                assert turn.find(["none"]) == turn.find([]) == []

    def test_many_tickets_are_found_at_once(self) -> None:
        """More than a database takes as arguments, perhaps."""
        with self._two() as (store, _):
            rows = [_rows(1, seq, f"t{seq}")[0] for seq in range(1300)]
            _append(store, "a", rows)
            wanted = [f"t{seq % 1300}" for seq in range(1400, 0, -1)]
            assert store.read("a", tickets=wanted) == rows

    def test_numbers_have_no_gaps_and_come_once(self) -> None:
        """And a turn that was refused leaves nothing."""
        with self._two() as (store, other):
            rows = _rows(6)
            _append(store, "a", rows[:3])
            for wrong in (rows[4:], rows[2:4], rows[:1], [rows[3], rows[5]], [rows[3], rows[3]]):
                for handle in (store, other):
                    with _refused(StoreError):
                        _append(handle, "a", wrong)
                    assert other.read("a") == rows[:3]
            _append(other, "a", rows[3:])
            assert store.read("a") == rows

    def test_a_log_may_begin_at_any_number(self) -> None:
        """A copy of a log whose first events are archived starts like this."""
        with self._two() as (store, _):
            rows = _rows(6)
            _append(store, "a", rows[3:5])
            _append(store, "a", rows[5:])
            assert store.read("a") == rows[3:]

    def test_an_exception_leaves_nothing(self) -> None:
        """After any appends and drops."""
        with self._two() as (store, other):
            with _refused(_UndoneError), store.turn("new") as turn:
                turn.append(_rows(3, ticket="t"), {1: "a note"})
                raise _UndoneError
            assert other.names() == []
            assert other.read("new") == other.read("new", tickets=["t"]) == []
            assert other.notes("new") == {}
            _append(other, "new", _rows(5))
            with _refused(_UndoneError), store.turn("new") as turn:
                turn.append(_rows(2, 5), {6: "a note"})
                turn.drop(3)
                raise _UndoneError
            assert other.read("new") == store.read("new") == _rows(5)
            assert store.notes("new") == {}
            _append(store, "new", _rows(1, 5))

    def test_campaigns_have_names(self) -> None:
        """In the order in which they were made; a turn without events makes none."""
        with self._two() as (store, other):
            names = ["z", "a", 'it\'s "quoted" \\ 100 % {a}', "\u00e9\u2713 \U0001f3aa"]
            assert store.names() == []
            for number, name in enumerate(names, start=1):
                _append(store, name, _rows(number))
                with store.turn("none") as turn:
                    assert turn.read(0) == []
            assert store.names() == other.names() == names
            assert [len(other.read(name)) for name in names] == [1, 2, 3, 4]

    def test_notes_can_be_forgotten(self) -> None:
        """The events that they belong to stay; notes are any text."""
        with self._two() as (store, other):
            odd = "\u00e9\u2713 \U0001f3aa\n'\"\\ {}, %s NULL"
            told = {1: "x" * 5000, 3: odd, 4: "", 5: "NULL"}
            _append(store, "a", _rows(3), {n: text for n, text in told.items() if n <= 3})
            _append(store, "a", _rows(2, 3), {n: text for n, text in told.items() if n > 3})
            _append(store, "b", _rows(1), {1: "of another"})
            assert store.notes("a") == other.notes("a") == told
            assert list(store.notes("a")) == [1, 3, 4, 5]
            left = {1: told[1], 5: told[5]}
            assert store.notes("a", [3, 4, 99]) == left
            assert other.notes("a") == left
            assert other.notes("b") == {1: "of another"}
            assert other.notes("c") == {}
            assert store.read("a") == _rows(5)

    def test_features_outside_of_the_log_can_be_erased(self) -> None:
        """Those of events up to a number, except some; older snapshots go with them."""
        with self._two() as (store, other):
            _append(store, "a", _rows(9))
            assert store.vectors("a", 1, 9) == {}
            texts = {seq: f"salt\u2713 text {seq}" for seq in (2, 3, 5, 8)}
            with store.turn("a") as turn:
                turn.keep({})
                turn.keep(texts)
            for seq in (4, 6):
                store.save("a", Saved(seq, bytes(16), b"body"))
            assert store.vectors("a", 1, 9) == other.vectors("a", 1, 9) == texts
            assert other.vectors("a", 3, 5) == {3: texts[3], 5: texts[5]}
            assert other.vectors("b", 1, 9) == {}
            with _refused(_UndoneError), store.turn("a") as turn:
                turn.keep({9: "x"})
                turn.erase(9, (), 9)
                raise _UndoneError
            with other.turn("a") as turn:
                assert turn.erase(5, (3,), 6) == 2
            assert store.vectors("a", 1, 9) == {3: texts[3], 8: texts[8]}
            assert store.saved("a", 5) is None
            assert store.saved("a") is not None

    def test_the_last_snapshot_is_found(self) -> None:
        """Or the last one up to a number; a second one of the same event replaces the first."""
        with self._two() as (store, other):
            _append(store, "a", _rows(9))
            _append(store, "b", _rows(9))
            bodies = [bytes(range(256)), b"", b"\0" * 300_000]
            made = [
                Saved(seq, bytes([seq] * 16), body)
                for seq, body in zip((2, 5, 8), bodies, strict=True)
            ]
            assert store.saved("a") is None
            for saved in (made[1], made[0], made[2]):
                store.save("a", saved)
            for one in (store, other):
                assert one.saved("a") == made[2]
                assert one.saved("a", 8) == made[2]
                assert one.saved("a", 7) == made[1]
                assert one.saved("a", 2) == made[0]
                assert one.saved("a", 1) is None
                assert one.saved("b") is None
            other.save("a", made[2]._replace(body=b"another"))
            assert store.saved("a") == made[2]._replace(body=b"another")

    def test_big_bodies_are_kept(self) -> None:
        """A body of two million characters, and many in one turn."""
        with self._two() as (store, other):
            big = [row._replace(body='{"x":"' + '\\"y' * 500_000 + '"}') for row in _rows(1)]
            rows = big + [row._replace(body="z" * 2000) for row in _rows(1500, 1)]
            _append(store, "a", rows)
            assert other.read("a", 0, 5000) == rows

    def test_the_clock_runs_in_microseconds(self) -> None:
        """And does not go back within a turn."""
        with self._two() as (store, _), store.turn("a") as turn:
            first = turn.now()
            time.sleep(0.02)
            second = turn.now()
            assert isinstance(first, int)
            assert first < second < first + 10_000_000
            assert abs(first - time.time_ns() // 1000) < 600_000_000

    def test_old_events_can_be_dropped(self) -> None:
        """Later events stay, and the log continues."""
        with self._two() as (store, other):
            rows = _rows(8, ticket="t")
            _append(store, "a", rows[:6])
            with store.turn("a") as turn:
                turn.append(rows[6:7], {})
                turn.drop(4)
            assert store.read("a") == other.read("a") == rows[4:7]
            assert other.read("a", tickets=["t"]) == rows[4:7]
            with other.turn("a") as turn:
                assert turn.read(2) == turn.read(4) == turn.find(["t"]) == rows[4:7]
                turn.append(rows[7:], {})
                turn.drop(2)
            assert store.read("a") == rows[4:]

    def test_turns_never_interleave(self) -> None:
        """Two handles in two threads each read the end of the log and append to it."""
        with self._two() as (store, other):

            def work(handle: Store, who: str) -> None:
                for _ in range(25):
                    with handle.turn("a") as turn:
                        seen = turn.read(0, 10_000)
                        time.sleep(0.0005)
                        turn.append(_rows(2, len(seen), who=who), {})

            handles = {"x": store, "y": other, "z": store}
            _in_threads(*(partial(work, handle, who) for who, handle in handles.items()))
            rows = store.read("a", 0, 10_000)
            assert [row.seq for row in rows] == list(range(1, 151))
            whose = [row.who for row in rows]
            assert whose[::2] == whose[1::2]
            assert {who: whose.count(who) for who in "xyz"} == {"x": 50, "y": 50, "z": 50}

    def test_who_waits_too_long_is_told(self) -> None:
        """Another handle holds the turn; afterwards all is well."""
        with self._two() as (store, other):
            _append(store, "a", _rows(1))
            begun, finish = threading.Event(), threading.Event()

            def hold() -> None:
                with store.turn("a") as turn:
                    turn.append(_rows(1, 1), {})
                    begun.set()
                    finish.wait(30)

            def wait() -> None:
                begun.wait(30)
                other.deadline = 0.2
                try:
                    with _refused(StoreBusyError), other.turn("a"):
                        pass
                    assert len(other.read("a")) == 1
                finally:
                    other.deadline = Store.deadline
                    finish.set()

            _in_threads(hold, wait)
            with other.turn("a") as turn:
                assert turn.read(0) == _rows(1) + _rows(1, 1)
                turn.append(_rows(1, 2), {})
            assert len(store.read("a")) == 3

    def test_campaigns_do_not_meet(self) -> None:
        """Two handles work on two campaigns at once."""
        with self._two() as (store, other):

            def work(handle: Store, name: str) -> None:
                for number in range(20):
                    with handle.turn(name) as turn:
                        assert len(turn.read(0)) == number
                        turn.append(_rows(1, number, "t", name), {number + 1: name})

            _in_threads(partial(work, store, "a"), partial(work, other, "b"))
            for name in "ab":
                assert {row.who for row in store.read(name, tickets=["t"])} == {name}
                assert store.notes(name) == dict.fromkeys(range(1, 21), name)

    def test_a_backup_is_a_file_with_everything(self) -> None:
        """The copy opens as a store; an existing path is refused, and nothing is left."""
        with self._two() as (store, _), tempfile.TemporaryDirectory() as folder:
            _append(store, "a", _rows(6, ticket="t"), {2: "\u2713"})
            _append(store, "b\u2713", _rows(2))
            saved = Saved(4, bytes(16), b"\0body")
            store.save("a", saved)
            with store.turn("a") as turn:
                turn.drop(2)
            path = os.path.join(folder, "backup.db")
            store.backup(path)
            assert os.listdir(folder) == ["backup.db"]
            with _refused(ValueError):
                store.backup(path)
            assert os.listdir(folder) == ["backup.db"]
            with closing(sqlite3.connect(path)) as whole:
                assert whole.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            with closing(open_store(path, create=False)) as copy:
                assert copy.names() == ["a", "b\u2713"]
                assert copy.read("a") == store.read("a") == _rows(6, ticket="t")[2:]
                assert copy.read("b\u2713") == _rows(2)
                assert copy.notes("a") == store.notes("a")
                assert copy.saved("a") == saved
                _append(copy, "a", _rows(1, 6))
            assert len(store.read("a")) == 4

    def test_a_forked_process_goes_on(self) -> None:
        """And so does its parent, with the handles that both have."""
        with self._two() as (store, other):
            _append(store, "a", _rows(1))
            assert len(other.read("a")) == 1

            def act() -> None:
                assert store.read("a") == _rows(1)
                with other.turn("a") as turn:
                    assert turn.read(0) == _rows(1)
                    turn.append(_rows(1, 1), {2: "of the child"})
                store.save("a", Saved(2, bytes(16), b"child"))
                store.close()

            _in_fork(act)
            seen = 2 if self.durable else 1
            for handle in (store, other):
                with handle.turn("a") as turn:
                    assert len(turn.read(0)) == seen
                    turn.append(_rows(1, seen), {})
                seen += 1
            assert len(store.read("a")) == seen

    def test_what_was_committed_stays(self) -> None:
        """After the handle was closed twice; a closed handle accepts nothing."""
        if not self.durable:
            return
        with self._two() as (store, other):
            _append(store, "a", _rows(3), {1: "x"})
            store.save("a", Saved(3, bytes(16), b"body"))
            store.close()
            store.close()
            with _refused(StoreError):
                _append(store, "a", _rows(1, 3))
            with _refused(StoreError):
                store.read("a")
            with closing(self.again(other)) as third:
                for one in (other, third):
                    assert one.read("a") == _rows(3)
                    assert one.notes("a") == {1: "x"}
                    assert one.saved("a") == Saved(3, bytes(16), b"body")
                    assert one.names() == ["a"]
