"""What a log says: arms, outcomes, how they go together, and which limits can be kept.

``profile(fitted)`` gives numbers, ``page`` a self-contained HTML page. Letters: K arms, C = 2 + M
outcomes, limits M.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tightrope.data.fitting import Fitted, rows_by_arm, scale_of
from tightrope.data.log import Log
from tightrope.errors import InfeasibleError
from tightrope.names import in_table, listed
from tightrope.optimum.pi_star import infeasible, oracle
from tightrope.problem import Moments, Problem
from tightrope.problem.limits import BASES
from tightrope.problem.mixtures import program
from tightrope.problem.values import Floats
from tightrope.statistics import Estimate, entries, estimate

__all__ = ["ArmProfile", "LimitProfile", "Profile", "profile"]

BINS = 24
DRIFT = 5.0  # standard errors between the halves of a log, from which a warning says so
LEAST_HALF = 30  # rows of an arm in each half that are compared
MOST_ARMS = 60  # arms that a page shows
MOST_CHANNELS = 8  # outcomes whose correlations a page shows


@dataclass(frozen=True)
class ArmProfile:
    """One arm: its rows, and for every outcome [C] its mean, largest value and histogram.

    ``correlations``: between pairs of outcomes within its rows, by "cost, reward"; None where one
    of them never varies. ``keeps``: whether it keeps every limit by itself, in the mean: "yes",
    "no", or "unclear" where its rows do not tell at 95 %.
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
    """One limit, in the user's units and in its own terms (per unit of cost, pull or reward).

    ``rates`` [K]: of each arm alone. ``lowest``: the lowest limit that some mixture of the arms can
    keep; ``lowest_together``: while it keeps the other limits too, None if it cannot. A limit in
    total has neither before its budget is known.
    """

    name: str
    limit: float
    words: str
    rates: tuple[float, ...]
    lowest: float | None
    lowest_arm: str | None
    lowest_together: float | None

    as_dict = entries


@dataclass(frozen=True)
class Profile:
    """What a log says; ``infeasible``: why no mixture of the arms keeps the limits, or None.

    ``reward_rate``: the most reward per unit of cost of a mixture that keeps the limits;
    ``shares``: the arms' shares of its pulls, [K]; None where there is none.
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

    def as_dict(self) -> dict[str, Any]:
        """The profile as JSON-ready entries."""
        shares = None if self.shares is None else list(self.shares)
        return entries(
            self,
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
    >>> found.arms[0].rows, round(found.limits[0].rates[0], 3), found.limits[0].lowest_arm
    (2, 0.5, 'b')
    """
    log, problem = fitted.log, fitted.problem
    scales = _scales(log, problem)
    groups = _groups(log)
    arms = tuple(
        _arm(log.arms[k], log.channels, rows, scales, _keeps(log, problem, k, rows))
        for k, rows in enumerate(groups)
    )
    reason = None if problem.depends_on_budget else infeasible(problem)
    best = None
    if reason is None and not problem.depends_on_budget:
        try:
            best = oracle(problem)
        except InfeasibleError as error:  # by less than rounding
            reason = str(error)
    return Profile(
        rows=len(log),
        channels=log.channels,
        scales=tuple(scales),
        arms=arms,
        limits=tuple(_limit(problem, m) for m in range(problem.penalty_count)),
        infeasible=reason,
        reward_rate=None if best is None else best.reward_rate,
        shares=None if best is None else tuple(best.pull_share.tolist()),
        warnings=(*fitted.warnings, *_findings(log, groups)),
    )


def _groups(log: Log) -> list[Floats]:
    """The outcomes of every arm's rows, in the order of the log: [K], each [C, n]."""
    return [log.outcomes.take(places, axis=1) for places in rows_by_arm(log)]


def _scales(log: Log, problem: Problem) -> list[float]:
    known = dict(zip(problem.stated.channels, problem.scales.channels, strict=True))
    tops = log.outcomes.max(axis=1).tolist()
    return [known.get(c, scale_of(top)) for c, top in zip(log.channels, tops, strict=True)]


def _keeps(log: Log, problem: Problem, k: int, rows: Floats) -> str:
    """Whether arm k keeps every limit alone; limits in total are not counted.

    It keeps a limit of c where the mean of y - c b is at most 0, with y the penalty of a row and b
    what the limit is per; that mean has a 95 % interval.
    """
    totals, worst = (rows[0], np.ones(rows.shape[1]), rows[1]), "yes"
    for m, limit in enumerate(problem.limit_kinds):
        if limit.total is not None:
            continue
        if limit.of is None:
            penalty = rows[list(log.channels).index(problem.limit_names[m])]
        else:
            penalty = BASES[limit.of].of(*totals) * limit.weights(problem.names)[k]
        excess = estimate(penalty - limit.number * limit.base(*totals))
        if excess.sign > 0:
            return "no"
        if excess.sign == 0 and excess.mean != 0.0:
            worst = "unclear"
    return worst


def _arm(
    name: str, channels: Sequence[str], rows: Floats, scales: Sequence[float], keeps: str
) -> ArmProfile:
    counts = tuple(
        tuple(np.histogram(row, bins=BINS, range=(0.0, max(scale, float(row.max()))))[0].tolist())
        for row, scale in zip(rows, scales, strict=True)
    )
    return ArmProfile(
        name=name,
        rows=rows.shape[1],
        means=tuple(estimate(row) for row in rows),
        largest=tuple(rows.max(axis=1).tolist()),
        histograms=counts,
        correlations=_correlations(channels, rows),
        keeps=keeps,
    )


def _correlations(channels: Sequence[str], rows: Floats) -> dict[str, float | None]:
    """The correlation of every pair of outcomes; None where one of them never varies."""
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


def _limit(problem: Problem, m: int) -> LimitProfile:
    limit, rates = problem.limit_kinds[m], problem.own_rates[:, m]
    facts = (problem.limit_names[m], float(limit.number), limit.words, tuple(rates.tolist()))
    if limit.total is not None:
        return LimitProfile(*facts, lowest=None, lowest_arm=None, lowest_together=None)
    lowest = float(rates.min())
    together: float | None = lowest
    if problem.penalty_count > 1:
        found = lowest_limit(problem.moments, m)
        unit = problem.scales.penalties[m] / float(problem.base_scales[m])
        together = None if found is None else found * unit
    return LimitProfile(*facts, lowest, problem.names[int(np.argmin(rates))], together)


def lowest_limit(moments: Moments, m: int) -> float | None:
    """The lowest rate of penalty m of a mixture that keeps the other limits, normalised, or None.

    The rate is sum_k p_k y_k / sum_k p_k b_k, with b what limit m is per. With z_k = p_k over the
    denominator it is a linear program: minimise sum z_k y_k, subject to sum z_k b_k = 1 and, for
    every other limit j, sum z_k (y_kj - c_j b_kj) <= 0. Limits in total are left out.
    """
    others = [j for j in range(len(moments.limits)) if j != m and np.isfinite(moments.limits[j])]
    base = moments.base[:, m]
    if not base.any():
        return None
    excess = (moments.penalty - moments.limits * moments.base)[:, others].T
    found = program(moments.penalty[:, m], excess, np.zeros(len(others)), base[np.newaxis])
    return float(found.fun) if found.success else None


def _findings(log: Log, groups: Sequence[Floats]) -> list[str]:
    """What is worth a warning on the page, beside what was said when the log was read."""
    found = []
    if len(log.arms) == 1:
        found.append(f"there is one arm, {log.arms[0]!r}, so that there is nothing to decide")
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
            "means differ between the first and the second half of an arm's rows, so that rows may"
            f" not be alike: {listed([in_table(one) for one in moved], 6)}"
        )
    return found
