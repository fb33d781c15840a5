"""A live run in plain Python, on the same state, for policies that cannot be compiled."""

from __future__ import annotations

from typing import Any

import numpy as np

from tightrope.engine.single import wrong_arm
from tightrope.kernels import step
from tightrope.kernels.flight import carried_fields
from tightrope.kernels.live import NOTHING, REFUSED, in_range
from tightrope.kernels.rng import WEYL
from tightrope.kernels.run_state import ARMS, ASKED, EXPLORE, STEP, RunState
from tightrope.policies.base import Policy, Statistics, advance, net_penalty
from tightrope.policies.choice import ChoicePolicy
from tightrope.policies.parts.flight import UNTOLD, assume
from tightrope.policies.parts.forgetting import learn_and_forget, remember
from tightrope.policies.state import State, record_fields

__all__ = ["PlainCalls"]


class PlainCalls:
    """``tell`` and ``ask`` in plain Python, with the results of ``kernels.live``."""

    def __init__(self, policy: Policy, state: RunState) -> None:
        self._policy, self._state = policy, state
        learn = policy.learn if isinstance(policy, ChoicePolicy) else lambda *_: None
        self._learn = learn_and_forget(remember, learn)

    def tell(self, arm: int, cost: float, reward: float, penalty: Any) -> int:
        """Take the outcome of a pull, or refuse it without any change; returns the next arm."""
        state, layout = self._state, self._state.layout
        run, counts = state["run"], state["counts"]
        told = np.array([cost, reward, *np.atleast_1d(penalty)])
        scales = run[layout.scale : layout.scale + len(told)]
        if not (0 <= arm < counts[ARMS] and all(map(in_range, told, scales))):
            return REFUSED
        outcome = run[layout.outcome : layout.outcome + len(told)]
        outcome[:] = told / scales
        state["totals"][arm] += [1.0, *outcome]
        if state.spec.remembers:
            own = state.scratch if isinstance(self._policy, ChoicePolicy) else None
            history, fade = state["history"], float(run[layout.fade])
            self._learn(self._constants, state.record, own, history, fade, arm, outcome)
        run[layout.spent] += outcome[0]
        if counts[STEP] >= counts[EXPLORE]:
            self._move_queues(outcome)
        counts[STEP] += 1
        return NOTHING

    def _move_queues(self, outcome: Any, pulls: float = 1.0) -> None:
        state = self._state
        run, layout, spec = state["run"], state.layout, state.spec
        bases, limits = spec.bases, self._constants[-1 - spec.penalties :]
        if isinstance(self._policy, ChoicePolicy):
            bases, limits = state.record.bases, state.record.limits
        for m in range(spec.penalties):
            drain, at, penalty = run[layout.allowance + m], layout.lost + m, outcome[2 + m]
            if len(bases):
                cost, reward = outcome[0], outcome[1]
                penalty = net_penalty(bases[m], limits[m], pulls, cost, reward, penalty)
            run[m], run[at] = advance(run[m], run[at], drain, outcome[0], penalty)
            run[layout.peak + m] = max(run[layout.peak + m], run[m])

    @property
    def _constants(self) -> tuple[float, ...]:
        return tuple(self._state["wide"].tolist())

    def ask(self, exploring: bool | None = None) -> int:
        """The next arm: each arm in turn during exploration, then the policy's choice."""
        state, counts = self._state, self._state["counts"]
        asked = int(counts[ASKED])
        counts[ASKED] += 1
        words = state.spec.words
        for word in range(words):
            weyl = (asked * words + word + 1) * WEYL
            state["pair"][word] = step.next_word(state["words"], 4, 1, weyl)
        if asked < counts[EXPLORE] if exploring is None else exploring:
            return asked % int(counts[ARMS])
        chosen = self._chosen(step.coin_of(int(state["pair"][0])) if words else 0.0)
        if not isinstance(chosen, int | np.integer):
            raise wrong_arm(self._policy.label, chosen, int(counts[STEP]), int(counts[ARMS]))
        return int(chosen)

    def ask_beside(self, flight: Any, stand_ins: Any) -> int:
        """The next arm with pulls in ``flight`` [K], and each arm's stand-in [K]."""
        told, counts = self._state, self._state["counts"]
        seen = told.copy()
        self._state = seen
        try:
            expected = np.zeros(2 + told.spec.penalties)
            for arm in np.flatnonzero(flight).tolist():
                expected += self._expect(told, arm, float(flight[arm]))
            if flight.any() and counts[STEP] >= counts[EXPLORE]:
                self._move_queues(expected, float(flight.sum()))
            _keep_carried(self._policy, told, seen)
            for arm, other in enumerate(stand_ins.astype(int).tolist()):
                if other != arm:
                    _copy_arm(self._policy, seen, arm, other)
            arm = self._least_pulled(stand_ins)
            if arm < 0:
                arm = self.ask(exploring=False)
                arm = int(stand_ins[arm]) if 0 <= arm < len(stand_ins) else arm
                _keep_carried(self._policy, seen, told)
            else:
                self.ask(exploring=True)
        finally:
            self._state = told
            for name in ("words", "pair"):
                told[name][:] = seen[name]
            counts[ASKED] += 1
        return arm

    def _expect(self, told: RunState, arm: int, count: float) -> Any:
        """Add pulls of an arm to the state, as they are expected; returns what they come to."""
        state, outcome = self._state, np.zeros(2 + self._state.spec.penalties)
        if state.spec.remembers:
            assume(state.record, told.record, arm, count, outcome)
            if isinstance(self._policy, ChoicePolicy):
                self._policy.learn(self._constants, state.record, state.scratch, arm)
        else:
            totals = told["totals"]
            pulls = totals[:, 0].sum()
            mean = totals[:, 1:].sum(axis=0) / pulls if pulls else np.full(len(outcome), UNTOLD)
            if totals[arm, 0]:
                mean = totals[arm, 1:] / totals[arm, 0]
            outcome[:] = count * mean
        state["totals"][arm] += [count, *outcome]
        return outcome

    def _least_pulled(self, stand_ins: Any) -> int:
        """An arm with too few pulls, told or in flight, to have been explored; -1 if none has."""
        counts, arms = self._state["counts"], self._state["totals"][:, 0]
        enough = counts[EXPLORE] / counts[ARMS]
        own = stand_ins == np.arange(len(arms))
        fewest = np.where(own & (arms < enough), arms, np.inf)
        return int(fewest.argmin()) if np.isfinite(fewest).any() else -1

    def _chosen(self, uniform: float) -> int:
        """The answer of the policy, unchecked."""
        state, policy = self._state, self._policy
        if isinstance(policy, ChoicePolicy):
            return policy.choose(self._constants, state.record, state.scratch, state["pair"])
        return self._decide(uniform)

    def _decide(self, uniform: float) -> int:
        state, setup = self._state, self._state.setup
        limited = len(setup.allowance)
        pulls, *totals = state["totals"].T.tolist()
        if state.spec.remembers:
            pulls = state.record.pulls.tolist()
            totals = state.record.totals.reshape(len(pulls), -1).T.tolist()
        penalties = [list(row) for row in zip(*totals[2 : 2 + limited], strict=True)]
        seen = Statistics(pulls, totals[0], totals[1], penalties or [[] for _ in pulls])
        remembered = sum(pulls) if setup.forgets else int(sum(state["totals"][:, 0].tolist()))
        queues = state["run"][:limited].tolist()
        return self._policy.decide(setup, remembered, seen, queues, uniform)


def _field(record: Any, name: str) -> Any:
    for part in name.split("."):
        record = getattr(record, part)
    return record


def _keep_carried(policy: Policy, source: RunState, to: RunState) -> None:
    """Copy what ``choose`` may have changed for good."""
    if isinstance(policy, ChoicePolicy):
        for name, _ in carried_fields(policy):
            _field(to.scratch, name)[:] = _field(source.scratch, name)


def _copy_arm(policy: Policy, state: RunState, arm: int, other: int) -> None:
    """Give an arm the numbers of another."""
    state["totals"][arm] = state["totals"][other]
    records: list[tuple[Any, type]] = []
    if state.spec.remembers:
        records.append((state.record, State))
    if isinstance(policy, ChoicePolicy):
        records.append((state.scratch, policy.Scratch))
    for record, kind in records:
        for name, shape in record_fields(kind):
            if shape[0] == "K" and name != "flight":
                rows = _field(record, name).reshape(len(state["totals"]), -1)
                rows[arm] = rows[other]
