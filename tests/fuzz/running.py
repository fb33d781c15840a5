"""Run one input in this process and say what is wrong with how it ended."""

from __future__ import annotations

import io
import json
import resource
import signal
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from itertools import pairwise
from pathlib import Path

from tests.fuzz.inputs import Case
from tightrope.cli import main
from tightrope.errors import TightropeError
from tightrope.problem.ready import load_problem, load_task

__all__ = ["Outcome", "judged", "run", "status_of"]

SECONDS = 15.0  # after which an input is interrupted, as by Ctrl-C
COMPILING = 120.0  # likewise, where kernels have to be compiled first
ROOM = 3 * 2**30  # bytes of address space that an input may add
LONGEST_LINE = 600  # characters on standard error
MUCH_WORK = 200_000  # means of arms to weigh: may take plain Python longer than SECONDS


class Outcome(str):
    """What is wrong, empty if nothing is; ``status`` is the exit status."""

    status: int | None = None
    seconds: float = 0.0
    out: str = ""  # what was on standard output

    @classmethod
    def of(cls, complaint: str, status: int | None, seconds: float, out: str = "") -> Outcome:
        made = cls(complaint)
        made.status, made.seconds, made.out = status, seconds, out
        return made


def run(case: Case, folder: Path) -> Outcome:
    """Run an input; its files go to ``folder``."""
    path = folder / "problem.toml"
    path.write_bytes(case.content)
    places = {"{file}": str(path), "{out}": str(folder / "out")}
    arguments = [places.get(argument, argument) for argument in case.arguments]

    def act() -> int:
        status = status_of(arguments)
        if case.content:
            with suppress(TightropeError):
                load_task(path)
        return status

    return judged(arguments, act, COMPILING if {"cpu", "tune"} & set(arguments) else SECONDS)


def judged(
    arguments: list[str], act: Callable[[], int], allowed: float = SECONDS, fails: bool = False
) -> Outcome:
    """Run an act that ends with an exit status, and look at how; ``fails``: it may end with 1."""
    out, err = io.StringIO(), io.StringIO()
    status, complaint, start = None, "", time.perf_counter()
    try:
        with _bounded(allowed), redirect_stdout(out), redirect_stderr(err):
            status = act()
    except BaseException:
        complaint = traceback.format_exc(limit=-6)
    seconds = time.perf_counter() - start
    if seconds > allowed and status is not None and _is_long(arguments):
        return Outcome.of("", status, seconds)
    complaint = complaint or _complaint(arguments, status, out.getvalue(), err.getvalue(), fails)
    if not complaint and seconds > allowed:
        complaint = f"took {seconds:.1f} s"
    return Outcome.of(complaint, status, seconds, out.getvalue())


def status_of(arguments: list[str]) -> int:
    """The exit status of a command."""
    try:
        return main(arguments)
    except SystemExit as stop:  # --help and --version
        return int(stop.code or 0)


@contextmanager
def _bounded(seconds: float) -> Iterator[None]:
    """With a clock and a bound on memory, and numpy's warnings as errors."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + ROOM, hard))
    timed = threading.current_thread() is threading.main_thread()
    if timed:
        signal.signal(signal.SIGALRM, _interrupt)
        signal.setitimer(signal.ITIMER_REAL, seconds, 5.0)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            yield
    finally:
        if timed:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def _is_long(arguments: list[str]) -> bool:
    """Whether a simulation is so long that it may be at work still."""
    options = dict(pairwise(arguments))
    with suppress(TightropeError, ValueError, IndexError):
        problem = load_problem(arguments[1])
        budgets = [float(b) for a, b in pairwise(arguments) if a == "--budget"]
        pulls = sum(budgets) / problem.scales.cost / problem.moments.smallest_cost
        size = problem.arm_count * (2 + problem.penalty_count)
        work = pulls * int(options.get("--runs", "1")) * size * max(arguments.count("--policy"), 1)
        return arguments[0] in ("simulate", "tune") and work > MUCH_WORK
    return False


def _complaint(
    arguments: list[str], status: int | None, out: str, err: str, fails: bool = False
) -> str:
    told = err.splitlines()
    plain = [line for line in told if not line.startswith("warning: ")]
    allowed = 2 if arguments[0] == "tune" else 1
    tuned = arguments[0] == "tune" and "no setting is shown to" in err
    if status not in (0, 2) and not tuned and not (fails and status == 1):
        return f"status {status}: {err}"
    if "not enough memory" in err:
        return f"too much memory: {err}"
    if "Traceback" in err or len(plain) > allowed:
        return f"more than one line on standard error:\n{err}"
    if any(len(line) > LONGEST_LINE for line in told):
        return f"a line of {max(map(len, told))} characters on standard error"
    refused = bool(plain) and plain[-1].startswith("tightrope: ")
    if status == 2 and (out or not refused):
        return f"status 2, but standard output or error are not as they should be:\n{err}{out}"
    if status == 1 and fails and not refused and "verify" not in arguments:
        return f"status 1, but standard error is not as it should be:\n{err}"
    if status == 0 and "--json" in arguments and "--help" not in arguments:
        return _json_complaint(out)
    return ""


def _json_complaint(out: str) -> str:
    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is not JSON")

    try:
        json.loads(out, parse_constant=refuse)
    except ValueError as error:
        return f"standard output is not JSON: {error}"
    return ""
