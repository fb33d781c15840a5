"""The chunks of one simulation: those finished, those to do, and where finished ones are kept."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

import numpy as np

from tightrope.engine.backend import Numbers
from tightrope.engine.checkpoint import Checkpoint, Place
from tightrope.engine.pool import Chunk, Finished, Runner, Work
from tightrope.engine.progress import Progress, percent, reporting
from tightrope.results import Runs

__all__ = ["Sweep"]


class Sweep:
    """Work cut into chunks. With a checkpoint, what it holds is finished from the start."""

    def __init__(
        self, work: Sequence[Work], chunks: Sequence[Chunk], kept: Checkpoint | None
    ) -> None:
        self.work, self.chunks = work, chunks
        self.done: Finished = {}
        self.elapsed = 0.0  # seconds of simulating, before and now
        self._kept = kept
        if kept:
            found = kept.load()
            places = self._places()
            self.done = {at: found[place] for at, place in enumerate(places) if place in found}
            self.elapsed = kept.elapsed

    @property
    def todo(self) -> list[int]:
        """The places of the chunks that are not finished."""
        return [at for at in range(len(self.chunks)) if at not in self.done]

    def run(self, runner: Runner, progress: Progress) -> None:
        """Do what is to do; Ctrl-C ends it, with what is finished then."""
        total = sum(chunk.weight for chunk in self.chunks)
        before = sum(self.chunks[at].weight for at in self.done)
        if before and self._kept and progress is not False:
            share = percent(before / total)
            print(f"going on from {share}, kept in {self._kept.folder}", file=sys.stderr)
        places, start = self._places(), time.perf_counter()
        if self._kept:
            self._kept.start()
        with reporting(progress, total, "simulating") as tell:

            def keep(at: int, runs: Runs, seconds: float) -> None:
                if at in self.done:  # the second time, after an interruption
                    return
                self.done[at] = (runs, seconds)
                if self._kept:
                    self._kept.add(places[at], runs, seconds)
                tell(self.chunks[at].weight)

            try:
                if before:
                    tell(before)
                runner(self.chunks, self.todo, keep)
            except KeyboardInterrupt:
                pass
            finally:
                if self._kept:
                    self._kept.flush()
                self.elapsed += time.perf_counter() - start

    def finished_runs(self, numbers: Numbers) -> Numbers:
        """Those of the runs that every policy finished at every budget."""
        missing = [self.chunks[at].runs for at in self.todo]
        return np.setdiff1d(numbers, np.concatenate(missing)) if missing else numbers

    def parts(self, kept: Numbers) -> dict[Work, list[Runs]]:
        """The runs ``kept`` in order, in parts."""
        parts: dict[Work, list[Runs]] = {one: [] for one in self.work}
        whole = len(self.done) == len(self.chunks)
        for at, (runs, _) in sorted(self.done.items()):
            chunk = self.chunks[at]
            parts[chunk.work].append(runs if whole else runs[np.isin(chunk.runs, kept)])
        return parts

    def seconds(self) -> dict[Work, float]:
        """Each one's share of the elapsed time."""
        busy = sum(seconds for _, seconds in self.done.values())
        shares = dict.fromkeys(self.work, 0.0)
        for at, (_, spent) in self.done.items():
            shares[self.chunks[at].work] += spent * self.elapsed / busy
        return shares

    def _places(self) -> list[Place]:
        """How the checkpoint calls the chunks."""
        numbers = {one: number for number, one in enumerate(self.work)}
        return [(numbers[chunk.work], int(chunk.runs[0]), len(chunk.runs)) for chunk in self.chunks]
