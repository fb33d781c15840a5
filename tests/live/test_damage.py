"""Damaged and foreign stores: each is noticed, in one line, and none runs code."""

from __future__ import annotations

import os
import shutil
import sqlite3
from pathlib import Path

import numpy as np
import pytest

from tests.live.cheap import Rotation
from tightrope import Limit, Task, open_campaign
from tightrope.cli import main
from tightrope.errors import HaltedError, InputError, StoreError, TightropeError
from tightrope.live.archive import exported
from tightrope.live.stores import open_store, sqlite
from tightrope.live.stores.sqlite import SQLiteStore
from tightrope.live.verification import verified

TASK = Task(["a", "b"], {"bad": Limit(0.4)})
PAGE = 4096


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A closed store with a log of several pages, and its campaign's status."""
    path = tmp_path_factory.mktemp("written") / "campaigns.db"
    with open_campaign(path, "one", task=TASK, budget=500, policy=Rotation()) as campaign:
        for number in range(400):
            ticket = campaign.ask(f"lead-{number}")
            campaign.tell(ticket.id, cost=0.25 + number % 3 / 8, reward=1, penalty=number % 5 == 0)
        status = campaign.status()
    assert os.path.getsize(path) > 40 * PAGE
    assert not os.path.exists(f"{path}-wal")
    return path, status


def flipped(data: bytes, random: np.random.Generator) -> bytes:
    place, changed = int(random.integers(len(data))), bytearray(data)
    changed[place] ^= 1 << int(random.integers(8))
    return bytes(changed)


def structural(data: bytes, random: np.random.Generator) -> bytes:
    """A flipped bit in a page's header or its list of cells, where the tree is."""
    page, changed = int(random.integers(len(data) // PAGE)), bytearray(data)
    changed[page * PAGE + int(random.integers(24))] ^= 1 << int(random.integers(8))
    return bytes(changed)


def zeroed(data: bytes, random: np.random.Generator) -> bytes:
    start = PAGE * int(random.integers(len(data) // PAGE))
    return data[:start] + bytes(PAGE) + data[start + PAGE :]


def swapped(data: bytes, random: np.random.Generator) -> bytes:
    one, two = sorted(random.choice(len(data) // PAGE, 2, replace=False).tolist())
    pages = [data[at : at + PAGE] for at in range(0, len(data), PAGE)]
    pages[one], pages[two] = pages[two], pages[one]
    return b"".join(pages)


def cut(data: bytes, random: np.random.Generator) -> bytes:
    return data[: int(random.integers(len(data)))]


def outcome(path: Path) -> tuple[str, object]:
    """What verify says of a file, and the campaign's status where it says that all is good."""
    store = None
    try:
        store = open_store(str(path), create=False)
        if "one" not in store.names():
            return "gone", None
        found = verified(store, "one", Rotation())
        if not found.good:
            return "\n".join(found.wrong), None
        return "good", open_campaign(store, "one", policy=Rotation()).status()
    except TightropeError as error:
        return str(error), None
    finally:
        if store is not None:
            store.close()


@pytest.mark.parametrize("damage", [flipped, structural, zeroed, swapped, cut])
def test_no_damage_is_good_with_other_numbers(written, tmp_path, damage):
    path, status = written
    data, random, said = path.read_bytes(), np.random.default_rng(7), []
    for number in range(60):
        other = tmp_path / f"{number}.db"
        other.write_bytes(damage(data, random))
        words, now = outcome(other)
        said.append(words)
        assert words != "good" or now == status
        assert "Traceback" not in words
    assert sum(words == "good" for words in said) < 40  # those in unused space


def test_a_campaign_whose_number_is_damaged_is_one_line(written, tmp_path):
    """SQLite reads such a page without an error."""
    other = str(tmp_path / "numberless.db")
    shutil.copy(written[0], other)
    with sqlite3.connect(other) as one:
        one.executescript(
            "CREATE TABLE other (id, name); INSERT INTO other VALUES (NULL, 'one');"
            " DROP TABLE campaigns; ALTER TABLE other RENAME TO campaigns"
        )
    one.close()
    store = open_store(other)
    with pytest.raises(StoreError, match=r"cannot be read \(database disk image is malformed\)$"):
        store.read("one")
    store.close()


def test_a_log_whose_end_was_removed_is_noticed(written, tmp_path):
    path, _ = written
    other = str(tmp_path / "cut.db")
    shutil.copy(path, other)
    with sqlite3.connect(other) as one:
        one.execute("DELETE FROM events WHERE seq > 700")
    one.close()
    store = open_store(other)
    assert verified(store, "one", Rotation()).wrong == [
        "the log ends at event 700; event 801 was the last"
    ]
    with pytest.raises(HaltedError, match=r"ends at event 700, but event 801 was the last"):
        open_campaign(store, "one", policy=Rotation())
    store.close()


def changed(path: Path, folder: Path, sql: str, *values: object) -> SQLiteStore:
    """A copy of a store after a statement of SQL."""
    other = str(shutil.copy(path, folder / "changed.db"))
    with sqlite3.connect(other) as one:
        assert one.execute(sql, values).rowcount
    one.close()
    return open_store(other)


@pytest.mark.parametrize(("sql", "upto"), [
    ("DELETE FROM events WHERE seq = 1", 1),
    ("DELETE FROM events WHERE seq <= (SELECT max(seq) FROM snapshots WHERE seq < 700)", None),
])  # fmt: skip
def test_a_log_whose_beginning_was_removed_is_no_archived_one(written, tmp_path, sql, upto):
    path, _ = written
    store = changed(path, tmp_path, sql)
    upto = upto or store.read("one")[0].seq - 1
    said = f"events up to {upto}: are missing, and no event says they are archived"
    assert verified(store, "one", Rotation()).wrong == [said]
    store.close()


def test_a_snapshot_with_another_policy_is_noticed(written, tmp_path):
    path, _ = written
    with sqlite3.connect(path) as one:
        seq, body = one.execute("SELECT seq, body FROM snapshots ORDER BY seq DESC").fetchone()
    one.close()
    other = body.replace(b'"policy": "rotation"', b'"policy": "rotatiol"')
    store = changed(path, tmp_path, "UPDATE snapshots SET body = ? WHERE seq = ?", other, seq)
    said = f"snapshot {seq}: its policy or settings differ from the log"
    assert verified(store, "one", Rotation()).wrong == [said]
    store.close()


def test_a_time_that_is_no_date_and_a_number_that_is_too_large_are_named(written, tmp_path, capsys):
    path, _ = written
    wrong = 10**18
    store = changed(path, tmp_path, f"UPDATE events SET at = {wrong} WHERE seq = 801")
    store.close()
    other = str(tmp_path / "changed.db")
    for command in ("events", "export"):
        assert main(["campaign", command, other, "one"]) == 1
        said = f"tightrope: at = {wrong}: must be microseconds since 1970, before the year 10000\n"
        assert capsys.readouterr().err.endswith(said)
    number = 2**63 - 1
    store = changed(path, tmp_path, f"UPDATE events SET seq = {number} WHERE seq = 801")
    assert len(list(exported(store, "one"))) == 801
    store.close()


def test_a_name_with_a_line_end_is_listed_in_one_line(written, tmp_path):
    path, _ = written
    store = changed(path, tmp_path, "UPDATE campaigns SET name = ?", "B\n*")
    with pytest.raises(InputError, match=r"^campaign 'one': does not exist; known: 'B\\n\*'"):
        open_campaign(store, "one")
    store.close()


def test_a_store_of_version_0_2_has_no_recorded_end(written, tmp_path):
    path, status = written
    other = str(tmp_path / "old.db")
    shutil.copy(path, other)
    with sqlite3.connect(other) as one:
        one.execute("DROP TABLE heads")
    one.close()
    with open_campaign(other, "one", policy=Rotation()) as campaign:
        assert campaign.status() == status
        assert campaign.verify().good
        campaign.ask("more")
        assert campaign.store.head("one") == (802, next(campaign.events(801)).hash)
        assert campaign.verify().good


def test_the_recorded_end_follows_what_version_0_2_has_appended(written, tmp_path):
    path, _ = written
    other = str(tmp_path / "mixed.db")
    shutil.copy(path, other)
    with sqlite3.connect(other) as one:  # as 0.2 leaves it: events, and an end from before them
        (early,) = one.execute("SELECT hash FROM events WHERE seq = 799").fetchone()
        one.execute("UPDATE heads SET seq = 799, hash = ?", (early,))
    one.close()
    with open_campaign(other, "one", policy=Rotation()) as campaign:
        campaign.ask("more")
        assert campaign.store.head("one") == (802, next(campaign.events(801)).hash)
        campaign.ask("again")
        assert campaign.store.head("one") == (803, next(campaign.events(802)).hash)
        assert campaign.verify().good


@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize("how", ["removed", "replaced"])
@pytest.mark.parametrize("which", ["", "-wal"])
def test_a_file_that_changes_while_it_is_open_is_noticed_before_the_next_answer(
    tmp_path, which, how, linked
):
    path = str(tmp_path / "campaigns.db")
    if linked:
        (tmp_path / "elsewhere").mkdir()
        os.symlink(path, tmp_path / "elsewhere" / "link.db")
    opened = str(tmp_path / "elsewhere" / "link.db") if linked else path
    campaign = open_campaign(opened, "one", task=TASK, budget=500, policy=Rotation())
    campaign.ask("before")
    assert campaign.status()["in_flight"] == 1
    if how == "replaced":
        shutil.copy(path + which, path + ".copy")
        os.replace(path + ".copy", path + which)
    else:
        os.remove(path + which)
    for act in (campaign.status, lambda: campaign.ask("after"), lambda: campaign.ask("again")):
        with pytest.raises(StoreError, match="open it again") as caught:
            act()
        assert "\n" not in str(caught.value)
    campaign.disconnect()


def test_other_processes_may_close_the_store(tmp_path):
    path = str(tmp_path / "campaigns.db")
    campaign = open_campaign(path, "one", task=TASK, budget=500, policy=Rotation())
    for number in range(5):
        with open_campaign(path, "one", policy=Rotation()) as other:
            other.ask(f"other-{number}")
        campaign.ask(f"own-{number}")
        if number == 2:
            child = os.fork()
            if not child:
                campaign.ask("child")
                os._exit(0)
            os.waitpid(child, 0)
    assert campaign.status()["in_flight"] == 11
    assert campaign.verify().good
    campaign.disconnect()


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE TRIGGER t AFTER INSERT ON events BEGIN DELETE FROM events; END",
        "CREATE VIEW v AS SELECT * FROM events",
    ],
)
def test_a_store_with_triggers_or_views_is_refused(written, tmp_path, sql):
    other = str(tmp_path / "foreign.db")
    shutil.copy(written[0], other)
    with sqlite3.connect(other) as one:
        one.execute(sql)
    one.close()
    with pytest.raises(TightropeError, match="triggers or views"):
        SQLiteStore(other, create=False)


def test_the_log_ahead_does_not_grow_with_every_kill(tmp_path, monkeypatch):
    """A process that was killed before its first checkpoint leaves it to the next one."""
    monkeypatch.setattr(sqlite, "CHECKPOINT", 60)
    path, sizes = str(tmp_path / "campaigns.db"), []
    open_campaign(path, "one", task=TASK, budget=5000, policy=Rotation()).disconnect()
    for turn in range(8):
        child = os.fork()
        if not child:
            killed = open_campaign(path, "one", policy=Rotation())
            for number in range(40):
                killed.ask(f"{turn}-{number}")
            os._exit(0)
        os.waitpid(child, 0)
        sizes.append(os.path.getsize(path + "-wal"))
    assert max(sizes) < 3.5 * sizes[0]
    with open_campaign(path, "one", policy=Rotation()) as campaign:
        assert campaign.status()["in_flight"] == 320
        assert campaign.verify().good
