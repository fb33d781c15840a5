"""How long the page of a large campaign takes to open: python -m tests.service.opening --events 1e6

A store is made (or taken, with --store), served by ``tightrope serve``, and its page is asked for:
the first time right after the start, then again, and in a Chromium. A writer in another process
goes on meanwhile, with the page open and without: how long its commits take.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
from pathlib import Path

import httpx

from tests.service.browser import chromium, missing
from tests.service.samples import answer, routing_task
from tightrope import Resolve, open_campaign
from tightrope.service.server import Running

NAME, PAGE = "november", "/campaigns/november"
WRITES = 200  # turns whose time is taken


def fill(path: Path, events: int) -> None:
    """A campaign of so many events."""
    luck = random.Random(1)
    with open_campaign(path, NAME, task=routing_task(), budget=0.01 * events,
                       policy=Resolve(risk=0.01)) as campaign:  # fmt: skip
        while campaign.status()["events"] < events:
            tickets = campaign.ask_many(250)
            campaign.tell_many([{"id": one.id, **answer(one.arm, luck)} for one in tickets])


def milliseconds(function) -> float:
    began = time.perf_counter()
    function()
    return 1e3 * (time.perf_counter() - began)


def write(path: Path) -> list[float]:
    """How long turns take, each of a decision and a report of a process of its own."""
    luck, found = random.Random(2), []
    with open_campaign(path, NAME) as campaign:
        for _ in range(WRITES):
            ticket = campaign.ask()
            told = answer(ticket.arm, luck)
            found.append(milliseconds(lambda id=ticket.id, told=told: campaign.tell(id, **told)))
            time.sleep(0.02)
    return found


def spread(times: list[float]) -> str:
    ordered = sorted(times)
    middle, slow = statistics.median(ordered), ordered[int(0.99 * (len(ordered) - 1))]
    return f"median {middle:.1f} ms, 99 % within {slow:.1f} ms"


def measure(path: Path) -> None:
    with Running(path) as server, httpx.Client(base_url=server.url, timeout=60) as client:
        first = milliseconds(lambda: client.get(PAGE).raise_for_status())
        print(f"the first page after the start: {first:.0f} ms")
        time.sleep(2.0)
        pages = [milliseconds(lambda: client.get(PAGE).raise_for_status()) for _ in range(30)]
        print(f"the page: {spread(pages)}")
        curves = [milliseconds(lambda: client.get(PAGE + "/curves")) for _ in range(30)]
        print(f"all points of its curves: {spread(curves)}")
        print(f"a report, no page open: {spread(write(path))}")
        if (why := missing()) is not None:
            print(why)
            return
        with chromium() as browser:
            loads, draws = [], []
            for _ in range(5):
                context = browser.new_context(viewport={"width": 1440, "height": 900})
                page = context.new_page()
                began = time.perf_counter()
                page.goto(server.url + PAGE, wait_until="load")
                loads.append(1e3 * (time.perf_counter() - began))
                page.wait_for_selector("figure[data-chart=shares] canvas")
                draws.append(1e3 * (time.perf_counter() - began))
                if len(loads) < 5:
                    context.close()
            print(f"Chromium, nothing kept from before: loaded in {spread(loads)}")
            print(f"Chromium: all charts drawn in {spread(draws)}")
            print(f"a report, the page open: {spread(write(path))}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=float, default=1e6)
    parser.add_argument("--store", type=Path, help=f"one with a campaign called {NAME}")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = given.store or Path(folder) / "campaigns.db"
        if not path.exists():
            fill(path, int(given.events))
        measure(path)


if __name__ == "__main__":
    main()
