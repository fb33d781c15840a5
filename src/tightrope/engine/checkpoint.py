"""Finished chunks on the disk, so that a sweep that is killed goes on where it was.

A folder holds ``checkpoint.json``, which says what work it is of, and parts, each a file with the
chunks finished in a couple of seconds. Every file is written whole or not at all. A run depends on
the seed and its number alone: what is read back has the bits of what would be made again.
"""

from __future__ import annotations

import json
import os
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from tightrope.engine.identity import digest
from tightrope.errors import InputError
from tightrope.files import whole_file, write_text
from tightrope.results import Runs

__all__ = ["Checkpoint", "Place", "holds_checkpoint", "remove_checkpoint"]

FORMAT = 1  # of the folder; a reader refuses what it does not know
HEADER = "checkpoint.json"
PARTS = "part-*.npz"
FLUSH_SECONDS = 2.0  # how much work a kill may cost at first
FLUSH_SHARE = 0.01  # and later, as a share of the work so far: so that ten hours are 700 files

Place = tuple[int, int, int]  # a chunk: which policy and budget, its first run, how many runs


class Checkpoint:
    """Finished chunks of one piece of work, in a folder. For one process at a time."""

    def __init__(self, folder: Path, work: str) -> None:
        """See :meth:`open`; ``work`` is the digest that the parts carry."""
        self.folder = folder
        self.elapsed = 0.0  # seconds that went into the chunks read back
        self._work = work
        self._chunks: list[tuple[Place, Runs, float]] = []  # finished, not yet on the disk
        self._since = time.perf_counter()  # when the last part was written
        self._parts = 0

    @classmethod
    def open(
        cls, folder: str | os.PathLike[str], known: Mapping[str, Any], resume: bool
    ) -> Checkpoint:
        """The folder's checkpoint of the work that ``known`` describes; a new one if it has none.

        An ``InputError`` if the folder's is of other work, or if it is not to be resumed.
        """
        path = Path(folder)
        if not holds_checkpoint(path):
            _begin(path, known)
            return cls(path, digest(known))
        _require_same(path, _header(path), known)
        if not resume:
            raise InputError(
                f"{path} holds a checkpoint of this work; resume it (--resume, resume=True),"
                " or remove the folder to start again"
            )
        return cls(path, digest(known))

    def load(self) -> dict[Place, tuple[Runs, float]]:
        """The chunks on the disk with their seconds; a part that is damaged counts for nothing."""
        found: dict[Place, tuple[Runs, float]] = {}
        for path in sorted(self.folder.glob(PARTS)):
            self._parts += 1
            with suppress(Exception):  # whatever damage raises: its chunks are made again
                elapsed, chunks = self._read(path)
                found.update((place, (runs, seconds)) for place, runs, seconds in chunks)
                self.elapsed += elapsed
        return found

    def start(self) -> None:
        """The work begins now: what it takes from here on is counted."""
        self._since = time.perf_counter()

    def add(self, place: Place, runs: Runs, seconds: float) -> None:
        """Keep a finished chunk: on the disk within a couple of seconds."""
        self._chunks.append((place, runs, seconds))
        if time.perf_counter() - self._since >= max(FLUSH_SECONDS, FLUSH_SHARE * self.elapsed):
            self.flush()

    def flush(self) -> None:
        """Write what is not on the disk yet."""
        if not self._chunks:
            return
        now = time.perf_counter()
        self._write(self.folder / f"part-{self._parts:05}-{secrets.token_hex(4)}.npz", now)
        self._parts += 1
        self.elapsed += now - self._since
        self._since = now
        self._chunks = []

    def _write(self, path: Path, now: float) -> None:
        header = {
            "work": self._work,
            "elapsed": now - self._since,
            "chunks": [(*place, seconds) for place, _, seconds in self._chunks],
        }
        runs = Runs.join([runs for _, runs, _ in self._chunks], axis=0)
        arrays = {field.name: getattr(runs, field.name) for field in fields(Runs)}
        try:
            with whole_file(path) as file:
                np.savez(file, header=np.array(json.dumps(header)), **arrays)
        except OSError as error:
            raise InputError(f"cannot write {path}: {error.strerror}") from error

    def _read(self, path: Path) -> tuple[float, list[tuple[Place, Runs, float]]]:
        with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            header = json.loads(str(file["header"]))
            if header["work"] != self._work:
                return 0.0, []
            runs = Runs(*(file[field.name] for field in fields(Runs)))
        return header["elapsed"], list(_split(header["chunks"], runs))


def holds_checkpoint(folder: str | os.PathLike[str]) -> bool:
    """Whether there is a checkpoint in the folder; one without any part is none."""
    path = Path(folder)
    return (path / HEADER).is_file() and any(path.glob(PARTS))


def remove_checkpoint(folder: str | os.PathLike[str]) -> None:
    """Remove a checkpoint, what a killed write left of it, and the folder if it is then empty."""
    path = Path(folder)
    for pattern in (f".{PARTS}.*", PARTS, f".{HEADER}.*", HEADER):
        for file in path.glob(pattern):
            file.unlink(missing_ok=True)
    with suppress(OSError):
        path.rmdir()


def _begin(folder: Path, known: Mapping[str, Any]) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot make the folder {folder}: {error.strerror}") from error
    write_text(folder / HEADER, json.dumps({"format": FORMAT, "work": known}, indent=1))


def _header(folder: Path) -> dict[str, Any]:
    path = folder / HEADER
    try:
        header = json.loads(path.read_text())
        work, version = dict(header["work"]), header["format"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{path} cannot be read ({error}); remove the folder to start again"
        ) from error
    if version != FORMAT:
        raise InputError(f"{path}: format {version!r} is unknown; known: {FORMAT}")
    return work


def _require_same(folder: Path, theirs: Mapping[str, Any], mine: Mapping[str, Any]) -> None:
    here = json.loads(json.dumps(mine))  # tuples are lists there
    for what in here:
        if theirs.get(what) != here[what]:
            raise InputError(
                f"{folder} holds a checkpoint of other work:"
                f" {_difference(what, theirs.get(what), here[what])}; name another folder"
            )


def _difference(what: str, there: Any, here: Any) -> str:
    """What is not the same, in some words of one line."""
    if what == "problem":
        return "its problem is not this one"
    if isinstance(there, dict) and list(there) == list(here):
        name = next(name for name in here if there[name] != here[name])
        if what == "policies":
            return f"its policy {name!r} has other parameters or other code"
        return f"its {what} of {name!r} is {there[name]!r}, not {here[name]!r}"
    if isinstance(there, dict):
        there, here = list(there), list(here)
    verb = "are" if what.endswith("s") else "is"
    return f"its {what} {verb} {there!r}, not {here!r}"


def _split(chunks: list[Any], runs: Runs) -> Iterator[tuple[Place, Runs, float]]:
    """The chunks that lie behind one another in ``runs``."""
    lengths = {len(getattr(runs, field.name)) for field in fields(Runs)}
    if lengths != {sum(count for _, _, count, _ in chunks)}:
        raise ValueError("the arrays do not have the runs that the header names")
    first = 0
    for work, run, count, seconds in chunks:
        yield (work, run, count), runs[first : first + count], seconds
        first += count
