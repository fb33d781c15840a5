"""Every file that is written goes through here, whole or not at all; and archives of arrays.

An archive is numpy's npz with a JSON header and, at its very end, the SHA-256 of all that stands
before: no flipped bit goes unnoticed. What is read was perhaps damaged, or never one of ours:
nothing of it is evaluated, and its sizes are checked before anything is made room for.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import re
import secrets
import stat
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import IO, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tightrope.errors import InputError, OutputError, ResultsError

__all__ = [
    "Declared",
    "read_arrays",
    "read_header",
    "require_writable",
    "whole_file",
    "write_arrays",
    "write_text",
]

PathLike = str | os.PathLike[str]


# Writing.


def require_writable(path: PathLike) -> None:
    """Complain now, before long work, if ``path`` could not be written after it.

    It must be a plain file or a new name in a folder that can be written to; a link is followed.
    """
    target, _ = _destination(path)
    try:
        handle, name = _temporary(target, 0o600)
    except OSError as error:
        raise InputError(_cannot(path, f"{_folder(target)}: {error.strerror}")) from error
    os.close(handle)
    os.unlink(name)


@contextmanager
def whole_file(path: PathLike) -> Iterator[IO[bytes]]:
    """A file to write to that takes the place of ``path`` when the block ends without an error.

    A link is followed, an existing file's mode is kept, a new one's follows the umask. After a
    crash there is the old file or the new one. An ``InputError`` if ``path`` cannot be a file to
    write, an ``OutputError`` if writing fails.
    """
    target, old = _destination(path)
    name = None
    try:
        handle, name = _temporary(target, 0o600 if old else 0o666)
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            _settle(file.fileno(), old)
        os.replace(name, target)
        _sync_folder(target)
    except OSError as error:
        raise OutputError(_cannot(path, str(error.strerror or error))) from error
    finally:
        if name is not None:
            with suppress(OSError):
                os.unlink(name)  # gone already, if it has taken its place


def write_text(path: PathLike, text: str) -> None:
    """Write ``text`` as UTF-8, whole or not at all."""
    with whole_file(path) as file:
        file.write(text.encode("utf-8", "backslashreplace"))


def _destination(path: PathLike) -> tuple[str, os.stat_result | None]:
    """The place that a path leads to, and what is known of the file that is there already."""
    text = os.fspath(path)
    try:
        old = os.stat(text)
    except FileNotFoundError:
        old = None
    except (OSError, ValueError) as error:
        raise InputError(_cannot(path, str(getattr(error, "strerror", "") or error))) from error
    if old is not None and not stat.S_ISREG(old.st_mode):
        raise InputError(_cannot(path, f"it is {_kind(old.st_mode)}, must be a file"))
    if old is not None and not os.access(text, os.W_OK):
        raise InputError(_cannot(path, "it is a file that may not be changed"))
    if not text or text.endswith(os.sep):
        raise InputError(_cannot(path, "it must be the name of a file"))
    try:
        target = os.path.realpath(text)
    except OSError as error:  # the working folder is gone
        raise InputError(_cannot(path, f"the working folder: {error.strerror}")) from error
    if not os.access(_folder(target), os.W_OK | os.X_OK) or not os.path.isdir(_folder(target)):
        raise InputError(
            _cannot(path, f"{_folder(target)} must be a folder that can be written to")
        )
    return target, old


def _kind(mode: int) -> str:
    for test, kind in (
        (stat.S_ISDIR, "a folder"),
        (stat.S_ISFIFO, "a pipe"),
        (stat.S_ISSOCK, "a socket"),
        (stat.S_ISCHR, "a device"),
        (stat.S_ISBLK, "a device"),
    ):
        if test(mode):
            return kind
    return "no plain file"


def _cannot(path: PathLike, reason: str) -> str:
    return f"cannot write {os.fspath(path)!r}: {reason}"


def _folder(target: str) -> str:
    return os.path.dirname(target)


def _temporary(target: str, mode: int) -> tuple[int, str]:
    """A new file beside the target, open: its handle and its name, which begins with a dot."""
    short = os.fsdecode(os.fsencode(os.path.basename(target))[:200])  # a name has 255 bytes at most
    name = os.path.join(_folder(target), f".{short}.{secrets.token_hex(4)}")
    return os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), name


def _settle(handle: int, old: os.stat_result | None) -> None:
    """Give a file the owner and the mode of the one it replaces, and have it on the disk."""
    if old is not None and hasattr(os, "fchown"):
        with suppress(PermissionError):
            os.fchown(handle, old.st_uid, old.st_gid)
        os.fchmod(handle, stat.S_IMODE(old.st_mode))
    os.fsync(handle)


def _sync_folder(target: str) -> None:
    with suppress(OSError):  # not every system can
        handle = os.open(_folder(target), os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


# Archives of arrays.

SEAL = b"sha256:"  # the archive's comment: this and 64 digits
DIGITS = 64
DEFLATE = 1032  # how many bytes deflate makes of one, at most
HEADER = "header"
NPY = re.compile(
    rb"\{'descr': '([<>|=]?[biufU]\d{1,9})', 'fortran_order': (True|False),"
    rb" 'shape': \(((?:\d{1,18},? ?)*)\), \} *\n"
)
LONGEST_NPY_HEADER = 4096

Arrays = dict[str, npt.NDArray[Any]]


class Declared(NamedTuple):
    """What an archive says of an array before it is read."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]


Check = Callable[[dict[str, Any], Mapping[str, Declared]], None]


def write_arrays(
    path: PathLike, header: Mapping[str, Any], arrays: Mapping[str, Any], *, compress: bool = True
) -> None:
    """Write an archive, whole or not at all; ``header`` is plain JSON, no array is called so."""
    text = np.array(json.dumps({**header, "sealed": True}))
    archive = io.BytesIO()  # a zip cannot be closed in peace where the disk is full
    save = np.savez_compressed if compress else np.savez
    save(archive, **{HEADER: text, **arrays})
    archive.seek(-2, io.SEEK_END)  # the length of a comment, 0 so far
    archive.write((len(SEAL) + DIGITS).to_bytes(2, "little") + SEAL)
    archive.write(hashlib.sha256(archive.getbuffer()).hexdigest().encode())
    with whole_file(path) as file:
        file.write(archive.getbuffer())


def read_arrays(path: PathLike, check: Check | None = None) -> tuple[dict[str, Any], Arrays]:
    """The header and the arrays of an archive that ``write_arrays`` or ``numpy.savez`` wrote.

    ``check`` gets the header and what each array is said to be before room is made for any; what it
    raises, and all else that can be wrong with a file, is a one-line ``ResultsError``. An archive
    from before there were checksums is read without.
    """
    with _opened(path) as (archive, header, members):
        said = {name: _declared(archive, member)[0] for name, member in members.items()}
        if check is not None:
            check(header, said)
        return header, {name: _array(archive, member) for name, member in members.items()}


def read_header(path: PathLike) -> dict[str, Any]:
    """The header of an archive; see :func:`read_arrays` for what can be wrong."""
    with _opened(path) as (_, header, _):
        return header


Members = dict[str, zipfile.ZipInfo]


@contextmanager
def _opened(path: PathLike) -> Iterator[tuple[zipfile.ZipFile, dict[str, Any], Members]]:
    """An archive, its header and its other members; one line for all that is wrong with it."""
    try:
        with _open_plain(path) as file:
            size = os.fstat(file.fileno()).st_size
            sealed = _is_sealed(file, size)
            with zipfile.ZipFile(file) as archive:
                members = _members(archive, size)
                header = _header(archive, members.pop(HEADER))
                if header.get("sealed") and not sealed:
                    raise ValueError("it is damaged: its checksum is missing")
                yield archive, header, members
    except ResultsError as error:
        raise ResultsError(f"{os.fspath(path)}: {error}") from error
    except Exception as error:  # whatever damage raises in zipfile, zlib, json or numpy
        told = getattr(error, "strerror", None) or str(error) or type(error).__name__
        reason = " ".join(told.split())[:200]
        raise ResultsError(
            f"{os.fspath(path)}: not a results file that can be read ({reason})"
        ) from error


def _header(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> dict[str, Any]:
    said, _, _ = _declared(archive, member)
    if said.dtype.kind != "U" or said.shape != ():
        raise ValueError("its header is not a text")
    header = json.loads(str(_array(archive, member)))
    if not isinstance(header, dict):
        raise ValueError("its header is not a JSON object")
    return header


def _open_plain(path: PathLike) -> IO[bytes]:
    """A file to read; a pipe is not waited for."""
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    mode = os.fstat(handle).st_mode
    if not stat.S_ISREG(mode):
        os.close(handle)
        raise ValueError(f"it is {_kind(mode)}, must be a file")
    return os.fdopen(handle, "rb")


def _is_sealed(file: IO[bytes], size: int) -> bool:
    """Whether the file ends in a checksum, and then the right one."""
    if size == 0:
        raise ValueError("it is empty")
    file.seek(max(0, size - len(SEAL) - DIGITS))
    end = file.read()
    if not end.startswith(SEAL):
        return False
    file.seek(0)
    digest, left = hashlib.sha256(), size - DIGITS
    while left > 0 and (block := file.read(min(left, 1 << 20))):
        digest.update(block)
        left -= len(block)
    if digest.hexdigest().encode() != end[len(SEAL) :]:
        raise ValueError("it is damaged: its checksum is another")
    return True


def _members(archive: zipfile.ZipFile, size: int) -> Members:
    """The arrays' places by name; none can be larger than the file's bytes make it."""
    listed = archive.infolist()
    members = {member.filename.removesuffix(".npy"): member for member in listed}
    if len(members) != len(listed) or HEADER not in members:
        raise ValueError("it has no header, or one name twice")
    if sum(member.compress_size for member in listed) > size:
        raise ValueError("its parts are longer than the file")
    for name, member in members.items():
        most = {zipfile.ZIP_STORED: 1, zipfile.ZIP_DEFLATED: DEFLATE}.get(member.compress_type, 0)
        if member.file_size > most * member.compress_size:
            raise ValueError(f"{name!r}: {member.file_size} bytes cannot be in this file")
    return members


def _declared(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> tuple[Declared, int, bool]:
    """What a member says of its array, where the data begin, and whether columns come first."""
    with archive.open(member) as file:
        magic = file.read(8)
        if magic[:6] != b"\x93NUMPY" or magic[6] not in (1, 2, 3):
            raise ValueError(f"{member.filename!r} is not an array")
        digits = 2 if magic[6] == 1 else 4
        length = int.from_bytes(file.read(digits), "little")
        if length > LONGEST_NPY_HEADER:
            raise ValueError(f"{member.filename!r}: its header is too long")
        found = NPY.fullmatch(file.read(length))
    if found is None:
        raise ValueError(f"{member.filename!r}: not an array of plain numbers or text")
    dtype = np.dtype(found[1].decode())
    shape = tuple(int(part) for part in found[3].replace(b" ", b"").split(b",") if part)
    start = 8 + digits + length
    if start + math.prod(shape) * dtype.itemsize != member.file_size:
        raise ValueError(f"{member.filename!r}: {shape} values are not what the file holds")
    return Declared(dtype, shape), start, found[2] == b"True"


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> npt.NDArray[Any]:
    said, start, by_columns = _declared(archive, member)
    with archive.open(member) as file:
        file.read(start)
        data = bytearray(file.read())
    order: Any = "F" if by_columns else "C"
    return np.ndarray(said.shape, said.dtype, data, order=order)
