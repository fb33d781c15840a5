"""Update the generated blocks of docs/benchmarks.md and leave the rest of the page alone.

A block starts with ``<!-- begin: its name -->`` and ends with the next ``<!-- end -->``.
``publish`` takes the tables out of a block and writes them to docs/data, where ``charts`` draws
them: the page has words, the CSV files have the numbers.
"""

from __future__ import annotations

import csv
import os
import platform
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"
DATA = "data"  # the folder of CSV files, beside the page
END = "<!-- end -->"
QUANTITY = re.compile(r"([-+]?[\d,]*\.?\d+(?:e[-+]?\d+)?) ?(%|[A-Za-z]*)")  # a number, its unit


class NoBlockError(Exception):
    """The page does not have exactly one block of this name."""


def replaced(text: str, name: str, block: str) -> str:
    """``text`` with the contents of the block ``name`` replaced by ``block``."""
    begin = f"<!-- begin: {name} -->"
    before, *rest = text.split(begin)
    if len(rest) != 1 or END not in rest[0]:
        raise NoBlockError(f"the page needs one {begin} with an {END} after it")
    after = rest[0].partition(END)[2]
    return f"{before}{begin}\n\n{block.strip()}\n\n{END}{after}"


def write(blocks: Mapping[str, str], page: Path = PAGE) -> None:
    """Replace all these blocks of the page; if one fails, change nothing."""
    text = page.read_text()
    for name, block in blocks.items():
        text = replaced(text, name, block)
    new = page.with_suffix(".new")
    new.write_text(text)
    os.replace(new, page)


def publish(blocks: Mapping[str, str], page: Path = PAGE) -> None:
    """Replace these blocks of the page, and write their tables to CSV files named like them."""
    write({name: without_tables(block) for name, block in blocks.items()}, page)
    for name, block in blocks.items():
        for number, rows in enumerate(tables(block), start=1):
            ending = "" if number == 1 else f"-{number}"
            save(name.replace(" ", "-") + ending, *rows, folder=page.parent / DATA)


def without_tables(block: str) -> str:
    """The paragraphs of a block that are not tables."""
    return "\n\n".join(part for part in block.split("\n\n") if not part.startswith("|"))


def tables(block: str) -> Iterator[tuple[list[str], list[list[str]]]]:
    """The head and the rows of every Markdown table in a block."""
    for part in block.split("\n\n"):
        if part.startswith("|"):
            lines = [line.strip().strip("|").split("|") for line in part.strip().splitlines()]
            head, _, *rows = [[cell.strip().replace("`", "") for cell in line] for line in lines]
            yield head, rows


def save(name: str, head: list[str], rows: list[list[str]], folder: Path) -> None:
    """Write a table to a CSV file; units go from the cells to the head, or to a row's first."""
    columns = [split_unit(cells) for cells in zip(*rows, strict=True)]
    head = [with_unit(title, unit) for title, (unit, _) in zip(head, columns, strict=True)]
    lines = []
    for first, *cells in zip(*(cells for _, cells in columns), strict=True):
        unit, bare = split_unit(cells)
        lines.append([with_unit(first, unit), *bare])
    folder.mkdir(exist_ok=True)
    with (folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([head, *lines])


def split_unit(cells: Sequence[str]) -> tuple[str, Sequence[str]]:
    """The unit of numbers that have one unit, and the bare numbers; else "" and the cells."""
    found = [match for cell in cells if (match := QUANTITY.fullmatch(cell))]
    units = {match[2] for match in found}
    if len(found) < len(cells) or len(units) != 1:
        return "", cells
    return units.pop(), [match[1].replace(",", "") for match in found]


def with_unit(title: str, unit: str) -> str:
    return f"{title} ({unit})" if unit else title


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table."""
    head = list(head)
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def bullets(lines: Iterable[str]) -> str:
    """A Markdown list."""
    return "\n".join(f"- {line}" for line in lines)


def machine() -> str:
    """One line that describes the machine."""
    return (
        f"{processor()}, {os.cpu_count()} cores, {system()}, "
        f"Python {platform.python_version()}, {date.today().isoformat()}"
    )


def processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()


def system() -> str:
    try:
        name = platform.freedesktop_os_release()["PRETTY_NAME"]
    except OSError:
        name = platform.system()
    return f"{name} ({platform.machine().replace('_', '-')})"
