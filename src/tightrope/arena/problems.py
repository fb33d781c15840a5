"""The arena's own problems by name: one for each difficulty, and the random families.

Every number is written here or drawn in ``families``. Drawn and computed numbers are rounded,
so that the TOML of a problem reads well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import cos, pi

from tightrope.arena import interval_problems, typed_problems
from tightrope.arena.families import bernoulli_arms, family, short
from tightrope.problem import Arm, Change, Limit, Problem, Share
from tightrope.problem.distributions import Bernoulli, Constant, TwoPoint

DRIFT_CHANGES = 40


# Bernoulli arms: the limit, or limits, and every arm's probabilities (cost, reward, penalty 1, ...)
BERNOULLI: dict[str, tuple[float | tuple[float, ...], Sequence[tuple[float, ...]]]] = {
    # The careful arm's rate is 0.796: a slack of half a per cent of the limit.
    "arena-tight": (0.8, [(0.4, 0.8, 0.6), (0.5, 0.6, 0.398), (0.6, 0.6, 0.54)]),
    # The arm that earns most incurs 0.5 per unit of cost: well below the limit.
    "arena-free": (0.8, [(0.5, 0.8, 0.25), (0.4, 0.5, 0.5), (0.6, 0.6, 0.12), (0.5, 0.6, 0.6)]),
    # Of a thousand pulls the three arms are penalised in 20, 1 and 6; the limit allows 5.
    "arena-rare": (0.01, [(0.5, 0.8, 0.02), (0.5, 0.5, 0.001), (0.5, 0.65, 0.006)]),
    # Both limits bind: pi* mixes three arms.
    "arena-two-limits": (
        (0.7, 0.6),
        [
            *((0.4, 0.8, 0.6, 0.2), (0.5, 0.9, 0.2, 0.7), (0.6, 0.5, 0.2, 0.2)),
            *((0.5, 0.5, 0.4, 0.4), (0.7, 0.6, 0.5, 0.3), (0.4, 0.3, 0.1, 0.1)),
        ],
    ),
    # All three bind: pi* mixes four arms of ten.
    "arena-three-limits": (
        (0.6, 0.6, 0.5),
        [
            *((0.4, 0.9, 0.6, 0.2, 0.1), (0.5, 0.9, 0.2, 0.7, 0.2), (0.5, 0.8, 0.1, 0.2, 0.6)),
            *((0.6, 0.5, 0.2, 0.2, 0.2), (0.5, 0.4, 0.3, 0.1, 0.2), (0.7, 0.6, 0.5, 0.4, 0.1)),
            *((0.4, 0.4, 0.2, 0.3, 0.2), (0.6, 0.6, 0.3, 0.5, 0.3), (0.8, 0.6, 0.3, 0.3, 0.4)),
            (0.5, 0.3, 0.1, 0.1, 0.1),
        ],
    ),
}


def made(name: str) -> Problem | None:
    """The problem called ``name``; None if there is none.

    >>> made("arena-random-5").arm_count, made("arena-random-5-2") == made("arena-random-5")
    (5, False)
    >>> made("arena-types-swap").arm_count, made("arena-intervals-bid").space.points
    (3, 101)
    """
    if name in BERNOULLI:
        limit, odds = BERNOULLI[name]
        return Problem(bernoulli_arms(*odds), limit=limit, name=name)
    if name in SPECIAL:
        return SPECIAL[name](name)
    return family(name)


def _cheap(name: str) -> Problem:
    """Costs of 0.005, but 0.505 once in a hundred pulls: 0.01 on average, so pulls are many."""
    cost = TwoPoint(0.005, 0.505, p=0.01)
    odds = [(0.02, 0.015), (0.01, 0.005), (0.012, 0.009)]
    arms = [
        Arm(f"arm {k}", cost, Bernoulli(reward), Bernoulli(penalty))
        for k, (reward, penalty) in enumerate(odds, start=1)
    ]
    return Problem(arms, limit=0.8, name=name)


def _declared_safe(name: str) -> Problem:
    """One arm is declared to keep the limit by 60 %; of the three others two break it."""
    odds = ((0.5, 0.3, 0.04), (0.5, 0.75, 0.2), (0.6, 0.6, 0.11), (0.4, 0.5, 0.1))
    arms, declared = bernoulli_arms(*odds), {"penalty": 0.08}
    return Problem(arms, limit=0.2, name=name, safe=0, safe_rates=declared)


OTHERWISE = ((0.3, 0.8, 0.5), (0.9, 0.7, 0.25), (0.5, 0.5, 0.1), (0.7, 0.9, 0.6), (0.4, 0.4, 0.3))


def _per_pull(name: str) -> Problem:
    """At most 0.3 per pull: pi* mixes arms 1 and 3, whose costs differ."""
    return Problem(bernoulli_arms(*OTHERWISE), limit=Limit(0.3, per="pull"), name=name)


def _per_reward(name: str) -> Problem:
    """At most 0.45 per unit of reward."""
    limit = Limit(0.45, per="reward")
    return Problem(bernoulli_arms(*OTHERWISE), limit=limit, name=name)


def _total(name: str) -> Problem:
    """At most 60 in all: the larger the budget, the fewer per unit of it."""
    odds = ((0.5, 0.8, 0.3), (0.5, 0.6, 0.02), (0.5, 0.3, 0.001), (0.6, 0.5, 0.1))
    return Problem(bernoulli_arms(*odds), limit=Limit(total=60), name=name)


def _share(name: str) -> Problem:
    """At least two fifths of the pulls go to two arms that earn less."""
    arms = [replace(arm, penalty=()) for arm in bernoulli_arms(*OTHERWISE)]
    limits = {"others": Share(["arm 3", "arm 5"], at_least=0.4)}
    return Problem(arms, limits=limits, name=name)


def _prices(name: str) -> Problem:
    """A request is a unit of cost; dollars are on a price list, bad answers are not."""
    rewards, bad = (0.55, 0.7, 0.78, 0.85, 0.4), (0.09, 0.05, 0.04, 0.02, 0.01)
    names = [f"arm {k}" for k in range(1, 6)]
    arms = [
        Arm(arm, Constant(1.0), Bernoulli(reward), {"bad": Bernoulli(rate)})
        for arm, reward, rate in zip(names, rewards, bad, strict=True)
    ]
    prices = dict(zip(names, (0.05, 0.2, 0.5, 1.0, 0.02), strict=True))
    limits = {"dollars": Limit(0.35), "bad": Limit(0.04, per="pull")}
    return Problem(arms, limits=limits, name=name, costs=1, known={"dollars": prices})


def _abrupt(name: str) -> Problem:
    """At half of the budget pi* goes from arms 1 and 2 to arms 3 and 4.

    Arm 1 earns most, arm 3 least and arm 2 is the most careful; then arm 3 earns most, arm 4 is the
    most careful, and half of arm 1 and half of arm 2 incur 1.1 per unit of cost. In either phase
    one more penalty would earn 1, so nothing is gained by saving some for the other.
    """
    before = bernoulli_arms(
        (0.5, 0.9, 0.65), (0.6, 0.48, 0.18), (0.4, 0.12, 0.3), (0.7, 0.35, 0.49)
    )
    after = bernoulli_arms(
        (0.5, 0.25, 0.75), (0.6, 0.24, 0.42), (0.4, 0.7, 0.52), (0.7, 0.525, 0.21)
    )
    return Problem(before, limit=0.8, name=name, changes=[Change(0.5, after)])


def _drift(name: str) -> Problem:
    """pi*'s bold arm is arm 1, then arm 2, then arm 1 again; its careful one arm 3, then arm 4."""
    phases = DRIFT_CHANGES + 1
    changes = [Change(short(j / phases), _drifted((j + 0.5) / phases)) for j in range(1, phases)]
    return Problem(_drifted(0.5 / phases), limit=0.8, name=name, changes=changes)


def _drifted(spent: float) -> list[Arm]:
    """The arms after a share of the budget: the bold ones at either end of a whole wave, the
    careful ones at either end of half a wave.
    """
    wave, half = cos(2.0 * pi * spent), cos(pi * spent)
    arms = [(0.5, _bold(wave)), (0.4, _bold(-wave)), (0.6, _careful(half)), (0.7, _careful(-half))]
    return bernoulli_arms(
        *([cost, *(short(cost * rate) for rate in rates)] for cost, rates in arms)
    )


def _bold(wave: float) -> tuple[float, float]:
    """Rates of reward and penalty: 1.8 and 1.3 at a wave of 1, 1.4 and 1 at 0, 0.6 and 1.3 at -1.

    What a penalty earns, from a careful arm to a bold one, stays about 1 all along.
    """
    return 1.4 + 0.6 * wave - 0.2 * wave**2, 1.0 + 0.3 * wave**2


def _careful(wave: float) -> tuple[float, float]:
    """Likewise: 0.8 and 0.3 at a wave of 1, 0.9 and 0.45 at 0, 0.4 and 0.6 at -1."""
    return 0.9 + 0.2 * wave - 0.3 * wave**2, 0.45 - 0.15 * wave


SPECIAL: dict[str, Callable[[str], Problem]] = {
    "arena-cheap": _cheap,
    "arena-declared-safe": _declared_safe,
    "arena-per-pull": _per_pull,
    "arena-per-reward": _per_reward,
    "arena-total": _total,
    "arena-share": _share,
    "arena-prices": _prices,
    "arena-abrupt": _abrupt,
    "arena-drift": _drift,
    **typed_problems.MAKERS,
    **interval_problems.MAKERS,
}

# The name of every problem that a list shows, and one line about it: first those whose arms stay
# the same, as the usual arena takes them.
SETTLED: dict[str, str] = {
    "arena-random-5": "five random Bernoulli arms; arena-random-K-S takes any K and seed S",
    "arena-random-10": "ten random Bernoulli arms",
    "arena-random-30": "thirty random Bernoulli arms",
    "arena-continuous-8": "eight random arms with continuous costs, rewards and penalties",
    "arena-tight": "nearly infeasible: the most careful arm is 0.5 % below the limit",
    "arena-slim-3": "three random arms, the most careful one 2 % below the limit",
    "arena-slim-8": "eight random arms, the most careful one 2 % below the limit",
    "arena-free": "the best arm alone keeps the limit, so the limit does not bind",
    "arena-cheap": "two-point costs, 0.01 on average: a hundred pulls per unit of budget",
    "arena-uneven-5": "five random arms with mean costs from 0.02 to 0.98",
    "arena-uneven-10": "ten random arms with mean costs from 0.02 to 0.98",
    "arena-rare": "three Bernoulli arms with penalties in 2 %, 0.1 % and 0.6 % of the pulls",
    "arena-rare-5": "five random arms with rare penalties",
    "arena-rare-10": "ten random arms with rare penalties",
    "arena-small-5": "five random arms, rewards and penalties below 0.05 of their scales",
    "arena-small-10": "ten random arms, rewards and penalties below 0.05 of their scales",
    "arena-safe-5": "five random arms; one of them keeps the limit",
    "arena-safe-20": "twenty random arms; one of them keeps the limit",
    "arena-declared-safe": "four Bernoulli arms, one of them declared to keep the limit",
    "arena-near-6": "six random arms: near-duplicates of two",
    "arena-near-20": "twenty random arms: near-duplicates of six",
    "arena-mixture-4": "four random arms: those that keep the limit earn little",
    "arena-mixture-8": "eight random arms: those that keep the limit earn little",
    "arena-apart-4": "four random arms under two limits: each arm breaks one of them",
    "arena-apart-8": "eight random arms under two limits: each arm breaks one of them",
    "arena-two-limits": "six Bernoulli arms under two limits, both binding",
    "arena-three-limits": "ten Bernoulli arms under three limits, all binding",
    "arena-per-pull": "five Bernoulli arms with uneven costs under a limit per pull",
    "arena-per-reward": "the same under a limit per unit of reward",
    "arena-total": "four Bernoulli arms under a limit of 60 in total, whatever the budget",
    "arena-share": "five Bernoulli arms, two fifths of the pulls for two that earn less",
    "arena-prices": "five arms with a price list, dollars and bad answers limited per request",
}
CHANGING: dict[str, str] = {
    "arena-abrupt": "four Bernoulli arms; the best two change after half of the budget",
    "arena-drift": "four Bernoulli arms that drift: 40 small changes, the best two cross thrice",
}
LISTED = SETTLED | CHANGING | typed_problems.LISTED | interval_problems.LISTED
