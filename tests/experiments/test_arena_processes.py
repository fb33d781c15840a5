"""The arena in several processes: the same numbers; how it ends, is stopped, and goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tightrope import BackendError, InputError, LyOn, arena, cli
from tightrope.engine import gpu, store
from tightrope.engine.simulation import Interrupted, Request, Settings
from tightrope.experiments import arena_processes
from tightrope.experiments.arena import (
    BUDGETS,
    PROBLEMS,
    default_policies,
    forgetful_policies,
    matches_of,
    policies_of,
    scenes_of,
)
from tightrope.experiments.arena_processes import Pieces, worthwhile_processes

SMALL = {
    "problems": ["paper", "arena-two-limits", "arena-abrupt", "wireless"],
    "policies": ["lyon", "lyon:delta0=15", "resolve", "stationary", "uniform-random"],
    "budgets": [50, 200],
}
FILES = ["arena.csv", "arena.html", "arena.png", "arena.svg"]


def timeless(found):
    return [{k: v for k, v in row.items() if k != "decision_ns"} for row in found.summary()]


@pytest.fixture(scope="module")
def alone():
    return arena(**SMALL, runs=9, progress=False, processes=1)


def requests_of(problems, policies, budgets, runs):
    forgetful = forgetful_policies()
    matches, _ = matches_of(scenes_of(problems), policies_of(policies), budgets, forgetful)
    return [match.request(runs) for match in matches]


@pytest.mark.parametrize("processes", [2, 3])
@pytest.mark.parametrize("seconds", [1.0, 1e-6])
def test_the_numbers_do_not_depend_on_the_processes(alone, monkeypatch, processes, seconds):
    monkeypatch.setattr(arena_processes, "PIECE_SECONDS", seconds)  # pieces of some runs
    found = arena(**SMALL, runs=9, progress=False, processes=processes)
    assert timeless(found) == timeless(alone)
    assert all(row.decision_ns > 0.0 for row in found.rows)


def test_it_goes_on_where_it_was_stopped(alone, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(store, "FLUSH_SECONDS", 0.0)
    monkeypatch.setattr(store, "FLUSH_SHARE", 0.0)
    shown = []

    def stop(done: float) -> None:
        shown.append(done)
        if done > 0.3:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted, match="the same command again to continue"):
        arena(**SMALL, runs=9, out=tmp_path, progress=stop, processes=2)
    assert os.listdir(tmp_path) == [".partial"]
    assert list((tmp_path / ".partial").glob("part-*"))
    assert shown == sorted(shown)
    again = arena(**SMALL, runs=9, out=tmp_path, progress=shown.append, processes=2)
    assert "continuing from" in capsys.readouterr().err
    assert shown[-1] == pytest.approx(1.0)
    assert timeless(again) == timeless(alone)
    assert sorted(os.listdir(tmp_path)) == FILES


def test_stopped_without_a_folder():
    def stop(done: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(Interrupted, match="before all runs were finished"):
        arena(**SMALL, runs=9, progress=stop, processes=2)


@pytest.mark.parametrize("processes", [0, -1, 1.5, True, "2", 10**6])
def test_a_wrong_number_of_processes(processes):
    with pytest.raises(InputError, match=r"^processes = .* must be a whole number of at least 1"):
        arena(**SMALL, runs=9, processes=processes)


def test_processes_are_for_many_kernels_of_our_own_policies(monkeypatch):
    monkeypatch.setattr(arena_processes, "thread_count", lambda threads: 5)
    many = requests_of(PROBLEMS, default_policies(), BUDGETS[:1], 2)
    assert worthwhile_processes(many, Settings()) == 5
    assert worthwhile_processes(many, Settings(backend="python")) == 1
    few = requests_of(["paper"], ["lyon", "resolve"], BUDGETS, 2)
    assert worthwhile_processes(few, Settings()) == 1

    class Mine(LyOn):
        """Of this module."""

    numbers, budgets = many[0].numbers, many[0].budgets
    own = Request(many[0].problem, {"mine": Mine()}, budgets, numbers)
    assert worthwhile_processes([*many, own], Settings()) == 1
    monkeypatch.setattr(arena_processes, "thread_count", lambda threads: 500)
    assert worthwhile_processes(many, Settings()) == 16


def test_a_kernel_is_compiled_by_one_process_and_then_shared():
    requests = requests_of(["paper", "arena-random-5"], ["lyon", "resolve"], [200.0, 50.0], 3)
    jobs = [arena_processes._job(request, Settings()) for request in requests]
    pieces = Pieces(jobs, None, 2).chunks
    queue = arena_processes._Queue(pieces, range(len(pieces)))
    first, second = queue.next(0), queue.next(1)
    kernel = [arena_processes._kernel(piece.job) for piece in pieces]
    assert pieces[first].job.label == "resolve"  # which takes longest, and is one kernel
    assert kernel[first] != kernel[second]
    third = queue.next(1)
    assert kernel[third] == kernel[second]
    assert pieces[third].weight <= pieces[second].weight
    fourth, fifth = queue.next(1), queue.next(1)
    assert kernel[fourth] == kernel[fifth] not in (kernel[first], kernel[second])
    assert queue.next(1) is None  # what is left is being compiled
    queue.finished(0)
    assert kernel[queue.next(1)] == kernel[first]
    assert [queue.next(0) is None for _ in range(3)] == [False, False, True]


def test_a_gpu_takes_what_keeps_a_cpu_busy(monkeypatch):
    problems = ["arena-random-5", "arena-random-30"]
    requests = requests_of(problems, ["lyon", "resolve"], [100.0, 10_000.0], 2000)
    jobs = [arena_processes._job(request, Settings(backend="cpu")) for request in requests]
    monkeypatch.setattr(gpu, "available", lambda: False)
    assert {job.backend for job in arena_processes._on_devices(jobs)} == {"cpu"}
    monkeypatch.setattr(gpu, "available", lambda: True)
    found = arena_processes._on_devices(jobs)
    there = {(job.label, job.arm_count) for job in found if job.backend == "gpu"}
    assert there == {("resolve", 5), ("resolve", 30)}
    assert {job.budget for job in found if job.backend == "gpu"} == {100.0, 10_000.0}
    pieces = Pieces(found, None, 2).chunks  # which needs no device here
    assert [len(one.runs) for one in pieces if one.job.backend == "gpu"] == [2000] * 4
    assert arena_processes._kernel(found[-1]) == arena_processes._kernel(found[-2])


class Lost(LyOn):
    """Ends the process that is to run it."""

    def __reduce__(self):
        return os._exit, (3,)


class Unsent(LyOn):
    """Cannot be pickled."""

    def __reduce__(self):
        raise TypeError("no")


@pytest.mark.parametrize(
    ("policy", "error", "text"),
    [
        (Lost(), BackendError, r"a process was lost \(status 3\) at policy 'lost'"),
        (Unsent(), InputError, r"policy 'unsent' cannot be sent to another process \(no\)"),
    ],
)
def test_what_goes_wrong_in_another_process_is_told(policy, error, text):
    policies = {policy.__class__.__name__.lower(): policy, "lyon": LyOn()}
    with pytest.raises(error, match=text):
        arena(["paper"], policies, [50], runs=4, progress=False, processes=2)


def test_shell(alone, tmp_path, capsys):
    words = [f"--problem={one}" for one in SMALL["problems"]]
    words += [f"--policy={one}" for one in SMALL["policies"]]
    words += [f"--budget={one}" for one in SMALL["budgets"]]
    words += ["--runs=9", "--quiet", "--processes=2", f"--out={tmp_path}", "--json"]
    assert cli.main(["arena", *words]) == 0
    assert capsys.readouterr().err.startswith("wrote ")
    assert cli.main(["arena", "--processes=0", f"--out={tmp_path}"]) == 2
    assert "processes = 0 must be" in capsys.readouterr().err


# --- signals ------------------------------------------------------------------------------


def children(number: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{number}/task/{number}/children").read_text().split()]


def end_of(numbers: list[int], seconds: float = 20.0) -> bool:
    """Whether all of these processes end in time."""
    until = time.monotonic() + seconds
    while any(Path(f"/proc/{one}").exists() for one in numbers) and time.monotonic() < until:
        time.sleep(0.05)
    return not any(Path(f"/proc/{one}").exists() for one in numbers)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(
    ("number", "to_all", "status"),
    [(signal.SIGINT, True, 130), (signal.SIGTERM, False, 143), (signal.SIGKILL, False, -9)],
)
@pytest.mark.parametrize("early", [True, False])
def test_a_signal_ends_all_processes(tmp_path, number, to_all, status, early):
    """A terminal sends Ctrl-C to all of them."""
    words = "arena --problem paper --policy lyon --policy resolve --budget 100000 --runs 20000"
    process = subprocess.Popen(
        [sys.executable, "-m", "tightrope", *words.split(), "--processes=2", "--out", tmp_path],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    until = time.monotonic() + 60.0
    while time.monotonic() < until:
        others = children(process.pid)
        if len(others) == 3 and (
            early or list(tmp_path.glob(".partial/part-*"))
        ):  # one is Python's
            break
        time.sleep(0.05)
    (os.killpg if to_all else os.kill)(process.pid, number)
    out, err = process.communicate(timeout=30)
    assert process.returncode == status, err
    assert end_of(others)
    assert out == ""
    assert set(os.listdir(tmp_path)) <= {".partial"}
    if status > 0:
        *_, last = err.splitlines()
        assert "Traceback" not in err
        assert last.startswith("tightrope: interrupted")
        assert last.endswith(" to continue") or early
