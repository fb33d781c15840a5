from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tightrope.errors import ProblemError
from tightrope.optimum.pi_star import oracle
from tightrope.problem import Problem, Task
from tightrope.problem.ready import load_problem, load_task, ready_names, ready_problem


@pytest.mark.parametrize("name", ready_names())
def test_every_ready_problem_holds_together(name: str) -> None:
    problem = ready_problem(name)
    assert problem.name == name
    assert Problem.from_toml(problem.to_toml()) == problem
    assert "\n" not in ready_names()[name]
    tables = problem.tables()
    assert np.isfinite(tables.first).all()


@pytest.mark.parametrize("name", [name for name in ready_names() if not name.startswith("arena-")])
def test_every_ready_problem_is_a_real_trade_off(name: str) -> None:
    best = oracle(ready_problem(name))
    assert best.penalty_rate == pytest.approx(ready_problem(name).limits)  # the limit binds
    assert best.multiplier[0] > 0
    assert np.count_nonzero(best.cost_share) == 2


def test_the_papers_arms() -> None:
    np.testing.assert_array_equal(
        ready_problem("paper").bernoulli(), [[0.4, 0.8, 0.6], [0.6, 0.6, 0.3]]
    )
    np.testing.assert_array_equal(
        ready_problem("paper-tradeoff").bernoulli(), [[0.4, 0.6, 0.6], [0.6, 0.3, 0.3]]
    )


def test_the_papers_many_arms() -> None:
    problem = ready_problem("paper-arms-6")
    assert problem.limits == (0.8,)
    chances = problem.bernoulli()
    assert chances is not None
    np.testing.assert_allclose(chances[:2], ready_problem("paper-tradeoff").bernoulli())
    np.testing.assert_allclose(chances[4:, 0], [0.4 * 1.005**2, 0.6 * 1.005**2])
    np.testing.assert_allclose(chances[4:, 1], [0.6 * 1.01**2, 0.3 * 1.01**2])
    np.testing.assert_array_equal(chances[:, 1], chances[:, 2])


def test_wireless_penalty_is_the_late_packet() -> None:
    arm = ready_problem("wireless").arms[0]
    cost, _, late = arm.cells()
    uniforms = np.arange(4096) / 4096
    np.testing.assert_array_equal(late.outcomes(uniforms), cost.outcomes(uniforms) > 8)


def test_hiring_penalises_every_group_outside_the_favoured_ones() -> None:
    penalties = [arm.penalties[0].to_toml() for arm in ready_problem("hiring").arms]
    assert penalties == [{"constant": 1.0}, {"constant": 0.0}, {"constant": 0.0}]


@pytest.mark.parametrize("name", ["paper-arms-7", "paper-arms-102", "paper-arms-x", "paper-arms-0"])
def test_the_number_of_arms_is_even_and_bounded(name: str) -> None:
    with pytest.raises(ProblemError, match=rf"^problem '{name}': .* must be even, 2 to 100$"):
        ready_problem(name)


@pytest.mark.parametrize(
    "name", ["mine.toml", "mine.tml", "./paper", "folder/mine.txt", "PAPER.TOML"]
)
def test_a_file_that_does_not_exist_is_said_to(name: str) -> None:
    for load in (load_problem, load_task):
        with pytest.raises(ProblemError) as caught:
            load(name)
        assert str(caught.value) == (
            f"problem {name!r}: the file does not exist; must be a TOML file or a ready problem's"
            " name"
        )


def test_what_is_no_text_is_refused() -> None:
    unknown: Any = 3
    with pytest.raises(ProblemError, match=r"^problem = 3: must be the name of a ready problem"):
        ready_problem(unknown)
    with pytest.raises(ProblemError, match=r"^3: must be TOML text"):
        Problem.from_toml(unknown)
    with pytest.raises(ProblemError, match=r"^3: must be TOML text"):
        Task.from_toml(unknown)


def test_an_unknown_name_gets_the_nearest() -> None:
    with pytest.raises(ProblemError, match=r"did you mean 'wireless'\?"):
        ready_problem("wirless")
