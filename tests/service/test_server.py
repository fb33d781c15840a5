"""The server: what it binds to, how it ends, what it leaves behind."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import ssl
import subprocess
import threading
import time
import urllib.request

import pytest

from tests.service.conftest import Api
from tightrope.cli import main
from tightrope.errors import InputError
from tightrope.live import open_campaign
from tightrope.live.stores import open_store
from tightrope.service.http.server import is_loopback
from tightrope.service.keys import made_key, write_keys
from tightrope.service.server import JsonLog, Running, serve, shown_store

REPORT = {"cost": 0.5, "reward": 1, "penalty": {"bad": 0}}


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7"])
def test_other_machines_are_not_let_in_without_keys(tmp_path, host, capsys):
    assert main(["serve", str(tmp_path / "a.db"), "--host", host]) == 2
    error = capsys.readouterr().err
    assert f"--host {host}" in error
    assert "--keys FILE" in error
    assert error.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--port", "70000"], "must be 0 to 65535"),
        (["--host", "no.such.host.invalid"], "is not a known address"),
        (["--host", ""], "must be an address"),
        (["--keys", "none.jsonl"], "there is no such file"),
        (["--certificate", "none.pem"], "there is no such file"),
        (["--private-key", "none.pem"], "must come with --certificate"),
        (["--connections", "0"], "must be at least 1"),
        (["--grace", "-1"], "must be 0 to 3600"),
        (["--rate", "0"], "must be 0.001 to 1000000 requests a second"),
        (["--rate", "nan"], "must be 0.001 to 1000000 requests a second"),
        (["--burst", "5"], "must be 1 to 1000000 requests, and come with --rate"),
        (["--rate", "5", "--burst", "0"], "must be 1 to 1000000 requests"),
    ],
)
def test_bad_options_are_one_line(tmp_path, options, said, capsys):
    assert main(["serve", str(tmp_path / "a.db"), *options]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_a_port_that_is_taken_is_one_line(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(InputError, match="cannot listen on"):
            serve(str(tmp_path / "a.db"), port=taken.getsockname()[1])
    assert not list(tmp_path.iterdir())


def test_a_host_that_does_not_exist_is_one_line(tmp_path, capsys):
    write_keys(tmp_path / "keys", [made_key("ops", ["admin"])[1]])
    options = ["--host", "no-such-host.invalid", "--keys", str(tmp_path / "keys")]
    assert main(["serve", str(tmp_path / "a.db"), *options]) == 2
    error = capsys.readouterr().err
    assert "cannot listen on no-such-host.invalid" in error
    assert "Unknown error" not in error
    assert error.count("\n") == 1
    assert not (tmp_path / "a.db").exists()


def test_which_addresses_are_loopback():
    assert is_loopback("127.0.0.1")
    assert is_loopback("127.8.9.10")
    assert is_loopback("::1")
    assert is_loopback("localhost")
    assert not is_loopback("0.0.0.0")
    assert not is_loopback("192.0.2.1")


def test_with_keys_it_may_be_bound_to_any_address(tmp_path):
    secret, key = made_key("ops", ["admin"])
    write_keys(tmp_path / "keys.jsonl", [key])
    options = ("--host", "0.0.0.0", "--keys", str(tmp_path / "keys.jsonl"))
    with Running(tmp_path / "a.db", *options) as server:
        assert Api(server.url)("GET", "/v1/campaigns")[0] == 401
        assert Api(server.url, secret)("GET", "/v1/campaigns")[0] == 200
        strange = {"host": "tightrope.example"}  # with keys any name may lead here
        assert Api(server.url, secret)("GET", "/v1/campaigns", headers=strange)[0] == 200


def test_sigterm_answers_what_was_taken_and_exits_with_0(tmp_path):
    path = tmp_path / "a.db"
    answered, errors = [], []
    with Running(path) as server:
        Api(server.url).create("n", budget=100_000)
        ending = threading.Event()

        def work(number):
            api, count = Api(server.url), 0
            while True:
                try:
                    status, found, _ = api(
                        "POST", "/v1/campaigns/n/decisions", {"id": f"{number}-{count}x"}
                    )
                except OSError:
                    if not ending.is_set():
                        errors.append("lost")
                    return
                if status == 201:
                    answered.append(found["id"])
                elif status == 503:
                    return
                else:
                    errors.append(found)
                count += 1

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        time.sleep(1.0)
        ending.set()
        assert server.stop() == 0
        for thread in threads:
            thread.join(30)
    assert not errors
    assert len(answered) > 10
    lines = [json.loads(line) for line in server.said.splitlines()]
    assert [line["message"] for line in lines if line["message"] in ("draining", "ended")] == [
        "draining",
        "ended",
    ]
    assert lines[-1]["complete"] is True
    with open_campaign(path, "n") as campaign:
        known = campaign.refreshed().ledger.tickets
        assert set(answered) <= set(known)
        assert campaign.verify().good
    assert not list(tmp_path.glob("a.db-wal"))  # the store was closed


def test_while_it_drains_readyz_says_so(tmp_path):
    with Running(tmp_path / "a.db", "--grace", "3") as server:
        api = Api(server.url)
        api.create("n")
        assert api("GET", "/readyz")[0] == 200
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.5)
        status, found, _ = api("GET", "/readyz")
        assert (status, found["code"]) == (503, "draining")
        assert api("GET", "/healthz")[0] == 200
        assert api("POST", "/v1/campaigns/n/decisions")[0] == 201  # requests are still taken
        assert server.wait() == 0


def test_a_store_that_is_created_is_a_line_of_the_log(tmp_path):
    path = tmp_path / "nosuch.db"
    said = []
    for _ in range(2):
        with Running(path) as running:
            pass
        said.append([json.loads(line)["message"] for line in running.said.splitlines()])
    line = "the store did not exist and was created"
    assert [line in one for one in said] == [True, False]


def test_ctrl_c_ends_it_too(tmp_path):
    with Running(tmp_path / "a.db") as server:
        server.process.send_signal(signal.SIGINT)
        assert server.wait() == 0


def test_a_killed_server_loses_nothing_that_was_answered(tmp_path):
    path = tmp_path / "a.db"
    with Running(path) as server:
        api = Api(server.url)
        api.create("n")
        ids = [api("POST", "/v1/campaigns/n/decisions")[1]["id"] for _ in range(20)]
        api("POST", "/v1/campaigns/n/reports", {"id": ids[0], **REPORT})
        server.kill()
    with Running(path) as server:
        state = Api(server.url)("GET", "/v1/campaigns/n")[1]
        assert (state["asked"], state["told"], state["in_flight"]) == (20, 1, 19)
        again = Api(server.url)("POST", "/v1/campaigns/n/reports", {"id": ids[0], **REPORT})
        assert again[0] == 200


def test_backup_and_restore_while_it_runs(tmp_path):
    path, copy, back = tmp_path / "a.db", tmp_path / "copy.db", tmp_path / "back.db"
    with Running(path) as server:
        api = Api(server.url)
        api.create("n", budget=1000)
        ids = [api("POST", "/v1/campaigns/n/decisions")[1]["id"] for _ in range(30)]
        stop = threading.Event()

        def work():
            while not stop.is_set():
                api("POST", "/v1/campaigns/n/decisions/batch", {"decisions": [{}]})

        thread = threading.Thread(target=work)
        thread.start()
        try:
            assert main(["campaign", "backup", str(path), str(copy)]) == 0
        finally:
            stop.set()
            thread.join(30)
        for one in ids:
            api("POST", "/v1/campaigns/n/reports", {"id": one, **REPORT})
        assert api("GET", "/v1/campaigns/n")[1]["told"] == 30
    assert main(["campaign", "restore", str(copy), str(back)]) == 0
    assert main(["campaign", "verify", str(back), "n"]) == 0
    with Running(back) as server:
        api = Api(server.url)
        state = api("GET", "/v1/campaigns/n")[1]
        assert state["told"] == 0
        assert state["asked"] >= 30
        assert state["state"] == "paused"  # until someone has looked at what was lost
        assert set(ids) <= set(state["doubtful"])
        report = api("POST", "/v1/campaigns/n/reports", {"id": ids[0], **REPORT})
        assert report[0] == 200


def test_two_processes_serve_one_store(tmp_path):
    path = tmp_path / "a.db"
    with Running(path) as first, Running(path) as second:
        one, other = Api(first.url), Api(second.url)
        one.create("n")
        assert other("POST", "/v1/campaigns/n/decisions", {"id": "a"})[0] == 201
        assert one("POST", "/v1/campaigns/n/decisions", {"id": "a"})[0] == 200
        assert one("POST", "/v1/campaigns/n/reports", {"id": "a", **REPORT})[0] == 200
        assert other("GET", "/v1/campaigns/n")[1]["told"] == 1
        one("POST", "/v1/campaigns/n/decisions")
        text = other("GET", "/metrics")[1]
        assert 'tightrope_replica_lag_events{campaign="n"} 1' in text
        assert 'tightrope_replica_lag_events{campaign="n"} 0' in other("GET", "/metrics")[1]
        assert first.stop() == 0
        assert other("POST", "/v1/campaigns/n/decisions")[0] == 201


def test_a_halted_campaign_is_500_and_the_others_go_on(tmp_path):
    path = tmp_path / "a.db"
    with Running(path) as server:
        for name in ("good", "bad"):
            Api(server.url).create(name)
            Api(server.url)("POST", f"/v1/campaigns/{name}/decisions")
    import sqlite3

    with sqlite3.connect(path) as database:
        changed = 'UPDATE events SET body = \'{"arm":1,"x":1}\' WHERE seq = 2 AND campaign = 2'
        database.execute(changed)
        database.execute("DELETE FROM snapshots WHERE campaign = 2 AND seq > 1")
    database.close()
    with Running(path) as server:
        api = Api(server.url)
        status, found, _ = api("GET", "/v1/campaigns/bad")
        assert (status, found["code"]) == (500, "halted")
        assert api("POST", "/v1/campaigns/bad/decisions")[1]["code"] == "halted"
        assert api("POST", "/v1/campaigns/good/decisions")[0] == 201
        listed = {one["name"]: one["state"] for one in api("GET", "/v1/campaigns")[1]["campaigns"]}
        assert listed == {"good": "open", "bad": "halted"}
        text = api("GET", "/metrics")[1]
        assert 'tightrope_halted{campaign="bad"} 1' in text
        assert 'tightrope_halted{campaign="good"} 0' in text
        assert api("GET", "/readyz")[0] == 200
    assert "a campaign is halted" in server.said
    with sqlite3.connect(path) as database:
        database.execute(changed.replace("campaign = 2", "campaign = 1"))
        database.execute("DELETE FROM snapshots WHERE campaign = 1 AND seq > 1")
    database.close()
    with Running(path) as server:  # nothing is left that this process could serve
        Api(server.url)("GET", "/v1/campaigns")
        status, found, _ = Api(server.url)("GET", "/readyz")
        assert (status, found["code"]) == (503, "halted")


def test_tls(tmp_path):
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed: it makes the certificate")
    made = (
        "openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 2"
        " -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1"
    )
    subprocess.run(made.split(), cwd=tmp_path, check=True, capture_output=True)
    options = ("--certificate", str(tmp_path / "cert.pem"), "--private-key",
               str(tmp_path / "key.pem"))  # fmt: skip
    with Running(tmp_path / "a.db", *options) as server:
        trusted = ssl.create_default_context(cafile=str(tmp_path / "cert.pem"))
        with urllib.request.urlopen(f"{server.url}/readyz", context=trusted) as answer:
            assert json.load(answer) == {"status": "ready"}


def test_the_log_is_json_lines_and_a_store_is_shown_without_its_password():
    written = []

    class File:
        def write(self, text):
            written.append(text)

        def flush(self):
            pass

    log = JsonLog(File())
    log("serving", url="http://x", nothing=None)
    log.request("GET", b"/v1/campaigns/a%20b", 200, 0.00123456, "ops")
    log.warning(UserWarning("a\nb"))
    rows = [json.loads(line) for line in written]
    assert all(line.endswith("\n") and line.count("\n") == 1 for line in written)
    assert rows[0]["message"] == "serving"
    assert "nothing" not in rows[0]
    assert rows[1] | {"time": ""} == {
        "time": "", "message": "request", "method": "GET", "path": "/v1/campaigns/a%20b",
        "status": 200, "seconds": 0.001235, "who": "ops",
    }  # fmt: skip
    assert rows[2]["text"] == "a b"
    assert shown_store("postgresql://me:secret@db/x?password=y") == "postgresql://db/x"
    assert shown_store("/tmp/a.db") == "/tmp/a.db"


def test_a_store_that_cannot_be_opened_is_one_line(tmp_path, capsys):
    assert main(["serve", str(tmp_path / "none" / "a.db")]) == 2
    assert "the folder" in capsys.readouterr().err


def test_the_application_runs_under_another_server(tmp_path):
    import asyncio

    import httpx
    import uvicorn

    from tests.service.conftest import TASK
    from tightrope.service.app import make_app
    from tightrope.service.desk import Service

    async def run():
        store = open_store(str(tmp_path / "a.db"))
        app = make_app(Service(store), pages=())
        config = uvicorn.Config(app, port=0, log_config=None, lifespan="on", ws="none")
        server = uvicorn.Server(config)
        task = asyncio.create_task(server.serve())
        while not server.started:
            await asyncio.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
            body = {"task": TASK, "budget": 10, "policy": "lyon"}
            assert (await client.put("/v1/campaigns/n", json=body)).status_code == 201
            decided = await client.post("/v1/campaigns/n/decisions", json={"id": "a"})
            assert decided.status_code == 201
            told = await client.post("/v1/campaigns/n/reports", json={"id": "a", **REPORT})
            assert told.status_code == 200
            assert (await client.post("/v1/campaigns/n/reports", content="{")).status_code == 400
        server.should_exit = True
        await task
        store.close()

    asyncio.run(run())
