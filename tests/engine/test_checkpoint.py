"""The store: what a kill leaves, and that going on from it gives the bits of one long run."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from tests.problems import equal
from tightrope import LyOff, LyOn, Policy, Results, compatibility, simulate
from tightrope.engine import checkpoint, cpu, python
from tightrope.engine.checkpoint import Checkpoint
from tightrope.errors import InputError, PolicyError, ResultsError, StoreWarning
from tightrope.policies.base import Setup, limits_of

BUDGETS = [60, 90.5]
RUNS = 1000


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Chunks of 128 runs, and a part for each of them."""
    monkeypatch.setattr(cpu, "STEPS_PER_CHUNK", 1)
    monkeypatch.setattr(checkpoint, "FLUSH_SECONDS", 0.0)
    monkeypatch.setattr(checkpoint, "FLUSH_SHARE", 0.0)


@pytest.fixture
def made(monkeypatch):
    """The chunks that were run, as (budget, first run)."""
    listed: list[tuple[float, int]] = []
    for plan in (cpu.LanesPlan, python.PlainPlan):
        run = plan.run

        def counting(self, runs, stop, run=run):
            listed.append((self.job.budget, int(runs[0])))
            return run(self, runs, stop)

        monkeypatch.setattr(plan, "run", counting)
    return listed


def go(problem, folder, **options):
    settings = {"budgets": BUDGETS, "runs": RUNS, "seed": 3, "threads": 1, "checkpoint": folder}
    policies = options.pop("policies", [LyOn(), LyOff()])
    return simulate(problem, policies, **settings | {"progress": False} | options)


def stop_at(fraction: float):
    def tell(done: float) -> None:
        if done > fraction:
            raise KeyboardInterrupt

    return tell


@pytest.fixture
def whole(paper):
    return go(paper, None)


@pytest.fixture
def stopped(paper, tmp_path):
    """A folder with about half of the chunks."""
    folder = tmp_path / "parts"
    assert not go(paper, folder, progress=stop_at(0.5)).complete
    return folder


def test_control_c_then_resume(paper, whole, stopped, made, capsys):
    before = {path.name for path in stopped.iterdir()}
    told: list[float] = []
    rest = go(paper, stopped, progress=told.append)
    assert equal(rest, whole)
    assert rest.complete
    assert told == sorted(told)
    assert told[0] >= 0.5
    assert told[-1] == pytest.approx(1)
    assert 0 < len(made) <= 16  # of 32
    assert before < {path.name for path in stopped.iterdir()}
    assert capsys.readouterr().err.startswith("continuing from 5")


def test_a_finished_checkpoint_returns_at_once(paper, whole, tmp_path, made):
    first = go(paper, tmp_path)
    assert len(made) == 32
    again = go(paper, tmp_path)
    assert len(made) == 32
    assert equal(first, again)
    assert equal(first, whole)
    assert again["lyon"].seconds == pytest.approx(first["lyon"].seconds, rel=0.5)


def test_seconds_add_up(paper, tmp_path, monkeypatch):
    clock = iter(range(10**6))
    monkeypatch.setattr(time, "perf_counter", lambda: float(next(clock)))
    first = go(paper, tmp_path, progress=stop_at(0.5))
    rest = go(paper, tmp_path)
    spent = [sum(sum(record.seconds) for record in part.records) for part in (first, rest)]
    assert spent[1] > 1.5 * spent[0]
    assert sum(spent) > 0


def test_fresh_starts_again(paper, whole, stopped, made):
    assert equal(go(paper, stopped, fresh=True), whole)
    assert len(made) == 32


def test_a_second_process_hears_who_has_the_folder(paper, stopped):
    words = f"in use by process {os.getpid()}"
    with Checkpoint(stopped), pytest.raises(InputError, match=words):
        go(paper, stopped)
    assert go(paper, stopped).complete


@dataclasses.dataclass(frozen=True)
class Mine(Policy):
    name = "mine"
    summary = "for tests"

    def setup(self, task, budget):
        return Setup((), limits_of(task))

    def decide(self, setup, step, statistics, queues, uniform):
        return step % 2


class Yours(Mine):
    def decide(self, setup, step, statistics, queues, uniform):
        return 0


Yours.__qualname__ = "Mine"


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 4},
        {"precision": "double"},
        {"policies": {"lyon": LyOn(v0=2), "lyoff": LyOff(v0=2)}},
        {"budgets": [61, 91]},
    ],
)
def test_other_work_in_the_folder_is_not_mixed_up(paper, stopped, change, made):
    made.clear()
    found = go(paper, stopped, **change)
    assert len(made) == 32
    assert equal(found, go(paper, None, **change))


def test_work_that_shares_jobs_shares_their_runs(paper, tmp_path, made):
    go(paper, tmp_path)
    made.clear()
    more = go(paper, tmp_path, runs=RUNS + 24, policies=[LyOn()], budgets=[60])
    assert made == [(60.0, 896)]  # the chunk that has grown
    assert equal(more, go(paper, None, runs=RUNS + 24, policies=[LyOn()], budgets=[60]))


def test_other_problems_versions_and_code_are_other_work(paper, mixed, tmp_path, made, monkeypatch):
    small = {"budgets": 5, "runs": 3}
    go(paper, tmp_path, policies={"p": Mine()}, **small)
    go(mixed, tmp_path, policies={"p": Mine()}, **small)
    go(paper, tmp_path, policies={"p": Yours()}, **small)
    assert len(made) == 9
    monkeypatch.setattr(compatibility, "DECISIONS", compatibility.DECISIONS + 1)
    go(paper, tmp_path, policies={"p": Mine()}, **small)
    assert len(made) == 12


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "text"])
def test_a_damaged_part_is_made_again(paper, whole, stopped, made, damage):
    parts = sorted(stopped.glob("part-*.npz"))
    assert len(parts) > 5
    data = parts[2].read_bytes()
    middle = len(data) // 2
    changed = {
        "cut": data[:middle],
        "flipped": data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :],
        "empty": b"",
        "text": b"not a part",
    }[damage]
    parts[2].write_bytes(changed)
    with pytest.warns(StoreWarning, match=r"part-.*; its runs will be made again"):
        assert equal(go(paper, stopped), whole)
    assert len(made) == 32 - (len(parts) - 1)
    assert not parts[2].exists()


def test_any_flipped_bit_is_noticed(paper, whole, stopped):
    """Everywhere in a part; a part is a zip file, which would let many of them pass."""
    path = min(stopped.glob("part-*.npz"))
    data, random = path.read_bytes(), np.random.default_rng(1)
    for at in random.integers(0, len(data), 200):
        path.write_bytes(data[:at] + bytes([data[at] ^ (1 << (at % 8))]) + data[at + 1 :])
        with pytest.raises((ResultsError, ValueError), match=r"checksum|damaged|read"):
            checkpoint._read(path)
    path.write_bytes(data)
    assert equal(go(paper, stopped), whole)


def test_a_disk_that_is_full_ends_nothing(paper, whole, tmp_path, monkeypatch):
    def full(*arguments, **options):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "write_arrays", full)
        with pytest.warns(StoreWarning, match=r"runs cannot be kept in .*No space left") as w:
            assert equal(go(paper, tmp_path / "a"), whole)
    assert len(w) == 1
    assert not list(tmp_path.glob("a/part-*"))


def test_a_folder_deleted_meanwhile_is_made_again(paper, whole, tmp_path):
    folder = tmp_path / "a"

    def delete(done: float) -> None:
        if 0.4 < done < 0.5:
            shutil.rmtree(folder, ignore_errors=True)

    assert equal(go(paper, folder, progress=delete), whole)
    assert list(folder.glob("part-*"))


def test_one_without_parts_is_none(paper, tmp_path):
    """As after a mistake in the first second: the corrected call needs no other folder."""

    class Wrong(Mine):
        def decide(self, setup, step, statistics, queues, uniform):
            raise ZeroDivisionError

    with pytest.raises(PolicyError, match="ZeroDivisionError at step 0 in decide"):
        go(paper, tmp_path, policies={"p": Wrong()}, budgets=5, runs=3)
    assert go(paper, tmp_path, policies={"p": Mine()}, budgets=5, runs=3).complete


def test_a_folder_that_cannot_be(paper, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"cannot make the folder .*file"):
        go(paper, tmp_path / "file")
    with pytest.raises(InputError, match="checkpoint = 3: must be the path of a folder"):
        go(paper, 3)


def test_parts_are_few(paper, tmp_path, monkeypatch):
    """A part every two seconds, not one per chunk; later ones hold a hundredth of the work."""
    monkeypatch.setattr(checkpoint, "FLUSH_SECONDS", 2.0)
    monkeypatch.setattr(checkpoint, "FLUSH_SHARE", 0.01)
    go(paper, tmp_path / "a")
    assert len(list((tmp_path / "a").glob("part-*.npz"))) == 1
    runs, now = go(paper, None, runs=1, budgets=5)["lyon"].runs[0], 0.0
    monkeypatch.setattr(checkpoint.time, "perf_counter", lambda: now)
    with Checkpoint(tmp_path / "b") as kept:
        for number in range(7200):  # ten hours
            now += 5.0
            kept.add(("job", number, 1), runs, 1.0)
    files = list((tmp_path / "b").glob("part-*.npz"))
    assert 100 < len(files) < 700


def test_every_backend(paper, tmp_path, made):
    policies = {"mine": Mine(), "lyon": LyOn()}
    options = {"policies": policies, "budgets": 5, "runs": 150, "backend": "auto"}
    part = go(paper, tmp_path, **options, progress=stop_at(0.4))
    assert not part.complete
    assert 0 < part.runs < 150  # the first of each policy come first
    done = len(made)
    rest = go(paper, tmp_path, **options)
    assert equal(rest, go(paper, None, **options))
    assert done > 10
    assert len(made) - done < 2 * 152


def test_removing_it_leaves_what_is_not_its_own(paper, stopped):
    (stopped / f".{next(stopped.glob('part-*.npz')).name}.abc").write_text("left by a kill")
    (stopped / "mine.txt").write_text("")
    with Checkpoint(stopped) as kept:
        kept.remove()
    assert "mine.txt" in os.listdir(stopped)
    assert not list(stopped.glob("*part*"))


class TestShell:
    WORDS = "simulate paper --policy lyon --policy lyoff --budget 50 --runs 700 --seed 1 --quiet"

    def test_the_default_folder_goes_when_the_file_is_there(self, shell, tmp_path):
        for name, extra in (("a", ""), ("b", "--fresh")):
            words = f"{self.WORDS} --json --save {tmp_path / name} {extra}"
            assert shell(*words.split())[0] == 0
        assert sorted(os.listdir(tmp_path)) == ["a", "b"]
        assert equal(Results.load(tmp_path / "a"), Results.load(tmp_path / "b"))

    def test_a_named_folder_stays(self, shell, tmp_path, made):
        words = f"{self.WORDS} --json --checkpoint {tmp_path / 'kept'}".split()
        status, first, _ = shell(*words)
        assert status == 0
        number = len(made)
        again = json.loads(shell(*words, "--save", str(tmp_path / "file"))[1])
        assert len(made) == number
        for a, b in zip(json.loads(first), again, strict=True):
            assert {**a, "seconds": 0, "compile_seconds": 0} == {
                **b,
                "seconds": 0,
                "compile_seconds": 0,
            }
        assert sorted(os.listdir(tmp_path)) == ["file", "kept"]

    def test_fresh_needs_a_place(self, shell):
        status, _, err = shell(*f"{self.WORDS} --fresh".split())
        assert status == 2
        assert "--save FILE or --checkpoint FOLDER" in err

    def test_several_problems(self, shell):
        words = "simulate paper paper-tradeoff --policy lyon --budget 50 --runs 20 --json --quiet"
        status, out, _ = shell(*words.split())
        assert status == 0
        assert [row["problem"] for row in json.loads(out)] == ["paper", "paper-tradeoff"]
        assert shell(*words.split(), "--save", "x")[0] == 2


PROGRAM = """
import sys
from tightrope import cli
from tightrope.engine import cpu, checkpoint
checkpoint.FLUSH_SECONDS = 0.02
run = cpu.LanesPlan.run
def counting(self, runs, stop):
    sys.stderr.write(f"run {self.job.budget} {runs[0]} {len(runs)}\\n")
    return run(self, runs, stop)
cpu.LanesPlan.run = counting
sys.exit(cli.main(sys.argv[1:]))
"""


@pytest.mark.skipif(os.name != "posix", reason="sends signals")
class TestKilled:
    """For real: another process, killed in the middle."""

    WORDS = "simulate paper --policy lyon --policy lyoff --budget 1000 --budget 2000 --runs 20000"

    def start(self, path, *words):
        return subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *self.WORDS.split(), "--save", str(path), *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def stop(self, path, number):
        """Start, wait for some parts, send a signal; what it said."""
        process, folder = self.start(path), path.parent / f"{path.name}.parts"
        while not (folder.is_dir() and sum(1 for _ in folder.glob("part-*.npz")) >= 3):
            assert process.poll() is None, process.communicate()
            time.sleep(0.001)
        process.send_signal(number)
        said = process.communicate(timeout=60)[1]
        return process.returncode, said, folder

    def kept(self, folder):
        """The chunks on the disk."""
        for path in folder.glob("part-*.npz"):
            with np.load(path) as file:
                for *place, _ in json.loads(str(file["header"]))["chunks"]:
                    yield tuple(place)

    def finish(self, path, *words):
        process = self.start(path, *words)
        _, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
        return [line for line in err.splitlines() if line.startswith("run ")], err

    def test_killed_again_and_again(self, tmp_path):
        path = tmp_path / "a.npz"
        for _ in range(2):
            status, _, folder = self.stop(path, signal.SIGKILL)
            assert status == -signal.SIGKILL
            assert not path.exists()
        kept = set(self.kept(folder))
        rest, err = self.finish(path)
        everything, _ = self.finish(tmp_path / "b.npz")
        assert "continuing from " in err
        assert len(kept) >= 3
        assert len(rest) == len(everything) - len(kept)
        assert equal(Results.load(path), Results.load(tmp_path / "b.npz"))
        assert sorted(os.listdir(tmp_path)) == ["a.npz", "b.npz"]

    @pytest.mark.parametrize(("number", "wanted"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
    def test_control_c_and_sigterm_keep_what_is_finished(self, tmp_path, number, wanted):
        status, said, folder = self.stop(tmp_path / "a.npz", number)
        assert status == wanted
        last = said.splitlines()[-1]
        assert "interrupted: " in last
        assert last.endswith("run the same command again to continue")
        assert str(folder) in last
        assert list(folder.glob("part-*.npz"))
        assert not (tmp_path / "a.npz").exists()
