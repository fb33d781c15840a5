"""The shell: ``tightrope simulate | oracle | theory | problems | policies | reproduce | fit``,
``tightrope tune | plan | replay | arena | campaign | serve | keys | demo | completion``.

Results go to standard output; progress, warnings and messages to standard error. Exit status: 0
done, 2 bad input (one line), 130 interrupted (Ctrl-C), 143 terminated, 1 anything else.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, redirect_stdout
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tightrope.errors import InputError, PolicyError, TightropeError
from tightrope.interrupts import not_dropped
from tightrope.names import in_text, one_line
from tightrope.shell.campaigns import CAMPAIGN
from tightrope.shell.commands import Argument, Group, called, complete
from tightrope.shell.demo import demo
from tightrope.shell.fitting import fit
from tightrope.shell.options import (
    Backend,
    Budget,
    Budgets,
    Folder,
    Fresh,
    Json,
    PolicyName,
    PolicyNames,
    ProblemName,
    ProblemNames,
    Quiet,
    Threads,
)
from tightrope.shell.planning import plan
from tightrope.shell.replaying import replay
from tightrope.shell.saying import answer, print_json, say
from tightrope.shell.serving import KEYS, serve

if TYPE_CHECKING:
    from tightrope.engine.checkpoint import Checkpoint
    from tightrope.paper import Reproduction
    from tightrope.policies import Policy
    from tightrope.problem import Problem
    from tightrope.results import Results

__all__ = ["COMMANDS", "main"]

POLICIES = ("lyoff", "lyon", "stationary")  # those that simulate takes by default


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit status."""
    if os.environ.get("COLUMNS", "").strip() == "0":
        del os.environ["COLUMNS"]  # 0 means that the width is unknown
    try:
        complete(COMMANDS)
        command = called(sys.argv[1:] if arguments is None else arguments, COMMANDS)
        with warnings.catch_warnings(), _terminable(), not_dropped("interrupted"):
            warnings.simplefilter("default", UserWarning)
            warnings.showwarning = _show_warning
            status = _run(command)
            sys.stdout.flush()
        return status
    except InputError as error:
        return _fail(error, 2)
    except TightropeError as error:
        return _fail(error, 1)
    except KeyboardInterrupt as stop:
        return _fail(str(stop) or "interrupted; nothing was finished", _interrupted())
    except BrokenPipeError:
        sys.stdout = None  # the reader has closed the pipe, so there is nothing to flush
        return 1
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EIO):
            raise
        sys.stdout = None
        return _fail(f"cannot write to standard output: {error.strerror}", 1)
    except Exception as error:
        place = _own_place(error)
        if place is None:
            raise  # our own bug: show the traceback
        return _fail(f"{place}: {type(error).__name__}: {error}", 1)


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


_signals: list[int] = []  # received signals that stop this process


@contextmanager
def _terminable() -> Iterator[None]:
    """Treat SIGTERM like Ctrl-C, so that finished runs are kept and reported."""

    def stop(number: int, frame: object) -> None:
        _signals.append(number)
        raise KeyboardInterrupt

    _signals.clear()
    try:
        before = signal.signal(signal.SIGTERM, stop)
    except ValueError:  # not in the main thread
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _interrupted() -> int:
    """The status of a command that was stopped: 128 plus the signal's number."""
    return 128 + (_signals[0] if _signals else signal.SIGINT)


def simulate(
    problem: ProblemNames,
    *,
    json: Json = False,
    policy: PolicyNames = (),
    budget: Budgets,
    runs: int = 1000,
    seed: int = 0,
    quiet: Quiet = False,
    backend: Backend = "auto",
    delay: str = "0",
    lost: float = 0.0,
    address: str | None = None,
    threads: Threads = None,
    save: str | None = None,
    checkpoint: str | None = None,
    fresh: Fresh = False,
) -> int:
    """Run policies on problems and print a row per policy and budget.

    problem: ready problems' names or TOML files
    policy: default lyoff, lyon and stationary
    delay N|LAW: decisions before an outcome is told, or a law such as '{ uniform = [0, 100] }'
    lost SHARE: of outcomes, never told
    address HOST:PORT: the Ray cluster to join; default RAY_ADDRESS
    save FILE: also write the runs to a file
    checkpoint FOLDER: keep finished runs here during the work; default FILE.parts
    """
    from tightrope.engine.simulation import simulate as run

    folder = _folder(problem, save, checkpoint, fresh)
    with _keeping(folder), _store(folder, fresh) as store:
        with redirect_stdout(sys.stderr):  # a user's policy may print
            found = run(
                problem,
                policy or POLICIES,
                budgets=budget,
                runs=runs,
                seed=seed,
                backend=backend,
                progress=False if quiet else None,
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
    _print_rows(rows, json)
    status = _status(list(found.values()), runs, folder)
    return status if saved else 1


def _folder(
    problems: Sequence[str], save: str | None, checkpoint: str | None, fresh: bool
) -> str | None:
    """Where finished runs are kept; raises if the options do not fit together."""
    from tightrope.files import require_writable

    if save and len(problems) > 1:
        raise InputError(f"--save {save}: takes one problem, not {len(problems)}")
    if save is not None:
        require_writable(save)
    folder = checkpoint or (f"{save}.parts" if save else None)
    if fresh and not folder:
        raise InputError("--fresh: must come with --save FILE or --checkpoint FOLDER")
    return folder


def _saved(results: Results, path: str, store: Checkpoint | None, kept: bool) -> bool:
    """Write the runs to the file; ``kept``: the store stays. Returns whether that worked."""
    from tightrope.shell.saving import keep

    if store and store.keeps and not results.complete:
        return True  # the same command continues from there
    saved = keep(results, path)
    if store and saved and results.complete and not kept:
        store.remove()
    return saved


@contextmanager
def _keeping(folder: str | None) -> Iterator[None]:
    """Say where finished runs are if Ctrl-C comes while they are written."""
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


def oracle(problem: ProblemName, *, json: Json = False, budget: float | None = None) -> int:
    """Print pi*, the best stationary policy, and the exact optimum over all policies.

    budget B: print the exact optimum too
    """
    from tightrope.optimum.exact import optimum
    from tightrope.optimum.pi_star import Oracle, oracle_of_phases
    from tightrope.optimum.pi_star import oracle as solve
    from tightrope.problem.ready import load_problem

    loaded = load_problem(problem)

    def described(best: Oracle) -> dict[str, Any]:
        return {
            "reward_rate": best.reward_rate,
            "penalty_rate": _one_or_list(best.penalty_rate),
            "penalty_rates": _by_limit(loaded, best.penalty_rate),
            "multiplier": _one_or_list(best.multiplier),
            "multipliers": _by_limit(loaded, best.multiplier),
            "pull_share": [float(share) for share in best.pull_share],
            "cost_share": [float(share) for share in best.cost_share],
        }

    if loaded.changes:
        row = _over_phases(loaded, [described(one) for one in oracle_of_phases(loaded)])
    else:
        row = described(solve(loaded, budget))
    if budget is not None:
        row["optimum"] = optimum(loaded, budget)
    if json:
        print_json(row)
    else:
        from tightrope.report.table import print_oracle

        print_oracle(loaded, row, budget)
    return 0


def _over_phases(problem: Problem, best: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The best mixture of each phase of a problem whose arms change, and the overall rates."""

    def mean(rates: Sequence[Any]) -> Any:
        if isinstance(rates[0], list):
            return [mean(column) for column in zip(*rates, strict=True)]
        if isinstance(rates[0], dict):
            return {name: mean([one[name] for one in rates]) for name in rates[0]}
        return sum(p.share * rate for p, rate in zip(problem.phases, rates, strict=True))

    rows = [{"start": p.start, **one} for p, one in zip(problem.phases, best, strict=True)]
    rates = ("reward_rate", "penalty_rate", "penalty_rates")
    return {
        **{key: mean([one[key] for one in best]) for key in rates},
        **{key: best[0][key] for key in ("multiplier", "multipliers")},
        "phases": rows,
    }


def theory(
    problem: ProblemName,
    *,
    json: Json = False,
    budget: Budget,
    v0: float = 1.0,
    delta0: float = 0.5,
    alpha: float = 2.0,
) -> int:
    """Print the paper's bounds for a problem, and the budget from which each is nontrivial."""
    from dataclasses import asdict

    from tightrope.formats import finite
    from tightrope.optimum.pi_star import at_budget
    from tightrope.problem.ready import load_problem
    from tightrope.theory.bounds import bounds, learning_bounds

    loaded = at_budget(load_problem(problem), budget)
    if loaded.penalty_count == 1 and not loaded.not_per_cost:
        found = bounds(loaded, budget, v0, delta0, alpha)
    else:
        found = learning_bounds(loaded, budget)
    rows = finite([asdict(bound) for bound in found])
    if json:
        print_json(rows)
        return 0
    from tightrope.report.table import print_theory

    print_theory(rows, budget)
    for line in dict.fromkeys(bound.obstacle for bound in found if bound.obstacle):
        print(line)
    if loaded.penalty_count != 1:
        print(f"penalties = {loaded.penalty_count}: the paper's bounds are for exactly one limit")
    elif loaded.not_per_cost:
        print(f"{loaded.not_per_cost}: the paper's bounds are for a limit per unit of cost")
    return 0


def problems(name: ProblemName | None = None, *, json: Json = False) -> int:
    """List the ready problems, or show one as TOML.

    name NAME: show this one as TOML
    """
    from tightrope.problem import table_of
    from tightrope.problem.ready import load_problem, ready_names

    if name:
        text = load_problem(name).outline
        if json:
            print_json(table_of(text))
        else:
            print(text, end="")
        return 0
    return answer(json, dict(ready_names()), lambda: _print_pairs(ready_names().items()))


def policies(name: PolicyName | None = None, *, json: Json = False) -> int:
    """List the policies with their parameters and defaults, or explain one.

    name NAME: explain this one's parameters
    """
    from tightrope.policies import POLICIES
    from tightrope.policies.naming import policy_class
    from tightrope.shell.describing import describe, lines

    if name:
        kind = policy_class(name)
        return answer(json, describe(kind), lambda: print(*lines(kind), sep="\n"))
    listed = {name: _facts(kind) for name, kind in POLICIES.items()}
    if json:
        print_json(listed)
        return 0
    for name, facts in listed.items():
        print(f"{name}: {facts['summary']}")
        if facts["knows"]:
            print(f"    knows the {facts['knows']}")
        for parameter, default in facts["parameters"].items():
            print(f"    {parameter} = {'none' if default is None else default}")
    return 0


def _facts(kind: type[Policy]) -> dict[str, Any]:
    from dataclasses import fields

    parameters = {field.name: field.default for field in fields(kind)}  # type: ignore[arg-type]
    return {"summary": kind.summary, "knows": kind().knows, "parameters": parameters}


def completion(shell: Literal["bash", "zsh", "fish"], *, json: Json = False) -> int:
    """Print the lines for a shell's start-up file that complete commands, problems and policies.

    shell SHELL: bash, zsh, fish
    """
    try:
        from argcomplete.shell_integration import shellcode
    except ImportError:
        raise InputError(
            "completion needs argcomplete, which is not installed; pip install argcomplete"
        ) from None
    script = str(shellcode(["tightrope"], shell=shell))
    return answer(json, {"shell": shell, "script": script}, lambda: print(script))


def _experiments(**_: Any) -> list[str]:
    return ["all", "fig1", "fig2", "fig3", "fig4", "fig5", "erratum"]


def reproduce(
    experiment: Annotated[str, Argument(completer=_experiments)] = "all",
    *,
    json: Json = False,
    runs: int = 1000,
    seed: int = 0,
    quiet: Quiet = False,
    backend: Backend = "auto",
    out: Folder = "out",
    fresh: Fresh = False,
) -> int:
    """Run the paper's experiments and write figures, tables and one page about them.

    experiment: fig1 to fig5 or erratum
    """
    from tightrope.paper import reproduce as run

    report = run(
        experiment,
        runs=runs,
        seed=seed,
        out=out,
        progress=False if quiet else None,
        fresh=fresh,
        backend=backend,
    )
    answer(json, report.rows, lambda: _print_report(report))
    shown = [str(path) for path in report.files]
    few = shown if len(report.findings) == 1 else [shown[-1], f"{len(shown) - 1} files beside it"]
    say(f"wrote {', '.join(few)}")
    return 0


def tune(
    problem: ProblemName,
    *,
    json: Json = False,
    budget: Budget,
    policy: PolicyName = "lyon",
    max_violation: float = 0.0,
    runs: int = 1000,
    seed: int = 0,
    quiet: Quiet = False,
    out: str = "frontier",
    fresh: Fresh = False,
) -> int:
    """Find v0 and delta0 for a problem and a budget, and draw reward against violation.

    policy: one with v0 and delta0
    max_violation D: in penalty per unit of budget above the limit
    out NAME: write figures NAME.png and NAME.svg
    """
    from tightrope.arena.tuning import tune as search
    from tightrope.files import require_writable
    from tightrope.policies import parse_policy
    from tightrope.problem.ready import load_problem
    from tightrope.report.figures import draw, save
    from tightrope.shell.saving import after_the_work

    for kind in ("png", "svg"):
        require_writable(f"{out}.{kind}")
    found = search(
        load_problem(problem),
        parse_policy(policy),
        budget=budget,
        max_violation=max_violation,
        runs=runs,
        seed=seed,
        progress=False if quiet else None,
        checkpoint=f"{out}.parts",
        fresh=fresh,
    )
    row = {**found.chosen.as_dict(), "feasible": found.feasible, "settings": len(found.rows)}
    _print_rows([row], json)
    with after_the_work():
        files = save(draw(found.panels(), columns=2), out)
    if not found.feasible:
        say(f"no setting keeps the violation at or below {max_violation:g}; this one is nearest")
    with _store(f"{out}.parts", fresh=True):  # delete what is left there
        pass
    say(f"wrote {', '.join(str(path) for path in files)}")
    return 0 if found.feasible else 1


def arena(
    *,
    json: Json = False,
    problem: ProblemNames = (),
    policy: PolicyNames = (),
    budget: Sequence[float] = (),
    runs: int = 75,
    seed: int = 0,
    quiet: Quiet = False,
    backend: Backend = "auto",
    threads: Threads = None,
    processes: Annotated[int | None, Argument(hidden=True)] = None,
    out: Folder = "out",
    fresh: Fresh = False,
) -> int:
    """Rank policies against each other on many problems, and write a page about it.

    problem: a ready problem's name or a TOML file; default all of them
    policy: default all that take part
    budget B: in units of the largest cost of one pull; default 100, 10^3, 10^4
    """
    from tightrope.arena.contest import arena as run

    if processes is not None:
        _show_warning("--processes means --threads now, and goes with version 0.4")
    with redirect_stdout(sys.stderr):  # a user's policy may print
        found = run(
            problem,
            policy,
            budget,
            runs=runs,
            seed=seed,
            out=out,
            progress=False if quiet else None,
            backend=backend,
            fresh=fresh,
            threads=processes if threads is None else threads,
        )
    if json:
        print_json(found.summary())
    else:
        print(f"at a budget of {found.budget:,g} times the largest cost of one pull:")
        _print_pairs(found.verdicts.items())
    say(f"wrote {', '.join(str(path) for path in found.files)}")
    return 0


COMMANDS = Group(
    "tightrope",
    "Decisions under a budget and a promise: constrained budgeted bandits.",
    *(simulate, oracle, theory, problems, policies, reproduce, fit, tune, plan, arena, replay),
    *(CAMPAIGN, serve, KEYS, demo, completion),
)


def _delay(text: str) -> Any:
    """A number of decisions, or a law of it."""
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


def _one_or_list(values: Sequence[float]) -> float | list[float]:
    numbers = [float(value) for value in values]
    return numbers[0] if len(numbers) == 1 else numbers


def _by_limit(problem: Problem, values: Sequence[float]) -> dict[str, float]:
    """Numbers, given in the order of the limits, keyed by the limits' names."""
    return {name: float(v) for name, v in zip(problem.limit_names, values, strict=True)}


def _print_rows(rows: Sequence[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        print_json(rows)
    else:
        from tightrope.report.table import print_rows

        print_rows(rows)


def _print_report(report: Reproduction) -> None:
    """Print one experiment's rows, or a line per experiment; then the claims."""
    from tightrope.report.table import print_rows
    from tightrope.report.verdicts import print_verdicts

    if len(report.findings) == 1:
        print_rows(report.findings[0].evidence.rows)
    else:
        titles = [(one.experiment.name, one.experiment.title) for one in report.findings]
        _print_pairs(titles)
    if report.claims:
        print_verdicts(report.claims)


def _print_pairs(pairs: Any) -> None:
    listed = [(name, text) for name, text in pairs]
    width = max(len(name) for name, _ in listed)
    for name, text in listed:
        print(in_text(f"{name:{width}}  {text}"))


def _status(found: Sequence[Results], wanted: int, folder: str | None) -> int:
    if all(results.complete for results in found):
        return 0
    where = f"; kept in {folder}, run the same command again to continue" if folder else ""
    finished = min(results.runs for results in found)
    print(f"interrupted: {finished} of {wanted} runs finished{where}", file=sys.stderr)
    return _interrupted()


def _fail(error: object, status: int) -> int:
    print(in_text(f"tightrope: {one_line(error)}"), file=sys.stderr)
    return status


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    print(in_text(f"warning: {one_line(message)}"), file=sys.stderr)
