"""What an earlier version wrote stays readable: opened, verified and continued, to the bit.

``write.py`` says what a corpus holds. Compared are decisions, totals, status and ``verify``, never
how a state is laid out. A version that decides otherwise than the one that wrote a corpus, from the
same state, fails here, but for those in ``OTHERWISE``, which are opened and verified only.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from functools import cache
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.corpus.steps import (
    HERE,
    STATUS,
    Clock,
    act_again,
    facts,
    read,
    runs_of,
    status,
    step,
    totals,
    unpacked,
)
from tightrope import Controller, Problem, Results, Task, load_problem, open_campaign
from tightrope.data.fitting import fit
from tightrope.errors import InputError
from tightrope.live.calls import Background
from tightrope.live.events import START, event_of
from tightrope.live.log import archived_rows
from tightrope.live.stores import open_store
from tightrope.live.stores.sqlite import SQLiteStore
from tightrope.problem.ready import load_task

FOLDERS = sorted(HERE.glob("v*"))
CLOSE = 1e-12  # relative, of numbers that are computed from what was read
cached = cache(read)


def names(file, *keys):
    """Parameters: the folder of each corpus with the names that its JSON file has."""
    found = []
    for folder in FOLDERS:
        table = cached(folder / file)
        for key in keys:
            table = table[key]
        found += [pytest.param(folder, one, id=f"{folder.name} {one}") for one in table]
    return found


def stored():
    """Parameters: the folder of each corpus, a store's name, a campaign's name."""
    return [
        pytest.param(folder, stem, name, id=f"{folder.name} {stem} {name}")
        for folder in FOLDERS
        for stem, table in cached(folder / "campaigns.json.gz").items()
        for name in table["campaigns"]
    ]


def files(pattern):
    """Parameters: the files of every corpus whose paths match."""
    return [
        pytest.param(path, id=f"{folder.name} {path.name.partition('.')[0]}")
        for folder in FOLDERS
        for path in sorted(folder.glob(pattern))
    ]


def test_there_is_a_corpus():
    assert "v0.2" in [folder.name for folder in FOLDERS]


# Controllers.


# What decides otherwise since ``compatibility.DECISIONS`` is 2: resolve with a risk (a controller,
# a campaign that changes to it), and with guesses of penalties (a campaign).
OTHERWISE = ("resolve:risk=0.01", "changes", "campaign expected")


@pytest.mark.parametrize(("folder", "kind"), names("controllers.json.gz"))
def test_a_snapshot_goes_on(folder, kind, plain):
    """And half way through from a snapshot of this version."""
    saved = cached(folder / "controllers.json.gz")[kind]
    go_on_from({**saved, "steps": [], "after": saved["before"]} if kind in OTHERWISE else saved)


@pytest.mark.parametrize(("folder", "kind"), names("plain.json.gz"))
def test_a_snapshot_of_an_index_policy_in_plain_python_goes_on(folder, kind, plain):
    """0.2 in plain Python did not keep the terms of indices, which are computed again."""
    go_on_from(cached(folder / "plain.json.gz")[kind])


# Few, because each is compiled: index and choice policies, one limit and several, pulls in flight.
COMPILED = ["bases lyon", "shares lyon", "in flight lyon:window0=1", "arms lyon", "arms resolve",
            "in flight bases", "alarmed resolve:watch=0.01", "many lyon two limits",
            "many lyoff"]  # fmt: skip


@pytest.mark.parametrize("kind", COMPILED)
def test_a_snapshot_goes_on_in_compiled_code(kind):
    go_on_from(cached(HERE / "v0.2" / "controllers.json.gz")[kind], background=False)


@pytest.fixture
def plain(monkeypatch):
    """Nothing is compiled, which for so many kinds would take minutes."""
    monkeypatch.setattr(Background, "wanted", False)


def go_on_from(saved, background=True):
    """Take the steps of a controller again."""
    snapshot = base64.b85decode(saved["snapshot"])
    controller = Controller.restore(snapshot, background=background)
    assert totals(controller) == saved["before"]
    now, then = [], []
    for number, (what, *given) in enumerate(saved["steps"]):
        if number == len(saved["steps"]) // 2:
            controller = Controller.restore(controller.snapshot(), background=background)
        if what == "ask":
            *given, decided = given
            then.append(decided)
            now.append(step(controller, what, *given))
        else:
            step(controller, what, *given)
    assert now == then
    assert totals(controller) == saved["after"]


# Campaigns.


def require_same(found, recorded):
    """A status as it was recorded; a later version may say more in it."""
    assert {key: found[key] for key in STATUS if key in recorded} == recorded


def go_on(campaign, recorded, later):
    """Go on with a campaign as it was recorded; also in another process after that."""
    assert campaign.verify().wrong == []
    require_same(status(campaign), recorded["before"])
    if {campaign.name, f"campaign {campaign.name}"} & {*OTHERWISE}:
        return
    now, then = act_again(campaign, recorded["steps"], later)
    assert now == then
    require_same(status(campaign), recorded["after"])
    assert campaign.verify().wrong == []
    again = open_campaign(campaign.store, campaign.name)
    require_same(status(again), recorded["after"])


@pytest.mark.parametrize(("folder", "stem", "name"), stored())
def test_a_campaign_in_a_file_goes_on(folder, stem, name, tmp_path):
    table = cached(folder / "campaigns.json.gz")[stem]
    path = unpacked(folder / "stores" / f"{stem}.db.gz", tmp_path)
    clock = Clock(table["at"])
    store = SQLiteStore(str(path), create=False, clock=clock)
    try:
        assert store.names() == list(table["campaigns"])
        go_on(open_campaign(store, name), table["campaigns"][name], clock.later)
    finally:
        store.close()


@pytest.mark.parametrize("folder", [pytest.param(one, id=one.name) for one in FOLDERS])
def test_a_store_is_opened_by_its_path(folder, tmp_path):
    """By the clock on the wall, which is far ahead of the log: it pauses, and is resumed."""
    recorded = cached(folder / "campaigns.json.gz")["tickets"]["campaigns"]["tickets"]
    path = unpacked(folder / "stores" / "tickets.db.gz", tmp_path)
    with open_campaign(path, "tickets") as campaign:
        require_same(status(campaign), recorded["before"])
        campaign.resume()
        ticket = campaign.ask("by-path")
        campaign.tell(ticket.id, 0.5, 1.0, {"bad": 0.0})
        assert campaign.ticket("by-path").state == "told"
        told = recorded["before"]["told"]
        assert campaign.status()["told"] == told + 1
        assert campaign.verify().wrong == []


@pytest.mark.parametrize("folder", [pytest.param(one, id=one.name) for one in FOLDERS])
def test_the_past_of_a_ticket_is_found(folder, tmp_path):
    path = unpacked(folder / "stores" / "tickets.db.gz", tmp_path)
    clock = Clock(cached(folder / "campaigns.json.gz")["tickets"]["at"])
    store = SQLiteStore(str(path), create=False, clock=clock)
    campaign = open_campaign(store, "tickets")
    states = {one: campaign.ticket(one).state for one in ("gone-1", "gone-2", "wrong-2", "some-1")}
    assert states == {
        "gone-1": "told",
        "gone-2": "expired",
        "wrong-2": "quarantined",
        "some-1": "told",
    }
    assert campaign.ask("gone-2", expire_after=0.02).state == "expired"  # the same ticket again
    assert campaign.why("some-1").among == ["a", "b"]
    assert sorted(campaign.notes().values()) == ["lunch", "nobody knows it", "the bill says so"]
    store.close()


@pytest.mark.parametrize("folder", [pytest.param(one, id=one.name) for one in FOLDERS])
def test_an_archive_is_what_the_log_goes_on_from(folder, tmp_path):
    store = SQLiteStore(str(unpacked(folder / "stores" / "archived.db.gz", tmp_path)))
    path = unpacked(folder / "stores" / "archived.jsonl.gz", tmp_path)
    rows = archived_rows(str(path))
    first = store.read("archived", 0, 1)[0]
    assert [row.seq for row in rows] == list(range(1, first.seq))
    event_of(first, rows[-1].hash)  # raises unless it follows
    (moved,) = [one for one in open_campaign(store, "archived").events() if one.kind == "archived"]
    assert moved.body.hash == rows[-1].hash.hex()
    assert moved.body.file == hashlib.sha256(path.read_bytes()).hexdigest()
    store.close()


@pytest.fixture
def restored_dump(postgres_server):
    """Puts a dump back into the tests' server; returns the address of its schema."""

    def put_back(path):
        text = gzip.decompress(path.read_bytes()).decode()
        lines = [line for line in text.splitlines() if not line.startswith("\\")]  # psql's own
        with postgres_server.connect() as connection:
            connection.execute("DROP SCHEMA IF EXISTS corpus CASCADE")
            connection.execute("\n".join(lines))
        address = f"postgresql://tightrope@/postgres?host={quote(str(postgres_server.folder))}"
        return f"{address}&options={quote('-csearch_path=corpus')}"

    return put_back


@pytest.mark.parametrize(("folder", "name"), names("postgres.json.gz", "campaigns"))
def test_a_campaign_in_postgres_goes_on(folder, name, restored_dump):
    """Under the server's own clock: if that is far ahead of the log, it pauses first."""
    store = open_store(restored_dump(folder / "postgres.sql.gz"), create=False)
    try:
        recorded = cached(folder / "postgres.json.gz")["campaigns"]
        assert store.names() == list(recorded)
        campaign = open_campaign(store, name)
        campaign.resume()
        go_on(campaign, recorded[name], lambda seconds: None)
    finally:
        store.close()


# Exports.


@pytest.mark.parametrize("path", files("exports/*.jsonl.gz"))
def test_an_export_is_a_chain_of_events(path, tmp_path):
    lines = unpacked(path, tmp_path).read_text().splitlines()
    events = [json.loads(line) for line in lines]
    numbers = [one["seq"] for one in events]
    assert numbers == list(range(numbers[0], numbers[0] + len(events)))
    assert {"at", "kind", "ticket", "who", "version", "body", "hash"} <= set(events[0])
    assert (numbers[0] == 1) == (events[0]["kind"] == "created")
    assert all(one["hash"] != START.hex() for one in events)


@pytest.mark.filterwarnings("ignore::tightrope.errors.LogWarning")
@pytest.mark.parametrize("path", files("exports/*.jsonl.gz"))
def test_a_problem_is_fitted_to_an_export(path, tmp_path):
    recorded = json.loads((path.parents[1] / "exports.json").read_text())
    name, export = path.name.partition(".")[0], str(unpacked(path, tmp_path))
    if name not in recorded:  # its beginning is in an archive
        with pytest.raises(InputError, match="first events are missing"):
            Problem.from_campaign(export)
        (tmp_path / "old").mkdir()
        archive = str(unpacked(path.parents[1] / "stores" / f"{name}.jsonl.gz", tmp_path / "old"))
        fitted = fit(export, archives=[archive])
        assert len(fitted.log.chosen) > 0
        return
    told = recorded[name].pop("told")
    found = facts(Problem.from_campaign(export))
    require_facts(found, recorded[name])
    assert found["rows"] <= told


def require_facts(found, recorded):
    """What a problem says of itself, as it was recorded; means within rounding."""
    means = ("costs", "rewards")
    for key, value in recorded.items():
        assert found[key] == (pytest.approx(value, rel=CLOSE) if key in means else value), key


# Problems, tasks and results.


@pytest.mark.parametrize("path", files("problems/*.toml"))
def test_a_problem_is_read(path):
    recorded = json.loads((path.parents[1] / "problems.json").read_text())
    problem = load_problem(path)
    require_facts(facts(problem), recorded[path.stem])
    assert Problem.from_toml(problem.to_toml()) == problem


@pytest.mark.parametrize("path", files("problems/tasks/*.toml"))
def test_a_task_is_read(path):
    task = load_task(path)
    assert task.arms[:3] == ("a", "b", "c")
    assert Task.from_toml(task.to_toml()) == task
    for name in task.limit_names:
        assert name in path.read_text()


@pytest.mark.parametrize("path", files("results/*.gz"))
def test_results_are_read(path, tmp_path):
    results = Results.load(unpacked(path, tmp_path))
    recorded = cached(path.parents[1] / "results.json.gz")[path.name.partition(".")[0]]
    assert runs_of(results) == recorded
    results.save(tmp_path / "again")
    assert Results.load(tmp_path / "again") == results
    labels = list(recorded["runs"])
    assert [row["policy"] for row in results.summary()] == [
        label for label in labels for _ in results.budgets
    ]


def test_nothing_but_what_the_corpora_hold_is_beside_them():
    """Files of locks or of a log ahead would say that a test has opened a corpus in its place."""
    for folder in FOLDERS:
        ends = {"".join(Path(one).suffixes[-2:]) for one in folder.rglob("*") if one.is_file()}
        known = {".json.gz", ".db.gz", ".jsonl.gz", ".sql.gz", ".results.gz", ".json"}
        assert ends <= known | {".toml", ".parquet"}
