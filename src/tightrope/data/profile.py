"""A profile of a log: arms, outcomes, correlations, and which limits can be kept.

``profile(fitted)`` gives numbers, ``page`` a self-contained HTML page. Letters: K arms, C = 2 + M
outcomes, limits M.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tightrope.data.fitting import FEW_OF_TYPE, Fitted, rows_by_arm, rows_by_type, scale_of
from tightrope.data.log import Log
from tightrope.data.points import at_points
from tightrope.errors import InfeasibleError
from tightrope.names import in_table, listed
from tightrope.optimum.pi_star import infeasible, oracle_of_arms
from tightrope.problem import Moments, Problem
from tightrope.problem.limits import BASES
from tightrope.problem.mixtures import program
from tightrope.problem.mixtures_by_type import lowest_by_type
from tightrope.problem.values import Floats
from tightrope.statistics import (
    Bounded,
    Estimate,
    entries,
    estimate,
    estimate_within,
    none_in,
)

BINS = 24
DRIFT = 5.0  # standard errors between the halves of a log from which to warn
LEAST_HALF = 30  # rows of an arm in each half for a comparison
MOST_ARMS = 60  # arms that a page shows
MOST_CHANNELS = 8  # outcomes whose correlations a page shows


@dataclass(frozen=True)
class ArmProfile:
    """One arm: its rows, and for every outcome [C] its mean, largest value and histogram.

    ``correlations``: between pairs of outcomes within its rows, by "cost, reward"; None if one of
    them never varies. ``keeps``: whether it keeps every limit by itself on average: "yes", "no", or
    "unclear" if its rows do not decide at 95 %. A mean of rows that are all 0 is a bound.
    """

    name: str
    rows: int
    means: tuple[Estimate, ...]
    largest: tuple[float, ...]
    histograms: tuple[tuple[int, ...], ...]  # [C], each of ``BINS`` counts from 0 to the scale
    correlations: dict[str, float | None]
    keeps: str

    def described(self, channels: Sequence[str]) -> dict[str, Any]:
        """The arm as JSON-ready entries; its outcomes are by the names of the channels [C]."""
        each = zip(channels, self.means, self.largest, strict=True)
        outcomes = {name: {**mean.described("mean"), "largest": top} for name, mean, top in each}
        head = {"arm": self.name, "rows": self.rows, "keeps_limits": self.keeps}
        return {**head, **outcomes, "correlations": self.correlations}


@dataclass(frozen=True)
class LimitProfile:
    """One limit, in the user's units (per unit of cost, pull or reward).

    ``rates`` [K]: of each arm alone; a bound if no row has a penalty. ``kept`` [K]: whether each
    arm keeps the limit by itself, as in :class:`ArmProfile`. ``lowest``: the lowest limit that some
    mixture of the arms can keep, for each type of request if there are types; ``lowest_together``:
    the same while it keeps the other limits too, or None. A limit in total has neither before its
    budget is known. ``lowest_arm``: the arm that keeps it; None if types need not have the same.
    """

    name: str
    limit: float
    words: str
    rates: tuple[Estimate, ...]
    kept: tuple[str, ...]
    lowest: float | None
    lowest_arm: str | None
    lowest_together: float | None

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready entries."""
        ends = [one.interval and one.interval[1] for one in self.rates]
        rates = {"rates": [one.mean for one in self.rates], "rates_at_most": ends}
        return entries(self, rates=rates)


@dataclass(frozen=True)
class PairProfile:
    """An arm's rows of one type: their means [C], and ``keeps`` as in :class:`ArmProfile`.

    ``pooled``: they are so few that the problem draws the arm's rows of all types instead.
    """

    arm: str
    rows: int
    means: tuple[Estimate, ...]  # none without rows
    keeps: str | None
    pooled: bool

    def described(self, channels: Sequence[str]) -> dict[str, Any]:
        """The pair as JSON-ready entries; its outcomes are by the names of the channels [C]."""
        means = {
            name: one.described("mean")
            for name, one in zip(channels, self.means, strict=bool(self.means))
        }
        return entries(self, means=means, keeps={"keeps_limits": self.keeps})


@dataclass(frozen=True)
class TypeProfile:
    """One type of request: its share of the requests, and its arms [K].

    ``shares`` [K]: the arms' shares of its pulls in the best mixture that keeps the limits.
    """

    name: str
    share: float
    arms: tuple[PairProfile, ...]
    shares: tuple[float, ...] | None

    def described(self, channels: Sequence[str]) -> dict[str, Any]:
        """The type as JSON-ready entries."""
        shares = None if self.shares is None else list(self.shares)
        arms = [one.described(channels) for one in self.arms]
        return entries(
            self, name={"type": self.name}, arms={"arms": arms}, shares={"pull_share": shares}
        )


@dataclass(frozen=True)
class Profile:
    """The profile of a log; ``infeasible``: why no mixture of the arms keeps the limits, or None.

    ``reward_rate``: the highest reward per unit of cost of a mixture that keeps the limits;
    ``shares``: the arms' shares of its pulls, [K]; None if there is none.
    """

    rows: int
    channels: tuple[str, ...]
    scales: tuple[float, ...]  # [C]; of a penalty without a limit, the largest value rounded up
    arms: tuple[ArmProfile, ...]
    limits: tuple[LimitProfile, ...]
    infeasible: str | None
    reward_rate: float | None
    shares: tuple[float, ...] | None
    warnings: tuple[str, ...]
    types: tuple[TypeProfile, ...] = ()
    interval: str | None = None  # the name of the number whose values the arms are

    def as_dict(self) -> dict[str, Any]:
        """The profile as JSON-ready entries."""
        shares = None if self.shares is None else list(self.shares)
        types = [one.described(self.channels) for one in self.types]
        return entries(
            self,
            types={"types": types} if types else {},
            interval={"interval": self.interval} if self.interval else {},
            channels={},
            scales={"scales": dict(zip(self.channels, self.scales, strict=True))},
            arms={"arms": [one.described(self.channels) for one in self.arms]},
            infeasible={"feasible": self.infeasible is None, "infeasible": self.infeasible},
            shares={"pull_share": shares},
        )


def profile(fitted: Fitted) -> Profile:
    """The profile of a log and its problem.

    >>> import warnings
    >>> warnings.simplefilter("ignore")  # so few rows
    >>> from tightrope.data.fitting import fit
    >>> log = {"model": ["a", "a", "b"], "usd": [0.2, 0.4, 0.1], "bad": [0, 1, 0]}
    >>> found = profile(fit(log, arm="model", cost="usd", reward=1, limits={"bad": "90% per pull"}))
    >>> found.arms[0].rows, found.limits[0].rates[0].mean, found.limits[0].lowest_arm
    (2, 0.5, 'b')
    """
    log, problem = fitted.log, at_points(fitted.problem, fitted.log)
    scales, groups = _scales(log, problem), _groups(log)
    limits = range(problem.penalty_count)
    kept = [[_keeps(log, problem, k, m, one) for m in limits] for k, one in enumerate(groups)]
    arms = tuple(_arm(log, k, one, scales, _worst(kept[k])) for k, one in enumerate(groups))
    reason = None if problem.depends_on_budget else infeasible(problem)
    best = None
    if reason is None and not problem.depends_on_budget:
        try:
            best = oracle_of_arms(problem.blind)
        except InfeasibleError as error:  # by less than rounding
            reason = str(error)
    return Profile(
        rows=len(log),
        channels=log.channels,
        scales=tuple(scales),
        arms=arms,
        limits=tuple(_limit(problem, m, arms, [one[m] for one in kept]) for m in limits),
        infeasible=reason,
        reward_rate=None if best is None else best.reward_rate,
        shares=None if best is None else tuple(best.pull_share.tolist()),
        warnings=(*fitted.warnings, *_findings(log, [one.rows for one in groups])),
        types=_types(log, problem, scales, {} if best is None else best.shares_by_type),
        interval=None if log.space is None else " and ".join(log.space.ranges),
    )


class _Group(NamedTuple):
    """An arm's rows, in the order of the log: outcomes [C, n], and weights [n] if there are any."""

    rows: Floats
    weights: Floats | None


def _groups(log: Log) -> list[_Group]:
    """The rows of every arm, [K]."""
    return [_group(log, places) for places in rows_by_arm(log)]


def _group(log: Log, places: Any) -> _Group:
    weights = None if log.propensity is None else 1.0 / log.propensity[places]
    return _Group(log.outcomes.take(places, axis=1), weights)


def _types(
    log: Log, problem: Problem, scales: Sequence[float], best: Mapping[str, Sequence[float]]
) -> tuple[TypeProfile, ...]:
    """The types of requests; ``best``: the pull shares of each in the best mixture."""
    if problem.contexts is None:
        return ()
    names, tops = list(problem.shares), _tops(log, scales)
    by_arm = [[_group(log, places) for places in some] for some in rows_by_type(log, names)]
    return tuple(
        TypeProfile(
            name,
            problem.shares[name],
            tuple(_pair(log, problem, k, some[x], tops) for k, some in enumerate(by_arm)),
            tuple(best[name]) if name in best else None,
        )
        for x, name in enumerate(names)
    )


def _pair(log: Log, problem: Problem, k: int, group: _Group, tops: Sequence[float]) -> PairProfile:
    count = group.rows.shape[1]
    if not count:
        return PairProfile(log.arms[k], 0, (), None, True)
    limits = range(problem.penalty_count)
    keeps = _worst([_keeps(log, problem, k, m, group) for m in limits])
    return PairProfile(log.arms[k], count, _means(group, tops), keeps, count < FEW_OF_TYPE)


def _means(group: _Group, tops: Sequence[float]) -> tuple[Estimate, ...]:
    pairs = zip(group.rows, tops, strict=True)
    return tuple(estimate_within(row, top, group.weights) for row, top in pairs)


def _tops(log: Log, scales: Sequence[float]) -> list[float]:
    """The largest possible outcomes, [C]; infinite if it is a price, which is fixed."""
    return [
        np.inf if channel == "cost" or 0.0 < row.min() == row.max() else scale
        for channel, row, scale in zip(log.channels, log.outcomes, scales, strict=True)
    ]


def _scales(log: Log, problem: Problem) -> list[float]:
    known = dict(zip(problem.stated.channels, problem.scales.channels, strict=True))
    tops = log.outcomes.max(axis=1).tolist()
    return [known.get(c, scale_of(top)) for c, top in zip(log.channels, tops, strict=True)]


def _keeps(log: Log, problem: Problem, k: int, m: int, group: _Group) -> str:
    """Whether arm k keeps limit m alone; a limit in total is not checked.

    It keeps a limit of c if the mean of y - c b is at most 0, with y the penalty of a row and b the
    limit's base; that mean has a 95 % interval. Without any penalty in the rows, the upper bound on
    the mean of y decides.
    """
    limit, rows = problem.limit_kinds[m], group.rows
    totals = (rows[0], np.ones(rows.shape[1]), rows[1])
    if limit.total is not None:
        return "yes"
    if limit.of is None:
        penalty = rows[list(log.channels).index(problem.limit_names[m])]
    else:
        penalty = BASES[limit.of].of(*totals) * limit.weights(problem.names)[k]
    excess = estimate(penalty - limit.number * limit.base(*totals), group.weights)
    if limit.of is None and not penalty.any():
        most = problem.scales.penalties[m] * none_in(len(penalty))
        return "yes" if excess.mean + most <= 0.0 else "unclear"
    if excess.sign > 0:
        return "no"
    return "unclear" if excess.sign == 0 and excess.mean != 0.0 else "yes"


def _worst(kept: Sequence[str]) -> str:
    """Whether all limits are kept."""
    return next((one for one in ("no", "unclear") if one in kept), "yes")


def _arm(log: Log, k: int, group: _Group, scales: Sequence[float], keeps: str) -> ArmProfile:
    rows = group.rows
    counts = tuple(
        tuple(np.histogram(row, bins=BINS, range=(0.0, max(scale, float(row.max()))))[0].tolist())
        for row, scale in zip(rows, scales, strict=True)
    )
    return ArmProfile(
        name=log.arms[k],
        rows=rows.shape[1],
        means=_means(group, _tops(log, scales)),
        largest=tuple(rows.max(axis=1).tolist()),
        histograms=counts,
        correlations=_correlations(log.channels, rows),
        keeps=keeps,
    )


def _correlations(channels: Sequence[str], rows: Floats) -> dict[str, float | None]:
    """The correlation of every pair of outcomes; None if one of them never varies."""
    centred = rows - rows.mean(axis=1, keepdims=True)
    varies = rows.max(axis=1) > rows.min(axis=1)
    products = centred @ centred.T
    found: dict[str, float | None] = {}
    for i in range(len(channels)):
        for j in range(i + 1, len(channels)):
            size = float(np.sqrt(products[i, i] * products[j, j]))
            pair = f"{channels[i]}, {channels[j]}"
            known = bool(varies[i] and varies[j] and size > 0.0)
            found[pair] = float(np.clip(products[i, j] / size, -1.0, 1.0)) if known else None
    return found


def _limit(
    problem: Problem, m: int, arms: Sequence[ArmProfile], kept: Sequence[str]
) -> LimitProfile:
    limit = problem.limit_kinds[m]
    rates = [_rate(problem, k, m, arm.rows) for k, arm in enumerate(arms)]
    facts = (problem.limit_names[m], float(limit.number), limit.words, tuple(rates), tuple(kept))
    if limit.total is not None:
        return LimitProfile(*facts, lowest=None, lowest_arm=None, lowest_together=None)
    means = [one.mean for one in rates]
    moments, arm = problem.row_moments, None
    unit = problem.scales.penalties[m] / float(problem.base_scales[m])
    lowest: float | None
    if problem.contexts is None:
        lowest, arm = min(means), problem.names[means.index(min(means))]
    else:
        found = lowest_limit(moments, m, alone=True)
        lowest = None if found is None else found * unit
    together = lowest
    if problem.penalty_count > 1:
        found = lowest_limit(moments, m)
        together = None if found is None else found * unit
    return LimitProfile(*facts, lowest, arm, together)


def _rate(problem: Problem, k: int, m: int, rows: int) -> Estimate:
    """The rate of penalty m of arm k alone, a bound if none of its rows has the penalty."""
    limit, rate = problem.limit_kinds[m], float(problem.own_rates[k, m])
    base = float(problem.moments.base[k, m] * problem.base_scales[m])
    if rate or limit.of is not None or limit.total is not None or not base:
        return Estimate(rate)
    return Bounded(0.0, None, problem.scales.penalties[m] * none_in(rows) / base)


def lowest_limit(moments: Moments, m: int, *, alone: bool = False) -> float | None:
    """The lowest rate of penalty m of a mixture that keeps the other limits, normalised, or None.

    ``alone``: whatever happens to the other limits.

    The rate is sum_k p_k y_k / sum_k p_k b_k, with b the base of limit m. With z_k = p_k over the
    denominator it is a linear program: minimise sum z_k y_k, subject to sum z_k b_k = 1 and, for
    every other limit j, sum z_k (y_kj - c_j b_kj) <= 0. Limits in total are left out.
    """
    others = [j for j in range(len(moments.limits)) if j != m and np.isfinite(moments.limits[j])]
    others = [] if alone else others
    base = moments.base[:, m]
    if not base.any():
        return None
    if moments.shares is not None:
        result = lowest_by_type(moments, m, others, moments.shares)
        return float(result.fun) if result.success else None
    excess = (moments.penalty - moments.limits * moments.base)[:, others].T
    found = program(moments.penalty[:, m], excess, np.zeros(len(others)), base[np.newaxis])
    return float(found.fun) if found.success else None


def _findings(log: Log, groups: Sequence[Floats]) -> list[str]:
    """Warnings for the page, in addition to those from reading the log."""
    found = []
    if len(log.arms) == 1:
        found.append(f"there is one arm, {log.arms[0]!r}, so there is nothing to decide")
    for place, channel in enumerate(log.channels):
        row = log.outcomes[place]
        if len(log) > 1 and row.max() == row.min() and channel != "cost":
            found.append(f"{channel} is {row[0]:g} in every row")
    moved = []
    for name, rows in zip(log.arms, groups, strict=True):
        half = rows.shape[1] // 2
        if half < LEAST_HALF:
            continue
        one, two = rows[:, :half], rows[:, half:]
        spread = np.sqrt(one.var(axis=1) / one.shape[1] + two.var(axis=1) / two.shape[1])
        shift = np.abs(two.mean(axis=1) - one.mean(axis=1))
        for place in np.flatnonzero(shift > DRIFT * np.maximum(spread, 1e-300)).tolist():
            before, after = one[place].mean(), two[place].mean()
            what = f"{log.channels[place]} of {name!r}"
            moved.append(f"{what} from {before:.4g} to {after:.4g}")
    if moved:
        found.append(
            "means differ between the first and the second half of an arm's rows, so rows may "
            f"not be exchangeable: {listed([in_table(one) for one in moved], 6)}"
        )
    return found
