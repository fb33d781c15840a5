from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from functools import cache
from pathlib import Path

import pytest
from hypothesis import settings

from tightrope import Arm, Bernoulli, Beta, CostAbove, Problem, Scales, TwoPoint, Uniform
from tightrope.cli import main

ROOT = Path(__file__).parents[1]
settings.register_profile("tightrope", deadline=None, derandomize=True, max_examples=25)
settings.load_profile("tightrope")
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    # So a shell starts a job in the background, and programs that tests interrupt would inherit it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
if os.environ.get("NUMBA_ENABLE_CUDASIM") == "1":
    # Its main thread asks in a loop whether the kernel's threads are done. Without a pause it keeps
    # them waiting: on a busy machine the tests of a minute did not end in ten.
    from numba.cuda.simulator.kernel import BlockThread

    def _is_alive(thread):
        time.sleep(0)
        return threading.Thread.is_alive(thread)

    BlockThread.is_alive = _is_alive
    sys.setswitchinterval(0.05)

SHARED = {  # words in tests' names, and their group
    "cluster": "ray",
    "feature": "features",  # before the next: another server costs less than another compilation
    "postgres": "postgres",
    "typed": "types",
    "contexts.py": "types",
    "guarded_types": "types",
    "test_guard.py": "guard",
    "test_outsiders.py": "outsiders",
    "-controller]": "wrong live",
    "-campaign]": "wrong live",
    "test_naming.py": "naming",
    "test_intervals.py": "numbers",
    "test_smooth.py": "numbers",
}
LONG = (  # files that would keep one worker busy at the end of a run: their tests begin first
    *("test_site", "test_pages", "test_foreign_policies", "test_reproduction", "test_faults"),
    *("test_proof", "test_notebooks", "test_examples", "test_guard", "test_contract"),
    *("test_cluster", "test_kernels", "test_single", "test_wrong_policies"),
)


@pytest.hookimpl(optionalhook=True, wrapper=True)
def pytest_xdist_auto_num_workers(config):
    """``-n auto``: two workers more than processors, as tests wait for servers and browsers."""
    return (yield) + 2


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """With ``--dist loadgroup``, tests that share kernels, a cluster or a fixture share a worker.

    A parameter's id that ends with ``@group`` names it: xdist's own marks are lost on pytest 9.2.
    """
    from xdist.scheduler import LoadScopeScheduling

    class ByGroup(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            _, found, group = nodeid.rstrip("]").rpartition("@")
            if not found:
                group = next((to for word, to in SHARED.items() if word in nodeid.lower()), "")
            return group or shares_fixtures(nodeid.partition("::")[0]) or nodeid

    if config.getoption("dist") != "loadgroup":
        return None
    config.option.loadscopereorder = False  # see LONG
    return ByGroup(config, log)


@cache
def shares_fixtures(path: str) -> str:
    """The path of a file whose tests share a fixture, else nothing."""
    return path if 'scope="module"' in (ROOT / path).read_text(encoding="utf-8") else ""


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: not any(word in item.nodeid for word in LONG))


@pytest.fixture(autouse=True)
def plain_terminal(monkeypatch):
    """What the terminal at hand says of itself changes no test."""
    for name in ("COLUMNS", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(autouse=True)
def no_compiler_beside():
    """A compiler in another thread saves and restores the filters of warnings of all threads."""
    yield
    if background := sys.modules.get("tightrope.live.calls"):
        background.Background.wait()


@pytest.fixture
def start_python():
    """Starts Python with these arguments; the process ends with the test, however that ends."""
    children = []

    def start(*arguments, **options):
        command = [sys.executable, *arguments]
        children.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options))
        return children[-1]

    yield start
    for child in children:
        child.kill()
        child.wait()
        child.stdout.close()


def by_policy(texts):
    """Parameters for ``parametrize``: each policy's tests on one worker, as it is compiled once."""
    return [pytest.param(text, id=f"{text}@{text.partition(':')[0]}") for text in texts]


@pytest.fixture(scope="session")
def paper() -> Problem:
    """Figure 1's arms."""
    return bernoulli_problem([(0.4, 0.8, 0.6), (0.6, 0.6, 0.3)], 0.8)


@pytest.fixture(scope="session")
def mixed() -> Problem:
    """Two penalties, dependent and continuous outcomes, dollars: all that kernels can meet."""
    return Problem(
        (
            Arm("a", Uniform(5.0, 40.0), Beta(2, 3), [CostAbove(20.0), Bernoulli(0.5)]),
            Arm("b", TwoPoint(1.0, 50.0, 0.3), Uniform(0.0, 1.0), [Bernoulli(0.2), Beta(1, 4)]),
            Arm.from_rows("c", [(10.0, 0.5, 0.0, 1.0), (30.0, 0.9, 1.0, 0.0), (2.0, 0.1, 0, 0)]),
        ),
        limit=(0.02, 0.015),
        scales=Scales(cost=50.0),
    )


def bernoulli_problem(means: list[tuple[float, ...]], limit: object) -> Problem:
    return Problem(
        tuple(
            Arm(f"arm {k + 1}", Bernoulli(m[0]), Bernoulli(m[1]), [Bernoulli(y) for y in m[2:]])
            for k, m in enumerate(means)
        ),
        limit=limit,
    )


@pytest.fixture
def shell(capsys):
    """The shell command: its exit status, standard output and standard error."""

    def run(*arguments: str) -> tuple[int, str, str]:
        status = main(arguments)
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return run


@pytest.fixture
def unrehearsed(monkeypatch):
    """A user's own policy makes no steps in plain Python first: compiled code has to notice."""
    from tightrope.engine import python
    from tightrope.live import calls

    monkeypatch.setattr(python, "REHEARSED_RUNS", ())
    monkeypatch.setattr(calls, "REHEARSED_STEPS", 0)
