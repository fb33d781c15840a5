"""Run all benchmarks and write the results to docs/benchmarks.md, docs/data and the charts.

python -m benchmarks                  # what `make bench` does
python -m benchmarks "side by side"   # only this block of the page
"""

from __future__ import annotations

import argparse

from benchmarks import charts, gpu, page, side_by_side, steps

BLOCKS = {"steps": steps.block, "gpu": gpu.block, "side by side": side_by_side.block}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("blocks", nargs="*", metavar="block", help=f"of {', '.join(BLOCKS)}")
    wanted = parser.parse_args().blocks or list(BLOCKS)
    if unknown := set(wanted) - set(BLOCKS):
        parser.error(f"no such block: {', '.join(sorted(unknown))}")
    blocks = {name: BLOCKS[name]() for name in wanted}
    made = {name: text for name, text in blocks.items() if text is not None}
    page.publish(made)
    charts.draw_all()
    print(*made.values(), f"written to {page.PAGE}", sep="\n\n")


if __name__ == "__main__":
    main()
