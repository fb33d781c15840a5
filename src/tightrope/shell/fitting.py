"""``tightrope fit``: a problem from a log, as TOML with its rows beside it."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tightrope.errors import InputError, ProblemError
from tightrope.shell.commands import whole
from tightrope.shell.named import by_name
from tightrope.shell.saving import after_the_work
from tightrope.shell.saying import print_json, say

if TYPE_CHECKING:
    from tightrope.problem import Kind

__all__ = ["add_fit", "limits_of", "number_or_column"]


def fit(options: argparse.Namespace) -> int:
    """Make a problem from a log: a CSV or Parquet file, or a campaign's export."""
    from tightrope.data.fitting import fit as made
    from tightrope.data.profile import profile
    from tightrope.files import require_writable, write_text

    _require_other_files(options)
    for path in filter(None, (options.out, options.profile)):
        require_writable(path)
    if options.profile:
        from tightrope.report.extra import require

        require("jinja2")
    limits = limits_of(options.limit)
    fitted = made(
        options.log,
        arm=options.arm,
        cost=number_or_column(options.cost),
        reward=number_or_column(options.reward),
        penalty=options.penalty or None,
        limits=limits or None,
        scales=by_name(options.scale, "--scale") or None,
        name=options.name,
        drop_missing=options.drop_missing,
        min_rows=options.min_rows,
        without=options.without,
        format=options.format,
        archives=options.archive,
    )
    found, files = profile(fitted), []
    with after_the_work():
        if options.out:
            files += fitted.problem.save(options.out)
        if options.profile:
            from tightrope.report.profile import profile_page

            write_text(
                options.profile, profile_page(found, options.name or os.path.basename(options.log))
            )
            files.append(options.profile)
    if options.json:
        print_json(found.as_dict() | {"files": files})
    else:
        from tightrope.report.profile import print_profile

        print_profile(found)
    if files:
        say(f"wrote {', '.join(files)}")
    return 0


def _require_other_files(options: argparse.Namespace) -> None:
    """Raise unless what is written are files of their own, and not the log."""
    if options.out and not options.out.endswith(".toml"):
        raise InputError(f"--out {options.out}: must end in .toml")
    written = {"--out": options.out, "--profile": options.profile}
    if options.out:
        written["--out (its rows)"] = f"{options.out.removesuffix('.toml')}.parquet"
    seen = {os.path.realpath(options.log): "the log"}
    for option, path in written.items():
        if path:
            before = seen.setdefault(os.path.realpath(path), option)
            if before != option:
                raise InputError(f"{option} {path}: is {before}; must be another file")


def number_or_column(text: str | None) -> str | float | None:
    """A number for all rows, or the name of a column."""
    try:
        return None if text is None else float(text)
    except ValueError:
        return text


def limits_of(texts: Sequence[str]) -> dict[str, float | Kind]:
    """Limits by name, from ``NAME=NUMBER``, per unit of cost, or ``NAME=NUMBER/pull`` and so on.

    >>> limits_of(["bad=0.05/pull", "dollars=0.004", "late=30/total"])
    {'bad': Limit(0.05, per='pull'), 'dollars': 0.004, 'late': Limit(total=30.0)}
    """
    from tightrope.problem.limits import BASES, Limit

    found: dict[str, float | Kind] = {}
    for name, value in by_name(texts, "--limit", convert=str).items():
        amount, slash, per = value.partition("/")
        place = f"--limit {name}={value}"
        try:
            limit = float(amount)
        except ValueError:
            raise InputError(f"{place}: {amount!r} must be a number") from None
        if slash and per not in (*BASES, "total"):
            allowed = ", ".join(f"/{base}" for base in (*BASES, "total"))
            raise InputError(f"{place}: '/{per}' must be one of {allowed}")
        try:
            if per == "total":
                found[name] = Limit(total=limit)
            else:
                found[name] = limit if per in ("", "cost") else Limit(limit, per=per)
        except ProblemError as error:
            raise InputError(f"{place}: {error}") from None
    return found


def add_fit(commands: Any) -> None:
    """Add the command."""
    text = fit.__doc__ or ""
    parser: argparse.ArgumentParser = commands.add_parser("fit", help=text, description=text)
    parser.set_defaults(command=fit)
    parser.add_argument("log", metavar="LOG", help="a .csv, .parquet or exported .jsonl file")
    parser.add_argument("--arm", metavar="COLUMN", help="the arm that was pulled")
    parser.add_argument(
        "--cost", metavar="COLUMN|X", help="or a number for all rows: a request costs 1"
    )
    parser.add_argument("--reward", metavar="COLUMN|X", help="or a number for all rows")
    parser.add_argument(
        "--penalty",
        action="append",
        default=[],
        metavar="COLUMN",
        help="may be repeated; default the names of the limits",
    )
    parser.add_argument(
        "--limit",
        action="append",
        default=[],
        metavar="NAME=X[/pull|/cost|/reward|/total]",
        help="on a penalty, per unit of cost unless it says otherwise; may be repeated",
    )
    parser.add_argument(
        "--scale",
        action="append",
        default=[],
        metavar="NAME=X",
        help="the largest possible cost, reward or penalty; default the largest seen, rounded up",
    )
    parser.add_argument(
        "--drop-missing", action="store_true", help="leave out rows with a missing value"
    )
    parser.add_argument(
        "--min-rows", type=whole, default=1, metavar="N", help="leave out arms with fewer rows"
    )
    parser.add_argument(
        "--without", action="append", default=[], metavar="ARM", help="leave out; may be repeated"
    )
    parser.add_argument(
        "--format", metavar="FORMAT", help="csv, parquet or campaign; default as the name ends"
    )
    parser.add_argument(
        "--archive", action="append", default=[], metavar="FILE",
        help="a campaign's archived events, from before the export; may be repeated",
    )  # fmt: skip
    parser.add_argument("--name", default="", metavar="TEXT", help="the problem's name")
    parser.add_argument(
        "-o", "--out", metavar="FILE.toml", help="write the problem, and its rows beside it"
    )
    parser.add_argument("--profile", metavar="FILE.html", help="write a page about the log")
    parser.add_argument("--json", action="store_true", help="print JSON, nothing else")
