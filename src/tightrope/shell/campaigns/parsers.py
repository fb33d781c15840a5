"""The parsers of ``tightrope campaign``: its commands, their options and their help."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from tightrope.shell.campaigns import changing, deciding, looking
from tightrope.shell.commands import HelpOfCommands, number, whole
from tightrope.shell.named import named

__all__ = ["add_campaign"]

POLICY = "NAME[:PARAMETER=VALUE,...]|FILE.py:CLASS|MODULE:CLASS"
SUMMARY = "Run a live campaign: ask which arm to pull, tell what came of it."
DESCRIPTION = f"""\
{SUMMARY}
It is kept in a store, which any number of processes may use at once. What a
command reports as done survives a crash.

  tightrope campaign create router.db november --task task.toml --budget 50
  tightrope campaign ask router.db november
  tightrope campaign tell router.db november 1-00000001 --cost 0.3 --reward 1 \\
      --penalty bad=0
  tightrope campaign status router.db november
"""
Command = Callable[[argparse.Namespace], int]


def add_campaign(commands: Any) -> None:
    """Add the group of commands."""
    parser = commands.add_parser(
        "campaign",
        help=SUMMARY,
        description=DESCRIPTION,
        formatter_class=HelpOfCommands,
    )
    inner = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _add_create(inner)
    _add_decisions(inner)
    _add_looks(inner)
    _add_changes(inner)
    _add_keeping(inner)
    parser.commands = inner.choices


def _add(
    commands: Any, command: Command, *, name: str = "", campaign: bool = True, store: bool = True
) -> argparse.ArgumentParser:
    text = command.__doc__ or ""
    parser: argparse.ArgumentParser = commands.add_parser(
        name or command.__name__.replace("_", "-"), help=text, description=text
    )
    parser.set_defaults(command=command)
    if store:
        parser.add_argument(
            "store", metavar="STORE", help="a SQLite file, or postgresql://USER@HOST/DATABASE"
        )
    if campaign:
        parser.add_argument("campaign", metavar="NAME", help="the campaign's name")
    parser.add_argument("--json", action="store_true", help="print JSON, nothing else")
    return parser


def _add_create(commands: Any) -> None:
    parser = _add(commands, deciding.create)
    parser.add_argument(
        "--task",
        required=True,
        metavar="FILE",
        help="a task's TOML file, or a problem's, or a ready problem's name: its task is taken",
    )
    parser.add_argument(
        "--budget", type=number, required=True, metavar="B", help="in the task's cost units"
    )
    parser.add_argument("--policy", metavar=POLICY, help="default resolve")
    parser.add_argument(
        "--stop",
        default="hard",
        choices=("hard", "paper"),
        metavar="hard|paper",
        help="hard reserves each arm's largest cost and never overspends; paper ends after the"
        " first crossing; default hard",
    )
    parser.add_argument(
        "--seed", type=whole, default=0, metavar="N", help="for policies that toss coins; default 0"
    )
    parser.add_argument(
        "--expire-after",
        type=number,
        default=86400.0,
        metavar="SECONDS",
        help="how long a ticket is waited for; default 86400, a day",
    )
    parser.add_argument(
        "--release",
        choices=("even",),
        metavar="even",
        help="release the budget evenly between --starts and --ends",
    )
    for name in ("starts", "ends"):
        parser.add_argument(
            f"--{name}", metavar="DATE", help="such as 2026-11-01T00:00:00+00:00; default zone UTC"
        )
    parser.add_argument(
        "--per-day", type=number, metavar="X", help="spend at most so much in one day of UTC"
    )
    parser.add_argument(
        "--shadow", action="store_true", help="decide only: another system acts, tells train"
    )


def _add_decisions(commands: Any) -> None:
    parser = _add(commands, deciding.ask)
    parser.add_argument("--id", metavar="ID", help="your own id for this decision")
    parser.add_argument(
        "--eligible",
        nargs="+",
        action="extend",
        metavar="ARM",
        help="the arms that may be pulled this time, by name or number; default all",
    )
    parser.add_argument(
        "--count", type=whole, metavar="N", help="so many tickets at once; fewer if the budget ends"
    )
    parser.add_argument(
        "--expire-after",
        type=number,
        metavar="SECONDS",
        help="how long to wait for its report; default as the campaign's",
    )
    parser = _add(commands, deciding.tell)
    _add_ticket(parser)
    _add_outcome(parser)
    parser.add_argument(
        "--arm", metavar="ARM", help="the arm that was pulled, in a campaign with --shadow"
    )
    _add_ticket(_add(commands, deciding.void))
    parser = _add(commands, deciding.amend)
    parser.add_argument("id", nargs="?", metavar="ID", help="a ticket that was told")
    _add_prices(parser, "what it cost in truth", "its penalty in truth")
    parser.add_argument(
        "--bill",
        metavar="FILE.csv",
        help="amend many: columns id, cost, and the names of penalties; all rows or none",
    )
    _add_note(parser)
    parser = _add(commands, deciding.quarantine)
    parser.add_argument(
        "action",
        nargs="?",
        default="list",
        choices=("list", "correct", "discard"),
        metavar="list|correct|discard",
        help="default list",
    )
    parser.add_argument(
        "number", nargs="?", type=whole, metavar="NUMBER", help="of the report, as listed"
    )
    _add_outcome(parser)
    parser.add_argument("--id", metavar="ID", help="the ticket it is of, if the report's is wrong")
    _add_note(parser)


def _add_ticket(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="the ticket's id")


def _add_outcome(parser: argparse.ArgumentParser) -> None:
    _add_prices(parser, "what it cost", "a penalty by its limit's name")
    parser.add_argument("--reward", type=number, metavar="X", help="what it earned")


def _add_prices(parser: argparse.ArgumentParser, cost: str, penalty: str) -> None:
    parser.add_argument("--cost", type=number, metavar="X", help=cost)
    parser.add_argument(
        "--penalty",
        type=named,
        action="append",
        default=[],
        metavar="NAME=X",
        help=f"{penalty}; may be repeated; X alone if there is one limit",
    )


def _add_note(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--note", metavar="TEXT", help="kept beside the log, for people")


def _add_looks(commands: Any) -> None:
    _add(commands, looking.status)
    _add(commands, looking.tickets)
    _add_ticket(_add(commands, looking.why))
    parser = _add(commands, looking.outlook)
    parser.add_argument(
        "--doubt",
        type=number,
        default=0.01,
        metavar="P",
        help="chance that a bound is wrong, at most; default 0.01",
    )
    parser = _add(commands, looking.events)
    parser.add_argument(
        "--after", type=whole, default=0, metavar="N", help="from event N + 1 on; default 0"
    )
    parser.add_argument("--count", type=whole, metavar="N", help="at most so many; default all")
    parser = _add(commands, looking.export)
    parser.add_argument("--out", metavar="FILE", help="default standard output")
    _add(commands, looking.verify)
    _add(commands, looking.list_campaigns, name="list", campaign=False)


def _add_changes(commands: Any) -> None:
    parser = _add(commands, changing.pause)
    parser.add_argument("--why", default="by hand", metavar="TEXT", help="default 'by hand'")
    _add_note(parser)
    _add(commands, changing.resume)
    _add(commands, changing.close)
    parser = _add(commands, changing.pin)
    parser.add_argument("arm", metavar="ARM|none", help="an arm's name or number, or none")
    parser = _add(commands, changing.add_arm)
    parser.add_argument("arm", metavar="ARM", help="its name")
    parser.add_argument(
        "--like", metavar="ARM", help="another arm, whose mean outcomes are expected of it"
    )
    parser.add_argument(
        "--weight", type=number, metavar="X", help="as if seen in so many pulls; default 10"
    )
    _add_prices(parser, "its price, where the task knows costs", "one that the task knows")
    for command in (changing.retire_arm, changing.reprice):
        parser = _add(commands, command)
        parser.add_argument("arm", metavar="ARM", help="an arm's name or number")
    _add_prices(parser, "its cost from here on", "one that the task knows")
    parser = _add(commands, changing.add_budget)
    parser.add_argument("amount", type=number, metavar="AMOUNT", help="in the task's cost units")
    parser = _add(commands, changing.notes)
    parser.add_argument(
        "--forget",
        nargs="+",
        action="extend",
        type=whole,
        default=[],
        metavar="NUMBER",
        help="delete the notes of these events; the log stays as it is",
    )
    parser = _add(commands, changing.change)
    parser.add_argument(
        "--limit",
        type=named,
        action="append",
        default=[],
        metavar="NAME=X",
        help="another number for a limit; may be repeated; X alone if there is one limit",
    )
    parser.add_argument("--policy", metavar=POLICY, help="the policy from here on")
    parser.add_argument(
        "--expire-after", type=number, metavar="SECONDS", help="of tickets asked for from here on"
    )
    parser.add_argument(
        "--per-day", type=number, metavar="X", help="spend at most so much in one day of UTC"
    )
    parser.add_argument(
        "--archive", action="append", default=[], metavar="FILE",
        help="the archived events, which a new policy learns from too; may be repeated",
    )  # fmt: skip


def _add_keeping(commands: Any) -> None:
    parser = _add(commands, changing.backup, campaign=False)
    parser.add_argument("file", metavar="FILE", help="a new file")
    parser = _add(commands, changing.restore, campaign=False, store=False)
    parser.add_argument("backup", metavar="BACKUP", help="a file that backup wrote")
    parser.add_argument("store", metavar="STORE", help="a new one")
    parser = _add(commands, changing.archive)
    parser.add_argument("file", metavar="FILE", help="a new file, of JSON lines")
    parser.add_argument(
        "--before",
        type=whole,
        required=True,
        metavar="N",
        help="move the events with numbers below N",
    )
