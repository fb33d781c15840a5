"""The limit of learning in the chart of the arena's page."""

from __future__ import annotations

import numpy as np
import pytest

from tightrope.arena.charts import learning_line
from tightrope.arena.contest import arena
from tightrope.arena.rows import Scene
from tightrope.problem.ready import ready_problem
from tightrope.theory import learning_limit


def lines_of(*names: str, budgets=(100.0, 1000.0)):
    """The rows of an arena, and the line of each problem."""
    found = arena(names, ["uniform-random"], budgets, runs=2, backend="python")
    scenes = {name: Scene(name, name, ready_problem(name)) for name in names}
    rows = {name: [row for row in found.rows if row.problem == name] for name in names}
    return rows, {name: learning_line(rows[name], scenes[name]) for name in names}


def test_the_line_is_c_log_b_over_the_optimum_in_any_units():
    rows, lines = lines_of("arena-random-5", "hiring")
    for name, line in lines.items():
        best = {row.budget: row.optimum for row in rows[name]}
        constant = learning_limit(ready_problem(name)).constant
        shares = [constant * np.log(budget) / best[budget] for budget in (100.0, 1000.0)]
        assert [x for x, _ in line] == [100.0, 1000.0]
        assert [y for _, y in line] == pytest.approx(shares)


def test_there_is_none_where_nothing_is_to_be_learned_or_the_arms_change():
    assert set(map(tuple, lines_of("paper", "arena-abrupt", budgets=(100.0,))[1].values())) == {()}
