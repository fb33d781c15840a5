"""``tightrope simulate``: run policies on problems, and save the runs."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, redirect_stdout
from typing import TYPE_CHECKING, Any

import tightrope
from tightrope.errors import InfeasibleError, InputError, PolicyError
from tightrope.interrupts import stopped_status
from tightrope.names import one_line
from tightrope.shell.options import (
    Budgets,
    Effort,
    Fresh,
    Json,
    PolicyNames,
    ProblemNames,
    Threads,
)
from tightrope.shell.output import keep, print_rows, say

if TYPE_CHECKING:
    from tightrope.engine.checkpoint import Checkpoint

POLICIES = ("lyoff", "lyon", "stationary")  # the defaults


def simulate(
    problem: ProblemNames,
    *,
    json: Json = False,
    policy: PolicyNames = (),
    budget: Budgets,
    effort: Effort,
    delay: str = "0",
    lost: float = 0.0,
    address: str | None = None,
    threads: Threads = None,
    save: str | None = None,
    checkpoint: str | None = None,
    fresh: Fresh = False,
) -> int:
    """Simulate policies on problems and print a row per policy and budget.

    Policies that break a limit come last, in red. After an interruption the same command
    continues with the finished runs, if it has --save or --checkpoint.

    tightrope simulate paper --policy resolve --policy lyon --budget 1000
    tightrope simulate mine.toml --budget 50 --budget 500 --runs 4000 --save runs.npz

    policy: default those of lyoff, lyon and stationary that fit the problems
    delay N|DISTRIBUTION: report an outcome N decisions later, or after a random number of
        decisions such as '{ uniform = [0, 100] }'
    lost SHARE: share of the outcomes that are never reported
    address HOST:PORT: Ray cluster to join; default RAY_ADDRESS
    save FILE: also write the runs to this .npz, .csv or .parquet file
    checkpoint FOLDER: keep finished runs here during the simulation; default FILE.parts
    """
    folder = _folder(problem, save, checkpoint, fresh)
    with _keeping(folder), _store(folder, fresh) as store:
        with redirect_stdout(sys.stderr):  # a user's policy may print
            found = tightrope.simulate(
                problem,
                policy or _fitting(problem, budget),
                budgets=budget,
                **effort.given,
                threads=threads,
                address=address,
                checkpoint=store,
                delay=_delay(delay),
                lost=lost,
            )
        saved = save is None or _saved(found[problem[0]], save, store, kept=bool(checkpoint))
    several = len(problem) > 1
    rows = [
        {"problem": name, **row} if several else row
        for name, results in found.items()
        for row in results.summary()
    ]
    print_rows(rows, json)
    status = _status(list(found.values()), effort.runs, folder)
    return status if saved else 1


def _fitting(problems: Sequence[str], budgets: Sequence[float]) -> list[str]:
    """The default policies that can run on every problem; one line names the others."""
    from tightrope.policies.base import set_up

    loaded = [tightrope.load_problem(one) for one in problems]
    fitting, others = [], []
    for name in POLICIES:
        try:
            for one in loaded:
                policy = tightrope.parse_policy(name).for_task(one)
                for budget in budgets:
                    set_up(policy, one, one.normal_budget(budget))
        except (InfeasibleError, PolicyError) as error:
            others.append(f"{name} ({one_line(error, 160)})")
        else:
            fitting.append(name)
    if not fitting:
        raise PolicyError(f"no default policy fits, name one by --policy: {'; '.join(others)}")
    if others:
        say(f"warning: left out: {'; '.join(others)}")
    return fitting


def _folder(
    problems: Sequence[str], save: str | None, checkpoint: str | None, fresh: bool
) -> str | None:
    """Folder of the finished runs; raises if the options do not fit together."""
    from tightrope.files import require_writable
    from tightrope.results import require_results_name

    if save and len(problems) > 1:
        raise InputError(f"--save {save}: takes one problem, not {len(problems)}")
    if save is not None:
        require_results_name(save)
        require_writable(save)
    folder = checkpoint or (f"{save}.parts" if save else None)
    if fresh and not folder:
        raise InputError("--fresh: must come with --save FILE or --checkpoint FOLDER")
    return folder


def _saved(results: tightrope.Results, path: str, store: Checkpoint | None, kept: bool) -> bool:
    """Write the runs to the file; ``kept``: the store stays. Returns whether that worked."""
    if store and store.keeps and not results.complete:
        return True  # the same command continues from there
    saved = keep(results, path)
    if store and saved and results.complete and not kept:
        store.remove()
    return saved


@contextmanager
def _keeping(folder: str | None) -> Iterator[None]:
    """Name the folder of the finished runs if Ctrl-C comes while they are written."""
    try:
        yield
    except KeyboardInterrupt as stop:
        if str(stop) or folder is None:
            raise
        raise KeyboardInterrupt(
            f"interrupted; finished runs are kept in {folder}; run the same command again to"
            " continue"
        ) from stop


def _store(folder: str | None, fresh: bool) -> AbstractContextManager[Checkpoint | None]:
    from tightrope.engine.checkpoint import Checkpoint

    return nullcontext() if folder is None else Checkpoint(folder, fresh=fresh)


def _delay(text: str) -> Any:
    """A number of decisions, or its distribution."""
    from tightrope.problem.distributions import outcome_from_toml
    from tightrope.problem.toml import table_of
    from tightrope.problem.values import at

    try:
        return float(text)
    except ValueError:
        if not text.lstrip().startswith("{"):
            return text
        with at("--delay"):
            return outcome_from_toml(table_of(f"delay = {text}")["delay"])


def _status(found: Sequence[tightrope.Results], wanted: int, folder: str | None) -> int:
    if all(results.complete for results in found):
        return 0
    where = f"; kept in {folder}, run the same command again to continue" if folder else ""
    finished = min(results.runs for results in found)
    say(f"interrupted: {finished} of {wanted} runs finished{where}")
    return stopped_status()
