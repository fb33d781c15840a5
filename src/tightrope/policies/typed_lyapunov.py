"""LyOff and LyOn for requests with types: they run where a task has contexts.

The paper's index I_k = V r_k - sum_m Q_m y_mk compares arms per unit of cost. With types, a unit of
cost has the price theta, and the value of a row is a difference:

    X_xk (I_xk - theta),   for the row's mean cost X_xk.

A request of type x pulls the arm with the largest value. The price is the root of
sum_x p_x max_k X_xk (I_xk - theta) = 0, where p_x are the shares of the types. Newton's method
(Dinkelbach) finds it from the last price, in two or three rounds as a rule. With one type, theta is
the largest index, and the arm is that of the paper.

LyOff knows shares and means. LyOn counts shares, and takes the paper's confidence bounds of every
row; its queues also count the exploration. ``docs/contexts-theory.md`` has the derivation, and a
theorem for LyOff.

Letters: T types, K arms, row = type * K + arm, M limits, C = 2 + M channels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np

from tightrope.errors import PolicyError
from tightrope.policies.base import (
    Constants,
    InformedPolicy,
    Setup,
    limits_of,
    net_sum,
    net_width,
)
from tightrope.policies.choice import WORDS, ChoicePolicy
from tightrope.policies.lyoff import LyOff
from tightrope.policies.lyon import LyOn
from tightrope.policies.parts.by_type import best_row, count_types, find_root
from tightrope.policies.state import Array, State
from tightrope.problem import Problem, Task, require_unchanging
from tightrope.problem.values import Floats

# The constants: V, the sign of the penalty's bonus, 2 alpha and known costs are those of LyOn.
V, ARMS, DELTA, EXPLORE, MEANS = 0, 4, 5, 6, 7

clock_of, reward_terms, penalty_terms = LyOn.clock, LyOn.reward_terms, LyOn.penalty_terms
reward_index, penalty_index = LyOn.reward_index, LyOn.penalty_index


class RowIndices(NamedTuple):
    """The queues, the price, and the numbers of every row at a step."""

    length: Annotated[Array, "M"]  # of the queues
    before: Annotated[Array, "R"]  # the state's ``remaining`` before the last pull
    theta: Annotated[Array, 1]  # the price of a unit of cost; on the page, V theta - Q (c - delta)
    share: Annotated[Array, "K"]  # of the row's type among requests, up to a factor
    cost: Annotated[Array, "K"]  # the mean of a pull; 0 if it is not known
    gain: Annotated[Array, "K"]  # the paper's, negated: the largest is best
    reward: Annotated[Array, "K"]  # LyOff: known rates
    penalty: Annotated[Array, "K", "M"]


class TypedLyapunov(ChoicePolicy):
    """The queues of both policies, which count every pull, and the price theta."""

    contextual: ClassVar[bool] = True
    Scratch: ClassVar[type] = RowIndices
    carried: ClassVar[tuple[str, ...]] = ("theta",)
    learned: ClassVar[Mapping[str, str]] = {"length": "penalties", "before": "remaining"}
    plain: ClassVar[type[Any]]  # the policy without types

    def __post_init__(self) -> None:
        self.without_types()  # which checks the parameters

    def without_types(self) -> Any:
        """The paper's policy with the same parameters."""
        return self.plain(**{one.name: getattr(self, one.name) for one in fields(self)})  # type: ignore[arg-type]

    @staticmethod
    def learn(constants: Constants, state: State, scratch: RowIndices, row: int) -> None:
        """Advance the queues by the cost and net penalties since the last report (eqn:q-length)."""
        before, remaining = scratch.before, state.remaining
        cost = before[0] - remaining[0]
        for m in range(len(scratch.length)):
            allowed = (state.limits[m] - constants[DELTA]) * cost
            moved = scratch.length[m] + (before[1 + m] - remaining[1 + m]) - allowed
            scratch.length[m] = max(moved, 0.0)
            before[1 + m] = remaining[1 + m]
        before[0] = remaining[0]


@dataclass(frozen=True)
class TypedLyOff(InformedPolicy, TypedLyapunov):
    """``lyoff`` for requests with types; see :class:`LyOff`."""

    v0: float = 1.0
    delta0: float = 0.5
    v: float | None = None
    delta: float | None = None

    name: ClassVar[str] = LyOff.name
    summary: ClassVar[str] = LyOff.summary
    plain: ClassVar[type[Any]] = LyOff

    def setup(self, problem: Problem, budget: float) -> Setup:  # type: ignore[override]
        """Constants: V, K and delta; then each row's share, cost, reward and penalty rates."""
        each = problem.by_type
        require_unchanging(each[0], f"policy {self.name}: knows the means of", error=PolicyError)
        schedule = self.without_types().schedule
        v, delta = schedule.at(budget, problem.scales.cost)
        rows = [_known(*one) for one in zip(problem.shares.values(), each, strict=True)]
        means = np.concatenate(rows).ravel().tolist()
        return Setup(
            constants=(v, 0.0, 0.0, 0.0, float(problem.arm_count), delta, 0.0, *means),
            allowance=tuple(limit - delta for limit in limits_of(problem)),
            warning=schedule.outside(budget, problem),
        )

    @staticmethod
    def begin(constants: Constants, state: State, scratch: RowIndices) -> None:
        """Copy ``remaining``, and the means from the constants."""
        _begin(state, scratch)
        limited = len(state.limits)
        for row in range(len(state.pulls)):
            first = MEANS + row * (3 + limited)
            scratch.share[row], scratch.cost[row] = constants[first], constants[first + 1]
            scratch.reward[row] = constants[first + 2]
            for m in range(limited):
                scratch.penalty[row * limited + m] = constants[first + 3 + m]

    @staticmethod
    def choose(constants: Constants, state: State, scratch: RowIndices, words: Array) -> int:
        """The row of the best arm for the type of the request."""
        limited = len(state.limits)
        for row in range(len(state.pulls)):
            index = constants[V] * scratch.reward[row]
            for m in range(limited):
                index -= scratch.length[m] * scratch.penalty[row * limited + m]
            scratch.gain[row] = index
        return _best_at_the_root(scratch, int(words[WORDS]), int(constants[ARMS]))


@dataclass(frozen=True)
class TypedLyOn(TypedLyapunov):
    """``lyon`` for requests with types; see :class:`LyOn`."""

    v0: float = 1.0
    delta0: float = 0.5
    alpha: float = 2.0
    beta0: float = 1.0
    mu_min: float | None = None
    penalty_bonus: str = "optimistic"
    v: float | None = None
    delta: float | None = None
    window0: float | None = None
    discount0: float | None = None

    name: ClassVar[str] = LyOn.name
    summary: ClassVar[str] = LyOn.summary
    plain: ClassVar[type[Any]] = LyOn

    def __post_init__(self) -> None:
        super().__post_init__()
        for parameter in ("window0", "discount0"):
            none = getattr(self, parameter) is None
            self.require(parameter, "none for requests with types", none)

    @property
    def knows(self) -> str:
        """The smallest mean cost, if ``mu_min`` is not given."""
        return str(self.without_types().knows)

    def setup(self, task: Task, budget: float) -> Setup:
        """LyOn's constants; then K, delta, and how often each row is first pulled."""
        plain = self.without_types()
        found: Setup = plain.setup(task, budget)
        arms = task.arm_count // max(task.types, 1)
        _, delta = plain.schedule.at(budget, task.scales.cost)
        constants = (*found.constants, float(arms), delta, float(found.explore))
        return replace(found, constants=constants, explore=0)

    @staticmethod
    def begin(constants: Constants, state: State, scratch: RowIndices) -> None:
        """Copy ``remaining``."""
        _begin(state, scratch)

    @staticmethod
    def choose(constants: Constants, state: State, scratch: RowIndices, words: Array) -> int:
        """The row to explore, else the row of the best arm for the type of the request."""
        kind, count = int(words[WORDS]), int(constants[ARMS])
        row = _unexplored(constants, state, kind, count)
        if row >= 0:
            return row
        clock = clock_of(constants, max(count_types(state, scratch.share, count), 1.0))
        for row in range(len(state.pulls)):
            _find_index(constants, state, scratch, row, clock)
        return _best_at_the_root(scratch, kind, count)


def _known(share: float, one: Problem) -> Floats:
    """Share, mean cost, reward and penalty rates of a type's rows, [K, 3 + M]."""
    means, shares = one.moments, np.full(one.arm_count, share)
    return np.column_stack([shares, means.cost, means.reward_rate, means.penalty_rate])


def _begin(state: State, scratch: RowIndices) -> None:
    for at in range(len(state.remaining)):
        scratch.before[at] = state.remaining[at]


# What LyOn learns.


def _unexplored(constants: Constants, state: State, kind: int, count: int) -> int:
    """The row of the type with the fewest pulls, if too few; then one without cost; else -1."""
    channels, found, fewest = len(state.remaining) + 1, -1, constants[EXPLORE]
    for row in range(kind * count, (kind + 1) * count):
        if state.pulls[row] < fewest:
            found, fewest = row, state.pulls[row]
    if found >= 0:
        return found
    for row in range(kind * count, (kind + 1) * count):
        if state.totals[row * channels] <= 0.0:  # its index would be infinite
            return row
    return -1


def _find_index(
    constants: Constants, state: State, scratch: RowIndices, row: int, clock: float
) -> None:
    """A row's mean cost and its index with the paper's bounds (eqn:ly-index)."""
    limited = len(state.limits)
    first, pulls = row * (2 + limited), state.pulls[row]
    cost, earned = state.totals[first], state.totals[first + 1]
    scratch.cost[row] = scratch.gain[row] = 0.0
    if cost <= 0.0:
        return
    level, width = reward_terms(constants, pulls, cost, earned)
    index = reward_index(constants, clock, 0.0, 0.0, level, width)
    for m in range(limited):
        base, limit = state.bases[m], state.limits[m]
        net = net_sum(base, limit, pulls, earned, state.totals[first + 2 + m])
        level, width = penalty_terms(constants, pulls, cost, net)
        low = penalty_index(constants, clock, level, width * net_width(base, limit))
        index += scratch.length[m] * low
    scratch.cost[row], scratch.gain[row] = cost / pulls, -index


def _best_at_the_root(scratch: RowIndices, kind: int, count: int) -> int:
    """Find theta; the row of the type's best arm at this theta."""
    find_root(scratch.theta, scratch.share, scratch.cost, scratch.gain, count)
    return best_row(scratch.cost, scratch.gain, kind * count, count, scratch.theta[0])
