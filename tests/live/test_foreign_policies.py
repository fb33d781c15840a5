"""A store names its policy. Opening a store runs no code that its owner did not run already."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

POLICY = """
from dataclasses import dataclass
from tightrope.policies.base import Policy, Setup, limits_of
print("RAN", flush=True)

@dataclass(frozen=True)
class Mine(Policy):
    name = "mine"
    summary = "each arm in turn"
    def setup(self, task, budget):
        return Setup((), limits_of(task))
    def decide(self, setup, step, statistics, queues, uniform):
        return int(sum(statistics.pulls)) % len(statistics.pulls)
"""
MAKE = """
import sys
from tightrope import Task, open_campaign
from tightrope.live import arguments
if sys.argv[2] == "as before 0.3":
    arguments.lasting = lambda text: text
task = Task(["a", "b"], {"bad": "0.4 per cost"})
with open_campaign("store.db", "one", task=task, budget=50, policy=sys.argv[1]) as campaign:
    for number in range(6):
        campaign.tell(campaign.ask(f"{number}").id, cost=0.5, reward=1, penalty=0)
    campaign.ask("open")
"""


def run(folder, *words, code=None):
    """A new process in a folder; what it printed, and its status."""
    program = ["-c", code] if code else ["-m", "tightrope"]
    done = subprocess.run(
        [sys.executable, *program, *words], cwd=folder, capture_output=True, text=True, timeout=300,
        env={**os.environ, "PYTHONPATH": os.environ.get("PYTHONPATH", "")},
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("owner")
    (made / "mine.py").write_text(POLICY)
    return made


@pytest.fixture(scope="module", params=["mine.py:Mine", "mine:Mine"])
def foreign(request, folder, tmp_path_factory):
    """A folder with a store from somebody else, and a file of the name that it has."""
    status, _, told = run(folder, request.param, "as before 0.3", code=MAKE)
    assert status == 0, told
    other = tmp_path_factory.mktemp("victim")
    os.rename(folder / "store.db", other / "store.db")
    (other / "mine.py").write_text(POLICY.replace("RAN", "EVIL RAN"))
    return other, request.param


def test_a_store_from_somebody_else_runs_nothing(foreign):
    folder, _ = foreign
    status, out, told = run(folder, "campaign", "status", "store.db", "one", "--json")
    found = json.loads(out)
    assert (status, found["spent"], found["reserved"], found["in_flight"]) == (0, 3.0, 1.0, 1)
    assert "--trust-policy mine" in found["why"]
    words = out + told
    status, out, told = run(folder, "campaign", "verify", "store.db", "one")
    assert status == 0
    assert "as to money alone" in out
    assert "the policy was not run: the store names the" in out
    words += out + told
    for command in (("ask",), ("events",), ("why", "open")):
        status, out, told = run(folder, "campaign", command[0], "store.db", "one", *command[1:])
        assert (status == 0) == (command[0] == "events")
        assert "Traceback" not in told
        words += out + told
    words += "".join(run(folder, "campaign", "list", "store.db")[1:])
    assert "RAN" not in words


def test_who_asks_for_it_runs_it(foreign):
    folder, name = foreign
    given = ("--trust-policy", name)
    status, out, told = run(folder, "campaign", "status", "store.db", "one", *given)
    assert (status, "RAN" in told) == (0, True), told
    assert "halted" not in out
    status, out, told = run(folder, "campaign", "verify", "store.db", "one", *given)
    assert (status, "RAN" in told) == (0, True), told
    assert "to the bit" in out


def test_the_same_file_runs_unattended_and_another_does_not(folder, tmp_path):
    status, _, told = run(folder, "mine.py:Mine", "now", code=MAKE)
    assert status == 0, told
    store = str(folder / "store.db")
    status, out, told = run(tmp_path, "campaign", "ask", store, "one")  # from another folder
    assert (status, "RAN" in told) == (0, True), told
    text = (folder / "mine.py").read_text()
    (folder / "mine.py").write_text(text + "\n# changed\n")
    try:
        status, out, told = run(tmp_path, "campaign", "ask", store, "one")
        assert (status, "RAN" in out + told) == (2, False)
        assert f"policy file '{folder / 'mine.py'}', SHA-256" in told
        assert f"--trust-policy {folder / 'mine.py'}:Mine" in told
        assert told.count("\n") == 1
        trust = f"{folder / 'mine.py'}:Mine"
        assert run(tmp_path, "campaign", "ask", store, "one", "--trust-policy", trust)[0] == 0
    finally:
        (folder / "mine.py").write_text(text)
