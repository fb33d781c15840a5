"""Short forms of the commands that kill, cut and load the service."""

from __future__ import annotations

import socket
import time

import pytest

from benchmarks import service as load
from tests.live.conftest import postgres_server  # noqa: F401, a fixture
from tests.service import kills, soak, upgrade
from tests.service.proxy import Proxy
from tightrope.client import Client
from tightrope.version import __version__


def test_servers_that_are_killed_lose_and_double_nothing(tmp_path):
    found = kills.run(tmp_path / "campaigns.db", tmp_path, cycles=3, workers=4, reports=25)
    assert kills.good(found), found
    assert found["tells"] >= 25


def test_answers_that_are_lost_lose_and_double_nothing(tmp_path):
    found = kills.run(tmp_path / "campaigns.db", tmp_path, cycles=1, workers=4, drop=0.1, seed=1,
                      longest=3.0, losses=10)  # fmt: skip
    assert kills.good(found), found
    assert found["dropped"] >= 10


def test_two_servers_on_one_postgres_one_killed_and_the_database_restarted(
    postgres_server,  # noqa: F811
    tmp_path,
):
    found = kills.run(postgres_server.url(), tmp_path, cycles=3, servers=2, workers=4, reports=25,
                      database=postgres_server)  # fmt: skip
    assert kills.good(found), found
    assert found["restarts"] == 1
    assert found["tells"] >= 25


def test_a_rolling_upgrade_loses_and_doubles_nothing(
    postgres_server,  # noqa: F811
    tmp_path,
):
    old = upgrade.another_version(tmp_path / "old")
    found = upgrade.run(postgres_server.url(), tmp_path, old, seconds=0.2)
    assert upgrade.good(found), found
    assert found["programs"] == [upgrade.VERSION, __version__]
    assert found["halted"] == 1, "the old one, after the new one has written"
    assert found["asks"] > 20


def test_a_soak_of_seconds(tmp_path, monkeypatch):
    monkeypatch.setattr(soak, "POLICY", "uniform-random")
    said = []
    found = soak.run(tmp_path, 8, every=2.0, rate=100, clients=4, kill_every=3.0, say=said.append)
    assert found["verified"]
    assert found["differences"] == 0, said
    assert found["checks"] >= 2
    assert found["kills"] >= 1
    assert found["reports"] > 5


def test_a_soak_notices_a_difference(tmp_path, server):
    with Client(server.url) as client:
        client.create(soak.NAME, {"arms": [{"name": "a"}], "limits": {"bad": 0.4}}, soak.BUDGET,
                      policy="uniform-random")  # fmt: skip
        user = soak.User(server.url, 0, 1)
        for _ in range(30):
            user.act()
        assert soak.compared(client, [user])[0] == {}
        user.spent += 1
        user.held.append("nobody's")
        assert set(soak.compared(client, [user])[0]) == {"spent", "reserved", "in_flight"}
        user.client.close()


def test_a_steady_load_and_batches_are_in_the_ledger(server, monkeypatch):
    monkeypatch.setattr(load, "POLICY", "uniform-random")
    found = load.measured(server, 1.0, 16, rate=200)
    assert found["exact"]
    assert found["asked"] == found["told"] == 96
    assert len(found["waits"]) == 192
    assert 0 < load.percentile(found["waits"], 0.5) <= load.percentile(found["waits"], 0.99)
    found = load.measured(server, 0.5, 2, batch=64)
    assert found["exact"]
    assert found["asked"] % 64 == 0
    assert load.row("batches", found)[-1] == "yes"


def test_the_proxy_cuts_answers_and_follows_its_port():
    def served(text):
        listener = socket.create_server(("127.0.0.1", 0))
        listener.settimeout(5)
        return listener, listener.getsockname()[1], text

    def ask(port, listener, text):
        with socket.create_connection(("127.0.0.1", port), timeout=5) as client:
            client.sendall(b"?")
            other, _ = listener.accept()
            with other:
                assert other.recv(10) == b"?"
                other.sendall(text)
                time.sleep(0.05)
                return client.recv(100)

    first, second = served(b"first"), served(b"second")
    with first[0], second[0], Proxy(first[1]) as proxy:
        port = int(proxy.url.rpartition(":")[2])
        assert ask(port, first[0], first[2]) == b"first"
        proxy.port = second[1]
        assert ask(port, second[0], second[2]) == b"second"
        proxy.drop = 1.0
        assert len(ask(port, second[0], second[2])) < 6
        assert proxy.dropped == 1
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0


@pytest.mark.parametrize("share", [0.5, 1.0])
def test_percentiles(share):
    assert load.percentile([0.001 * i for i in range(1, 101)], share) == pytest.approx(
        51 if share == 0.5 else 100
    )
