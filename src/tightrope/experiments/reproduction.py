"""Running a sweep and writing its report."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tightrope.engine.asked import run_numbers
from tightrope.engine.caveats import OutsideTheoryWarning, caveats
from tightrope.engine.progress import Progress, reporting
from tightrope.engine.simulation import simulate
from tightrope.errors import InputError
from tightrope.experiments.base import Call, Evidence, Experiment
from tightrope.files import write_text
from tightrope.report.extra import MODULES, require
from tightrope.report.figures import draw, legend_marks, save, svg_text
from tightrope.report.page import Page, Picture, render
from tightrope.report.panels import Panel
from tightrope.report.table import write_csv
from tightrope.results import Results

__all__ = ["Report", "run"]

PAGE = "index.html"


@dataclass(frozen=True, eq=False)
class Report:
    """What was found, what is to be known about it, and the files that say so."""

    evidence: Evidence
    notes: Sequence[str]
    files: Sequence[Path]

    @property
    def rows(self) -> list[dict[str, Any]]:
        """A row per problem, policy and budget."""
        return self.evidence.rows

    @property
    def complete(self) -> bool:
        """False: interrupted, only the finished runs are here."""
        return all(results.complete for results in self.evidence.results)


def run(
    experiment: Experiment,
    *,
    runs: int,
    seed: int,
    out: str | os.PathLike[str],
    progress: Progress,
) -> Report:
    """See :func:`tightrope.experiments.reproduce`."""
    require(*MODULES)
    run_numbers(runs)
    _require_writable(out)
    caveats = _caveats(experiment.sweep)
    if caveats:
        warnings.warn("; ".join(caveats), OutsideTheoryWarning, stacklevel=3)
    evidence = Evidence(experiment.sweep, _simulate(experiment, runs, seed, progress))
    marked = [f"Hollow points are as published. {_capital(caveat)}." for caveat in caveats]
    notes = [*_interruption(evidence, runs), *marked, *experiment.notes(evidence)]
    return Report(evidence, notes, _write(experiment, evidence, notes, out))


def _simulate(experiment: Experiment, runs: int, seed: int, progress: Progress) -> list[Results]:
    """Every call of the sweep, under one progress bar."""
    total = sum(call.weight for call in experiment.sweep)
    found: list[Results] = []
    with reporting(progress, total, f"simulating {experiment.name}") as tell:
        for call in experiment.sweep:
            telling = False if progress is False else _telling(tell, call.weight)
            if found and not found[-1].complete:
                raise KeyboardInterrupt  # the figures need every call
            found.append(_run_call(call, runs, seed, telling))
    return found


def _run_call(call: Call, runs: int, seed: int, progress: Progress) -> Results:
    with warnings.catch_warnings():
        # Said once for the whole sweep, not once a budget.
        warnings.simplefilter("ignore", OutsideTheoryWarning)
        return simulate(
            call.load(),
            call.policies,
            budgets=call.budgets,
            runs=runs,
            seed=seed,
            progress=progress,
        )


def _telling(tell: Callable[[float], None], weight: float) -> Callable[[float], None]:
    """From the fraction of a call that is done to the work just done of the sweep."""
    before = 0.0

    def told(fraction: float) -> None:
        nonlocal before
        tell((fraction - before) * weight)
        before = fraction

    return told


def _caveats(sweep: Sequence[Call]) -> list[str]:
    """What lies outside the theory, each sentence once."""
    return list(dict.fromkeys(text for call in sweep for text in caveats(call.outside_theory())))


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _interruption(evidence: Evidence, runs: int) -> list[str]:
    finished = min(results.runs for results in evidence.results)
    return [f"Interrupted: {finished:,} of {runs:,} runs were finished."] * (finished < runs)


def _require_writable(out: str | os.PathLike[str]) -> None:
    """Fail before the work, not after it."""
    path = os.path.abspath(out)
    while not os.path.exists(path):
        path = os.path.dirname(path)
    if not os.path.isdir(path) or not os.access(path, os.W_OK):
        raise InputError(f"out = {os.fspath(out)!r}: {path} must be a folder to write to")


def _folder(out: str | os.PathLike[str]) -> Path:
    folder = Path(out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"out = {str(folder)!r}: cannot be made ({error.strerror})") from error
    return folder


def _write(
    experiment: Experiment, evidence: Evidence, notes: Sequence[str], out: str | os.PathLike[str]
) -> list[Path]:
    """Everything is made first and written then; the page, which names the others, comes last."""
    panels = experiment.panels(evidence)
    figure = draw(panels, experiment.columns)
    names = [f"{experiment.name}.{suffix}" for suffix in ("png", "svg", "csv")]
    page = render(_page(experiment, evidence, notes, panels, names))
    folder = _folder(out)
    save(figure, folder / experiment.name)
    write_csv(evidence.rows, folder / names[-1])
    write_text(folder / PAGE, page)
    return [folder / name for name in (*names, PAGE)]


def _page(
    experiment: Experiment,
    evidence: Evidence,
    notes: Sequence[str],
    panels: Sequence[Panel],
    names: Sequence[str],
) -> Page:
    return Page(
        title=experiment.title,
        lead=experiment.lead,
        facts=_facts(experiment, evidence),
        legend=[Picture(name, mark) for name, mark in legend_marks(panels).items()],
        pictures=[_picture(panel) for panel in panels],
        notes=notes,
        rows=evidence.rows,
        files=names,
        sources=[(f"Problem {one.problem}", one.load().to_toml()) for one in evidence.calls],
    )


def _picture(panel: Panel) -> Picture:
    return Picture(panel.title, svg_text(draw([panel], columns=1, legend=False)))


def _facts(experiment: Experiment, evidence: Evidence) -> list[tuple[str, str]]:
    """What was run, so that anyone can run it again."""
    first = evidence.results[0]
    budgets = sorted({budget for results in evidence.results for budget in results.budgets})
    policies = dict.fromkeys(label for results in evidence.results for label in results.labels)
    again = f"tightrope reproduce {experiment.name} --runs {first.runs} --seed {first.seed}"
    return [
        ("Problem", ", ".join(dict.fromkeys(call.problem for call in evidence.calls))),
        ("Policies", ", ".join(policies)),
        ("Budgets", f"{len(budgets)}, from {budgets[0]:,g} to {budgets[-1]:,g}"),
        ("Runs a point", f"{first.runs:,}"),
        ("Seed", str(first.seed)),
        ("tightrope", first.version),
        ("Again", again),
    ]
