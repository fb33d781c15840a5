"""Checkpoints: what a kill leaves, and that going on from it gives the bits of one long run."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from tests.problems import equal
from tightrope import InputError, LyOff, LyOn, Policy, Results, simulate
from tightrope.engine import checkpoint, cpu, python
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
    rest = go(paper, stopped, resume=True, progress=told.append)
    assert equal(rest, whole)
    assert rest.complete
    assert told == sorted(told)
    assert told[0] >= 0.5
    assert told[-1] == pytest.approx(1)
    assert 0 < len(made) <= 16  # of 32
    assert before < {path.name for path in stopped.iterdir()}
    assert capsys.readouterr().err.startswith("going on from 5")


def test_a_finished_checkpoint_returns_at_once(paper, whole, tmp_path, made):
    first = go(paper, tmp_path)
    assert len(made) == 32
    again = go(paper, tmp_path, resume=True)
    assert len(made) == 32
    assert equal(first, again)
    assert equal(first, whole)
    assert again["lyon"].seconds == pytest.approx(first["lyon"].seconds, rel=0.5)


def test_seconds_add_up(paper, tmp_path, monkeypatch):
    clock = iter(range(10**6))
    monkeypatch.setattr(time, "perf_counter", lambda: float(next(clock)))
    first = go(paper, tmp_path, progress=stop_at(0.5))
    rest = go(paper, tmp_path, resume=True)
    spent = [sum(sum(record.seconds) for record in part.records) for part in (first, rest)]
    assert spent[1] > 1.5 * spent[0]
    assert sum(spent) > 0


def test_without_resume_nothing_is_touched(paper, stopped):
    before = {path: path.read_bytes() for path in stopped.iterdir()}
    with pytest.raises(InputError, match=r"parts holds a checkpoint of this work; .*--resume"):
        go(paper, stopped)
    assert before == {path: path.read_bytes() for path in stopped.iterdir()}


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
    ("change", "words"),
    [
        ({"seed": 4}, "its seed is 3, not 4"),
        ({"runs": 999}, "its runs are [0, 999, 1000], not [0, 998, 999]"),
        ({"budgets": [60]}, "its budgets are [60.0, 90.5], not [60.0]"),
        ({"precision": "double"}, "its precision is 'auto', not 'double'"),
        ({"policies": [LyOn()]}, "its policies are ['lyon', 'lyoff'], not ['lyon']"),
        ({"policies": {"lyon": LyOn(v0=2), "lyoff": LyOff()}}, "'lyon' has other parameters"),
        ({"backend": "python"}, "its backend of 'lyon' is 'cpu', not 'python'"),
    ],
)
@pytest.mark.parametrize("resume", [True, False])
def test_other_work_is_refused_in_one_line(paper, stopped, change, words, resume):
    with pytest.raises(InputError) as caught:
        go(paper, stopped, resume=resume, **change)
    assert f"{stopped} holds a checkpoint of other work: " in str(caught.value)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_another_problem_version_and_code_are_refused(paper, mixed, stopped, tmp_path):
    with pytest.raises(InputError, match="its problem is not this one"):
        go(mixed, stopped, resume=True)
    header = stopped / checkpoint.HEADER
    facts = json.loads(header.read_text())
    facts["work"]["version"] = "0.0.9"
    header.write_text(json.dumps(facts))
    with pytest.raises(InputError, match=r"its version is '0\.0\.9', not "):
        go(paper, stopped, resume=True)
    small = {"budgets": 5, "runs": 3}
    go(paper, tmp_path / "mine", policies={"p": Mine()}, **small)
    with pytest.raises(InputError, match="policy 'p' has other parameters or other code"):
        go(paper, tmp_path / "mine", policies={"p": Yours()}, resume=True, **small)


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "other work", "text"])
def test_a_damaged_part_is_made_again(paper, whole, stopped, made, damage):
    parts = sorted(stopped.glob(checkpoint.PARTS))
    assert len(parts) > 5
    data = parts[2].read_bytes()
    middle = len(data) // 2
    changed = {
        "cut": data[:middle],
        "flipped": data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :],
        "empty": b"",
        "other work": data,
        "text": b"not a part",
    }[damage]
    parts[2].write_bytes(changed)
    if damage == "other work":
        with np.load(parts[2]) as file:
            arrays = dict(file)
        arrays["header"] = np.array(str(arrays["header"]).replace('"work": "', '"work": "x'))
        with parts[2].open("wb") as file:
            np.savez(file, **arrays)
    assert equal(go(paper, stopped, resume=True), whole)
    assert len(made) == 32 - (len(parts) - 1)


def test_a_damaged_header_is_one_line(paper, stopped):
    (stopped / checkpoint.HEADER).write_text("{")
    with pytest.raises(InputError, match=r"checkpoint\.json cannot be read .*remove the folder"):
        go(paper, stopped, resume=True)


def test_one_without_parts_is_none(paper, tmp_path):
    """As after a mistake in the first second: the corrected call needs no other folder."""

    class Wrong(Mine):
        def decide(self, setup, step, statistics, queues, uniform):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        go(paper, tmp_path, policies={"p": Wrong()}, budgets=5, runs=3)
    assert go(paper, tmp_path, policies={"p": Mine()}, budgets=5, runs=3).complete


def test_a_folder_that_cannot_be(paper, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"cannot make the folder .*file"):
        go(paper, tmp_path / "file")
    with pytest.raises(InputError, match="resume = True: there must be a checkpoint"):
        go(paper, None, resume=True)


def test_parts_are_few(paper, tmp_path, monkeypatch):
    """A part every couple of seconds, not one a chunk; later ones hold a hundredth of the work."""
    monkeypatch.setattr(checkpoint, "FLUSH_SECONDS", 2.0)
    monkeypatch.setattr(checkpoint, "FLUSH_SHARE", 0.01)
    go(paper, tmp_path / "a")
    assert len(list((tmp_path / "a").glob(checkpoint.PARTS))) == 1
    runs, now = go(paper, None, runs=1, budgets=5)["lyon"].runs[0], 0.0
    monkeypatch.setattr(checkpoint.time, "perf_counter", lambda: now)
    kept = checkpoint.Checkpoint.open(tmp_path / "b", {"seed": 1}, resume=False)
    for number in range(7200):  # ten hours
        now += 5.0
        kept.add((0, number, 1), runs, 1.0)
    kept.flush()
    files = list((tmp_path / "b").glob(checkpoint.PARTS))
    assert 100 < len(files) < 700


def test_every_backend(paper, tmp_path, made):
    policies = {"mine": Mine(), "lyon": LyOn()}
    options = {"policies": policies, "budgets": 5, "runs": 150, "backend": "auto"}
    with pytest.raises(KeyboardInterrupt):  # no run of both policies yet, but some chunks
        go(paper, tmp_path, **options, progress=stop_at(0.4))
    done = len(made)
    rest = go(paper, tmp_path, **options, resume=True)
    assert equal(rest, go(paper, None, **options))
    assert done > 10
    assert len(made) - done < 2 * 152


def test_removing_it_leaves_what_is_not_its_own(paper, stopped):
    (stopped / f".{next(stopped.glob(checkpoint.PARTS)).name}.abc").write_text("left by a kill")
    (stopped / "mine.txt").write_text("")
    checkpoint.remove_checkpoint(stopped)
    assert os.listdir(stopped) == ["mine.txt"]


class TestShell:
    WORDS = "simulate paper --policy lyon --policy lyoff --budget 50 --runs 700 --seed 1 --quiet"

    def test_the_default_folder_goes_when_the_file_is_there(self, shell, tmp_path):
        for name, extra in (("a", ""), ("b", "--resume")):
            words = f"{self.WORDS} --json --save {tmp_path / name} {extra}"
            assert shell(*words.split())[0] == 0
        assert sorted(os.listdir(tmp_path)) == ["a", "b"]
        assert equal(Results.load(tmp_path / "a"), Results.load(tmp_path / "b"))

    def test_a_named_folder_stays(self, shell, tmp_path, made):
        words = f"{self.WORDS} --json --checkpoint {tmp_path / 'kept'}".split()
        status, first, _ = shell(*words)
        assert status == 0
        number = len(made)
        status, out, err = shell(*words)
        assert (status, out) == (2, "")
        assert "--resume" in err
        assert err.count("\n") == 1
        again = json.loads(shell(*words, "--resume", "--save", str(tmp_path / "file"))[1])
        assert len(made) == number
        for a, b in zip(json.loads(first), again, strict=True):
            assert {**a, "seconds": 0, "compile_seconds": 0} == {
                **b,
                "seconds": 0,
                "compile_seconds": 0,
            }
        assert sorted(os.listdir(tmp_path)) == ["file", "kept"]

    def test_a_checkpoint_beside_the_file_is_not_passed_over(self, shell, paper, tmp_path):
        go(paper, tmp_path / "x.npz.parts")
        status, _, err = shell(*f"{self.WORDS} --save {tmp_path / 'x.npz'}".split())
        assert status == 2
        assert "--resume goes on from it" in err

    def test_resume_needs_a_place(self, shell):
        status, _, err = shell(*f"{self.WORDS} --resume".split())
        assert status == 2
        assert "--save FILE or --checkpoint FOLDER" in err


PROGRAM = """
import sys
from tightrope import cli
from tightrope.engine import checkpoint, cpu
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
        process, folder = self.start(path, "--resume"), path.parent / f"{path.name}.parts"
        while not (folder.is_dir() and sum(1 for _ in folder.glob(checkpoint.PARTS)) >= 3):
            assert process.poll() is None, process.communicate()
            time.sleep(0.001)
        process.send_signal(number)
        said = process.communicate(timeout=60)[1]
        return process.returncode, said, folder

    def kept(self, folder):
        """The chunks on the disk."""
        for path in folder.glob(checkpoint.PARTS):
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
        rest, err = self.finish(path, "--resume")
        everything, _ = self.finish(tmp_path / "b.npz")
        assert "going on from " in err
        assert len(kept) >= 3
        assert len(rest) == len(everything) - len(kept)
        assert equal(Results.load(path), Results.load(tmp_path / "b.npz"))
        assert sorted(os.listdir(tmp_path)) == ["a.npz", "b.npz"]

    def test_control_c_says_how_to_go_on(self, tmp_path):
        status, said, folder = self.stop(tmp_path / "a.npz", signal.SIGINT)
        assert status == 1
        last = said.splitlines()[-1]
        assert last.startswith("interrupted: ")
        assert last.endswith(f"kept in {folder}, --resume goes on from there")
        assert checkpoint.holds_checkpoint(folder)
