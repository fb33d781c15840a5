"""Files are written whole or not at all, only where a file can be, and read without trust."""

from __future__ import annotations

import io
import json
import os
import pickle
import resource
import shutil
import signal
import socket
import stat
import subprocess
import sys
import zipfile
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import bernoulli_problem
from tightrope import Controller, LyOff, LyOn, Results
from tightrope.cli import main
from tightrope.engine import simulation
from tightrope.engine.checkpoint import Checkpoint
from tightrope.engine.simulation import simulate
from tightrope.errors import InputError, OutputError, ResultsError
from tightrope.files import (
    read_arrays,
    read_header,
    require_writable,
    whole_file,
    write_arrays,
    write_text,
)
from tightrope.live import snapshots

SHELL = "simulate paper --policy lyoff --budget 20 --runs 3 --backend python --quiet".split()


@pytest.fixture(scope="module")
def results() -> Results:
    problem = bernoulli_problem([(0.4, 0.8, 0.6), (0.6, 0.6, 0.3)], 0.8)
    few = {"runs": 6, "backend": "python", "progress": False}
    return simulate(problem, [LyOff(), LyOn()], budgets=[20, 30], **few)


def interrupted(results: Results) -> Results:
    from dataclasses import replace

    return replace(results, complete=False)


# Where a file can be written.


@contextmanager
def other_things(folder: Path):
    """What is not a plain file, by kind."""
    (folder / "folder").mkdir()
    os.mkfifo(folder / "pipe")
    (folder / "link to a folder").symlink_to(folder / "folder")
    (folder / "endless").symlink_to(folder / "endless")
    (folder / "link to a device").symlink_to("/dev/null")
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(folder / "socket"))
        yield {
            "a folder": [folder / "folder", folder / "link to a folder", folder / "."],
            "a pipe": [folder / "pipe"],
            "a socket": [folder / "socket"],
            "a device": ["/dev/null", "/dev/full", folder / "link to a device"],
            "symbolic links": [folder / "endless"],
            "name": [folder / ("x" * 300), f"{folder}/new/", ""],
            "must be a folder": [folder / "absent" / "x"],
            "null": [f"{folder}/\0"],
        }


def test_what_is_no_file_is_refused_and_left_alone(results, tmp_path):
    before = os.stat("/dev/null")
    with other_things(tmp_path) as things:
        listed = sorted(os.listdir(tmp_path))
        for kind, paths in things.items():
            for path in paths:
                for write in (require_writable, results.save, lambda p: write_text(p, "x")):
                    with pytest.raises(InputError, match=r"^cannot write ") as caught:
                        write(path)
                    assert kind in str(caught.value)
                    assert "\n" not in str(caught.value)
        assert sorted(os.listdir(tmp_path)) == listed
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    assert os.stat("/dev/null").st_rdev == before.st_rdev


@pytest.mark.parametrize("path", ["/dev/null", "/dev/full", "/", "."])
def test_the_shell_refuses_before_the_work(shell, monkeypatch, path):
    monkeypatch.setattr("tightrope.engine.simulate", None)  # it is not reached
    status, out, err = shell(*SHELL, "--save", path)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert path in err


def test_a_folder_without_permission(tmp_path):
    folder = tmp_path / "locked"
    folder.mkdir(mode=0o500)
    if os.access(folder, os.W_OK):
        pytest.skip("this user may write everywhere, whatever the mode says")
    with pytest.raises(InputError, match="locked"):
        require_writable(folder / "x")


def test_what_may_not_be_changed_is_not_replaced(tmp_path):
    path = tmp_path / "kept"
    path.write_text("old")
    path.chmod(0o444)
    if os.access(path, os.W_OK):
        pytest.skip("this user may change every file, whatever the mode says")
    with pytest.raises(InputError, match="may not be changed"):
        write_text(path, "new")


@contextmanager
def umask(mask: int):
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


@pytest.mark.parametrize(("mask", "mode"), [(0o077, 0o600), (0o022, 0o644), (0o002, 0o664)])
def test_a_new_file_follows_the_umask(tmp_path, mask, mode):
    with umask(mask):
        write_text(tmp_path / "new", "x")
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == mode


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o666, 0o755])
def test_an_old_file_keeps_its_mode(tmp_path, mode):
    path = tmp_path / "old"
    path.write_text("old")
    path.chmod(mode)
    with umask(0o022):
        write_text(path, "new")
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("new", mode)


def test_a_link_is_followed_and_stays(results, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    target, link, dangling = (tmp_path / name for name in ("elsewhere/a.npz", "link", "dangling"))
    target.write_text("old")
    link.symlink_to("elsewhere/a.npz")
    dangling.symlink_to("elsewhere/b.npz")
    for path in (link, dangling):
        results.save(path)
        assert path.is_symlink()
        assert Results.load(path).labels == results.labels
    assert sorted(os.listdir(tmp_path / "elsewhere")) == ["a.npz", "b.npz"]


def test_a_long_name_and_odd_ones(tmp_path):
    for name in ("x" * 255, "é" * 127, "a\nb", "-rf", " "):
        write_text(tmp_path / name, "x")
        assert (tmp_path / name).read_text() == "x"
    assert len(os.listdir(tmp_path)) == 5


# What happens when it goes wrong.


def test_an_error_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")

    def half() -> None:
        with whole_file(path) as file:
            file.write(b"half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        half()
    assert (path.read_text(), os.listdir(tmp_path)) == ("old", ["file"])


KILLED = """
import os, signal, sys
from tightrope.files import whole_file
with whole_file(sys.argv[1]) as file:
    file.write(b"half of it")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("old", [None, "old"])
def test_a_kill_leaves_the_old_file_or_none(tmp_path, old):
    path = tmp_path / "file"
    if old:
        path.write_text(old)
    done = subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert (path.read_text() if path.exists() else None) == old


@pytest.fixture
def full(tmp_path):
    """A folder on a file system with room for 64 kilobytes."""
    folder = tmp_path / "small"
    folder.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    if subprocess.run(words, capture_output=True, check=False).returncode:
        pytest.skip("no file system can be mounted here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk(results, full):
    path = full / "runs.npz"
    results.save(path)
    before = path.read_bytes()
    (full / "filler").write_bytes(bytes(64 * 1024 - 4096 * (1 + -(-len(before) // 4096))))
    with pytest.raises(OutputError, match=r"cannot write .*No space left on device"):
        write_text(full / "text", "x" * 30_000)
    with pytest.raises(OutputError, match="No space left on device"):
        write_arrays(path, {}, {"a": np.random.default_rng(0).random(4000)})
    assert path.read_bytes() == before
    assert sorted(os.listdir(full)) == ["filler", "runs.npz"]


def test_a_full_disk_after_the_work(shell, full, monkeypatch, tmp_path):
    """The table is printed, the runs are where the message says, the status is 1."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    room, real = bytearray(64 * 1024), simulation.make

    def fill(*_, **__):
        made = real(*_, **__)
        with suppress(OSError), open(full / "filler", "wb", buffering=0) as file:
            file.write(room)
        return made

    monkeypatch.setattr(simulation, "make", fill)
    status, out, err = shell(*SHELL, "--save", str(full / "runs.npz"), "--json")
    assert (status, len(json.loads(out)), err.count("\n")) == (1, 1, 1)
    assert "No space left on device; the runs are in " in err
    place = err.strip().rpartition(" in ")[2]
    assert Results.load(place).runs == 3
    assert Path(place).name == "runs.npz"
    assert not (full / "runs.npz").exists()


def test_a_folder_that_goes_during_the_work(shell, monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = tmp_path / "gone"
    folder.mkdir()

    real = simulation.make

    def leave(*_, **__):
        made = real(*_, **__)
        shutil.rmtree(folder)
        return made

    monkeypatch.setattr(simulation, "make", leave)
    status, out, err = shell(*SHELL, "--save", str(folder / "runs.npz"))
    assert (status, err.count("\n")) == (1, 1)
    assert "lyoff" in out
    assert Results.load(err.strip().rpartition(" in ")[2]).runs == 3


def test_a_file_that_may_not_grow(results, tmp_path):
    """As with a quota: writing fails in the middle."""
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.raises(OutputError, match="File too large"):
            results.save(tmp_path / "runs.npz")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)
    assert os.listdir(tmp_path) == []


# Interrupted results.


def test_interrupted_results_do_not_replace_complete_ones(results, tmp_path):
    path = tmp_path / "runs.npz"
    results.save(path)
    with pytest.raises(ResultsError, match="holds complete results, and these were interrupted"):
        interrupted(results).save(path)
    assert Results.load(path).complete
    interrupted(results).save(path, overwrite=True)
    assert not Results.load(path).complete
    interrupted(results).save(path)
    results.save(path)
    assert Results.load(path).complete


def test_the_shell_saves_no_interrupted_runs_over_a_file(shell, monkeypatch, tmp_path, results):
    """They are in the store; where that cannot keep them, beside the file."""
    monkeypatch.setattr(simulation, "make", lambda *_, **__: [interrupted(results)])
    path = tmp_path / "runs.npz"
    path.write_text("mine")
    status, out, err = shell(*SHELL, "--save", str(path))
    assert (status, path.read_text()) == (130, "mine")
    assert "lyon" in out
    assert "run the same command again to continue" in err
    monkeypatch.setattr(Checkpoint, "keeps", False)
    status, out, err = shell(*SHELL, "--save", str(path))
    assert (status, path.read_text()) == (130, "mine")
    assert f"the finished runs are in {tmp_path / 'runs.interrupted.npz'}\n" in err
    assert not Results.load(tmp_path / "runs.interrupted.npz").complete


# What is read.


@pytest.fixture(scope="module")
def saved(results, tmp_path_factory) -> bytes:
    path = tmp_path_factory.mktemp("saved") / "runs.npz"
    results.save(path)
    return path.read_bytes()


def test_every_byte_counts(saved, tmp_path):
    """Whichever bit is flipped, it is noticed."""
    path = tmp_path / "runs.npz"
    for place in range(0, len(saved), 7):
        path.write_bytes(flipped(saved, place, place % 8))
        with pytest.raises(ResultsError, match=r"runs\.npz: "):
            Results.load(path)


def flipped(data: bytes, place: int, bit: int) -> bytes:
    return data[:place] + bytes([data[place] ^ (1 << bit)]) + data[place + 1 :]


def archive_of(**members: bytes) -> bytes:
    """A zip of raw members."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(f"{name}.npy", data)
    return file.getvalue()


def array_bytes(descr: str, shape: str, data: bytes = b"") -> bytes:
    text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}".encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + data


def text_bytes(text: str) -> bytes:
    return array_bytes(f"'<U{len(text)}'", "()", text.encode("utf-32-le"))


def bad_files(saved: bytes) -> dict[str, bytes]:
    head = text_bytes('{"format": 1}')
    with zipfile.ZipFile(io.BytesIO(saved)) as archive:
        parts = {name.removesuffix(".npy"): archive.read(name) for name in archive.namelist()}
    twice = io.BytesIO()
    with zipfile.ZipFile(twice, "w") as archive:
        archive.writestr("header.npy", head)
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("header.npy", head)
    return {
        "empty": b"",
        "text": b"not a zip",
        "png": b"\x89PNG\r\n\x1a\n" + bytes(100),
        "pickle": pickle.dumps({"format": 1}),
        "npy": array_bytes("'<f8'", "(1,)", bytes(8)),
        "no header": archive_of(a=head),
        "same name twice": twice.getvalue(),
        "header of numbers": archive_of(header=array_bytes("'<f8'", "()", bytes(8))),
        "header of no object": archive_of(header=text_bytes("[1]")),
        "deep header": archive_of(header=text_bytes("[" * 100_000)),
        "object": archive_of(header=head, a=array_bytes("'|O'", "(1,)", pickle.dumps([1]))),
        "record": archive_of(header=head, a=array_bytes("[('a', '<f8')]", "(1,)", bytes(8))),
        "many runs": archive_of(header=head, a=array_bytes("'<f8'", "(1000000000000,)", bytes(8))),
        "endless": archive_of(header=head, a=array_bytes("'<f8'", f"({'9' * 500},)", bytes(8))),
        "code": archive_of(header=head, a=array_bytes("'<f8'", "(__import__('os'),)", bytes(8))),
        "bomb": bomb(head),
        "without its checksum": archive_of(**parts),
        "another format": archive_of(header=text_bytes('{"format": 99}')),
        "half": saved[: len(saved) // 2],
        "longer": saved + b"x",
        "twice": saved + saved,
    }


def bomb(head: bytes) -> bytes:
    """An array that says it is 10^12 runs, in a zip that says so too."""
    made = bytearray(archive_of(header=head, a=array_bytes("'<f8'", "(125000000000,)", bytes(99))))
    start = made.rindex(b"PK\x01\x02")
    made[start + 24 : start + 28] = (0xFFFFFFF0).to_bytes(4, "little")  # the size once unpacked
    return bytes(made)


def test_no_results_file(saved, tmp_path):
    path = tmp_path / "bad.npz"
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for kind, data in bad_files(saved).items():
        path.write_bytes(data)
        for read in (Results.load, read_arrays, read_header):
            if kind in ("another format",) and read is not Results.load:
                continue
            if read is read_header and kind in ("object", "record", "many runs", "endless", "code"):
                continue
            with pytest.raises(ResultsError, match=r"bad\.npz: ") as caught:
                read(path)
            assert "\n" not in str(caught.value), kind
            assert len(str(caught.value)) < 500
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 200_000  # kilobytes


def test_other_things_are_not_read(tmp_path):
    with other_things(tmp_path) as things:
        for paths in things.values():
            for path in paths:
                with pytest.raises(ResultsError) as caught:
                    Results.load(path)
                assert "\n" not in str(caught.value)


def resaved(saved: bytes, path: Path, **changed: object) -> None:
    """A file as numpy alone would write it, without a checksum, with another header."""
    with np.load(io.BytesIO(saved)) as file:
        arrays = dict(file)
    header = json.loads(str(arrays.pop("header"))) | {"sealed": False}
    for key, value in changed.items():
        if key in arrays:
            arrays[key] = value
        else:
            header[key] = value
    np.savez(path, header=np.array(json.dumps(header)), **arrays)


def test_a_file_from_before_checksums(results, saved, tmp_path):
    resaved(saved, tmp_path / "old.npz")
    again = Results.load(tmp_path / "old.npz")
    assert again.summary() == results.summary()
    again["lyon"].runs.reward[0, 0] = 1.0  # arrays as any other


@pytest.mark.parametrize(
    "changed",
    [
        {"seed": "x"},
        {"seed": True},
        {"version": 3},
        {"complete": 1},
        {"budgets": [20]},
        {"budgets": [20, "x"]},
        {"budgets": [20, float("nan")]},
        {"budgets": 7},
        {"records": []},
        {"records": None},
        {"records": [{"label": 1}]},
        {"problem": "limit = 0"},
        {"problem": 1},
        {"run_numbers": np.arange(7)},
        {"run_numbers": np.arange(6.0)},
        {"run_numbers": np.zeros((6, 1), int)},
        {"0.reward": np.zeros((2, 6), np.float32)},
        {"0.reward": np.zeros((6, 2))},
        {"1.pulls": np.zeros((2, 6, 3), int)},
    ],
    ids=str,
)
def test_what_does_not_fit_together(saved, tmp_path, changed):
    resaved(saved, tmp_path / "odd.npz", **changed)
    with pytest.raises(ResultsError, match=r"odd\.npz: ") as caught:
        Results.load(tmp_path / "odd.npz")
    assert "\n" not in str(caught.value)


def test_archives(tmp_path):
    path = tmp_path / "a.npz"
    arrays = {
        "numbers": np.arange(6.0).reshape(2, 3),
        "by columns": np.asfortranarray(np.arange(6).reshape(2, 3)),
        "none": np.zeros((0, 4)),
        "one": np.float32(3.5),
        "flags": np.array([True, False]),
        "words": np.array(["a", "äö"]),
    }
    for compress in (True, False):
        write_arrays(path, {"what": [1, "x"]}, arrays, compress=compress)
        header, back = read_arrays(path)
        assert header["what"] == [1, "x"]
        assert list(back) == list(arrays)
        for name, array in arrays.items():
            assert back[name].dtype == np.asarray(array).dtype
            assert np.array_equal(back[name], array)
    seen = []
    read_arrays(path, lambda header, said: seen.append((header, dict(said))))
    assert seen[0][1]["numbers"] == (np.dtype(float), (2, 3))
    with np.load(path) as file:  # any numpy reads it
        assert np.array_equal(file["numbers"], arrays["numbers"])


# A thousand mutations.


def refused(read, error=ResultsError) -> bool:
    """Whether an error of one line came of reading; any other error is a failure."""
    try:
        read()
    except error as caught:
        return one_line(str(caught))
    return False


def one_line(text: str) -> bool:
    assert "\n" not in text
    return True


def mutated(data: bytes, random: np.random.Generator) -> bytes:
    """Some bits flipped, some bytes cut, put in or repeated."""
    kind = random.integers(5)
    at = int(random.integers(len(data)))
    length = int(random.integers(1, 64))
    if kind == 0:
        for place in random.integers(len(data), size=random.integers(1, 9)):
            data = flipped(data, int(place), int(random.integers(8)))
        return data
    if kind == 1:
        return data[:at]
    if kind == 2:
        return data[:at] + random.bytes(length) + data[at:]
    if kind == 3:
        return data[: at + length] + data[at:]
    return data[:at] + random.bytes(length) + data[at + length :]


@pytest.mark.parametrize("sealed", [True, False], ids=["with", "without a checksum"])
def test_a_thousand_mutations_of_a_results_file(results, saved, tmp_path, sealed):
    path = tmp_path / "runs.npz"
    if not sealed:
        resaved(saved, path)
        saved = path.read_bytes()
    random, read = np.random.default_rng(7), 0
    for _ in range(500):
        changed = mutated(saved, random)
        path.write_bytes(changed)
        if not refused(lambda: Results.load(path)):
            read += changed != saved
            assert Results.load(path).summary() == results.summary()  # of no account
    assert read < (1 if sealed else 100)


def test_five_hundred_mutations_of_a_header(saved, tmp_path):
    """Of an archive whose checksums are right."""
    path = tmp_path / "runs.npz"
    with np.load(io.BytesIO(saved)) as file:
        arrays = dict(file)
    text = str(arrays.pop("header")).replace('"sealed": true', '"sealed": false')
    random, count = np.random.default_rng(8), 0
    for _ in range(500):
        changed = mutated(text.encode(), random).decode("utf-8", "replace")
        np.savez(path, header=np.array(changed), **arrays)
        count += refused(lambda: Results.load(path))
    assert count > 300


def test_a_thousand_mutations_of_a_snapshot(paper_controller):
    saved, random = paper_controller.snapshot(), np.random.default_rng(9)
    for _ in range(1000):
        changed = mutated(saved, random)
        if changed != saved:
            assert refused(lambda changed=changed: Controller.restore(changed), InputError)


def test_a_thousand_mutations_under_the_right_checksum(paper_controller):
    """As a program with a mistake would write them: understood or refused, never run here."""
    content = paper_controller.snapshot().split(b"\n", 2)[2]
    head, random, count = content.index(b"\n"), np.random.default_rng(10), 0
    for i in range(1000):
        line = mutated(content[:head], random) if i % 2 else content[:head]
        block = content[head + 1 :] if i % 2 else mutated(content[head + 1 :], random)
        made = snapshots.sealed(line + b"\n" + block)
        count += refused(lambda made=made: snapshots.unpack(made, None), InputError)
    assert count > 300


@pytest.fixture(scope="module")
def paper_controller() -> Controller:
    problem = bernoulli_problem([(0.4, 0.8, 0.6), (0.6, 0.6, 0.3)], 0.8)
    controller = Controller(problem, LyOn(), 100.0)
    for _ in range(30):
        controller.tell(controller.ask(), 1, 1, 0)
    return controller


# Merging.


def test_only_the_same_work_is_merged(results):
    from dataclasses import replace

    def other(**changed):
        return replace(results, run_numbers=np.arange(6, 12), **changed)

    def with_record(**changed):
        return other(records=tuple(replace(one, **changed) for one in results.records))

    assert results.merge(other()).runs == 12
    unknown = replace(results, records=tuple(replace(r, policy="") for r in results.records))
    assert unknown.merge(with_record(policy="LyOn()")).runs == 12
    refused = {
        "version": other(version="0.0.1"),
        "problem": other(problem=bernoulli_problem([(0.4, 0.8, 0.6), (0.6, 0.6, 0.2)], 0.8)),
        "lyoff": with_record(knows="slack"),
    }
    for words, one in refused.items():
        with pytest.raises(ResultsError, match=f"^cannot merge: .*{words}") as caught:
            results.merge(one)
        assert "\n" not in str(caught.value)
    mine, yours = with_record(policy="LyOn(v0=1)"), with_record(policy="LyOn(v0=2)")
    with pytest.raises(ResultsError, match="is another policy there"):
        mine.merge(replace(yours, run_numbers=np.arange(6)))


def test_the_whole_shell_is_quiet_about_files(tmp_path, capsys):
    assert main([*SHELL, "--save", str(tmp_path / "a.npz")]) == 0
    assert capsys.readouterr().err == ""
    assert os.listdir(tmp_path) == ["a.npz"]
