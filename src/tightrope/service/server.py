"""The process of the service: its address, signals, log and shutdown.

SIGTERM and Ctrl-C drain the service: ``/readyz`` answers 503, no more connections are accepted, all
received requests are committed and answered, and the store is closed. Then the process exits with
status 0.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
import urllib.request
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

import uvloop

from tightrope.errors import InputError
from tightrope.names import one_line
from tightrope.service.app import App, make_app
from tightrope.service.desk import Service
from tightrope.service.http import HttpServer, Limits
from tightrope.service.http.server import is_loopback, listening_sockets, tls_context
from tightrope.service.keys import KeyRing
from tightrope.service.signins import RateLimit

PORT = 8321
DRAIN = 25.0  # seconds for the last answers after a signal
SWITCH = 0.0005  # seconds until a busy thread yields, so that answers are not delayed


class JsonLog:
    """A log of JSON lines; never contains a key, a body or a query."""

    def __init__(self, file: TextIO | None = None) -> None:
        self._file, self._mutex = file or sys.stderr, threading.Lock()

    def __call__(self, message: str, **facts: object) -> None:
        """Write a line."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        told = {key: value for key, value in facts.items() if value is not None}
        line = json.dumps({"time": now, "message": message, **told}, default=str)
        with self._mutex, suppress(OSError, ValueError):  # a closed pipe must not end the service
            self._file.write(line + "\n")
            self._file.flush()

    def warning(self, message: Warning | str, *_: Any, **__: Any) -> None:
        """Same as ``warnings.showwarning``."""
        self("warning", text=one_line(message))

    def request(self, method: str, path: bytes, status: int, seconds: float, who: str) -> None:
        """Write a line for a request, if the access log is on."""
        where = path.decode("latin-1")[:200]
        self("request", method=method, path=where, status=status, seconds=round(seconds, 6),
             who=who or None)  # fmt: skip


def checked_address(host: str, port: int, keys: object) -> None:
    """Raise unless the server may listen on an address."""
    if not 0 <= port <= 65535:
        raise InputError(f"--port {port}: must be 0 to 65535")
    if not host:
        raise InputError("--host '': must be an address, such as 127.0.0.1")
    if keys is None and not is_loopback(host):
        raise InputError(
            f"--host {host}: can be reached from other machines, and must have --keys FILE; make"
            " one with tightrope keys add FILE NAME --role admin"
        )


def serve(
    store: str,
    *,
    host: str = "127.0.0.1",
    port: int = PORT,
    keys: str | None = None,
    certificate: str | None = None,
    private_key: str | None = None,
    limits: Limits | None = None,
    most_waiting: int = 10_000,
    access_log: bool = False,
    grace: float = 0.0,
    unit: str = "",
    rate: RateLimit | None = None,
    trusted_proxies: Sequence[str] = (),
) -> None:
    """Serve a store's campaigns until SIGTERM or Ctrl-C.

    There are many arguments because all settings of a process are given here. A ``store`` that does
    not exist is created, and the log has a line about it. ``port`` 0 takes a free port, which is in
    the log. ``grace``: seconds after a signal in which requests are still accepted while
    ``/readyz`` answers 503. ``unit``: the unit of costs on the pages, such as $. ``rate``: the
    rate limit of each key; default: none. ``trusted_proxies``: addresses or networks of proxies
    whose X-Forwarded-For and X-Forwarded-Proto are trusted.
    """
    checked_address(host, port, keys)
    tls = tls_context(certificate, private_key)
    ring = None if keys is None else KeyRing(keys)
    missing, log = is_missing(store), JsonLog()
    if missing:  # a server that cannot listen leaves no store behind
        with telling_port(host, port):
            for one in asyncio.run(listening_sockets(host, port)):
                one.close()
    service = Service(store, most_waiting=most_waiting)
    service.log = log
    if missing:
        log("the store did not exist and was created", store=service.store.url)
    app = make_app(service, ring, unit=unit, trusted_proxies=trusted_proxies)
    service.rate = rate
    if access_log:
        app.access = log.request
    server = Server(app, log, limits or Limits(), grace)
    with warnings.catch_warnings():
        warnings.simplefilter("default", UserWarning)
        warnings.showwarning = log.warning
        try:
            uvloop.run(server.run(host, port, tls))
        finally:
            service.store.close()


class Server:
    """The service on one listening socket; runs until a signal."""

    def __init__(self, app: App, log: JsonLog, limits: Limits, grace: float) -> None:
        self._app, self._log, self._grace = app, log, grace
        self._http = HttpServer(app, limits)
        self._http.failed = app.failed
        app.connections = lambda: len(self._http.open)

    async def run(
        self,
        host: str,
        port: int,
        tls: ssl.SSLContext | None,
        ready: Callable[[str], None] | None = None,
    ) -> None:
        """Serve until a signal; ``ready`` is called with the address."""
        loop, stop, service = asyncio.get_running_loop(), asyncio.Event(), self._app.service
        for number in (signal.SIGTERM, signal.SIGINT):
            with suppress(RuntimeError, ValueError):  # not in the main thread
                loop.add_signal_handler(number, stop.set)
        await service.start()
        try:
            with telling_port(host, port):
                url = await self._http.start(host, port, tls)
        except InputError:
            await service.drain()
            raise
        sys.setswitchinterval(SWITCH)
        gc.collect()
        gc.freeze()  # objects that exist now are not collected
        gc.set_threshold(20_000, 20, 50)
        self._log("serving", url=url, store=shown_store(service.store.url), process=os.getpid())
        if ready is not None:
            ready(url)
        await stop.wait()
        self._log("draining", waiting=sum(service.waiting.values()))
        service.draining = True
        await asyncio.sleep(self._grace)
        done = await self._http.end(DRAIN)
        await service.drain()
        self._log("ended", complete=done)


@contextmanager
def telling_port(host: str, port: int) -> Iterator[None]:
    """Name the address that cannot be listened on, and why."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        if error.errno and not isinstance(error, socket.gaierror):
            reason = os.strerror(error.errno)
        raise InputError(f"--port {port}: cannot listen on {host} ({reason})") from None


def is_missing(store: str) -> bool:
    """Whether a store is a file that does not exist."""
    return store != "memory:" and "://" not in store and not Path(store).exists()


def shown_store(url: str) -> str:
    """A store's URL without its password."""
    scheme, found, rest = url.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2].partition('?')[0]}" if found else url


class Running:
    """A service in a separate process on a free port of loopback, for tests and examples.

    ``options``: those of ``tightrope serve``. ``said`` has its output after it has ended.
    """

    def __init__(
        self,
        store: str | Path,
        *options: str,
        port: int | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.port = free_port() if port is None else port
        self.url = f"http://127.0.0.1:{self.port}"
        self.said = ""
        self._options: Sequence[str] = [str(store), "--port", str(self.port), *options]
        if "--certificate" in options:
            self.url = self.url.replace("http:", "https:")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tightrope", "serve", *self._options],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(environment or {})},
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        try:
            self._wait()
        except BaseException:
            self.kill()
            raise

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said += line.decode(errors="replace")

    def _wait(self) -> None:
        until = time.monotonic() + 60
        while True:
            try:
                context = ssl._create_unverified_context()
                with urllib.request.urlopen(f"{self.url}/healthz", timeout=5, context=context):
                    return
            except OSError:
                if self.process.poll() is not None or time.monotonic() > until:
                    self.kill()
                    raise RuntimeError(f"the server did not start: {self.said}") from None
                time.sleep(0.05)

    def stop(self, seconds: float = 30.0) -> int:
        """Send SIGTERM; returns the exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.wait(seconds)

    def wait(self, seconds: float = 30.0) -> int:
        """Wait for the process to exit; returns its exit status."""
        try:
            status = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        self._close()
        return status

    def kill(self) -> None:
        """Kill the process, as a crash would."""
        self.process.kill()
        self.process.wait()
        self._close()

    def _close(self) -> None:
        self._reader.join(10)
        if self.process.stdout is not None:
            self.process.stdout.close()

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *error: object) -> None:
        if self.process.poll() is None:
            self.stop()
        else:
            self._close()


def free_port() -> int:
    """A free port of loopback."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
