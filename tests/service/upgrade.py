"""A rolling upgrade under load, as docs/operations.md says: nothing lost, nothing settled twice.

    python -m tests.service.upgrade [--old FOLDER] [--servers 2] [--seconds 5]

Servers of the version before share a PostgreSQL of the command's own; clients that know all
addresses keep asking and reporting. The servers are restarted one by one (SIGTERM) with this
version, and at the end the log has to agree with what the clients wrote down, and with the model of
the ledger. ``--old``: the folder src of another version, as of a git worktree; else it is this one
under another version and another number of decisions.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import tightrope
from tests.live import kills as base
from tests.live.postgres import Server, server_programs
from tests.service.kills import POLICY, more_budget, start, stop
from tests.service.proxy import Proxy
from tightrope import open_campaign
from tightrope.client import Client
from tightrope.service.server import Running

SOURCE = Path(tightrope.__file__).parents[1]
VERSION = "0.0.1"  # of the copy


def another_version(folder):
    """A copy of this program that says it decides otherwise; where it is to be imported from."""
    made = shutil.copytree(SOURCE / "tightrope", Path(folder) / "tightrope",
                           ignore=shutil.ignore_patterns("__pycache__"))  # fmt: skip
    file = made / "version.py"
    file.write_text(re.sub('__version__ = ".*"', f'__version__ = "{VERSION}"', file.read_text()))
    file = made / "compatibility.py"
    file.write_text(re.sub("DECISIONS = .*", "DECISIONS = 0", file.read_text()))
    return made.parent


def importing(source):
    """The environment of the program in a folder; policies of the tests are found too."""
    return {"PYTHONPATH": f"{source}:{Path(__file__).parents[2]}"}


CREATE = f"""
import sys
from tests.live.kills import NAME, START, TASK
from tightrope import open_campaign
open_campaign(sys.argv[1], NAME, task=TASK, budget=START, policy={POLICY!r}, expire_after=60.0)
"""


def created(url, source):
    """The campaign, made by the program in a folder."""
    command = [sys.executable, "-c", CREATE, url]
    subprocess.run(command, check=True, env={**os.environ, **importing(source)})


def running(url, source):
    """A server of the program in a folder; up to 0.2 it trusts whatever a store names."""
    knows = "--trust-policy" in (Path(source) / "tightrope/policies/naming.py").read_text()
    trusted = ("--trust-policy", POLICY) if knows else ()
    return Running(url, *trusted, environment=importing(source))


def states(up):
    """Of each server: whether it follows the campaign."""
    found = []
    for one in up:
        with Client(one.url) as client:
            found.append({each["name"]: each["state"] for each in client.campaigns()}[base.NAME])
    return found


def busy(server, reports=10):
    """Wait until so many more reports have come."""
    with Client(server.url, deadline=60.0) as client:
        until, wanted = time.monotonic() + 60, client.status(base.NAME)["told"] + reports
        while client.status(base.NAME)["told"] < wanted:
            assert time.monotonic() < until, "no reports within a minute"
            time.sleep(0.05)


def run(url, folder, old, *, servers=2, workers=4, seconds=1.0, seed=0):
    """The upgrade; returns the figures."""
    folder, halted = Path(folder), 0
    created(url, old)
    with ExitStack() as stack:
        up = [stack.enter_context(running(url, old)) for _ in range(servers)]
        proxies = [Proxy(one.port, seed=seed) for one in up]
        urls = [one.url for one in proxies]
        pids = [start(urls[n % servers :] + urls[: n % servers], n, folder, seed + n)
                for n in range(workers)]  # fmt: skip
        for one in proxies:  # they have threads, which a fork should not meet
            stack.enter_context(one)
        statuses = []
        try:
            busy(up[0])
            time.sleep(seconds)
            for n in range(servers):
                statuses.append(up[n].stop())
                up[n] = stack.enter_context(running(url, SOURCE))
                proxies[n].port = up[n].port
                more_budget(url)  # by the new version: the old ones halt
                busy(up[n])
                time.sleep(seconds)
                halted += states(up).count("halted")
        finally:
            stop(pids)
        failed = sorted(folder.glob("failed-*"))
        assert not failed, failed[0].read_text()
        last = states(up)
    found = base.checked(url, folder)
    with open_campaign(url, base.NAME) as campaign:
        verified = campaign.verify()
        bodies = [one.body for one in campaign.events() if one.kind in ("created", "upgraded")]
        programs = [one.program for one in bodies]
    return {**found, "verified": verified.good, "programs": programs, "statuses": statuses,
            "halted": halted, "states": last}  # fmt: skip


def good(found):
    """Whether nothing was lost, doubled or overspent, and every server follows the log."""
    wrong = found["lost"] or found["doubled"] or found["overspent"] or "halted" in found["states"]
    return found["verified"] and not wrong and not any(found["statuses"])


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--old", type=Path, help="the folder src of another version")
    parser.add_argument("--servers", type=int, default=2)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=5.0, help="between two restarts")
    given = parser.parse_args(arguments)
    programs = server_programs()
    if programs is None:
        parser.error("PostgreSQL's server is not installed: apt-get install postgresql")
    database = Server(programs)
    try:
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as copy:
            old = (given.old or another_version(copy)).resolve()
            found = run(database.url(), folder, old, servers=given.servers, workers=given.workers,
                        seconds=given.seconds)  # fmt: skip
    finally:
        database.remove()
    print(json.dumps(found))
    return 0 if good(found) else 1


if __name__ == "__main__":
    sys.exit(main())
