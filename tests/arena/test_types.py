"""The arena's problems with types: what their names say, who takes part, what its tables say."""

from __future__ import annotations

import csv

import numpy as np
import pytest

from tightrope import Problem, arena, oracle, ready_problem, simulate
from tightrope.arena.contest import (
    default_policies,
    facts_of,
    matches_of,
    policies_of,
    scenes_of,
    special_policies,
)
from tightrope.arena.typed_problems import ALL_TYPED, LISTED
from tightrope.problem.ready import ready_names

SWAP, EQUAL = "arena-types-swap", "arena-types-equal"


@pytest.mark.parametrize("name", LISTED)
def test_every_problem_is_feasible_and_its_limit_binds(name):
    problem = ready_problem(name)
    assert problem.name == name
    assert name in ready_names()
    assert all(price > 0.0 for price in oracle(problem).multiplier)
    assert 0.0 < scenes_of([name])[name].slack < 1.0
    assert ready_problem(name) == problem == Problem.from_toml(problem.to_toml())


def test_they_are_as_declared():
    equal = ready_problem(EQUAL)
    assert len({one.arms for one in equal.by_type}) == 1
    assert oracle(equal).reward_rate == oracle(equal.by_type[0]).reward_rate
    means = ready_problem(SWAP).moments
    np.testing.assert_array_equal(means.reward_rate[0], means.reward_rate[1])
    rare = ready_problem("arena-types-rare").moments
    assert (rare.penalty_rate[:, 0] <= rare.limits[0]).tolist() == [False, False, True]
    rows = ready_problem("arena-types-many").row_moments.reward.reshape(16, -1)
    assert (rows.max(axis=0) / rows.min(axis=0) < 1.1 / 0.9 + 0.01).all()


def test_one_name_stands_for_all_of_them():
    assert list(scenes_of([ALL_TYPED, "paper"])) == [*LISTED, "paper"]


def labels(matches, name):
    return [one.label for one in matches if one.scene.name == name]


def test_policies_for_types_take_part_only_where_requests_have_types():
    """Unless they are named."""
    assert set(default_policies(typed=True)) - set(default_policies()) == {"ucb-alp", "pgd-prices"}
    scenes = scenes_of([SWAP, "paper"])
    named = policies_of(["ucb-alp", "resolve", "lyon:alpha=0.1"])
    usual, _ = matches_of(scenes, named, [100.0], special_policies())
    assert labels(usual, SWAP) == ["ucb-alp", "resolve"]
    assert labels(usual, "paper") == ["resolve"]
    asked, _ = matches_of(scenes, named, [100.0], ())
    assert labels(asked, "paper") == list(named)


def test_what_knows_the_means_but_no_types_does_not_take_part():
    scenes, named = scenes_of([SWAP]), policies_of(["lyoff", "stationary", "resolve"])
    matches, told = matches_of(scenes, named, [100.0], ())
    assert labels(matches, SWAP) == ["lyoff", "resolve"]
    assert told[0].startswith(f"stationary does not take part on {SWAP}: policy stationary: ")


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    folder = tmp_path_factory.mktemp("types")
    policies = ["resolve", "uniform-random", "lyoff"]
    return arena([SWAP, "paper"], policies, [50], runs=3, out=folder, progress=False)


def test_rows_and_files_say_who_uses_types(found):
    types = {(row.problem, row.policy): row.types for row in found.rows}
    assert types[SWAP, "resolve"] == types[SWAP, "lyoff"] == "uses"
    assert types[SWAP, "uniform-random"] == "ignores"
    assert types["paper", "resolve"] == ""
    files = {one.suffix: one for one in found.files}
    with files[".csv"].open() as file:
        assert {row["types"] for row in csv.DictReader(file)} == {"uses", "ignores", ""}
    text = files[".html"].read_text()
    assert "whether the policy uses the types of requests or ignores them" in text
    assert "3 arms for 2 types, 1 limit" in text
    assert "<th" in found._repr_html_()
    assert "ignores" in found._repr_html_()


def test_without_types_tables_have_no_column_for_them():
    plain = arena(["paper"], ["uniform-random"], [50], runs=3, progress=False)
    assert "ignores" not in plain._repr_html_()


def test_the_page_says_how_to_have_it_again():
    rows = arena([ALL_TYPED], ["uniform-random"], [20], runs=2, progress=False).rows
    [again] = [text for name, text in facts_of(rows, 2, 0) if name == "Again"]
    assert again.startswith(
        f"tightrope arena --problem {ALL_TYPED} --policy uniform-random --budget"
    )


@pytest.mark.parametrize("policy", ["resolve", "resolve:risk=0.01"])
def test_equal_types_cost_less_than_one_percent(policy):
    """Measured with 2,000 runs: 0.5 % of the reward, with an error of 0.1 %."""
    typed = ready_problem(EQUAL)
    plain, same = (
        simulate(one, policy, budgets=1000, runs=400, seed=3, progress=False)[policy].runs.reward
        for one in (typed.by_type[0], typed)
    )
    assert same.mean() > 0.99 * plain.mean()
