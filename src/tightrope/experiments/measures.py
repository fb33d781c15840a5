"""Checks of claims: each function reads the evidence and returns a measurement and a verdict.

It returns None if the evidence lacks a policy or a problem that the claim is about.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from operator import attrgetter
from typing import Any

import numpy as np

from tightrope.experiments.base import Evidence
from tightrope.experiments.fits import FEWEST, Fit, power_law, slope_weights
from tightrope.experiments.tracks import Track, tracks
from tightrope.policies import LyOff, LyOn, Policy, Stationary
from tightrope.report.verdicts import FAILS, HOLDS, UNKNOWN
from tightrope.results import Floats
from tightrope.statistics import Estimate, estimate, standard_error
from tightrope.theory.formulas import (
    constants,
    printed_offline_threshold,
    printed_online_threshold,
)

__all__ = ["Measured", "Wanted"]

Quantity = Callable[[Track], Floats]  # [G, R] of a track
MANY = 3.5  # standard errors that chance alone hardly reaches in a hundred comparisons
TOLERANCE = 0.02  # of an exponent: at finite budgets the line is slightly curved
CLOSE = 0.1  # half an exponent's interval must be below this for a verdict
NEGLIGIBLE = 0.1  # slopes against sqrt(B) below this count as 0; the orders in question are units

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
    """From which budget on a violation is clearly negative."""
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
    """Whether regret grows at most like sqrt(K), where it is positive."""
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


def price_of_learning(evidence: Evidence, known: Wanted, learned: Wanted) -> Measured | None:
    """LyOn's regret / LyOff's regret, compared with sqrt(K log B)."""
    one, other = known.one(evidence), learned.one(evidence)
    if one is None or other is None or one.budgets[-1] != other.budgets[-1]:
        return None
    budget, arms = float(one.budgets[-1]), one.problem.arm_count
    mine, theirs = estimate(one.regret[-1]), estimate(other.regret[-1])
    allowed = float(np.sqrt(arms * np.log(budget)))
    ratio = theirs.mean / mine.mean
    reach = abs(ratio) * float(np.hypot(mine.reach / mine.mean, theirs.reach / theirs.mean))
    text = (
        f"regret at B = {budget:,.0f}: LyOff {_number(mine)}, LyOn {_number(theirs)}, a"
        f" factor of {ratio:.2f} ± {reach:.2f}; √(K log B) is {allowed:.2f}"
    )
    verdict = UNKNOWN if mine.sign < 1 or reach > allowed else HOLDS if ratio <= allowed else FAILS
    return Measured(text, f"factor {ratio:.2f} ± {reach:.2f} of {allowed:.2f}", verdict)


def bounded(evidence: Evidence, what: str) -> Measured | None:
    """Whether pi*'s regret, or its violation times B, is O(1): no growth against sqrt(B)."""
    track = Wanted(Stationary).one(evidence)
    if track is None or len(track.budgets) < FEWEST:
        return None
    values = track.regret if what == "regret" else track.violation * track.budgets[:, None]
    slope = _slope(np.sqrt(track.budgets), values)
    last = estimate(values[-1])
    text = (
        f"{what} {_number(last)} at B = {track.budgets[-1]:,.0f}; its slope against √B is"
        f" {_number(slope)}"
    )
    clear = slope.reach < NEGLIGIBLE
    verdict = FAILS if slope.sign > 0 else HOLDS if clear else UNKNOWN
    return Measured(text, f"slope in √B: {_number(slope)}", verdict)


def _slope(x: Floats, values: Floats) -> Estimate:
    """The slope of the weighted line through the means; its error is from each run's slope."""
    return estimate(slope_weights(x, np.maximum(values.std(axis=1), 1e-12)) @ values)


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
    """l* at each budget, as printed: lemma:drift-bound-offline, lemma:drift-bound."""
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
    if not 0.0 < value.reach < np.inf:
        return f"{value.mean:+,.4g}".replace("-", "−")
    decimals = int(np.clip(1 - np.floor(np.log10(value.reach)), 0, 6))
    return f"{value.mean:+,.{decimals}f} ± {value.reach:,.{decimals}f}".replace("-", "−")


def _signed(value: float) -> str:
    return f"{value:g}".replace("-", "−")


def _arms(track: Track, shown: bool = True) -> str:
    return f"K = {track.problem.arm_count}: " if shown else ""
