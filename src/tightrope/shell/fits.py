"""``tightrope fit``: make a problem from a log, as TOML with its rows beside it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

from tightrope.callers import warn_caller
from tightrope.errors import InputError, LogWarning
from tightrope.shell.commands import Argument
from tightrope.shell.named import by_name, ends_of, limits_of, number_or_text
from tightrope.shell.options import Json, Scale
from tightrope.shell.output import after_the_work, answer, say

if TYPE_CHECKING:
    from tightrope.data.fitting import Fitted


def names_of(text: str) -> list[str]:
    """Names with commas between them."""
    return [name.strip() for name in text.split(",")]


Column = Annotated[str | float | None, Argument(read=number_or_text)]
Names = Annotated[str | None, Argument("A,B,C", read=names_of)]


@dataclass(kw_only=True, eq=False, repr=False)
class LogColumns:
    """The columns of a log.

    arm COLUMN: column with the arm that was pulled
    cost COLUMN|X: column with the cost, or one number for all rows
    reward COLUMN|X: column with the reward, or one number for all rows
    penalty COLUMN: column with a penalty; default the names of the limits
    propensity COLUMN: column with the probability of the logged choice, in (0, 1]
    context COLUMN: column with the type of the request, such as a country
    features: columns of numbers that describe the request
    row COLUMN: the log has one line per row and arm, so every arm's outcome is known; this column
        names the row
    interval LOW,HIGH: the arms are numbers from LOW to HIGH, such as bids; neighbours behave alike;
        with --arm A,B two numbers, as LOW,HIGH,LOW,HIGH
    drop_missing: leave out rows with a missing value
    """

    arm: str | None = None
    interval: Annotated[tuple[Any, ...] | None, Argument(read=ends_of)] = None
    cost: Column = None
    reward: Column = None
    penalty: Sequence[str] = ()
    propensity: str | None = None
    context: str | None = None
    features: Names = None
    row: str | None = None
    drop_missing: bool = False

    @property
    def given(self) -> dict[str, Any]:
        """The arguments of a function that reads a log."""
        pairs = {**vars(self), "arm": self.sides}.items()
        return {name: value for name, value in pairs if value or isinstance(value, float)}

    @property
    def sides(self) -> str | list[str] | None:
        """The column of the arms; those of the numbers of a box."""
        boxed = self.interval and isinstance(self.interval[0], tuple)
        return self.arm.split(",") if boxed and self.arm else self.arm

    def require_none(self, wanted: str) -> None:
        """Raise if a column is named: it must come with the option ``wanted``."""
        for name in self.given:
            raise InputError(f"--{name.replace('_', '-')}: must come with {wanted}")


def fit(
    log: str,
    *,
    json: Json = False,
    columns: LogColumns,
    limit: Sequence[str] = (),
    scale: Scale = (),
    min_rows: int = 1,
    without: Sequence[str] = (),
    format: str | None = None,
    archive: Sequence[str] = (),
    name: str = "",
    out: Annotated[str | None, Argument(short="-o")] = None,
    profile: str | None = None,
) -> int:
    """Make a problem from a log: a CSV or Parquet file, or a campaign's export.

    tightrope fit log.csv --arm model --cost usd --reward score --limit bad=5%/pull -o router.toml
    tightrope fit log.csv --arm model --cost 1 --reward score --context country -o router.toml
    tightrope fit log.csv --arm bid --interval 0,5 --cost paid --reward sale -o auction.toml
    tightrope fit export.jsonl --format campaign -o router.toml --profile log.html

    log: a .csv, .parquet or exported .jsonl file
    limit NAME=X[%][/pull|/cost|/reward|/total]: limit on a penalty, such as bad=5%/pull, or on
        the share of arms: "few=at most 30% for opus", "new=at least 20% of the budget for Ada, Bo"
    min_rows: leave out arms with fewer rows
    without ARM: leave out this arm
    format: csv, parquet or campaign; default by the end of the file's name
    archive FILE: archived events of the campaign, from before the export
    name TEXT: name of the problem
    out FILE.toml: write the problem here, and its rows beside it
    profile FILE.html: write a page about the log
    """
    from tightrope.data.fitting import fit as made
    from tightrope.data.profile import profile as profile_of
    from tightrope.files import require_writable, write_text

    _require_other_files(log, out, profile)
    for path in filter(None, (out, profile)):
        require_writable(path)
    if profile:
        from tightrope.report.extra import require

        require("jinja2")
    fitted = made(
        log,
        **columns.given,
        limits=limits_of(limit) or None,
        scales=by_name(scale, "--scale") or None,
        name=name,
        min_rows=min_rows,
        without=without,
        format=format,
        archives=archive,
    )
    if not without and min_rows == 1:  # else the rows of other arms are missing
        fitted = with_doubts(fitted)
    found, files = profile_of(fitted), []
    with after_the_work():
        if out:
            files += fitted.problem.save(out)
        if profile:
            from tightrope.report.profile import profile_page

            write_text(profile, profile_page(found, name or os.path.basename(log)))
            files.append(profile)
    from tightrope.report.profile import print_profile

    answer(json, found.as_dict() | {"files": files}, lambda: print_profile(found))
    if files:
        say(f"wrote {', '.join(files)}")
    return 0


def with_doubts(fitted: Fitted) -> Fitted:
    """It with a warning if the log's propensities do not fit its rows, as a replay requires."""
    from tightrope.data.offpolicy import require_told

    if fitted.log.propensity is None or fitted.log.space is not None:
        return fitted
    try:
        require_told(fitted.log)
    except InputError as error:
        warn_caller(str(error), LogWarning)
        return replace(fitted, warnings=(*fitted.warnings, str(error)))
    return fitted


def _require_other_files(log: str, out: str | None, profile: str | None) -> None:
    """Raise unless the written files differ from one another and from the log."""
    if out and not out.endswith(".toml"):
        raise InputError(f"--out {out}: must end in .toml")
    if profile and not profile.endswith(".html"):
        raise InputError(f"--profile {profile}: must end in .html")
    written = {"--out": out, "--profile": profile}
    if out:
        written["--out (its rows)"] = f"{out.removesuffix('.toml')}.parquet"
    seen = {os.path.realpath(log): "the log"}
    for option, path in written.items():
        if path:
            before = seen.setdefault(os.path.realpath(path), option)
            if before != option:
                raise InputError(f"{option} {path}: is {before}; must be another file")
