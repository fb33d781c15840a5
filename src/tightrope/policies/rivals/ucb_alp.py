"""UCB-ALP: a linear program over the types of requests, for what is left of the allowances.

Wu, Srikant, Liu and Jiang, "Algorithms with logarithmic or sublinear regret for constrained
contextual bandits", NeurIPS 2015. A request of type j comes with probability pi_j. At round t, with
tau rounds and a budget of b pulls left, solve

    maximise sum_j pi_j sum_k p_jk u_jk   subject to   sum_j pi_j sum_k p_jk <= b / tau,
    sum_k p_jk <= 1,   p >= 0

with the upper confidence bounds u_jk = mean reward + sqrt(log(t) / (2 n_jk)), 1 before the first
pull, and pull arm k with probability p_jk. The limit b / tau follows what was really spent.

It differs from the paper in these points:

- The budget is a total random cost and ends the run, so the program maximises reward per unit of
  cost; mean costs are empirical. In the paper a pull costs 1, or a fixed amount known per arm.
- The constraints are the penalty limits: the allowance left over the budget left, in place of
  b / tau. Penalties are unknown, so the program takes their lower confidence bounds, with the
  radius of the rewards.
- A request cannot be skipped. If no policy keeps the limits, it takes the least violating one.
- The shares of types are counted, as in the paper's variant for an unknown distribution.
- Each arm is pulled for each type until it has cost something.

``parts.maps`` solves the program as a mixture of maps from types to arms. Without contexts there is
one type, and the policy resembles ``ucb-lp``. The formulas were written from memory of the paper.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, NamedTuple

from tightrope.policies.base import Constants, Setup, limits_of
from tightrope.policies.choice import ChoicePolicy
from tightrope.policies.parts.by_type import (
    RowBounds,
    arms_and_types,
    bound_rows,
    type_of,
    untried_row,
)
from tightrope.policies.parts.maps import Maps, pick_of_maps, solve_maps
from tightrope.policies.parts.sampling import coin
from tightrope.policies.state import Array, State
from tightrope.problem import Task

LEAST, TINY = 1e-6, 1e-12  # the smallest limit if no allowance is left: of the limit, and of all


class AdaptiveProgram(NamedTuple):
    """The bounds of the rows, and the program over maps from types to arms."""

    limits: Annotated[Array, "M"]  # the allowance left over the budget left
    bounds: RowBounds
    maps: Maps


@dataclass(frozen=True)
class UCBALP(ChoicePolicy):
    """Play the best mixture over types at optimistic means, for what is left of the allowances.

    ``alpha``: the confidence radius is sqrt(alpha log(t) / pulls); the paper has 1/2.

    >>> UCBALP(alpha=0.1).label
    'ucb-alp:alpha=0.1'
    """

    alpha: float = 0.5

    name: ClassVar[str] = "ucb-alp"
    summary: ClassVar[str] = "the best mixture over types at optimistic means, given what is left"
    contestants: ClassVar[tuple[str, ...]] = ("ucb-alp",)
    colour: ClassVar[str | None] = "#005f73"
    contextual: ClassVar[bool] = True

    Scratch: ClassVar[type] = AdaptiveProgram
    carried: ClassVar[tuple[str, ...]] = ("maps.rows", "maps.theta")

    def __post_init__(self) -> None:
        self.require_number("alpha", 0.0)

    def setup(self, task: Task, budget: float) -> Setup:
        """Constants: alpha, K and T."""
        return Setup(constants=(self.alpha, *arms_and_types(task)), allowance=limits_of(task))

    @staticmethod
    def choose(constants: Constants, state: State, scratch: AdaptiveProgram, words: Array) -> int:
        """The row of an arm drawn from the best mixture for the type of the request."""
        kind, count = type_of(constants[2], words), int(constants[1])
        row = untried_row(state, kind, count)
        if row >= 0:
            return row
        for m in range(len(scratch.limits)):
            left = state.remaining[1 + m] / max(state.remaining[0], TINY)
            scratch.limits[m] = max(left, LEAST * state.limits[m], TINY)
        bound_rows(state, scratch.bounds, count, constants[0])
        solve_maps(scratch.bounds, scratch.limits, scratch.maps, count)
        return pick_of_maps(scratch.maps, kind, coin(words[0]))
