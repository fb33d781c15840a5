"""The paper's experiments by name, and :func:`reproduce`, which runs one and reports it."""

from __future__ import annotations

import os
from collections.abc import Mapping

from tightrope.engine.progress import Progress
from tightrope.errors import InputError, nearest
from tightrope.experiments.base import Call, Evidence, Experiment
from tightrope.experiments.figure1 import FIGURE1
from tightrope.experiments.reproduction import Report, run

__all__ = ["EXPERIMENTS", "Call", "Evidence", "Experiment", "Report", "reproduce"]

# One more experiment is one more file and one more name here.
EXPERIMENTS: Mapping[str, Experiment] = {experiment.name: experiment for experiment in (FIGURE1,)}


def reproduce(
    experiment: str | Experiment,
    *,
    runs: int = 1000,
    seed: int = 0,
    out: str | os.PathLike[str] = "out",
    progress: Progress = None,
) -> Report:
    """Simulate an experiment's sweep and write its figures, its table and its page to ``out``.

    ``experiment`` is a name of ``EXPERIMENTS`` or one's own. ``runs`` a point; ``progress`` as in
    ``simulate``, one bar for the whole sweep. Written at the end, each file whole: ``NAME.png``,
    ``NAME.svg``, ``NAME.csv`` and ``index.html``. After Ctrl-C the report is of the runs finished
    on the whole sweep, if there are any, and is not ``complete``.
    """
    return run(_found(experiment), runs=runs, seed=seed, out=out, progress=progress)


def _found(experiment: str | Experiment) -> Experiment:
    if isinstance(experiment, Experiment):
        return experiment
    if experiment not in EXPERIMENTS:
        hint = nearest(str(experiment), EXPERIMENTS)
        raise InputError(f"experiment {experiment!r} is unknown; {hint}")
    return EXPERIMENTS[experiment]
