"""Running sweeps in parts, each kept on the disk until the report is written.

A part is some runs of one call. A run depends on the seed and its number alone, so parts merge to
the bits of one long call, whenever and in whatever order they were made.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tightrope.engine.caveats import OutsideTheoryWarning
from tightrope.engine.identity import digest, facts
from tightrope.engine.planning import plan_jobs
from tightrope.engine.progress import Progress, percent, reporting
from tightrope.engine.simulation import simulate
from tightrope.errors import InputError, ResultsError
from tightrope.experiments.base import Call, Evidence, Experiment
from tightrope.policies import Policy
from tightrope.results import Results

__all__ = ["Interrupted", "Kept", "Part", "parts", "run_sweeps"]

PART_SECONDS = 8.0  # about: what a power cut may cost
GPU_GAIN = 100  # about: how much faster than the processors
WHOLE_LANES = 128  # runs that a kernel makes at once, or a multiple

Say = Callable[[str], None]


class Interrupted(KeyboardInterrupt):
    """Ctrl-C in the middle; its text says what is kept."""


@dataclass(frozen=True)
class Part:
    """Some runs of call ``number`` of an experiment's sweep."""

    experiment: str
    number: int
    call: Call
    runs: range
    seed: int
    backend: str = "auto"

    @property
    def weight(self) -> float:
        """How long it takes, relative to other parts."""
        return self.call.weight * len(self.runs)

    @cached_property
    def name(self) -> str:
        """A file's name that no other work has: it ends in a digest of what decides the runs."""
        decides = facts(self.call.load(), self._policies, self.call.budgets, self.seed)
        work = digest({**decides, "engines": self._engines()})
        runs = f"{self.runs.start}-{self.runs.stop - 1}"
        return f"{self.experiment}.{self.number + 1}.runs-{runs}.{work}.npz"

    def _engines(self) -> list[str]:
        """What "auto" takes here, for each policy and budget: other engines may round otherwise."""
        jobs = plan_jobs(
            self.call.load(),
            self._policies,
            self.call.budgets,
            len(self.runs),
            seed=self.seed,
            backend=self.backend,
        )
        return [job.engine for job in jobs.values()]

    @property
    def _policies(self) -> dict[str, Policy]:
        return {policy.label: policy for policy in self.call.policies}

    def run(self, progress: Progress) -> Results:
        """Simulate it; Ctrl-C is raised."""
        with warnings.catch_warnings():
            # Said once for the whole sweep, not once a budget and part.
            warnings.simplefilter("ignore", OutsideTheoryWarning)
            results = simulate(
                self.call.load(),
                self.call.policies,
                budgets=self.call.budgets,
                runs=self.runs,
                seed=self.seed,
                backend=self.backend,
                progress=progress,
            )
        if not results.complete:
            raise KeyboardInterrupt
        return results


def parts(
    experiment: Experiment,
    runs: int | Callable[[Call], int],
    seed: int,
    backend: str = "auto",
) -> list[Part]:
    """The experiment's work, cut; the cuts do not depend on how many runs are wanted.

    ``runs`` of each call: a number, or a function of the call.
    """
    return [
        Part(experiment.name, number, call, range(first, min(first + width, count)), seed, backend)
        for number, call in enumerate(experiment.sweep)
        for width, count in [(_width(call, backend), runs if isinstance(runs, int) else runs(call))]
        for first in range(0, count, width)
    ]


def _width(call: Call, backend: str) -> int:
    """How many runs make a part: whole lanes, some seconds."""
    seconds = call.weight * WHOLE_LANES / (GPU_GAIN if backend.endswith("gpu") else 1)
    return WHOLE_LANES * max(1, int(PART_SECONDS / seconds))


@dataclass(frozen=True)
class Kept:
    """Finished parts in a folder, a results file each, written whole."""

    folder: Path

    def load(self, part: Part) -> Results | None:
        """A part that was finished before; None where there is none that can be read."""
        with suppress(ResultsError):
            return Results.load(self.folder / part.name)
        return None

    def save(self, part: Part, results: Results) -> None:
        """Keep a part."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"cannot make {self.folder}: {error.strerror}") from error
        results.save(self.folder / part.name)

    def forget(self, plan: Sequence[Part]) -> None:
        """Remove the parts' files, what a killed write left of them, and the folder if empty."""
        for part in plan:
            for path in (self.folder / part.name, *self.folder.glob(f".{part.name}.*")):
                path.unlink(missing_ok=True)
        with suppress(OSError):
            self.folder.rmdir()


def run_sweeps(
    experiments: Sequence[Experiment],
    plan: Sequence[Part],
    kept: Kept,
    progress: Progress,
    say: Say,
) -> list[Evidence]:
    """Every call of every sweep, under one progress bar; parts that are kept are not run again."""
    found = {i: results for i, part in enumerate(plan) if (results := kept.load(part)) is not None}
    total = sum(part.weight for part in plan)
    before = sum(plan[i].weight for i in found)
    if found:
        say(f"going on from {percent(before / total)}, kept in {kept.folder}")
    try:
        with reporting(progress, total, f"simulating {_names(experiments)}") as tell:
            if found:
                tell(before)
            for i in (i for i in range(len(plan)) if i not in found):
                told = False if progress is False else _telling(tell, plan[i].weight)
                results = plan[i].run(told)
                kept.save(plan[i], results)
                found[i] = results
    except KeyboardInterrupt as error:
        done = sum(plan[i].weight for i in found) / total
        raise Interrupted(_how_to_go_on(done, kept)) from error
    return _evidence(experiments, plan, [found[i] for i in range(len(plan))])


def _telling(tell: Callable[[float], None], weight: float) -> Callable[[float], None]:
    """From the fraction of a part that is done to the work just done of the whole."""
    before = 0.0

    def told(fraction: float) -> None:
        nonlocal before
        tell((fraction - before) * weight)
        before = fraction

    return told


def _evidence(
    experiments: Sequence[Experiment], plan: Sequence[Part], found: Sequence[Results]
) -> list[Evidence]:
    """The parts put together again, by experiment and call."""
    by_call: dict[tuple[str, int], list[Results]] = {}
    for part, results in zip(plan, found, strict=True):
        by_call.setdefault((part.experiment, part.number), []).append(results)
    return [
        Evidence(experiment.sweep, list(_merged(experiment, by_call))) for experiment in experiments
    ]


def _merged(
    experiment: Experiment, by_call: dict[tuple[str, int], list[Results]]
) -> Iterator[Results]:
    for number in range(len(experiment.sweep)):
        first, *others = by_call.pop((experiment.name, number))
        yield first.merge(*others) if others else first


def _how_to_go_on(done: float, kept: Kept) -> str:
    if not done:
        return "interrupted before anything was finished; the same command starts again"
    return (
        f"interrupted: {percent(done)} is done and kept in {kept.folder}; the same command goes on"
        " from there"
    )


def _names(experiments: Sequence[Experiment]) -> str:
    return experiments[0].name if len(experiments) == 1 else f"{len(experiments)} experiments"
