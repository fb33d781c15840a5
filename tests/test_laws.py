from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st
from scipy import integrate, stats

from tightrope.errors import ProblemError
from tightrope.problem.cells import Cells
from tightrope.problem.distributions import (
    LAWS,
    Bernoulli,
    Beta,
    Constant,
    CostAbove,
    Discrete,
    Empirical,
    TruncatedNormal,
    TwoPoint,
    Uniform,
    outcome_from_toml,
)
from tightrope.problem.outcomes import FiniteLaw, Law

GRID = np.arange(200_000) / 200_000  # uniforms, evenly spread
ROUNDING = 2.0**-32  # of the probability of a law with two values


@st.composite
def ranges(draw: st.DrawFn, top: float) -> tuple[float, float]:
    """Two ends in [0, top], at least a thousandth of it apart; the lower one 0 or well above."""
    low = round(draw(st.floats(0, 0.9)), 6) * top
    return low, min(low + draw(st.floats(0.01, 1)) * (top - low), top)


def laws(top: float = 1.0) -> st.SearchStrategy[Law]:
    """Any law with outcomes in [0, top] and a positive mean, but for the columns of rows."""
    chance, shape, ends = st.floats(0.01, 1), st.floats(0.05, 50), ranges(top)
    value, weight = chance.map(lambda v: v * top), st.floats(0.01, 9)
    values = st.lists(st.tuples(value, weight), min_size=1, max_size=9)
    return st.one_of(
        st.builds(Bernoulli, chance) if top >= 1 else st.nothing(),
        st.builds(lambda v: Constant(v * top), chance),
        st.builds(lambda e, p: TwoPoint(*e, p), ends, chance),
        st.builds(lambda pairs: Discrete(*zip(*pairs, strict=True)), values),
        st.builds(lambda e: Uniform(*e), ends),
        st.builds(lambda a, b, e: Beta(a, b, *e), shape, shape, ends),
        st.builds(truncated_normal, ends, st.floats(-1, 2), st.floats(0.05, 90)),
    )


def truncated_normal(ends: tuple[float, float], center: float, sd: float) -> TruncatedNormal:
    """The center and the deviation as shares of the range."""
    low, high = ends
    width = high - low
    return TruncatedNormal(low + center * width, sd * width, low, high)


SCIPY = [
    (Beta(2, 3), stats.beta(2, 3)),
    (Beta(0.2, 0.7, low=2, high=10), stats.beta(0.2, 0.7, loc=2, scale=8)),
    (Uniform(1, 3), stats.uniform(1, 2)),
    (TruncatedNormal(0.3, 0.5, 0, 1), stats.truncnorm(-0.6, 1.4, loc=0.3, scale=0.5)),
    (TruncatedNormal(-5, 1, 0, 2), stats.truncnorm(5, 7, loc=-5, scale=1)),
    (TruncatedNormal(120, 30, 0, 500), stats.truncnorm(-4, 38 / 3, loc=120, scale=30)),
]


@pytest.mark.parametrize(("law", "reference"), SCIPY, ids=lambda value: type(value).__name__)
def test_continuous_laws_agree_with_scipy(law: Law, reference: stats.rv_frozen) -> None:
    x = np.linspace(law.low - 0.1, law.high + 0.1, 101)
    np.testing.assert_allclose(law.cdf(x), reference.cdf(x), atol=1e-12)
    assert law.mean == pytest.approx(reference.mean(), rel=1e-9)
    partial, _ = integrate.quad(reference.ppf, 0, 0.3)
    assert float(law.partial_mean(reference.ppf(0.3))) == pytest.approx(partial, rel=1e-8)
    assert law.atoms() is None


@pytest.mark.parametrize(("law", "reference"), SCIPY, ids=lambda value: type(value).__name__)
def test_a_continuous_table_follows_the_law(law: Law, reference: stats.rv_frozen) -> None:
    outcomes = law.cells().outcomes(GRID)
    distance = stats.kstest(outcomes, reference.cdf).statistic
    assert distance < 1.1 / len(law.cells()) if len(law.cells()) > 1 else distance < 1e-4
    assert outcomes.std() == pytest.approx(reference.std(), rel=2e-3)


@given(laws())
def test_the_table_keeps_mean_and_support(law: Law) -> None:
    cells = law.cells()
    rounding = ROUNDING * (law.high - law.low) if len(cells) == 1 else 0.0
    assert cells.mean == pytest.approx(law.mean, rel=0, abs=1e-12 + rounding)
    outcomes = cells.outcomes(GRID)
    assert outcomes.min() >= law.low - 1e-15
    assert outcomes.max() <= law.high + 1e-15


@given(laws())
def test_the_distribution_functions_end_where_they_should(law: Law) -> None:
    below, above = math.nextafter(law.low, -1), law.high
    np.testing.assert_array_equal(law.cdf([below, above]), [0, 1])
    np.testing.assert_allclose(law.partial_mean([below, above]), [0, law.mean], atol=1e-15)
    assert np.shape(law.cdf(0.5)) == ()
    assert law.cdf([[0.1, 0.2]]).shape == (1, 2)


@given(laws(), st.lists(st.floats(-0.1, 1.1), min_size=1, max_size=3), st.data())
def test_cost_above_never_contradicts_the_cost(
    law: Law, thresholds: list[float], data: st.DataObject
) -> None:
    thresholds.append(data.draw(st.sampled_from([law.low, law.mean, law.high])))
    try:
        cost = law.cells(thresholds)
    except ProblemError:  # too close, see test_thresholds_with_nothing_between_them_are_refused
        reject()
    outcomes = cost.outcomes(GRID)
    rounding = ROUNDING if isinstance(law, FiniteLaw) else 0.0
    assert cost.mean == pytest.approx(law.mean, rel=0, abs=1e-12 + rounding)
    for threshold in thresholds:
        late = CostAbove(threshold)
        cells = late.cells_beside(cost)
        np.testing.assert_array_equal(cells.outcomes(GRID), outcomes > threshold)
        probability = late.marginal(law).mean
        assert cells.mean == pytest.approx(probability, rel=0, abs=1e-12 + rounding)
        assert probability == pytest.approx(1 - float(law.cdf(threshold)), abs=1e-15)


def test_a_threshold_on_a_cell_edge_is_exact() -> None:
    law = Uniform(0, 1)
    cost = law.cells([0.5])
    assert len(cost) == 1024
    on_the_edge = np.array([0.5, math.nextafter(0.5, 0), math.nextafter(0.5, 1)])
    outcomes = cost.outcomes(on_the_edge)
    np.testing.assert_array_equal(cost.above(0.5).outcomes(on_the_edge), outcomes > 0.5)
    assert cost.above(0.5).mean == 0.5


def test_close_thresholds_get_more_cells() -> None:
    cells = Uniform(0, 1).cells([0.5001, 0.5004, 0.5002])
    assert len(cells) > 1024
    assert cells.above(0.5001).mean - cells.above(0.5002).mean == pytest.approx(1e-4, abs=1e-15)


def test_thresholds_with_nothing_between_them_are_refused() -> None:
    with pytest.raises(ProblemError, match=r"thresholds 0\.5 and 0\.5000000001 are too close"):
        Uniform(0, 1).cells([0.5, 0.5 + 1e-10])


@pytest.mark.parametrize(
    ("law", "columns"),
    [
        (Bernoulli(0.25), (0.25, 1, 0, 0)),
        (Bernoulli(0), (0, 1, 0, 0)),
        (Constant(3), (1, 3, 3, 0)),
        (TwoPoint(2, 7, 0.75), (0.75, 7, 2, 0)),
        (Uniform(2, 7), (1, 4.5, 4.5, 5)),
        (Discrete([4, 5], [3, 1]), (0.75, 4, 5, 0)),
    ],
)
def test_small_laws_are_one_exact_cell(law: Law, columns: tuple[float, ...]) -> None:
    cells = law.cells()
    assert (cells.split[0], cells.first[0], cells.second[0], cells.slope[0]) == columns
    assert len(cells) == 1


def test_a_probability_is_a_multiple_of_the_draws_step() -> None:
    split = Bernoulli(0.4).cells().split[0]
    assert split * 2**31 == round(0.4 * 2**31)


@given(st.lists(st.integers(0, 20), min_size=3, max_size=30).filter(any))
def test_the_alias_table_has_the_weights_exactly(weights: list[int]) -> None:
    law = Discrete(tuple(range(len(weights))), tuple(weights))
    cells = law.cells()
    total = np.zeros(len(weights))
    np.add.at(total, cells.first.astype(int), cells.split / len(cells))
    np.add.at(total, cells.second.astype(int), (1 - cells.split) / len(cells))
    tolerance = ROUNDING if len(cells) == 1 else 1e-14
    np.testing.assert_allclose(total, np.array(weights) / sum(weights), atol=tolerance)


def test_rows_keep_their_order() -> None:
    cells = Empirical((0.3, 0.1, 0.3)).cells()
    np.testing.assert_array_equal(cells.outcomes([0, 0.34, 0.67, 0.99]), [0.3, 0.1, 0.3, 0.3])


def test_atoms_are_sorted_merged_and_possible() -> None:
    values, chances = Discrete((3, 1, 3, 9), (1, 2, 1, 0)).atoms()
    np.testing.assert_array_equal(values, [1, 3])
    np.testing.assert_array_equal(chances, [0.5, 0.5])
    assert Discrete((3, 1, 9), (1, 2, 0)).high == 3
    np.testing.assert_array_equal(Bernoulli(1).atoms()[0], [1])
    assert Empirical((0.5, 0.5, 2)).atoms()[1] == pytest.approx([2 / 3, 1 / 3])


def test_finite_partial_means_step_at_the_atoms() -> None:
    law = Discrete((1, 2, 4), (1, 1, 2))
    np.testing.assert_allclose(law.cdf([0.9, 1, 3, 4]), [0, 0.25, 0.5, 1])
    np.testing.assert_allclose(law.partial_mean([0.9, 1, 3, 4]), [0, 0.25, 0.75, 2.75])


def test_cells_in_other_units() -> None:
    cells = Uniform(10, 30).cells().divided_by(50)
    np.testing.assert_allclose(cells.outcomes([0, 0.5]), [0.2, 0.4])
    assert isinstance(cells, Cells)


def test_weights_of_any_size_are_normalised() -> None:
    assert Discrete((0, 1), (1e308, 1e308)).mean == 0.5


def test_equal_laws_are_equal_whatever_the_number_type() -> None:
    assert Bernoulli(np.float32(0.5)) == Bernoulli(0.5)
    assert Discrete(np.array([1, 2]), [1, 1]) == Discrete((1.0, 2.0), (1.0, 1.0))
    assert hash(Discrete([1, 2], [1, 1])) == hash(Discrete((1, 2), (1, 1)))
    assert type(Constant(np.int64(3)).value) is float


BAD = [
    (lambda: Bernoulli(1.5), "bernoulli p = 1.5: must lie in [0, 1]"),
    (lambda: Bernoulli(float("nan")), "bernoulli p = nan: must be a finite number"),
    (lambda: Bernoulli("0.5"), "bernoulli p = '0.5': must be a finite number"),
    (lambda: Bernoulli(True), "bernoulli p = True: must be a finite number"),
    (lambda: Constant(10**400), "constant value = inf: must be a finite number"),
    (lambda: TwoPoint(2, 1, 0.5), "two-point low = 2.0: must be at most high = 1.0"),
    (lambda: TwoPoint(0, 1, -0.1), "two-point p = -0.1: must lie in [0, 1]"),
    (lambda: Uniform(1, 1), "uniform low = 1.0: must be below high = 1.0"),
    (lambda: Beta(0, 1), "beta a = 0.0: must be positive, at most 1e9"),
    (lambda: Beta(1, -1), "beta b = -1.0: must be positive, at most 1e9"),
    (lambda: Beta(1, 1, 2, 1), "beta low = 2.0: must be below high = 1.0"),
    (lambda: Discrete([], []), "discrete values = []: must hold at least one number"),
    (lambda: Discrete(3, [1]), "discrete values = 3: must be a list of numbers"),
    (lambda: Discrete([1, None], [1]), "discrete values[1] = None: must be a finite number"),
    (lambda: Discrete([1, 2], [1]), "discrete weights = (1.0,): must be as many as the 2 values"),
    (lambda: Discrete([1, 2], [1, -1]), "discrete weights = (1.0, -1.0): must not be negative"),
    (lambda: Discrete([1, 2], [0, 0]), "discrete weights = (0.0, 0.0): must not all be 0"),
    (lambda: Empirical([0.1, math.nan]), "rows values[1] = nan: must be a finite number"),
    (lambda: CostAbove(math.inf), "cost-above threshold = inf: must be a finite number"),
    (
        lambda: TruncatedNormal(0, 0, 0, 1),
        "truncated-normal sd = 0.0: must be positive, at most 100 (high - low)",
    ),
    (
        lambda: TruncatedNormal(-31, 1, 0, 1),
        "truncated-normal center = -31.0: must be within 30 sd of [low, high]",
    ),
]


@pytest.mark.parametrize(("make", "message"), BAD, ids=[message for _, message in BAD])
def test_impossible_parameters_are_named(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ProblemError) as caught:
        make()
    assert str(caught.value) == message


def test_long_values_are_shortened_in_messages() -> None:
    with pytest.raises(ProblemError) as caught:
        Discrete(range(1000), [-1] * 1000)
    assert len(str(caught.value)) < 120
    with pytest.raises(ProblemError) as caught:
        Bernoulli(np.eye(3))
    assert "\n" not in str(caught.value)


def test_every_law_has_its_own_key() -> None:
    assert {key: law.key for key, law in LAWS.items()} == {key: key for key in LAWS}
    assert sorted(LAWS) == [
        "bernoulli",
        "beta",
        "constant",
        "cost-above",
        "discrete",
        "truncated-normal",
        "two-point",
        "uniform",
    ]


@given(laws())
def test_toml_tables_come_back(law: Law) -> None:
    assert outcome_from_toml(law.to_toml()) == law


@pytest.mark.parametrize(
    ("table", "outcome"),
    [
        ({"beta": [2, 3]}, Beta(2, 3)),
        ({"beta": {"a": 2, "b": 3, "low": 1, "high": 4}}, Beta(2, 3, 1, 4)),
        ({"uniform": [0, 5]}, Uniform(0, 5)),
        ({"two-point": {"low": 0, "high": 9, "p": 0.1}}, TwoPoint(0, 9, 0.1)),
        ({"cost-above": 3}, CostAbove(3)),
        ({"bernoulli": {"p": 0.3}}, Bernoulli(0.3)),
        ({"discrete": {"values": [1, 2], "weights": [3, 4]}}, Discrete((1, 2), (3, 4))),
    ],
)
def test_toml_forms(table: dict[str, object], outcome: object) -> None:
    assert outcome_from_toml(table) == outcome


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"bernouli": 0.4}, "unknown distribution 'bernouli'; did you mean 'bernoulli'?"),
        (0.4, "0.4: must be a table of one distribution, such as { bernoulli = 0.4 }"),
        ({}, "{}: must be a table of one distribution, such as { bernoulli = 0.4 }"),
        ({"beta": 2}, "beta = 2: must be a list or table of a, b, low, high"),
        ({"beta": [2]}, "beta = [2]: must have 'b'"),
        ({"uniform": [1, 2, 3]}, "uniform = [1, 2, 3]: must be a list or table of low, high"),
        ({"beta": {"a": 1, "b": 2, "hgih": 3}}, "beta: unknown key 'hgih'; did you mean 'high'?"),
        ({"bernoulli": [0.4]}, "bernoulli p = [0.4]: must be a finite number"),
        ({"bernoulli": True}, "bernoulli p = True: must be a finite number"),
    ],
)
def test_bad_toml_is_named(table: object, message: str) -> None:
    with pytest.raises(ProblemError) as caught:
        outcome_from_toml(table)
    assert str(caught.value) == message
