"""Pictures of the pages, to be looked at: python -m tests.service.screenshots --out FOLDER

With --readme the two pictures of the README are made, into docs/.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from PIL import Image

from tests.service.browser import Said, chromium, missing, serving
from tests.service.samples import SimulatedClock, samples
from tightrope.live.stores.memory import MemoryStore

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
    "form": "/campaigns/router-november/act/budget",
    "missing": "/campaigns/nothing",
}


def shoot(out: Path, only: list[str], readme: bool) -> list[str]:
    store, said = MemoryStore(clock := SimulatedClock(0.0)), []
    samples(store, clock)
    with serving(store, unit="$") as url, chromium() as browser:
        for theme in ("light", "dark"):
            for size, (width, height) in SIZES.items():
                context = browser.new_context(
                    viewport={"width": width, "height": height}, color_scheme=theme,
                    device_scale_factor=1,
                )  # fmt: skip
                page = context.new_page()
                heard = Said(page)
                for name, path in PAGES.items():
                    if only and name not in only:
                        continue
                    if readme and (size != "1440" or (name, theme) not in README):
                        continue
                    if readme:
                        page.set_viewport_size({"width": width, "height": READ_SIZE[name]})
                    page.goto(url + path, wait_until="networkidle")
                    page.wait_for_timeout(600)
                    file = out / f"{name}-{size}-{theme}.png"
                    if readme:
                        file = Path("docs") / README[name, theme]
                    page.screenshot(path=file, full_page=not readme)
                    if readme:
                        with Image.open(file) as picture:  # as many colours as it takes, no more
                            picture.convert("RGB").quantize(96).save(file, optimize=True)
                    print(file)
                said += [one for one in heard.errors if "404" not in one]
                context.close()
    return said


README = {("list", "light"): "dashboard-list.png", ("campaign", "dark"): "dashboard.png"}
READ_SIZE = {"list": 560, "campaign": 1080}  # how high they are


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("screenshots"))
    parser.add_argument("--only", action="append", default=[], choices=PAGES)
    parser.add_argument("--readme", action="store_true")
    given = parser.parse_args()
    if (why := missing()) is not None:
        raise SystemExit(why)
    given.out.mkdir(parents=True, exist_ok=True)
    said = shoot(given.out, given.only, given.readme)
    print("\n".join(["complaints:", *said]) if said else "no complaints")


if __name__ == "__main__":
    main()
