"""Off-policy estimates: against truth, enumeration, a second implementation, and obp's own."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from benchmarks.offpolicy import cases, compared, wheel
from benchmarks.venvs import NotInstalledError
from tightrope.data import offpolicy
from tightrope.data.log import Log
from tightrope.data.offpolicy import equally_likely, evaluate_mixture, mixture_shares
from tightrope.data.tables import FullTable
from tightrope.errors import InputError

ARMS = ("a", "b", "c")
SHARES = np.array([0.2, 0.5, 0.3])
CHANCES = np.array([[0.6, 0.3, 0.1], [0.1, 0.3, 0.6]])  # of the logger, by context
MEANS = np.array(
    [[[0.3, 0.2, 0.5], [0.5, 0.5, 0.2], [0.8, 0.9, 0.1]],
     [[0.4, 0.6, 0.3], [0.6, 0.3, 0.6], [0.7, 0.5, 0.4]]]
)  # fmt: skip
# [context, arm, channel]; both contexts are equally likely
TRUTH = np.einsum("k,xkc->c", SHARES, MEANS) / 2


def drawn(random, rows):
    """A log whose logger looked at a context that moves the outcomes too, and the contexts."""
    context = random.integers(2, size=rows)
    chosen = (random.random(rows)[:, None] > CHANCES[context].cumsum(axis=1)).sum(axis=1)
    outcomes = (random.random((rows, 3)) < MEANS[context, chosen]).astype(float)
    return Log(ARMS, ("bad",), chosen, outcomes.T, CHANCES[context, chosen]), context


def by_hand(log, shares):
    """The estimates of every channel per pull, row by row in plain Python; dr is left out."""
    weights = [shares[k] / p for k, p in zip(log.chosen, log.propensity, strict=True)]
    found = {}
    for channel, values in enumerate(log.outcomes):
        terms = [w * y for w, y in zip(weights, values, strict=True)]
        n, mean = len(terms), sum(terms) / len(terms)
        error = math.sqrt(sum((t - mean) ** 2 for t in terms) / (n - 1) / n)
        found["ips", channel] = (mean, error)
        own = sum(terms) / sum(weights)
        parts = [w * (y - own) * n / sum(weights) for w, y in zip(weights, values, strict=True)]
        error = math.sqrt(sum(t**2 for t in parts) / (n - 1) / n)
        found["snips", channel] = (own, error)
    return found, sum(weights) ** 2 / sum(w * w for w in weights)


def test_row_by_row_in_plain_python():
    log, _ = drawn(np.random.default_rng(4), 300)
    found = evaluate_mixture(log, SHARES)
    expected, size = by_hand(log, SHARES)
    assert found.effective == pytest.approx(size)
    for (method, channel), (mean, error) in expected.items():
        one = found.value(log.channels[channel], method=method)
        assert (one.mean, one.error) == pytest.approx((mean, error))


def test_over_all_logs_of_three_rows_ips_and_dr_average_the_truth(monkeypatch):
    monkeypatch.setattr(offpolicy, "require_told", lambda *_: None)  # tiny logs are refused
    chances, rewards = [0.3, 0.7], [0.2, 0.6]  # of the arms
    shares, truth = [0.6, 0.4], 0.6 * 0.2 + 0.4 * 0.6
    model = np.full((3, 2, 2), [[1.0, 0.9], [1.0, 0.1]])  # a bad one of the reward
    row = list(itertools.product(range(2), range(2)))  # arm, reward
    totals, certain = dict.fromkeys(("ips", "snips", "dr"), 0.0), 0.0
    for rows in itertools.product(row, repeat=3):
        chosen, won = np.array(rows).T
        likely = math.prod(chances[k] * (rewards[k] if x else 1 - rewards[k]) for k, x in rows)
        log = Log("ab", (), chosen, np.array([np.ones(3), won]), np.array(chances)[chosen])
        found = evaluate_mixture(log, shares, model=model, least=0.0)
        certain += likely
        for method in totals:
            totals[method] += likely * found.value("reward", method=method).mean
    assert certain == pytest.approx(1.0)
    assert totals["ips"] == pytest.approx(truth)
    assert totals["dr"] == pytest.approx(truth)
    assert totals["snips"] != pytest.approx(truth, rel=1e-3), "it is biased on three rows"


@pytest.fixture(scope="module")
def many():
    """Estimates from 600 logs of 500 rows, each with and without a model that knows the context."""
    random = np.random.default_rng(11)
    found = []
    for _ in range(600):
        log, context = drawn(random, 500)
        found.append(
            (evaluate_mixture(log, SHARES), evaluate_mixture(log, SHARES, model=MEANS[context]))
        )
    return found


QUANTITIES = [
    ("cost", "pull", TRUTH[0]),
    ("reward", "pull", TRUTH[1]),
    ("bad", "pull", TRUTH[2]),
    ("reward", "cost", TRUTH[1] / TRUTH[0]),
    ("bad", "cost", TRUTH[2] / TRUTH[0]),
    ("bad", "reward", TRUTH[2] / TRUTH[1]),
]


@pytest.mark.parametrize("method", ["ips", "snips", "dr"])
@pytest.mark.parametrize(("of", "per", "truth"), QUANTITIES)
def test_intervals_cover_the_truth_as_often_as_they_say(many, method, of, per, truth):
    for which in range(2):
        estimates = [pair[which].value(of, per, method) for pair in many]
        covered = np.mean([abs(one.mean - truth) <= one.reach for one in estimates])
        assert 0.925 <= covered <= 0.975, "0.95, and three deviations of 600 logs"
        means = np.array([one.mean for one in estimates])
        error = means.std() / math.sqrt(len(means))
        assert abs(means.mean() - truth) < 4 * error + (method == "snips") * 0.002
        assert np.mean([one.error for one in estimates]) == pytest.approx(means.std(), rel=0.1)


def test_a_good_model_makes_dr_better_than_ips(many):
    spread = {
        (method, which): np.std([pair[which].value("reward", "pull", method).mean for pair in many])
        for method in ("ips", "dr")
        for which in range(2)
    }
    assert spread["dr", 0] < 0.8 * spread["ips", 0], "with the arms' means in the other half"
    assert spread["dr", 1] < 0.95 * spread["dr", 0], "with the means by context"


def test_without_weights_the_log_is_wrong():
    """The logger's choices went along with the outcomes: the arms' plain means mislead."""
    log, _ = drawn(np.random.default_rng(5), 20_000)
    found = evaluate_mixture(log, SHARES).value("reward")
    naive = sum(s * log.of_arm(k)[1].mean() for k, s in enumerate(SHARES))
    assert abs(found.mean - TRUTH[1]) < found.reach
    assert abs(naive - TRUTH[1]) > 3 * found.reach


def test_the_weights_cancel_in_ratios():
    log, _ = drawn(np.random.default_rng(6), 400)
    found = evaluate_mixture(log, SHARES)
    one, two = (found.value("bad", "cost", method) for method in ("ips", "snips"))
    assert (one.mean, one.error) == pytest.approx((two.mean, two.error))


def test_a_table_needs_no_weights():
    outcomes = np.random.default_rng(7).random((200, 3, 3))
    found = evaluate_mixture(FullTable(ARMS, ["bad"], outcomes), {"a": 0.25, "c": 0.75})
    rows = 0.25 * outcomes[:, 0] + 0.75 * outcomes[:, 2]
    value = found.value("reward")
    assert value.mean == pytest.approx(rows[:, 1].mean())
    assert value.error == pytest.approx(rows[:, 1].std(ddof=1) / math.sqrt(200))
    assert found.value("bad", "cost").mean == pytest.approx(rows[:, 2].mean() / rows[:, 0].mean())
    assert (found.effective, found.rows[0].method) == (200.0, "full")


def with_propensity(change):
    log, _ = drawn(np.random.default_rng(8), 1000)
    return Log(log.arms, log.penalties, log.chosen, log.outcomes, change(log.propensity.copy()))


def put(row, value):
    def change(values):
        values[row] = value
        return values

    return change


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda _: None, "propensity: is missing"),
        (put(6, 0.0), r"row 7: propensity = 0: must lie in \(0, 1\]"),
        (put(0, 1.5), "row 1: propensity = 1.5: must lie in"),
        (put(9, math.nan), "row 10: propensity = nan: must lie in"),
        (
            lambda p: np.full_like(p, 0.9),
            r"arm 'a': .* do not fit its \d+ of 1,000 rows; .* sum to 1,000",
        ),
        (lambda p: 0.5 * p, "arm 'a': its propensities do not fit"),
        (put(3, 1e-7), "do not fit|effective sample size"),
    ],
)
def test_what_the_propensities_cannot_tell(change, said):
    with pytest.raises(InputError, match=said) as refused:
        evaluate_mixture(with_propensity(change), SHARES)
    assert "\n" not in str(refused.value)


def test_an_arm_that_was_never_pulled():
    log, _ = drawn(np.random.default_rng(8), 400)
    wider = Log((*ARMS, "d"), log.penalties, log.chosen, log.outcomes, log.propensity)
    with pytest.raises(
        InputError, match=r"arm 'd': a share of 0.25 of the mixture, and none of 400"
    ):
        evaluate_mixture(wider, {"a": 0.75, "d": 0.25})
    assert evaluate_mixture(wider, {"a": 0.75, "c": 0.25}).used < 400, "it is not needed here"


def test_too_few_rows_that_count():
    log, _ = drawn(np.random.default_rng(8), 120)
    with pytest.raises(InputError, match=r"effective sample size \d+\.\d of 120 rows, largest"):
        evaluate_mixture(log, {"c": 1.0})
    assert evaluate_mixture(log, {"c": 1.0}, least=5).effective < 50


def test_fitting_propensities_are_rarely_refused():
    random = np.random.default_rng(3)
    for _ in range(200):
        offpolicy.require_told(drawn(random, 200)[0])


@pytest.mark.parametrize(
    ("shares", "said"),
    [
        ({"d": 1.0}, "'d' is not an arm"),
        ({"a": 0.5}, "the shares sum to 0.5; must be 1"),
        ({"a": -0.5, "b": 1.5}, "a = -0.5: must lie in"),
        ({"a": math.nan}, "a = nan"),
        ([0.5, 0.5], r"shape \(2,\) must be \(3,\)"),
        ({"a": "x"}, "must be a share of every arm"),
    ],
)
def test_shares_that_are_none(shares, said):
    with pytest.raises(InputError, match=said):
        mixture_shares(ARMS, shares)


def test_unknown_quantities_and_wrong_models():
    log, _ = drawn(np.random.default_rng(8), 300)
    with pytest.raises(InputError, match="cost per bad by dr: known: cost per pull"):
        evaluate_mixture(log, SHARES).value("cost", "bad")
    with pytest.raises(InputError, match=r"model: shape \(2,\) must be \(300, 3, 3\)"):
        evaluate_mixture(log, SHARES, model=[1.0, 2.0])
    bad = Log(log.arms, log.penalties, log.chosen, -log.outcomes - 1.0, log.propensity)
    with pytest.raises(InputError, match=r"row 1, arm '.', cost = -"):
        evaluate_mixture(bad, SHARES)


def test_equally_likely_arms_of_any_number():
    log, _ = drawn(np.random.default_rng(8), 300)
    with pytest.raises(InputError, match=r"do not fit.*equally likely \(--uniform, equally_l"):
        evaluate_mixture(
            equally_likely(Log(("a", "b"), ("bad",), log.chosen * 0, log.outcomes)), {"a": 1.0}
        )


def test_the_estimates_of_obp_on_its_own_data():
    """Equal to the last bits; intervals alike, theirs by the bootstrap."""
    try:
        path = wheel()
    except NotInstalledError as error:
        pytest.skip(f"the wheel of obp cannot be fetched: {error}")
    (_, log, shares, model), _ = cases(path, "men")
    for one in compared(path, log, shares, model):
        assert one.ours == pytest.approx(one.theirs, rel=1e-12)
        theirs, mine = np.ptp(one.their_interval), np.ptp(one.our_interval)
        assert mine == pytest.approx(theirs, rel=0.1)


@pytest.mark.parametrize("data", [None, {"arm": ["a"]}])
def test_what_is_no_log_is_refused_with_what_makes_one(data):
    with pytest.raises(
        InputError, match=r"must be a FullTable or a Log; tightrope\.read_log makes"
    ):
        evaluate_mixture(data, {"a": 1.0})
