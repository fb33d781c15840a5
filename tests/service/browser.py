"""A server in a thread and a real Chromium, for the tests of the pages and the screenshots."""

from __future__ import annotations

import shutil
import socket
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import uvicorn

from tightrope.service.app import make_app
from tightrope.service.desk import Service
from tightrope.service.pages import Pages

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


def missing() -> str | None:
    """Why there is no browser, if there is none."""
    try:
        import playwright.sync_api  # noqa: F401
    except ImportError:
        return "Playwright is not installed: pip install playwright"
    return None if CHROMIUM else "Chromium is not installed: apt-get install chromium"


def axe_script() -> str | None:
    """The script of axe, which looks for barriers in a page; None if it is not installed."""
    try:
        import axe_playwright_python
    except ImportError:
        return None
    return (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text()


def barriers(page, script: str) -> list[str]:
    """What axe finds in a page."""
    page.evaluate(script)
    found = page.evaluate("axe.run(document)")["violations"]
    return [f"{one['id']}: {node['html'][:160]}" for one in found for node in one["nodes"]]


@contextmanager
def serving(store, keys=None, unit=""):
    """The address of a service of a store, in a thread of this process."""
    service = Service(store)
    app = make_app(service, keys, Pages(service, keys, unit).routes())
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port = listening.getsockname()[1]
        config = uvicorn.Config(app, log_config=None, access_log=False, lifespan="on", ws="none")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        while not server.started and thread.is_alive():
            time.sleep(0.01)
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            server.should_exit = True
            thread.join(30)


@contextmanager
def chromium():
    """A browser."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


class Said:
    """What a page complains of: errors on its console, and requests that failed."""

    def __init__(self, page) -> None:
        self.errors: list[str] = []
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("requestfailed", self._failed)

    def _failed(self, request) -> None:
        if "ERR_ABORTED" not in (request.failure or ""):  # the page was left meanwhile
            self.errors.append(f"failed: {request.url}: {request.failure}")

    def _console(self, message) -> None:
        if message.type in ("error", "warning"):
            self.errors.append(message.text)
