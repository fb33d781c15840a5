"""The arena's random families: each draws its arms from a number of arms K and a seed S.

``family(name)`` makes ``arena-FAMILY-K-S``; without S the seed is 1. One difficulty per family:

    random       Bernoulli arms; those that earn more tend to incur more
    continuous   the same with continuous costs, rewards and penalties
    rare         penalties are rare: 0.05 per pull at most, limits from 0.001 to 0.05
    safe         one arm keeps the limit, every other breaks it
    uneven       mean costs from 0.02 to 0.98
    small        rewards and penalties of at most 0.05 of their declared scales
    near         near-duplicates: every arm has a twin within two per cent
    mixture      the best mixture earns at least a third more than any arm that keeps the limit
    apart        two limits, and every arm breaks one of them: only mixtures keep both
    slim         the most careful arm is two per cent below the limit

Numbers come from ``random.Random``, whose ``random()`` is the same in every version of Python, and
are rounded, so that the TOML of a problem reads well.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from random import Random

import numpy as np

from tightrope.errors import ProblemError
from tightrope.problem.arms import Arm
from tightrope.problem.distributions import Bernoulli, Beta, Uniform
from tightrope.problem.mixtures import best_mixture, conflict
from tightrope.problem.problem import Problem
from tightrope.problem.scales import Scales

MOST_ARMS = 100
FEWEST_ARMS = {"near": 4, "apart": 3}  # 2 for the others

Means = tuple[float, ...]  # of an arm: cost, reward, penalty 1, ...
Draw = Callable[[], float]  # uniform on [0, 1)
Limits = float | Sequence[float]


def family(name: str) -> Problem | None:
    """The problem of a family, by its name; None if no family is called so.

    >>> family("arena-safe-5-1").arms == family("arena-safe-5").arms
    True
    """
    found = NAME.fullmatch(name)
    if not found:
        return None
    kind, count, seed = found.groups()
    fewest = FEWEST_ARMS.get(kind, 2)
    if not fewest <= int(count) <= MOST_ARMS:
        raise ProblemError(f"problem {name!r}: the number of arms must be {fewest} to {MOST_ARMS}")
    return FAMILIES[kind](name, int(count), int(seed or 1))


def short(value: float) -> float:
    """Three decimals."""
    return round(value, 3)


def bernoulli_arms(*odds: Sequence[float]) -> list[Arm]:
    """Bernoulli arms from the probabilities (cost, reward, penalty 1, ...)."""
    return [
        Arm(f"arm {k}", Bernoulli(cost), Bernoulli(reward), [Bernoulli(p) for p in penalties])
        for k, (cost, reward, *penalties) in enumerate(odds, start=1)
    ]


def _digits(value: float) -> float:
    """Three significant digits."""
    return float(f"{value:.3g}")


def _rates(means: Sequence[Means]) -> list[tuple[float, float]]:
    """Reward and penalty per unit of cost of every arm."""
    return [(reward / cost, penalty / cost) for cost, reward, penalty in means]


def _between(means: Sequence[Means], *, gap: float = 1.1) -> float | None:
    """A limit half way from the most careful arm's rate to that of the best; None if they are less
    than ``gap`` apart.
    """
    rates = _rates(means)
    careful, bold = min(rate for _, rate in rates), max(rates)[1]
    return short((careful + bold) / 2.0) if bold > gap * careful else None


def _binds(means: Sequence[Means], limit: float) -> bool:
    """Whether the arm that earns most is a tenth above the limit and another a tenth below."""
    rates = _rates(means)
    return max(rates)[1] > 1.1 * limit and min(rate for _, rate in rates) < 0.9 * limit


def _bernoulli(name: str, limit: Limits, means: Sequence[Means]) -> Problem:
    return Problem(bernoulli_arms(*means), limit=limit, name=name)


def _first_good(
    count: int,
    arm: Callable[[int], Means],
    limit: Callable[[Sequence[Means]], float | None],
    good: Callable[[Sequence[Means], float], bool] = _binds,
) -> tuple[float, list[Means]]:
    """Draw all arms until there is a limit for them, and they are good under it."""
    while True:
        means = [arm(k) for k in range(count)]
        if (found := limit(means)) and good(means, found):
            return found, means


def _random(name: str, count: int, seed: int) -> Problem:
    """Bernoulli arms; those that earn more tend to incur more."""
    draw = Random(f"{count} {seed}").random
    return _bernoulli(name, *_first_good(count, lambda _: _odds(draw), _between, lambda *_: True))


def _odds(draw: Draw) -> Means:
    """An arm of ``_random``."""
    cost, penalty, luck = 0.3 + 0.6 * draw(), 0.1 + 0.8 * draw(), draw()
    return short(cost), short(0.1 + 0.5 * penalty + 0.4 * luck), short(penalty)


def _continuous(name: str, count: int, seed: int) -> Problem:
    """Uniform and beta costs in turn, beta rewards and penalties."""
    draw = Random(f"{count} {seed}").random
    while True:
        means, arms = [], []
        for k in range(1, count + 1):
            low, width = short(0.05 + 0.2 * draw()), short(0.2 + 0.5 * draw())
            shape = short(1.0 + 3.0 * draw())
            cost = Uniform(low, low + width) if k % 2 else Beta(shape, 3.0, low=low, high=1.0)
            penalty = short(0.1 + 0.7 * draw())
            reward = short(0.1 + 0.5 * penalty + 0.3 * draw())
            means.append((cost.mean, reward, penalty))
            arms.append(Arm(f"arm {k}", cost, _beta(reward), _beta(penalty)))
        limit = _between(means)
        if limit:
            return Problem(arms, limit=limit, name=name)


def _beta(mean: float) -> Beta:
    """A beta distribution with this mean, wide enough to be worth learning."""
    return Beta(short(3.0 * mean), short(3.0 - 3.0 * mean))


def _rare(name: str, count: int, seed: int) -> Problem:
    """Penalties of at most 0.05 per pull; the limit's logarithm is uniform."""
    draw = Random(f"rare {count} {seed}").random
    limit = _digits(0.001 * 50.0 ** draw())

    def arm(_: int) -> Means:
        cost, part, luck = short(0.2 + 0.3 * draw()), 0.1 + 1.9 * draw(), draw()
        return cost, short(0.2 + 0.15 * part + 0.3 * luck), _digits(part * limit * cost)

    return _bernoulli(name, *_first_good(count, arm, lambda _: limit))


def _safe(name: str, count: int, seed: int) -> Problem:
    """One arm at 0.4 to 0.8 of the limit, the others at 1.1 to 2.5 times it."""
    draw = Random(f"safe {count} {seed}").random
    limit, safe = short(0.15 + 0.25 * draw()), int(count * draw())

    def arm(k: int) -> Means:
        cost, spread, luck = short(0.3 + 0.6 * draw()), draw(), draw()
        rate = limit * (0.4 + 0.4 * spread if k == safe else 1.1 + 1.4 * spread)
        reward = 0.1 + 0.3 * luck if k == safe else 0.2 + 0.3 * spread + 0.4 * luck
        return cost, short(reward), _digits(rate * cost)

    return _bernoulli(name, *_first_good(count, arm, lambda _: limit))


def _uneven(name: str, count: int, seed: int) -> Problem:
    """Mean costs from 0.02 to 0.98 in equal ratios, in random order, whatever the rates."""
    draw = Random(f"uneven {count} {seed}").random
    costs = [_digits(0.02 * 49.0 ** (k / (count - 1))) for k in range(count)]
    while True:
        odds: list[Means] = []
        for _, cost in sorted((draw(), cost) for cost in costs):
            penalty, luck = 0.1 + 0.8 * draw(), draw()
            reward = 0.1 + 0.5 * penalty + 0.4 * luck
            odds.append((cost, _digits(reward * cost), _digits(penalty * cost)))
        limit = _between(odds)
        if limit and _binds(odds, limit):
            return _bernoulli(name, limit, odds)


def _small(name: str, count: int, seed: int) -> Problem:
    """Rewards up to 5 of a declared 100, penalties up to 2.5 of a declared 50, both uniform."""
    draw = Random(f"small {count} {seed}").random

    def arm(_: int) -> Means:
        cost, penalty, luck = short(0.3 + 0.6 * draw()), short(0.1 + draw()), draw()
        return cost, short(0.2 + penalty + luck), penalty

    limit, means = _first_good(count, arm, _between)
    arms = [
        Arm(f"arm {k}", Bernoulli(cost), Uniform(0.0, 2.0 * reward), Uniform(0.0, 2.0 * penalty))
        for k, (cost, reward, penalty) in enumerate(means, start=1)
    ]
    return Problem(arms, limit=limit, scales=Scales(reward=100.0, penalty=50.0), name=name)


def _near(name: str, count: int, seed: int) -> Problem:
    """Copies of count // 3 arms, two at least; a copy's means are off by up to one per cent."""
    draw = Random(f"near {count} {seed}").random
    while True:
        kinds = [_odds(draw) for _ in range(max(2, count // 3))]
        limit = _between(kinds, gap=1.3)
        copies = [
            tuple(round(mean * (0.99 + 0.02 * draw()), 5) for mean in kinds[k % len(kinds)])
            for k in range(count)
        ]
        if limit and _binds(copies, limit):
            return _bernoulli(name, limit, copies)


def _mixture(name: str, count: int, seed: int) -> Problem:
    """In turn an arm that keeps the limit and earns little, and one that breaks it and earns."""
    draw = Random(f"mixture {count} {seed}").random
    limit = short(0.3 + 0.2 * draw())

    def arm(k: int) -> Means:
        cost, spread, luck = short(0.4 + 0.4 * draw()), draw(), draw()
        rate = limit * (1.3 + 0.7 * spread if k % 2 else 0.2 + 0.4 * spread)
        reward = 0.9 + 0.3 * luck if k % 2 else 0.2 + 0.2 * luck
        return cost, short(reward * cost), _digits(rate * cost)

    return _bernoulli(name, limit, [arm(k) for k in range(count)])


def _apart(name: str, count: int, seed: int) -> Problem:
    """In turn an arm that breaks the first limit and one that breaks the second; both limits bind
    in the best mixture, and some mixture stays five per cent below both.
    """
    draw = Random(f"apart {count} {seed}").random
    limits = short(0.5 + 0.3 * draw()), short(0.5 + 0.3 * draw())
    while True:
        odds: list[Means] = []
        for k in range(count):
            cost, luck = short(0.4 + 0.2 * draw()), draw()
            parts = [1.15 + 0.6 * draw(), 0.1 + 0.6 * draw()][:: -1 if k % 2 else 1]
            reward = 0.1 + 0.4 * sum(parts) + 0.4 * luck
            penalties = [_digits(p * c * cost) for p, c in zip(parts, limits, strict=True)]
            odds.append((cost, short(reward * cost), *penalties))
        if _both_bind(odds, limits):
            return _bernoulli(name, limits, odds)


def _both_bind(means: Sequence[Means], limits: Sequence[float]) -> bool:
    """Whether the limits can be kept, and a relaxed one would let the best mixture earn more."""
    table, allowed = np.array(means), np.array(limits)
    rates = table[:, 1:] / table[:, :1]
    if conflict(rates[:, 1:], allowed).excess > 0.95:
        return False
    best = best_mixture(rates[:, 0], rates[:, 1:], allowed)
    return best is not None and bool(np.all(best.multiplier > 0.02))


def _slim(name: str, count: int, seed: int) -> Problem:
    """As ``_random``, but the limit lies where the most careful arm's slack is two per cent."""
    draw = Random(f"slim {count} {seed}").random

    def limit(odds: Sequence[Means]) -> float:
        return round(min(rate for _, rate in _rates(odds)) / 0.98, 5)

    def tempting(odds: Sequence[Means], limit: float) -> bool:
        return max(_rates(odds))[1] > 1.1 * limit

    return _bernoulli(name, *_first_good(count, lambda _: _odds(draw), limit, tempting))


MAKERS = (_random, _continuous, _rare, _safe, _uneven, _small, _near, _mixture, _apart, _slim)
FAMILIES: dict[str, Callable[[str, int, int], Problem]] = {
    make.__name__.removeprefix("_"): make for make in MAKERS
}
NAME = re.compile(rf"arena-({'|'.join(FAMILIES)})-(\d{{1,4}})(?:-(\d{{1,9}}))?")
