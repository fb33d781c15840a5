"""The limit of learning in the arena's panels."""

from __future__ import annotations

import numpy as np
import pytest

from tightrope.arena.contest import arena
from tightrope.arena.report import LEARNING, panels
from tightrope.arena.rows import Scene
from tightrope.problem.ready import ready_problem
from tightrope.report.figures import draw
from tightrope.theory import learning_limit


def lines_of(*names: str, budgets=(100.0, 1000.0)):
    """The line of each problem's panel, or None, and the panels."""
    found = arena(names, ["uniform-random"], budgets, runs=2, backend="python")
    scenes = {name: Scene(name, name, ready_problem(name)) for name in names}
    drawn = panels(found.rows, scenes)
    lines = [[one for one in panel.references if one.role == "learning"] for panel in drawn]
    return found, [one[0] if one else None for one in lines], drawn


def test_the_line_is_c_log_b_over_the_optimum_in_any_units():
    found, lines, _ = lines_of("arena-random-5", "hiring")
    for name, line in zip(("arena-random-5", "hiring"), lines, strict=True):
        rows = [row for row in found.rows if row.problem == name]
        best = {row.budget: row.optimum for row in rows}
        constant = learning_limit(ready_problem(name)).constant
        shares = [constant * np.log(budget) / best[budget] for budget in (100.0, 1000.0)]
        assert line.name == LEARNING
        assert line.x.tolist() == [100.0, 1000.0]
        assert line.y == pytest.approx(shares)


def test_there_is_none_where_nothing_is_to_be_learned_or_the_arms_change():
    _, lines, drawn = lines_of("paper", "arena-abrupt", budgets=(100.0,))
    assert lines == [None, None]
    assert LEARNING not in [text.get_text() for text in draw(drawn).legends[0].get_texts()]


def test_the_legend_names_it():
    _, _, drawn = lines_of("arena-free")
    assert LEARNING in [text.get_text() for text in draw(drawn).legends[0].get_texts()]
