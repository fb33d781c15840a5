"""Atomic writing of files, safe opening of files to read, and archives of arrays with a checksum.

All files of the package are written here: completely, or not at all. All files that a user names
are opened here: each must be a plain file of a bounded size, so that a pipe does not block and a
device does not fill the memory. An archive is numpy's npz with a JSON header and, at its end, the
SHA-256 of everything before. Files to read may be damaged or foreign: nothing in them is executed,
and sizes are checked before memory is allocated.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import secrets
import stat
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any, AnyStr, NamedTuple

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy

from tightrope.errors import InputError, OutputError, ResultsError

PathLike = str | os.PathLike[str]
PARTS = ".partial"  # subfolder of a report's folder for finished runs


# Writing.


def require_writable(path: PathLike) -> None:
    """Raise an ``InputError`` if ``path`` cannot be written; call it before long work.

    It must be a plain file or a new name in a writable folder; links are followed.
    """
    target, _ = _destination(path)
    try:
        handle, name = _temporary(target, 0o600)
    except OSError as error:
        raise InputError(_cannot(path, f"{_folder(target)}: {error.strerror}")) from error
    os.close(handle)
    os.unlink(name)


def require_folder(out: PathLike) -> None:
    """Raise an ``InputError`` unless a folder ``out`` can be written; call it before long work."""
    path = os.path.abspath(out)
    while not os.path.exists(path):
        path = os.path.dirname(path)
    writable = os.path.isdir(path) and os.access(path, os.W_OK)
    if writable:
        try:
            os.rmdir(tempfile.mkdtemp(prefix=".tightrope-", dir=path))  # /proc lets no one make one
        except OSError:
            writable = False
    if not writable:
        raise InputError(f"out = {os.fspath(out)!r}: {path} must be a folder to write to")


def make_folder(out: PathLike) -> Path:
    """The folder, created if necessary."""
    folder = Path(out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"out = {str(folder)!r}: cannot be made ({error.strerror})") from error
    return folder


@contextmanager
def whole_file(path: PathLike) -> Iterator[IO[bytes]]:
    """A file to write to; it replaces ``path`` when the block ends without an error.

    Links are followed; an existing file's mode is kept, a new file's follows the umask. After a
    crash there is either the old file or the new one. Raises ``InputError`` if ``path`` cannot be
    written and ``OutputError`` if writing fails.
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
                os.unlink(name)  # fails if it was already renamed to the target


def write_text(path: PathLike, text: str) -> None:
    """Write ``text`` as UTF-8, atomically."""
    with whole_file(path) as file:
        file.write(text.encode("utf-8", "backslashreplace"))


def _destination(path: PathLike) -> tuple[str, os.stat_result | None]:
    """The path with links followed, and the ``stat`` of an existing file there, or None."""
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
    except OSError as error:  # the working folder was deleted
        raise InputError(_cannot(path, f"the working folder: {error.strerror}")) from error
    if not os.access(_folder(target), os.W_OK | os.X_OK) or not os.path.isdir(_folder(target)):
        raise InputError(
            _cannot(path, f"{_folder(target)} must be a folder that can be written to")
        )
    return target, old


KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def _kind(mode: int) -> str:
    return KINDS.get(stat.S_IFMT(mode), "not a plain file")


def _cannot(path: PathLike, reason: str) -> str:
    return f"cannot write {os.fspath(path)!r}: {reason}"


def _folder(target: str) -> str:
    return os.path.dirname(target)


def _temporary(target: str, mode: int) -> tuple[int, str]:
    """Create and open a hidden file in the target's folder; return its handle and name."""
    short = os.fsdecode(os.fsencode(os.path.basename(target))[:200])  # names have at most 255 bytes
    name = os.path.join(_folder(target), f".{short}.{secrets.token_hex(4)}")
    return os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), name


def _settle(handle: int, old: os.stat_result | None) -> None:
    """Give a file the owner and mode of the one it replaces, and sync it to the disk."""
    if old is not None and hasattr(os, "fchown"):
        with suppress(PermissionError):
            os.fchown(handle, old.st_uid, old.st_gid)
        os.fchmod(handle, stat.S_IMODE(old.st_mode))
    os.fsync(handle)


def _sync_folder(target: str) -> None:
    with suppress(OSError):  # not every system can sync folders
        handle = os.open(_folder(target), os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


# Reading.

MOST_LOG = 2**38  # bytes of a log, which is read in pieces
MOST_TEXT = 2**24  # bytes of a file that people write: keys, policies, certificates
PARQUET = b"PAR1"  # the first bytes of such a file
LONGEST_LINE = 2**28  # bytes; an event with the state of a million arms is shorter


def require_file(
    path: PathLike, what: str, most: int = MOST_LOG, error: type[InputError] = InputError
) -> None:
    """Raise unless ``path`` names a plain file of at most ``most`` bytes; it is not opened.

    ``what``: the file's name in the message, such as "log"; ``error``: the class to raise.
    """
    with _told(path, what, error):
        _require_plain(os.stat(path), most)


def open_file(
    path: PathLike, what: str, most: int = MOST_LOG, error: type[InputError] = InputError
) -> IO[bytes]:
    """Open a file to read, without waiting for anything; raises like :func:`require_file`."""
    with _told(path, what, error):
        return _open_plain(path, most)


@contextmanager
def _told(path: PathLike, what: str, error: type[InputError]) -> Iterator[None]:
    """Raise a one-line error if a file cannot be read."""
    try:
        yield
    except FileNotFoundError:
        reason = "there is no such file"
    except OSError as failure:
        reason = f"cannot be read ({failure.strerror or failure})"
    except ValueError as failure:  # also a name that no file can have
        reason = str(failure)
    else:
        return
    raise error(f"{what} {os.fspath(path)!r}: {reason}") from None


def read_file(
    path: PathLike, what: str, most: int = MOST_TEXT, error: type[InputError] = InputError
) -> bytes:
    """All bytes of a file; raises like :func:`require_file`."""
    with _told(path, what, error), _open_plain(path, most) as file:
        content = file.read(most + 1)  # some files of the system have a size of 0
    if len(content) > most:
        raise error(f"{what} {os.fspath(path)!r}: it must have at most {most:,} bytes")
    return content


def open_text(path: PathLike, what: str) -> IO[str]:
    """Open a table of UTF-8 text for the csv module; raises like :func:`require_file`.

    Also raises for a Parquet file, which is none.
    """
    file = open_file(path, what)
    start = file.read(len(PARQUET))
    if start == PARQUET:
        file.close()
        raise InputError(
            f"{what} {os.fspath(path)!r}: is a Parquet file; its name must end in .parquet, or its"
            " format be given: --format parquet (format='parquet')"
        )
    file.seek(0)
    return io.TextIOWrapper(file, encoding="utf-8-sig", newline="")


def not_utf8(what: str, path: PathLike, error: UnicodeDecodeError) -> InputError:
    """The error for text in another encoding, with the command that converts it."""
    name, wide = os.fspath(path), error.object[:2] in (b"\xff\xfe", b"\xfe\xff")
    code, guess = ("utf16", "as it is UTF-16") if wide else ("latin1", "if it is Latin-1")
    return InputError(
        f"{what} {name!r}: must be UTF-8 text ({error.reason}); {guess}, convert it with:"
        f" iconv -f {code} -t utf-8 {name} > new-{os.path.basename(name)}"
    )


def lines_in(file: IO[AnyStr], place: str, longest: int = LONGEST_LINE) -> Iterator[AnyStr]:
    """The lines of an open file; raises for a line that is too long before reading all of it."""
    while line := file.readline(longest):
        if len(line) == longest:
            raise InputError(f"{place}: a line must be shorter than {longest:,} characters")
        yield line


def _open_plain(path: PathLike, most: int) -> IO[bytes]:
    """Open a plain file; raises an ``OSError``, or a ``ValueError`` that names the fault."""
    _require_plain(os.stat(path), most)  # first, because opening a device may do something
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    handle = os.open(path, flags)
    try:
        _require_plain(os.fstat(handle), most)
        return open(path, "rb", opener=lambda *_: handle)  # so that the file has its name
    except BaseException:
        os.close(handle)
        raise


def _require_plain(found: os.stat_result, most: int) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise ValueError(f"it is {_kind(found.st_mode)}, must be a file")
    if found.st_size > most:
        raise ValueError(f"it has {found.st_size:,} bytes; it must have at most {most:,}")


def memory_here() -> int:
    """Bytes of memory that this process may use: the machine's, or less if a limit is set."""
    sizes = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    with suppress(ImportError, OSError, ValueError):  # not every system has such limits
        resource = import_module("resource")
        limits = [
            resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA)
        ]
        sizes += [limit for limit in limits if limit != resource.RLIM_INFINITY]
        sizes.append(int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return min(sizes)


def require_memory(size: int, place: str, error: type[InputError] = InputError) -> None:
    """Raise if ``size`` bytes are more than half of the available memory."""
    most = memory_here() // 2
    if size > most:
        raise error(
            f"{place}: needs {size:,} bytes of memory; must need at most {most:,}, half of what "
            "this process may use"
        )


def check_parquet(file: IO[bytes], place: str, columns: Sequence[str] | None = None) -> int:
    """The number of rows; raises if the columns, as the footer declares them, do not fit in memory.

    ``columns``: default all. Reads only the footer. A damaged file can raise any exception.
    """
    if not find_spec("pyarrow"):  # polars shows the number of rows only
        rows = import_module("polars").scan_parquet(file.name).select(import_module("polars").len())
        count = int(rows.collect().item())
        require_memory(16 * count * (len(columns or ()) or 1), place)
        return count
    footer = import_module("pyarrow.parquet").read_metadata(file)
    names = [footer.schema.column(at).path.partition(".")[0] for at in range(footer.num_columns)]
    wanted = [at for at, name in enumerate(names) if columns is None or name in columns]
    size = 0
    for group in map(footer.row_group, range(footer.num_row_groups)):
        unpacked = [group.column(at).total_uncompressed_size for at in wanted]
        size += sum(max(one, 8 * group.num_rows) for one in unpacked)
    require_memory(size, place)
    file.seek(0)
    return int(footer.num_rows)


# Archives of arrays.

SEAL = b"sha256:"  # the zip's comment is this and 64 hex digits
DIGITS = 64
DEFLATE = 1032  # largest expansion factor of deflate
HEADER = "header"
LONGEST_NPY_HEADER = 4096

Arrays = dict[str, npt.NDArray[Any]]


class Declared(NamedTuple):
    """An array's type and shape as its header in the archive declares them."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]


Check = Callable[[dict[str, Any], Mapping[str, Declared]], None]


def write_arrays(
    path: PathLike, header: Mapping[str, Any], arrays: Mapping[str, Any], *, compress: bool = True
) -> None:
    """Write an archive atomically; ``header`` is plain JSON. No array may be named "header"."""
    text = np.array(json.dumps({**header, "sealed": True}))
    archive = io.BytesIO()  # in memory: closing a zip on a full disk raises again
    save = np.savez_compressed if compress else np.savez
    save(archive, **{HEADER: text, **arrays})
    archive.seek(-2, io.SEEK_END)  # the length of the zip's comment, 0 so far
    archive.write((len(SEAL) + DIGITS).to_bytes(2, "little") + SEAL)
    archive.write(hashlib.sha256(archive.getbuffer()).hexdigest().encode())
    with whole_file(path) as file:
        file.write(archive.getbuffer())


def read_arrays(path: PathLike, check: Check | None = None) -> tuple[dict[str, Any], Arrays]:
    """The header and the arrays of an archive that ``write_arrays`` or ``numpy.savez`` wrote.

    ``check`` gets the header and the arrays' declared types and shapes before memory is allocated
    for them. Its errors, and anything else wrong with the file, become a one-line ``ResultsError``.
    Older archives without a checksum are read too.
    """
    with _opened(path) as (archive, header, members):
        said = {name: _declared(archive, member) for name, member in members.items()}
        if check is not None:
            check(header, said)
        return header, {name: _array(archive, member) for name, member in members.items()}


def read_header(path: PathLike) -> dict[str, Any]:
    """The header of an archive; raises like :func:`read_arrays`."""
    with _opened(path) as (_, header, _):
        return header


Members = dict[str, zipfile.ZipInfo]


@contextmanager
def _opened(path: PathLike) -> Iterator[tuple[zipfile.ZipFile, dict[str, Any], Members]]:
    """An archive, its header and its other members; any fault becomes a one-line error."""
    try:
        with _open_plain(path, MOST_LOG) as file:
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
    except Exception as error:  # a damaged file can raise anything in zipfile, zlib, json or numpy
        told = getattr(error, "strerror", None) or str(error) or type(error).__name__
        reason = " ".join(told.split())[:200]
        raise ResultsError(
            f"{os.fspath(path)}: not a results file that can be read ({reason})"
        ) from error


def _header(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> dict[str, Any]:
    said = _declared(archive, member)
    if said.dtype.kind != "U" or said.shape != ():
        raise ValueError("its header is not text")
    header = json.loads(str(_array(archive, member)))
    if not isinstance(header, dict):
        raise ValueError("its header is not a JSON object")
    return header


def _is_sealed(file: IO[bytes], size: int) -> bool:
    """Whether the file ends in a checksum; raises if the checksum is wrong."""
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
        raise ValueError("it is damaged: its checksum is wrong")
    return True


def _members(archive: zipfile.ZipFile, size: int) -> Members:
    """The archive's members by name, checked against the size of the file."""
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
    require_memory(sum(member.file_size for member in listed), "its arrays", ResultsError)
    return members


def _declared(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Declared:
    """A member's array as its header declares it; raises unless its data have that size."""
    with archive.open(member) as file:
        version = npy.read_magic(file)
        read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, _, dtype = read(file, max_header_size=LONGEST_NPY_HEADER)
        start = file.tell()
    if dtype.kind not in "biufU":
        raise ValueError(f"{member.filename!r}: not an array of plain numbers or text")
    if start + math.prod(shape) * dtype.itemsize != member.file_size:
        raise ValueError(f"{member.filename!r}: {shape} values are not what the file holds")
    return Declared(dtype, shape)


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> npt.NDArray[Any]:
    with archive.open(member) as file:
        return npy.read_array(file, allow_pickle=False)
