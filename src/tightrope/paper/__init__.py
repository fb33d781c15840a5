"""The paper's experiments by name, and :func:`reproduce`, which runs and reports them.

An experiment is a module with constants and an analysis (``figure1``, ``growing_arms``,
``tradeoff``, ``erratum``); ``claims`` checks the paper's claims. All of them get their runs from
``engine.simulation.make``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from tightrope.engine.progress import Progress
from tightrope.errors import InputError
from tightrope.paper.base import Call, Evidence, Experiment
from tightrope.paper.erratum import ERRATUM
from tightrope.paper.figure1 import FIGURE1
from tightrope.paper.growing_arms import FIGURE2, FIGURE3
from tightrope.paper.reproduction import Reproduction, run
from tightrope.paper.tradeoff import FIGURE4, FIGURE5

__all__ = ["EXPERIMENTS", "Call", "Evidence", "Experiment", "Reproduction", "reproduce"]

ALL = "all"

# To add an experiment, write its module and list it here.
EXPERIMENTS: Mapping[str, Experiment] = {
    experiment.name: experiment
    for experiment in (FIGURE1, FIGURE2, FIGURE3, FIGURE4, FIGURE5, ERRATUM)
}


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

    Until then, finished runs are kept in ``out/.partial``. After Ctrl-C, which is raised, or a
    power cut, the same call continues from there and writes the same bytes; ``fresh`` starts again.
    """
    return run(
        _experiments(experiment),
        runs=runs,
        seed=seed,
        out=out,
        progress=progress,
        fresh=fresh,
        backend=backend,
    )


def _experiments(experiment: str | Experiment) -> list[Experiment]:
    if isinstance(experiment, Experiment):
        return [experiment]
    if experiment == ALL:
        return list(EXPERIMENTS.values())
    if experiment not in EXPERIMENTS:
        known = ", ".join(map(repr, [*EXPERIMENTS, ALL]))
        raise InputError(f"experiment {experiment!r} is unknown; known: {known}")
    return [EXPERIMENTS[experiment]]
