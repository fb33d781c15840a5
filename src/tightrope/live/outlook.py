"""The end of a live run: proved bounds, projections, an estimate.

Results are in the user's units; computations are normalised. Letters: K arms, M limits.
``docs/promises.md`` has the proofs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tightrope.errors import InputError
from tightrope.live.remaining import UNKNOWN, Remaining, RemainingOpen, RemainingPerPull
from tightrope.policies.aim import Usual, aim_of, declared_usual
from tightrope.policies.guarded import GuardedResolve
from tightrope.policies.parts.guard import chance_allowed, rate_at_least, rate_at_most
from tightrope.policies.parts.watch import CHANGES, HEAD, NOTICED
from tightrope.problem.mixtures import conflict
from tightrope.problem.values import shown
from tightrope.showing import html_of, text_of

if TYPE_CHECKING:
    from tightrope.live.controller import Controller
    from tightrope.problem import Task

LEAST_DOUBT = 1e-300  # so that its parts are numbers above 0
LEAST_BUDGET = 1e-300  # normalised; costs may grow far above the budget
LEAST_COST = 1e-9  # in place of one that is 0
MOST_AHEAD = 1e290  # times what was pulled, so that sums are finite


class PromisedLimit(NamedTuple):
    """A limit, and a bound on the chance that it is broken at the end."""

    name: str
    chance: float
    promised: bool  # whether the requested risk is promised now
    broken: bool  # already


def promise_words(
    risk: float | None, limits: Sequence[PromisedLimit], aimed: bool = False
) -> str | None:
    """What remains of a requested risk; None without a risk and without a broken limit.

    ``aimed``: the policy aims at the risk and proves nothing.
    """
    broken = [one.name for one in limits if one.broken]
    if broken:
        return f"limit {broken[0]!r} is broken: its penalty is above what the whole budget allows"
    if risk is None or not limits:
        return None
    if aimed:
        return f"risk = {risk:g} is aimed at, not proved: no arm is declared safe"
    worst = max(limits, key=lambda one: (not one.promised, one.chance))
    state = "is promised" if worst.promised else "cannot be promised yet"
    bound = f"the chance to end above limit {worst.name!r} is at most {worst.chance:.2g}"
    return f"risk = {risk:g} {state}: {bound}"


def promise_of(controller: Controller) -> str | None:
    """What remains of a promise that relies on a safe arm; None if there is no such promise."""
    if not isinstance(controller.policy, GuardedResolve):
        return None
    guard, state, limits = controller._state.scratch.guard, controller._state.record, []
    for m, name in enumerate(controller.task.limit_names):
        chance = chance_allowed(guard, state, m) + float(guard.doubt[m])
        left, rest = state.remaining[0], state.remaining[1 + m]
        if state.bases[m]:  # per pull or reward: what counts is the slack at the end
            rest = rest - state.limits[m] * left if left < 0.0 else 0.0
        limits.append(PromisedLimit(name, min(chance, 1.0), bool(guard.made[m]), rest < -1e-9))
    return promise_words(controller.policy.risk, limits)


@dataclass(frozen=True)
class LimitOutlook:
    """Bounds and projections for one limit.

    ``chance``: a proved upper bound on the chance of ending above the limit with this policy; 1 if
    nothing can be proved. ``chance_if_safe``: the bound if only the outlook's ``safest`` arm is
    pulled from now on. ``rate``: the projected rate at the end, in the limit's unit, if the arms
    that can still be pulled keep their shares of the cost. ``low`` and ``high``: a proved interval
    for the rate at the end, whatever is pulled; it fails with at most the chance ``doubt``.
    ``least``: if the limit looks infeasible, the smallest limit that some arm may keep.
    ``estimate``: an estimate of the chance of ending above the limit, which is not proved (see
    ``live.estimate``), or None. ``expected``: the 5 %, 50 % and 95 % quantiles of the rate at the
    end in the same forward runs, or None.
    """

    name: str
    limit: float  # as it was given
    penalty: float  # so far
    chance: float
    chance_if_safe: float
    promised: bool  # whether the requested risk is promised now
    rate: float | None  # None before the first cost
    low: float
    high: float  # may be infinite
    broken: bool  # already
    infeasible: bool  # no mixture keeps this limit with the others, except for the doubt
    least: float | None = None
    estimate: float | None = None
    expected: tuple[float, float, float] | None = None

    @property
    def standing(self) -> str:
        """The state of the limit in one or two words."""
        if self.broken:
            return "broken"
        if self.promised:
            return "promised"
        if self.infeasible:
            return "looks infeasible"
        return "no bound yet" if self.chance >= 1.0 else "open"


@dataclass(frozen=True)
class Outlook:
    """Bounds and projections for the end of a run; see :class:`LimitOutlook` for each limit.

    ``doubt``: the largest chance that one of the bounds on rates is wrong. ``safest``: the arm
    whose penalty rates have the lowest upper bounds; with types of requests, that of each type.
    ``safe``: whether this arm, or a mixture, is known to keep every limit in the long run, for each
    type. ``reward`` and ``pulls_left``: projections if the arms that can still be pulled keep their
    shares of the cost; None before their first cost. What is ahead has no retired arms.
    ``changed``: arms that have changed, if the policy watches them (``watch``). ``refuted``:
    sentences about declarations that the reports refute, except for the doubt; no bound relies on
    them. ``forward``: the number of forward runs of the estimates. ``out_of_reach``: why the risk
    is out of reach.
    """

    budget: float
    spent: float
    pulls: int
    pulls_left: float | None
    reward: float | None  # at the end
    reward_so_far: float
    doubt: float
    risk: float | None  # requested
    safest: str
    safe: bool
    limits: tuple[LimitOutlook, ...]
    in_flight: int = 0
    changed: tuple[tuple[str, int], ...] = ()  # arms, and the pull at which the change was noticed
    refuted: tuple[str, ...] = ()
    forward: int = 0
    out_of_reach: str | None = None
    aimed: bool = False  # the policy aims at the risk and proves nothing

    @property
    def infeasible(self) -> tuple[str, ...]:
        """The names of limits that no mixture seems to keep together."""
        return tuple(one.name for one in self.limits if one.infeasible)

    @property
    def promise(self) -> str | None:
        """What remains of the requested risk, in one line; None if no risk was requested."""
        limits = [PromisedLimit(o.name, o.chance, o.promised, o.broken) for o in self.limits]
        return promise_words(self.risk, limits, self.aimed)

    def estimated(
        self,
        runs: int,
        shares: Sequence[float],
        rates: Sequence[tuple[float, float, float]],
    ) -> Outlook:
        """The same outlook with the results of forward runs; see ``live.estimate``."""
        limits = tuple(
            replace(one, estimate=share, expected=rate)
            for one, share, rate in zip(self.limits, shares, rates, strict=True)
        )
        return replace(self, limits=limits, forward=runs)

    def table(self) -> dict[str, Any]:
        """The outlook as a JSON object, with infinite numbers as they are."""
        limits = [{**asdict(one), "standing": one.standing} for one in self.limits]
        return {**asdict(self), "limits": limits, "facts": self.facts()}

    def facts(self) -> list[str]:
        """The outlook in sentences, without the limits."""
        left = "" if self.pulls_left is None else f", about {self.pulls_left:,.0f} left"
        told = [f"spent {self.spent:,.6g} of {self.budget:,.6g} in {self.pulls:,} pulls{left}"]
        if self.in_flight:
            told.append(f"{self.in_flight:,} pulls in flight, not included below")
        told += [f"arm {arm!r} has changed since pull {at:,}" for arm, at in self.changed]
        told += self.refuted
        if self.reward is not None:
            told.append(f"reward {self.reward_so_far:,.6g}, projected {self.reward:,.6g}")
        if self.limits:
            known = "is known to keep every limit" if self.safe else "is not known to be safe yet"
            told.append(f"safest arm {self.safest!r} {known}")
        if self.infeasible:
            told.append(f"no mixture of the arms keeps {self._lost()} (doubt: {self.doubt:.2g})")
        if self.risk is not None and not all(one.promised for one in self.limits):
            told.append(str(self.promise))
        if self.forward:
            told.append(f"estimated from {self.forward} forward runs of the policy; not proved")
        if self.out_of_reach:
            told.append(self.out_of_reach)
        return told

    def _lost(self) -> str:
        """The limits that look infeasible, with what would be needed."""
        lost = [one for one in self.limits if one.infeasible]
        return " and ".join(
            one.name if one.least is None else f"{one.name} (at least {one.least:.4g} is needed)"
            for one in lost
        )

    def __str__(self) -> str:
        return text_of(self)

    _repr_html_ = html_of


def outlook_of(controller: Controller, doubt: float = 0.01) -> Outlook:
    """The outlook of a controller; see :meth:`Controller.outlook`."""
    if (
        isinstance(doubt, bool)
        or not isinstance(doubt, int | float)
        or not LEAST_DOUBT <= doubt < 1
    ):
        allowed = f"a number between {LEAST_DOUBT:g} and 1"
        raise InputError(f"doubt = {shown(doubt)}: must be {allowed}")
    task, state = controller.rows.at(controller.budget), controller._state
    pulled = np.asarray(state["totals"], float)
    totals = pulled[:, 1 : 3 + task.penalty_count]
    amounts = pulled[:, [kind.unit.pick(1, 0, 2) for kind in task.limit_kinds]]  # of the bases
    low, high, refuted = _rates(task, totals, amounts, doubt)
    limits, used = task.normal_limits, float(state.run.spent[0])
    budget = max(controller.budget / task.scales.cost, LEAST_BUDGET)
    gone = sorted(controller._beside.retired)
    kinds = [np.setdiff1d(rows, gone) for rows in controller.rows_by_type]
    own = np.concatenate(kinds)
    ahead = _ahead(np.delete(pulled, gone, axis=0), used - pulled[gone, 1].sum(), budget - used)
    safest, costs = _safest(task, high, totals, kinds), task.normal_known[:, 0]
    largest = 1.0 if costs.min() < 0.0 else max(float(costs.max()), LEAST_COST)
    rows = []
    lost = _impossible(task, low[own])
    for m in range(task.penalty_count):
        rest = Remaining(budget, budget - used, float(limits[m]), float(totals[:, 2 + m].sum()))
        if not task.limit_kinds[m].per_cost:
            kind = task.limit_kinds[m].unit.pick(RemainingOpen, RemainingPerPull, RemainingOpen)
            rest = kind(*rest[:4], float(amounts[:, m].sum()), largest)
        ranges = tuple(
            float(one) for one in (low[own, m].min(), high[own, m].max(), high[safest, m].max())
        )
        sure = not any(m == one for _, one in refuted)
        base = task.limit_kinds[m].unit.pick(1, 0, 2)
        more = None if ahead is None else (ahead[3 + m], ahead[base])
        rows.append(
            _row(controller, m, rest, ranges, doubt / task.penalty_count, lost[m], sure, more)
        )
    reward = float(totals[:, 1].sum()) * task.scales.reward
    risk = getattr(controller.policy, "risk", None)
    return Outlook(
        budget=controller.budget,
        spent=controller.spent,
        pulls=sum(controller.pulls),
        pulls_left=None if ahead is None else ahead[0],
        reward=None if ahead is None else reward + ahead[2] * task.scales.reward,
        reward_so_far=reward,
        doubt=doubt,
        risk=risk,
        safest=controller.row_names(safest),
        safe=all(_keeps_all(task, high[rows]) for rows in kinds),
        limits=tuple(rows),
        in_flight=sum(controller.in_flight),
        changed=_changed(controller),
        refuted=tuple(_refuted_words(controller, low, *one) for one in refuted),
        out_of_reach=_out_of_reach(controller, totals),
        aimed=risk is not None and not isinstance(controller.policy, GuardedResolve),
    )


def _ahead(pulled: Any, used: float, left: float) -> list[float] | None:
    """The sums that are ahead if the arms of these sums keep their shares; None without a cost."""
    sums = pulled.sum(axis=0).tolist()
    if sums[1] <= 0.0 or used <= 0.0:
        return None
    more = min(max(left, 0.0) / float(used), MOST_AHEAD)
    return [one * more for one in sums]


def _out_of_reach(controller: Controller, totals: Any) -> str | None:
    """Why the risk is out of reach, given the outcomes so far; None if it is not."""
    task, policy = controller.rows, controller.policy
    if getattr(policy, "risk", None) is None:
        return None
    cost, reward, sizes = declared_usual(task)
    squares = np.asarray(controller._state.record.squares).reshape(task.arm_count, -1).sum(axis=0)
    sums, pulls = totals.sum(axis=0).tolist(), sum(controller.pulls)
    usual = Usual(
        cost=(cost + sums[0]) / (1 + pulls),
        reward=(reward + sums[1]) / (1 + pulls),
        sizes=[
            squares[2 + m] / sums[2 + m] if sums[2 + m] else sizes[m] for m in range(len(sizes))
        ],
    )
    aim = aim_of(policy, task, controller.budget / task.scales.cost, usual)
    return None if aim is None else str(aim)


def _refuted_words(controller: Controller, low: Any, arm: int, m: int) -> str:
    """A sentence on a declaration about an arm and a limit that the reports refute."""
    task = controller.rows
    what = "smallest_cost" if arm != task.safe_arm else "that it is safe"
    least = float(low[arm, m]) * rate_unit(controller, m)
    return (
        f"the reports of arm {controller.row_names([arm])!r} refute {what}: its rate of"
        f" {task.limit_names[m]} is at least {least:.4g}"
    )


def rate_unit(controller: Controller, m: int) -> float:
    """The user's unit of limit m's rate."""
    task = controller.rows
    unit = task.scales.penalties[m] / float(task.base_scales[m])
    return unit * task.limit_kinds[m].spread(controller.budget)


def _changed(controller: Controller) -> tuple[tuple[str, int], ...]:
    """The arms that changed while they were watched."""
    state = controller._state
    if not state.setup.watch:
        return ()
    heads = state["history"].reshape(controller.rows.arm_count, -1)[:, :HEAD]
    return tuple(
        (controller.row_names([row]), int(heads[row, NOTICED]))
        for row in np.flatnonzero(heads[:, CHANGES]).tolist()
    )


def _rates(
    task: Task, totals: Any, amounts: Any, doubt: float
) -> tuple[Any, Any, list[tuple[int, int]]]:
    """Bounds on every arm's penalty rates, [K, M] each, all true except for half of ``doubt``.

    Rates are in the limit's unit; the bounds only need that its base lies in [0, 1]. Also returns
    the arms and limits whose declarations the reports refute; no bound relies on those.
    """
    arms, limited = task.arm_count, task.penalty_count
    each = doubt / (4.0 * arms * max(limited, 1))
    smallest = task.normal_smallest_cost  # 0 if an arm is free
    cost = 1.0 / smallest if smallest else UNKNOWN
    most = [min(kind.unit.pick(cost, 1.0, UNKNOWN), UNKNOWN) for kind in task.limit_kinds]
    low, high = np.zeros((arms, limited)), np.tile(most, (arms, 1)).reshape(arms, limited)
    refuted: list[tuple[int, int]] = []
    for arm in np.flatnonzero(totals.any(axis=1)).tolist():
        for m in range(limited):
            base = task.limit_kinds[m].unit.pick(0.0, 1.0, -1.0)
            seen = base, float(amounts[arm, m]), float(totals[arm, 2 + m])
            low[arm, m] = min(rate_at_least(*seen, each), UNKNOWN)
            if low[arm, m] > high[arm, m]:
                refuted.append((arm, m))
                high[arm, m] = UNKNOWN
            high[arm, m] = max(rate_at_most(*seen, each, high[arm, m]), low[arm, m])
    if task.safe_arm is not None:
        declared = np.fmin(task.normal_safe_rates, task.known_safe_rates)
        for m, rate in enumerate(declared.tolist()):
            if low[task.safe_arm, m] <= rate:
                high[task.safe_arm, m] = min(high[task.safe_arm, m], rate)
            elif (task.safe_arm, m) not in refuted:
                refuted.append((task.safe_arm, m))
    return low, high, refuted


def _safest(task: Task, high: Any, totals: Any, kinds: Sequence[Any]) -> list[int]:
    """Of each type the row with the lowest upper bound on its largest rate, over the limit."""
    most = (high / task.normal_limits).max(axis=1) if task.penalty_count else -totals[:, 0]
    return [int(rows[np.argmin(most[rows])]) for rows in kinds]


def _impossible(task: Task, rates: Any) -> Sequence[bool]:
    """The limits that no mixture of arms with these rates keeps with the others, [M].

    Limits with different bases are checked one by one.
    """
    limits = task.normal_limits
    if not len(limits):
        return []
    if not _alike(task):
        return [bool(one) for one in rates.min(axis=0) > limits]
    found = conflict(np.minimum(rates, UNKNOWN), limits)
    if found.excess <= 1.0:
        return [False] * len(limits)
    return [bool(price > 0.0) for price in found.prices]


def _keeps_all(task: Task, high: Any) -> bool:
    """Whether an arm of at most these rates, or a mixture, keeps every limit."""
    limits = task.normal_limits
    if not len(limits) or bool(np.any(np.all(high <= limits, axis=1))):
        return True
    return _alike(task) and not any(_impossible(task, high))


def _alike(task: Task) -> bool:
    """Whether all limits have the same base."""
    return len({kind.unit.channel for kind in task.limit_kinds}) == 1


def _row(
    controller: Controller,
    m: int,
    rest: Remaining,
    ranges: tuple[float, ...],
    doubt: float,
    infeasible: bool,
    sure: bool,
    ahead: tuple[float, float] | None,
) -> LimitOutlook:
    """Limit m; ``ranges``: the lowest and the highest rate of an arm, the highest of the safest.

    ``sure``: whether the reports refute no declaration, which the guard relies on. ``ahead``: the
    penalty and the base that are projected.
    """
    task, unit = controller.rows, rate_unit(controller, m)
    lowest, highest, safest = ranges
    chance, if_safe = rest.chance(highest) + 0.5 * doubt, rest.chance(safest) + 0.5 * doubt
    promised = False
    if rest.over or rest.broken:
        chance = if_safe = float(rest.broken)
    elif sure and isinstance(controller.policy, GuardedResolve):
        guard = controller._state.scratch.guard
        chance = chance_allowed(guard, controller._state.record, m) + float(guard.doubt[m])
        promised = bool(guard.made[m])
    rate = None if ahead is None else rest.projected(*ahead)
    return LimitOutlook(
        name=task.limit_names[m],
        limit=task.limit_values[m],
        penalty=rest.penalty * task.scales.penalties[m],
        chance=min(float(chance), 1.0),
        chance_if_safe=min(if_safe, 1.0),
        promised=promised,
        rate=None if rate is None else rate * unit,
        low=rest.least(lowest, 0.25 * doubt) * unit,
        high=rest.most(highest, 0.25 * doubt) * unit,
        broken=rest.broken,
        infeasible=infeasible,
        least=lowest * unit if infeasible and lowest > rest.limit else None,
    )
