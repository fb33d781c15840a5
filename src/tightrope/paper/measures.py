"""Checks of claims: each function reads the evidence and returns a measurement and a verdict.

It returns None if the evidence lacks a policy or a problem that the claim is about.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product
from operator import attrgetter
from typing import Any

import numpy as np

from tightrope.formats import with_reach
from tightrope.optimum.exact import cost_of_a_run, optimum
from tightrope.paper.base import Evidence
from tightrope.paper.fits import FEWEST, Fit, power_law
from tightrope.paper.tracks import Track, tracks
from tightrope.policies import LyOff, LyOn, Policy, Stationary
from tightrope.problem.values import Floats
from tightrope.report.verdicts import FAILS, HOLDS, UNKNOWN
from tightrope.statistics import Estimate, estimate, standard_error
from tightrope.theory.formulas import (
    TheoryConstants,
    constants,
    lyoff_regret,
    lyoff_schedule,
    lyon_regret,
    lyon_schedule,
    printed_offline_threshold,
    printed_online_threshold,
)

Quantity = Callable[[Track], Floats]  # [G, R] of a track
MANY = 3.5  # standard errors that chance alone does not reach in a hundred comparisons
TOLERANCE = 0.02  # of an exponent: finite budgets bend the line a little
CLOSE = 0.1  # half of an interval that is informative about an exponent
EXACT = 1e-8  # relative: OPT(B) is exact to 1e-9
LARGE = (1e12, 1e24, 1e48)  # budgets at which the theorems' lower-order terms are gone

reward_gap: Quantity = attrgetter("reward_gap")
share_gap: Quantity = attrgetter("share_gap")
violation: Quantity = attrgetter("violation")
regret: Quantity = attrgetter("regret")


@dataclass(frozen=True)
class Measured:
    """A measurement, as a long and a short text, and the verdict."""

    text: str
    short: str
    verdict: str


@dataclass(frozen=True)
class Wanted:
    """Policies of a kind with some parameters."""

    kind: type[Policy]
    parameters: tuple[tuple[str, Any], ...] = ()

    def all(self, evidence: Evidence) -> list[Track]:
        """The matching tracks of the evidence, at the budgets that the theorems cover."""
        found = tracks(evidence, self.kind, **dict(self.parameters))
        return [track.where(track.inside) for track in found if track.inside.any()]

    def one(self, evidence: Evidence) -> Track | None:
        """The first matching track, or None."""
        return next(iter(self.all(evidence)), None)


def converges(evidence: Evidence, wanted: Wanted, quantity: Quantity) -> Measured | None:
    """Whether the quantity approaches 0 as the budget grows."""
    track = wanted.one(evidence)
    if track is None:
        return None
    used, proviso = _with_choice(track)
    values = quantity(used)
    fit = power_law(used.budgets, values)
    last = _number(estimate(values[-1]))
    short = f"{last} at the largest B; " + (f"B^({fit})" if fit else "no clear trend")
    return Measured(f"{_ends(used, values)}; {_power(fit)}{proviso}", short, _falls(fit))


def order(
    evidence: Evidence,
    wanted: Wanted,
    quantity: Quantity,
    claimed: float,
    *,
    at_most: bool = True,
    log: float = 0.0,
) -> Measured | None:
    """Whether the quantity is of order (B log^log B)^claimed: at most that, or at least."""
    track = wanted.one(evidence)
    if track is None:
        return None
    used, proviso = _with_choice(track)
    values = quantity(used)
    fit = power_law(used.budgets * np.log(used.budgets) ** log, values)
    base = {0.0: "B", 1.0: "(B log B)", -1.0: "(B / log B)"}[log]
    text = f"{_ends(used, values)}; {_power(fit, base)}, claimed {_signed(claimed)}{proviso}"
    short = f"{base}^({fit}), claimed {_signed(claimed)}" if fit else "no clear trend"
    return Measured(text, short, _reaches(fit, claimed, at_most))


def _reaches(fit: Fit | None, claimed: float, at_most: bool) -> str:
    """Whether an exponent is at most (or at least) the claimed one, as a verdict."""
    if fit is None:
        return UNKNOWN
    excess = fit.exponent - claimed if at_most else claimed - fit.exponent
    if excess > fit.reach + TOLERANCE:
        return FAILS
    return HOLDS if excess < -fit.reach or fit.reach <= CLOSE else UNKNOWN


def nearly_linear(evidence: Evidence, wanted: Wanted) -> Measured | None:
    """Whether the violation is O~(1/B): 1/B times any power of log B.

    Over a range of budgets log^p(B) / B falls like B^(p / log B - 1), so an exponent between -1
    and 0 does not decide; 0 or more refutes, -1 or less confirms.
    """
    track = wanted.one(evidence)
    if track is None:
        return None
    fit = power_law(track.budgets, track.violation)
    text = f"{_ends(track, track.violation)}; {_power(fit)}"
    if fit is None:
        return Measured(text, "no clear trend", UNKNOWN)
    verdict = FAILS if fit.low >= 0.0 else _reaches(fit, -1.0, True)
    logs = power_law(np.log(track.budgets), track.violation * track.budgets[:, None])
    if verdict != FAILS or fit.low >= 0.0 or logs is None:
        return Measured(text, f"B^({fit})", verdict)
    power = f"{logs.exponent:.1f}"
    text += f". log^p(B) / B with p = {power} falls as fast here. {_would_settle(track)}"
    return Measured(text, f"B^({fit}), as log^{power}(B) / B falls", UNKNOWN)


def _would_settle(track: Track) -> str:
    """LyOn's violation at larger budgets, if it is O~(1/B) and if it is not."""
    last = float(track.budgets[-1])
    limit = float(track.best.multiplier[0] * track.v[-1] / last - track.delta[-1])
    text = (
        f"What would settle it: budgets up to the square of these, {last**2:.1e}. There the"
        " exponent is half as far from −1 if the claim is true."
    )
    if limit <= 0.0:
        return text
    factor = float(track.violation[-1].mean()) / limit
    return text + (
        " If instead the queue settles at V × multiplier, the violation tends to V × multiplier /"
        f" B − δ, which is of order √(log B / B). At B = {last:,.0f} that is {limit:.4f}; measured"
        f" is {factor:.2f} times as much, and this factor would tend to 1"
    )


def _with_choice(track: Track) -> tuple[Track, str]:
    """The track at budgets where some arm keeps the tightened limit, if enough for a fit."""
    if track.feasible.all() or track.feasible.sum() < FEWEST:
        return track, ""
    first = track.budgets[track.feasible][0]
    return track.where(track.feasible), f" (from {first:,.0f} on, where some arm keeps c − δ)"


def negative(evidence: Evidence, wanted: Wanted) -> Measured | None:
    """Whether the violation is below 0 at the largest budgets, for all problems."""
    found = wanted.all(evidence)
    if not found:
        return None
    signs = [[estimate(values).sign for values in track.violation] for track in found]
    last = [estimate(track.violation[-1]) for track in found]
    many = len(found) > 1
    texts = [
        f"{_arms(track, many)}{_number(one)} at B = {track.budgets[-1]:,.0f}, {_below(track, s)}"
        for track, one, s in zip(found, last, signs, strict=True)
    ]
    verdict = _all([-s[-1] for s in signs])
    largest = max(last, key=lambda one: one.mean)
    return Measured("; ".join(texts), f"{_number(largest)} at the largest B", verdict)


def _below(track: Track, signs: Sequence[int]) -> str:
    """The budget from which a violation is clearly negative."""
    others = [g for g, sign in enumerate(signs) if sign >= 0]
    first = others[-1] + 1 if others else 0
    if first == len(signs):
        return "not clearly below 0"
    return f"below 0 from B = {track.budgets[first]:,.0f} on"


def grows_with_arms(evidence: Evidence, wanted: Wanted, quantity: Quantity) -> Measured | None:
    """Whether a quantity grows with the number of arms at the smallest budget."""
    found = sorted(wanted.all(evidence), key=lambda track: track.problem.arm_count)
    if len(found) < 2:
        return None
    values = [quantity(track)[0] for track in found]
    # The run numbers are the same, but the arms differ: treat them as independent, to be safe.
    steps = [_difference(one, other) for one, other in pairwise(map(estimate, values))]
    listed = ", ".join(
        f"{_number(estimate(v))} (K = {track.problem.arm_count})"
        for track, v in zip(found, values, strict=True)
    )
    text = f"at B = {found[0].budgets[0]:,.0f}: {listed}"
    short = f"{values[0].mean():+.3f} to {values[-1].mean():+.3f}".replace("-", "−")
    return Measured(text, short, _all([step.sign for step in steps]))


def _difference(one: Estimate, other: Estimate) -> Estimate:
    """The difference of two means, treated as independent."""
    step = other.mean - one.mean
    if one.error is None or other.error is None:
        return Estimate(step)
    return Estimate(step, float(np.hypot(one.error, other.error)))


def converges_for_all(evidence: Evidence, wanted: Wanted, quantity: Quantity) -> Measured | None:
    """Whether the quantity approaches 0 as the budget grows, for every number of arms."""
    found = wanted.all(evidence)
    if not found:
        return None
    found = [_with_choice(track)[0] for track in found]
    fits = [power_law(track.budgets, quantity(track)) for track in found]
    texts = [
        f"{_arms(track)}{_number(estimate(quantity(track)[-1]))}, {_power(fit)}"
        for track, fit in zip(found, fits, strict=True)
    ]
    verdicts = [_falls(fit) for fit in fits]
    verdict = FAILS if FAILS in verdicts else UNKNOWN if UNKNOWN in verdicts else HOLDS
    largest = max((quantity(track)[-1].mean() for track in found), key=abs)
    text = f"at B = {found[0].budgets[-1]:,.0f}: {'; '.join(texts)}"
    return Measured(text, f"{largest:+.3f} at most at the largest B".replace("-", "−"), verdict)


def arms_order(evidence: Evidence, wanted: Wanted) -> Measured | None:
    """Whether regret grows at most like sqrt(K), if it is positive."""
    found = sorted(wanted.all(evidence), key=lambda track: track.problem.arm_count)
    if len(found) < 2:
        return None
    counts = np.array([float(track.problem.arm_count) for track in found])
    values = np.stack([track.regret[-1] for track in found])
    listed = ", ".join(
        f"{_number(estimate(v))} (K = {k:.0f})" for k, v in zip(counts, values, strict=True)
    )
    text = f"regret at B = {found[0].budgets[-1]:,.0f}: {listed}"
    if (values.mean(axis=1) <= 0.0).any() or found[0].arms_alike:
        text += f". {ALIKE}"
        return Measured(text, "regret mirrors the violation", UNKNOWN)
    fit = power_law(counts, values)
    return Measured(f"{text}; {_power(fit, 'K')}", f"K^({fit})", _reaches(fit, 0.5, True))


ALIKE = (
    "All arms here have the same reward minus priced penalty, so under every policy regret is the"
    " violation with the opposite sign: it does not show the cost of learning"
)


def negative_regret(evidence: Evidence, wanted: Wanted) -> Measured | None:
    """Regret where the limit is broken, with the Lagrangian regret beside it."""
    track = wanted.one(evidence)
    if track is None:
        return None
    plain, priced = estimate(track.regret[-1]), estimate(track.lagrangian_regret[-1])
    fit = power_law(track.budgets, track.regret)
    text = f"regret {_ends(track, track.regret)}; {_power(fit)}. "
    text += "Lagrangian regret (regret + multiplier × violation × B) there: "
    text += f"{_number(priced)}"
    short = f"{_number(plain)}; Lagrangian {_number(priced)}"
    if plain.mean < 0.0 and track.arms_alike:
        text += f". Regret is negative because the limit is broken. {ALIKE}"
        return Measured(text, short, UNKNOWN)
    fit = power_law(track.budgets, track.lagrangian_regret)
    return Measured(text, short, _reaches(fit, 0.5, True))


def bound_of_learning(evidence: Evidence, known: Wanted, learned: Wanted) -> Measured | None:
    """LyOn's regret bound compared with LyOff's times sqrt(K log B): computed, not simulated.

    For the problem's K and for a hundred times as many arms with the same constants.
    """
    one, other = known.one(evidence), learned.one(evidence)
    if one is None or other is None or one.budgets[-1] != other.budgets[-1]:
        return None
    found = constants(one.problem)
    counts = found.arm_count, 100 * found.arm_count
    rows = [
        [_bound_ratio(replace(found, arm_count=count), budget, other.policy) for budget in LARGE]
        for count in counts
    ]
    starts = rows[0][0], min(rows[0][0], rows[1][0])
    grows = any(
        ratio > (1.0 + TOLERANCE) * start
        for start, row in zip(starts, rows, strict=True)
        for ratio in row
    )
    listed = "; ".join(
        f"K = {count}: {', '.join(f'{ratio:.2f}' for ratio in row)}"
        for count, row in zip(counts, rows, strict=True)
    )
    mine, theirs = estimate(one.regret[-1]), estimate(other.regret[-1])
    text = (
        "the corrected bounds' ratio divided by √(K log B), at B ="
        f" {', '.join(f'{budget:.0e}' for budget in LARGE)}: {listed}."
        f" {'It grows' if grows else 'It does not grow: the order is right, with this constant'}."
        f" The claim says nothing of the regrets themselves: at B = {one.budgets[-1]:,.0f} they are"
        f" {_number(mine)} (LyOff) and {_number(theirs)} (LyOn)"
    )
    largest = max(max(row) for row in rows)
    short = f"ratio of the bounds at most {largest:.1f} √(K log B)"
    return Measured(text, short, FAILS if grows else HOLDS)


def _bound_ratio(known: TheoryConstants, budget: float, learner: Any) -> float:
    """LyOn's regret bound over LyOff's, with a learner's parameters, in units of sqrt(K log B)."""
    v0, delta0 = learner.v0, learner.delta0
    online = lyon_regret(known, budget, *lyon_schedule(budget, v0, delta0), learner.alpha)
    offline = lyoff_regret(known, budget, *lyoff_schedule(budget, v0, delta0))
    return online / offline / float(np.sqrt(known.arm_count * np.log(budget)))


def exact_gap(evidence: Evidence, what: str) -> Measured | None:
    """pi*'s regret, or its violation times B, computed exactly against the constant of its proof.

    By Wald's identity pi* earns r(p*) E[cost of a run] and incurs y(p*) E[cost]; OPT(B) is
    computed. If a run's cost is not known exactly, it lies between B and B + the largest cost.
    """
    track = Wanted(Stationary, (("shares", None),)).one(evidence)
    if track is None:
        return None
    problem, best = track.problem, track.best
    spent = np.array([cost_of_a_run(problem, float(budget)) for budget in track.budgets])
    if what == "regret":
        most = np.array([optimum(problem, float(budget)) for budget in track.budgets])
        ends, constant = most[:, None] - best.reward_rate * spent[:, ::-1], best.reward_rate
    else:
        allowed = problem.limits[0] * track.budgets
        ends, constant = best.penalty_rate[0] * spent - allowed[:, None], problem.limits[0]
        most = allowed
    constant *= problem.scales.cost
    slack = EXACT * most
    low, high = float(ends[:, 0].min()), float(ends[:, 1].max())
    same = high - low <= float(slack.max())
    shown = f"{high:+.4g}" if same else f"between {low:+.4g} and {high:+.4g}"
    shown = shown.replace("-", "−")
    text = (
        f"computed exactly: {what} is {shown} at all {len(track.budgets)} budgets from"
        f" {track.budgets[0]:,.0f} to {track.budgets[-1]:,.0f}; at most {constant:.4g} is proved"
        " for every budget"
    )
    above = ends > (constant + slack)[:, None]
    verdict = FAILS if above[:, 0].any() else UNKNOWN if above[:, 1].any() else HOLDS
    return Measured(text, f"exactly {shown}" if same else shown, verdict)


def queue(evidence: Evidence, wanted: Wanted) -> Measured | None:
    """The largest queue against l* and log N, and its excess over the multiplier's share of V."""
    track = wanted.one(evidence)
    if track is None:
        return None
    threshold, log_pulls = _threshold(track), np.log(track.pulls)
    ratio = track.queue_max / (threshold + log_pulls)[:, None]
    fit = power_law(track.budgets, ratio)
    excess = track.queue_max - (track.best.multiplier[0] * track.v)[:, None]
    above = power_law(log_pulls, excess)
    text = (
        f"mean of the largest queue {estimate(track.queue_max[-1]).mean:,.1f} at B ="
        f" {track.budgets[-1]:,.0f}, where l* = {threshold[-1]:,.0f} and log N ="
        f" {log_pulls[-1]:.1f}; the ratio to l* + log N is {ratio[0].mean():.3f} at B ="
        f" {track.budgets[0]:,.0f} and {ratio[-1].mean():.3f} there, {_power(fit)}. The excess over"
        f" V × multiplier, {excess[-1].mean():,.1f}, is {_power(above, '(log N)')}"
    )
    inside = bool((ratio.mean(axis=1) < 1.0).all())
    verdict = HOLDS if inside and fit and fit.low <= TOLERANCE else UNKNOWN if inside else FAILS
    return Measured(text, f"at most {ratio.mean(axis=1).max():.2f} (l* + log N)", verdict)


def _threshold(track: Track) -> Floats:
    """l* at each budget, as printed in Lemma 3 and Lemma 6."""
    known, offline = constants(track.problem), isinstance(track.policy, LyOff)
    printed = printed_offline_threshold if offline else printed_online_threshold
    return np.array([printed(known, float(v)) for v in track.v])


def monotone(
    evidence: Evidence, kind: type[LyOff | LyOn], parameter: str, direction: int
) -> Measured | None:
    """Whether reward and violation are monotone in a parameter, all others fixed."""
    found = Wanted(kind).all(evidence)
    pairs = [
        (one, other)
        for one, other in product(found, found)
        if _next(one.policy, other.policy, parameter, [track.policy for track in found])
    ]
    if not pairs:
        return None
    scores = [
        direction * score
        for (one, other), quantity in product(pairs, (reward_gap, violation))
        for score in _scores(quantity(one), quantity(other), one, other)
    ]
    agree, against = sum(s > MANY for s in scores), sum(s < -MANY for s in scores)
    text = (
        f"{agree} of {len(scores)} comparisons of neighbours in {parameter} (reward and violation,"
        f" every budget, same random numbers) agree by more than {MANY} standard errors, {against}"
        f" contradict, {len(scores) - agree - against} are too close to tell"
    )
    verdict = FAILS if against else HOLDS if agree > len(scores) / 2 else UNKNOWN
    return Measured(text, f"{agree} of {len(scores)} agree, {against} contradict", verdict)


def _next(one: Any, other: Any, parameter: str, policies: Sequence[Any]) -> bool:
    """Whether ``other`` has the next larger value of the parameter and is otherwise the same."""
    held = "delta0" if parameter == "v0" else "v0"
    low, high = getattr(one, parameter), getattr(other, parameter)
    between = [low < getattr(p, parameter) < high for p in policies]
    return low < high and getattr(one, held) == getattr(other, held) and not any(between)


def _scores(before: Floats, after: Floats, one: Track, other: Track) -> list[float]:
    """Paired differences at the common budgets, in standard errors."""
    common = np.intersect1d(one.budgets, other.budgets)
    chosen = [np.isin(track.budgets, common) for track in (one, other)]
    steps = after[chosen[1]] - before[chosen[0]]
    if steps.shape[1] < 2:
        return [0.0] * len(steps)
    error = np.maximum(standard_error(steps), 1e-300)
    return [float(z) for z in steps.mean(axis=1) / error]


def as_printed(evidence: Evidence) -> Measured | None:
    """The violation with the index as printed, compared with the proof's index."""
    printed = Wanted(LyOn, (("penalty_bonus", "as-printed"),)).one(evidence)
    proof = Wanted(LyOn, (("penalty_bonus", "optimistic"),)).one(evidence)
    if printed is None or proof is None:
        return None
    one, other = estimate(printed.violation[-1]), estimate(proof.violation[-1])
    step = _difference(other, one)
    text = (
        f"violation at B = {printed.budgets[-1]:,.0f}: {_number(one)} with the penalty's bonus"
        f" added, as printed; {_number(other)} with it subtracted, as in the proof"
    )
    verdict = {1: FAILS, 0: UNKNOWN, -1: HOLDS}[step.sign]
    return Measured(text, f"{_number(one)}, in the proof's form {_number(other)}", verdict)


def _falls(fit: Fit | None) -> str:
    if fit is None or fit.low < 0.0 < fit.high:
        return UNKNOWN
    return HOLDS if fit.high <= 0.0 else FAILS


def _all(signs: Sequence[int]) -> str:
    """The verdict: holds if every sign is 1, fails if one is -1."""
    if any(sign < 0 for sign in signs):
        return FAILS
    return HOLDS if all(sign > 0 for sign in signs) else UNKNOWN


def _ends(track: Track, values: Floats) -> str:
    first, last = _number(estimate(values[0])), _number(estimate(values[-1]))
    return f"{first} at B = {track.budgets[0]:,.0f}, {last} at B = {track.budgets[-1]:,.0f}"


def _power(fit: Fit | None, base: str = "B") -> str:
    if fit is None:
        return "too few points clear of 0 for a fit"
    return f"like {base}^({fit}) over {fit.points} points"


def _number(value: Estimate) -> str:
    """An estimate as text, with as many decimals as its interval justifies."""
    return with_reach(value.mean, value.reach, "+").replace("-", "−")


def _signed(value: float) -> str:
    return f"{value:g}".replace("-", "−")


def _arms(track: Track, shown: bool = True) -> str:
    return f"K = {track.problem.arm_count}: " if shown else ""
