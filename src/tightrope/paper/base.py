"""Experiments: what to simulate, as data, and an analysis of the results.

The analysis gets the :class:`Evidence` and never simulates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tightrope.engine.caveats import outside_theory
from tightrope.engine.simulation import SimulationRequest
from tightrope.policies.base import Policy
from tightrope.problem import Problem
from tightrope.problem.ready import ready_problem
from tightrope.report.panels import Panel
from tightrope.report.rows import ReportRow, detailed
from tightrope.results import Results


@dataclass(frozen=True)
class Call:
    """Some policies at some budgets on a ready problem."""

    problem: str
    policies: tuple[Policy, ...]
    budgets: tuple[float, ...]

    def load(self) -> Problem:
        """The problem itself."""
        return ready_problem(self.problem)

    def request(self, runs: int) -> SimulationRequest:
        """The request for the engine."""
        policies = {policy.label: policy for policy in self.policies}
        return SimulationRequest(self.load(), policies, self.budgets, np.arange(runs))

    def outside_theory(self) -> dict[tuple[str, float], str]:
        """Warnings about numbers outside the paper's theorems, by policy and budget."""
        policies = {policy.label: policy for policy in self.policies}
        return outside_theory(self.load(), policies, self.budgets)


@dataclass(frozen=True, eq=False)
class Evidence:
    """A sweep's calls and the results of each."""

    calls: Sequence[Call]
    results: Sequence[Results]

    @cached_property
    def rows(self) -> list[ReportRow]:
        """A row per problem, policy and budget."""
        return [
            row
            for call, results in zip(self.calls, self.results, strict=True)
            for row in detailed(results, call.problem, call.outside_theory())
        ]

    def rows_of(self, problem: str, policy: Policy) -> list[ReportRow]:
        """One policy's rows on one problem, by budget."""
        return [row for row in self.rows if (row.problem, row.policy) == (problem, policy.label)]


@dataclass(frozen=True)
class Experiment:
    """A sweep and its analysis.

    ``name``: its name in the shell and of its files. ``lead``: a few sentences about its result.
    ``panels``: the figure, in rows of ``columns``. ``notes``: how to read the numbers.
    """

    name: str
    title: str
    lead: str
    sweep: tuple[Call, ...]
    panels: Callable[[Evidence], Sequence[Panel]]
    notes: Callable[[Evidence], Sequence[str]]
    columns: int = 3
