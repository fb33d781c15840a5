"""Keys: what is kept of them, what they allow, how they are rotated while a server runs."""

from __future__ import annotations

import hashlib
import json
import os
import re
import resource
import stat
import subprocess
import sys
import time

import pytest

from tests.service.conftest import Api
from tightrope.cli import main
from tightrope.errors import InputError
from tightrope.service.keys import KeyRing, changed_keys, made_key, read_keys, write_keys
from tightrope.service.server import Running


def add(capsys, file, name, *options):
    assert main(["keys", "add", str(file), name, *options]) == 0
    return capsys.readouterr().out.strip()


def test_a_key_has_256_random_bits_and_the_file_holds_its_hash_alone(tmp_path, capsys):
    file = tmp_path / "keys.jsonl"
    key = add(capsys, file, "ops", "--role", "admin")
    assert re.fullmatch(r"tr_[\w-]{43}", key)
    text = file.read_text()
    assert key not in text
    assert hashlib.sha256(key.encode()).hexdigest() in text
    assert stat.S_IMODE(os.stat(file).st_mode) == 0o600
    other = add(capsys, file, "other", "--role", "read", "--campaign", "november")
    assert other != key
    assert main(["keys", "list", str(file), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["name"], row["roles"], row["campaigns"]) for row in rows] == [
        ("ops", ["admin"], None),
        ("other", ["read"], ["november"]),
    ]
    assert main(["keys", "list", str(file)]) == 0
    assert key not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["add", "{}", "ops", "--role", "admin"], "key 'ops': exists"),
        (["add", "{}", "new", "--role", "root"], "must be some of admin, decide, report, read"),
        (["add", "{}", "new"], "--role"),
        (["add", "{}", "", "--role", "read"], "must be 1 to 64 printable characters"),
        (["rotate", "{}", "opps"], "did you mean 'ops'?"),
        (["remove", "{}", "ops", "--older"], "has no older one"),
        (["list", "{}.none"], "there is no such file"),
    ],
)
def test_what_the_shell_refuses_is_one_line(tmp_path, capsys, arguments, said):
    file = tmp_path / "keys.jsonl"
    add(capsys, file, "ops", "--role", "admin")
    before = file.read_bytes()
    assert main(["keys", *(word.format(file) for word in arguments)]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
    assert file.read_bytes() == before


COMMANDS = """
import sys
from tightrope.cli import main
file, me = sys.argv[1:]
print("ready", flush=True)
sys.stdin.readline()
for turn in range(5):
    assert main(["keys", "add", file, f"{me}-{turn}", "--role", "read"]) == 0
    assert main(["keys", "rotate", file, f"{me}-{turn}"]) == 0
    if turn % 2:
        assert main(["keys", "remove", file, f"{me}-{turn - 1}"]) == 0
    else:
        assert main(["keys", "remove", file, f"{me}-{turn}", "--older"]) == 0
"""


def test_no_change_is_lost_among_commands_at_the_same_time(tmp_path):
    """Eight processes add, rotate and remove, five rounds each: every change is in the file."""
    file = tmp_path / "keys.jsonl"
    command = [sys.executable, "-c", COMMANDS, str(file)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    running = [subprocess.Popen([*command, str(me)], text=True, **pipes) for me in range(8)]
    for one in running:
        assert one.stdout.readline() == "ready\n"
    for one in running:
        one.stdin.write("go\n")
        one.stdin.flush()
    said = [one.communicate(timeout=120) for one in running]
    assert [one.returncode for one in running] == [0] * 8, said
    secrets = [line for out, _ in said for line in out.split() if line.startswith("tr_")]
    assert len(secrets) == 8 * 5 * 2
    left = {f"{me}-{turn}": 1 if turn == 4 else 2 for me in range(8) for turn in (1, 3, 4)}
    names = [key.name for key in read_keys(file)]
    assert {name: names.count(name) for name in names} == left
    hashes = {hashlib.sha256(secret.encode()).hexdigest() for secret in secrets}
    assert {key.sha256 for key in read_keys(file)} <= hashes


def test_a_command_that_holds_the_lock_for_long_is_named_in_one_line(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("tightrope.service.keys.LOCK_WAIT", 0.1)
    file = tmp_path / "keys.jsonl"
    add(capsys, file, "ops", "--role", "admin")
    (tmp_path / "link.jsonl").symlink_to(file)  # one file by another name has the same lock
    with changed_keys(file):
        for words in (["add", file, "new", "--role", "read"], ["rotate", file, "ops"],
                      ["remove", tmp_path / "link.jsonl", "ops"]):  # fmt: skip
            assert main(["keys", *map(str, words)]) == 2
            error = capsys.readouterr().err
            assert "keys.jsonl.lock' for 0.1 seconds; try again" in error
            assert error.count("\n") == 1
        assert main(["keys", "list", str(file)]) == 0  # whoever reads need not wait
    assert [key.name for key in read_keys(file)] == ["ops"]


def test_a_change_that_fails_changes_nothing(tmp_path):
    file = tmp_path / "keys.jsonl"
    write_keys(file, [made_key("ops", ["admin"])[1]])
    before = file.read_bytes()
    with pytest.raises(IndexError), changed_keys(file) as keys:
        del keys[:], keys[7]
    assert file.read_bytes() == before
    most = [made_key("x" * 64, ["read"], ["y" * 1000])[1]] * 1000
    with pytest.raises(InputError, match="at most 1,048,576 bytes"), changed_keys(file) as keys:
        keys.extend(most)  # nothing is written that could not be read again
    assert file.read_bytes() == before


def _small():
    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))


@pytest.mark.parametrize("command", ["list", "add", "rotate", "remove", "serve"])
def test_what_is_no_keys_file_is_refused_before_it_is_read(tmp_path, command):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "large").write_bytes(b"\n" * ((1 << 20) + 1))
    (tmp_path / "huge").touch()
    os.truncate(tmp_path / "huge", 1 << 40)
    (tmp_path / "bytes").write_bytes(b"\xff\xfe" * 100)
    names = ["fifo", "large", "huge", "bytes"]
    files = ["/dev/zero", str(tmp_path), *(str(tmp_path / name) for name in names)]
    more = {"list": [], "add": ["x", "--role", "read"], "rotate": ["x"], "remove": ["x"]}
    calls = [["keys", command, file, *more.get(command, ())] for file in files]
    if command == "serve":
        calls = [["serve", "memory:", "--port", "0", "--keys", file] for file in files]
    script = f"from tightrope.cli import main\nprint([main(one) for one in {calls!r}])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True,
                          timeout=60, preexec_fn=_small, check=False)  # fmt: skip
    assert done.stdout.strip() == str([2] * len(calls)), done.stderr
    assert done.stderr.count("\n") == len(calls), done.stderr
    for file, line in zip(files, done.stderr.splitlines(), strict=True):
        assert f"keys {file!r}: " in line
    assert not [name for name in os.listdir(tmp_path) if name.endswith(".lock")]


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "[]",
        '{"name": "a"}',
        '{"name": "a", "sha256": "zz", "roles": ["read"]}',
        '{"name": "a", "sha256": "%s", "roles": ["root"]}' % ("0" * 64),
        '{"name": "a", "sha256": "%s", "roles": []}' % ("0" * 64),
        '{"name": "a", "sha256": "%s", "roles": ["read"], "campaigns": []}' % ("0" * 64),
        '{"name": "a", "sha256": "%s", "roles": ["read"], "campaign": ["x"]}' % ("0" * 64),
    ],
)
def test_a_wrong_line_names_itself_and_no_key_is_left_out(tmp_path, line):
    file = tmp_path / "keys.jsonl"
    write_keys(file, [made_key("ops", ["admin"])[1]])
    file.write_text(f"{file.read_text()}{line}\n")
    with pytest.raises(InputError, match="line 2"):
        read_keys(file)
    with pytest.raises(InputError, match="line 2"):
        KeyRing(file)


def test_a_file_without_keys_is_refused(tmp_path):
    (tmp_path / "keys.jsonl").write_text("\n")
    with pytest.raises(InputError, match="there is none"):
        KeyRing(tmp_path / "keys.jsonl")


def test_a_changed_file_that_cannot_be_read_leaves_the_keys_as_they_were(tmp_path, monkeypatch):
    file = tmp_path / "keys.jsonl"
    secret, key = made_key("ops", ["admin"])
    write_keys(file, [key])
    ring = KeyRing(file)
    monkeypatch.setattr("tightrope.service.keys.LOOK_EVERY", 0.0)
    file.write_text("not a key\n")
    assert ring.refresh()
    assert "line 1" in ring.problem
    assert ring.grant(secret.encode()).name == "ops"
    another, second = made_key("ops", ["read"])
    write_keys(file, [second])
    assert ring.refresh()
    assert ring.problem is None
    assert ring.grant(secret.encode()) is None
    assert ring.grant(another.encode()).roles == {"read"}
    assert not ring.refresh()


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """A server with a key of each role, and the keys."""
    folder = tmp_path_factory.mktemp("guarded")
    secrets, keys = {}, []
    for name, roles, campaigns in (
        ("ops", ["admin"], None),
        ("decider", ["decide"], ["november"]),
        ("reporter", ["report"], ["november"]),
        ("reader", ["read"], ["november"]),
        ("local", ["admin"], ["november"]),
        ("all", ["read"], None),
    ):
        secrets[name], key = made_key(name, roles, campaigns)
        keys.append(key)
    write_keys(folder / "keys.jsonl", keys)
    options = ("--keys", str(folder / "keys.jsonl"), "--access-log")
    with Running(folder / "store.db", *options) as server:
        server.file = folder / "keys.jsonl"
        ops = Api(server.url, secrets["ops"])
        ops.create("november")
        ops.create("december")
        yield server, secrets
    said = server.said
    assert "draining" in said
    for secret in secrets.values():  # no line of the log ever has a key, or a body
        assert secret not in said
        assert secret[3:20] not in said
    assert "haiku" not in said


TICKET = {"id": "t"}
NOVEMBER = "/v1/campaigns/november"
ALLOWED = [
    ("GET", "/v1/campaigns", None, {"ops", "all", "reader", "local"}),
    ("GET", NOVEMBER, None, {"ops", "all", "reader", "local"}),
    ("GET", f"{NOVEMBER}/events", None, {"ops", "all", "reader", "local"}),
    ("GET", f"{NOVEMBER}/ledger", None, {"ops", "all", "reader", "local"}),
    ("GET", f"{NOVEMBER}/decisions/t", None,
     {"ops", "all", "reader", "local", "decider", "reporter"}),
    ("GET", "/v1/campaigns/december", None, {"ops", "all"}),
    ("GET", "/metrics", None, {"ops", "all", "reader", "local"}),
    ("POST", f"{NOVEMBER}/decisions", TICKET, {"ops", "local", "decider"}),
    ("POST", f"{NOVEMBER}/decisions/batch", {"decisions": [TICKET]}, {"ops", "local", "decider"}),
    ("POST", f"{NOVEMBER}/voids", TICKET, {"ops", "local", "decider", "reporter"}),
    ("POST", f"{NOVEMBER}/reports", TICKET, {"ops", "local", "reporter"}),
    ("POST", f"{NOVEMBER}/amendments", TICKET, {"ops", "local", "reporter"}),
    ("POST", f"{NOVEMBER}/pause", {}, {"ops", "local"}),
    ("POST", f"{NOVEMBER}/resume", {}, {"ops", "local"}),
    ("POST", f"{NOVEMBER}/budget", {"amount": 1}, {"ops", "local"}),
    ("POST", f"{NOVEMBER}/change", {}, {"ops", "local"}),
    ("DELETE", f"{NOVEMBER}/arms/nobody", None, {"ops", "local"}),
    ("DELETE", f"{NOVEMBER}/contexts", None, {"ops", "local"}),
    ("DELETE", "/v1/campaigns/december/contexts", None, {"ops"}),
    ("POST", "/v1/campaigns/december/decisions", {}, {"ops"}),
    ("PUT", "/v1/campaigns/january", {}, {"ops"}),
]  # fmt: skip


@pytest.mark.parametrize(("method", "path", "body", "allowed"), ALLOWED)
def test_each_role_may_do_what_it_may_and_nothing_else(guarded, method, path, body, allowed):
    server, secrets = guarded
    for name, secret in secrets.items():
        status, found, _ = Api(server.url, secret)(method, path, body)
        if name in allowed:
            assert status not in (401, 403), (name, found)
        else:
            assert (status, found["code"]) == (403, "forbidden"), name
            assert name in found["detail"]


def test_without_a_valid_key_nothing_is_told(guarded):
    server, secrets = guarded
    for key in (None, "", "tr_" + "A" * 43, secrets["ops"][:-1], secrets["ops"] + "A", "\xff"):
        api = Api(server.url, key)
        for method, path, body, _ in ALLOWED:
            status, found, headers = api(method, path, body)
            if key and status == 429:  # after several wrong ones
                assert found["code"] == "rate_limited"
                assert headers["retry-after"]
            else:
                assert (status, found["code"]) == (401, "unauthorized"), (key, path)
                assert headers["www-authenticate"] == "Bearer"
            assert "november" not in found["detail"]
        assert api("GET", "/healthz")[0] == 200
        assert api("GET", "/readyz")[0] == 200
        assert api("GET", "/openapi.json")[0] == 200
    basic = {"authorization": f"Basic {secrets['ops']}"}
    assert Api(server.url)("GET", NOVEMBER, headers=basic)[0] == 401


def test_the_log_says_which_key_did_it(guarded):
    server, secrets = guarded
    Api(server.url, secrets["ops"])("POST", f"{NOVEMBER}/resume", {})
    assert (
        Api(server.url, secrets["decider"])("POST", f"{NOVEMBER}/decisions", {"id": "w"})[0] < 300
    )
    report = {"id": "w", "cost": 0.1, "reward": 0, "penalty": {"bad": 0}}
    assert Api(server.url, secrets["reporter"])("POST", f"{NOVEMBER}/reports", report)[0] == 200
    assert Api(server.url, secrets["local"])("POST", f"{NOVEMBER}/pause", {})[0] == 200
    text = Api(server.url, secrets["reader"])("GET", f"{NOVEMBER}/events?limit=10000")[1]
    rows = [json.loads(line) for line in text.splitlines()]
    found = {row["kind"]: row["who"] for row in rows if row["ticket"] in ("w", None)}
    assert found["asked"] == "decider"
    assert found["told"] == "reporter"
    assert found["paused"] == "local"
    assert found["created"] == "ops"


def test_the_list_has_the_campaigns_that_a_key_may_read(guarded):
    server, secrets = guarded
    found = Api(server.url, secrets["all"])("GET", "/v1/campaigns")[1]["campaigns"]
    assert [one["name"] for one in found] == ["november", "december"]
    found = Api(server.url, secrets["reader"])("GET", "/v1/campaigns")[1]["campaigns"]
    assert [one["name"] for one in found] == ["november"]
    text = Api(server.url, secrets["reader"])("GET", "/metrics")[1]
    assert 'campaign="november"' in text
    assert "december" not in text


def test_keys_are_rotated_while_the_service_runs(tmp_path, capsys):
    file = tmp_path / "keys.jsonl"
    old = add(capsys, file, "ops", "--role", "admin")
    with Running(tmp_path / "store.db", "--keys", str(file)) as server:
        Api(server.url, old).create("november")
        assert main(["keys", "rotate", str(file), "ops"]) == 0
        new = capsys.readouterr().out.strip()
        assert wait_for(lambda: Api(server.url, new)("GET", NOVEMBER)[0] == 200)
        assert Api(server.url, old)("GET", NOVEMBER)[0] == 200  # both, for a while
        assert main(["keys", "remove", str(file), "ops", "--older"]) == 0
        assert wait_for(lambda: Api(server.url, old)("GET", NOVEMBER)[0] == 401)
        assert Api(server.url, new)("GET", NOVEMBER)[0] == 200
        assert Api(server.url, new)("POST", f"{NOVEMBER}/decisions")[0] == 201
        file.write_text("nonsense")  # an editor's mistake locks nobody out
        time.sleep(1.2)
        assert Api(server.url, new)("POST", f"{NOVEMBER}/decisions")[0] == 201
    assert "keys were read again" in server.said
    assert "line 1: must be a JSON object" in server.said


def wait_for(true, seconds=10.0):
    until = time.monotonic() + seconds
    while not true():
        if time.monotonic() > until:
            return False
        time.sleep(0.1)
    return True
