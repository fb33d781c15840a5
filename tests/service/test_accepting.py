"""Connections count from accept on, before a TLS handshake; no file handles left stops nothing."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import resource
import shutil
import socket
import ssl
import subprocess
import threading
import time
import urllib.request
from pathlib import Path

import pytest
import uvloop

from tests.service.conftest import Api
from tests.service.requests_corpus import get
from tightrope.service.http import HttpServer, Limits
from tightrope.service.http.server import connections_within, tls_context
from tightrope.service.server import Running


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """The files of a certificate and its key."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed: it makes the certificate")
    folder = tmp_path_factory.mktemp("certificate")
    made = (
        "openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 2"
        " -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1"
    )
    subprocess.run(made.split(), cwd=folder, check=True, capture_output=True)
    return str(folder / "cert.pem"), str(folder / "key.pem")


class Alive:
    """An application that answers everything."""

    def answer_directly(self, request, done):
        done((200, b"{}", None))
        return True

    async def __call__(self, scope, receive, send):
        raise AssertionError


class Serving:
    """A server in a thread, with its own loop."""

    def __init__(self, run=uvloop.run, tls=None, host="127.0.0.1", **limits):
        self.server = HttpServer(Alive(), Limits(**limits))
        self._host, self._tls, self._run, self._ready = host, tls, run, threading.Event()
        self.errors = []
        self._thread = threading.Thread(target=lambda: self._run(self._serve()))

    async def _serve(self):
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: self.errors.append(context))
        self._stop = asyncio.Event()
        url = await self.server.start(self._host, 0, self._tls)
        self.port, self._loop = int(url.rpartition(":")[2]), loop
        self._ready.set()
        await self._stop.wait()
        self.complete = await self.server.end(5.0)

    def __enter__(self):
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(self, *error):
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(20)
        assert not self.errors

    def connected(self, count):
        return [socket.create_connection(("127.0.0.1", self.port), 10.0) for _ in range(count)]

    def wait(self, count):
        until = time.monotonic() + 10
        while len(self.server.open) != count:
            assert time.monotonic() < until, len(self.server.open)
            time.sleep(0.01)


LOOPS = pytest.mark.parametrize("run", [uvloop.run, asyncio.run], ids=["uvloop", "asyncio"])


def trusting(certificate):
    return ssl.create_default_context(cafile=certificate[0])


def over_tls(serving, certificate):
    """The answer to a request over TLS."""
    with socket.create_connection(("127.0.0.1", serving.port), 10.0) as plain:
        context = trusting(certificate)
        with context.wrap_socket(plain, server_hostname="127.0.0.1") as connection:
            connection.sendall(get(b"Connection: close"))
            return connection.recv(1000)


@LOOPS
def test_idle_tls_connections_count_and_are_closed_after_their_time(run, certificate):
    with Serving(run, tls_context(*certificate), connections=20, request_time=2.0) as serving:
        idle = serving.connected(60)
        serving.wait(20)
        until = time.monotonic() + 10
        while serving.server.refused < 40 and time.monotonic() < until:
            time.sleep(0.01)
        assert serving.server.refused == 40
        for one in idle[20:]:
            assert one.recv(100) == b""  # at once: nothing can be said before a handshake
        serving.wait(0)  # the others, when their time is over
        assert over_tls(serving, certificate).startswith(b"HTTP/1.1 200")
        for one in idle:
            one.close()
    assert serving.complete


@LOOPS
def test_failed_handshakes_are_forgotten(run, certificate):
    with Serving(run, tls_context(*certificate), connections=100) as serving:
        assert over_tls(serving, certificate).startswith(b"HTTP/1.1 200")
        serving.wait(0)
        handles = len(os.listdir("/proc/self/fd"))
        for data in (b"", b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x00\x05hello", b"\x00" * 500):
            for one in serving.connected(15):
                one.sendall(data)
                one.close()
        assert over_tls(serving, certificate).startswith(b"HTTP/1.1 200")  # accepted after all
        serving.wait(0)
        gc.collect()
        assert len(os.listdir("/proc/self/fd")) <= handles


@LOOPS
def test_a_handshake_does_not_delay_the_end(run, certificate):
    with Serving(run, tls_context(*certificate), connections=20) as serving:
        idle = serving.connected(10)
        serving.wait(10)
    assert serving.complete  # within 5 seconds, though a handshake may take 10
    for one in idle:
        one.close()


@LOOPS
def test_beyond_the_most_a_plain_connection_is_told_503(run):
    with Serving(run, connections=5) as serving:
        first = serving.connected(5)
        serving.wait(5)
        for one in serving.connected(20):
            answer = one.recv(1000)
            assert answer.startswith(b"HTTP/1.1 503 ")
            assert b"retry-after: 1\r\n" in answer
            assert one.recv(1000) == b""
            one.close()
        first[0].sendall(get())
        assert first[0].recv(1000).startswith(b"HTTP/1.1 200")
        for one in first:
            one.close()
        serving.wait(0)
        (again,) = serving.connected(1)
        again.sendall(get())
        assert again.recv(1000).startswith(b"HTTP/1.1 200")
        again.close()
    assert serving.server.refused == 20


def test_every_address_of_a_host_is_listened_at():
    with Serving(host="localhost") as serving:
        (one,) = serving.connected(1)
        one.sendall(get(b"Connection: close"))
        assert one.recv(1000).startswith(b"HTTP/1.1 200")
        one.close()


def used(process: int) -> float:
    """Seconds of processor time."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_without_file_handles_the_server_waits_and_goes_on(tmp_path):
    with Running(tmp_path / "a.db") as server:
        api, process = Api(server.url), server.process.pid
        api.create("n")
        assert api("POST", "/v1/campaigns/n/decisions")[0] == 201
        handles = len(os.listdir(f"/proc/{process}/fd"))
        before = resource.prlimit(process, resource.RLIMIT_NOFILE)
        resource.prlimit(process, resource.RLIMIT_NOFILE, (handles + 10, before[1]))
        address = ("127.0.0.1", server.port)
        many = [socket.create_connection(address, 5.0) for _ in range(50)]
        time.sleep(0.5)
        many[0].sendall(get())  # those that were accepted are served
        assert many[0].recv(1000).startswith(b"HTTP/1.1 200")
        start = used(process)
        time.sleep(2.0)
        assert used(process) - start < 0.5
        for one in many:
            one.close()
        until = time.monotonic() + 10
        while time.monotonic() < until:
            with contextlib.suppress(OSError):
                if api("POST", "/v1/campaigns/n/decisions")[0] == 201:
                    break
        assert api("GET", "/v1/campaigns/n")[1]["asked"] >= 2
    assert "Traceback" not in server.said


def test_idle_connections_leave_file_handles_to_the_service(tmp_path, certificate):
    options = ("--certificate", certificate[0], "--private-key", certificate[1])
    with Running(tmp_path / "a.db", *options, "--connections", "100") as server:
        process = server.process.pid
        idle = [socket.create_connection(("127.0.0.1", server.port), 5.0) for _ in range(600)]
        time.sleep(1.0)
        assert len(os.listdir(f"/proc/{process}/fd")) < 200
        for one in idle:
            one.close()
        until, found = time.monotonic() + 10, 0
        while found != 200 and time.monotonic() < until:
            with contextlib.suppress(OSError):
                url = f"{server.url}/readyz"
                with urllib.request.urlopen(url, context=trusting(certificate)) as answer:
                    found = answer.status
        assert found == 200
    assert "Traceback" not in server.said


def test_fewer_files_allow_fewer_connections(monkeypatch):
    monkeypatch.setattr(resource, "setrlimit", lambda *_: None)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (4096, 4096))
    assert connections_within(1000) == 1000
    monkeypatch.setattr(resource, "getrlimit", lambda _: (700, 700))
    with pytest.warns(UserWarning, match="at most 500 instead of 1000, .* allows 700 open files"):
        assert connections_within(1000) == 500
    monkeypatch.setattr(resource, "getrlimit", lambda _: (100, 100))
    with pytest.warns(UserWarning, match="at most 50 "):
        assert connections_within(1000) == 50
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY,) * 2)
    assert connections_within(10**6) == 10**6
