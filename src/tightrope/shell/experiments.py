"""``tightrope reproduce | tune | arena``: many simulations, with a page about them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import tightrope
from tightrope.errors import InputError
from tightrope.shell.commands import Argument
from tightrope.shell.files import after_the_work
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
from tightrope.shell.output import aligned, answer, print_lines, print_rows, say, warn

if TYPE_CHECKING:
    from tightrope.paper import Reproduction


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

    experiment: fig1 to fig5 or erratum
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
    """Find a policy's parameters for a problem and a budget, and draw reward against violation.

    policy: its other parameters stay as given
    grid: the values or the range of a parameter to tune; default v0 and delta0
    max_violation D: in penalty per unit of budget above the limit
    out NAME: write figures NAME.png and NAME.svg
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
    row = {**found.chosen.as_dict(), "feasible": found.feasible, "settings": len(found.rows)}
    print_rows([row], json)
    with after_the_work():
        files = save(draw(found.panels(), columns=2), out)
    if not found.feasible:
        say(f"no setting keeps the violation at or below {max_violation:g}; this one is nearest")
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
    """How much an arena simulates by default, of each policy on each problem."""

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
    """Rank policies against each other on many problems, and write a page about it.

    problem: a ready problem's name or a TOML file; default all of them
    policy: default all that take part
    budget B: in units of the largest cost of one pull; default 100, 10^3, 10^4
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
    title = f"at a budget of {found.budget:,g} times the largest cost of one pull:"
    answer(json, found.summary(), [title, *aligned(found.verdicts.items())])
    say(f"wrote {', '.join(str(path) for path in found.files)}")
    return 0


def _print_report(report: Reproduction) -> None:
    """Print one experiment's rows, or a line per experiment; then the claims."""
    from tightrope.report.verdicts import print_verdicts

    if len(report.findings) == 1:
        tightrope.print_rows(report.findings[0].evidence.rows)
    else:
        titles = [(one.experiment.name, one.experiment.title) for one in report.findings]
        print_lines(aligned(titles))
    if report.claims:
        print_verdicts(report.claims)
