"""Ctrl-C is never lost: not in a callback from C, not in a finaliser, not while LLVM compiles."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading

import pytest

from tightrope.interrupts import not_dropped


@ctypes.CFUNCTYPE(None)
def interrupted_in_c():
    raise KeyboardInterrupt


@ctypes.CFUNCTYPE(None)
def failing_in_c():
    raise RuntimeError("not an interrupt")


class Interrupting:
    def __del__(self):
        raise KeyboardInterrupt


@pytest.fixture(autouse=True)
def unraisable(monkeypatch):
    """What else Python drops, in place of a line on standard error."""
    seen = []
    monkeypatch.setattr(sys, "unraisablehook", lambda one: seen.append(one.exc_type))
    yield seen
    with not_dropped():  # nothing is left over for the next block
        pass


def finalise():
    Interrupting()


@pytest.mark.parametrize("interrupt", [interrupted_in_c, finalise])
def test_it_is_raised_at_the_end_of_the_block(unraisable, interrupt):
    seen = []
    with pytest.raises(KeyboardInterrupt), not_dropped("said"):  # noqa: PT012
        interrupt()
        seen.append("the rest of the block")
    assert seen == ["the rest of the block"]
    assert unraisable == []


def test_it_is_raised_where_it_is_asked_for():
    with pytest.raises(KeyboardInterrupt, match="said"), not_dropped("said") as check:  # noqa: PT012
        check()
        interrupted_in_c()
        check()
        pytest.fail("goes on")


def test_the_first_block_that_ends_raises_it_once():
    with not_dropped():
        interrupted_in_c()
        with pytest.raises(KeyboardInterrupt), not_dropped():
            pass


def test_it_is_not_raised_twice():
    with not_dropped(), pytest.raises(KeyboardInterrupt), not_dropped():  # noqa: PT012
        interrupted_in_c()
        raise KeyboardInterrupt


def test_an_error_that_it_led_to_gives_way():
    with pytest.raises(KeyboardInterrupt), not_dropped():  # noqa: PT012
        interrupted_in_c()
        raise RuntimeError("no compiled object")
    with pytest.raises(RuntimeError), not_dropped():
        raise RuntimeError("something else")


def test_other_errors_go_where_they_went(monkeypatch):
    seen = []  # set here and not in a fixture: pytest before 8.4 has a hook of its own per phase
    monkeypatch.setattr(sys, "unraisablehook", lambda one: seen.append(one.exc_type))
    before = sys.unraisablehook
    with not_dropped():
        failing_in_c()
    assert seen == [RuntimeError]
    assert sys.unraisablehook is before


def test_other_threads_change_nothing():
    before, hooks = sys.unraisablehook, []

    def work():
        with not_dropped() as check:
            check()
            hooks.append(sys.unraisablehook)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert hooks == [before]


PROGRAM = """
import os, sys
from numba.core.codegen import JITCodeLibrary

sent = []

def interrupting(hook):
    def call(*arguments):  # by LLVM, from C
        if not sent:
            sent.append(1)
            os.kill(os.getpid(), int(sys.argv[1]))
        return hook(*arguments)
    return call

for name in ("_object_compiled_hook", "_object_getbuffer_hook"):
    setattr(JITCodeLibrary, name, interrupting(getattr(JITCodeLibrary, name)))

from tightrope.cli import main
status = main(sys.argv[2:])
assert sent
sys.exit(status)
"""


@pytest.mark.skipif(os.name != "posix", reason="sends signals")
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_in_a_callback_of_llvm_ends_the_command(number, status):
    words = "simulate paper --policy lyon --budget 50 --runs 4 --quiet".split()
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(int(number)), *words], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (status, ""), done.stderr
    assert done.stderr == "tightrope: interrupted before any work was finished\n"


IN_A_TEXT = """
import sys
from tightrope import cli

text = f"import os, time; os.kill(os.getpid(), {sys.argv[1]}); time.sleep(9)"
cli._run = lambda command: exec(text)
sys.exit(cli.main(["policies"]))
"""
IN_AN_IMPORT = """
import runpy, sys

class Finder:
    def find_spec(self, name, *_):
        if name == "tightrope.shell.fits":
            exec(f"import os, time; os.kill(os.getpid(), {number}); time.sleep(9)")

number = sys.argv[1]
sys.meta_path.insert(0, Finder())
sys.argv = ["tightrope", "policies"]
runpy.run_module("tightrope", run_name="__main__")
"""


@pytest.mark.skipif(os.name != "posix", reason="sends signals")
@pytest.mark.parametrize(
    ("program", "number", "status"),
    [
        (IN_A_TEXT, signal.SIGINT, 130),
        (IN_A_TEXT, signal.SIGTERM, 143),
        (IN_AN_IMPORT, signal.SIGINT, 130),
        (IN_AN_IMPORT, signal.SIGTERM, 143),
    ],
)
def test_a_signal_in_a_text_or_an_import_ends_the_command(tmp_path, program, number, status):
    """After a KeyboardInterrupt in ``exec``, even a caught one, ``python -m`` ends by SIGINT."""
    (tmp_path / "stopped.py").write_text(program)
    done = subprocess.run(
        [sys.executable, "-m", "stopped", str(int(number))],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert (done.returncode, done.stdout) == (status, "")
    assert done.stderr == "tightrope: interrupted; nothing was finished\n"
