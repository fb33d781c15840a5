"""The ledger's fold is frozen: old logs lead to the same ledger for ever."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.live.ledger_model import Model, follow
from tightrope.errors import HaltedError
from tightrope.live.events import START, VERSION, event_of, row_of_line, stored, text_of
from tightrope.live.kinds import KINDS, Stateful
from tightrope.live.ledger import Ledger

LOGS = sorted(Path(__file__).parent.glob("golden/*.jsonl"))


def read(path):
    """The rows of a golden log, and the table of its ledger."""
    *lines, last = path.read_text().splitlines()
    return [row_of_line(line) for line in lines], json.loads(last)["ledger"]


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.stem)
def test_an_old_log_leads_to_the_same_ledger(path):
    rows, table = read(path)
    ledger, before = Ledger(), START
    for row in rows:
        event = event_of(row, before)
        ledger.follow(event)
        before = row.hash
        for account in ledger.accounts:
            assert account.budget == account.spent + account.reserved + account.free
    assert json.loads(json.dumps(ledger.table())) == table
    assert Ledger.of_table(table) == ledger


def test_an_event_is_written_as_it_was():
    """Those of this version; what an earlier one wrote is never encoded again."""
    for path in LOGS:
        before = START
        for row in read(path)[0]:
            if row.version == VERSION:
                assert stored(before, *row[:6], text_of(event_of(row).body)) == row
            before = row.hash


@pytest.mark.parametrize("name", ["tickets", "changes", "limits"])
def test_an_event_of_an_earlier_version_has_the_same_body(name):
    """The first golden logs and the last ones are of the same campaigns."""
    old, new = (read(path)[0] for path in LOGS if path.stem in (f"{name}-1", f"{name}-{VERSION}"))
    assert [row.kind for row in old] == [row.kind for row in new]
    for one, other in zip(map(event_of, old), map(event_of, new), strict=True):
        if isinstance(one.body, Stateful):
            one.body.digest = other.body.digest
            one.body.program = other.body.program
        assert one.body == other.body, one.seq


AMENDED = {  # what the amendments of a golden log say, per account
    "tickets": [[300]],
    "limits": [[None, 700]],
    "budgets": [[1250, None], [1125, None], [None, 1500]],
}


@pytest.mark.parametrize(
    ("name", "most"),
    [
        (f"{name}-{version}", most)
        for version in range(1, VERSION + 1)
        for name, most in (("tickets", [(1000,)] * 2), ("limits", [(1000, 1000)] * 2))
    ]
    + [("budgets-2", [(1000, 1000)] * 2)],
)
def test_the_model_agrees_with_an_old_log(name, most):
    rows, table = read(next(path for path in LOGS if path.stem == name))
    model, amended = None, list(AMENDED[name.partition("-")[0]])
    for row in rows:
        event = event_of(row)
        if event.kind == "created":
            digits = [digits for _, digits in event.body.accounts]
            ticks = event.body.moves[::3]
            unit = [10 ** (number - 3) for number in digits]
            start, alert = [t // u for t, u in zip(ticks, unit, strict=True)], "budgets" in name
            model = Model(start, most, pauses=not alert, rates=[1, 0.5] if alert else None)
        elif event.kind == "amended":
            assert model.amend(event.ticket, amended.pop(0))
        elif event.kind == "changed":
            model.pauses = event.body.settings["on_overrun"] == "pause"
        else:
            follow(model, event, lambda amount: amount * 1000)
    for i, (_, _, *ticks) in enumerate(table["accounts"]):
        wanted = model.budgets[i], model.spent[i], model.reserved[i]
        assert [t / unit[i] for t in ticks] == pytest.approx(wanted, rel=1e-12)
    counted = [table[key] for key in ("told", "voided", "expired", "late", "overruns")]
    assert counted == [model.told, model.voided, model.expired, model.late, model.overruns]


@pytest.mark.parametrize("version", range(1, VERSION + 1))
def test_every_kind_of_event_is_in_a_golden_log(version):
    logs = [path for path in LOGS if path.stem.endswith(f"-{version}")]
    later = {"budget_set", "type_added", "types_merged", "contexts_erased"}  # than version 1
    kinds = {kind for kind in KINDS if version > 1 or kind not in later}
    assert {row.kind for path in logs for row in read(path)[0]} == kinds


@pytest.mark.parametrize("columns", [{"kind": "gifted"}, {"version": VERSION + 1}], ids=str)
def test_an_unknown_kind_or_a_newer_version_halts(columns):
    rows, _ = read(LOGS[0])
    with pytest.raises(HaltedError, match=r"event 3: kind .* a newer program wrote it"):
        event_of(rows[2]._replace(**columns), rows[1].hash)


def test_a_broken_chain_halts():
    rows, _ = read(LOGS[0])
    with pytest.raises(HaltedError, match="event 3: its hash does not follow"):
        event_of(rows[2], rows[0].hash)
