"""A controller for requests with features: ``ask(context=[...])``, ``tell(..., context=[...])``.

The vector of a request is rounded to single precision where it enters. It is remembered while its
pull is in flight, so that a report can leave it out. A policy that does not use features decides as
if there were none.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import isfinite
from struct import Struct
from struct import error as struct_error
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from tightrope.errors import InputError
from tightrope.kernels.live import NOTHING
from tightrope.kernels.native import native
from tightrope.live.controller import Controller, Penalty
from tightrope.live.past import PastData, rows_of_past, sums_of_lines, weights_of_past
from tightrope.policies.choice import hashed
from tightrope.policies.parts.beliefs import CELLS, NORMAL
from tightrope.policies.parts.linear import NEXT, RECENT, SEEN, STRIDE, is_learned
from tightrope.policies.parts.regression import complete
from tightrope.problem.features import Features, Mixed
from tightrope.problem.values import at

SINGLE = np.dtype(np.float32)


class FeatureEffect(NamedTuple):
    """What one deviation more of a feature does to an arm's outcome, in the outcome's unit."""

    feature: str
    arm: str
    outcome: str  # cost, reward, or the name of a limit
    effect: float
    band: float  # half of the 95 % interval


class FeaturedController(Controller):
    """A :class:`Controller` whose requests have features."""

    def _hold(self, *held: Any) -> None:
        super()._hold(*held)
        self.contexts = cast(Features | Mixed, self.task.contexts)
        self._aware = self.policy.contextual
        size = self.contexts.columns - 1
        self._rounded = np.zeros(size, np.float32)
        listed = isinstance(self.contexts, Features)
        self._pack = Struct(f"{size}f").pack_into if listed else None
        self._double = self._columns = np.zeros(size)
        if self._aware:
            columns = self._state.scratch.models.context
            columns[0] = 1.0
            self._columns = columns[1 : size + 1]

    # Contexts.

    def _face(self, context: Any) -> None:
        """Note the context of the request, or of the report, in the state."""
        rounded: Any = self._rounded
        try:
            if context.__class__ is list and self._pack is not None:  # the fastest way
                self._pack(rounded, 0, *context)
            elif context.__class__ is np.ndarray and context.dtype is SINGLE:
                rounded = context if context.shape == rounded.shape else self.contexts.row(context)
            else:
                rounded = self.contexts.row(context)
        except (struct_error, OverflowError):  # a wrong length, no numbers, or too large ones
            rounded = self.contexts.row(context)
        self._double[:] = rounded
        if not isfinite(self._double.dot(self._double)):
            self._double[:] = self.contexts.row(context)  # which raises
        self._columns[:] = self._double

    def _count_alone(self) -> None:
        if self._aware and self._alone >= 0:
            self._remember_vector(self._alone)
        super()._count_alone()

    def _remember_vector(self, arm: int) -> None:
        """Remember the context of a pull that is now in flight."""
        self._beside.vectors.setdefault(arm, []).append(tuple(self._columns.tolist()))

    def _launch_row(self, row: int) -> None:
        """For the context of the last decision."""
        super()._launch_row(row)
        if self._aware:
            self._remember_vector(row)

    # Decisions and reports.

    def ask(self, eligible: Iterable[int | str] | None = None, context: object = None) -> int:
        """The arm to pull next for a request with these features; see ``Controller.ask``."""
        if self._alone >= 0:
            self._count_alone()
        self._face(context)
        return self._ask_row(eligible) if self._aware else super().ask(eligible)

    def choose(self, eligible: Iterable[int | str] | None = None, *, context: object = None) -> int:
        """As ``Controller.choose``; a policy that ignores features needs no context."""
        if self._alone >= 0:
            self._count_alone()
        before = self._columns.copy()
        if self._aware or context is not None:
            self._face(context)
        try:
            return super().choose(eligible)
        except InputError:
            self._columns[:] = before
            raise

    def pass_over(
        self, eligible: Iterable[int | str] | None = None, *, context: object = None
    ) -> None:
        """As ``Controller.pass_over``."""
        if self._mindless and self._asides:
            super().pass_over()
        else:
            self.choose(eligible, context=context)

    def launch(self, arm: int, *, context: object = None) -> None:
        """As ``Controller.launch``; with a ``context``, the report must come with it too."""
        if context is None:
            self._launch_row(arm)
        else:
            super()._launch_row(arm)

    def tell(
        self,
        arm: int | str,
        cost: float | None = None,
        reward: float | None = None,
        penalty: Penalty = None,
        context: object = None,
    ) -> None:
        """As ``Controller.tell``; ``context`` may be left out if only one pull is in flight."""
        if not self._aware or (context is None and arm == self._alone):
            super().tell(arm, cost, reward, penalty)
            return
        number = self.number_of(arm)
        vector = self._reported(number, context)
        super().tell(number, cost, reward, penalty)
        self._forget_vector(number, vector)

    def tell_row(self, arm: int, row: npt.NDArray[np.float64], *, context: object = None) -> None:
        """As ``Controller.tell_row``."""
        if self._aware:
            vector = self._reported(arm, context)
        super().tell_row(arm, row)
        if self._aware:
            self._forget_vector(arm, vector)

    def void(self, arm: int | str, *, context: object = None) -> None:
        """As ``Controller.void``."""
        if not self._aware:
            super().void(arm)
            return
        number = self.number_of(arm)
        self._count_alone()
        vectors = self._beside.vectors.get(number, ())
        vector = self._reported(number, context) if vectors else ()
        super().void(number)
        self._forget_vector(number, vector)

    def _reported(self, arm: int, context: object) -> tuple[float, ...]:
        """Note the context that a report is about; the vector to forget once it is learned."""
        if self._alone == arm and not self._asides:
            if context is not None:
                self._face(context)
            return ()
        self._count_alone()
        if context is not None:
            self._face(context)
            return tuple(self._columns.tolist()) if self._beside.vectors else ()
        vectors = self._beside.vectors.get(arm, [])
        if len(set(vectors)) != 1:
            flying = f"{len(vectors)} pulls of {self.arm_name(arm)!r} are in flight"
            raise InputError(f"context is missing; must be given, because {flying}")
        self._columns[:] = vectors[0]
        return vectors[0]

    def _forget_vector(self, arm: int, vector: tuple[float, ...]) -> None:
        """A pull has landed: one vector less than pulls in flight."""
        vectors = self._beside.vectors.get(arm)
        if vectors and len(vectors) > self._flight[arm]:
            vectors.remove(vector if vector in vectors else vectors[0])
            if not vectors:
                del self._beside.vectors[arm]

    def forget_requests(self) -> None:
        """Replace the latest requests by random ones with the same means and deviations.

        Only sums over requests remain.
        """
        self._count_alone()
        self._beside.vectors.clear()
        if self._aware:
            scratch = self._state.scratch
            models, learner = scratch.models, getattr(scratch, "joint", scratch.models)
            for arm in range(len(learner.count)):
                complete(learner, arm, len(self.task.scales.channels))
            learner.waiting[:] = learner.here[1:] = 0.0
            features, size = self.contexts.columns - self.contexts.types, self.contexts.columns
            begin = np.cumsum(models.centre[features:size]) - models.centre[features:size]
            shares = (np.arange(RECENT) + 0.5) / RECENT
            window = models.recent.reshape(-1, STRIDE)[:size, :RECENT]
            for j in range(1, features):
                deviation = 1.0 / models.unit[j] if models.unit[j] > 0.0 else 0.0
                normal = [NORMAL[hashed(j, n) & (CELLS - 1)] for n in range(RECENT)]
                window[j] = models.centre[j] + deviation * np.array(normal)
            window[features:] = begin[:, np.newaxis] <= shares
            window[features:-1] -= window[features + 1 :]  # 1 in the column of one type alone
            models.context[1:], models.here[1:] = models.centre[1:], 0.0
            self._state.scratch.fresh[0] = 0.0
            self._arm = NOTHING

    # What is learned.

    @property
    def feature_names(self) -> list[str]:
        """The names of the features, in order."""
        both = isinstance(self.contexts, Mixed)
        return list((self.contexts.features if both else self.contexts).names)  # type: ignore[union-attr, arg-type]

    def effects(self) -> list[FeatureEffect]:
        """What one deviation more of each feature does to each outcome of each arm.

        Outcomes that are known, policies that ignore features, and numbers have no effects.
        """
        if not self._aware or self.task.space is not None:
            return []
        models, scales = self._state.scratch.models, self.task.scales.channels
        shape, size = (self.task.arm_count, len(scales)), self.contexts.columns
        slopes = models.slopes.reshape(*shape, -1)
        factors = models.factors.reshape(*shape, slopes.shape[2], -1)[..., :size, :size]
        spread = {}
        for arm, channel in np.ndindex(shape):
            if is_learned(self._state.record, arm, channel):
                factor = np.tril(factors[arm, channel])
                np.fill_diagonal(factor, 1.0 / factor.diagonal())
                noise = models.noise.reshape(shape)[arm, channel]
                spread[arm, channel] = np.sqrt(noise * np.square(np.linalg.inv(factor)).sum(axis=1))
        return [
            FeatureEffect(
                name,
                self.arm_name(arm),
                outcome,
                float(slopes[arm, channel, j]) * scales[channel],
                1.96 * float(spread[arm, channel][j]) * scales[channel] * (models.unit[j] > 0.0),
            )
            for j, name in enumerate(self.feature_names, start=1)
            for arm in range(shape[0])
            for channel, outcome in enumerate(self.task.channels)
            if (arm, channel) in spread
        ]

    # Learning from a log.

    def learn_past(self, past: PastData, weight: float) -> None:
        """Learn from every line as from a report with a weight."""
        arms, outcomes, contexts = rows_of_past(past, self.task)
        if not self._aware:
            super().learn_past(past, weight)
            return
        if contexts is None:
            raise InputError("learn_from: has no contexts, which the task needs")
        with at("learn_from"):
            vectors = self.contexts.rows(contexts).astype(np.float64)
        values = np.minimum(outcomes / np.array(self.task.scales.channels), 1.0)
        self._learn_lines(arms, values, vectors, weights_of_past(past, arms, weight))

    def _learn_lines(self, arms: Any, values: Any, vectors: Any, weights: Any) -> None:
        """Learn from lines: the arm, normalised outcomes, the context, the weight of each."""
        state, last = self._state, len(arms) - 1
        learn, block = native(state.spec).kernels[1], state.block.ctypes.data
        record, models = state.record, state.scratch.models
        added = sums_of_lines(state, values, weights)
        fields = [getattr(record, name).reshape(len(record.pulls), -1) for name in added]
        for line, (arm, *numbers) in enumerate(zip(arms.tolist(), *added.values(), strict=True)):
            for field, one in zip(fields, numbers, strict=True):
                field[arm] += one
            self._columns[:] = vectors[line]
            if line == last:  # requests from all over the log take the place of its last ones
                spread = np.linspace(0, last, RECENT).astype(int)
                window = models.recent.reshape(-1, STRIDE)[:, :RECENT]
                window[0], window[1 : 1 + vectors.shape[1]] = 1.0, vectors[spread].T
                models.clock[[NEXT, SEEN]] = 0.0, RECENT
            learn(block, arm)

    def add_arm(self, name: str, **facts: Any) -> int:
        """Not available."""
        raise InputError(f"arm {name!r}: cannot be added to a task with contexts")
