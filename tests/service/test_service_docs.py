"""What the pages about the service say is so."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from tightrope.cli import COMMANDS
from tightrope.service.acts import ACTS
from tightrope.service.campaigns import TABLE
from tightrope.service.http import Limits
from tightrope.service.openapi import REFUSALS
from tightrope.shell.commands import called

ROOT = Path(__file__).parents[2]
SERVICE = (ROOT / "docs" / "service.md").read_text()


def test_the_curl_commands_work_in_order(server, tmp_path):
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    # A command, and the answer that the page shows after it, if any.
    shape = r"```sh\n(curl .*?)```\n(?:\n```json\n(.*?)```)?"
    commands = re.findall(shape, SERVICE, re.DOTALL)
    assert len(commands) == 3
    for command, shown in commands:
        answer = json.loads(shown) if shown else None
        old = command.replace("--json", "-H 'content-type: application/json' -d")
        here = old.replace("localhost:8321", server.url).replace("curl", "curl -sS", 1)
        done = subprocess.run(["bash", "-c", here], capture_output=True, text=True, check=True)
        found = json.loads(done.stdout)
        assert "code" not in found, found
        if answer is not None:
            assert set(found) == set(answer)
            assert (found["id"], found["state"]) == (answer["id"], answer["state"])


def test_every_route_every_refusal_and_every_limit_is_there():
    for one in TABLE:
        last = [part for part in one.path.split("/") if not part.startswith("{")][-1]
        assert f"/{last}" in SERVICE, one.path
    for name in ACTS:
        assert f"POST /{name}" in SERVICE
        assert f"/{name}/batch" in SERVICE
    table = SERVICE.partition("## Errors")[2].partition("## Request limits")[0]
    for status, text in REFUSALS.items():
        assert str(status) in table
        for code in re.findall(r"\b[a-z_]+(?=:| or |, )", text.partition(":")[0] + ":"):
            assert code in table, (status, code)
    limits = Limits()
    rows = SERVICE.partition("## Request limits")[2].partition("## How")[0]
    for value in (limits.connections, limits.headers, limits.request_time, limits.idle_time,
                  limits.read_time):  # fmt: skip
        assert re.search(rf"\| {value:g}\b", rows), value
    assert limits.header_bytes == 16 * 1024
    assert limits.body_bytes == 1024 * 1024


def test_every_metric_of_the_page_exists():
    text = (ROOT / "docs" / "operations.md").read_text()
    source = (ROOT / "src" / "tightrope" / "service" / "metrics.py").read_text()
    table = text.partition("## Monitor")[2].partition("Logs are")[0]
    names = re.findall(r"(?m)^\| (`.*?) \|", table)
    found = {name for cell in names for name in re.findall(r"`([a-z_]+)", cell)}
    assert len(found) > 12
    for name in found:
        assert f'"{name}"' in source, name


def test_the_example_unit_starts_the_service_with_options_that_exist():
    text = (ROOT / "examples" / "tightrope.service").read_text().replace("\\\n", " ")
    (command,) = re.findall(r"(?m)^ExecStart=(.*)$", text)
    program, *arguments = shlex.split(command)
    assert program.endswith("/tightrope")
    assert called(arguments, COMMANDS).keywords["keys"] == "/etc/tightrope/keys.jsonl"
    assert "KillSignal=SIGTERM" in text
