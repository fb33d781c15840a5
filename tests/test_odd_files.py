"""Every command that reads a path, given what is no such file: one line, in time and in memory."""

from __future__ import annotations

import io
import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tightrope import Results, ready_problem, simulate
from tightrope.errors import ResultsError
from tightrope.files import lines_in, memory_here, open_file, read_file

# What is given, by the role of the path in a command; the child adds the odd path in place of PATH.
COMMANDS = {
    "problem": "oracle PATH",
    "simulated": "simulate PATH --budget 10 --runs 2",
    "planned": "plan PATH --budget 10",
    "keys": "keys list PATH",
    "more keys": "keys add PATH ops --role admin",
    "csv": "fit PATH --format csv --arm a --cost c --reward r",
    "parquet": "fit PATH --format parquet --arm a --cost c --reward r",
    "export": "fit PATH --format campaign",
    "replayed": "replay PATH --format csv --arm a --cost c --reward r --budget 5",
    "policy": "simulate paper --policy PATH.py:Mine --budget 10 --runs 2",
    "store": "campaign status PATH one",
    "list": "campaign list PATH",
    "verified": "campaign verify PATH one",
    "task": "campaign create new.db one --task PATH --budget 5",
    "backup": "campaign restore PATH new.db",
    "served": "serve PATH --port 0",
    "served keys": "serve new.db --port 0 --keys PATH",
    "bill": "campaign amend kept.db one --bill PATH",
    "archive": "campaign change kept.db one --policy uniform-random --archive PATH",
    "certificate": "serve new.db --port 0 --certificate PATH",
}
CHILD = """
import contextlib, io, os, resource, signal, sys
sys.path[:0] = {path!r}
import numpy, pyarrow.parquet, polars, narwhals, sqlite3
import tightrope.cli, tightrope.live.stores.sqlite, tightrope.service.server
def used():
    return int(open("/proc/self/statm").read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
def late(*_):
    raise BaseException("took too long")
signal.signal(signal.SIGALRM, late)
for line in sys.stdin.read().splitlines():
    resource.setrlimit(resource.RLIMIT_AS, (used() + 2**30, resource.RLIM_INFINITY))
    told = io.StringIO()
    signal.alarm(60)
    try:
        with contextlib.redirect_stderr(told), contextlib.redirect_stdout(io.StringIO()):
            status = tightrope.cli.main(line.split("\\t"))
    except SystemExit as stop:
        status = stop.code
    except BaseException as error:
        status, told = "raised", io.StringIO(f"{{type(error).__name__}}: {{error}}")
    signal.alarm(0)
    print(status, line.replace("\\t", " "), "|", told.getvalue().strip().replace("\\n", "\\\\n"))
"""


def odd_paths(folder: Path) -> list[Path]:
    """What is no problem, no store, no log, no keys and no policy."""
    random = np.random.default_rng(3)
    os.mkfifo(folder / "fifo")
    (folder / "folder").mkdir()
    here = os.getcwd()
    os.chdir(folder)  # a socket's path is short
    try:
        with socket.socket(socket.AF_UNIX) as one:
            one.bind("socket")
    finally:
        os.chdir(here)
    (folder / "random").write_bytes(random.bytes(20_000))
    (folder / "zeros").write_bytes(bytes(20_000))
    with (folder / "sparse").open("wb") as file:  # takes no disk
        file.write(b"a,c,r\nx,1,1\n")
        file.truncate(2**36)
    (folder / "nested").write_text("x = " + "[" * 100_000)
    return [Path("/dev/zero"), *sorted(folder.iterdir())]


def ran(folder: Path, lines: list[list[str]]) -> list[str]:
    child = CHILD.format(path=[one for one in sys.path if one])
    done = subprocess.run(
        [sys.executable, "-c", child], input="\n".join(map("\t".join, lines)), cwd=folder,
        capture_output=True, text=True, timeout=900,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.splitlines()


def lines_for(command: str, paths: list[Path]) -> list[list[str]]:
    return [[word.replace("PATH", str(path)) for word in command.split()] for path in paths]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes with a name")
def test_what_is_no_file_is_one_line_everywhere(tmp_path):
    (tmp_path / "odd").mkdir()
    paths = odd_paths(tmp_path / "odd")
    for path in list(paths):
        if path.name not in ("zero", "socket", "folder"):
            os.link(path, tmp_path / "odd" / f"{path.name}.py")  # named as a policy's file is
    lines = [line for command in COMMANDS.values() for line in lines_for(command, paths)]
    make = "campaign create kept.db one --task paper --budget 5 --policy uniform-random"
    made, *answers = ran(tmp_path, [make.split(), *lines])
    assert made.startswith("0 ")
    assert len(answers) == len(lines)
    wrong = [one for one in answers if not one.startswith("2 ") or "\\n" in one.partition("|")[2]]
    assert wrong == []


def test_empty_and_cut_files_are_one_line(tmp_path):
    (tmp_path / "empty").write_bytes(b"")
    ready_problem("paper").save(tmp_path / "cut.toml")
    text = (tmp_path / "cut.toml").read_bytes()
    (tmp_path / "cut.toml").write_bytes(text[: len(text) // 2])
    paths = [tmp_path / "empty", tmp_path / "cut.toml"]
    skip = (
        "bill",
        "archive",
        "keys",
        "more keys",
        "served",
        "served keys",
        "list",
        "backup",
    )  # may be empty
    lines = [one for name, c in COMMANDS.items() if name not in skip for one in lines_for(c, paths)]
    answers = ran(tmp_path, lines)
    wrong = [one for one in answers if one[0] not in "12" or "\\n" in one.partition("|")[2]]
    assert wrong == []


def test_a_parquet_bomb_is_one_line(tmp_path):
    """170 million rows of one value take 2 MB."""
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path, step = tmp_path / "bomb.parquet", 2**22
    columns = {"a": pa.array(["x"] * step).dictionary_encode(), "c": np.ones(step)}
    table = pa.table({**columns, "r": np.ones(step)})
    with parquet.ParquetWriter(path, table.schema, compression="zstd") as writer:
        for _ in range(40):
            writer.write_table(table)
    assert path.stat().st_size < 2**22
    command = "fit PATH --arm a --cost c --reward r"
    (answer,) = ran(tmp_path, lines_for(command, [path]))
    assert answer.startswith("2 ")
    assert "bytes of memory" in answer
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    (answer,) = ran(tmp_path, lines_for(command, [path]))
    assert answer.startswith("2 ")
    assert "must be a Parquet file" in answer


def test_an_archive_that_unpacks_to_more_than_the_memory_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "runs.npz"
    simulate("paper", "uniform-random", budgets=[50], runs=20, backend="python").save(path)
    assert Results.load(path).runs == 20
    monkeypatch.setattr("tightrope.files.memory_here", lambda: 1000)
    with pytest.raises(ResultsError, match=r"its arrays: needs [\d,]+ bytes of memory") as caught:
        Results.load(path)
    assert "\n" not in str(caught.value)


def test_lines_have_a_longest_length():
    assert list(lines_in(io.StringIO("ab\nc"), "log", 4)) == ["ab\n", "c"]
    with pytest.raises(ValueError, match="log: a line must be shorter than 4 characters"):
        list(lines_in(io.StringIO("ab\nabcdef\n"), "log", 4))


def test_a_file_has_a_largest_size(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"12345")
    assert read_file(path, "keys", 5) == b"12345"
    with pytest.raises(ValueError, match=r"it has 5 bytes; it must have at most 4"):
        read_file(path, "keys", 4)
    with pytest.raises(ValueError, match=r"at most 4 bytes"):
        read_file("/proc/self/status", "keys", 4)  # its size is 0
    with open_file(path, "keys") as file:
        assert file.name == str(path)


def test_the_memory_is_what_a_limit_leaves():
    assert 0 < memory_here() <= os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
