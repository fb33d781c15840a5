"""``tightrope reproduce | tune | arena``: experiments of many simulations."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import tightrope
from tightrope.errors import InputError
from tightrope.shell.commands import Argument
from tightrope.shell.options import (
    Budget,
    Effort,
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
from tightrope.shell.output import (
    after_the_work,
    aligned,
    answer,
    print_lines,
    print_rows,
    say,
    warn,
)

if TYPE_CHECKING:
    from tightrope.arena.contest import Arena
    from tightrope.paper import Reproduction

FEW_PROBLEMS = 6  # up to this many, an arena's verdicts are printed
MOST_ROWS = 12  # of an experiment of the paper


def _experiments(**_: Any) -> list[str]:
    return ["all", "fig1", "fig2", "fig3", "fig4", "fig5", "erratum"]


def reproduce(
    experiment: Annotated[str, Argument(completer=_experiments)] = "all",
    *,
    json: Json = False,
    effort: Effort,
    out: Folder = "out",
    fresh: Fresh = False,
) -> int:
    """Run the paper's experiments and write figures, tables and one page about them.

    The folder gets each figure as PNG, SVG and PDF, its numbers as CSV, claims.csv with a verdict
    on every claim of the paper, and index.html. After an interruption the same command continues.

    tightrope reproduce fig1
    tightrope reproduce all --runs 1000 --out paper

    experiment: all, fig1, fig2, fig3, fig4, fig5 or erratum
    """
    from tightrope.paper import reproduce as run

    report = run(experiment, **effort.given, out=out, fresh=fresh)
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
    grid: Annotated[Sequence[str], Argument("PARAMETER=A,B,C|LOW:HIGH")] = (),
    max_violation: float = 0.0,
    runs: int = 1000,
    seed: int = 0,
    quiet: Quiet = False,
    out: str = "frontier",
    fresh: Fresh = False,
) -> int:
    """Find good parameters of a policy, and draw its reward against its violation.

    tightrope tune paper --budget 1000
    tightrope tune paper --budget 1000 --policy resolve --grid risk=0.001:0.1

    policy: default lyon; parameters that are not tuned keep their values
    grid: values or range of a parameter to tune; default v0 and delta0
    max_violation D: largest violation to accept, in the limit's own unit: penalty per unit of
        budget, pull or reward, or in total, above the limit
    runs: runs of each setting
    seed: seed of the random numbers
    out NAME: write the figures NAME.png and NAME.svg
    """
    from tightrope.engine.checkpoint import Checkpoint
    from tightrope.files import require_writable
    from tightrope.report.figures import draw, save

    for kind in ("png", "svg"):
        require_writable(f"{out}.{kind}")
    found = tightrope.tune(
        tightrope.load_problem(problem),
        tightrope.parse_policy(policy),
        budget=budget,
        grid=_grid(grid),
        max_violation=max_violation,
        runs=runs,
        seed=seed,
        progress=False if quiet else None,
        checkpoint=f"{out}.parts",
        fresh=fresh,
    )
    row = {**found.chosen.as_dict(), "feasible": found.feasible, "settings": found.settings}
    print_rows([row], json)
    with after_the_work():
        files = save(draw(found.panels(), columns=2), out)
    if not found.feasible:
        most = f"a violation of at most {max_violation:g}"
        say(
            f"no setting is shown to have {most}, with 95 % confidence; this one is nearest (its"
            " numbers are from new runs)"
        )
    with Checkpoint(f"{out}.parts", fresh=True):  # delete what is left there
        pass
    say(f"wrote {', '.join(str(path) for path in files)}")
    return 0 if found.feasible else 1


def _grid(given: Sequence[str]) -> dict[str, str]:
    """The values to try by parameter, from ``PARAMETER=VALUES``."""
    grid: dict[str, str] = {}
    for text in given:
        name, equals, values = text.partition("=")
        if not equals or name in grid:
            must = "name a parameter once" if equals else "read PARAMETER=A,B,C or LOW:HIGH"
            raise InputError(f"--grid {text}: must {must}")
        grid[name] = values
    return grid


@dataclass(kw_only=True, eq=False, repr=False)
class FewRuns(Effort):
    """How much an arena simulates.

    runs: runs of each policy on each problem at each budget
    """

    runs: int = 75


def arena(
    *,
    json: Json = False,
    problem: ProblemNames = (),
    policy: PolicyNames = (),
    budget: Sequence[float] = (),
    effort: FewRuns,
    threads: Threads = None,
    processes: Annotated[int | None, Argument(hidden=True)] = None,
    out: Folder = "out",
    fresh: Fresh = False,
) -> int:
    """Rank policies on many problems, and write a page about it.

    A policy that is not shown to keep the limit never ranks above one that is. The folder gets
    arena.html with every number, arena.csv, and one chart as arena.png and arena.svg. After an
    interruption the same command continues.

    tightrope arena
    tightrope arena --problem mine.toml --policy resolve --policy lyon --budget 1000

    problem: default all of the arena's
    policy: default all of the arena's
    budget B: budget in largest costs of one pull; default 100, 1000 and 10000
    """
    if processes is not None:
        warn("--processes means --threads now, and goes with version 0.4")
    with redirect_stdout(sys.stderr):  # a user's policy may print
        found = tightrope.arena(
            problem,
            policy,
            budget,
            **effort.given,
            out=out,
            fresh=fresh,
            threads=processes if threads is None else threads,
        )
    answer(json, found.summary(), lambda: _print_arena(found))
    say(f"wrote {', '.join(str(path) for path in found.files)}")
    return 0


def _print_arena(found: Arena) -> None:
    """Print the first policies of the standings and, of a few problems, the verdicts."""
    from tightrope.arena.charts import BEST
    from tightrope.arena.report import standings_table
    from tightrope.report.model import Table, names, print_table, texts

    table = standings_table(found.rows, found.budget)
    notes = [f"all policies, problems and numbers: {found.files[-1]}"]
    spare = [column.heading for column in table.columns][:2:-1]
    print_table(replace(table.first(BEST), notes=notes), spare=spare)
    if len(found.verdicts) <= FEW_PROBLEMS:
        columns = [
            names("problem", list(found.verdicts)),
            texts("verdict", list(found.verdicts.values())),
        ]
        print_table(Table(columns))


def _print_report(report: Reproduction) -> None:
    """Print one experiment at its largest budgets, or a line per experiment; then the claims."""
    from tightrope.report.verdicts import print_verdicts

    files = {path.name: path for path in report.files}
    if len(report.findings) == 1:
        (rows,) = (one.evidence.rows for one in report.findings)
        by_budget = sorted(rows, key=lambda row: row.budget)
        last = {(row.problem, row.policy): row for row in by_budget}
        shown = list(last.values())[:MOST_ROWS]
        tightrope.print_rows(shown)
        table = files[f"{report.findings[0].experiment.name}.csv"]
        print_lines(
            [f"{len(shown)} of {len(rows)} rows, at the largest budgets; all rows: {table}"]
        )
    else:
        titles = [(one.experiment.name, one.experiment.title) for one in report.findings]
        print_lines(aligned(titles))
    if report.claims:
        print_verdicts(report.claims, files["claims.csv"])
