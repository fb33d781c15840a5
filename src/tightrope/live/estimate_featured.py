"""Requests with features for the forward runs of an estimate, and their outcomes.

The requests to come are those of the policy's window of recent requests, each several times. A
forward run draws every arm's linear models from what is believed about them, and the outcomes of
the requests from their expectations: 0 or u, as in ``estimate``, with the chance (expected) / u.
Letters: n requests, K arms, C channels, D columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from tightrope.kernels.run_state import COLUMNS, CONTEXT, RunState
from tightrope.kernels.step import packed
from tightrope.policies.parts.linear import FAR, FLOOR, SEEN, STRIDE, Models, is_learned
from tightrope.policies.state import record_fields
from tightrope.problem import Task
from tightrope.problem.values import Floats

COPIES = 4  # of each request, with outcomes of their own


class _Belief(NamedTuple):
    """What is believed about the model of an arm's channel."""

    slopes: Floats  # [D]
    root: Floats  # [D, D] of the covariance
    least: float  # expected outcome


class FeaturedForward:
    """The requests of forward runs, and their outcomes in each run."""

    def __init__(self, task: Task, state: RunState) -> None:
        """``state``: a copy, in which forward runs will find the place of the features."""
        self._task, size = task, task.feature_columns
        models: Models = state.scratch.models
        names = [name for name, _ in record_fields(state.spec.policy.Scratch)]
        place = state["own_starts"][names.index("models.context")]
        state["counts"][[COLUMNS, CONTEXT]] = size, place
        seen = int(models.clock[SEEN])
        window = models.recent.reshape(-1, STRIDE)[:size, :seen].T
        away = np.clip((window - models.centre[:size]) * models.unit[:size], -FAR, FAR)
        away[:, 0] = 1.0
        self._here = np.repeat(away, COPIES, axis=0)
        self.columns = np.repeat(window, COPIES, axis=0).ravel()
        self._shape = task.arm_count, len(task.scales.channels)
        self._beliefs = {
            (arm, channel): _belief(models, self._shape, arm, channel, size)
            for arm, channel in np.ndindex(self._shape)
            if is_learned(state.record, arm, channel)
        }

    def laws(self, sizes: Floats, runs: int) -> Iterator[tuple[Any, ...]]:
        """The outcomes of all requests in each forward run, as in ``engine.laws``.

        ``sizes`` [K, C]: u of each arm and channel.
        """
        random, (arms, channels), rows = np.random.default_rng(0), self._shape, len(self._here)
        count = np.full(arms * channels, rows)
        offset, source = rows * np.arange(arms * channels), np.zeros(arms * channels, np.int64)
        ones, zeros = np.ones(arms * channels * rows), np.zeros(arms * channels * rows)
        for _ in range(runs):
            values = self._outcomes(sizes, random).ravel()
            yield packed(count, offset, source, ones, values, values, zeros)

    def _outcomes(self, sizes: Floats, random: np.random.Generator) -> Floats:
        """The outcomes of every arm for each request, [K, C, n], normalised."""
        task, rows = self._task, len(self._here)
        found = np.zeros((*self._shape, rows))
        known = task.normal_known
        for arm, channel in np.argwhere(known >= 0.0).tolist():
            found[arm, channel] = known[arm, channel]
        for (arm, channel), one in self._beliefs.items():
            drawn = one.slopes + one.root @ random.standard_normal(len(one.slopes))
            expected = np.clip(self._here @ drawn, one.least, 1.0)
            size = np.maximum(sizes[arm, channel], expected)
            found[arm, channel] = np.where(random.random(rows) * size < expected, size, 0.0)
        for m, kind in enumerate(task.limit_kinds):
            if kind.of in ("cost", "reward"):
                place = ("cost", "reward").index(kind.of)
                found[:, 2 + m] = task.weights[:, m, np.newaxis] * found[:, place]
        return found


def _belief(models: Models, shape: tuple[int, int], arm: int, channel: int, size: int) -> _Belief:
    slopes = models.slopes.reshape(*shape, -1)[arm, channel, :size]
    factor = np.tril(models.factors.reshape(*shape, len(models.here), -1)[arm, channel])
    factor = factor[:size, :size].copy()
    np.fill_diagonal(factor, 1.0 / factor.diagonal())
    noise = float(models.noise.reshape(shape)[arm, channel])
    root = np.sqrt(noise) * np.linalg.inv(factor)
    least = 0.0 if channel == 1 else FLOOR * float(models.usual.reshape(shape)[arm, channel])
    return _Belief(slopes.copy(), root, least)
