"""Update the generated blocks of docs/benchmarks.md and leave the rest of the page alone.

A block starts with ``<!-- begin: its name -->`` and ends with the next ``<!-- end -->``.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Mapping
from datetime import date
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"
END = "<!-- end -->"


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
    return f"{name} ({platform.machine()})"
