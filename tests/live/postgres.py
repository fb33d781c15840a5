"""A PostgreSQL server of the tests' own: a cluster in a temporary folder, on a socket there."""

from __future__ import annotations

import ctypes
import itertools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from urllib.parse import quote

import psycopg

__all__ = ["Server", "server_programs", "store"]

DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG
OPTIONS = {
    "listen_addresses": "",
    "fsync": "off",  # the machine does not crash in the tests, only the server
    "full_page_writes": "off",
    "shared_buffers": "16MB",
    "max_connections": "60",
    "logging_collector": "off",
}


@cache
def server_programs() -> Path | None:
    """The folder of PostgreSQL's server programs, if they are installed."""
    folders = [Path(one).resolve().parent for one in [shutil.which("initdb")] if one]
    if asked := shutil.which("pg_config"):
        found = subprocess.run([asked, "--bindir"], capture_output=True, text=True)
        folders.append(Path(found.stdout.strip()))
    versions = Path("/usr/lib/postgresql").glob("*/bin")
    folders += sorted(versions, key=lambda one: float(one.parent.name), reverse=True)
    return next((one for one in folders if (one / "initdb").exists()), None)


def _end_with_parent() -> None:
    ctypes.CDLL(None).prctl(DEATH_SIGNAL, signal.SIGQUIT)


class Server:
    """A server; it ends with the process that started it."""

    def __init__(self, programs: Path) -> None:
        self._programs = programs
        self.folder = Path(tempfile.mkdtemp(prefix="tightrope-postgres-"))
        self._numbers = itertools.count(1)
        self._user: dict[str, object] = {}
        if os.getuid() == 0:  # the server refuses to be root
            owner = next(
                one for name in ("postgres", "nobody") for one in pwd.getpwall() if one[0] == name
            )
            os.chown(self.folder, owner.pw_uid, owner.pw_gid)
            self._user = {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []}
        made = self._run(
            "initdb", "-U", "tightrope", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"
        )
        assert made.returncode == 0, made.stderr
        self.start()

    def _run(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [str(self._programs / program), "-D", str(self.folder / "data"), *arguments]
        return subprocess.run(
            command, cwd=self.folder, capture_output=True, text=True, **self._user
        )

    def start(self) -> None:
        """Start it, and wait until it takes connections."""
        command = [self._programs / "postgres", "-D", self.folder / "data", "-k", self.folder]
        command += [f"--{name}={value}" for name, value in OPTIONS.items()]
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(
                command,
                cwd=self.folder,
                stdout=log,
                stderr=log,
                preexec_fn=_end_with_parent,
                **self._user,
            )
        for _ in range(600):
            with suppress(psycopg.OperationalError):
                self.connect().close()
                return
            assert self.process.poll() is None, (self.folder / "log").read_text()
            time.sleep(0.05)
        raise AssertionError("the server did not start within 30 seconds")

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """End it: SIGINT ends its sessions first, SIGQUIT is a crash."""
        self.process.send_signal(how)
        self.process.wait()

    def remove(self) -> None:
        """End it and delete its files."""
        self.stop(signal.SIGQUIT)
        shutil.rmtree(self.folder, ignore_errors=True)

    def connect(self):
        """A connection of one's own, to look and to disturb."""
        return psycopg.connect(host=str(self.folder), user="tightrope", dbname="postgres",
                               autocommit=True)  # fmt: skip

    def url(self) -> str:
        """The address of a new, empty schema."""
        name = f"t{next(self._numbers)}"
        with self.connect() as connection:
            connection.execute(f"CREATE SCHEMA {name}")
        options = quote(f"-csearch_path={name}")
        return f"postgresql://tightrope@/postgres?host={quote(str(self.folder))}&options={options}"


@contextmanager
def store(folder: str, postgres: bool) -> Iterator[tuple[str, Server | None]]:
    """The address of an empty store, in SQLite or in a PostgreSQL of its own, and its server."""
    if not postgres:
        yield os.path.join(folder, "campaigns.db"), None
        return
    programs = server_programs()
    if programs is None:
        raise SystemExit("PostgreSQL's server is not installed: apt-get install postgresql")
    server = Server(programs)
    try:
        yield server.url(), server
    finally:
        server.remove()
