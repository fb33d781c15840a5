"""The contracts as test classes: subclass one, name your class, run pytest.

class TestMine(PolicyContract):
    policies = (Mine(), Mine(boldness=2.0))
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from tightrope.engine.python import play
from tightrope.engine.simulation import simulate
from tightrope.laws import Beta, CostAbove, TwoPoint, Uniform
from tightrope.policies.base import IndexPolicy, Policy
from tightrope.problem import Arm, Problem, Scales
from tightrope.ready import ready_problem

__all__ = ["PolicyContract"]


def _dollars() -> Problem:
    """Continuous and dependent outcomes, rows, two penalties, units."""
    return Problem(
        (
            Arm("a", Uniform(5.0, 40.0), Beta(2, 3), [CostAbove(20.0), Beta(2, 2)]),
            Arm("b", TwoPoint(1.0, 50.0, 0.3), Uniform(0.0, 1.0), [Beta(1, 4), Beta(1, 4)]),
            Arm.from_rows("c", [(10.0, 0.5, 0.0, 1.0), (30.0, 0.9, 1.0, 0.0), (2.0, 0.1, 0, 0)]),
        ),
        limit=(0.03, 0.03),
        scales=Scales(cost=50.0),
    )


class PolicyContract:
    """What every policy must satisfy, on Bernoulli arms and on arms of every other kind."""

    policies: ClassVar[Sequence[Policy]] = ()
    problems: ClassVar[Sequence[tuple[Problem, float]]] = (
        (ready_problem("paper"), 60.0),
        (_dollars(), 400.0),
    )

    def test_it_says_what_it_is(self) -> None:
        """A name for the shell, a line for a list, parameters with defaults that never change."""
        assert self.policies, "name the policies to test"
        for policy in self.policies:
            assert policy.name == policy.name.lower().strip()
            assert policy.summary
            assert dataclasses.is_dataclass(policy)
            assert type(policy)(), "every parameter needs a default"
            assert policy == dataclasses.replace(policy)
            assert hash(policy) == hash(dataclasses.replace(policy))

    def test_its_setup_is_plain_numbers(self) -> None:
        """Finite constants, an allowance for each penalty, a whole number of pulls to explore."""
        for policy in self.policies:
            for problem, budget in self.problems:
                setup = policy.setup(problem, budget / problem.scales.cost)
                assert all(math.isfinite(value) for value in setup.constants)
                assert len(setup.allowance) == problem.penalty_count
                assert setup.explore >= 0
                if setup.terms is not None:
                    assert setup.terms.shape == (problem.arm_count, 1 + problem.penalty_count, 2)
                if isinstance(policy, IndexPolicy):
                    assert policy.learns == (setup.terms is None)

    def test_it_picks_an_arm_at_every_step(self) -> None:
        """And every run ends right after its cost first exceeds the budget."""
        for policy in self.policies:
            for problem, budget in self.problems:
                scaled = budget / problem.scales.cost
                steps = list(play(problem, policy, policy.setup(problem, scaled), scaled, 1, 0))
                assert all(0 <= arm < problem.arm_count for arm, _, _ in steps)
                assert sum(values[0] for _, values, _ in steps[:-1]) <= scaled
                assert all(queue >= 0 for _, _, queues in steps for queue in queues)

    def test_compiled_it_decides_as_in_plain_python(self) -> None:
        """The same pulls on the same draws."""
        for policy in self.policies:
            if not isinstance(policy, IndexPolicy):
                continue
            for problem, budget in self.problems:
                compiled, plain = (
                    simulate(
                        problem,
                        {"p": policy},
                        budgets=budget,
                        runs=4,
                        seed=7,
                        backend=backend,
                        precision="double",
                        progress=False,
                    )["p"].runs
                    for backend in ("cpu", "python")
                )
                np.testing.assert_array_equal(compiled.pulls, plain.pulls)
                np.testing.assert_allclose(compiled.queue, plain.queue, atol=1e-9)
                np.testing.assert_allclose(compiled.reward, plain.reward, atol=1e-9)
