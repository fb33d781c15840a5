"""Chunks on a Ray cluster: the bits of a run here, whatever the workers do."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections import Counter, deque
from pathlib import Path

import numpy as np
import pytest

from tests.problems import equal
from tightrope import FullTable, LyOff, LyOn, Policy, Problem, simulate
from tightrope.engine import cluster as tasks
from tightrope.errors import BackendError, InputError, PolicyError
from tightrope.policies.base import Setup, limits_of

ray = pytest.importorskip("ray", reason="ray is not installed: pip install 'tightrope[ray]'")

pytestmark = [
    # Ray leaves sockets, files and child processes to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
NODE = {"num_cpus": 1, "object_store_memory": 80 * 2**20}


@pytest.fixture(scope="module")
def cluster():
    """A head and two more nodes, each with a worker; nobody is connected."""
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        for name, value in tasks.QUIET.items():
            patch.setenv(name, value)
        nodes = Cluster(initialize_head=True, head_node_args={**NODE, "include_dashboard": False})
        for _ in range(2):
            nodes.add_node(**NODE)
    yield nodes
    nodes.shutdown()


@pytest.fixture(scope="module")
def connected(cluster):
    """Ray as a user has it who called ``ray.init`` before: its workers stay warm."""
    with tasks.joined(cluster.address, 1):
        yield cluster


@pytest.fixture
def unconnected(monkeypatch):
    """As in a process of its own."""
    monkeypatch.setattr(ray, "is_initialized", lambda: False)


@dataclasses.dataclass(frozen=True)
class Sleepy(Policy):
    """Takes its time, and no processor's; then the arm that was pulled least."""

    name = "sleepy"
    summary = "for tests"
    seconds: float = 0.02
    folder: str = ""  # where it says which machine it is on

    def setup(self, task, budget):
        return Setup((), limits_of(task))

    def decide(self, setup, step, statistics, queues, uniform):
        if self.folder:
            place = Path(self.folder, ray.get_runtime_context().get_node_id())
            place.write_text(f"{os.getpid()} {step}")
        time.sleep(self.seconds)
        return int(np.argmin(statistics.pulls))


@dataclasses.dataclass(frozen=True)
class Failing(Sleepy):
    name = "failing"

    def decide(self, setup, step, statistics, queues, uniform):
        raise ZeroDivisionError("this policy divides by zero")


@dataclasses.dataclass(frozen=True)
class Deadly(Sleepy):
    name = "deadly"

    def decide(self, setup, step, statistics, queues, uniform):
        os.kill(os.getpid(), signal.SIGKILL)


@dataclasses.dataclass(frozen=True)
class Stuck(Sleepy):
    name = "stuck"
    lock: object = None


def test_any_workers_give_the_bits_of_a_run_here(connected, paper):
    options = {"budgets": [50, 900.5], "runs": range(7, 5000), "seed": 2}
    policies = [LyOff(), LyOn()]
    here = simulate(paper, policies, **options)
    told: list[float] = []
    there = simulate(paper, policies, **options, backend="ray", progress=told.append)
    assert equal(here, there)
    assert {row["backend"] for row in there.summary()} == {"ray"}
    assert told == sorted(told)
    assert told[-1] == pytest.approx(1)
    assert ray.is_initialized(), "it was the user who connected"
    assert equal(here, simulate(paper, policies, **options, backend="ray", threads=1))


def test_whole_rows_of_a_table_are_drawn_there(connected):
    """With types of requests, whose pulls come back too."""
    outcomes = np.random.default_rng(1).random((40, 2, 3)).round()
    outcomes[:, :, 0] = 1.0
    table = FullTable(["a", "b"], ["bad"], outcomes, contexts=["x", "y"] * 20)
    problem = Problem.from_table(table, {"bad": "60% per pull"})
    there, here = (
        simulate(problem, "resolve", budgets=20, runs=4, backend=backend)
        for backend in ("ray", "cpu")
    )
    assert there == here
    pulls = [one["resolve"].pulls_by_type for one in (there, here)]
    np.testing.assert_array_equal(*pulls)


def test_late_and_lost_outcomes_are_so_there(connected, paper):
    options = {"budgets": 50, "runs": 20, "seed": 2, "delay": 10, "lost": 0.01}
    here = simulate(paper, LyOn(), **options, backend="cpu")
    assert equal(here, simulate(paper, LyOn(), **options, backend="ray"))


def test_a_checkpoint_goes_from_here_to_the_cluster(connected, paper, tmp_path):
    options = {"budgets": 100, "runs": 40_000, "checkpoint": tmp_path / "parts"}

    def stop(fraction: float) -> None:
        if fraction > 0.2:
            raise KeyboardInterrupt

    first = simulate(paper, LyOn(), **options, progress=stop)
    told: list[float] = []
    rest = simulate(paper, LyOn(), **options, backend="ray", progress=told.append)
    assert not first.complete
    assert told[0] >= 0.2
    assert equal(rest, simulate(paper, LyOn(), budgets=100, runs=40_000))


def test_a_policys_error_names_its_line(connected, paper):
    text = r"ZeroDivisionError at step 0 \(.*by zero\) in decide, test_cluster.py line \d+"
    with pytest.raises(PolicyError, match=text):
        simulate(paper, Failing(), budgets=5, runs=4, backend="ray")


@pytest.mark.usefixtures("unrehearsed")  # it would kill this process
def test_a_policy_that_kills_its_workers_is_named(connected, paper, monkeypatch):
    monkeypatch.setattr(tasks, "ATTEMPTS", 2)
    with pytest.raises(BackendError, match=r"2 workers were lost at policy 'deadly', budget 5, r"):
        simulate(paper, Deadly(), budgets=5, runs=1, backend="ray")


def test_a_policy_that_cannot_be_sent(connected, paper):
    with pytest.raises(InputError, match=r"cannot be sent .*lock.* must be picklable"):
        simulate(paper, Stuck(lock=threading.Lock()), budgets=5, runs=1, backend="ray")


def test_no_gpu(connected, paper):
    with pytest.raises(BackendError, match="no machine of the Ray cluster has a GPU"):
        simulate(paper, LyOn(), budgets=5, runs=1, backend="ray:gpu")


def test_a_machine_with_another_version(connected, paper, monkeypatch):
    monkeypatch.setattr(tasks, "__version__", "0.0.9")
    with pytest.raises(BackendError, match=r"has tightrope .*; it must be 0\.0\.9"):
        simulate(paper, LyOn(), budgets=5, runs=1, backend="ray")


def test_a_cluster_without_workers_is_given_up(connected, paper, monkeypatch):
    monkeypatch.setattr(tasks, "PATIENCE", 0.5)
    asked = iter([1])
    monkeypatch.setattr(tasks._Slots, "_ask", lambda self: next(asked, 0))
    with pytest.raises(BackendError, match=r"no CPU for 0\.5 seconds"):
        simulate(paper, Sleepy(0.2), budgets=9, runs=99, backend="ray")


def test_the_chunks_of_a_lost_machine_are_made_again(
    connected, paper, monkeypatch, tmp_path, capfd
):
    policies, lost = {"sleepy": Sleepy(folder=str(tmp_path)), "lyon": LyOn()}, []
    again = tasks._Tasks._again

    def counting(self, places, error):
        lost.extend(places)
        again(self, places, error)

    monkeypatch.setattr(tasks._Tasks, "_again", counting)
    nodes = {node.node_id: node for node in connected.worker_nodes}
    killed = []

    def tell(fraction: float) -> None:
        for path in tmp_path.iterdir():
            process, _, step = path.read_text().partition(" ")
            midway = step in ("1", "2", "3") and time.time() - path.stat().st_mtime < 0.1
            if midway and not killed and path.name in nodes:
                os.kill(int(process), signal.SIGKILL)  # all of the machine dies at once
                connected.remove_node(nodes[path.name], allow_graceful=False)
                killed.append(path.name)

    options = {"budgets": 5, "runs": 60, "seed": 4}
    there = simulate(paper, policies, **options, backend="ray", progress=tell)
    assert killed
    assert lost
    assert there.complete
    assert equal(there, simulate(paper, {**policies, "sleepy": Sleepy(0.0)}, **options))
    assert capfd.readouterr().out == ""


def test_finished_tasks_fill_half_a_second(paper):
    from tightrope.engine.planning import plan_jobs
    from tightrope.engine.work import Chunk

    jobs = plan_jobs(paper, {"lyon": LyOn()}, [100.0], 1000, seed=0, backend="ray")
    job = jobs["lyon", 100.0].on("cpu", "ray")
    chunks = [Chunk(job, np.arange(128)) for _ in range(1000)]
    queue = object.__new__(tasks._Tasks)  # without a cluster
    queue._chunks, queue._lost = chunks, Counter([3])
    queue._waiting, queue._pace = deque(range(1000)), tasks._Pace(chunks, range(1000))
    assert queue._take(4) == [0]  # nothing is known of them
    queue._pace.learn(chunks[0], 0.01)
    assert queue._take(4) == [1, 2]
    assert queue._take(4) == [3]  # its worker was lost before
    assert len(queue._take(4)) in (49, 50)
    queue._waiting = deque(range(990, 1000))
    queue._pace = tasks._Pace(chunks, range(990, 1000))
    queue._pace.learn(chunks[0], 0.01)
    assert len(queue._take(4)) == 1  # the last ones go to all workers


@pytest.mark.parametrize(
    ("address", "error", "words"),
    [
        ("127.0.0.1:1", BackendError, ["127.0.0.1:1", "no Ray cluster answers"]),
        ("no.such.host.invalid:6379", BackendError, ["no.such.host.invalid", "no Ray cluster"]),
        ("somewhere", InputError, ["'somewhere'", "HOST:PORT"]),
        ("10.0.0.1:99999999", BackendError, ["99999999"]),
    ],
)
def test_a_wrong_address_is_one_line_at_once(unconnected, paper, address, error, words):
    with pytest.raises(error) as caught:
        simulate(paper, LyOn(), budgets=5, runs=1, backend="ray", address=address)
    assert "\n" not in str(caught.value)
    assert all(word in str(caught.value) for word in words), caught.value


def test_a_server_of_another_kind_is_one_line_at_once(unconnected, paper):
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            with server.accept()[0] as one:
                one.recv(100)
                one.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(BackendError, match="not a Ray cluster"):
            simulate(paper, LyOn(), budgets=5, runs=1, backend="ray", address=address)
        thread.join()


def test_an_address_needs_the_backend(paper):
    with pytest.raises(InputError, match=r"'1\.2\.3\.4:5' .* needs backend 'ray'"):
        simulate(paper, LyOn(), budgets=5, runs=1, address="1.2.3.4:5")


def test_without_ray_one_line_says_how_to_get_it(paper, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(BackendError, match=r'pip install "tightrope\[ray\]"') as caught:
        simulate(paper, LyOn(), budgets=5, runs=1, backend="ray")
    assert "\n" not in str(caught.value)


def test_the_shell_starts_one_and_stops_it(tmp_path, shell):
    """For real: standard output carries the JSON alone, and no process of Ray's stays behind."""
    words = "simulate paper --policy lyon --budget 100 --runs 300 --seed 3 --json --quiet".split()
    done = subprocess.run(
        [sys.executable, "-m", "tightrope", *words, "--backend", "ray", "--threads", "1"],
        capture_output=True,
        text=True,
        check=False,
        env={name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"},
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")
    (there,), (here,) = json.loads(done.stdout), json.loads(shell(*words)[1])
    assert there.pop("backend") == "ray"
    for key in set(here) - {"seconds", "compile_seconds", "backend"}:
        assert there[key] == here[key]


PROGRAM = textwrap.dedent(
    """
    import dataclasses, sys, time
    import tightrope as t
    from tightrope.policies.base import Setup, limits_of

    @dataclasses.dataclass(frozen=True)
    class Mine(t.LyOn):
        '''Defined in the script itself, compiled on the workers.'''
        name = "mine"

        @staticmethod
        def penalty_index(constants, clock, level, width):
            return 2.0 * level

    @dataclasses.dataclass(frozen=True)
    class Slow(t.Policy):
        name = "slow"
        summary = "takes its time"

        def setup(self, task, budget):
            return Setup((), limits_of(task))

        def decide(self, setup, step, statistics, queues, uniform):
            time.sleep(0.004)
            return step % 2

    def tell(fraction):
        if fraction > 0.5:  # all of Mine, some of Slow
            print("some", flush=True)

    problem, policies = t.ready_problem("paper"), [Mine(), Slow()]
    there = t.simulate(problem, policies, budgets=9, runs=1000, backend="ray", progress=tell)
    here = t.simulate(problem, Mine(), budgets=9, runs=1000)["mine"].runs[:, there.run_numbers]
    same = (here.queue == there["mine"].runs.queue).all()
    print("kept", there.runs, there.complete, there["slow"].runs.cost.min(), same, flush=True)
    """
)


@pytest.mark.skipif(os.name != "posix", reason="sends SIGINT")
def test_a_script_of_ones_own_and_control_c(cluster, tmp_path, start_python):
    """A policy of ``__main__``; RAY_ADDRESS; Ctrl-C gives the finished runs, within a moment."""
    path = tmp_path / "script.py"
    path.write_text(PROGRAM)
    child = start_python(str(path), env={**os.environ, "RAY_ADDRESS": cluster.address})
    lines = iter(child.stdout)
    assert next(lines) == "some\n"
    child.send_signal(signal.SIGINT)
    rest = child.communicate(timeout=60)[0].split("\n")
    kept = next(line for line in rest if line.startswith("kept")).split()
    assert 1 <= int(kept[1]) < 1000
    assert kept[2:] == ["False", "10.0", "True"]
    assert child.returncode == 0


def test_ray_still_has_the_private_switch_that_keeps_standard_output_clean():
    worker = pytest.importorskip("ray")._private.worker
    assert isinstance(worker._worker_logs_enabled, bool)
