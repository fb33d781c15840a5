"""The shell: ``tightrope simulate | oracle | theory | problems | policies | reproduce | fit``,
``tightrope tune | plan | replay | arena | campaign | serve | keys | demo | completion``.

Results go to standard output; progress, warnings and messages to standard error. Exit status: 0
done, 2 bad input (one line), 130 interrupted (Ctrl-C), 143 terminated, 1 anything else.
"""

from __future__ import annotations

import argparse
import errno
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, redirect_stdout
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn

from tightrope.errors import InputError, PolicyError, TightropeError
from tightrope.interrupts import not_dropped
from tightrope.names import in_text, one_line
from tightrope.shell.campaigns import add_campaign
from tightrope.shell.commands import (
    SHELLS,
    HelpOfCommands,
    arranged,
    complete,
    number,
    require_command,
    require_options,
    whole,
    without_own_name,
)
from tightrope.shell.demo import add_demo
from tightrope.shell.fitting import add_fit
from tightrope.shell.planning import add_plan
from tightrope.shell.replaying import add_replay
from tightrope.shell.saying import print_json, say
from tightrope.shell.serving import add_keys, add_serve
from tightrope.version import __version__

if TYPE_CHECKING:
    from tightrope.engine.checkpoint import Checkpoint
    from tightrope.paper import Reproduction
    from tightrope.policies import Policy
    from tightrope.problem import Problem
    from tightrope.results import Results

__all__ = ["main"]

POLICY = "NAME[:PARAMETER=VALUE,...]|FILE.py:CLASS|MODULE:CLASS"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit status."""
    if os.environ.get("COLUMNS", "").strip() == "0":
        del os.environ["COLUMNS"]  # 0 means that the width is unknown
    try:
        complete(_parser)
        given = sys.argv[1:] if arguments is None else list(arguments)
        parser = _parser()
        require_command(given, parser.commands)
        require_options(given, parser.commands)
        options = parser.parse_args(arranged(given, parser.commands))
        with warnings.catch_warnings(), _terminable(), not_dropped("interrupted"):
            warnings.simplefilter("default", UserWarning)
            warnings.showwarning = _show_warning
            status = _run(options)
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


def _run(options: argparse.Namespace) -> int:
    """The command's status, also if a user's policy calls sys.exit."""
    try:
        status: int = options.command(options)
    except SystemExit as error:
        if isinstance(error.__context__, BrokenPipeError):  # rich's way to say it
            raise error.__context__ from None
        text = f"a policy ended the program by sys.exit({error.code!r})"
        raise PolicyError(text) from error
    return status


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


def simulate(options: argparse.Namespace) -> int:
    """Run policies on problems and print a row per policy and budget."""
    from tightrope.engine.simulation import Request, Settings, make
    from tightrope.files import require_writable
    from tightrope.shell.saving import keep

    problems, policies = _problems(options.problem), _policies(options.policy)
    if options.save and len(problems) > 1:
        raise InputError(f"--save {options.save}: takes one problem, not {len(problems)}")
    if options.save is not None:
        require_writable(options.save)
    folder = options.checkpoint or (f"{options.save}.parts" if options.save else None)
    if options.fresh and not folder:
        raise InputError("--fresh: must come with --save FILE or --checkpoint FOLDER")
    settings = Settings(
        seed=options.seed,
        backend=options.backend,
        threads=options.threads,
        address=options.address,
        progress=False if options.quiet else None,
        delays=_delays(options.delay, options.lost),
    )
    requests = [
        Request.checked(one, policies, options.budget, options.runs, options.backend)
        for one in problems.values()
    ]
    with _keeping(folder), _store(folder, options.fresh) as store:
        with redirect_stdout(sys.stderr):  # a user's policy may print
            found, saved = make(requests, settings, store), True
        if options.save and (found[0].complete or not (store and store.keeps)):
            saved = keep(found[0], options.save)
            if store and saved and found[0].complete and not options.checkpoint:
                store.remove()
    rows = [
        {"problem": name, **row} if len(problems) > 1 else row
        for name, results in zip(problems, found, strict=True)
        for row in results.summary()
    ]
    _print_rows(rows, options.json)
    status = _status(found, options.runs, folder)
    return status if saved else 1


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


def _problems(names: Sequence[str]) -> dict[str, Problem]:
    from tightrope.problem.ready import load_problem

    _require_distinct("PROBLEM", names)
    return {name: load_problem(name) for name in names}


def _policies(texts: Sequence[str]) -> dict[str, Policy]:
    from tightrope.policies import parse_policy

    _require_distinct("--policy", texts)
    return {text: parse_policy(text) for text in texts or ("lyoff", "lyon", "stationary")}


def _store(folder: str | None, fresh: bool) -> AbstractContextManager[Checkpoint | None]:
    from tightrope.engine.checkpoint import Checkpoint

    return nullcontext() if folder is None else Checkpoint(folder, fresh=fresh)


def oracle(options: argparse.Namespace) -> int:
    """Print pi*, the best stationary policy, and the exact optimum over all policies."""
    from tightrope.optimum.exact import optimum
    from tightrope.optimum.pi_star import Oracle, oracle_of_phases
    from tightrope.optimum.pi_star import oracle as solve
    from tightrope.problem.ready import load_problem

    problem = load_problem(options.problem)

    def described(best: Oracle) -> dict[str, Any]:
        return {
            "reward_rate": best.reward_rate,
            "penalty_rate": _one_or_list(best.penalty_rate),
            "penalty_rates": _by_limit(problem, best.penalty_rate),
            "multiplier": _one_or_list(best.multiplier),
            "multipliers": _by_limit(problem, best.multiplier),
            "pull_share": [float(share) for share in best.pull_share],
            "cost_share": [float(share) for share in best.cost_share],
        }

    if problem.changes:
        row = _over_phases(problem, [described(one) for one in oracle_of_phases(problem)])
    else:
        row = described(solve(problem, options.budget))
    if options.budget is not None:
        row["optimum"] = optimum(problem, options.budget)
    if options.json:
        print_json(row)
    else:
        from tightrope.report.table import print_oracle

        print_oracle(problem, row, options.budget)
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


def theory(options: argparse.Namespace) -> int:
    """Print the paper's bounds for a problem, and the budget from which each is nontrivial."""
    from dataclasses import asdict

    from tightrope.formats import finite
    from tightrope.optimum.pi_star import at_budget
    from tightrope.problem.ready import load_problem
    from tightrope.theory.bounds import bounds, learning_bounds

    problem = at_budget(load_problem(options.problem), options.budget)
    if problem.penalty_count == 1 and not problem.not_per_cost:
        found = bounds(problem, options.budget, options.v0, options.delta0, options.alpha)
    else:
        found = learning_bounds(problem, options.budget)
    rows = finite([asdict(bound) for bound in found])
    if options.json:
        print_json(rows)
        return 0
    from tightrope.report.table import print_theory

    print_theory(rows, options.budget)
    for line in dict.fromkeys(bound.obstacle for bound in found if bound.obstacle):
        print(line)
    if problem.penalty_count != 1:
        print(f"penalties = {problem.penalty_count}: the paper's bounds are for exactly one limit")
    elif problem.not_per_cost:
        print(f"{problem.not_per_cost}: the paper's bounds are for a limit per unit of cost")
    return 0


def problems(options: argparse.Namespace) -> int:
    """List the ready problems, or show one as TOML."""
    from tightrope.problem import table_of
    from tightrope.problem.ready import load_problem, ready_names

    if options.name:
        text = load_problem(options.name).outline
        if options.json:
            print_json(table_of(text))
        else:
            print(text, end="")
    elif options.json:
        print_json(dict(ready_names()))
    else:
        _print_pairs(ready_names().items())
    return 0


def policies(options: argparse.Namespace) -> int:
    """List the policies with their parameters and defaults, or explain one."""
    from dataclasses import fields

    from tightrope.policies import POLICIES

    if options.name:
        return _explain(options.name, options.json)
    listed = {
        name: {
            "summary": policy.summary,
            "knows": _knows(name),
            "parameters": {field.name: field.default for field in fields(policy)},  # type: ignore[arg-type]
        }
        for name, policy in POLICIES.items()
    }
    if options.json:
        print_json(listed)
        return 0
    for name, facts in listed.items():
        print(f"{name}: {facts['summary']}")
        if facts["knows"]:
            print(f"    knows the {facts['knows']}")
        for parameter, default in facts["parameters"].items():  # type: ignore[attr-defined]
            print(f"    {parameter} = {'none' if default is None else default}")
    return 0


def _explain(name: str, as_json: bool) -> int:
    """Print the meaning, default and allowed values of each parameter of a policy."""
    from tightrope.policies.naming import policy_class
    from tightrope.shell.describing import describe, lines

    if as_json:
        print_json(describe(policy_class(name)))
    else:
        for line in lines(policy_class(name)):
            print(line)
    return 0


def completion(options: argparse.Namespace) -> int:
    """Print the lines for a shell's start-up file that complete commands, problems and policies."""
    from tightrope.shell.commands import completion_script

    script = completion_script(options.shell)
    if options.json:
        print_json({"shell": options.shell, "script": script})
    else:
        print(script)
    return 0


def reproduce(options: argparse.Namespace) -> int:
    """Run the paper's experiments and write figures, tables and one page about them."""
    from tightrope.paper import reproduce as run

    report = run(
        options.experiment,
        runs=options.runs,
        seed=options.seed,
        out=options.out,
        progress=False if options.quiet else None,
        fresh=options.fresh,
        backend=options.backend,
    )
    if options.json:
        print_json(report.rows)
    else:
        _print_report(report)
    shown = [str(path) for path in report.files]
    few = shown if len(report.findings) == 1 else [shown[-1], f"{len(shown) - 1} files beside it"]
    say(f"wrote {', '.join(few)}")
    return 0


def tune(options: argparse.Namespace) -> int:
    """Find v0 and delta0 for a problem and a budget, and draw reward against violation."""
    from tightrope.arena.tuning import tune as search
    from tightrope.files import require_writable
    from tightrope.policies import parse_policy
    from tightrope.problem.ready import load_problem
    from tightrope.report.figures import draw, save
    from tightrope.shell.saving import after_the_work

    for kind in ("png", "svg"):
        require_writable(f"{options.out}.{kind}")
    found = search(
        load_problem(options.problem),
        parse_policy(options.policy),
        budget=options.budget,
        max_violation=options.max_violation,
        runs=options.runs,
        seed=options.seed,
        progress=False if options.quiet else None,
        checkpoint=f"{options.out}.parts",
        fresh=options.fresh,
    )
    row = {**found.chosen.as_dict(), "feasible": found.feasible, "settings": len(found.rows)}
    _print_rows([row], options.json)
    with after_the_work():
        files = save(draw(found.panels(), columns=2), options.out)
    if not found.feasible:
        allowed = options.max_violation
        print(
            f"no setting keeps the violation at or below {allowed:g}; this one is nearest",
            file=sys.stderr,
        )
    with _store(f"{options.out}.parts", fresh=True):  # delete what is left there
        pass
    say(f"wrote {', '.join(str(path) for path in files)}")
    return 0 if found.feasible else 1


def arena(options: argparse.Namespace) -> int:
    """Rank policies against each other on many problems, and write a page about it."""
    from tightrope.arena.contest import arena as run

    if options.processes is not None:
        _show_warning("--processes means --threads now, and goes with version 0.4")
    with redirect_stdout(sys.stderr):  # a user's policy may print
        found = run(
            options.problem,
            options.policy,
            options.budget,
            runs=options.runs,
            seed=options.seed,
            out=options.out,
            progress=False if options.quiet else None,
            backend=options.backend,
            fresh=options.fresh,
            threads=options.processes if options.threads is None else options.threads,
        )
    if options.json:
        print_json(found.summary())
    else:
        print(f"at a budget of {found.budget:,g} times the largest cost of one pull:")
        _print_pairs(found.verdicts.items())
    say(f"wrote {', '.join(str(path) for path in found.files)}")
    return 0


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    commands: Mapping[str, argparse.ArgumentParser] = MappingProxyType({})

    def error(self, message: str) -> NoReturn:
        command = without_own_name(self.prog)
        raise InputError(f"{command}{message}; see {command.replace(': ', ' ')}--help")


def _parser() -> _Parser:
    parser = _Parser(
        prog="tightrope",
        description="Decisions under a budget and a promise: constrained budgeted bandits.",
        formatter_class=HelpOfCommands,
    )
    parser.add_argument("--version", action="version", version=f"tightrope {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _add_simulate(commands)
    _add_oracle(commands)
    _add_theory(commands)
    _add_problems(commands)
    _add_policies(commands)
    _add_reproduce(commands)
    add_fit(commands)
    _add_tune(commands)
    add_plan(commands)
    _add_arena(commands)
    add_replay(commands)
    add_campaign(commands)
    add_serve(commands)
    add_keys(commands)
    add_demo(commands)
    _add_completion(commands)
    parser.commands = commands.choices
    return parser


def _add(commands: Any, command: Callable[[argparse.Namespace], int]) -> argparse.ArgumentParser:
    text = command.__doc__ or ""
    parser: argparse.ArgumentParser = commands.add_parser(
        command.__name__, help=text, description=text
    )
    parser.set_defaults(command=command)
    parser.add_argument("--json", action="store_true", help="print JSON, nothing else")
    return parser


def _add_fresh(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--fresh", action="store_true", help="start again instead of continuing interrupted work"
    )
    parser.add_argument("--resume", action="store_true", help=argparse.SUPPRESS)  # the default


def _add_problem(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("problem", metavar="PROBLEM", help="a ready problem's name or a TOML file")


def _add_runs(parser: argparse.ArgumentParser, runs: int) -> None:
    parser.add_argument("--runs", type=whole, default=runs, metavar="N", help=f"default {runs}")
    parser.add_argument("--seed", type=whole, default=0, metavar="N", help="default 0")
    parser.add_argument("--quiet", action="store_true", help="no progress on standard error")


def _delays(delay: str, lost: float) -> Any:
    """The delays that the options describe."""
    from tightrope.engine.delays import delays_of
    from tightrope.problem.laws import at, outcome_from_toml
    from tightrope.problem.toml import table_of

    given: Any = delay
    try:
        given = float(delay)
    except ValueError:
        if delay.lstrip().startswith("{"):
            with at("--delay"):
                given = outcome_from_toml(table_of(f"delay = {delay}")["delay"])
    return delays_of(given, lost)


def _add_backend(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--backend", default="auto", help="auto, cpu, gpu, python, ray or ray:gpu; default auto"
    )


def _add_simulate(commands: Any) -> None:
    parser = _add(commands, simulate)
    parser.add_argument(
        "problem", nargs="+", metavar="PROBLEM", help="ready problems' names or TOML files"
    )
    parser.add_argument(
        "--policy",
        action="append",
        default=[],
        metavar=POLICY,
        help="may be repeated; default lyoff, lyon and stationary",
    )
    parser.add_argument(
        "--budget",
        type=number,
        action="append",
        required=True,
        metavar="B",
        help="in the problem's cost units; may be repeated",
    )
    _add_runs(parser, 1000)
    _add_backend(parser)
    parser.add_argument(
        "--delay",
        default="0",
        metavar="N|LAW",
        help="decisions before an outcome is told, or a law such as '{ uniform = [0, 100] }'",
    )
    parser.add_argument(
        "--lost", type=number, default=0.0, metavar="SHARE", help="of outcomes, never told"
    )
    parser.add_argument(
        "--address", metavar="HOST:PORT", help="the Ray cluster to join; default RAY_ADDRESS"
    )
    parser.add_argument("--threads", type=whole, metavar="N", help="default all processors")
    parser.add_argument("--save", metavar="FILE", help="also write the runs to a file")
    parser.add_argument(
        "--checkpoint",
        metavar="FOLDER",
        help="keep finished runs here during the work; default FILE.parts",
    )
    _add_fresh(parser)


def _add_oracle(commands: Any) -> None:
    parser = _add(commands, oracle)
    _add_problem(parser)
    parser.add_argument("--budget", type=number, metavar="B", help="print the exact optimum too")


def _add_theory(commands: Any) -> None:
    parser = _add(commands, theory)
    _add_problem(parser)
    parser.add_argument(
        "--budget", type=number, required=True, metavar="B", help="in the problem's cost units"
    )
    parser.add_argument("--v0", type=number, default=1.0, metavar="X", help="default 1")
    parser.add_argument("--delta0", type=number, default=0.5, metavar="X", help="default 0.5")
    parser.add_argument("--alpha", type=number, default=2.0, metavar="X", help="default 2")


def _add_problems(commands: Any) -> None:
    parser = _add(commands, problems)
    parser.add_argument("name", nargs="?", metavar="NAME", help="show this one as TOML")


def _add_policies(commands: Any) -> None:
    parser = _add(commands, policies)
    parser.add_argument("name", nargs="?", metavar="NAME", help="explain this one's parameters")


def _add_completion(commands: Any) -> None:
    parser = _add(commands, completion)
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help=", ".join(SHELLS))


def _add_reproduce(commands: Any) -> None:
    parser = _add(commands, reproduce)
    parser.add_argument(
        "experiment",
        nargs="?",
        default="all",
        metavar="EXPERIMENT",
        help="fig1 to fig5 or erratum; default all",
    )
    _add_runs(parser, 1000)
    _add_backend(parser)
    parser.add_argument("--out", default="out", metavar="FOLDER", help="default out")
    _add_fresh(parser)


def _add_tune(commands: Any) -> None:
    parser = _add(commands, tune)
    _add_problem(parser)
    parser.add_argument("--budget", type=number, required=True, metavar="B")
    parser.add_argument(
        "--policy", default="lyon", metavar=POLICY, help="one with v0 and delta0; default lyon"
    )
    parser.add_argument(
        "--max-violation",
        type=number,
        default=0.0,
        metavar="D",
        help="in penalty per unit of budget above the limit; default 0",
    )
    _add_runs(parser, 1000)
    parser.add_argument(
        "--out",
        default="frontier",
        metavar="NAME",
        help="write figures NAME.png and NAME.svg; default frontier",
    )
    _add_fresh(parser)


def _add_arena(commands: Any) -> None:
    parser = _add(commands, arena)
    parser.add_argument(
        "--problem",
        action="append",
        default=[],
        metavar="PROBLEM",
        help="a ready problem's name or a TOML file; may be repeated; default all of them",
    )
    parser.add_argument(
        "--policy",
        action="append",
        default=[],
        metavar=POLICY,
        help="may be repeated; default all that take part",
    )
    parser.add_argument(
        "--budget",
        type=number,
        action="append",
        default=[],
        metavar="B",
        help="in units of the largest cost of one pull; may be repeated; default 100, 10^3, 10^4",
    )
    _add_runs(parser, 75)
    _add_backend(parser)
    parser.add_argument("--threads", type=whole, metavar="N", help="default all processors")
    parser.add_argument("--processes", type=whole, help=argparse.SUPPRESS)  # its former name
    parser.add_argument("--out", default="out", metavar="FOLDER", help="default out")
    _add_fresh(parser)


def _require_distinct(option: str, texts: Sequence[str]) -> None:
    for text in texts:
        if texts.count(text) > 1:
            raise InputError(f"{option} {text!r} is given twice; each must be different")


def _one_or_list(values: Sequence[float]) -> float | list[float]:
    numbers = [float(value) for value in values]
    return numbers[0] if len(numbers) == 1 else numbers


def _by_limit(problem: Problem, values: Sequence[float]) -> dict[str, float]:
    """Numbers, given in the order of the limits, keyed by the limits' names."""
    return {name: float(v) for name, v in zip(problem.limit_names, values, strict=True)}


def _knows(name: str) -> str:
    """What a policy with default parameters is told about the arms; "" for nothing."""
    from tightrope.policies import parse_policy

    return parse_policy(name).knows


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
