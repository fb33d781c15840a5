"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from tightrope.errors import InputError

__all__ = ["check_writable", "whole_file", "write_text"]


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A file to write to that takes the place of ``path`` when the block ends without an error."""
    target = Path(path)
    try:
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    except OSError as error:
        raise InputError(f"cannot write {target}: {error.strerror}") from error
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        os.chmod(name, 0o644)
        os.replace(name, target)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(name)
        raise


def check_writable(path: str | os.PathLike[str]) -> None:
    """Complain now, before long work, if ``path`` could not be written after it."""
    folder = Path(path).parent
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise InputError(f"cannot write {path}: {folder} must be a folder that can be written to")


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write ``text`` as UTF-8, whole or not at all."""
    with whole_file(path) as file:
        file.write(text.encode())
