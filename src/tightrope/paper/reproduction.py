"""Run experiments and write one report about them."""

from __future__ import annotations

import os
import sys
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tightrope.engine.arguments import one_of, run_numbers, seed_number
from tightrope.engine.caveats import caveats
from tightrope.engine.checkpoint import Checkpoint
from tightrope.engine.planning import backend_names
from tightrope.engine.progress import Progress
from tightrope.engine.simulation import SimulationSettings, make
from tightrope.errors import InputError, OutsideTheoryWarning
from tightrope.files import PARTS, make_folder, require_folder, write_text
from tightrope.paper.base import Call, Evidence, Experiment
from tightrope.paper.claims import judge
from tightrope.paper.erratum import ERRATUM
from tightrope.paper.figure1 import FIGURE1
from tightrope.paper.growing_arms import FIGURE2, FIGURE3
from tightrope.paper.tradeoff import FIGURE4, FIGURE5
from tightrope.report.extra import MODULES, require
from tightrope.report.figures import draw, legend_marks, save, svg_text
from tightrope.report.page import Book, Chapter, Picture, render_book
from tightrope.report.panels import Panel
from tightrope.report.table import write_csv
from tightrope.report.verdicts import Verdict, findings
from tightrope.version import __version__

ALL = "all"

# To add an experiment, write its module and list it here.
EXPERIMENTS: Mapping[str, Experiment] = {
    experiment.name: experiment
    for experiment in (FIGURE1, FIGURE2, FIGURE3, FIGURE4, FIGURE5, ERRATUM)
}

PAGE = "index.html"
CLAIMS = "claims.csv"
PICTURES = ("png", "svg", "pdf")

TITLE = "The paper's simulations, and what they say about its claims"
LEAD = (
    "Cayci, Zheng, Eryilmaz: A Lyapunov-Based Methodology for Constrained Optimization with Bandit"
    " Feedback (AAAI 2022). Every figure is simulated again, with 95 % intervals. Every claim that"
    " the text makes about its simulations, and every order of growth in its results, is compared"
    " with measurements."
)
CLAIMS_LEAD = (
    "Exponents are slopes of weighted straight lines on log-log scales, weighted by the standard"
    " errors over runs; ± is half of the 95 % interval, widened where the points stray from the"
    " line by more than the runs explain. A claimed order holds if the exponent's interval reaches"
    " it, to within 0.02. What can be computed exactly (π*'s regret and violation, the ratio of two"
    " bounds) is computed, not simulated. All other verdicts are about these budgets and runs only;"
    " larger budgets were not simulated."
)


@dataclass(frozen=True, eq=False)
class Finding:
    """One experiment with its evidence and notes."""

    experiment: Experiment
    evidence: Evidence
    notes: Sequence[str]


@dataclass(frozen=True, eq=False)
class Reproduction:
    """The findings, the verdicts on the paper's claims, and the files written."""

    findings: Sequence[Finding]
    claims: Sequence[Verdict]
    files: Sequence[Path]

    @property
    def rows(self) -> list[dict[str, Any]]:
        """A row per experiment, problem, policy and budget."""
        return [
            {"experiment": found.experiment.name, **row.as_dict()}
            for found in self.findings
            for row in found.evidence.rows
        ]

    @property
    def notes(self) -> list[str]:
        """Every experiment's notes."""
        return [note for found in self.findings for note in found.notes]


def reproduce(
    experiment: str | Experiment = ALL,
    *,
    runs: int = 1000,
    seed: int = 0,
    out: str | os.PathLike[str] = "out",
    progress: Progress = None,
    fresh: bool = False,
    backend: str = "auto",
) -> Reproduction:
    """Simulate the paper's experiments and write figures, tables and one page to ``out``.

    ``experiment`` is ``"all"``, a name in ``EXPERIMENTS``, or an ``Experiment``. ``runs`` is per
    point of a curve; ``backend`` and ``progress`` as in ``simulate``, with one bar for everything.
    At the end it writes ``NAME.png``, ``.svg``, ``.pdf`` and ``.csv``, ``claims.csv`` and
    ``index.html``, each atomically.

    Until then, finished runs are kept in ``out/.partial``. After Ctrl-C (which raises
    KeyboardInterrupt) or a power cut, the same call continues from there and writes the same bytes;
    ``fresh`` starts again.
    """
    experiments = _experiments(experiment)
    require(*MODULES)
    count, seed = len(run_numbers(runs)), seed_number(seed)
    one_of("backend", backend, backend_names())
    require_folder(out)
    _warn(experiments)
    names = experiments[0].name if len(experiments) == 1 else f"{len(experiments)} experiments"
    settings = SimulationSettings(seed, backend, progress=progress, title=f"simulating {names}")
    requests = [call.request(count) for experiment in experiments for call in experiment.sweep]
    with Checkpoint(Path(out) / PARTS, fresh=fresh) as store:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OutsideTheoryWarning)  # already issued above
            results = iter(make(requests, settings, store, whole=True))
        found = []
        for experiment in experiments:
            evidence = Evidence(experiment.sweep, [next(results) for _ in experiment.sweep])
            found.append(Finding(experiment, evidence, _notes(experiment, evidence)))
        if len(found) > 1 and progress is not False:
            print("writing the report", file=sys.stderr)  # a figure takes a few seconds
        claims = judge({one.experiment.name: one.evidence for one in found})
        files = _write(found, claims, out)
        store.remove()
    return Reproduction(found, claims, files)


def _experiments(experiment: str | Experiment) -> list[Experiment]:
    if isinstance(experiment, Experiment):
        return [experiment]
    if experiment == ALL:
        return list(EXPERIMENTS.values())
    if experiment not in EXPERIMENTS:
        known = ", ".join(map(repr, [*EXPERIMENTS, ALL]))
        raise InputError(f"experiment {experiment!r} is unknown; known: {known}")
    return [EXPERIMENTS[experiment]]


def _warn(experiments: Sequence[Experiment]) -> None:
    """Warn once for all sweeps about points outside the theory; in full for one experiment."""
    told = {one.name: found for one in experiments if (found := _caveats(one.sweep))}
    if not told:
        return
    text = "; ".join(sentence for sentences in told.values() for sentence in sentences)
    if len(experiments) > 1:
        text = (
            f"{', '.join(told)}: some points lie outside the theory (delta is not below the "
            "limit) and are used as published; the report marks and explains them"
        )
    warnings.warn(text, OutsideTheoryWarning, stacklevel=3)


def _caveats(sweep: Sequence[Call]) -> list[str]:
    """The sentences about points outside the theory, without duplicates."""
    return list(dict.fromkeys(text for call in sweep for text in caveats(call.outside_theory())))


def _notes(experiment: Experiment, evidence: Evidence) -> list[str]:
    marked = [
        f"Hollow points are as published. {text[:1].upper()}{text[1:]}."
        for text in _caveats(experiment.sweep)
    ]
    return [*marked, *experiment.notes(evidence)]


def _write(
    found: Sequence[Finding], claims: Sequence[Verdict], out: str | os.PathLike[str]
) -> list[Path]:
    """Render everything, then write it; the page, which links the other files, comes last."""
    panels = [one.experiment.panels(one.evidence) for one in found]
    figures = [draw(some, one.experiment.columns) for one, some in zip(found, panels, strict=True)]
    page = render_book(_book(found, panels, claims))
    folder, names = make_folder(out), [name for one in found for name in _names(one)]
    for one, figure in zip(found, figures, strict=True):
        save(figure, folder / one.experiment.name, PICTURES)
        write_csv(one.evidence.rows, folder / f"{one.experiment.name}.csv")
    if claims:
        names.append(CLAIMS)
        write_csv([asdict(claim) for claim in claims], folder / CLAIMS)
    write_text(folder / PAGE, page)
    return [folder / name for name in (*names, PAGE)]


def _names(found: Finding) -> list[str]:
    return [f"{found.experiment.name}.{suffix}" for suffix in (*PICTURES, "csv")]


def _book(
    found: Sequence[Finding], panels: Sequence[Sequence[Panel]], claims: Sequence[Verdict]
) -> Book:
    pages = {one.experiment.name: _page(one, some) for one, some in zip(found, panels, strict=True)}
    table = findings(claims, "Claims", CLAIMS_LEAD, CLAIMS) if claims else None
    if len(found) == 1:
        (page,) = pages.values()
        return Book(page.title, page.lead, page.facts, pages, table)
    return Book(TITLE, LEAD, _common_facts(found, claims), pages, table)


def _page(found: Finding, panels: Sequence[Panel]) -> Chapter:
    experiment, evidence = found.experiment, found.evidence
    problems = {call.problem: call.load().to_toml() for call in evidence.calls}
    return Chapter(
        title=experiment.title,
        lead=experiment.lead,
        facts=_facts(experiment, evidence),
        legend=[Picture(name, mark) for name, mark in legend_marks(panels).items()],
        pictures=[_picture(panel) for panel in panels],
        notes=found.notes,
        rows=evidence.rows,
        files=_names(found),
        sources=[(f"Problem {name}", text) for name, text in problems.items()],
    )


def _picture(panel: Panel) -> Picture:
    return Picture(panel.title, svg_text(draw([panel], columns=1, legend=False)))


def _facts(experiment: Experiment, evidence: Evidence) -> list[tuple[str, str]]:
    """The facts needed to repeat the runs."""
    budgets = sorted({budget for results in evidence.results for budget in results.budgets})
    policies = dict.fromkeys(label for results in evidence.results for label in results.labels)
    return [
        ("Problem", ", ".join(dict.fromkeys(call.problem for call in evidence.calls))),
        ("Policies", ", ".join(policies)),
        ("Budgets", f"{len(budgets)}, from {budgets[0]:,g} to {budgets[-1]:,g}"),
        *_settings(evidence, experiment.name),
    ]


def _common_facts(found: Sequence[Finding], claims: Sequence[Verdict]) -> list[tuple[str, str]]:
    counts = Counter(claim.verdict for claim in claims)
    return [
        ("Experiments", ", ".join(one.experiment.name for one in found)),
        ("Claims", "; ".join(f"{verdict}: {count}" for verdict, count in counts.items()) or "none"),
        *_settings(found[0].evidence, "all"),
    ]


def _settings(evidence: Evidence, name: str) -> list[tuple[str, str]]:
    first = evidence.results[0]
    return [
        ("Runs per point", f"{first.runs:,}"),
        ("Seed", str(first.seed)),
        ("tightrope", __version__),
        ("Again", f"tightrope reproduce {name} --runs {first.runs} --seed {first.seed}"),
    ]
