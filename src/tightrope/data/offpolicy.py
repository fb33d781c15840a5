"""Off-policy estimates: the cost, reward and penalties per pull of a fixed mixture of arms.

Another policy chose the log's rows: it pulled the arm of row i with the known probability p_i, its
propensity. A mixture pulls arm k with the share s_k; row i has the weight w_i = s_k / p_i, k being
its arm. If requests have types, the shares may differ between them; with features, between rows.
With outcomes y_i:

    ips     mean of w_i y_i                              unbiased
    snips   sum of w_i y_i over the sum of w_i           a little bias, often less variance
    direct  mean of sum_k s_k q_ik                       as good as the model q of the outcomes
    dr      mean of sum_k s_k q_ik + w_i (y_i - q_ik)    unbiased for any model

The direct estimate is for features alone: there q is a linear model of each arm.

Ratios, such as reward per unit of cost, are quotients of two such means; their standard errors come
from the delta method. Letters: n rows, K arms, T types (1 without contexts), M penalties, C = 2 + M
channels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tightrope.data.log import Log, has_features, kinds_of, types_of
from tightrope.data.tables import FullTable, require_data, require_outcomes, vectors_of
from tightrope.errors import InputError, nearest
from tightrope.problem.ridge import fit_slopes
from tightrope.problem.values import Floats, Integers, shown
from tightrope.statistics import Estimate, entries

METHODS = ("ips", "snips", "dr")
DIRECT = "direct"  # the method for features alone
EXACT = "full"  # the method for a table, which has no weights
LEAST_SIZE = 50.0  # the smallest effective sample size for estimates
MOST_ERRORS = 5.0  # standard errors by which frequencies may differ from propensities
FOLDS = 2  # parts of the log: the model for one is fitted to the others
Shares = Mapping[str, float] | Sequence[float] | Floats
SharesByType = Mapping[str, Shares] | Sequence[Shares]


@dataclass(frozen=True)
class MixtureRow:
    """One quantity by one method, in the user's units: ``of`` a channel ``per`` pull or channel.

    ``value`` has a standard error and a 95 % interval.
    """

    method: str  # ips, snips, direct or dr; full for a table
    of: str
    per: str  # "pull", or the channel of the denominator
    value: Estimate

    as_dict = entries


@dataclass(frozen=True)
class MixtureEstimates:
    """The cost, reward and penalties of a mixture, by every method, and the log's information.

    ``effective``: the effective sample size, (sum of weights)^2 / (sum of squared weights), the
    number of the mixture's own rows with the same information. ``mean_weight`` is 1 on average.
    """

    shares: dict[str, float]  # by arm, or by "type/arm"; arms with a share of 0 are left out
    rows: tuple[MixtureRow, ...]
    count: int  # rows of the data
    used: int  # of them, those with a weight above 0
    effective: float
    largest_weight: float
    mean_weight: float

    def value(self, of: str, per: str = "pull", method: str | None = None) -> Estimate:
        """The estimate of a channel per pull, or per another channel.

        ``method``: "ips", "snips", "direct" or "dr" (default), or "full" for a table.
        """
        wanted = method or self.rows[-1].method
        for row in self.rows:
            if (row.method, row.of, row.per) == (wanted, of, per):
                return row.value
        known = ", ".join(dict.fromkeys(f"{row.of} per {row.per}" for row in self.rows))
        methods = ", ".join(dict.fromkeys(row.method for row in self.rows))
        raise InputError(f"{of} per {per} by {wanted}: known: {known}; by {methods}")

    def summary(self) -> dict[str, Any]:
        """The evaluation as a JSON-ready dictionary."""
        return {
            "shares": self.shares,
            "rows": self.count,
            "rows_used": self.used,
            "effective_sample_size": self.effective,
            "largest_weight": self.largest_weight,
            "mean_weight": self.mean_weight,
            "estimates": [row.as_dict() for row in self.rows],
        }


def equally_likely(log: Log) -> Log:
    """The same log with the propensity 1 / K in every row: each arm was equally likely.

    >>> log = Log(["a", "b"], [], np.array([0, 1]), np.ones((2, 2)))
    >>> equally_likely(log).propensity.tolist()
    [0.5, 0.5]
    """
    even = np.full(len(log), 1.0 / len(log.arms))
    return replace(log, propensity=even)


def mixture_shares(arms: Sequence[str], shares: Shares, place: str = "mixture") -> Floats:
    """A mixture as shares of the pulls [K], at least 0, with the sum 1; unnamed arms get 0.

    >>> mixture_shares(["a", "b", "c"], {"a": 0.25, "c": 0.75}).tolist()
    [0.25, 0.0, 0.75]
    """
    if isinstance(shares, Mapping):
        for name in shares:
            if name not in arms:
                raise InputError(f"{place}: {name!r} is not an arm; {nearest(str(name), arms)}")
        shares = [shares.get(name, 0.0) for name in arms]
    try:
        found = np.asarray(shares, np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{place} = {shown(shares)}: must be a share of every arm") from None
    if found.shape != (len(arms),):
        raise InputError(
            f"{place}: shape {found.shape} must be {(len(arms),)}, a share of each arm"
        )
    for name, share in zip(arms, found.tolist(), strict=True):
        if not 0.0 <= share <= 1.0 + 1e-9:
            raise InputError(f"{place}: {name} = {share:g}: must lie in [0, 1], a share of pulls")
    if abs(found.sum() - 1.0) > 1e-6:
        raise InputError(f"{place}: the shares sum to {found.sum():g}; must be 1")
    return np.asarray(found / found.sum())


def shares_by_type(data: Log | FullTable, shares: Shares | SharesByType) -> Floats:
    """A mixture as shares of the pulls of each type [T, K]; T is 1 without contexts.

    ``shares``: of all pulls, or of each type, by its name or in the order of the names; with
    features, of each row [n, K], as T = n types.
    """
    types = types_of(data)
    if isinstance(shares, np.ndarray) and shares.ndim == 2 and has_features(data):
        return _shares_by_row(data, shares)
    if not _is_by_type(shares):
        return np.tile(mixture_shares(data.arms, shares), (max(len(types), 1), 1))  # type: ignore[arg-type]
    if not types:
        raise InputError("mixture: has shares of types; the data must have types")
    each: Any = shares
    if isinstance(shares, Mapping):
        for name in shares:
            if name not in types:
                raise InputError(f"mixture: {name!r} is not a type; {nearest(str(name), types)}")
        each = [shares.get(name, {}) for name in types]
    if len(each) != len(types):
        raise InputError(f"mixture: shares of {len(each)} types; must be {len(types)}")
    named = zip(types, each, strict=True)
    return np.array([mixture_shares(data.arms, one, f"mixture, type {x!r}") for x, one in named])


def with_types_alone(data: Log | FullTable) -> Log | FullTable:
    """The data with the types of its rows where they have both a type and features."""
    if not has_features(data) or not isinstance(data.contexts[0], tuple):
        return data
    return replace(data, contexts=[kind for kind, _ in data.contexts], features=())


def _shares_by_row(data: Log | FullTable, shares: Floats) -> Floats:
    """The shares of every row's arms, [n, K], checked."""
    if shares.shape != (len(data), len(data.arms)):
        allowed = f"{(len(data), len(data.arms))}, the shares of each row"
        raise InputError(f"mixture: shape {shares.shape} must be {allowed}")
    sums = shares.sum(axis=1)
    wrong = np.flatnonzero(~((shares >= 0.0).all(axis=1) & (np.abs(sums - 1.0) <= 1e-6)))
    if len(wrong):
        row = int(wrong[0])
        mixture_shares(data.arms, shares[row], f"mixture, row {row + 1}")
    return np.asarray(shares / sums[:, np.newaxis], np.float64)


def _is_by_type(shares: object) -> bool:
    """Whether shares are given for each type."""
    some = list(shares.values()) if isinstance(shares, Mapping) else shares
    several = isinstance(some, Sequence | np.ndarray) and len(some) > 0
    return several and isinstance(some[0], Mapping | Sequence | np.ndarray)  # type: ignore[index]


def evaluate_mixture(
    data: Log | FullTable,
    shares: Shares | SharesByType,
    *,
    model: npt.ArrayLike | None = None,
    least: float = LEAST_SIZE,
) -> MixtureEstimates:
    """Estimate the cost, reward and penalties of a fixed mixture of arms, per pull and as ratios.

    ``shares``: of the pulls, by arm or in order, such as ``oracle(problem).pull_share``; or of the
    pulls for each type, such as ``oracle(problem).by_type``; with features also an array [n, K] of
    the shares for each row. ``model`` [n, K, 2 + M]: the predictions of another model, fitted
    without these rows, for ``dr``; default: the arm's mean, for the type of the row, in the other
    half of the log, or a linear model of the arm if there are features. Raises an ``InputError`` if
    the log has too little information: propensities are missing, impossible or inconsistent with
    the frequencies, an arm was never pulled, or the effective sample size is below ``least``.

    A :class:`FullTable` needs no weights: the method is "full".

    >>> random = np.random.default_rng(1)
    >>> chosen = random.integers(2, size=4000)
    >>> cost, reward = np.ones(4000), np.where(chosen == 0, 0.2, 0.6)
    >>> log = equally_likely(Log(["a", "b"], [], chosen, np.array([cost, reward])))
    >>> found = evaluate_mixture(log, {"a": 0.5, "b": 0.5})
    >>> round(found.value("reward", method="snips").mean, 2), round(found.effective)
    (0.4, 4000)
    """
    require_data(data)
    alone = with_types_alone(data)
    if alone is not data and not isinstance(shares, np.ndarray) and _is_by_type(shares):
        by_type = shares_by_type(alone, shares)
        if isinstance(alone, Log):
            require_told(alone, by_type)
        shares = by_type[kinds_of(alone, types_of(alone))]  # of each row
    wanted = shares_by_type(data, shares)
    kinds, featured = kinds_of(data, types_of(data)), has_features(data)
    if featured and len(wanted) > 1:
        kinds = np.arange(len(data))
    if isinstance(data, FullTable):
        return _of_table(data, wanted, kinds)
    require_told(data, wanted.mean(axis=0)[np.newaxis] if featured else wanted)
    require_outcomes(data, data.outcomes.T, np.arange(len(data)), data.chosen)
    assert data.propensity is not None
    weights = wanted[kinds, data.chosen] / data.propensity
    effective = _effective(weights)
    if not effective >= least:
        raise InputError(
            f"mixture: effective sample size {effective:.1f} of {len(data):,} rows, largest weight"
            f" {weights.max():.4g}; must be at least {least:g}"
        )
    rows = _by_methods(data, wanted, kinds, weights, model)
    return MixtureEstimates(
        _named(data, wanted),
        tuple(rows),
        len(data),
        int(np.count_nonzero(weights)),
        effective,
        float(weights.max()),
        float(weights.mean()),
    )


def _by_methods(
    data: Log, wanted: Floats, kinds: Integers, weights: Floats, model: npt.ArrayLike | None
) -> list[MixtureRow]:
    """All quantities of a log by every method."""
    outcomes = data.outcomes
    weighted = weights * outcomes  # [C, n]
    mean_weight = float(weights.mean())
    own = weighted.mean(axis=1, keepdims=True) / mean_weight
    rows = [
        *_rows("ips", data, weighted.mean(axis=1), weighted),
        *_rows("snips", data, own[:, 0], weights * (outcomes - own) / mean_weight),
    ]
    if has_features(data):
        model = expected_by_folds(data, _parts(data.chosen)) if model is None else model
        direct = np.einsum("nkc,nk->cn", _checked(data, model), wanted[kinds])
        rows += _rows(DIRECT, data, direct.mean(axis=1), direct)
    corrected = _corrected(data, wanted, kinds, weights, model)
    rows += _rows("dr", data, corrected.mean(axis=1), corrected)
    return rows


def _of_table(table: FullTable, wanted: Floats, kinds: Integers) -> MixtureEstimates:
    """The means over the rows of a table, in which every arm's outcome is known."""
    values = np.einsum("nkc,nk->cn", table.outcomes, wanted[kinds])
    rows = _rows(EXACT, table, values.mean(axis=1), values)
    count = len(table)
    return MixtureEstimates(
        _named(table, wanted), tuple(rows), count, count, float(count), 1.0, 1.0
    )


def _named(data: Log | FullTable, wanted: Floats) -> dict[str, float]:
    if _blind(wanted) or not types_of(data):
        names = list(data.arms)
        found = wanted[0] if _blind(wanted) else wanted.mean(axis=0)
    else:
        names = [f"{kind}/{arm}" for kind in types_of(data) for arm in data.arms]
        found = wanted.ravel()
    named = zip(names, found.tolist(), strict=True)
    return {name: share for name, share in named if share > 0.0}


def _blind(wanted: Floats) -> bool:
    """Whether the shares are those of all types."""
    return bool((wanted == wanted[0]).all())


def _effective(weights: Floats) -> float:
    """Kish's effective sample size.

    >>> _effective(np.array([1.0, 1.0, 0.0]))
    2.0
    """
    squares = float(weights @ weights)
    return float(weights.sum()) ** 2 / squares if squares else 0.0


def _rows(method: str, data: Log | FullTable, means: Floats, values: Floats) -> list[MixtureRow]:
    """All quantities by one method; the rows' ``values`` [C, n] have the spread of the means."""
    channels, count = data.channels, values.shape[1]
    spread = np.cov(values) / count if count > 1 else None  # of the means, [C, C]

    def row(of: int, per: int | None) -> MixtureRow:
        factors = np.zeros(len(channels))
        factors[of], value = 1.0, float(means[of])
        if per is not None:  # the delta method
            value /= means[per]
            factors[of], factors[per] = 1.0 / means[per], -value / means[per]
        error = None
        if spread is not None:
            error = float(np.sqrt(max(factors @ spread @ factors, 0.0)))
        below = "pull" if per is None else channels[per]
        return MixtureRow(method, channels[of], below, Estimate(float(value), error))

    every = range(len(channels))
    ratios = [(of, per) for per in (0, 1) for of in every if of != per and means[per] > 0.0]
    return [row(of, None) for of in every] + [row(of, per) for of, per in ratios]


def _corrected(
    log: Log, wanted: Floats, kinds: Integers, weights: Floats, model: npt.ArrayLike | None
) -> Floats:
    """The doubly robust value of every row, [C, n]."""
    if model is None:
        return _by_folds(log, wanted, kinds, weights)
    expected = _checked(log, model)
    mixed = np.einsum("nkc,nk->cn", expected, wanted[kinds])
    pulled = expected[np.arange(len(log)), log.chosen].T
    return np.asarray(mixed + weights * (log.outcomes - pulled))


def _checked(log: Log, model: npt.ArrayLike | None) -> Floats:
    """The predictions of a model, [n, K, C]."""
    shape = (len(log), len(log.arms), len(log.channels))
    expected = np.asarray(model, np.float64)
    if expected.shape != shape:
        raise InputError(f"model: shape {expected.shape} must be {shape}")
    if not np.isfinite(expected).all():
        raise InputError("model: must be finite numbers")
    return expected


def _parts(cells: Integers) -> Integers:
    """The part of every row: dealt by cell, so that each part has rows of all that have enough."""
    part = np.empty(len(cells), np.int64)
    part[np.argsort(cells, kind="stable")] = np.arange(len(cells)) % FOLDS
    return part


def _by_folds(log: Log, wanted: Floats, kinds: Integers, weights: Floats) -> Floats:
    """The same, with the arms' weighted means in the other parts of the log as the model.

    The means are those of the row's type; of all types where the type has no rows of the arm. Rows
    are dealt to parts by type and arm, so that every part has rows of each that has enough.
    """
    assert log.propensity is not None
    cell = kinds * len(log.arms) + log.chosen
    part = _parts(cell)
    place, shape = cell * FOLDS + part, (*wanted.shape, FOLDS)
    inverse = 1.0 / log.propensity

    def elsewhere(values: Floats) -> Floats:
        """For each type, arm and part the sum over the other parts."""
        return _in_other_folds(np.bincount(place, values, wanted.size * FOLDS)).reshape(shape)

    rows, found = elsewhere(inverse), np.empty_like(log.outcomes)
    for channel, values in enumerate(log.outcomes):
        sums = elsewhere(inverse * values)
        means = np.where(rows > 0.0, _over(sums, rows), _over(sums.sum(axis=0), rows.sum(axis=0)))
        mixed = np.array([share @ mean for share, mean in zip(wanted, means, strict=True)])
        found[channel] = mixed[kinds, part] + weights * (values - means.ravel()[place])
    return found


def _over(sums: Floats, rows: Floats) -> Floats:
    """Means; 0 of no rows."""
    return np.asarray(sums / np.where(rows > 0.0, rows, 1.0))


def _in_other_folds(sums: npt.NDArray[Any]) -> Floats:
    """For each part the sum over the other parts, [T K, parts]."""
    by_part = sums.reshape(-1, FOLDS)
    return np.asarray(by_part.sum(axis=1, keepdims=True) - by_part)


def require_told(log: Log, wanted: Floats | None = None) -> None:
    """Raise an ``InputError`` unless the propensities can be used for these arms.

    ``wanted`` [T, K]: only arms with a share above 0 are needed; by default all are. If an arm was
    possible in every row, 1 / propensity over its rows sums to n on average. A sum more than 5
    standard errors off means that these are not this log's propensities, or that the arm was not
    always possible. If the shares differ between types, this is checked for each type.
    """
    if not len(log):
        raise InputError("log: has no rows; at least one is needed")
    if log.propensity is None:
        raise InputError(
            "propensity: is missing; must be the probability of each logged choice, or every arm"
            " must have been equally likely (--uniform, equally_likely)"
        )
    wrong = ~((log.propensity > 0.0) & (log.propensity <= 1.0))
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise InputError(f"row {row + 1}: propensity = {log.propensity[row]:g}: must lie in (0, 1]")
    if wanted is None or _blind(wanted):
        names = [f"arm {name!r}" for name in log.arms]
        sizes = np.full(len(names), len(log))
        _require_fit(log, names, log.chosen, sizes, None if wanted is None else wanted[0])
    else:
        types = types_of(log)
        names = [f"arm {arm!r}, type {kind!r}" for kind in types for arm in log.arms]
        kinds = kinds_of(log, types)
        sizes = np.repeat(np.bincount(kinds), len(log.arms))
        _require_fit(log, names, kinds * len(log.arms) + log.chosen, sizes, wanted.ravel())


def _require_fit(
    log: Log, names: Sequence[str], cells: Integers, sizes: Integers, wanted: Floats | None
) -> None:
    """Raise unless the propensities fit the rows of every wanted cell: an arm, or one for a type.

    ``cells`` [n]: the cell of every row; ``sizes``: the rows in which each was possible.
    """
    counts = np.bincount(cells, minlength=len(names))
    totals, errors = _inverse_means(log, cells, sizes)
    for cell, name in enumerate(names):
        if wanted is not None and wanted[cell] <= 0.0:
            continue
        share = "" if wanted is None else f"a share of {wanted[cell]:g} of the mixture, and "
        if not counts[cell]:
            raise InputError(f"{name}: {share}none of {sizes[cell]:,} rows")
        off = abs(totals[cell] - 1.0)
        if off > 1e-9 and off > MOST_ERRORS * errors[cell]:
            even = (log.propensity == log.propensity[0]).all()  # type: ignore[index]
            hint = "; was every arm equally likely (--uniform, equally_likely)?" if even else ""
            raise InputError(
                f"{name}: its propensities do not fit its {counts[cell]:,} of {sizes[cell]:,}"
                f" rows; 1 / propensity over its rows must sum to {sizes[cell]:,} within"
                f" {MOST_ERRORS:g} standard errors of {errors[cell] * sizes[cell]:,.4g}, and sums"
                f" to {totals[cell] * sizes[cell]:,.6g}{hint}"
            )


def _inverse_means(log: Log, cells: Integers, sizes: Integers) -> tuple[Floats, Floats]:
    """The sums of 1 / propensity over the cells' rows, over their sizes, and their expected errors.

    A sum that is too small may lack rows of the smallest propensity, which are the likeliest to be
    missing by chance; the error accounts for them.
    """
    assert log.propensity is not None
    count, inverse = len(sizes), 1.0 / log.propensity
    totals = np.bincount(cells, weights=inverse, minlength=count) / sizes
    squares = np.bincount(cells, weights=inverse**2, minlength=count) / sizes
    largest = np.zeros(count)
    np.maximum.at(largest, cells, inverse)
    filled = squares + np.maximum(1.0 - totals, 0.0) * largest
    second = filled / np.maximum(totals, 1.0)  # the mean of 1 / propensity, if they fit
    return totals, np.sqrt(np.maximum(second - 1.0, 0.0) / sizes)


def uneven(log: Log) -> int | None:
    """The first arm whose propensities differ between rows; None if there is none."""
    assert log.propensity is not None
    for arm in range(len(log.arms)):
        mine = log.propensity[log.chosen == arm]
        if len(mine) and not np.allclose(mine, mine[0], rtol=1e-9, atol=0.0):
            return arm
    return None


def expected_by_folds(log: Log, part: npt.NDArray[np.int64]) -> Floats:
    """The expected outcomes of every arm for each row, [n, K, C].

    The model of an arm is fitted to its rows in the other parts of the log, with the weights 1 /
    propensity; ``part`` [n]. An arm without rows there is expected to have the mean of all arms.
    """
    assert log.propensity is not None
    features, outcomes = vectors_of(log).astype(np.float64), log.outcomes.T
    found = np.empty((len(log), len(log.arms), outcomes.shape[1]))
    for number in np.unique(part).tolist():
        here, elsewhere = part == number, part != number
        for arm in range(len(log.arms)):
            mine = elsewhere & (log.chosen == arm)
            mine = mine if mine.any() else elsewhere if elsewhere.any() else here
            model = fit_slopes(features[mine], outcomes[mine], 1.0 / log.propensity[mine])
            found[here, arm] = model.at(features[here])
    return found
