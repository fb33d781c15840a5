from __future__ import annotations

import pickle
import tomllib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.test_laws import laws
from tightrope.errors import InputError, ProblemError
from tightrope.problem import Arm, Change, Problem, Scales, check_budget
from tightrope.problem.distributions import (
    Bernoulli,
    Beta,
    Constant,
    CostAbove,
    Discrete,
    TwoPoint,
    Uniform,
)
from tightrope.problem.named import Named
from tightrope.problem.ready import load_problem

COIN = Bernoulli(0.5)
PAPER = """\
limit = 0.8

[[arms]]
name = "bold"
cost = { bernoulli = 0.4 }
reward = { bernoulli = 0.8 }
penalty = { bernoulli = 0.6 }

[[arms]]
name = "careful"
cost = { bernoulli = 0.6 }
reward = { bernoulli = 0.6 }
penalty = { bernoulli = 0.3 }
"""


@st.composite
def arms(draw: st.DrawFn, name: str, scales: Scales) -> Arm:
    """Any arm, of laws or of rows, within the scales."""
    if draw(st.booleans()):
        row = st.tuples(*(st.floats(0.01, 1).map(lambda v, s=s: v * s) for s in scales.channels))
        return Arm.from_rows(name, draw(st.lists(row, min_size=1, max_size=5)))
    cost, *others = (laws(scale) for scale in scales.channels)
    above = st.builds(CostAbove, st.floats(0, scales.cost))
    mixed = [
        law | above if scale >= 1 else law
        for law, scale in zip(others, scales.channels[1:], strict=True)
    ]
    reward, *penalties = (draw(outcome) for outcome in mixed)
    return Arm(name, draw(cost), reward, penalties)


limit_names = st.text(min_size=1).filter(lambda name: name not in ("cost", "reward"))


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    """Any problem with M = 0..3 and up to two changes."""
    count = draw(st.integers(0, 3))
    scale, limit = st.floats(0.5, 1e3), st.floats(1e-3, 1e3)
    scales = draw(
        st.just(Scales(penalty=(1.0,) * count))
        | st.builds(Scales, scale, scale, st.tuples(*[scale] * count))
    )
    names = draw(st.lists(st.text(min_size=1), min_size=1, max_size=4, unique=True))
    limits = draw(st.tuples(*[limit] * count))
    own = st.lists(limit_names, min_size=count, max_size=count, unique=True)
    limit_form = draw(st.just(limits) | own.map(lambda n: Named(dict(zip(n, limits, strict=True)))))
    inside = st.floats(0, 1, exclude_min=True, exclude_max=True)
    return Problem(
        [draw(arms(name, scales)) for name in names],
        limit=limit_form,
        scales=scales,
        name=draw(st.text()),
        changes=[
            Change(share, [draw(arms(name, scales)) for name in names])
            for share in sorted(draw(st.sets(inside, max_size=2)))
        ],
    )


# --- TOML ---------------------------------------------------------------------------------


@given(problems())
def test_toml_round_trip_is_exact(problem: Problem) -> None:
    again = Problem.from_toml(problem.to_toml())
    assert again == problem
    assert again.to_toml() == problem.to_toml()


def test_the_toml_of_the_design_reads_and_writes(paper: Problem) -> None:
    problem = Problem.from_toml(PAPER)
    assert problem.names == ("bold", "careful")
    assert problem.to_toml() == PAPER
    np.testing.assert_array_equal(problem.moments.cost, paper.moments.cost)


def test_toml_of_several_penalties_scales_and_rows() -> None:
    problem = Problem.from_toml("""
        name = "ads"
        limit = [1, 0.5]
        [scales]
        cost = 50
        penalty = [1, 2]
        [[arms]]
        cost = { uniform = [0, 50] }
        reward = { beta = [2, 3] }
        penalty = [{ cost-above = 20 }, { constant = 2 }]
        [[arms]]
        rows = [[10, 0.5, 0, 1], [30, 1, 1, 0]]
    """)
    assert problem == Problem(
        [
            Arm("arm 1", Uniform(0, 50), Beta(2, 3), [CostAbove(20), Constant(2)]),
            Arm.from_rows("arm 2", [(10, 0.5, 0, 1), (30, 1, 1, 0)]),
        ],
        limit=(1, 0.5),
        scales=Scales(cost=50, penalty=(1, 2)),
        name="ads",
    )


def test_toml_without_penalties_has_no_empty_entries() -> None:
    problem = Problem([Arm("only", COIN, COIN)], scales=Scales(cost=2))
    assert set(tomllib.loads(problem.to_toml())) == {"arms", "scales"}
    assert "penalty" not in problem.to_toml()


def arm_with(line: str) -> str:
    """The paper's problem with one line of its first arm replaced."""
    key = line.split(" ", 1)[0]
    return "\n".join(
        line if old.startswith(key) and i < 7 else old for i, old in enumerate(PAPER.splitlines())
    )


BAD_TOML = [
    ("limit = 0.8", "arms = []: must hold at least one arm"),
    ("", "arms = []: must hold at least one arm"),
    ("arms = 3", "arms = 3: must be [[arms]] tables"),
    ("limt = 0.8", "unknown key 'limt'; did you mean 'limit'?"),
    (
        "arms = [3]",
        "arm 1: 3: must be a table with keys among name, cost, reward, penalty, penalties, rows,"
        " weights",
    ),
    (
        PAPER.replace("0.8", '"much"', 1),
        "limit: 'much' must be a number or a percentage, such as 0.05/pull, 5% per pull or 30 in"
        " total",
    ),
    (PAPER.replace("0.8", "true", 1), "limit = True: must be a finite number"),
    (PAPER.replace("0.8", "0", 1), "limit = 0.0: must be positive"),
    (PAPER.replace("0.8", "[1, -2]", 1), "limit 2 = -2.0: must be positive"),
    (PAPER.replace("0.8", "[1, 2]", 1), "arm 'bold': penalties = 1, limits = 2; must be equal"),
    (PAPER.replace("0.8", "nan", 1), "limit = nan: must be a finite number"),
    ("name = 3\n" + PAPER, "name = 3: must be a string"),
    (
        "scales = 3\n" + PAPER,
        "scales: 3: must be a table with keys among cost, reward, penalty, grow",
    ),
    ("scales = { cots = 3 }\n" + PAPER, "scales: unknown key 'cots'; did you mean 'cost'?"),
    ("scales = { cost = 0 }\n" + PAPER, "scales: scale of cost = 0.0: must be positive"),
    (
        "scales = { reward = '1' }\n" + PAPER,
        "scales: scale of reward = '1': must be a finite number",
    ),
    (
        arm_with("cost = { bernoulli = 1.5 }"),
        "arm 'bold', cost: bernoulli p = 1.5: must lie in [0, 1]",
    ),
    (
        arm_with("penalty = { bernuli = 0.5 }"),
        "arm 'bold', penalty: unknown distribution 'bernuli'; did you mean 'bernoulli'?",
    ),
    (
        arm_with("cost = { cost-above = 0.5 }"),
        "arm 'bold', cost: CostAbove(threshold=0.5) must be a distribution of its own,"
        " such as Bernoulli(0.4)",
    ),
    (arm_with("name = 3"), "arm name 3: must be a non-empty string"),
    (
        PAPER.replace("careful", "bold"),
        "arm 2: name 'bold' is already the name of arm 1; names must differ",
    ),
    (
        PAPER.replace("reward", "reword", 1),
        "arm 1: unknown key 'reword'; did you mean 'reward'?",
    ),
    (
        "[[arms]]\ncost = { bernoulli = 0.4 }",
        "arm 'arm 1': has cost; must have cost, reward and a penalty for each limit, or rows alone",
    ),
    (
        "[[arms]]\nrows = [[1, 1]]\ncost = { constant = 1 }",
        "arm 'arm 1': has rows, cost; must have cost, reward and a penalty for each limit,"
        " or rows alone",
    ),
    (
        "[[arms]]\nrows = [[1, 1], [1, nan]]",
        "arm 'arm 1', rows: reward in row 2 = nan: must be a finite number",
    ),
    (
        "[[arms]]\nrows = [[1, 1], [1, '0']]",
        "arm 'arm 1', rows: reward in row 2 = '0': must be a finite number",
    ),
    (
        "[[arms]]\nrows = [[1, 1], [1]]",
        "arm 'arm 1', rows: [[1, 1], [1]] must be rows of equal length: cost, reward and a"
        " penalty for each limit",
    ),
]


@pytest.mark.parametrize(("text", "message"), BAD_TOML, ids=[m for _, m in BAD_TOML])
def test_bad_toml_is_named_in_one_line(text: str, message: str) -> None:
    with pytest.raises(ProblemError) as caught:
        Problem.from_toml(text)
    assert str(caught.value) == message


def test_malformed_toml_is_placed() -> None:
    with pytest.raises(ProblemError, match=r"^not TOML: [^\n]* \(at line 2, column 9\)$"):
        Problem.from_toml("name = 'a'\nlimit = =\n")


# --- arms and validation ------------------------------------------------------------------


def test_one_penalty_or_a_list_of_them() -> None:
    alone = Arm("a", cost=COIN, reward=COIN, penalty=COIN)
    assert alone == Arm("a", COIN, COIN, [COIN])
    assert alone.penalties == (COIN,)
    assert Arm("a", COIN, COIN).penalties == ()
    assert hash(alone) == hash(Arm("a", COIN, COIN, (COIN,)))


def test_one_limit_or_a_list_of_them() -> None:
    arm = Arm("a", COIN, COIN, COIN)
    assert Problem([arm], 0.8) == Problem((arm,), limit=[0.8])
    assert Problem([arm], np.array([0.8])).limits == (0.8,)
    assert Problem([Arm("a", COIN, COIN)]).limits == ()


def test_rows_from_an_array_keep_dependence() -> None:
    rows = np.array([[1.0, 0.2, 0.0], [0.5, 0.9, 1.0]])
    arm = Arm.from_rows("seen", rows)
    assert arm == Arm.from_rows("seen", rows.tolist())
    uniforms = np.arange(100) / 100
    drawn = np.stack([cells.outcomes(uniforms) for cells in arm.cells()], axis=1)
    np.testing.assert_array_equal(drawn, np.repeat(rows, 50, axis=0))


BAD = [
    (lambda: Problem([]), "arms = []: must hold at least one arm"),
    (lambda: Problem(3), "arms = 3: must be a list of arms"),
    (lambda: Problem([COIN]), "arm 1: Bernoulli(p=0.5) must be an Arm"),
    (lambda: Problem([Arm("a", COIN, COIN)], scales=2), "scales = 2: must be a Scales, or 'grow'"),
    (
        lambda: Problem([Arm("a", COIN, COIN, COIN)]),
        "arm 'a': penalties = 1, limits = 0; must be equal",
    ),
    (
        lambda: Problem([Arm("a", COIN, COIN)], 0.5, Scales(penalty=[1, 2])),
        "scales: penalties = 2, limits = 1; must be equal",
    ),
    (
        lambda: Problem([Arm("a", COIN, COIN, COIN)], float("inf")),
        "limit = inf: must be a finite number",
    ),
    (
        lambda: Problem([Arm("bold", Uniform(0, 50), COIN)]),
        "arm 'bold', cost: outcome 50.0 must lie in [0, 1.0];"
        " declare a scale of cost of at least 50.0",
    ),
    (
        lambda: Problem([Arm("a", COIN, COIN, [COIN, Constant(3)])], [1, 1]),
        "arm 'a', penalty 2: outcome 3.0 must lie in [0, 1.0];"
        " declare a scale of penalty 2 of at least 3.0",
    ),
    (
        lambda: Problem([Arm("a", COIN, Uniform(-1, 1))]),
        "arm 'a', reward: outcome -1.0 must not be below 0",
    ),
    (
        lambda: Problem([Arm("a", Constant(0), COIN)]),
        "arm 'a', cost: mean 0.0 must be positive, or pulls would never spend the budget",
    ),
    (lambda: Arm("", COIN, COIN), "arm name '': must be a non-empty string"),
    (
        lambda: Arm("a", 0.4, COIN),
        "arm 'a', cost: 0.4 must be a distribution of its own, such as Bernoulli(0.4)",
    ),
    (
        lambda: Arm("a", COIN, COIN, 0.4),
        "arm 'a', penalty: 0.4 must be a distribution, such as Bernoulli(0.4)",
    ),
    (
        lambda: Arm("a", Arm.from_rows("b", [(1, 1)]).cost, COIN),
        "arm 'a': cost, reward must all be columns of the same rows, or none may be",
    ),
    (
        lambda: Arm.from_rows("a", []),
        "arm 'a', rows: [] must be rows of equal length: cost, reward and a penalty for each limit",
    ),
    (
        lambda: Arm.from_rows("a", np.array([[1.0, 1.0, np.nan]])),
        "arm 'a', rows: penalty in row 1 = nan: must be a finite number",
    ),
    (lambda: Scales(penalty=[1, 0]), "scale of penalty 2 = 0.0: must be positive"),
    (
        lambda: Arm("a", Uniform(0, 1), CostAbove(0.5), CostAbove(0.5 + 1e-12)).cells(),
        "arm 'a', cost: thresholds 0.5 and 0.500000000001 are too close together: costs must "
        "lie between them",
    ),
]


@pytest.mark.parametrize(("make", "message"), BAD, ids=[message for _, message in BAD])
def test_bad_problems_are_named_in_one_line(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ProblemError) as caught:
        make()
    assert str(caught.value) == message


@pytest.mark.parametrize("budget", [0, -1, float("inf"), float("nan"), "9", True, None, 10**400])
def test_bad_budgets_are_refused(budget: object) -> None:
    with pytest.raises(InputError, match=r"^--budget = .*: must be a positive, finite number$"):
        check_budget(budget, "--budget")


def test_good_budgets_become_floats() -> None:
    assert check_budget(1000) == 1000.0
    assert type(check_budget(np.int64(3))) is float


# --- what the oracle and the engine read --------------------------------------------------


def test_moments_of_the_paper(paper: Problem) -> None:
    moments = paper.moments
    np.testing.assert_allclose(moments.reward_rate, [2, 1])
    np.testing.assert_allclose(moments.penalty_rate, [[1.5], [0.5]])
    np.testing.assert_array_equal(moments.limits, [0.8])
    assert moments.smallest_cost == 0.4
    assert (paper.arm_count, paper.penalty_count) == (2, 1)


def test_moments_are_normalised() -> None:
    arm = Arm("a", Uniform(0, 50), TwoPoint(0, 8, 0.5), [CostAbove(40), Constant(3)])
    scales = Scales(cost=50, reward=10, penalty=(1, 4))
    moments = Problem([arm], limit=(0.02, 0.1), scales=scales).moments
    np.testing.assert_allclose([moments.cost[0], moments.reward[0]], [0.5, 0.4])
    np.testing.assert_allclose(moments.penalty, [[0.2, 0.75]])
    np.testing.assert_allclose(moments.limits, [0.02 * 50, 0.1 * 50 / 4])


@given(problems())
def test_tables_have_the_moments_and_the_unit_range(problem: Problem) -> None:
    tables, moments = problem.tables(), problem.moments
    shape = (problem.arm_count, 2 + problem.penalty_count)
    assert tables.count.shape == tables.offset.shape == tables.source.shape == shape
    assert moments.penalty.shape == (problem.arm_count, problem.penalty_count)
    means = np.column_stack([moments.cost, moments.reward, moments.penalty])
    for k, j in np.ndindex(shape):
        own = slice(tables.offset[k, j], tables.offset[k, j] + tables.count[k, j])
        split, slope = tables.split[own], tables.slope[own]
        first, second = tables.first[own], tables.second[own]
        tolerance = 1e-12 if tables.count[k, j] > 1 else 2**-32
        assert np.mean(split * first + (1 - split) * second) == pytest.approx(
            means[k, j], rel=0, abs=tolerance
        )
        assert np.all(np.minimum(first, second) - slope / 2 >= -1e-15)
        assert np.all(np.maximum(first, second) + slope / 2 <= 1 + 1e-15)
    assert tables.offset.ravel()[-1] + tables.count.ravel()[-1] == len(tables.split)


def test_tables_of_dependent_channels_share_the_cost_draw(mixed: Problem) -> None:
    source = mixed.tables().source
    np.testing.assert_array_equal(source, [[0, 1, 0, 3], [0, 1, 2, 3], [0, 0, 0, 0]])
    cost, _, late, _ = mixed.arms[0].cells()
    uniforms = np.arange(10_000) / 10_000
    np.testing.assert_array_equal(late.outcomes(uniforms), cost.outcomes(uniforms) > 20)


def test_bernoulli_problems_are_recognised(paper: Problem, mixed: Problem) -> None:
    np.testing.assert_array_equal(paper.bernoulli(), [[0.4, 0.8, 0.6], [0.6, 0.6, 0.3]])
    assert mixed.bernoulli() is None
    arm = Arm("a", COIN, COIN)
    assert Problem([arm], scales=Scales(reward=2)).bernoulli() is None
    assert Problem([Arm("a", COIN, CostAbove(0.5))]).bernoulli() is None
    np.testing.assert_array_equal(Problem([arm]).bernoulli(), [[0.5, 0.5]])


def test_a_law_on_its_own_stands_for_an_indicator_of_the_cost() -> None:
    arm = Arm("a", Discrete((1, 2, 3), (1, 1, 2)), COIN, CostAbove(1.5))
    assert arm.laws == (arm.cost, COIN, Bernoulli(0.75))


def test_problems_can_be_pickled(mixed: Problem) -> None:
    mixed.moments  # noqa: B018 - so that it travels along
    assert pickle.loads(pickle.dumps(mixed)) == mixed


# --- files --------------------------------------------------------------------------------


def test_a_problem_is_a_ready_name_or_a_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(PAPER, encoding="utf-8-sig")
    assert load_problem(path) == load_problem(str(path)) == Problem.from_toml(PAPER)
    assert load_problem("paper").names == ("bold", "careful")
    assert load_problem("paper-arms-4").arm_count == 4


def test_errors_in_a_file_name_the_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(PAPER.replace("limit", "limts"))
    with pytest.raises(ProblemError) as caught:
        load_problem(path)
    assert str(caught.value) == f"{path}: unknown key 'limts'; did you mean 'limits'?"


def test_unreadable_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(ProblemError, match=r"it is a folder, must be a file"):
        load_problem(tmp_path)
    (tmp_path / "latin.toml").write_bytes(b"name = '\xe9'")
    with pytest.raises(ProblemError, match=r"latin\.toml': must be a readable UTF-8 file"):
        load_problem(tmp_path / "latin.toml")
    with pytest.raises(ProblemError, match=r"^problem 'papr': no such .*did you mean 'paper'\?$"):
        load_problem("papr")


# --- many arms ----------------------------------------------------------------------------


def test_many_coins_are_the_same_problem_as_their_arms() -> None:
    odds = np.random.default_rng(1).uniform(0.05, 0.95, (50, 4))
    short = Problem.from_bernoulli(odds[:, 0], odds[:, 1], odds[:, 2:], limit=(0.5, 0.6), name="x")
    arms = [
        Arm(f"arm {k}", *map(Bernoulli, row[:2]), [*map(Bernoulli, row[2:])])
        for k, row in enumerate(odds.tolist(), start=1)
    ]
    long = Problem(arms, limit=(0.5, 0.6), name="x")
    assert short == long
    assert long == short
    assert hash(short) == hash(long)
    assert short.names == long.names
    assert short.arms[-1] == arms[-1]
    assert list(short.arms[3:5]) == arms[3:5]
    assert Problem.from_toml(short.to_toml()) == short
    assert pickle.loads(pickle.dumps(short)) == short
    np.testing.assert_array_equal(short.bernoulli(), long.bernoulli())
    for column in ("cost", "reward", "penalty", "limits"):
        np.testing.assert_array_equal(getattr(short.moments, column), getattr(long.moments, column))
    for column in ("count", "offset", "source", "split", "first", "second", "slope"):
        np.testing.assert_array_equal(
            getattr(short.tables(), column), getattr(long.tables(), column)
        )


def test_many_coins_without_a_limit_and_with_names() -> None:
    problem = Problem.from_bernoulli([0.5, 0.2], [0.1, 1], names=["a", "b"])
    assert problem.names == ("a", "b")
    assert problem.penalty_count == 0
    assert problem.arms[1] == Arm("b", Bernoulli(0.2), Bernoulli(1.0))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (([], [], []), "arms = []: must hold at least one arm"),
        (([0.5], [0.5, 0.5], [0.5]), "rewards: shape (2,) must be one number per arm, as many as"),
        (([0.5], [0.5], [[[0.5]]]), "penalties: shape (1, 1, 1) must be"),
        (([0.5], ["x"], [0.5]), "rewards = ['x']: must be numbers"),
        (([0.0], [0.5], [0.5]), "arm 1, cost: bernoulli p = 0.0: must be positive, at most 1"),
        (([0.5, 0.5], [0.5, 1.5], [0.5, 1]), "arm 2, reward: bernoulli p = 1.5: must lie in"),
        (([0.5], [0.5], [float("nan")]), "arm 1, penalty: bernoulli p = nan: must lie in [0, 1]"),
        (([0.5], [0.5], [[0.5, 0.5]]), "penalties: penalties = 2, limits = 1; must be equal"),
    ],
)
def test_bad_coins_are_named(given: tuple[list[object], ...], message: str) -> None:
    with pytest.raises(ProblemError) as caught:
        Problem.from_bernoulli(*given, limit=0.8)  # type: ignore[arg-type]
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("names", [["a"], ["a", "a"], ["a", ""]])
def test_names_of_coins_must_tell_them_apart(names: list[str]) -> None:
    with pytest.raises(ProblemError, match=r"^names: "):
        Problem.from_bernoulli([0.5, 0.5], [0.5, 0.5], [0.5, 0.5], limit=0.8, names=names)
