"""The shell: ``tightrope COMMAND``; ``COMMANDS`` lists the commands.

Results go to standard output; progress, warnings and messages go to standard error. Exit status:
0 success, 2 bad input (one line), 130 interrupted (Ctrl-C), 143 terminated, 1 anything else.
"""

from __future__ import annotations

import errno
import os
import sys
import warnings
from collections.abc import Sequence
from functools import partial

from tightrope.errors import InputError, PolicyError, TightropeError
from tightrope.interrupts import not_dropped, stopped_status, terminable
from tightrope.shell.campaigns import CAMPAIGN
from tightrope.shell.catalogue import completion, policies, problems
from tightrope.shell.commands import Group, called, complete
from tightrope.shell.experiments import arena, reproduce, tune
from tightrope.shell.fits import fit
from tightrope.shell.output import fail, warn
from tightrope.shell.plans import plan
from tightrope.shell.replays import replay
from tightrope.shell.service import KEYS, demo, serve
from tightrope.shell.simulation import simulate
from tightrope.shell.theory import oracle, theory

COMMANDS = Group(
    "tightrope",
    """\
Decide which arm to pull, within a budget and with limits on penalties.

tightrope simulate paper --policy resolve --policy lyon --budget 1000
tightrope plan paper --budget 1000
tightrope demo
""",
    {
        "study": (simulate, oracle, theory, arena, tune, reproduce, problems, policies),
        "plan": (fit, plan, replay),
        "run": (CAMPAIGN, serve, KEYS, demo),
        "other": (completion,),
    },
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit status."""
    if os.environ.get("COLUMNS", "").strip() == "0":
        del os.environ["COLUMNS"]  # 0 means that the width is unknown
    try:
        complete(COMMANDS)
        command = called(sys.argv[1:] if arguments is None else arguments, COMMANDS)
        with warnings.catch_warnings(), terminable(), not_dropped("interrupted"):
            warnings.simplefilter("default", UserWarning)
            warnings.showwarning = warn
            status = _run(command)
            sys.stdout.flush()
        return status
    except InputError as error:
        return fail(error, 2)
    except TightropeError as error:
        return fail(error, 1)
    except KeyboardInterrupt as stop:
        return fail(str(stop) or "interrupted; nothing was finished", stopped_status())
    except BrokenPipeError:
        sys.stdout = None  # the reader has closed the pipe, so there is nothing to flush
        return 1
    except MemoryError:
        return fail("there is not enough memory for this", 1)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EIO):
            raise
        sys.stdout = None
        return fail(f"cannot write to standard output: {error.strerror}", 1)
    except Exception as error:
        place = _own_place(error)
        if place is None:
            raise  # our own bug: show the traceback
        return fail(f"{place}: {type(error).__name__}: {error}", 1)


def _run(command: partial[int]) -> int:
    """The command's status, also if a user's policy calls sys.exit."""
    try:
        return command()
    except SystemExit as error:
        if isinstance(error.__context__, BrokenPipeError):  # rich's way to say it
            raise error.__context__ from None
        text = f"a policy ended the program by sys.exit({error.code!r})"
        raise PolicyError(text) from error


def _own_place(error: Exception) -> str | None:
    """File and line in the user's policy where an error arose; None if it arose elsewhere."""
    from tightrope.policies.naming import OF_A_FILE

    place, trace = None, error.__traceback__
    while trace is not None:
        frame = trace.tb_frame
        if str(frame.f_globals.get("__name__", "")).startswith(OF_A_FILE):
            place = f"policy file {frame.f_code.co_filename}, line {trace.tb_lineno}"
        trace = trace.tb_next
    return place
