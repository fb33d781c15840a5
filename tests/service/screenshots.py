"""Pictures of the pages, to be looked at: python -m tests.service.screenshots --out FOLDER

With --readme the pictures of the documentation are made, into docs/. With --postgres the campaigns
are in a PostgreSQL of the command's own.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import httpx
from PIL import Image

from tests.live.postgres import Server, server_programs
from tests.service.browser import Said, chromium, missing, serving
from tests.service.samples import SimulatedClock, auctions, crowd, prices, samples
from tightrope.live.stores import open_store
from tightrope.live.stores.copies import copy_campaign
from tightrope.live.stores.memory import MemoryStore
from tightrope.service.keys import KeyRing, made_key, write_keys

SIZES = {"1440": (1440, 900), "390": (390, 844)}
PAGES = {
    "list": "/",
    "campaign": "/campaigns/router-november",
    "promised": "/campaigns/sales-spring",
    "paused": "/campaigns/router-eu",
    "new": "/campaigns/labels",
    "events": "/campaigns/router-november/events",
    "why": "/campaigns/router-november/why?ticket=req-001500",
    "data": "/campaigns/router-november/data",
    "reports": "/campaigns/router-november/reports",
    "form": "/campaigns/router-november/act/budget",
    "limits": "/campaigns/router-november/act/limits",
    "arm": "/campaigns/router-november/act/add-arm",
    "missing": "/campaigns/nothing",
}
CROWD = {
    "fifty": "/",
    "found": "/?q=market&state=running&sort=spent",
    "forty": "/campaigns/forty-arms",
    "changed": "/campaigns/changed",
    "types": "/campaigns/router-types",
    "features": "/campaigns/router-features",
    "types-why": "/campaigns/router-types/why?ticket=req-001500",
    "broken": "/campaigns/broken",
    "once": "/campaigns/one-report",
    "create": "/new",
}  # of a service with fifty campaigns
INTERVAL = "interval"  # of a service with one campaign over bids
SIGNING_IN = ("login", "refused", "signed-in")  # of a service with keys


def filled(stack: ExitStack, postgres: bool):
    """A store with the samples."""
    store = MemoryStore(clock := SimulatedClock(0.0))
    samples(store, clock)
    if not postgres:
        return store
    programs = server_programs()
    if programs is None:
        raise SystemExit("PostgreSQL's server is not installed: apt-get install postgresql")
    database = Server(programs)
    stack.callback(database.remove)
    other = open_store(database.url())
    stack.callback(other.close)
    for name in store.names():
        copy_campaign(store, other, name)
    return other


def wait_for(address: str, text: str, seconds: float = 120.0) -> None:
    """Wait until a page has a text."""
    end = time.monotonic() + seconds
    while text not in httpx.get(address).text:
        if time.monotonic() > end:
            raise SystemExit(f"{address}: {text!r} is missing after {seconds:g} seconds")
        time.sleep(1.0)


def shoot(out: Path, only: list[str], readme: bool, postgres: bool) -> list[str]:
    said = []
    with ExitStack() as stack:
        store = filled(stack, postgres)
        url = stack.enter_context(serving(store, unit="$"))
        pages = {name: url + path for name, path in PAGES.items()}
        if not readme and (not only or set(only) & set(CROWD)):
            other = MemoryStore(clock := SimulatedClock(0.0))
            crowd(other, clock)
            second = stack.enter_context(serving(other, unit="$"))
            pages |= {name: second + path for name, path in CROWD.items()}
        bids = MemoryStore(clock := SimulatedClock(0.0))
        auctions(bids, clock, 1500)
        pages[INTERVAL] = (numbers := stack.enter_context(serving(bids))) + "/campaigns/auctions"
        if not readme and (not only or "box" in only):
            prices(bids, clock, 1500)
            pages["box"] = numbers + "/campaigns/prices"
        keys = Path(stack.enter_context(tempfile.TemporaryDirectory()), "keys")
        secret, key = made_key("november's reader", ["read"])
        write_keys(keys, [key])
        locked = stack.enter_context(serving(store, KeyRing(keys), unit="$"))
        browser = stack.enter_context(chromium())
        for address in pages.values():  # a first look opens a campaign, which takes its time
            while "opening" in httpx.get(address.partition("/act")[0]).text.lower():
                time.sleep(0.2)
        if readme:  # the headline has the chance of ending above a limit once it is estimated
            wait_for(pages["campaign"], "Chance of ending above")
        for theme in ("light", "dark"):
            for size, (width, height) in SIZES.items():
                context = browser.new_context(
                    viewport={"width": width, "height": height}, color_scheme=theme,
                    device_scale_factor=1,
                )  # fmt: skip
                page = context.new_page()
                heard = Said(page)
                for name, address in pages.items():
                    if only and name not in only:
                        continue
                    if readme and (size != "1440" or (name, theme) not in README):
                        continue
                    if readme:
                        page.set_viewport_size({"width": width, "height": READ_SIZE[name]})
                    page.goto(address, wait_until="networkidle")
                    page.wait_for_timeout(600)
                    file = out / f"{name}-{size}-{theme}.png"
                    if readme:
                        file = Path("docs") / README[name, theme]
                    if readme and name == INTERVAL:
                        page.locator("section[aria-labelledby=h-curve]").screenshot(path=file)
                    else:
                        page.screenshot(path=file, full_page=not readme)
                    if readme:
                        with Image.open(file) as picture:  # as many colours as it takes, no more
                            picture.convert("RGB").quantize(240 if name == INTERVAL else 96).save(
                                file, optimize=True
                            )
                    print(file)
                if not readme and (not only or set(only) & set(SIGNING_IN)):
                    for name, typed in zip(SIGNING_IN, ("", "wrong", secret), strict=True):
                        if typed:
                            page.get_by_label("Key").fill(typed)
                            page.get_by_role("button", name="Sign in").click()
                            page.wait_for_load_state("networkidle")
                        else:
                            page.goto(locked, wait_until="networkidle")
                        page.screenshot(path=out / f"{name}-{size}-{theme}.png", full_page=True)
                        print(out / f"{name}-{size}-{theme}.png")
                said += [one for one in heard.errors if "404" not in one and "401" not in one]
                context.close()
    return said


README = {
    ("list", "light"): "dashboard-list.png",
    ("campaign", "dark"): "dashboard.png",
    (INTERVAL, "light"): "dashboard-interval.png",
}
READ_SIZE = {"list": 560, "campaign": 1080, INTERVAL: 1080}  # how high they are


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("screenshots"))
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        choices=[*PAGES, *CROWD, INTERVAL, "box", *SIGNING_IN],
    )
    parser.add_argument("--readme", action="store_true")
    parser.add_argument("--postgres", action="store_true")
    given = parser.parse_args()
    if (why := missing()) is not None:
        raise SystemExit(why)
    given.out.mkdir(parents=True, exist_ok=True)
    said = shoot(given.out, given.only, given.readme, given.postgres)
    print("\n".join(["complaints:", *said]) if said else "no complaints")


if __name__ == "__main__":
    main()
