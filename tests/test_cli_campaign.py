"""``tightrope campaign``: every command, its streams, its exit status; two processes at once."""

from __future__ import annotations

import argparse
import inspect
import json
import os
import signal
import subprocess
import sys
import time

import pytest

from tests.test_shell import completed
from tightrope.cli import COMMANDS, main
from tightrope.live.events import START, Row, stored
from tightrope.shell.commands import TOLD, Group, parameters

TASK = """
[limits]
bad = { at_most = 0.05, per = "pull" }
dollars = 0.5
[[arms]]
name = "haiku"
[[arms]]
name = "sonnet"
[[arms]]
name = "opus"
"""
STATUS_KEYS = {
    "state",
    "budget",
    "spent",
    "reserved",
    "free",
    "in_flight",
    "asked",
    "told",
    "voided",
    "expired",
    "quarantined",
    "reward",
    "penalties",
}
OUTCOME = "--cost 0.5 --reward 1 --penalty bad=0 --penalty dollars=0.25".split()
MINE = """
from dataclasses import dataclass
from typing import ClassVar
from tightrope.policies import UniformRandom
print("a policy that prints")
@dataclass(frozen=True)
class Mine(UniformRandom):
    name: ClassVar[str] = "mine"
    summary: ClassVar[str] = "one of a user's own"
"""


class World:
    """A folder with a task's file and a store, and the shell in it."""

    def __init__(self, shell, folder):
        self.shell, self.folder = shell, folder
        self.store, self.task = str(folder / "router.db"), str(folder / "task.toml")
        (folder / "task.toml").write_text(TASK)

    def run(self, command, *words):
        """A command about the campaign ``november``: its status, output and errors."""
        return self.shell("campaign", command, self.store, "november", *map(str, words))

    def good(self, command, *words):
        """The output of a command that succeeds without a message."""
        status, out, err = self.run(command, *words)
        assert (status, err) == (0, ""), err
        return out

    def json(self, command, *words):
        return json.loads(self.good(command, *words, "--json"))

    def bad(self, command, *words, status=2):
        """The message of a command that fails: one line."""
        found, out, err = self.run(command, *words)
        assert (found, out) == (status, ""), (found, out, err)
        assert err.startswith("tightrope: ")
        assert err.count("\n") == 1, err
        return err

    def create(self, *words, task=None, budget=10, policy="uniform-random"):
        what = ("--task", task or self.task, "--budget", budget, "--policy", policy)
        status, out, err = self.run("create", *what, *words, "--json")
        told = [line for line in err.splitlines() if "reserves 1 per decision" not in line]
        assert (status, told) == (0, []), err
        return json.loads(out)

    def process(self, command, *words, **options):
        """The same in a process of its own."""
        line = [sys.executable, "-m", "tightrope", "campaign", command, self.store, "november"]
        return subprocess.Popen(
            [*line, *map(str, words)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.folder,
            **options,
        )


@pytest.fixture
def world(shell, tmp_path):
    return World(shell, tmp_path)


@pytest.fixture
def campaign(world):
    world.create()
    return world


# Decisions and reports.


def test_a_campaign_from_its_creation_to_its_end(world):
    made = world.create(budget=3)
    assert set(made) >= STATUS_KEYS
    assert (made["state"], made["budget"], made["free"], made["stop"]) == ("open", 3, 3, "hard")
    ticket = world.json("ask")
    assert set(ticket) == {"id", "arm", "number", "reserved", "expires_at", "state"}
    assert ticket["arm"] == ["haiku", "sonnet", "opus"][ticket["number"]]
    assert (ticket["reserved"], ticket["state"]) == (1.0, "open")
    assert world.json("status")["reserved"] == 1.0
    told = world.json("tell", ticket["id"], *OUTCOME)
    assert (told["id"], told["state"]) == (ticket["id"], "told")
    status = world.json("status")
    assert (status["spent"], status["reserved"], status["free"]) == (0.5, 0.0, 2.5)
    assert (status["asked"], status["told"], status["reward"]) == (1, 1, 1.0)
    assert status["penalties"] == {"bad": 0.0, "dollars": 0.25}
    many = world.json("ask", "--count", 2)
    assert [one["reserved"] for one in many] == [1.0, 1.0]
    assert "reserved for 2 pulls in flight" in world.bad("ask", status=1)
    for one in many:
        world.good("tell", one["id"], "--cost", 1, *OUTCOME[2:])
    assert world.json("status")["state"] == "exhausted"
    assert "no pull is left" in world.bad("ask", status=1)


def test_fewer_tickets_than_were_asked_for_are_said_to_be_so(world):
    world.create(budget=2)
    status, out, err = world.run("ask", "--count", 5, "--json")
    assert (status, len(json.loads(out))) == (0, 2)
    assert err == "only 2 of 5: 0 of 2 is free\n"


def test_a_ticket_is_printed_whatever_happens_after_it(campaign, monkeypatch):
    from tightrope.errors import StoreError
    from tightrope.live.stores.sqlite import SQLiteStore

    def broken(self):
        close(self)
        raise StoreError("the disk is gone")

    close = SQLiteStore.close
    monkeypatch.setattr(SQLiteStore, "close", broken)
    status, out, err = campaign.run("ask", "--json")
    assert (status, json.loads(out)["id"]) == (1, "1-00000001")
    assert err == "tightrope: the disk is gone\n"


def test_lines_for_people(campaign):
    line = campaign.good("ask", "--id", "mine", "--eligible", "opus")
    assert line.startswith("mine: pull 'opus'; 1 is reserved, report by 2")
    assert campaign.good("tickets") == line
    assert campaign.good("tell", "mine", *OUTCOME) == "mine: reported; 9.5 of 10 is free\n"
    again = campaign.good("ask", "--id", "mine", "--eligible", "opus")
    assert again == "mine: 'opus', already reported\n"
    assert campaign.good("tickets") == "no ticket is in flight\n"
    assert campaign.json("tickets") == []


def test_the_same_id_gives_the_same_ticket(campaign):
    first = campaign.json("ask", "--id", "request-1")
    assert campaign.json("ask", "--id", "request-1") == first
    assert campaign.json("status")["asked"] == 1
    error = campaign.bad("ask", "--id", "request-1", "--eligible", "opus")
    assert "other eligible arms" in error
    assert "--count 2" in campaign.bad("ask", "--id", "x", "--count", 2)


@pytest.mark.parametrize("arms", [["haiku", "opus"], ["0", "2"], ["2", "haiku"]])
def test_eligible_arms_by_name_and_number(campaign, arms):
    found = {campaign.json("ask", "--eligible", *arms)["arm"] for _ in range(6)}
    assert found <= {"haiku", "opus"}
    assert "did you mean 'opus'?" in campaign.bad("ask", "--eligible", "opuss")
    assert "from 0 to 2" in campaign.bad("ask", "--eligible", "7")


def test_telling_twice_is_harmless_and_otherwise_is_refused(campaign):
    ticket = campaign.json("ask")["id"]
    for _ in range(2):
        campaign.good("tell", ticket, *OUTCOME)
    assert "was reported as cost 0.5" in campaign.bad("tell", ticket, "--cost", 0.6, *OUTCOME[2:])
    status = campaign.json("status")
    assert (status["told"], status["quarantined"], status["spent"]) == (1, 1, 0.5)


def test_one_limit_needs_no_name_and_what_is_known_no_number(world):
    world.create(task="paper", budget=50)
    for number in ("0.25", "penalty=0.25"):
        ticket = world.json("ask")["id"]
        world.good("tell", ticket, "--cost", 1, "--reward", 0, "--penalty", number)
    assert world.json("status")["penalties"] == {"penalty": 0.5}
    (world.folder / "known.toml").write_text(
        "limit = 0.5\n[costs]\na = 0.25\nb = 0.5\n[[arms]]\nname = 'a'\n[[arms]]\nname = 'b'\n"
    )
    world.store = str(world.folder / "other.db")
    world.create(task=str(world.folder / "known.toml"))
    ticket = world.json("ask", "--eligible", "a")
    assert ticket["reserved"] == 0.25
    world.good("tell", ticket["id"], "--reward", 1, "--penalty", 0)
    assert world.json("status")["spent"] == 0.25


@pytest.mark.parametrize("cost", ["nan", "-nan", "inf", "-inf", "-1", "-1e-3", "=-inf"])
def test_impossible_numbers_are_refused_and_kept(campaign, cost):
    ticket = campaign.json("ask")["id"]
    words = [f"--cost{cost}"] if cost.startswith("=") else ["--cost", cost]
    error = campaign.bad("tell", ticket, *words, *OUTCOME[2:])
    assert "must be a number" in error
    assert "kept in quarantine as 3" in error
    (kept,) = campaign.json("quarantine")
    assert (kept["number"], kept["ticket"]) == (3, ticket)
    assert "3: 2" in campaign.good("quarantine")
    status = campaign.json("status")
    assert (status["quarantined"], status["spent"], status["reserved"]) == (1, 1.0, 0.0)
    campaign.good("tell", ticket, *OUTCOME)
    status = campaign.json("status")
    assert (status["quarantined"], status["spent"], status["told"]) == (0, 0.5, 1)


def test_the_quarantine_is_corrected_and_emptied(campaign):
    for penalty in ("bad=nan", "bad=-3"):
        ticket = campaign.json("ask")["id"]
        campaign.bad("tell", ticket, "--cost", 0.5, "--reward", 1, "--penalty", penalty)
    assert "unknown" in campaign.bad("tell", "nobody", *OUTCOME)
    one, two, three = [report["number"] for report in campaign.json("quarantine")]
    assert "corrected" in campaign.good("quarantine", "correct", one, *OUTCOME)
    assert "discarded" in campaign.good("quarantine", "discard", two, "--note", "their mistake")
    assert "must be a report in quarantine" in campaign.bad("quarantine", "discard", two)
    assert "NUMBER" in campaign.bad("quarantine", "discard")
    assert "takes no outcome" in campaign.bad("quarantine", "discard", three, "--cost", 1)
    found = campaign.json("quarantine", "--id", ticket, *OUTCOME, "correct", three)
    assert (found["quarantined"], found["told"], found["spent"]) == (0, 2, 1.0)
    assert campaign.good("quarantine") == "no report is in quarantine\n"
    notes = [event["note"] for event in campaign.json("events") if "note" in event]
    assert notes == ["their mistake"]
    (number,) = campaign.json("notes")
    assert campaign.good("notes") == f"{number}: their mistake\n"
    assert campaign.good("notes", "--forget", number, 99) == "the campaign has no notes\n"
    campaign.good("verify")


def test_void_and_amend(campaign):
    first, second = (one["id"] for one in campaign.json("ask", "--count", 2))
    assert campaign.json("void", first)["state"] == "voided"
    assert "is unknown" in campaign.bad("void", second + "0")
    campaign.good("tell", second, *OUTCOME)
    assert "is told; must be open" in campaign.bad("void", second)
    assert campaign.good("amend", "--cost", 0.75, second, "--note", "the bill") == (
        f"{second}: amended; 9.25 of 10 is free\n"
    )
    assert campaign.json("status")["voided"] == 1
    campaign.good("amend", second, "--penalty", "dollars=0.125")
    assert campaign.json("status")["penalties"]["dollars"] == 0.125
    assert "--cost or --penalty" in campaign.bad("amend", second)
    assert "either" in campaign.bad("amend")
    assert "-1.0" in campaign.bad("amend", second, "--cost", -1)


def test_a_bill_amends_many_or_none(campaign):
    tickets = [one["id"] for one in campaign.json("ask", "--count", 3)]
    for ticket in tickets:
        campaign.good("tell", ticket, *OUTCOME)
    bill = campaign.folder / "bill.csv"
    bill.write_text(f"cost, id,dollars\n0.1,{tickets[0]},\n,{tickets[1]},0.5\n\n")
    assert "2 tickets amended" in campaign.good("amend", "--bill", bill)
    status = campaign.json("status")
    assert status["spent"] == pytest.approx(1.1)
    assert status["penalties"]["dollars"] == 1.0
    head = "id,cost\n"
    for text, expected in [
        (f"{head}{tickets[2]},0.9\nnobody,0.1\n", "nobody"),
        (f"{head}{tickets[2]},0.9\n{tickets[2]},0.8\n", "line 3"),
        (f"{head}{tickets[2]},a lot\n", "'a lot': must be a number"),
        (f"{head}{tickets[2]},-1\n", "-1.0"),
        (f"{head}{tickets[2]}\n", "has 1 columns"),
        (f"id,cost,dolars\n{tickets[2]},1,1\n", "did you mean 'dollars'?"),
        ("cost\n1\n", "column id"),
        (head, "must have a row"),
        ("", "column id"),
    ]:
        bill.write_text(text)
        assert expected in campaign.bad("amend", "--bill", bill)
    bill.write_bytes(b"id,cost\n\xff,1\n")
    assert "iconv -f latin1 -t utf-8" in campaign.bad("amend", "--bill", bill)
    assert "there is no such file" in campaign.bad("amend", "--bill", campaign.folder / "none.csv")
    assert "--bill" in campaign.bad("amend", "--bill", bill, "--cost", 1)
    assert campaign.json("status")["spent"] == pytest.approx(1.1)


def test_in_shadow_mode_another_system_acts(world):
    assert world.create("--shadow")["shadow"]
    ticket = world.json("ask", "--eligible", "haiku")
    assert ticket["reserved"] == 0.0
    world.good("tell", ticket["id"], "--arm", "opus", *OUTCOME)
    pulls = {one["arm"]: one["pulls"] for one in world.json("status")["arms"]}
    assert pulls == {"haiku": 0, "sonnet": 0, "opus": 1}


def test_expiry_and_release(world):
    world.create("--expire-after", 0.01)
    world.json("ask")
    time.sleep(0.05)
    world.json("ask")
    assert world.json("status")["expired"] == 1
    longer = world.json("ask", "--expire-after", 1e6)["expires_at"]
    assert longer > world.json("ask", "--count", 1)[0]["expires_at"]
    assert "expire_after" in world.bad("ask", "--expire-after", -1)
    world.store = str(world.folder / "other.db")
    dates = ("--starts", "2199-01-01", "--ends", "2199-02-01T00:00:00+01:00")
    world.create("--release", "even", *dates)
    assert "no budget is released before 2199-01-0" in world.bad("ask", status=1)


# Looking.


def test_a_limit_that_is_exceeded_is_red(campaign, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.delenv("NO_COLOR", raising=False)
    campaign.good("tell", campaign.json("ask")["id"], *OUTCOME)
    assert "\x1b[31m" not in campaign.good("status")
    wrong = [word.replace("bad=0", "bad=1") for word in OUTCOME]
    campaign.good("tell", campaign.json("ask")["id"], *wrong)
    shown = campaign.good("status")
    assert "\x1b[31mbad" in shown
    assert "\x1b[31mdollars" not in shown


def test_the_tables_of_a_campaign(campaign):
    ticket = campaign.json("ask", "--eligible", "opus")["id"]
    campaign.good("tell", ticket, *OUTCOME)
    campaign.json("ask")
    table = campaign.good("status")
    for words in (
        "november: open",
        "policy uniform-random, stop hard",
        "2 tickets: 1 in flight, 1 reported",
        "0.05 per pull",
        "0.5 per unit of cost",
        "mean dollars",
    ):
        assert words in table
    assert [line.split()[1:5] for line in table.splitlines() if "budget  " in line][1] == (
        ["10.0", "0.5", "1.0", "8.5"]
    )
    why = campaign.good("why", ticket)
    assert f"{ticket}: 'opus' was chosen by uniform-random" in why
    assert "among 'opus', with 10 of the budget free" in why
    assert campaign.json("why", ticket)["among"] == ["opus"]
    assert "is unknown" in campaign.bad("why", "nobody")
    assert "spent 0.5 of 10 in 1 pulls" in campaign.good("outlook")
    facts = campaign.json("outlook", "--doubt", 0.1)
    assert (facts["doubt"], [one["name"] for one in facts["limits"]]) == (0.1, ["bad", "dollars"])
    assert facts["limits"][0]["standing"] == "no bound yet"
    assert "doubt" in campaign.bad("outlook", "--doubt", 7)
    assert "estimated" not in campaign.good("outlook")
    assert "estimated from 200 forward runs" in campaign.good("outlook", "--estimate")
    _, out, _ = campaign.shell("campaign", "list", campaign.store)
    assert "november" in out
    _, out, _ = campaign.shell("campaign", "list", campaign.store, "--json")
    assert [one["name"] for one in json.loads(out)] == ["november"]


def test_a_narrow_terminal_gets_fewer_columns(campaign, monkeypatch):
    campaign.bad("tell", campaign.json("ask")["id"], "--cost", "nan", *OUTCOME[2:])
    assert "1 ticket: 1 charged after a refused report" in campaign.good("status")
    monkeypatch.setenv("COLUMNS", "44")
    lines = [line.rstrip() for line in campaign.good("status").splitlines()]
    assert max(len(line) for line in lines if "─" in line) <= 44
    assert "not shown, too little width: used" in lines


def test_the_log_in_lines_json_and_a_file(campaign):
    ticket = campaign.json("ask", "--eligible", "haiku")["id"]
    campaign.good("tell", ticket, *OUTCOME)
    campaign.good("pin", "sonnet")
    lines = campaign.good("events").splitlines()
    assert [line.split()[3] for line in lines] == ["created", "asked", "told", "pinned"]
    assert lines[2].endswith(f"{ticket}  haiku: cost 0.5, reward 1, bad 0, dollars 0.25")
    assert campaign.good("events", "--after", 2, "--count", 1).splitlines() == [lines[2]]
    events = campaign.json("events")
    assert campaign.json("events", "--after", 9) == []
    assert [event["seq"] for event in campaign.json("events", "--after", 1, "--count", 2)] == [2, 3]
    assert "--count 0" in campaign.bad("events", "--count", 0)
    exported = campaign.good("export")
    assert [json.loads(line) for line in exported.splitlines()] == events
    out = campaign.folder / "log.jsonl"
    status, printed, err = campaign.run("export", "-o", out)
    assert (status, printed, err) == (0, "", f"wrote 4 events to {out}\n")
    assert out.read_text() == exported
    printed = json.loads(campaign.run("export", "-o", out, "--json")[1])
    assert printed == {"file": str(out), "events": 4}
    for end in ("", "-wal", ".turn"):
        assert "of the store" in campaign.bad("export", "--out", f"{campaign.store}{end}")
    assert "/no/such" in campaign.bad("export", "--out", "/no/such/folder/log.jsonl")
    assert replayed(exported) == 4


def test_a_range_without_a_number_is_refused(world):
    bids = world.folder / "bids.toml"
    bids.write_text('costs = 1\n[space]\nbid = [0.0, 1.0]\n[limits]\nbad = "20% per pull"\n')
    world.create(task=str(bids))
    assert world.bad("ask", "--eligible", "nan", "1") == (
        "tightrope: 'nan' must be a finite number\n"
    )


def replayed(exported: str) -> int:
    """How many events an export has; each hash must follow from the one before it."""
    before, count = START, 0
    for line in exported.splitlines():
        facts = json.loads(line)
        text = line.partition('"body": ')[2].rpartition(', "hash": ')[0]
        row = Row(*(facts[key] for key in Row._fields[:6]), text, bytes.fromhex(facts["hash"]))
        assert stored(before, *row[:7]) == row
        before, count = row.hash, count + 1
    return count


def test_verify_and_what_it_finds(campaign):
    for _ in range(3):
        campaign.good("tell", campaign.json("ask")["id"], *OUTCOME)
    assert campaign.good("verify") == "good: events 1 to 7 rebuild 1 snapshot (1 to the bit)\n"
    assert campaign.json("verify")["good"]
    tamper(campaign.store, "UPDATE events SET body = replace(body, '0.5', '0.4') WHERE seq = 5")
    status, out, _ = campaign.run("verify")
    assert (status, out) == (1, "event 5: its hash does not follow from the event before it\n")
    status, out, _ = campaign.run("verify", "--json")
    found = json.loads(out)
    assert (status, found["good"], len(found["wrong"])) == (1, False, 1)
    assert "event 5" in campaign.bad("ask", status=1)
    assert "event 5" in campaign.bad("status", status=1)
    status, out, _ = campaign.shell("campaign", "list", campaign.store)
    assert (status, "halted" in out, "event 5" in out) == (0, True, True)
    assert len(campaign.json("events")) == 7
    status, out, err = campaign.run("events")
    assert (status, out.count("\n"), "event 5" in err) == (0, 7, True)


def tamper(store: str, statement: str) -> None:
    import sqlite3

    connection = sqlite3.connect(store)
    connection.execute(statement)
    connection.commit()
    connection.close()


# Changes.


def test_pause_resume_pin_and_close(campaign):
    assert campaign.good("pause", "--why", "lunch") == (
        "'november': paused (lunch); 10 of 10 is free\n"
    )
    assert "paused (lunch)" in campaign.good("status")
    assert "paused (lunch)" in campaign.bad("ask", status=1)
    assert campaign.json("resume")["state"] == "open"
    assert campaign.json("pin", "opus")["pinned"] == "opus"
    assert {one["arm"] for one in campaign.json("ask", "--count", 4)} == {"opus"}
    assert "arm 'opus' is pinned" in campaign.good("status")
    assert campaign.json("pin", "none")["pinned"] is None
    assert campaign.json("pin", "0")["pinned"] == "haiku"
    assert "is not an arm" in campaign.bad("pin", "nobody")
    assert "closed" in campaign.good("close")
    assert "closed" in campaign.bad("ask", status=1)
    assert "closed" in campaign.bad("resume", status=1)
    campaign.good("tell", "1-00000001", *OUTCOME)


def test_arms_and_budget_come_and_go(campaign):
    assert campaign.json("add-budget", 2.5)["budget"] == 12.5
    for amount in ("-1", "0"):
        said = f"amount = {float(amount)}: must be a positive number"
        assert said in campaign.bad("add-budget", amount)
    assert "amount = nan" in campaign.bad("add-budget", "nan")
    assert "arm 'fable' is added" in campaign.good("add-arm", "fable", "--like", "0")
    assert "fable" in campaign.bad("add-arm", "fable")
    assert "arm 'haiku' is retired" in campaign.good("retire-arm", "haiku")
    arms = {one["arm"]: one["retired"] for one in campaign.json("status")["arms"]}
    assert arms == {"haiku": True, "sonnet": False, "opus": False, "fable": False}
    assert "haiku (retired)" in campaign.good("status")
    for arm in ("sonnet", "opus"):
        campaign.good("retire-arm", arm)
    assert "arm = 'fable': is the last arm" in campaign.bad("retire-arm", "fable")
    assert "has no known costs" in campaign.bad("reprice", "opus", "--cost", 0.5)
    assert "--cost or --penalty" in campaign.bad("reprice", "opus")


def test_a_budget_is_set_higher_and_lower(campaign):
    assert "the budget is 8; 8 of 8 is free" in campaign.good("set-budget", 8)
    campaign.json("ask", "--id", "a")
    assert "must be at least 1, because 0 is spent and 1 is reserved" in campaign.bad(
        "set-budget", 0.5
    )
    found = campaign.json("set-budget", 1)
    assert (found["budget"], found["free"], found["promise"]) == (1, 0, None)
    assert "budget = -1.0" in campaign.bad("set-budget", "-1")


def test_a_lower_budget_says_what_remains_of_a_promise(world):
    path = world.folder / "safe.toml"
    limits = "limits = { bad = 0.05 }\nsafe = 'old'\nsafe_rates = { bad = 0.02 }\n"
    path.write_text(f"{limits}[[arms]]\nname = 'new'\n[[arms]]\nname = 'old'\n")
    made = world.create(task=str(path), budget=5000, policy="resolve:risk=0.01")
    assert made["promise"].startswith("risk = 0.01 is promised")
    assert "risk = 0.01 cannot be promised yet: the chance" in world.good("set-budget", 100)
    assert "risk = 0.01 cannot be promised yet: the chance" in world.good("status")


def test_after_an_overrun_a_campaign_pauses_or_goes_on(world):
    made = world.create("--on-overrun", "alert")
    assert made["on_overrun"] == "alert"
    ticket = world.json("ask")["id"]
    world.good("tell", ticket, *OUTCOME)
    world.good("amend", ticket, "--cost", 1.5)
    text = world.good("status")
    assert "continues after an overrun" in text
    assert "1 reported or amended above their reservation" in text
    assert world.json("change", "--on-overrun", "pause")["on_overrun"] == "pause"
    world.good("amend", ticket, "--cost", 1.75)
    assert world.json("status")["why"] == "overrun"
    assert "--on-overrun" in world.bad("change", "--on-overrun", "never")


def test_requests_with_types(world):
    made = world.create("--types", "math, code", policy="resolve")
    assert [one["type"] for one in made["types"]] == ["math", "code"]
    ticket = world.json("ask", "--context", "code")
    assert ticket["context"] == "code"
    assert "for type 'math'" in world.good("ask", "--context", "math")
    many = world.json("ask", "--count", 2, "--context", "math")
    assert [one["context"] for one in many] == ["math", "math"]
    many = world.json("ask", "--count", 2, "--context", "math", "--context", "code")
    assert [one["context"] for one in many] == ["math", "code"]
    assert "must come once, or 3 times, not 2 times" in world.bad(
        "ask", "--count", 3, "--context", "math", "--context", "code"
    )
    assert "context is missing; must be one of 'math', 'code'" in world.bad("ask")
    assert "context 'mat' is unknown; did you mean 'math'?" in world.bad("ask", "--context", "mat")
    world.good("tell", ticket["id"], *OUTCOME)
    types = {one["type"]: one for one in world.json("status")["types"]}
    assert types["code"]["pulls"][ticket["arm"]] == 1
    assert (types["math"]["asked"], types["code"]["share"]) == (4, 1 / 3)
    assert "math" in world.good("status")
    assert "was chosen for type 'code' by resolve" in world.good("why", ticket["id"])
    assert world.json("why", ticket["id"])["context"] == "code"
    assert "type 'code' is merged into 'math'" in world.good("merge-types", "code", "math")
    assert [one["type"] for one in world.json("status")["types"]] == ["math"]
    assert "good" in world.good("verify")


def test_types_beside_the_features_of_a_task(world):
    path = world.folder / "features.toml"
    path.write_text(f'contexts = {{ features = ["length", "code"] }}\n{TASK}')
    made = world.create("--types", "math,chat", task=path)
    assert [one["type"] for one in made["types"]] == ["math", "chat"]
    assert world.json("ask", "--context", "math,320,1")["context"] == "math"
    assert "0 numbers must be 2, one for each feature" in world.bad("ask", "--context", "math")


def test_a_campaign_learns_from_a_log(world):
    path = world.folder / "past.csv"
    path.write_text(
        "kind,model,usd,score,bad,dollars\nmath,haiku,0.5,1,0,0.1\ncode,opus,0.25,0,1,0.1\n"
    )
    columns = ["--arm", "model", "--cost", "usd", "--reward", "score", "--context", "kind"]
    given = ["--types", "math,code", "--learn-from", path, *columns]
    words = ["create", "--task", world.task, "--budget", 10]
    assert "weight = 2.0: must be above 0, at most 1" in world.bad(*words, *given, "--weight", 2)
    assert "--arm: must come with --learn-from FILE" in world.bad(*words, *columns)
    assert "context 'code' is unknown" in world.bad(*words, "--types", "math", *given[2:])
    world.create(*given, "--weight", 0.5, policy="resolve")
    created = world.json("events")[0]
    assert [(one[0], one[1], one[2][0]) for one in created["body"]["past"]] == [
        ("math", 0, 0.5),
        ("code", 2, 0.5),
    ]
    assert "good" in world.good("verify")


def test_a_campaign_is_given_types(campaign):
    campaign.good("ask", "--id", "one")
    campaign.good("change", "--types", "math,code")
    campaign.good("tell", "one", *OUTCOME)
    assert campaign.json("ask", "--context", "math")["context"] == "math"
    assert "context = 'x': must be left out" not in campaign.bad("ask", "--context", "x")


def test_creating_says_what_is_reserved_per_decision(world):
    words = ("--task", world.task, "--budget", 50, "--policy", "lyon")
    status, _, err = world.run("create", *words)
    assert (status, err.count("\n")) == (0, 1)
    assert "reserves 1 per decision: at most 50 in flight" in err


def test_reprice(world):
    path = world.folder / "known.toml"
    path.write_text(
        "limit = 0.5\n[costs]\na = 0.25\nb = 0.5\n[[arms]]\nname = 'a'\n[[arms]]\nname = 'b'\n"
    )
    world.create(task=str(path))
    world.good("reprice", "a", "--cost", 0.125)
    assert world.json("ask", "--eligible", "a")["reserved"] == 0.125
    world.good("add-arm", "c", "--cost", 0.75)
    assert world.json("ask", "--eligible", "c")["reserved"] == 0.75


def test_change_keeps_what_a_limit_is_per(campaign):
    campaign.good("change", "--limit", "bad=0.04", "--expire-after", 60)
    assert "0.04 per pull" in campaign.good("status")
    campaign.good("change", "--policy", "fixed-arm:arm=opus", "--per-day", 3)
    campaign.json("ask")
    assert [event["kind"] for event in campaign.json("events")] == (
        ["created", "changed", "changed", "asked"]
    )
    assert campaign.json("status")["policy"] == "fixed-arm:arm=opus"
    assert len(campaign.run("ask", "--count", 9, "--json")[1].split('"id"')) == 3
    assert "did you mean 'bad'?" in campaign.bad("change", "--limit", "bda=0.1")
    assert "NAME=0.1" in campaign.bad("change", "--limit", 0.1)
    assert "must have --limit" in campaign.bad("change")
    assert "lyonn" in campaign.bad("change", "--policy", "lyonn")


# Keeping.


def test_backup_and_restore(campaign):
    ticket = campaign.json("ask")["id"]
    copy, new = (str(campaign.folder / name) for name in ("copy.db", "new.db"))
    status, out, _ = campaign.shell("campaign", "backup", campaign.store, copy)
    assert (status, out) == (0, f"copied 1 campaign to {copy}\n")
    assert "exists" in campaign.shell("campaign", "backup", campaign.store, copy)[2]
    status, _, err = campaign.shell("campaign", "backup", campaign.store, "/no/such/copy.db")
    assert (status, "cannot write '/no/such/copy.db'" in err) == (2, True)
    status, out, _ = campaign.shell("campaign", "restore", copy, new)
    assert (status, out.count("\n"), ticket in out) == (0, 1, True)
    campaign.store = new
    found = campaign.json("status")
    assert (found["state"], found["doubtful"]) == ("paused", [ticket])
    assert "in doubt" in campaign.good("status")
    campaign.json("resume")
    assert campaign.json("ask")["id"].startswith("2-")
    status, _, err = campaign.shell("campaign", "restore", copy, new)
    assert (status, "exists" in err) == (2, True)


def test_archive(campaign):
    for _ in range(3):
        campaign.good("tell", campaign.json("ask")["id"], *OUTCOME)
    file, whole = campaign.folder / "old.jsonl", campaign.good("export").splitlines(keepends=True)
    assert campaign.good("archive", file, "--before", 4) == f"moved 3 events to {file}\n"
    assert campaign.json("events")[0]["seq"] == 4
    assert file.read_text() == "".join(whole[:3])
    assert campaign.good("export").splitlines(keepends=True)[: len(whole) - 3] == whole[3:]
    campaign.good("verify")
    campaign.good("tell", campaign.json("ask")["id"], *OUTCOME)
    assert "--before 999: " in campaign.bad("archive", campaign.folder / "x", "--before", 999)
    assert "exists" in campaign.bad("archive", file, "--before", 5)
    assert "are archived" in campaign.bad("change", "--policy", "lyon")
    campaign.good("change", "--policy", "lyon", "--archive", file)
    assert campaign.json("status")["policy"] == "lyon"


# What is wrong, and where.


def test_a_store_that_is_not_there_is_not_made(world):
    for words in (["status"], ["ask"], ["tell", "1", *OUTCOME], ["verify"], ["events"], ["export"]):
        assert "no such file" in world.bad(*words)
    for words in (["list", world.store], ["backup", world.store, world.store + "2"]):
        status, _, err = world.shell("campaign", *words)
        assert (status, err.count("\n")) == (2, 1)
    assert world.shell("campaign", "restore", world.store, world.store + "2")[0] == 2
    assert [path.name for path in world.folder.iterdir()] == ["task.toml"]


def test_what_is_not_a_store_stays_as_it_is(world):
    text, folder = world.folder / "notes.txt", world.folder / "folder"
    text.write_text("not a database")
    folder.mkdir()
    before = sorted(world.folder.iterdir())
    for path in (text, folder):
        world.store = str(path)
        words = ("--task", world.task, "--budget", 5, "--policy", "uniform-random")
        for command in (["status"], ["create", *words]):
            assert "must be a file" in world.bad(*command)
    assert sorted(world.folder.iterdir()) == before


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("--budget -5", ["budget", "-5"]),
        ("--budget ten", ["'ten'", "number"]),
        ("--policy lyonn", ["lyonn", "'lyon'"]),
        ("--policy lyoff", ["lyoff", "distributions"]),
        ("--task nobody", ["nobody"]),
        ("--stop never", ["never", "hard"]),
        ("--release even", ["starts and ends"]),
        ("--release even --starts 2026-12-01 --ends soon", ["ends", "'soon'"]),
        ("--expire-after 0", ["expire_after"]),
        ("--per-day nan", ["per_day"]),
        ("--seed x", ["'x'", "whole number"]),
    ],
)
def test_a_mistake_in_create_leaves_nothing_behind(world, words, expected):
    given = {"--task": world.task, "--budget": "10", "--policy": "uniform-random"}
    pairs = words.split()
    given |= dict(zip(pairs[::2], pairs[1::2], strict=True))
    error = world.bad("create", *(word for pair in given.items() for word in pair))
    assert all(word in error for word in expected), error
    assert [path.name for path in world.folder.iterdir()] == ["task.toml"]


def test_creating_twice_is_an_error(campaign):
    what = ("--task", campaign.task, "--budget", 10, "--policy", "uniform-random")
    assert "exists already" in campaign.bad("create", *what)
    assert campaign.json("status")["events"] == 1


def test_a_budget_that_cannot_be_kept_warns(world):
    path = world.folder / "growing.toml"
    path.write_text("[scales]\ngrow = ['cost']\n[[arms]]\nname = 'a'\n[[arms]]\nname = 'b'\n")
    status, out, err = world.run(
        *("create", "--task", path, "--budget", 10, "--policy", "uniform-random", "--json")
    )
    assert (status, json.loads(out)["stop"]) == (0, "soft")
    assert err.startswith("warning: campaign 'november' is soft")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("campaign", "campaign: the following arguments are required: COMMAND; see campaign"),
        ("campaign crate a b", "campaign command 'crate' is unknown; did you mean 'create'?"),
        ("campaign ask a", "campaign ask: the following arguments are required: NAME; see"),
        ("campaign ask a b --cuont 3", "ask: option '--cuont' is unknown; did you mean '--count'?"),
        ("campaign tell a b c --cost x", "campaign tell: argument --cost: 'x' must be a number"),
        ("campaign tell a b c --penalty bad", "'bad' must read NAME=NUMBER"),
        ("campaign tell a b c --cost --reward 1", "argument --cost: expected one argument"),
        ("campaign ask a b --count 1.5", "'1.5' must be a whole number"),
        ("campaign ask a b c", "unrecognized arguments: c"),
        ("campaign ask a b -x", "unrecognized arguments: -x"),
        ("campaign quarantine a b corect 3", "invalid choice: 'corect'"),
        ("campaign status memory: b", "memory:"),
        ("campaign status ftp://x b", "must be a path of a file, postgresql://"),
    ],
)
def test_bad_words_are_one_line(shell, tmp_path, monkeypatch, words, expected):
    monkeypatch.chdir(tmp_path)
    status, out, err = shell(*words.split())
    assert (status, out) == (2, "")
    assert err.count("\n") == 1
    assert expected in err
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_campaign_has_a_hint(campaign):
    error = campaign.shell("campaign", "status", campaign.store, "novembr")[2]
    assert error == "tightrope: campaign 'novembr': does not exist; did you mean 'november'?\n"
    assert "'novembr'" in campaign.shell("campaign", "verify", campaign.store, "novembr")[2]


def test_names_and_ids_may_begin_with_a_dash(world):
    words = ("--task", world.task, "--budget", "5", "--policy", "uniform-random")
    assert world.shell("campaign", "create", *words, "--", world.store, "-n")[0] == 0
    assert world.shell("campaign", "ask", "--id=-x", "--", world.store, "-n")[0] == 0
    status, out, _ = world.shell("campaign", "tell", *OUTCOME, "--", world.store, "-n", "-x")
    assert (status, out) == (0, "-x: reported; 4.5 of 5 is free\n")


def commands_of(group, *path):
    for name, one in group.commands.items():
        if isinstance(one, Group):
            yield from commands_of(one, *path, name)
        else:
            yield (*path, name), one


@pytest.mark.parametrize(
    ("path", "command"), [pytest.param(*one, id=" ".join(one[0])) for one in commands_of(COMMANDS)]
)
def test_every_command_explains_itself(capsys, path, command):
    with pytest.raises(SystemExit) as stop:
        main([*path, "--help"])
    out = " ".join(capsys.readouterr().out.split())
    assert (stop.value.code, " ".join(command.__doc__.split("\n")[0].split()) in out) == (0, True)
    for one in parameters(command):
        assert one.help, one.name
        assert one.help == argparse.SUPPRESS or " ".join(one.help.split()) in out, one.name


def test_what_a_docstring_says_of_parameters_is_of_parameters():
    for path, command in commands_of(COMMANDS):
        last = inspect.cleandoc(command.__doc__).rpartition("\n\n")[2]
        told = [TOLD.match(line) for line in last.splitlines() if not line.startswith(" ")]
        names = [line[1] for line in told if line]
        if "\n\n" in command.__doc__ and not last.startswith("tightrope "):
            assert len(names) == len(told), path
            assert set(names) <= {one.name for one in parameters(command)}, path


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("tightrope camp", ["campaign"]),
        ("tightrope campaign re", ["resume", "reprice", "restore", "retire-arm"]),
        ("tightrope campaign create router.db x --pol", ["--policy"]),
        ("tightrope campaign create router.db x --policy ucb", ["ucb-bwi", "ucb-lp", "ucb-alp"]),
        ("tightrope campaign create router.db x --task hir", ["hiring"]),
        ("tightrope campaign ask router.db nov", ["november"]),
        ("tightrope campaign ask nowhere.db nov", []),
    ],
)
def test_completion(campaign, line, expected):
    assert sorted(completed(line, campaign.folder)) == sorted(expected)


# A policy of one's own.


def test_a_policy_in_a_file_is_found_from_another_folder(world, monkeypatch):
    (world.folder / "mine.py").write_text(MINE)
    monkeypatch.chdir(world.folder)
    words = ("--task", "task.toml", "--budget", "5", "--policy", "mine.py:Mine", "--json")
    status, out, _ = world.run("create", *words)
    assert (status, json.loads(out)["policy"]) == (0, f"{world.folder / 'mine.py'}:Mine")
    elsewhere = world.folder / "elsewhere"
    elsewhere.mkdir()
    child = subprocess.run(
        [sys.executable, "-m", "tightrope", "campaign", "ask", world.store, "november", "--json"],
        cwd=elsewhere,
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(child.stdout)["id"] == "1-00000001"
    assert child.stderr == "a policy that prints\n"
    world.good("change", "--policy", "uniform-random")
    world.good("change", "--policy", "mine.py:Mine")
    monkeypatch.chdir(elsewhere)
    assert world.json("status")["policy"] == f"{world.folder / 'mine.py'}:Mine"
    (world.folder / "mine.py").unlink()
    child = world.process("ask")
    assert "mine.py': there is no such file\n" in child.communicate(timeout=60)[1]
    assert child.returncode == 2


# Several processes.


def test_two_processes_ask_at_once(world):
    world.create(budget=20)
    children = [world.process("ask", "--count", 4, "--json") for _ in range(2)]
    found = [json.loads(child.communicate(timeout=60)[0]) for child in children]
    ids = [ticket["id"] for tickets in found for ticket in tickets]
    assert len(set(ids)) == 8
    status = world.json("status")
    assert (status["asked"], status["reserved"], status["free"]) == (8, 8.0, 12.0)
    world.good("verify")


def test_one_of_two_processes_creates(world):
    words = ("--task", "task.toml", "--budget", 5, "--policy", "uniform-random", "--json")
    children = [world.process("create", *words) for _ in range(2)]
    errors = [child.communicate(timeout=60)[1] for child in children]
    assert sorted(child.returncode for child in children) == [0, 2]
    assert sum("exists already" in error for error in errors) == 1


HOLDER = """
import sys, time
from tightrope import open_campaign
ticket = open_campaign(sys.argv[1], "november").ask("request-7")
print(ticket.id, flush=True)
time.sleep(600)
"""


def test_a_ticket_survives_kill_and_is_told_by_another_process(campaign, start_python):
    child = start_python("-c", HOLDER, campaign.store)
    assert child.stdout.readline() == "request-7\n"
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    assert [one["id"] for one in campaign.json("tickets")] == ["request-7"]
    assert campaign.json("ask", "--id", "request-7")["state"] == "open"
    teller = campaign.process("tell", "request-7", *OUTCOME, "--json")
    out, err = teller.communicate(timeout=60)
    assert (teller.returncode, json.loads(out)["state"]) == (0, "told"), err
    status = campaign.json("status")
    assert (status["told"], status["in_flight"], status["spent"]) == (1, 0, 0.5)
    campaign.good("verify")


def test_an_interrupted_command_ends_with_130(campaign, monkeypatch):
    from tightrope.live.campaign import Campaign

    def stopped(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(Campaign, "ask", stopped)
    status, out, err = campaign.run("ask", "--json")
    assert (status, out) == (130, "")
    assert err == "tightrope: interrupted; campaign status shows whether it was recorded\n"


def test_a_command_compiles_nothing_for_later(campaign, monkeypatch):
    from tightrope.live.calls import Background
    from tightrope.live.campaign import Campaign

    ask, wanted = Campaign.ask, []

    def watched(self, *words, **options):
        wanted.append(Background.wanted)
        return ask(self, *words, **options)

    monkeypatch.setattr(Campaign, "ask", watched)
    campaign.json("ask")
    assert (wanted, Background.wanted) == ([False], True)


def test_a_busy_store_is_status_one(campaign, monkeypatch):
    import fcntl

    from tightrope.live.stores.base import Store

    monkeypatch.setattr(Store, "deadline", 0.05)
    with open(campaign.store + ".turn") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        assert "no turn within 0.05 s" in campaign.bad("ask", status=1)


def test_the_shell_imports_no_figures(campaign):
    code = (
        "import sys; from tightrope.cli import main; main(sys.argv[1:]);"
        " assert not {'matplotlib', 'jinja2', 'ray', 'pandas'} & set(sys.modules)"
    )
    words = [sys.executable, "-c", code, "campaign", "status", campaign.store, "november"]
    subprocess.run(words, check=True, capture_output=True)


def test_a_reader_that_has_enough_is_no_error(tmp_path):
    """`status | head -1`: the pipe is closed while the table is printed."""
    task = tmp_path / "task.toml"
    task.write_text("limit = 0.5\n[[arms]]\nname = 'a'\n")
    store = str(tmp_path / "store.db")
    create = ["campaign", "create", store, "x", "--task", str(task), "--budget", "9"]
    assert main([*create, "--policy", "uniform-random"]) == 0
    words = [sys.executable, "-m", "tightrope", "campaign", "status", store, "x"]
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(words, stdout=writing, stderr=subprocess.PIPE, text=True)
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, "")
