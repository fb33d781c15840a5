"""Campaigns in PostgreSQL: lost connections, stopped holders, a server that restarts."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from contextlib import closing, suppress
from urllib.parse import quote

import psycopg
import pytest

from tests.live.cheap import Rotation
from tightrope import Limit, Task, open_campaign
from tightrope.errors import HaltedError, InputError, StoreBusyError, StoreError
from tightrope.live import archive
from tightrope.live.archive import backup_store, restore_store
from tightrope.live.stores import base, copies, open_store, postgres
from tightrope.testing.stores import _in_threads, _rows

TASK = Task(["mail", "call"], {"complaints": Limit(0.5)})


def opened(url, **options):
    return open_campaign(url, "spring", task=TASK, budget=100, policy=Rotation(), **options)


def pull(campaign, *ids):
    for ticket in campaign.ask_many(ids=ids):
        campaign.tell(ticket.id, cost=0.5, reward=1, penalty=0)


def append(store, name, count):
    with store.turn(name) as turn:
        rows = turn.read(0, 100_000)
        turn.append(_rows(count, len(rows)), {})


def only_once(campaign, *ids):
    """Each of these was asked and told once, and nothing else."""
    events = [(event.kind, event.ticket) for event in campaign.events()]
    for kind in ("asked", "told"):
        assert sorted(ticket for told, ticket in events if told == kind) == sorted(ids)
    status = campaign.status()
    assert (status["spent"], status["reserved"]) == (0.5 * len(ids), 0.0)
    assert campaign.verify().good


@pytest.fixture
def store(postgres_url):
    with closing(open_store(postgres_url)) as made:
        yield made


def test_with_several_hosts_the_one_that_leads_is_taken(postgres_url):
    host = postgres_url.partition("host=")[2].partition("&")[0]
    with closing(open_store(postgres_url.replace(host, f"/nowhere,{host}"))) as store:
        append(store, "a", 2)
        assert len(store.read("a")) == 2
        given = store._writer.connection.info.get_parameters()
        assert given["target_session_attrs"] == "read-write"


def test_many_may_make_the_tables_at_once(postgres_url):
    _in_threads(*[lambda: open_store(postgres_url).close()] * 6)
    with closing(open_store(postgres_url, create=False)) as store:
        assert store.names() == []


def test_a_database_without_campaigns_is_made_only_if_asked(postgres_url, postgres_server):
    with pytest.raises(InputError, match="there are no campaigns in it"):
        open_store(postgres_url, create=False)
    with pytest.raises(InputError, match="there are no campaigns in it"):
        open_campaign(postgres_url, "spring")
    with postgres_server.connect() as other:
        found = "SELECT count(*) FROM pg_tables WHERE schemaname = current_schema()"
        assert other.execute(found).fetchone() == (0,)


def test_a_newer_format_is_refused(store, postgres_url):
    postgres.asked(
        store._writer.connection, f"UPDATE tightrope_format SET number = {base.FORMAT + 1}"
    )
    with pytest.raises(HaltedError, match="its format is 2; must be at most 1"):
        open_store(postgres_url)


def test_tables_of_others_are_left_alone(postgres_url):
    with closing(psycopg.connect(postgres_url, autocommit=True)) as other:
        other.execute("CREATE TABLE campaigns (slogan text); CREATE TABLE events (party text)")
        with opened(postgres_url) as campaign:
            pull(campaign, "a", "b")
            only_once(campaign, "a", "b")
        assert other.execute("SELECT * FROM campaigns, events").fetchall() == []


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:s3cret@/base?host=/nowhere",
        "postgresql://me:s3cret@127.0.0.1:1/base",
        "postgres://me@127.0.0.1:1/base?password=s3cret",
        "postgresql://me:s3cret@127.0.0.1:wrong/base",
        "postgresql://me:s3cret@[::1/base",
        "postgresql://me:s3cret@host/base?unknown=1",
    ],
    ids=["no socket", "no server", "in the query", "wrong port", "no bracket", "unknown word"],
)
def test_a_failure_is_told_in_one_line_without_the_password(url):
    with pytest.raises((StoreError, InputError), match=r"^store .*postgresql://") as caught:
        open_store(url)
    assert "s3cret" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_store_is_shown_without_its_password(postgres_url):
    with closing(open_store(postgres_url + "&password=s3cret")) as store:
        assert "s3cret" not in store.url
        assert store.url.startswith("postgresql://")


def test_commits_are_durable_and_sessions_bounded(postgres_url):
    """Whatever the defaults of the database are."""
    options = quote(" -csynchronous_commit=off -cdefault_transaction_isolation=serializable")
    with closing(open_store(postgres_url + options)) as store:
        store.deadline = 4.0
        with store.turn("a") as turn:
            connection = store._writer.connection
            wanted = {
                "synchronous_commit": "on",
                "transaction_isolation": "read committed",
                "lock_timeout": "4s",
                "statement_timeout": "4s",
                "idle_in_transaction_session_timeout": "2s",
            }
            if connection.info.server_version >= postgres.HAS_TRANSACTION_TIMEOUT:
                wanted["transaction_timeout"] = "8s"
            for name, value in wanted.items():
                assert postgres.asked(connection, f"SHOW {name}") == [[(value,)]]
            turn.append(_rows(1), {})


def test_plans_are_those_of_large_tables_from_the_start(store):
    """A session keeps its plans while the log grows."""
    append(store, "a", 1)
    for asked, index in (
        ("tr_find('a', '{x,y}')", "tightrope_events_of_tickets"),
        ("tr_read('a', 5, 10)", "tightrope_events_pkey"),
        ("tr_state('a')", "Scan Backward using tightrope_events_pkey"),
    ):
        message = f"SET plan_cache_mode = force_generic_plan; EXPLAIN EXECUTE {asked}"
        plan = "\n".join(line for (line,) in postgres.asked(store._writer.connection, message)[0])
        assert index in plan
        assert "Seq Scan" not in plan
        assert "Sort" not in plan


def test_a_turn_is_two_messages(postgres_url, monkeypatch):
    """To begin and to end; one more to look for the id that a client gives."""
    with opened(postgres_url) as campaign:
        pull(campaign, "a")
        messages = []
        asked = postgres.asked
        monkeypatch.setattr(
            postgres,
            "asked",
            lambda *told, **given: messages.append(told[1]) or asked(*told, **given),
        )
        ticket = campaign.ask()
        assert len(messages) == 2
        campaign.tell(ticket.id, cost=0.5, reward=1, penalty=0)
        assert len(messages) == 4
        campaign.ask("b")
        assert len(messages) == 7


def end_sessions(server):
    """End all sessions of stores, as an administrator may."""
    with server.connect() as other:
        ended = other.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            " WHERE application_name = 'tightrope'"
        ).fetchall()
    assert ended
    assert all(one for (one,) in ended)


def test_a_connection_that_ends_between_turns_is_made_anew(postgres_url, postgres_server):
    with opened(postgres_url) as campaign:
        pull(campaign, "a")
        end_sessions(postgres_server)
        pull(campaign, "b")
        end_sessions(postgres_server)
        assert campaign.status()["told"] == 2
        end_sessions(postgres_server)
        campaign.store.save("spring", campaign.store.saved("spring"))
        only_once(campaign, "a", "b")


@pytest.mark.parametrize("then", ["nothing", "read", "append"])
def test_a_connection_that_ends_in_a_turn_leaves_nothing(store, postgres_server, then):
    append(store, "a", 1)

    def act():
        with store.turn("a") as turn:
            turn.append(_rows(2, 1), {})
            end_sessions(postgres_server)
            if then == "read":
                turn.read(0)
            elif then == "append":
                turn.append(_rows(1, 3), {2: "a note"})

    with pytest.raises(StoreError, match=r"terminating connection|closed"):
        act()
    assert store.read("a") == _rows(1)
    append(store, "a", 1)
    assert store.read("a") == _rows(2)


def test_a_turn_that_only_reads_may_lose_its_connection(store, postgres_server):
    append(store, "a", 1)
    with store.turn("a") as turn:
        end_sessions(postgres_server)
        assert turn.read(0) == _rows(1)
    append(store, "a", 1)
    assert store.read("a") == _rows(2)


def test_a_turn_that_was_lost_does_not_deny_what_others_wrote(store, postgres_url, postgres_server):
    append(store, "a", 1)

    def act():
        with store.turn("a") as turn:
            end_sessions(postgres_server)
            with closing(open_store(postgres_url)) as other:
                append(other, "a", 2)
            last = store.read("a")[-1]
            assert turn.read(last.seq - 1) == [last]

    with pytest.raises(StoreError, match=r"terminating connection|closed"):
        act()
    assert store.read("a") == _rows(3)


def test_a_failed_statement_is_not_committed(store):
    """Not even if its error was caught within the turn."""
    append(store, "a", 1)

    def act():
        with store.turn("a") as turn:
            turn.append(_rows(1, 1), {})
            with suppress(psycopg.Error):
                postgres.asked(store._writer.connection, "SELECT 1 / 0")

    with pytest.raises(StoreError, match="earlier statement"):
        act()
    assert store.read("a") == _rows(1)


def test_the_primary_key_refuses_a_second_event_of_a_number(store, postgres_url):
    """Correctness does not depend on the lock: here another session does not take it."""
    append(store, "a", 1)

    def act():
        mine = "SELECT id, 2, 0, 'asked', NULL, 'other', 1, '', '' FROM tightrope_campaigns"
        with store.turn("a") as turn, closing(psycopg.connect(postgres_url)) as other:
            turn.append(_rows(1, 1), {})
            other.execute(f"INSERT INTO tightrope_events {mine}")
            other.commit()

    with pytest.raises(StoreError, match="duplicate key"):
        act()
    assert [row.who for row in store.read("a")] == ["me", "other"]


def test_text_that_postgres_cannot_hold_is_refused(store):
    with pytest.raises(StoreError, match="NUL"), store.turn("a") as turn:
        turn.append(_rows(1), {1: "nul \0"})
    assert store.names() == []


HOLDER = """
import sys
from tightrope.errors import StoreError
from tightrope.live.stores import open_store
from tightrope.testing.stores import _rows

store = open_store(sys.argv[1])
store.deadline = float(sys.argv[2])
try:
    with store.turn("a") as turn:
        turn.append(_rows(1, len(turn.read(0))), {})
        print("holds", flush=True)
        sys.stdin.readline()
except StoreError as error:
    print("refused", flush=True)
else:
    print("committed", flush=True)
"""


@pytest.fixture
def start_holder(start_python, postgres_url):
    """Starts a process that has appended an event in its turn, and waits for a line to go on."""
    holders = []

    def start(deadline, program=HOLDER):
        arguments = ("-c", program, postgres_url, str(deadline))
        holders.append(start_python(*arguments, stdin=subprocess.PIPE))
        assert holders[-1].stdout.readline() == "holds\n"
        return holders[-1]

    yield start
    for holder in holders:
        holder.kill()
        with suppress(BrokenPipeError):
            holder.stdin.close()


def test_a_stopped_holder_is_ended_and_others_go_on(store, start_holder):
    append(store, "a", 1)
    holder = start_holder(1.0)
    holder.send_signal(signal.SIGSTOP)
    append(store, "a", 1)
    holder.send_signal(signal.SIGCONT)
    holder.stdin.write("\n")
    holder.stdin.flush()
    assert holder.stdout.readline() == "refused\n"
    assert store.read("a") == _rows(2)


BUSY = """
import sys
from tightrope.errors import StoreError
from tightrope.live.stores import open_store
from tightrope.testing.stores import _rows

store = open_store(sys.argv[1])
store.deadline, head = float(sys.argv[2]), 0
print("holds", flush=True)
while True:
    try:
        with store.turn("a") as turn:
            rows = turn.read(max(head - 1, 0))
            head = rows[-1].seq if rows else 0
            turn.append(_rows(40, head), {})
    except StoreError:
        continue
    head += 40
"""


def test_a_process_that_is_stopped_at_any_moment_is_ended(store, start_holder):
    """Its messages are whole, so that the server never waits for the rest of one with the lock."""
    moments = random.Random(5)
    busy = start_holder(0.4, BUSY)
    for _ in range(15):
        time.sleep(0.03 * moments.random())
        busy.send_signal(signal.SIGSTOP)
        with store.turn("a") as turn:
            turn.append(_rows(1, turn.head or 0), {})
        busy.send_signal(signal.SIGCONT)
    busy.kill()
    append(store, "a", 1)
    rows = store.read("a", 0, 100_000)
    assert rows == _rows(len(rows))


def test_who_waits_for_a_stopped_holder_is_told_after_the_deadline(store, start_holder):
    append(store, "a", 1)
    holder = start_holder(40.0)
    holder.send_signal(signal.SIGSTOP)
    store.deadline = 0.3
    with pytest.raises(StoreBusyError, match=r"no turn within 0.3 s"):
        append(store, "a", 1)
    assert store.read("a") == _rows(1)
    store.deadline = base.DEADLINE
    holder.kill()
    append(store, "a", 1)
    assert store.read("a") == _rows(2)


def test_a_holder_that_does_not_read_its_answer_is_ended(store, postgres_url):
    """As one that was stopped while a long answer was on its way; the buffers between are full."""
    rows = [row._replace(body="x" * 2000) for row in _rows(1000)]
    with store.turn("a") as turn:
        turn.append(rows, {})
    with closing(open_store(postgres_url)) as deaf:
        holding = f"{postgres.BEGIN} EXECUTE tr_lock('a'); EXECUTE tr_read('a', 0, 1000)"
        deaf._writer.connection.pgconn.send_query(holding.encode())
        while deaf._writer.connection.pgconn.flush():
            time.sleep(0.001)
        while not store._look(postgres.DEAF):
            time.sleep(0.01)
        store.deadline = 0.5
        with pytest.raises(StoreBusyError):
            append(store, "a", 1)
        store.deadline = base.DEADLINE
        append(store, "a", 1)
        assert len(store.read("a", 0, 5000)) == 1001


def shared(url):
    """A store that knows of other processes that write to its campaign."""
    made = open_store(url)
    append(made, "a", 1)
    made._shared.add("a")
    return made


def test_the_next_in_line_follows_while_another_has_the_turn(store, postgres_url):
    append(store, "a", 1)
    done = []
    with closing(shared(postgres_url)) as other:

        def waiting():
            done.append(len(other.read("a")))
            return done[-1]

        def take():
            with other.turn("a", waiting) as turn:
                done.append([row.seq for row in turn.read(done[0] - 1)])

        thread = threading.Thread(target=take)
        with store.turn("a") as turn:
            thread.start()
            while not done:
                time.sleep(0.001)
            turn.append(_rows(1, 2), {})
        thread.join(10)
        assert done == [2, [2, 3]], "what it knew, to be compared, and what came after"
        with other.turn("a", waiting):
            held = store._look("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'")
        assert held == [(0,)], "nobody is held up in the queue while one has the turn"


def test_a_next_in_line_that_stops_holds_up_others_for_half_the_deadline(store, postgres_url):
    append(store, "a", 1)
    found = []
    with closing(shared(postgres_url)) as stopped, closing(shared(postgres_url)) as other:
        stopped.deadline = other.deadline = 2.0
        asleep = threading.Event()

        def sleep():
            if not asleep.is_set():
                asleep.set()
                time.sleep(2.5)
            return 1

        def take():
            with stopped.turn("a", sleep) as turn:
                found.append(turn.read(0)[-1].seq)

        thread = threading.Thread(target=take)
        thread.start()
        asleep.wait(10)
        start = time.monotonic()
        with other.turn("a", lambda: 1) as turn:
            turn.append(_rows(1, 3), {})
        assert time.monotonic() - start < 2.0
        thread.join(10)
        assert found == [4], "it has lined up again"
        append(stopped, "a", 1)
        assert [row.seq for row in store.read("a")] == [1, 2, 3, 4, 5]


def test_a_failed_restore_leaves_nothing_in_the_database(postgres_url, tmp_path, monkeypatch):
    path = str(tmp_path / "backup.db")
    for name in ("one", "two"):
        with open_campaign(path, name, task=TASK, budget=100, policy=Rotation()) as campaign:
            pull(campaign, "x", "y")
            campaign.pause(note="why not")
    original = archive._start_epoch

    def failing(store, name):
        if name == "two":
            raise StoreError("the server is tired")
        return original(store, name)

    monkeypatch.setattr(archive, "_start_epoch", failing)
    with pytest.raises(StoreError, match=r"the server is tired$"):
        restore_store(path, postgres_url)
    with closing(open_store(postgres_url)) as store:
        assert store.names() == []
        for name in ("one", "two"):
            assert (store.read(name), store.notes(name), store.saved(name)) == ([], {}, None)
    monkeypatch.undo()
    assert restore_store(path, postgres_url) == {"one": [], "two": []}


def test_a_turn_ends_with_its_process_though_a_forked_one_lives(store, start_holder):
    fork = "        if __import__('os').fork() == 0:\n            sys.exit(sys.stdin.readline())\n"
    holder = start_holder(
        60.0, HOLDER.replace('        print("holds"', fork + '        print("holds"')
    )
    holder.kill()
    append(store, "a", 1)
    assert store.read("a") == _rows(1)


def test_a_server_that_does_not_answer_is_given_up(store):
    store.deadline = 0.3
    append(store, "a", 1)
    assert len(store.read("a")) == 1
    stopped = [one.connection.info.backend_pid for one in (store._writer, store._reader)]
    for process in stopped:
        os.kill(process, signal.SIGSTOP)
    try:
        with pytest.raises(StoreError, match=r"no answer within 1.6 s"):
            append(store, "a", 1)
        with pytest.raises(StoreError, match=r"no answer within 1.6 s"):
            store.read("a")
    finally:
        for process in stopped:
            os.kill(process, signal.SIGCONT)
    store.deadline = base.DEADLINE
    append(store, "a", 1)
    assert store.read("a") == _rows(2)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT], ids=["restart", "crash"])
def test_a_campaign_goes_on_after_the_server_restarts(postgres_url, postgres_server, how):
    with opened(postgres_url) as campaign:
        pull(campaign, "a", "b")
        waiting = campaign.ask("c")
        postgres_server.stop(how)
        try:
            for _ in range(2):
                with pytest.raises(StoreError, match="cannot be"):
                    campaign.ask("d")
                with pytest.raises(StoreError, match="cannot be"):
                    campaign.tell(waiting.id, cost=0.5, reward=1, penalty=0)
                with pytest.raises(StoreError, match="cannot be read"):
                    campaign.status()
        finally:
            postgres_server.start()
        campaign.tell(waiting.id, cost=0.5, reward=1, penalty=0)
        assert campaign.ask("c").state == "told"
        pull(campaign, "d")
        only_once(campaign, "a", "b", "c", "d")


def cut(monkeypatch, how):
    """Lose the next connection at its commit."""
    asked, cuts = postgres.asked, [how]

    def losing(connection, text, **given):
        if not text.endswith("COMMIT") or not cuts:
            return asked(connection, text, **given)
        how = cuts.pop()
        if how == "after":  # the server has answered, and nobody heard it
            asked(connection, text, **given)
        elif how == "unheard":  # the server has the whole message, and works on it
            slow = text.removesuffix("COMMIT") + "SELECT pg_sleep(0.5); COMMIT"
            message = psycopg.ClientCursor(connection).mogrify(slow, given).encode()
            connection.pgconn.send_query(message)
            while connection.pgconn.flush():
                time.sleep(0.001)
        connection.close()
        raise psycopg.OperationalError("the connection is lost")

    monkeypatch.setattr(postgres, "asked", losing)


@pytest.mark.parametrize("how", ["before", "unheard", "after"])
def test_a_commit_of_which_nothing_was_heard_is_looked_up(postgres_url, monkeypatch, how):
    with opened(postgres_url) as campaign:
        pull(campaign, "a")
        for act in (
            lambda: campaign.ask("b"),
            lambda: campaign.tell("b", cost=0.5, reward=1, penalty=0),
        ):
            with monkeypatch.context() as patch:
                cut(patch, how)
                if how == "before":
                    with pytest.raises(StoreError, match="the connection is lost"):
                        act()
                else:
                    act()
            act()
        pull(campaign, "c")
        only_once(campaign, "a", "b", "c")


def test_handles_and_threads_share_a_campaign(postgres_url):
    """Each id twice, from different handles: every decision is made once."""
    with opened(postgres_url) as one, opened(postgres_url) as two:

        def work(campaign, start):
            def act():
                for number in range(start, start + 20):
                    ticket = campaign.ask(f"{number}")
                    campaign.tell(ticket.id, cost=0.5, reward=1, penalty=0)

            return act

        _in_threads(work(one, 0), work(two, 0), work(one, 10), work(two, 20))
        for campaign in (one, two):
            only_once(campaign, *map(str, range(40)))


def test_a_backup_is_of_one_moment(store, monkeypatch, tmp_path):
    append(store, "a", 3)
    append(store, "b", 3)
    copy = copies.copy_campaign

    def slowly(source, target, name):
        copy(source, target, name)
        append(store, "a", 1)
        append(store, "b", 1)
        append(store, f"after {name}", 1)

    monkeypatch.setattr(copies, "copy_campaign", slowly)
    store.backup(str(tmp_path / "copy.db"))
    with closing(open_store(str(tmp_path / "copy.db"))) as made:
        assert made.names() == ["a", "b"]
        assert made.read("a") == made.read("b") == _rows(3)


def test_a_backup_fails_if_its_connection_does(store, monkeypatch, tmp_path, postgres_server):
    append(store, "a", 3)
    append(store, "b", 3)
    copy = copies.copy_campaign

    def cutting(source, target, name):
        copy(source, target, name)
        end_sessions(postgres_server)

    monkeypatch.setattr(copies, "copy_campaign", cutting)
    with pytest.raises(StoreError, match="cannot be read"):
        store.backup(str(tmp_path / "copy.db"))
    assert list(tmp_path.iterdir()) == []


def test_a_backup_is_restored_to_another_database(postgres_url, postgres_server, tmp_path):
    with opened(postgres_url) as campaign:
        pull(campaign, "a", "b")
        campaign.ask("c")
        backup_store(postgres_url, str(tmp_path / "copy.db"))
        pull(campaign, "d")
    elsewhere = postgres_server.url()
    assert restore_store(str(tmp_path / "copy.db"), elsewhere) == {"spring": ["c"]}
    with open_campaign(elsewhere, "spring", policy=Rotation()) as restored:
        assert restored.status()["told"] == 2
        assert restored.verify().good
    with pytest.raises(InputError, match="already exists in 'postgresql://") as caught:
        restore_store(str(tmp_path / "copy.db"), elsewhere + "&password=s3cret")
    assert "s3cret" not in str(caught.value)


def test_without_psycopg_there_is_a_hint(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    for name in ("postgres", "sessions"):
        monkeypatch.delitem(sys.modules, f"tightrope.live.stores.{name}")
    with pytest.raises(Exception, match=r"needs psycopg .*pip install 'tightrope\[postgres\]'"):
        open_store("postgresql://host/base")


def test_an_interrupted_turn_ends_its_connection(store):
    append(store, "a", 1)

    def act():
        with store.turn("a") as turn:
            turn.append(_rows(1, 1), {})
            threading.Timer(0.2, os.kill, [os.getpid(), signal.SIGINT]).start()
            postgres.asked(store._writer.connection, "SELECT pg_sleep(1)")

    with pytest.raises(KeyboardInterrupt):
        act()
    append(store, "a", 1)
    assert store.read("a") == _rows(2)
