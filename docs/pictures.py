"""The pictures and the data of the documentation: ``python docs/pictures.py`` lists the stale ones.

``pictures.toml`` has a group for each command that makes pictures or data, with the sources that
they depend on: code, data, templates. A digest of the command, the sources and the files is
recorded when they are made, so a later change of any of them shows. Comments and docstrings do not
count. The site is not built with a stale picture. Data are measured for a release, so it is built
with stale ones; ``made`` names the release or the commit that they come from.

    python docs/pictures.py --data           # each file of data, its command, whether it is stale
    python docs/pictures.py --make NAME      # run the command of a group, and record its digest
    python docs/pictures.py --record NAME    # record it after you ran the command yourself
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import io
import os
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

DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)

Groups = dict[str, dict[str, Any]]  # files, command, sources, digest; made, of data


def read_record() -> Groups:
    """The groups of files, by name."""
    return tomllib.loads(RECORD.read_text(encoding="utf-8"))


def meaning(path: Path) -> bytes:
    """The content of a file; of Python, the code without comments and docstrings."""
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
            last = words.end_lineno or words.lineno
            lines[words.lineno - 1 : last] = [""] * (last - words.lineno + 1)
    return "\n".join(line.rstrip() for line in lines if line.strip()).encode()


def sources_of(group: dict[str, Any]) -> Iterator[Path]:
    """The files that a group depends on; a folder stands for all that is in it."""
    for name in group["sources"]:
        found = [ROOT / name] if (ROOT / name).is_file() else sorted((ROOT / name).rglob("*"))
        yield from (path for path in found if "__pycache__" not in path.parts and path.is_file())


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
    kept = [path for kind in ("*.png", "*.svg", "data/*.csv") for path in docs.glob(kind)]
    for name in sorted(path.relative_to(docs).as_posix() for path in kept):
        if name not in known:
            found.append(f"docs/{name}: docs/pictures.toml has no command that makes it")
    for name, group in groups.items():
        wanted = [*group["sources"], *(f"docs/{one}" for one in group["files"])]
        missing = [one for one in wanted if not (ROOT / one).exists()]
        if missing:
            found.append(f"{missing[0]}: is missing; docs/pictures.toml has it for {name}")
        elif not is_data(group) and digest_of(group) != group["digest"]:
            old = ", ".join(f"docs/{one}" for one in group["files"])
            found.append(f"{old}: older than its sources; python docs/pictures.py --make {name}")
    return found


def data(groups: Groups) -> Iterator[str]:
    """Each file of data, whether its sources changed since, and its command."""
    for group in filter(is_data, groups.values()):
        age = "as new as its sources" if digest_of(group) == group["digest"] else "STALE"
        for name in group["files"]:
            yield f"docs/{name} ({group['made']}): {age}; {group['command']}"


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
    parser.add_argument("--data", action="store_true", help="list the data with their commands")
    chosen = parser.parse_args()
    if chosen.data:
        print("\n".join(data(groups)))
        return 0
    for name in [*chosen.make, *chosen.record]:
        if name in chosen.make:
            make(groups[name])
        groups = read_record()  # another command may have written it meanwhile
        groups[name]["digest"] = digest_of(groups[name])
        RECORD.write_text(HEAD + tomli_w.dumps(groups), encoding="utf-8")
    print("\n".join(old := stale(groups)) or "every picture is as new as its sources")
    return bool(old)


if __name__ == "__main__":
    sys.exit(main())
