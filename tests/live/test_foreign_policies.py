"""A store names its policy. Opening a store runs no code that its owner did not run already."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tightrope.client import Client
from tightrope.service.server import Running

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
from tightrope.live import arguments, core
if sys.argv[2] == "as before 0.3":
    arguments.lasting = lambda text: text
    core.code_of = lambda kind, text: ""
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
    assert "money only" in out
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


@pytest.mark.parametrize("trusted", ["mine.py:Mine", "mine:Mine"])
def test_a_policy_that_was_given_as_an_object_is_trusted_by_either_name(folder, tmp_path, trusted):
    made = MAKE.replace("policy=sys.argv[1]", "policy=mine.Mine()").replace("sys\n", "sys, mine\n")
    (tmp_path / "mine.py").write_text(POLICY)
    status, _, told = run(tmp_path, "", "now", code=made)
    assert status == 0, told
    status, out, told = run(tmp_path, *AGAIN)
    assert (status, "RAN" in out + told) == (2, False)
    assert "the store names the policy 'mine', which is not installed; add --trust-policy" in told
    assert run(tmp_path, *AGAIN, "--trust-policy", trusted)[0] == 0


# A policy in a module: the file, those of its packages and their places must be as they were.

AGAIN = ("campaign", "ask", "store.db", "one")


@pytest.fixture
def package(tmp_path):
    """A folder with a store whose policy is in a package in a package."""
    (tmp_path / "mine/inner").mkdir(parents=True)
    (tmp_path / "mine/__init__.py").write_text("")
    (tmp_path / "mine/inner/__init__.py").write_text("print('RAN', flush=True)")
    (tmp_path / "mine/inner/turn.py").write_text(POLICY)
    status, _, told = run(tmp_path, "mine.inner.turn:Mine", "now", code=MAKE)
    assert status == 0, told
    return tmp_path


def in_place_of(package, path, text="print('EVIL RAN', flush=True)"):
    """Put a file where there is another one, or none."""
    (package / path).parent.mkdir(parents=True, exist_ok=True)
    (package / path).write_text(text)


def move(package, _):
    """The same package in another folder, which is looked at first."""
    (package / "other").mkdir()
    os.rename(package / "mine", package / "other/mine")


CHANGES = {
    "the module is another": (in_place_of, "mine/inner/turn.py"),
    "the module is a package": (in_place_of, "mine/inner/turn/__init__.py"),
    "its package is another": (in_place_of, "mine/inner/__init__.py"),
    "the outer package is another": (in_place_of, "mine/__init__.py"),
    "a package shadows them": (in_place_of, "other/mine/__init__.py"),
    "a module shadows them": (in_place_of, "other/mine.py"),
    "they have moved": (move, None),
    "it is gone": (lambda package, path: os.remove(package / path), "mine/inner/turn.py"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_module_that_is_not_the_recorded_one_runs_nothing(package, change, monkeypatch):
    places = [package / "other", os.environ.get("PYTHONPATH", ""), package]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, places)))
    act, path = CHANGES[change]
    act(package, path)
    elsewhere = package / "elsewhere"  # the working folder would be looked at before the others
    elsewhere.mkdir()
    status, out, told = run(elsewhere, "campaign", "ask", str(package / "store.db"), "one")
    assert (status, "RAN" in out + told) == (2, False), told
    assert "--trust-policy mine.inner.turn:Mine" in told
    assert told.count("\n") == 1


def test_the_same_module_runs_unattended(package):
    status, _, told = run(package, *AGAIN)
    assert (status, "RAN" in told) == (0, True), told
    assert run(package, *AGAIN, "--trust-policy", "mine.inner.turn:Mine")[0] == 0
    (package / "mine/inner/turn.py").write_text(POLICY + "# changed")
    assert run(package, *AGAIN)[0] == 2
    assert run(package, *AGAIN, "--trust-policy", "mine.inner.turn:Mine")[0] == 0


def test_a_module_in_the_working_folder_shadows_none(package):
    """A module of the recorded name, in a folder where a store is only looked at."""
    victim = package / "victim"
    in_place_of(package, "victim/mine/inner/turn.py")
    os.rename(package / "store.db", victim / "store.db")
    status, out, told = run(victim, *AGAIN)
    assert (status, "RAN" in out + told) == (2, False), told


def test_a_class_that_a_module_has_from_another_runs_unattended(package):
    """The module that is named is the one that is recorded."""
    (package / "front.py").write_text("from mine.inner.turn import Mine")
    os.remove(package / "store.db")
    status, _, told = run(package, "front:Mine", "now", code=MAKE)
    assert status == 0, told
    assert run(package, *AGAIN)[0] == 0
    in_place_of(package, "front.py")
    status, out, told = run(package, *AGAIN)
    assert (status, "EVIL RAN" in out + told) == (2, False), told


def test_a_server_restarts_with_a_policy_in_a_module(package, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", f"{package}:{os.environ.get('PYTHONPATH', '')}")
    for number in range(2):
        with Running(str(package / "store.db")) as service, Client(service.url) as client:
            assert client.ask("one", f"turn-{number}").id == f"turn-{number}"
    (package / "mine/inner/turn.py").write_text(POLICY + "# changed")
    with Running(str(package / "store.db")) as service, Client(service.url) as client:
        assert client.campaigns()[0]["state"] == "halted"
        assert "--trust-policy mine.inner.turn:Mine" in client.campaigns()[0]["why"]
