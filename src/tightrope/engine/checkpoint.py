"""The store: a folder of finished runs, so that interrupted work can continue.

Every few seconds, the newly finished chunks are written as one *part*, an archive with a checksum
(``files``); the runs of a damaged part are made again. A chunk's key is the digest of its job and
its run numbers. Its runs depend only on these, so loading them gives the same bits as making them
again, and different calls with common jobs share their runs. A lock, released when the process
ends, lets one process at a time use the folder.
"""

from __future__ import annotations

import os
import re
import secrets
import time
import warnings
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from types import TracebackType
from typing import Any

from tightrope.engine.job import Job
from tightrope.errors import InputError, StoreWarning, TightropeError
from tightrope.files import read_arrays, write_arrays
from tightrope.runs import Runs

LOCK = "lock"
PART = re.compile(r"part-(\d{5,})-([0-9a-f]{8})\.npz")
FLUSH_SECONDS = 2.0  # shortest time between parts: the work that a kill may lose
FLUSH_SHARE = 0.01  # later, this share of the elapsed time: ten hours make 700 files

Place = tuple[str, int, int]  # a chunk's key: its job's digest, first run, number of runs


class Checkpoint:
    """Finished runs in a folder; a context manager that holds the folder's lock."""

    def __init__(self, folder: str | os.PathLike[str], *, fresh: bool = False) -> None:
        """Lock the folder, creating it if necessary; ``fresh`` deletes its contents."""
        if not isinstance(folder, str | os.PathLike):
            raise InputError(f"checkpoint = {folder!r:.80}: must be the path of a folder")
        self.folder = Path(folder)
        self.elapsed = 0.0  # seconds that went into the chunks read back
        self._waiting: list[tuple[Place, Runs, float]] = []  # finished, not yet on the disk
        self._since = time.perf_counter()  # when the last part was written
        self._number = 0
        self._told = False
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock = (self.folder / LOCK).open("a+b")
        except OSError as error:
            raise InputError(f"cannot make the folder {folder}: {error.strerror}") from error
        _take(self._lock, self.folder)
        if fresh:
            self._remove_parts()

    def __enter__(self) -> Checkpoint:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.flush()
        self._lock.close()
        if not self._paths():
            self._remove_folder()

    def load(self, jobs: Iterable[Job]) -> dict[Place, tuple[Runs, float]]:
        """The chunks of these jobs that are on the disk, with their seconds."""
        wanted = {job.digest for job in jobs}
        found: dict[Place, tuple[Runs, float]] = {}
        for path in self._paths():
            self._number = max(self._number, 1 + int(path.name.split("-")[1]))
            try:
                elapsed, chunks = _read(path)
            except Exception as error:  # a damaged file can raise anything
                path.unlink(missing_ok=True)
                self._warn(f"{error}; its runs will be made again")
                continue
            mine = {place: (runs, taken) for place, runs, taken in chunks if place[0] in wanted}
            found.update(mine)
            self.elapsed += elapsed if mine else 0.0
        return found

    def start(self) -> None:
        """Start counting the elapsed time."""
        self._since = time.perf_counter()

    def add(self, place: Place, runs: Runs, seconds: float) -> None:
        """Keep a finished chunk; it is written within a few seconds."""
        self._waiting.append((place, runs, seconds))
        if time.perf_counter() - self._since >= max(FLUSH_SECONDS, FLUSH_SHARE * self.elapsed):
            self.flush()

    def flush(self) -> None:
        """Write the chunks that are not on the disk yet; a full disk only causes a warning."""
        now = time.perf_counter()
        self.elapsed, taken, self._since = self.elapsed + now - self._since, now - self._since, now
        if not self._waiting:
            return
        header, arrays = _packed(self._waiting, taken)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            name = f"part-{self._number:05}-{secrets.token_hex(4)}.npz"
            write_arrays(self.folder / name, header, arrays, compress=False)
        except (OSError, TightropeError) as error:
            if not self._told:
                self._warn(
                    f"finished runs cannot be kept in {self.folder} ({error}); the work "
                    "continues, but has to start again after a kill"
                )
            self._told = True
            return
        self._number, self._waiting, self._told = self._number + 1, [], False

    def remove(self) -> None:
        """Delete all parts, once the work is done and its results are saved elsewhere."""
        self._waiting = []
        self._remove_parts()

    @property
    def keeps(self) -> bool:
        """Whether everything finished is on the disk."""
        return not self._waiting

    def _paths(self) -> list[Path]:
        with suppress(OSError):
            return sorted(path for path in self.folder.iterdir() if PART.fullmatch(path.name))
        return []

    def _remove_parts(self) -> None:
        for path in self._paths():
            path.unlink(missing_ok=True)
        for path in self.folder.glob(".part-*"):  # left by a write that was killed
            path.unlink(missing_ok=True)

    def _remove_folder(self) -> None:
        with suppress(OSError):
            (self.folder / LOCK).unlink(missing_ok=True)
            self.folder.rmdir()

    def _warn(self, text: str) -> None:
        warnings.warn(text, StoreWarning, stacklevel=3)


def _take(file: Any, folder: Path) -> None:
    """Lock the folder for this process; on systems without such locks, do nothing."""
    try:
        import fcntl
    except ImportError:  # not a POSIX system
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.seek(0)
        holder = file.read(20).decode("ascii", "replace").strip() or "another"
        file.close()
        raise InputError(
            f"{folder} is in use by process {holder}; wait for it, or name another folder"
        ) from None
    file.truncate(0)
    file.write(str(os.getpid()).encode())
    file.flush()


def _packed(
    chunks: list[tuple[Place, Runs, float]], elapsed: float
) -> tuple[dict[str, Any], dict[str, Any]]:
    """A part's header and arrays, with each job's runs joined."""
    jobs: dict[str, list[tuple[Place, Runs, float]]] = {}
    for chunk in chunks:
        jobs.setdefault(chunk[0][0], []).append(chunk)
    listed = [(*place, seconds) for some in jobs.values() for place, _, seconds in some]
    arrays: dict[str, Any] = {}
    for number, some in enumerate(jobs.values()):
        runs = Runs.join([runs for _, runs, _ in some], axis=0)
        arrays |= {f"{number}.{field.name}": getattr(runs, field.name) for field in fields(Runs)}
    return {"elapsed": elapsed, "chunks": listed}, arrays


def _read(path: Path) -> tuple[float, list[tuple[Place, Runs, float]]]:
    """The seconds that went into a part, and its chunks."""
    header, arrays = read_arrays(path)
    if not header.get("sealed"):
        raise ValueError("it has no checksum")
    joined = {
        digest: Runs(*(arrays[f"{number}.{field.name}"] for field in fields(Runs)))
        for number, digest in enumerate(dict.fromkeys(one[0] for one in header["chunks"]))
    }
    return header["elapsed"], list(_split(header["chunks"], joined))


def _split(chunks: list[Any], joined: dict[str, Runs]) -> Iterator[tuple[Place, Runs, float]]:
    """The chunks, cut from their jobs' joined runs."""
    first = dict.fromkeys(joined, 0)
    for digest, run, count, seconds in chunks:
        at = first[digest]
        yield (digest, run, count), joined[digest][at : at + count], seconds
        first[digest] += count
