"""The server: sockets, signals, limits, logs."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import uvicorn

from tightrope.service.app import make_app
from tightrope.service.desk import Service
from tightrope.service.keys import KeyRing

__all__ = ["Running", "serve"]


def serve(
    store: str,
    *,
    host: str = "127.0.0.1",
    port: int = 8321,
    keys: str | None = None,
) -> None:
    """Serve a store's campaigns until SIGTERM or Ctrl-C."""
    ring = None if keys is None else KeyRing(keys)
    service = Service(store)
    app = make_app(service, ring)
    config = uvicorn.Config(
        app, host=host, port=port, loop="uvloop", http="httptools", ws="none",
        lifespan="on", log_config=None, access_log=False, proxy_headers=False,
        server_header=False, date_header=False,
    )  # fmt: skip
    uvicorn.Server(config).run()


class Running:
    """A server in a process of its own, on a free port of loopback; for tests and examples."""

    def __init__(self, store: str | Path, *options: str, environment: Any = None) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        arguments = ["serve", str(store), "--port", str(self.port), *options]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tightrope", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(environment or {})},
        )
        try:
            self._wait()
        except BaseException:
            self.kill()
            raise

    def _wait(self) -> None:
        until = time.monotonic() + 60
        while True:
            try:
                with urllib.request.urlopen(f"{self.url}/readyz", timeout=5):
                    return
            except OSError:
                if self.process.poll() is not None or time.monotonic() > until:
                    self.process.kill()
                    said = self.process.communicate()[0].decode(errors="replace")
                    raise RuntimeError(f"the server did not start: {said}") from None
                time.sleep(0.05)

    def stop(self, seconds: float = 30.0) -> int:
        """Ask it to end; its exit status."""
        self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=seconds)
        return self.process.returncode

    def kill(self) -> None:
        """End it as a crash would."""
        self.process.kill()
        self.process.communicate()

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *error: object) -> None:
        if self.process.poll() is None:
            self.stop()
