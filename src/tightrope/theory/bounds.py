"""The paper's bounds at a budget, the budgets from which they bind, and the limit of learning."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from tightrope.errors import InputError
from tightrope.optimum.pi_star import oracle_of_arms
from tightrope.problem import Problem, require_unchanging
from tightrope.theory import formulas
from tightrope.theory.citations import cited
from tightrope.theory.formulas import exploration_pulls, most_pulls
from tightrope.theory.learning import LearningLimit, learning_limit
from tightrope.theory.problem_constants import TheoryConstants, constants

MOST_DOUBLINGS = 100  # budgets up to 2^100 are searched
MOST_ARMS = 2000  # for the divergences of other distributions than Bernoulli
SMALLEST, LARGEST = 1e-15, 1e15  # allowed range of v0, delta0 and alpha, as for policies


@dataclass(frozen=True)
class Bound:
    """One bound at one budget, in the user's units.

    ``label``: its place in the paper, such as Theorem 1. ``value``: the proved bound; infinite if
    there is none. ``printed``: the paper's own expression, if it has one. ``trivial``: the bound
    without any theorem, or None; for the lower end of a range, its upper end. ``bites_from``: the
    smallest budget from which ``value`` is below that; None if no budget up to 2^100 is.
    ``obstacle``: why the bound does not apply at this budget, or "".
    """

    name: str
    label: str
    value: float
    printed: float | None
    trivial: float | None
    bites_from: float | None
    note: str
    obstacle: str = ""


def bounds(
    problem: Problem, budget: float, v0: float = 1.0, delta0: float = 0.5, alpha: float = 2.0
) -> list[Bound]:
    """Every bound of the paper for a problem at a budget, with the two policies' schedules.

    The last rows are the limit of learning, see ``learning_bounds``.

    >>> from tightrope.problem.ready import ready_problem
    >>> found = {bound.name: bound for bound in bounds(ready_problem("paper"), 10_000)}
    >>> round(found["LyOff: violation"].value, 2)
    0.17
    """
    known, scales = constants(problem), problem.scales
    normalised = _normalised(problem, budget)
    for name, value in {"v0": v0, "alpha": alpha, "delta0": delta0}.items():
        least = "0 or " if name == "delta0" else ""
        good = SMALLEST <= value <= LARGEST or (value == 0 and name == "delta0")
        _require(name, value, good, f"must be {least}a number from {SMALLEST:g} to {LARGEST:g}")
    units = {
        "": 1.0,
        "reward": scales.reward,
        "penalty": scales.penalties[0],
        "rate": scales.penalties[0] / scales.cost,
    }
    usual = {"reward": lambda b: known.reward_rate * b, "rate": lambda _: known.y_max - known.limit}
    rows = _rows(known, v0, delta0, alpha, units["rate"])
    rows = (row._replace(trivial=row.trivial or usual.get(row.unit)) for row in rows)
    found = [_bound(row, normalised, units[row.unit], scales.cost) for row in rows]
    return [*found, *learning_bounds(problem, budget)]


def learning_bounds(problem: Problem, budget: float) -> list[Bound]:
    """The limit of learning for a problem with any number of limits: C, C log B, and its share.

    They are asymptotic lower bounds on every consistent policy's regret
    (``docs/learning-limit.md``).

    >>> from tightrope.problem.ready import ready_problem
    >>> [round(one.value, 4) for one in learning_bounds(ready_problem("arena-two-limits"), 10_000)]
    [37.4599, 345.0185, 0.0245]
    """
    require_unchanging(problem, "the limit of learning is for")
    normalised, obstacle, note = _normalised(problem, budget), "", ""
    constant = math.inf  # not known
    if problem.bernoulli() is None and problem.arm_count > MOST_ARMS:
        obstacle = (
            f"learning: not computed here for more than {MOST_ARMS:,} arms with such distributions"
        )
    else:
        found = learning_limit(problem)
        obstacle, note = found.obstacle, _learning_note(found)
        constant = math.inf if found.constant is None else found.constant
    earned = oracle_of_arms(problem.blind).reward_rate * budget
    regret = constant * math.log(normalised)
    values = {
        "learning: regret per log B, C": (constant, note),
        "learning: regret, C log B": (regret, "a lower bound, for large B"),
        "learning: C log B / (r(p*) B)": (regret / earned if earned else math.inf, ""),
    }
    return [
        Bound(name, "Graves and Lai", value, None, None, None, told, obstacle)
        for name, (value, told) in values.items()
    ]


def _learning_note(found: LearningLimit) -> str:
    """The arms that contribute to the constant."""
    parts = found.loss * found.pulls
    outside = int((found.loss > 0.0).sum())
    if not outside:
        return "no arm outside the best mixture loses reward"
    most = int(parts.argmax())
    many = f"{outside} arm{'s' * (outside != 1)} outside the mixture"
    return f"{many}; the most from {found.names[most]}: {parts[most]:.4g}"


def _normalised(problem: Problem, budget: float) -> float:
    """The budget in largest costs of one pull; InputError unless it is above one."""
    found = problem.normal_budget(budget, most_pulls=2.0**MOST_DOUBLINGS)
    allowed = f"must be above {problem.scales.cost:g}, one largest cost"
    _require("budget", budget, found > 1.0, allowed)
    return found


def _require(name: str, value: float, holds: bool, allowed: str) -> None:
    if not holds:
        raise InputError(f"{name} = {value!r}: {allowed}")


class _Row(NamedTuple):
    """A bound as functions of the normalised budget."""

    name: str
    label: str
    value: Callable[[float], float]
    note: str
    unit: str = ""  # reward, penalty, rate (penalty per cost) or none
    printed: Callable[[float], float] | None = None
    trivial: Callable[[float], float] | None = None  # for rewards and rates, see ``bounds``
    obstacle: Callable[[float], str] = lambda _: ""


def _bound(row: _Row, budget: float, unit: float, cost: float) -> Bound:
    trivial, first = None, None
    if row.trivial is not None:
        trivial = row.trivial(budget) * unit
        first = smallest_budget(row.value, row.trivial)
    return Bound(
        name=row.name,
        label=cited(row.label),
        value=row.value(budget) * unit,
        printed=None if row.printed is None else row.printed(budget) * unit,
        trivial=trivial,
        bites_from=None if first is None else first * cost,
        note=cited(row.note),
        obstacle=row.obstacle(budget),
    )


def smallest_budget(
    value: Callable[[float], float], trivial: Callable[[float], float]
) -> float | None:
    """The smallest budget with ``value`` below ``trivial``, to 3 digits, by bisection."""
    low, high = 1.0, 2.0
    for _ in range(MOST_DOUBLINGS):
        if value(high) < trivial(high):
            break
        low, high = high, 2.0 * high
    else:
        return None
    while high - low > 5e-4 * high and low > 1.0:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if value(middle) < trivial(middle) else (middle, high)
    return high


def _rows(
    k: TheoryConstants, v0: float, delta0: float, alpha: float, unit: float
) -> Iterator[_Row]:
    """All bounds; ``unit`` is a normalised penalty rate of 1 in the user's units."""
    yield from _stationary_rows(k)
    yield from _lyoff_rows(k, v0, delta0, unit)
    yield from _lyon_rows(k, v0, delta0, alpha, unit)


def _stationary_rows(k: TheoryConstants) -> Iterator[_Row]:
    """Bounds on pulls, on pi*, and the remainders of the decompositions.

    Long because it is a table: one entry per row.
    """
    square = k.mu_min**2
    yield _Row(
        "P(more than n_0 pulls)",
        "prop:renewal-concentration",
        lambda b: formulas.renewal_tail(k, b, most_pulls(k, b)),
        "of N > n, where the paper writes N >= n",
        printed=lambda b: formulas.renewal_tail(k, b, most_pulls(k, b)),
        trivial=lambda b: 1.0,
    )
    yield _Row(
        "pi*: reward beyond r(p*) B",
        "prop:srp",
        lambda b: formulas.stationary_total(b, k.reward_rate)[1] - k.reward_rate * b,
        "the last pull costs at most 1, so 1 replaces 1 / mu_min^2",
        unit="reward",
        printed=lambda b: k.reward_rate / square,
    )
    yield _Row(
        "pi*: penalty beyond y(p*) B",
        "prop:srp",
        lambda b: formulas.stationary_total(b, k.penalty_rate)[1] - k.penalty_rate * b,
        "likewise",
        unit="penalty",
        printed=lambda b: k.penalty_rate / square,
        trivial=lambda b: k.y_max * b,
    )
    yield _Row(
        "pi*: regret",
        "prop:optimality-gap",
        lambda b: formulas.optimality_gap(k),
        "r(p*) (B + 1) - r(p*) B, by Wald's identity; no tail",
        unit="reward",
        printed=lambda b: formulas.printed_optimality_gap(k, b),
    )
    yield _Row(
        "pi*: violation",
        "prop:optimality-gap",
        lambda b: formulas.optimality_gap_violation(k, b),
        "c (B + 1) / B - c",
        unit="rate",
        printed=lambda b: k.limit / (b * square),
    )
    yield _Row(
        "regret at pi*'s rate",
        "lemma:regret-decomp",
        lambda b: formulas.regret_decomposition(k, b, k.reward_rate),
        "rates up to N(B); the lemma's n_0(B) is not admissible",
        unit="reward",
        printed=lambda b: formulas.printed_regret_rest(k, b),
    )
    yield _Row(
        "violation at rate c",
        "lemma:constraint-decomp",
        lambda b: formulas.violation_decomposition(k, b, k.limit),
        "likewise",
        unit="rate",
        printed=lambda b: formulas.printed_violation_rest(k, b),
    )


def _lyoff_rows(k: TheoryConstants, v0: float, delta0: float, unit: float) -> Iterator[_Row]:
    def at(budget: float) -> tuple[float, float]:
        return formulas.lyoff_schedule(budget, v0, delta0)

    def threshold(budget: float) -> float:
        drift = formulas.offline_drift(k, *at(budget), 0.5)
        return drift.threshold if drift else math.inf

    def outside(budget: float) -> str:
        return _outside("LyOff", at(budget)[1] * unit, k.epsilon * unit, "epsilon")

    yield _Row(
        "LyOff: queue threshold l*",
        "lemma:drift-bound-offline",
        threshold,
        "drift of half of mu_min (epsilon - delta) from there on",
        unit="penalty",
        printed=lambda b: formulas.printed_offline_threshold(k, at(b)[0]),
        trivial=lambda b: float(most_pulls(k, b)),
        obstacle=outside,
    )
    yield _Row(
        "LyOff: E[Q_n]",
        "eqn:exp_Q_n",
        lambda b: formulas.queue_mean(k, formulas.offline_drift, *at(b)),
        "Hajek's theorem with Hoeffding's constants",
        unit="penalty",
        trivial=lambda b: float(most_pulls(k, b)),
        obstacle=outside,
    )
    yield _Row(
        "LyOff: regret",
        "prop:offline-opt",
        lambda b: formulas.lyoff_regret(k, b, *at(b)),
        "eqn:regret_offline_V, stopped at N(B)",
        unit="reward",
        printed=lambda b: formulas.printed_lyoff_regret(k, b, *at(b)),
        obstacle=outside,
    )
    for name, trivial in (("violation", None), ("violation at most 0", lambda _: 0.0)):
        yield _Row(
            f"LyOff: {name}",
            "prop:offline-opt",
            lambda b: formulas.lyoff_violation(k, b, *at(b)),
            _zero_note(formulas.lyoff_delta0(k, 2.0, v0)[0], delta0),
            unit="rate",
            printed=lambda b: formulas.printed_lyoff_violation(k, b, *at(b)),
            trivial=trivial,
            obstacle=outside,
        )
    yield from _delta0_rows("LyOff", "prop:offline-opt", k, v0, formulas.lyoff_delta0)


def _lyon_rows(
    k: TheoryConstants, v0: float, delta0: float, alpha: float, unit: float
) -> Iterator[_Row]:
    """LyOn's bounds. Long because it is a table: one entry per row."""

    def at(budget: float) -> tuple[float, float]:
        return formulas.lyon_schedule(budget, v0, delta0)

    def threshold(budget: float) -> float:
        drift = formulas.online_drift(k, *at(budget), 0.5)
        return drift.threshold if drift else math.inf

    def left(budget: float) -> float:
        """An upper bound on the pulls after the exploration; each raises the queue by at most 1."""
        explored = exploration_pulls(k, budget, alpha)
        return float(most_pulls(k, budget) - explored) if explored < budget else 0.0

    def outside(budget: float) -> str:
        wide = _outside("LyOn", at(budget)[1] * unit, k.epsilon / 2.0 * unit, "epsilon / 2")
        return _exploration_note(k, budget, alpha) or wide

    yield _Row(
        "LyOn: beta0",
        "lemma:drift-bound",
        lambda b: formulas.beta0(k, alpha),
        f"alpha = {alpha:g}; the paper's experiments take beta0 = 1",
        printed=lambda b: formulas.beta0(k, alpha),
    )
    yield _Row(
        "LyOn: pulls to explore",
        "alg:LyOn",
        lambda b: float(exploration_pulls(k, b, alpha)),
        "K ceil(beta0 log(2 B / mu_min))",
        printed=lambda b: float(exploration_pulls(k, b, alpha)),
        trivial=lambda b: b,
        obstacle=lambda b: _exploration_note(k, b, alpha),
    )
    yield _Row(
        "LyOn: P(a confidence bound fails)",
        "lemma:bound-psi",
        lambda b: formulas.confidence_failure(k, b, alpha),
        "the paper takes 1 / n^2 at epoch n",
        trivial=lambda b: 1.0,
    )
    yield _Row(
        "LyOn: queue threshold l*",
        "lemma:drift-bound",
        threshold,
        "drift of half of mu_min (epsilon / 2 - delta) from there on",
        unit="penalty",
        printed=lambda b: formulas.printed_online_threshold(k, at(b)[0]),
        trivial=left,
        obstacle=outside,
    )
    yield _Row(
        "LyOn: E[max Q_n]",
        "lemma:max-Q",
        lambda b: formulas.online_queue(k, b, *at(b), alpha),
        "by excursions above l*; the paper's proof does not hold",
        unit="penalty",
        trivial=left,
        obstacle=outside,
    )
    yield _Row(
        "LyOn: regret",
        "thm:regret",
        lambda b: formulas.lyon_regret(k, b, *at(b), alpha),
        "stopped at N(B)",
        unit="reward",
        printed=lambda b: formulas.printed_lyon_regret(k, b, *at(b), alpha),
        obstacle=outside,
    )
    for name, trivial in (("violation", None), ("violation at most 0", lambda _: 0.0)):
        yield _Row(
            f"LyOn: {name}",
            "thm:regret",
            lambda b: formulas.lyon_violation(k, b, *at(b), alpha),
            _zero_note(formulas.lyon_delta0(k, 2.0, v0)[0], delta0),
            unit="rate",
            printed=lambda b: formulas.printed_lyon_violation(k, b, *at(b), alpha),
            trivial=trivial,
            obstacle=outside,
        )
    yield from _delta0_rows("LyOn", "thm:regret", k, v0, formulas.lyon_delta0)


RangeOf = Callable[[TheoryConstants, float, float], tuple[float, float]]


def _delta0_rows(
    policy: str, label: str, k: TheoryConstants, v0: float, range_of: RangeOf
) -> Iterator[_Row]:
    """The two ends of the range of delta0 for which the violation's bound falls below 0."""
    reason = {
        "LyOff": "delta < epsilon; as printed, delta < c",
        "LyOn": "delta < epsilon / 2; delta < c would be c sqrt(B / log B), printed is c sqrt(B)",
    }[policy]
    yield _Row(
        f"{policy}: delta0 must be above",
        label,
        lambda b: range_of(k, b, v0)[0],
        "for a violation below 0; at smaller budgets the range of delta0 is empty",
        printed=lambda b: formulas.printed_delta0(k, b, v0)[0],
        trivial=lambda b: range_of(k, b, v0)[1],
    )
    yield _Row(
        f"{policy}: delta0 must be below",
        label,
        lambda b: range_of(k, b, v0)[1],
        reason,
        printed=lambda b: formulas.printed_delta0(k, b, v0)[1],
    )


def _outside(policy: str, delta: float, slack: float, name: str) -> str:
    """The obstacle if delta is not below the slack, in penalty per unit of cost, or "".

    epsilon is per pull in the paper; here it is per unit of the largest cost of one pull.
    """
    if delta < slack:
        return ""
    return (
        f"{policy}: delta = {delta:.4g} is not below {name} = {slack:.4g}: the queue need not fall"
    )


def _zero_note(least: float, delta0: float) -> str:
    """When the violation's bound falls below 0."""
    met = "it is" if delta0 > least else f"{delta0:g} is not"
    return f"below 0 at large budgets if delta0 is above {least:.4g}; {met}"


def _exploration_note(k: TheoryConstants, budget: float, alpha: float) -> str:
    pulls = exploration_pulls(k, budget, alpha)
    if pulls * k.mu_min <= budget:
        return ""
    return f"LyOn: beta0 requires {pulls:,} pulls to explore, more than the budget allows"
