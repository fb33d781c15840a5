"""``tightrope plan``: what a budget earns, at what risk, and what more of it is worth."""

from __future__ import annotations

import argparse
import sys
from contextlib import redirect_stdout
from typing import Any

from tightrope.errors import InputError
from tightrope.shell.commands import number, whole
from tightrope.shell.named import by_name
from tightrope.shell.saying import print_json, say

__all__ = ["add_plan"]


def plan(options: argparse.Namespace) -> int:
    """Say what a budget earns, how often limits are broken, and what more is worth."""
    from tightrope.data.planning import change_limits
    from tightrope.data.planning import plan as make
    from tightrope.policies import parse_policy
    from tightrope.problem.ready import load_problem
    from tightrope.report.plan import print_plan, require_report
    from tightrope.shell.saving import after_the_work

    problem = load_problem(options.problem)
    problem = change_limits(problem, by_name(options.limit, "--limit", problem.limit_names))
    for text in options.policy:
        if options.policy.count(text) > 1:
            raise InputError(f"--policy {text!r} is given twice; each must be different")
    if options.limit_name is not None and options.promise is None:
        raise InputError(f"--limit-name {options.limit_name}: must come with --promise RISK")
    if options.out is not None:
        require_report(options.out)
    with redirect_stdout(sys.stderr):  # a user's policy may print
        found = make(
            problem,
            {text: parse_policy(text) for text in options.policy} or None,
            budgets=options.budget,
            runs=options.runs,
            draws=options.draws,
            seed=options.seed,
            earn=options.earn,
            chance=options.chance,
            promise=options.promise,
            limit_name=options.limit_name,
            backend=options.backend,
            progress=False if options.quiet else None,
            fan=options.json or options.out is not None,
        )
    if options.json:
        print_json(found.summary())
    else:
        print_plan(found)
    if options.out is not None:
        with after_the_work():
            files = found.write(options.out)
        say(f"wrote {files[-1]} and {len(files) - 1} files beside it")
    return 0


def add_plan(commands: Any) -> None:
    """Add the command."""
    text = plan.__doc__ or ""
    parser = commands.add_parser("plan", help=text, description=text)
    parser.set_defaults(command=plan)
    parser.add_argument("--json", action="store_true", help="print JSON, nothing else")
    parser.add_argument("problem", metavar="PROBLEM", help="a ready problem's name or a TOML file")
    parser.add_argument(
        "--budget",
        type=number,
        action="append",
        required=True,
        metavar="B",
        help="in the problem's cost units; may be repeated",
    )
    parser.add_argument(
        "--limit",
        action="append",
        default=[],
        metavar="[NAME=]VALUE",
        help="another number for a limit; may be repeated",
    )
    parser.add_argument(
        "--policy",
        action="append",
        default=[],
        metavar="POLICY",
        help="may be repeated; default resolve, resolve:risk=0.01, ts-lp:update=true and lyon",
    )
    parser.add_argument(
        "--earn", type=number, metavar="REWARD", help="find the smallest budget that earns it"
    )
    parser.add_argument(
        "--chance", type=number, default=0.9, metavar="P", help="with this chance; default 0.9"
    )
    parser.add_argument(
        "--promise",
        type=number,
        metavar="RISK",
        help="find the tightest limit that is broken with at most this chance",
    )
    parser.add_argument("--limit-name", metavar="NAME", help="which limit, if there are several")
    parser.add_argument("--runs", type=whole, default=1000, metavar="N", help="default 1000")
    parser.add_argument(
        "--draws",
        type=whole,
        default=50,
        metavar="N",
        help="of the bootstrap over a log's rows; 0 takes the log as the truth; default 50",
    )
    parser.add_argument("--seed", type=whole, default=0, metavar="N", help="default 0")
    parser.add_argument("--quiet", action="store_true", help="no progress on standard error")
    parser.add_argument(
        "--backend", default="auto", help="auto, cpu, gpu, python, ray or ray:gpu; default auto"
    )
    parser.add_argument(
        "--out", metavar="FOLDER", help="write a page with fan charts, and its numbers, here"
    )
