"""Damaged files are refused in one line."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.fuzz.files import FUNCTIONS, Damaged, Files


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return Files(tmp_path_factory.mktemp("files"))


def test_a_damaged_file_is_the_same_every_time(files):
    assert [files.damaged(3, n) for n in range(50)] == [files.damaged(3, n) for n in range(50)]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (rb'"body": {"', b'"body": {"\xa5'),
        (rb'\["cost",\d+', b'["cost",-999999999'),
        (rb'"arm":0,"values"', b'"arm":-1,"values"'),
        (rb'"arm":1,"values"', b'"arm":2,"values"'),
    ],
    ids=["not UTF-8", "digits", "below the arms", "above the arms"],
)
def test_a_damaged_export_is_refused_in_one_line(files, old, new):
    sound = files.sound["export.jsonl"]
    assert re.search(old, sound)
    content = {"export.jsonl": re.sub(old, new, sound, count=1)}
    line = "fit export.jsonl --format campaign"
    found = files.run(Damaged(line, content, "export.jsonl", "changed"))
    assert not found, found
    assert found.status == 2


def test_generated_damage_ends_well(files):
    for number in range(60):
        one = files.damaged(11, number)
        found = files.run(one)
        assert not found, f"input {number}:\n{one}\n{found}"


CAMPAIGN, SPOOL = "campaign status plain.db one", "spooled spool.db"


@pytest.mark.parametrize(
    ("line", "statement"),
    [
        (CAMPAIGN, "UPDATE heads SET seq = 'x'"),
        (CAMPAIGN, "UPDATE heads SET seq = x'01'"),
        ("campaign status plain.db two", "UPDATE campaigns SET name = x'01'"),
        ("campaign events plain.db one", "UPDATE events SET at = 'x' WHERE seq = 3"),
        ("campaign verify plain.db one", f"UPDATE events SET seq = {2**63 - 1} WHERE seq = 9"),
        (SPOOL, "UPDATE wanted SET asked = '{'"),
        (SPOOL, "UPDATE outbox SET body = x'00'"),
        (SPOOL, "UPDATE spares SET ticket = replace(ticket, '2090', '-')"),
        (SPOOL, f"UPDATE about SET value = '{'x' * 5000}'"),
    ],
)
def test_a_damaged_row_is_refused_in_one_line(files, line, statement, tmp_path):
    found = files.run(changed(files, line, statement, tmp_path / "one.db"))
    assert not found, found
    assert found.status in (1, 2)


def test_damage_that_nobody_notices_is_found(files, tmp_path, monkeypatch):
    statement = "UPDATE events SET who = 'else' WHERE seq = 3"
    one = changed(files, "verified plain.db", statement, tmp_path / "one.db")
    assert files.run(one).status == 2
    monkeypatch.setitem(FUNCTIONS, "verified", lambda path: Path(path).read_bytes().hex())
    assert "not noticed" in files.run(one)


def test_a_snapshot_of_another_event_is_refused(files):
    found = files.run(files.damaged(3, 2456))  # its number is a list
    assert not found, found
    assert found.status == 1


def changed(files, line, statement, path):
    name = next(word for word in line.split() if word.endswith(".db"))
    path.write_bytes(files.sound[name])
    with closing(sqlite3.connect(path)) as other:
        other.execute("PRAGMA journal_mode = DELETE")
        other.execute(statement)
        other.commit()
    return Damaged(line, {name: path.read_bytes()}, name, statement)
