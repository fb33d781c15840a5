"""The figures of the documentation: ``python docs/pictures.py`` lists the pictures that are stale.

``pictures.toml`` has a group for each command that makes pictures or data, with the sources that
they depend on: code, data, templates; ``-file`` leaves out a file of a folder. Data are tables
(CSV) or what a command printed, for numbers in the text. A digest of the command, the sources and
the files is recorded when they are made, so a later change of any of them shows. Comments,
docstrings and refusals (``if ...: raise ...``) do not count. The site is not built with a stale
picture, or with a command of a measurement that has no group. Data are measured for a release, so
it is built with stale ones; ``made`` names the commit that they come from.

    python docs/pictures.py --list           # each figure, its command, its pages, its age
    python docs/pictures.py --make NAME      # run the command of a group, and record its digest
    python docs/pictures.py --record NAME    # record it after you ran the command yourself
    python docs/pictures.py --record NAME --at "5f651af, H200"     # the commit and the machine
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import io
import os
import re
import subprocess
import sys
import tokenize
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tomli_w

ROOT = Path(__file__).resolve().parents[1]
RECORD = ROOT / "docs" / "pictures.toml"
HEAD = "# Written by docs/pictures.py, which explains it; edit all but the digests.\n\n"

# Of a measurement: in backticks, or a line of a shell's fence.
COMMAND = re.compile(
    r"python (?:-m (?:benchmarks|tests)\b|benchmarks/|examples/data_sets/)[^`#\n]*"
)
NO_FIGURES = ("CHANGELOG.md", "docs/style.md", "docs/releasing.md")  # commands alone

DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
LEAVES = (ast.Return, ast.Continue, ast.Break, ast.Yield, ast.YieldFrom)

Groups = dict[str, dict[str, Any]]  # files, command, sources, digest; made, of data


def read_record() -> Groups:
    """The groups of files, by name."""
    return tomllib.loads(RECORD.read_text(encoding="utf-8"))


def meaning(path: Path) -> bytes:
    """The content of a file; of Python, the code without comments, docstrings and refusals."""
    if path.suffix != ".py":
        return path.read_bytes()
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column]
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node) is not None:
            words = node.body[0]
            blank(lines, words)
        elif isinstance(node, ast.Raise) or (isinstance(node, ast.If) and is_refusal(node)):
            blank(lines, node)
    return "\n".join(line.rstrip() for line in lines if line.strip()).encode()


def is_refusal(node: ast.If) -> bool:
    """Whether a branch always raises, so that no run which ended took it."""
    if node.orelse or not isinstance(node.body[-1], ast.Raise):
        return False
    return not any(isinstance(one, LEAVES) for part in node.body for one in ast.walk(part))


def blank(lines: list[str], node: ast.stmt) -> None:
    """Clear the lines of a statement."""
    last = node.end_lineno or node.lineno
    lines[node.lineno - 1 : last] = [""] * (last - node.lineno + 1)


def sources_of(group: dict[str, Any]) -> Iterator[Path]:
    """The files that a group depends on; a folder stands for all that is in it, less ``-file``."""
    without = {ROOT / name[1:] for name in group["sources"] if name.startswith("-")}
    for name in (one for one in group["sources"] if not one.startswith("-")):
        found = [ROOT / name] if (ROOT / name).is_file() else sorted((ROOT / name).rglob("*"))
        kept = (path for path in found if path not in without and path.is_file())
        yield from (path for path in kept if "__pycache__" not in path.parts)


def digest_of(group: dict[str, Any]) -> str:
    """A number that changes with the command, the sources or the files."""
    total = hashlib.sha256(group["command"].encode())
    files = [*sources_of(group), *(ROOT / "docs" / name for name in group["files"])]
    for path in files:
        total.update(path.relative_to(ROOT).as_posix().encode() + b"\0")
        total.update(hashlib.sha256(meaning(path)).digest())
    return total.hexdigest()[:16]


def is_data(group: dict[str, Any]) -> bool:
    """Whether the files of a group are data."""
    return all(name.startswith("data/") for name in group["files"])


def stale(groups: Groups | None = None) -> list[str]:
    """What is wrong with the pictures, and with the record of data, one line each."""
    groups, docs, found = read_record() if groups is None else groups, ROOT / "docs", []
    known = {name for group in groups.values() for name in group["files"]}
    kinds = ("*.png", "*.svg", "data/*")
    kept = [path for kind in kinds for path in docs.glob(kind)]
    for name in sorted(path.relative_to(docs).as_posix() for path in kept):
        if name not in known:
            found.append(f"docs/{name}: docs/pictures.toml has no command that makes it")
    for name, group in groups.items():
        wanted = [*group["sources"], *(f"docs/{one}" for one in group["files"])]
        missing = [one for one in wanted if not (ROOT / one.removeprefix("-")).exists()]
        if is_data(group) and not set(missing) & set(group["sources"]):
            continue  # it is listed as not measured
        if missing:
            found.append(f"{missing[0]}: is missing; docs/pictures.toml has it for {name}")
        elif not is_data(group) and digest_of(group) != group["digest"]:
            old = ", ".join(f"docs/{one}" for one in group["files"])
            found.append(f"{old}: older than its sources; python docs/pictures.py --make {name}")
    commands = " ".join(group["command"] for group in groups.values())
    for place, command in cited():
        if command not in commands:
            found.append(f"{place}: docs/pictures.toml has no group with the command {command}")
    return found


def cited() -> Iterator[tuple[str, str]]:
    """The commands of measurements in the pages, and where they are."""
    for path in sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")]):
        place = path.relative_to(ROOT).as_posix()
        if place in NO_FIGURES or not path.exists():
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            for command in COMMAND.findall(line):
                yield f"{place}:{number}", command.strip(" \\")


def listed(groups: Groups) -> Iterator[str]:
    """Each figure, where it comes from, whether its sources changed since, and its pages."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    texts = {page.name: page.read_text(encoding="utf-8") for page in pages if page.exists()}
    commands = list(cited())
    for group in groups.values():
        age = age_of(group)
        with_command = {place for place, command in commands if command in group["command"]}
        for name in group["files"]:
            shown = {page for page, text in texts.items() if f"{name})" in text} | with_command
            where = ", ".join(sorted(shown)) or "no page"
            made = f" ({group['made']})" if "made" in group else ""
            yield f"docs/{name}{made}: {age}; {where}; {group['command']}"


def age_of(group: dict[str, Any]) -> str:
    """Whether the sources of a group changed since its files were made."""
    if not all((ROOT / "docs" / name).exists() for name in group["files"]):
        return "NOT MEASURED"
    return "as new as its sources" if digest_of(group) == group["digest"] else "STALE"


def commit() -> str:
    """The commit that is checked out."""
    command = ["git", "rev-parse", "--short=7", "HEAD"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout.strip()


def make(group: dict[str, Any]) -> None:
    """Run the command of a group, with this Python and this source tree."""
    search = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    code = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    print(group["command"], flush=True)
    environment = {**os.environ, "PATH": search, "PYTHONPATH": code}
    done = subprocess.run(group["command"], shell=True, cwd=ROOT, env=environment)
    if done.returncode:
        raise SystemExit(f"{group['command']}: ended with status {done.returncode}")


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    groups = read_record()
    parser.add_argument("--make", nargs="+", default=[], choices=groups, metavar="NAME")
    parser.add_argument("--record", nargs="+", default=[], choices=groups, metavar="NAME")
    parser.add_argument("--list", action="store_true", help="list the figures with their commands")
    parser.add_argument("--at", help="the commit, and the machine, of data (this commit)")
    chosen = parser.parse_args()
    if chosen.list:
        print("\n".join(listed(groups)))
        return 0
    for name in [*chosen.make, *chosen.record]:
        if name in chosen.make:
            make(groups[name])
        groups = read_record()  # another command may have written it meanwhile
        groups[name]["digest"] = digest_of(groups[name])
        if is_data(groups[name]):
            groups[name]["made"] = chosen.at or commit()
        RECORD.write_text(HEAD + tomli_w.dumps(groups), encoding="utf-8")
    print("\n".join(old := stale(groups)) or "every picture is as new as its sources")
    return bool(old)


if __name__ == "__main__":
    sys.exit(main())
