"""The oracle: the best stationary randomized policy pi*, and the limits' multipliers.

A stationary policy that spends the share w_k of its cost on arm k earns sum_k w_k r_k and incurs
sum_k w_k y_km per unit of cost, so pi* solves a linear program over the simplex (the paper's
linear-fractional program, with the shares of *pulls* replaced by shares of *cost*):

    maximise sum_k w_k r_k   subject to   sum_k w_k y_km <= c_m,   w >= 0,   sum_k w_k = 1.

The pull shares follow: p_k is proportional to w_k / E[X_k]. The multiplier of limit m is the
additional reward per unit of additional penalty m. ``problem.mixtures`` solves the program.

If the arms change, no single mixture is best. Given the cost v_j spent in each phase j, the best
mixtures of all phases solve one program together, because the limits hold only for the totals
(``best_phases``):

    maximise sum_jk v_j w_jk r_jk   subject to   sum_jk v_j w_jk y_jkm <= a_m,   sum_k w_jk = 1.

If requests have types, pi* is a mixture for each type (``problem.mixtures_by_type``). The shares of
arms are then sums over the types.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace

import numpy as np
import numpy.typing as npt

from tightrope.callers import also_called, warn_caller
from tightrope.errors import CoarseGridWarning, InfeasibleError, ProblemError, nearest
from tightrope.optimum.numbers import RefinedGrid
from tightrope.optimum.requests import BOUNDS, PolicyMixture, best_of_requests
from tightrope.problem import Moments, Problem, Space, require_unchanging
from tightrope.problem.mixtures import (
    INFEASIBLE,
    ROUNDING,
    ZERO,
    BestMixture,
    program,
)
from tightrope.problem.mixtures_by_type import careful_rates
from tightrope.problem.ready import as_problem
from tightrope.problem.spaces import Value
from tightrope.problem.values import Floats
from tightrope.showing import html_of

PHASES_SHOWN = 2  # most phases named in a message
HALVINGS = 50  # of an interval, until its ends agree
COARSE = 0.1  # of the best reward of a grid's points: what it may miss before it is too coarse


@dataclass(frozen=True, eq=False)
class Oracle:
    """pi*, in the user's units. K arms, M penalties.

    ``reward_rate``: per unit of cost; ``penalty_rate`` [M]: in each limit's own unit.
    ``multiplier`` [M]: reward per unit of penalty; 0 if the limit does not bind. ``pull_share`` [K]
    and ``cost_share`` [K] sum to 1.
    ``arm_names`` [K] and ``limit_names`` [M] are the problem's. If requests have T types,
    ``by_type`` [T, K] has the pull shares for each type, which sum to 1; ``type_names`` [T].
    Over an interval or a box, ``numbers`` has the share of pulls of each number of the mixture, and
    ``numbers_by_type`` those for each type. A number between the points counts for the nearest one
    in the shares [K]. ``error`` is by how much a mixture of other numbers may exceed
    ``reward_rate``; see ``oracle``.
    If requests have features, ``bound`` names the upper bound: "clairvoyant", "linear" or "blind".

    >>> from tightrope import oracle, ready_problem
    >>> best = oracle(ready_problem("paper"))
    >>> round(best.reward_rate, 6), best.cost_share.round(6).tolist()
    (1.3, [0.3, 0.7])
    """

    reward_rate: float
    penalty_rate: tuple[float, ...]
    multiplier: tuple[float, ...]
    pull_share: Floats
    cost_share: Floats
    arm_names: Sequence[str]
    limit_names: tuple[str, ...]
    by_type: Floats | None = field(default=None, repr=False)
    type_names: tuple[str, ...] = field(default=(), repr=False)
    error: float | None = field(default=None, repr=False)
    bound: str = field(default="", repr=False)
    numbers: Mapping[Value, float] = field(default_factory=dict, repr=False)
    numbers_by_type: Mapping[str, Mapping[Value, float]] = field(default_factory=dict, repr=False)

    def __repr__(self) -> str:
        """Over an interval or a box, the numbers of the mixture stand for the shares of points."""
        numbers = ("numbers", "error") if self.numbers else ()
        points = ("pull_share", "cost_share", "arm_names") if numbers else ()
        names = [one.name for one in fields(self) if one.repr and one.name not in points]
        return (
            f"Oracle({', '.join(f'{name}={getattr(self, name)!r}' for name in (*names, *numbers))})"
        )

    @property
    def shares_by_type(self) -> dict[str, list[float]]:
        """The pull shares of each type by its name; empty if requests have no types."""
        shares = [] if self.by_type is None else self.by_type.tolist()
        return dict(zip(self.type_names, shares, strict=True))

    _repr_html_ = html_of


@dataclass(frozen=True, eq=False)
class PhaseMixtures:
    """A mixture of the K arms by cost in each of J phases: ``shares`` [J, K], each row sums to 1.

    ``reward``: their total reward. ``multiplier`` [M]: additional reward per unit of each penalty.
    """

    reward: float
    shares: Floats
    multiplier: Floats


@also_called("budgets", "budget")
def oracle(
    problem: str | Problem, budget: float | None = None, *, bound: str | None = None
) -> Oracle:
    """The best stationary policy of a problem; InfeasibleError if no mixture keeps the limits.

    A text names a ready problem or a file. ProblemError if the arms change; then use the oracle of
    each of ``problem.phases``. ``budget`` is needed only for limits in total. With contexts, the
    policy sees the type of each request.

    Over an interval or a box, the mixture is one of any numbers: the grid is refined where another
    number may be better (``optimum.numbers``). ``error`` bounds what is missed, if the curves are
    smooth but for kinks and jumps. Where nothing says what holds between the points, as in a table,
    the mixture is one of the points. ``optimum`` and policies use the points alone: a
    ``CoarseGridWarning`` says if these may miss more than a tenth of their best reward rate.

    If requests have features, ``bound`` says what the policy knows of a row: "clairvoyant", every
    arm's outcome (default); "linear", what linear models of the features expect; "blind", nothing.

    >>> from tightrope import oracle, ready_problem
    >>> best = oracle(ready_problem("paper"))
    >>> best.pull_share.round(4).tolist(), [round(value, 6) for value in best.multiplier]
    ([0.3913, 0.6087], [1.0])
    """
    problem = as_problem(problem)
    if problem.features is not None:
        return _with_features(at_budget(problem, budget), bound or BOUNDS[0])
    if bound is not None:
        raise ProblemError(f"bound = {bound!r}: must be None for a problem without features")
    if problem.space is None:
        return oracle_of_arms(problem, budget)
    there, merged = at_budget(problem, budget).distinct
    points = best_arms(there)
    known = RefinedGrid(there, problem.space)
    mixture, error = known.best()
    unit = problem.scales.reward / problem.scales.cost
    if known.curves or not problem.row_count:  # the noise of rows is no bend
        _warn_coarse(problem.space, points.reward * unit, (mixture.reward + error) * unit)
    best = replace(_in_units(there, mixture, known.moments), error=error * unit)
    return _typed(problem, _on_grid(best, problem.space, known), merged)


def oracle_of_arms(problem: Problem, budget: float | None = None) -> Oracle:
    """As ``oracle``; over an interval or a box, of the points of its grid."""
    if problem.features is not None:
        return oracle(problem, budget)
    there, merged = at_budget(problem, budget).distinct
    return _typed(problem, _in_units(there, best_arms(there)), merged)


def _typed(problem: Problem, best: Oracle, merged: Sequence[int]) -> Oracle:
    """The oracle of merged types, for all types."""
    if problem.contexts is None:
        return best
    names = tuple(problem.shares)
    by_type = best.pull_share[np.newaxis] if best.by_type is None else best.by_type
    each = list(best.numbers_by_type.values()) or [best.numbers]
    numbers = (
        {name: each[at] for name, at in zip(names, merged, strict=True)} if best.numbers else {}
    )
    return replace(best, by_type=by_type[merged], type_names=names, numbers_by_type=numbers)


def _on_grid(best: Oracle, space: Space, known: RefinedGrid) -> Oracle:
    """The oracle of known points as one of the grid's, with the numbers of the mixture."""

    def fold(shares: Floats) -> Floats:
        return np.bincount(known.nearest, shares, len(space)).astype(np.float64)

    def numbers(shares: Floats) -> dict[Value, float]:
        order = sorted(np.flatnonzero(shares).tolist(), key=known.points.__getitem__)
        return {space.as_value(known.points[k]): float(shares[k]) for k in order}

    by_type, each = best.by_type, {}
    if by_type is not None:
        each = dict(zip(best.type_names, map(numbers, by_type), strict=True))
        by_type = np.array(list(map(fold, by_type)))
    return replace(
        best,
        pull_share=_fixed(fold(best.pull_share)),
        cost_share=_fixed(fold(best.cost_share)),
        by_type=by_type,
        numbers=numbers(best.pull_share),
        numbers_by_type=each,
    )


def _with_features(problem: Problem, bound: str) -> Oracle:
    """The upper bound of this name."""
    if bound not in BOUNDS:
        raise ProblemError(f"bound = {bound!r} is unknown; {nearest(bound, BOUNDS)}")
    if bound == "blind":
        return replace(oracle(problem.blind), bound=bound)
    policies, best = best_of_requests(problem, bound)
    if best is None:
        raise InfeasibleError(_why_no_request(problem))
    moments, arms, pulls = policies.moments, problem.arm_count, np.zeros(problem.arm_count)
    cost, penalty, base = np.zeros(arms), np.zeros(len(moments.limits)), 0.0
    for member, weight in zip(best.members.tolist(), best.weights.tolist(), strict=True):
        chosen, each = policies.chosen[member], weight / policies.cost[member]
        spent = moments.cost.reshape(-1, arms)[np.arange(len(chosen)), chosen]
        pulls += each * np.bincount(chosen, minlength=arms) / len(chosen)
        cost += each * np.bincount(chosen, spent, arms) / len(chosen)
        penalty += each * policies.over(chosen, moments.penalty)
        base = base + each * policies.over(chosen, moments.base)
    scales, units = problem.scales, np.array(problem.scales.penalties)
    with np.errstate(all="ignore"):
        rates = penalty / base * units / problem.base_scales
    return Oracle(
        reward_rate=best.reward * scales.reward / scales.cost,
        penalty_rate=tuple(rates.tolist()),
        multiplier=tuple((best.multiplier * scales.reward / units).tolist()),
        pull_share=_fixed(pulls / pulls.sum()),
        cost_share=_fixed(cost / cost.sum()),
        arm_names=problem.names,
        limit_names=problem.limit_names,
        bound=bound,
    )


def _why_no_request(problem: Problem) -> str:
    """One line that names the limits that no policy keeps, even if it knows each row."""
    names = limit_names(problem, range(problem.penalty_count))
    return (
        f"{names}: must be such that some policy keeps them; no policy does, even if it knows the"
        " outcomes of every row"
    )


def _warn_coarse(space: Space, best: float, most: float) -> None:
    """Warn if the points may miss much of the best reward."""
    if most - best > COARSE * best:
        text = f"points = {space.points}: numbers between the points may earn {most:.3g}; the best"
        text += f" rate of the points is {best:.3g}, so {space!r} needs more points"
        warn_caller(text, CoarseGridWarning)


def at_budget(problem: Problem, budget: float | None) -> Problem:
    """The problem at a budget, if given; ProblemError if a limit in total needs one."""
    if budget is not None:
        problem.normal_budget(budget)
        return problem.at(float(budget))
    for m, limit in enumerate(problem.limit_kinds):
        if limit.total is not None:
            allowed = "come with a budget, which it is spread over"
            raise ProblemError(f"{problem.limit_text(m)}: must {allowed}")
    return problem


def oracle_of_phases(problem: Problem) -> list[Oracle]:
    """The best mixture in each phase of a problem whose arms change, for large budgets.

    The limits hold for the whole budget, so one phase may exceed them if another stays below; all
    phases have the same multipliers. InfeasibleError if no mixtures keep the limits.
    """
    best = best_phases(problem, [phase.share for phase in problem.phases])
    if best is None:
        raise InfeasibleError(_why_phases_infeasible(problem))
    return [
        _of_shares(phase.problem, shares, best.multiplier, phase.problem.row_moments)
        for phase, shares in zip(problem.phases, best.shares, strict=True)
    ]


def _in_units(problem: Problem, best: BestMixture, moments: Moments | None = None) -> Oracle:
    """An oracle in the user's units; ``moments``: of the rows, by default those of the arms."""
    moments = moments or problem.row_moments
    cost_share = np.zeros(len(moments.cost))
    cost_share[best.members] = best.weights
    return _of_shares(problem, cost_share, best.multiplier, moments)


def _of_shares(
    problem: Problem, cost_share: Floats, multiplier: Floats, moments: Moments
) -> Oracle:
    """An oracle in the user's units, from rows' shares of cost and normalised prices [M]."""
    per_cost = cost_share / moments.cost
    types = max(len(problem.shares), 1)
    pulls, costs = (x.reshape(types, -1) for x in (per_cost / per_cost.sum(), cost_share))
    by_type = None if problem.contexts is None else pulls / pulls.sum(axis=1, keepdims=True)
    with np.errstate(all="ignore"):
        penalty_rate = (per_cost @ moments.penalty) / (per_cost @ moments.base)
    reward_rate = float(cost_share @ moments.reward_rate)
    cost_unit, reward_unit = problem.scales.cost, problem.scales.reward
    penalty_unit = np.array(problem.scales.penalties)
    return Oracle(
        reward_rate=reward_rate * reward_unit / cost_unit,
        penalty_rate=tuple((penalty_rate * penalty_unit / problem.base_scales).tolist()),
        multiplier=tuple((multiplier * reward_unit / penalty_unit).tolist()),
        pull_share=_fixed(pulls.sum(axis=0)),
        cost_share=_fixed(costs.sum(axis=0)),
        arm_names=problem.names,
        limit_names=problem.limit_names,
        by_type=by_type,
        type_names=tuple(problem.shares),
    )


def _fixed(values: Floats) -> Floats:
    values.flags.writeable = False
    return values


def best_arms(problem: Problem) -> BestMixture:
    """pi* as a mixture of the rows by cost, in normalised units; raises like ``oracle``.

    A row is an arm or, with contexts, ``type * K + arm``.
    """
    if problem.changes:
        require_unchanging(
            problem,
            "oracle: the best stationary policy is defined for",
            instead="; use optimum(problem, budget), or oracle(phase.problem) for each of"
            " problem.phases",
        )
    mixture = problem.row_moments.best()
    if mixture is None:
        raise InfeasibleError(_why_infeasible(problem))
    return mixture


def infeasible(problem: Problem) -> str | None:
    """Why no mixture of the arms keeps the limits, in one line; None if some mixture does.

    The line names the limits and the lowest rates that a mixture can reach. If the arms change, it
    is about all phases together, and about each phase that cannot keep the limits by itself.

    >>> from tightrope.problem.ready import ready_problem
    >>> infeasible(ready_problem("paper")) is None
    True
    """
    if not problem.penalty_count:
        return None
    if problem.changes:
        kept = best_phases(problem, [phase.share for phase in problem.phases])
        return None if kept else _why_phases_infeasible(problem)
    if problem.features is not None and not _kept(problem.moments):
        policies = PolicyMixture(problem.request_moments)
        return None if policies.keeps_limits() else _why_no_request(problem)
    there, _ = problem.distinct
    return None if _kept(there.row_moments) else _why_infeasible(there)


def _kept(moments: Moments) -> bool:
    """Whether some mixture keeps the limits."""
    if moments.shares is not None:
        return moments.best() is not None
    if np.any(np.all(moments.penalty_rate <= moments.limits * (1.0 + ROUNDING), axis=1)):
        return True
    return len(moments.limits) > 1 and moments.conflict().excess <= 1.0


def _why_phases_infeasible(problem: Problem) -> str:
    """Same as ``infeasible``, for a problem whose arms change and whose limits cannot be kept."""
    least, prices = least_excess(problem, [phase.share for phase in problem.phases])
    names = limit_names(problem, np.flatnonzero(prices))
    reasons = [
        f"phase {number}, from {phase.start:g} of the budget on: {reason}"
        for number, phase in enumerate(problem.phases, start=1)
        if (reason := infeasible(phase.problem))
    ]
    if len(reasons) > PHASES_SHOWN:
        reasons[PHASES_SHOWN:] = [f"and {len(reasons) - PHASES_SHOWN} more phases"]
    return "; ".join(
        [
            f"{names}: must be such that some mixture of the arms keeps them over all phases;"
            f" the least possible is {least:.6g} times the limits",
            *reasons,
        ]
    )


def _why_infeasible(problem: Problem) -> str:
    """One line that names the limits that cannot be kept and the least violating arm."""
    found, factor = problem.row_moments.conflict(), least_factor(problem)
    blamed, arm = np.flatnonzero(found.prices), found.nearest
    least = " and ".join(f"{problem.limits[m] * factor:.6g}" for m in blamed)
    if problem.contexts is not None:
        return (
            f"{limit_names(problem, blamed)}: must be at least {least}, the lowest penalty"
            f" rate{'s' * (len(blamed) > 1)} that a mixture of the arms for each type can reach"
        )
    if len(blamed) == 1:
        arm = int(np.argmin(problem.own_rates[:, blamed[0]]))
    rates = problem.own_rates[arm][blamed]
    which = limit_names(problem, blamed)
    if len(blamed) == 1:
        return (
            f"{which}: must be at least {rates[0]:.6g}, the penalty rate of the least violating"
            f" arm {problem.names[arm]!r}"
        )
    return (
        f"{which}: must be kept together by some mixture of the arms; the least that a mixture"
        f" can reach is {least}; the least violating arm {problem.names[arm]!r} has penalty rates"
        f" {' and '.join(f'{r:.6g}' for r in rates)}"
    )


def least_factor(problem: Problem) -> float:
    """The smallest s such that some mixture keeps s times every limit.

    For limits per unit of cost it is the least excess; for others it is found by bisection.
    """
    moments = problem.distinct[0].row_moments
    if moments.per_cost.all():
        return moments.conflict().excess
    shares = np.ones(1) if moments.shares is None else moments.shares
    rates = careful_rates(moments.penalty / moments.limits, moments.base, shares)
    low, high = 0.0, float(rates.max())
    several = len(moments.limits) * len(shares) > 1
    for _ in range(HALVINGS if several and high > 0.0 else 0):
        middle = 0.5 * (low + high)
        kept = replace(moments, limits=moments.limits * middle).conflict().excess <= 1.0
        low, high = (low, middle) if kept else (middle, high)
    return high


def limit_names(problem: Problem, which: Iterable[int]) -> str:
    """The limits by name and value, for a message."""
    return " and ".join(problem.limit_text(m) for m in which)


def best_phases(
    problem: Problem, spent: npt.ArrayLike, allowance: npt.ArrayLike | None = None
) -> PhaseMixtures | None:
    """The best mixtures of a problem's phases, in normalised units; None if the limits fail.

    ``spent`` [J]: the cost in each phase, not all 0. ``allowance`` [M]: the largest total of each
    penalty, positive; by default the limits times the cost.
    """
    reward, relative, phases, allowed = _in_phases(problem, spent, allowance)
    size = float(np.abs(reward).max()) or 1.0
    result = program(-reward / size, relative, np.ones(len(relative)), phases)
    if result.status == INFEASIBLE:
        return None
    shares = np.maximum(np.asarray(result.x, dtype=np.float64), 0.0).reshape(len(phases), -1)
    shares[shares < ZERO] = 0.0
    shares /= shares.sum(axis=1, keepdims=True)
    prices = np.maximum(-np.asarray(result.ineqlin.marginals, dtype=np.float64), 0.0)
    return PhaseMixtures(float(reward @ shares.ravel()), shares, prices * size / allowed)


def least_excess(
    problem: Problem, spent: npt.ArrayLike, allowance: npt.ArrayLike | None = None
) -> tuple[float, Floats]:
    """The smallest possible value, over mixtures, of the largest total penalty / allowance.

    Arguments as for ``best_phases``. It is above 1 if no mixture keeps the limits; 1 minus it is
    the slack. Also returns the prices [M] of the penalties, nonzero for those to blame.
    """
    reward, relative, phases, allowed = _in_phases(problem, spent, allowance)
    objective = np.append(np.zeros_like(reward), 1.0)
    columns = np.column_stack([relative, -np.ones(len(relative))])
    mass = np.column_stack([phases, np.zeros(len(phases))])
    result = program(objective, columns, np.zeros(len(relative)), mass)
    if not result.success:  # badly scaled numbers: take one arm per phase
        worst = relative.max(axis=0).reshape(len(phases), -1)
        arms = worst.argmin(axis=1) + np.arange(len(phases)) * worst.shape[1]
        total = relative[:, arms].sum(axis=1)
        return float(total.max()), (total == total.max()) / allowed
    prices = -np.asarray(result.ineqlin.marginals, dtype=np.float64)
    prices[prices < ZERO] = 0.0
    return float(result.fun), prices / allowed


def _in_phases(
    problem: Problem, spent: npt.ArrayLike, allowance: npt.ArrayLike | None
) -> tuple[Floats, Floats, Floats, Floats]:
    """The linear program over N = J K shares, ordered by phase.

    Returns each share's reward [N], its penalties relative to the allowance [M, N], whether it
    belongs to each phase [J, N], and the allowance [M].
    """
    costs = np.asarray(spent, dtype=np.float64)
    allowed = problem.moments.limits * costs.sum() if allowance is None else allowance
    allowed = np.asarray(allowed, dtype=np.float64)
    moments = [phase.problem.moments for phase in problem.phases]
    weights = np.repeat(costs, problem.arm_count)
    reward = np.concatenate([one.reward_rate for one in moments]) * weights
    penalty = np.concatenate([one.penalty_rate for one in moments]) * weights[:, np.newaxis]
    phases = np.repeat(np.eye(len(costs)), problem.arm_count, axis=1)
    return reward, (penalty / allowed).T, phases, allowed
