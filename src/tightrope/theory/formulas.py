"""The paper's constants and bounds as functions, with every constant written out.

All numbers are normalised (outcomes in [0, 1], one penalty); only ``bounds`` uses the user's units.
Each function cites a result of the paper. If a proof in the paper does not hold, the function
computes a statement that does hold, and ``printed_...`` computes the paper's own, for comparison;
``docs/theory.md`` gives the corrected proofs. Most of them use two facts. N(B) is a stopping time
and the last pull costs at most 1, so B < E[S_N] <= B + 1 under any policy. And a sum up to N(B)
must not be replaced by one up to n_0(B) >= N(B): the terms in between can have either sign.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from tightrope.theory.problem_constants import TheoryConstants, constants

__all__ = [
    "Drift",
    "TheoryConstants",
    "beta0",
    "confidence_failure",
    "constants",
    "exploration_pulls",
    "lyoff_delta0",
    "lyoff_regret",
    "lyoff_schedule",
    "lyoff_violation",
    "lyon_delta0",
    "lyon_regret",
    "lyon_schedule",
    "lyon_violation",
    "most_pulls",
    "offline_drift",
    "online_drift",
    "optimality_gap",
    "optimality_gap_violation",
    "printed_delta0",
    "printed_lyoff_regret",
    "printed_lyoff_violation",
    "printed_lyon_regret",
    "printed_lyon_violation",
    "printed_offline_threshold",
    "printed_online_threshold",
    "printed_optimality_gap",
    "printed_regret_decomposition",
    "printed_violation_decomposition",
    "queue_max",
    "queue_mean",
    "regret_decomposition",
    "renewal_tail",
    "renewal_tail_sum",
    "stationary_total",
    "violation_decomposition",
]

SHARES = np.linspace(0.01, 0.99, 99)  # shares of the drift's slack that queue_mean tries


# --- pulls, and stationary policies ---------------------------------------------------------


def most_pulls(known: TheoryConstants, budget: float) -> int:
    """n_0(B) = ceil(2 B / mu_min): a run makes more pulls only with small probability."""
    return math.ceil(2.0 * budget / known.mu_min)


def renewal_tail(known: TheoryConstants, budget: float, pulls: int) -> float:
    """Upper bound on P(N(B) > pulls), for any policy (Proposition 3); 1 below n_0(B)."""
    if pulls < most_pulls(known, budget):
        return 1.0
    return math.exp(-pulls * known.mu_min**2 / 8.0)  # eqn:renewal-concentration


def renewal_tail_sum(known: TheoryConstants, budget: float) -> float:
    """Upper bound on E[(N(B) - n_0(B))^+]: the tails from n_0(B) on (proof of Proposition 1)."""
    first = renewal_tail(known, budget, most_pulls(known, budget))
    return first / -math.expm1(-(known.mu_min**2) / 8.0)


def stationary_total(budget: float, rate: float) -> tuple[float, float]:
    """Bounds on a stationary policy's total reward, or penalty, at this rate (Proposition 4)."""
    return rate * budget, rate * (budget + 1.0)


def optimality_gap(known: TheoryConstants) -> float:
    """Upper bound on OPT(B) minus the reward of pi*, at any budget (Proposition 1)."""
    return known.reward_rate


def printed_optimality_gap(known: TheoryConstants, budget: float) -> float:
    """The constants of the paper's proof; c', the sensitivity, is the limit's multiplier."""
    tail = 8.0 * math.exp(-budget * known.mu_min / 4.0) / known.mu_min**2
    return known.multiplier * tail / known.mu_min + known.r_max * (1.0 + tail)


def optimality_gap_violation(known: TheoryConstants, budget: float) -> float:
    """Upper bound on pi*'s violation (Proposition 1)."""
    return known.limit / budget


# --- decompositions -----------------------------------------------------------------------


def regret_decomposition(known: TheoryConstants, budget: float, reward_rate: float) -> float:
    """Upper bound on OPT(B), and so pi*'s reward, minus a policy's reward (Lemma 1).

    ``reward_rate``: the policy's E[reward] / E[cost], both up to N(B).
    """
    gap = known.reward_rate - reward_rate
    return gap * (budget + 1.0 if gap > 0.0 else budget) + known.reward_rate


def printed_regret_decomposition(known: TheoryConstants, budget: float, rate: float) -> float:
    """The lemma as printed: ``rate`` is taken over the first n_0(B) pulls. Not true in general."""
    return (known.reward_rate - rate) * 2.0 * budget / known.mu_min + printed_regret_rest(
        known, budget
    )


def violation_decomposition(known: TheoryConstants, budget: float, penalty_rate: float) -> float:
    """Upper bound on a policy's violation (Lemma 2); the rate is up to N(B)."""
    return penalty_rate * (1.0 + 1.0 / budget) - known.limit


def printed_violation_decomposition(known: TheoryConstants, budget: float, rate: float) -> float:
    """The lemma as printed: ``rate`` is taken over the first n_0(B) pulls. Not true in general."""
    return (rate - known.limit) * 2.0 / known.mu_min + printed_violation_rest(known, budget)


def printed_regret_rest(known: TheoryConstants, budget: float) -> float:
    tail = 8.0 * math.exp(-budget * known.mu_min / 4.0)
    return known.r_max / known.mu_min**2 * (1.0 + tail)


def printed_violation_rest(known: TheoryConstants, budget: float) -> float:
    tail = 8.0 * math.exp(-budget * known.mu_min / 4.0) / known.mu_min**2
    return ((known.y_max - known.limit) * tail + 1.0) / budget


# --- the queue ----------------------------------------------------------------------------


class Drift(NamedTuple):
    """Above ``threshold``, the queue falls by at least ``rate`` per pull in expectation.

    Its steps lie in an interval of length ``span``; none is above 1.
    """

    threshold: float
    rate: float
    span: float


def printed_offline_threshold(known: TheoryConstants, v: float) -> float:
    """l* = V r_max / epsilon of Lemma 3."""
    return v * known.r_max / known.epsilon


def printed_online_threshold(known: TheoryConstants, v: float) -> float:
    """l* = 2 V r_max / epsilon + V (1 + r_max) / (1 + y_max) of Lemma 6."""
    extra = (1.0 + known.r_max) / (1.0 + known.y_max)
    return 2.0 * v * known.r_max / known.epsilon + v * extra


def offline_drift(known: TheoryConstants, v: float, delta: float, share: float) -> Drift | None:
    """LyOff's drift (Lemma 3), for any ``share`` in (0, 1).

    The arm that LyOff picks has y - c + delta <= -(epsilon - delta) + V r_max / Q: at the printed
    l* that is not below 0. None if delta >= epsilon, since the queue need not fall then.
    """
    return _drift(known, v * known.r_max, known.epsilon - delta, delta, share)


def online_drift(known: TheoryConstants, v: float, delta: float, share: float) -> Drift | None:
    """LyOn's drift while its confidence bounds hold (Lemma 6), after beta0's exploration.

    The confidence bounds use up half of epsilon, so it is None if delta >= epsilon / 2.
    """
    half = known.epsilon / 2.0
    weight = known.r_max + half * (1.0 + known.r_max) / (1.0 + known.y_max)
    return _drift(known, v * weight, half - delta, delta, share)


def _drift(
    known: TheoryConstants, weight: float, slack: float, delta: float, share: float
) -> Drift | None:
    if slack <= 0.0:
        return None
    down = known.limit - delta  # the largest step down; a queue above it is not cut off at 0
    threshold = max(weight / ((1.0 - share) * slack), down)
    return Drift(threshold, share * known.mu_min * slack, 1.0 + down)


DriftOf = Callable[[TheoryConstants, float, float, float], Drift | None]


def queue_mean(known: TheoryConstants, drift_of: DriftOf, v: float, delta: float) -> float:
    """Upper bound on E[Q_n] at any n (proof of Proposition 2), by Hajek's Theorem 2.3.

    The best share is taken.
    P(Q_n >= z) <= exp(-eta z) + exp(eta (l + 1 - z)) / (1 - rho). The paper leaves eta open; here
    Hoeffding's lemma gives eta = 4 rate / span^2 and rho = exp(-2 rate^2 / span^2).
    """
    drifts = [drift_of(known, v, delta, float(share)) for share in SHARES]
    return min((_hajek(drift) for drift in drifts if drift), default=math.inf)


def _hajek(drift: Drift) -> float:
    eta = 4.0 * drift.rate / drift.span**2
    stay = -math.expm1(-2.0 * (drift.rate / drift.span) ** 2)
    factor = math.exp(-eta * drift.threshold) + math.exp(eta) / stay
    return drift.threshold + (1.0 + math.log(factor)) / eta


def queue_max(
    known: TheoryConstants, drift_of: DriftOf, v: float, delta: float, budget: float
) -> float:
    """Upper bound on E[max of Q_n up to the end of the run] (Lemma 7).

    Above l, exp(eta Q) is a supermartingale for eta = 8 rate / span^2. An excursion starts below
    l + 1 and there are at most n_0 of them, so P(max >= z) <= n_0 exp(-eta (z - l - 1)).
    """
    pulls = most_pulls(known, budget)
    drifts = [drift_of(known, v, delta, float(share)) for share in SHARES]
    reach = (1.0 + math.log(pulls)) / 8.0
    peaks = [d.threshold + 1.0 + reach * d.span**2 / d.rate for d in drifts if d]
    return min(peaks, default=math.inf) + renewal_tail_sum(known, budget)


# --- LyOff --------------------------------------------------------------------------------


def lyoff_schedule(budget: float, v0: float, delta0: float) -> tuple[float, float]:
    """V = v0 sqrt(B) and delta = delta0 / sqrt(B) (Proposition 2)."""
    return v0 * math.sqrt(budget), delta0 / math.sqrt(budget)


def lyoff_delta0(known: TheoryConstants, budget: float, v0: float) -> tuple[float, float]:
    """The range of delta0 for which the corrected proof of Proposition 2 gives a violation below 0.

    Above the lower end, delta B exceeds l* of Lemma 3, to first order the bound on the queue; below
    the upper end, delta < epsilon at this budget. A sufficient condition.
    """
    return v0 * known.r_max / known.epsilon, known.epsilon * math.sqrt(budget)


def printed_delta0(known: TheoryConstants, budget: float, v0: float) -> tuple[float, float]:
    """The range of delta0 that Proposition 2 and Theorem 1 both print.

    In Theorem 1 its upper end lets delta reach c sqrt(log B), but the theorem requires delta < c.
    """
    return v0 * known.r_max / known.epsilon, known.limit * math.sqrt(budget)


def lyoff_regret(known: TheoryConstants, budget: float, v: float, delta: float) -> float:
    """Upper bound on LyOff's regret (Proposition 2, corrected)."""
    queue = queue_max(known, offline_drift, v, delta, budget)
    return known.reward_rate + _drift_regret(known, budget, v, delta, queue)


def lyoff_violation(known: TheoryConstants, budget: float, v: float, delta: float) -> float:
    """Upper bound on LyOff's violation (Proposition 2, corrected)."""
    queue = queue_max(known, offline_drift, v, delta, budget)
    return (queue + known.limit - delta) / budget - delta


def printed_lyoff_regret(known: TheoryConstants, budget: float, v: float, delta: float) -> float:
    """The proof of Proposition 2 as printed, with E[Q_n] from ``queue_mean``, and pi*'s gap."""
    queue = queue_mean(known, offline_drift, v, delta)
    drift = budget * (2.0 * _lyapunov(known, delta)) / (2.0 * v * known.mu_min**2)
    waiting = delta * most_pulls(known, budget) * queue / (v * known.mu_min) if delta else 0.0
    gap = printed_optimality_gap(known, budget)
    return drift + waiting + printed_regret_rest(known, budget) + gap


def printed_lyoff_violation(known: TheoryConstants, budget: float, v: float, delta: float) -> float:
    """The same proof as printed, with E[Q_n] from ``queue_mean``. Not true in general."""
    queue = queue_mean(known, offline_drift, v, delta)
    left = queue / budget - 2.0 * delta
    return left / known.mu_min + printed_violation_rest(known, budget)


def _lyapunov(known: TheoryConstants, delta: float) -> float:
    """The constant of Lemma 4: half of E[(Y - (c - delta) X)^2], at most."""
    return (known.variance + delta**2) / 2.0 + delta


def _drift_regret(
    known: TheoryConstants, budget: float, v: float, delta: float, queue: float
) -> float:
    """The sum of the drift over a run, whose mean number of pulls is at most (B + 1) / mu_min."""
    pulls = (budget + 1.0) / known.mu_min
    waiting = delta * (budget + 1.0) * queue if delta else 0.0
    return (_lyapunov(known, delta) * pulls + waiting) / v


# --- LyOn ---------------------------------------------------------------------------------


def lyon_schedule(budget: float, v0: float, delta0: float) -> tuple[float, float]:
    """V = v0 sqrt(B log B) and delta = delta0 sqrt(log B / B) (Theorem 1)."""
    growth = math.log(budget)
    return v0 * math.sqrt(budget * growth), delta0 * math.sqrt(growth / budget)


def lyon_delta0(known: TheoryConstants, budget: float, v0: float) -> tuple[float, float]:
    """The range of delta0 for which the corrected proof of Theorem 1 gives a violation below 0.

    Above the lower end, delta B exceeds l* of Lemma 6; below the upper end, delta < epsilon / 2 at
    this budget. A sufficient condition; the range is empty at small budgets.

    >>> from tightrope.problem.ready import ready_problem
    >>> low, high = lyon_delta0(constants(ready_problem("paper")), 1e7, v0=1.0)
    >>> round(low, 1), round(high, 1)
    (23.4, 70.9)
    """
    high = known.epsilon / 2.0 * math.sqrt(budget / math.log(budget))
    return printed_online_threshold(known, v0), high


def beta0(known: TheoryConstants, alpha: float) -> float:
    """32 alpha (1 + y_max)^2 / (mu_min epsilon)^2: makes rad <= mu_min epsilon / 4 (1 + y_max).

    (For Lemma 6.)
    """
    return 32.0 * alpha * ((1.0 + known.y_max) / (known.mu_min * known.epsilon)) ** 2


def exploration_pulls(known: TheoryConstants, budget: float, alpha: float) -> int:
    """Pulls of all arms together before the first decision (Algorithm 2, line 3), with beta0."""
    each = math.ceil(beta0(known, alpha) * math.log(2.0 * budget / known.mu_min))
    return known.arm_count * each


def confidence_failure(known: TheoryConstants, budget: float, alpha: float) -> float:
    """Upper bound on P(a confidence bound ever fails after the exploration) (event A of Lemma 5).

    Hoeffding's inequality for the means of each arm after t of its pulls, all t, with a radius of
    ``_inner_radius`` times rad: P <= 6 K (sum over t of max(n, t)^-p), n the exploration's pulls.
    """
    pulls = float(exploration_pulls(known, budget, alpha))
    power = 4.0 * _inner_radius(known) ** 2 * alpha
    if power <= 1.0:
        return 1.0
    total = math.pow(pulls, 1.0 - power) * (1.0 + 1.0 / pulls + 1.0 / (power - 1.0))
    return min(1.0, 6.0 * known.arm_count * total)


def _inner_radius(known: TheoryConstants) -> float:
    """The largest error of the means, as a part of rad, for which both halves of Lemma 5 hold.

    The index has *empirical* rates and costs in its bonus. With errors of at most x rad, and
    rad <= u mu_min, it is a lower bound if x^2 u <= 1 - x, and within 2 rad (1 + rate) / E[X]
    of the truth if (1 + x + w) / (1 - x u) <= 2, w = x u / (1 - x u), which implies the former.
    """
    u = known.epsilon / (4.0 * (1.0 + known.y_max))
    low, high = 0.0, min(1.0, 1.0 / u)
    for _ in range(60):
        x = 0.5 * (low + high)
        left = 1.0 - x * u
        good = 1.0 + x + x * u / left <= 2.0 * left
        low, high = (x, high) if good else (low, x)
    return low


def online_queue(
    known: TheoryConstants, budget: float, v: float, delta: float, alpha: float
) -> float:
    """Upper bound on E[max Q] under LyOn: the queue rises by at most 1 per pull after a failure."""
    failed = confidence_failure(known, budget, alpha) * most_pulls(known, budget)
    return queue_max(known, online_drift, v, delta, budget) + failed


def lyon_regret(
    known: TheoryConstants, budget: float, v: float, delta: float, alpha: float
) -> float:
    """Upper bound on LyOn's regret, with beta0's exploration (Theorem 1, corrected)."""
    queue = queue_max(known, online_drift, v, delta, budget)
    pulls = most_pulls(known, budget)
    # the sum of the radii over any run of at most n_0 pulls
    radii = 2.0 * math.sqrt(2.0 * alpha * known.arm_count * pulls * math.log(pulls))
    learning = 2.0 * radii * (1.0 + known.r_max + queue * (1.0 + known.y_max) / v)
    exploring = known.reward_rate * (1.0 + exploration_pulls(known, budget, alpha))
    failure = confidence_failure(known, budget, alpha) + renewal_tail(known, budget, pulls)
    failing = known.reward_rate * (budget + 1.0) * failure
    return exploring + learning + failing + _drift_regret(known, budget, v, delta, queue)


def lyon_violation(
    known: TheoryConstants, budget: float, v: float, delta: float, alpha: float
) -> float:
    """Upper bound on LyOn's violation, with beta0's exploration (Theorem 1, corrected)."""
    worst = max(0.0, known.y_max - known.limit + delta)
    exploring = exploration_pulls(known, budget, alpha) * worst
    queue = online_queue(known, budget, v, delta, alpha)
    return (exploring + queue + known.limit - delta) / budget - delta


def printed_lyon_regret(
    known: TheoryConstants, budget: float, v: float, delta: float, alpha: float
) -> float:
    """The sum of the terms in the printed proof of Theorem 1, with exploration and pi*'s gap."""
    queue, square = queue_max(known, online_drift, v, delta, budget), known.mu_min**2
    radii = 4.0 * math.sqrt(2.0 * alpha * known.arm_count * budget * math.log(budget))
    waiting = 2.0 * delta * budget * queue if delta else 0.0
    drift = budget * 2.0 * _lyapunov(known, delta) + math.log(budget) * (1.0 + known.y_max)
    learning = radii * (1.0 + known.r_max + queue * (1.0 + known.y_max) / v)
    rest = math.pi**2 / 6.0 * known.r_max / known.mu_min + printed_regret_rest(known, budget)
    exploring = known.r_max * exploration_pulls(known, budget, alpha)
    gap = printed_optimality_gap(known, budget)
    return ((drift + waiting) / v + learning) / square + rest + exploring + gap


def printed_lyon_violation(
    known: TheoryConstants, budget: float, v: float, delta: float, alpha: float
) -> float:
    """The proof's last inequality as printed, with exploration. Not true in general."""
    queue = queue_max(known, online_drift, v, delta, budget)
    left = queue / budget - 2.0 * delta
    exploring = exploration_pulls(known, budget, alpha) / budget
    return left / known.mu_min + printed_violation_rest(known, budget) + exploring
