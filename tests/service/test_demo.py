"""The demo: it lives, it shows what it promises, and it leaves nothing behind."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tightrope import open_campaign
from tightrope.client import Client
from tightrope.live.stores.memory import MemoryStore
from tightrope.problem import Task
from tightrope.service import demo


@pytest.fixture
def running(tmp_path):
    """A demo in a session of its own, its address, and its folder for temporary files."""
    command = [sys.executable, "-m", "tightrope", "demo", "--no-browser", "--port", "0"]
    process = subprocess.Popen(
        [*command, "--speed", "5"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        start_new_session=True,
    )
    yield process, process.stdout.readline().strip().rstrip("/"), tmp_path
    if process.poll() is None:
        process.kill()
    process.communicate()


def session(leader):
    """The processes of a session."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == leader and fields[0] != "Z":
            found.append(int(stat.parent.name))
    return found


def told(url, least):
    """The status of its campaign, once so much was reported."""
    with Client(url, deadline=60) as client:
        for _ in range(600):
            campaigns = client.campaigns()
            if campaigns and campaigns[0]["told"] >= least:
                return campaigns[0]
            time.sleep(0.1)
    raise AssertionError("no reports within a minute")


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_it_runs_and_leaves_nothing_behind(running, how):
    process, url, folder = running
    status = told(url, 20)
    assert status["name"] == "router 1"
    assert status["budget"] == demo.BUDGET
    assert {one["arm"] for one in status["arms"]} == set(demo.MODELS)
    assert list(folder.iterdir()) == [], "it needs no file"
    process.send_signal(how)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 0, said
    assert "sonnet gets worse" in said
    assert said.endswith("ended; nothing is left behind\n")
    assert "Traceback" not in said
    assert list(folder.iterdir()) == []
    assert session(process.pid) == []
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", int(url.rpartition(":")[2]))) != 0


def test_even_a_kill_leaves_nothing_behind(running):
    process, url, folder = running
    told(url, 1)
    process.kill()
    process.wait()
    assert list(folder.iterdir()) == []
    assert session(process.pid) == []


def test_it_can_be_paused(running):
    _, url, _ = running
    told(url, 1)
    with Client(url) as client:
        client.act("router 1", "pause", why="lunch")
        asked = client.status("router 1")["asked"]
        time.sleep(0.5)
        assert client.status("router 1")["asked"] == asked
        client.act("router 1", "resume")
    assert told(url, asked + 5)["state"] == "open"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--speed", "0"], "--speed 0: must be from 0.1 to 20"),
        (["--speed", "nan"], "--speed nan"), (["--port", "70000"], "--port 70000"),
    ],
)  # fmt: skip
def test_bad_options_are_named(shell, words, said):
    status, out, error = shell("demo", "--no-browser", *words)
    assert (status, out) == (2, "")
    assert said in error


def test_a_port_in_use_is_named_or_another_is_taken(shell, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        status, _, error = shell("demo", "--no-browser", "--port", str(port))
        assert status == 2
        assert f"--port {port}: cannot listen on" in error
        monkeypatch.setattr(demo, "PORT", port)
        assert demo._usable(None) == 0
    assert demo._usable(None) == port


class Direct:
    """A client whose service is a campaign at hand."""

    def __init__(self):
        self.store, self.campaigns = MemoryStore(), {}

    async def create(self, name, task, budget, **more):
        self.campaigns[name] = open_campaign(
            self.store, name, task=Task.from_table(task), budget=budget, **more
        )

    async def ask(self, name):
        return self.campaigns[name].ask()

    async def report(self, name, id, cost, reward, penalty):
        self.campaigns[name].tell(id, cost, reward, penalty)


def test_half_way_one_model_gets_worse_and_loses_its_share(monkeypatch):
    monkeypatch.setattr(demo, "RATE", 400.0)
    monkeypatch.setattr(demo, "MOST_OPEN", 50)
    for model in ("NEVER", "LATE", "NONSENSE"):
        monkeypatch.setattr(demo, model, 0.0)
    said, client = [], Direct()
    traffic = demo.Traffic(client, 20.0, said.append)
    shares = []

    def say(line):
        said.append(line)
        if "worse" in line:
            shares.append(pulls(client))

    traffic._say = say
    asyncio.run(traffic.campaign("router", seed=1))
    assert [line.split()[-1] for line in said] == ["begins", "worse", "budget"]
    campaign = client.campaigns["router"]
    status, before, after = campaign.status(), shares[0], pulls(client)
    assert status["spent"] <= status["budget"] == demo.BUDGET
    assert status["spent"] > 0.99 * demo.BUDGET
    assert status["penalties"]["bad"] / status["told"] < 1.02 * demo.LIMIT, "as promised"
    late = {name: after[name] - before[name] for name in after}
    assert before["sonnet"] / sum(before.values()) > 0.5
    assert late["sonnet"] / sum(late.values()) < 0.35
    assert campaign.verify().good


def pulls(client):
    return {one["arm"]: one["pulls"] for one in client.campaigns["router"].status()["arms"]}
