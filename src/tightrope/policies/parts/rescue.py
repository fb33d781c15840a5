"""The target rate of ``resolve`` under a limit, and the cost of exploring.

If only the safest mixture is pulled from now on, the allowance left at the end is approximately
normal, with a mean and a deviation that follow from an :data:`Outlook`.
``docs/resolve-algorithm.md`` derives the formulas. Everything is in normalised units.
"""

from __future__ import annotations

import math

from tightrope.policies.base import Constants
from tightrope.policies.parts.beliefs import CHANCE, KNOWN, MORE, SCALE, SIZE, WIDTH, Arms, mean_of
from tightrope.policies.state import Array, State, rows

LEARNING = 0.1  # of the remaining budget, at most, will be spent on an arm of the safest mixture
LARGE = 0.4  # times z^2 and an arm's usual penalty: a large one; these three are measured
PATIENT = 60.0  # penalties allowed per arm, from which a late run rules arms out later

# Codes returned instead of a target rate.
LATE = -1.0  # the safest mixture may keep the limit, but not surely enough
LOST = -2.0  # it is not expected to

# For the safest mixture: its penalty rate, the variance of its penalty per unit of cost, and the
# variance of the rate.
Outlook = tuple[float, float, float]


def size_of(state: State, arms: Arms, row: int, m: int) -> float:
    """The usual size of penalty m of an arm."""
    return arms.more[MORE * (row * len(state.limits) + m) + SIZE]  # type: ignore[no-any-return]


def cost_ahead(state: State, arms: Arms) -> float:
    """The cost still to come: the budget left and, by Lorden's bound, the last pull's excess."""
    if arms.any_part[0] == 0.0:  # costs of 0 and 1 are their squares
        return max(state.remaining[0], 0.0) + 1.0  # type: ignore[no-any-return]
    usual, channels = arms.pooled[0], len(state.remaining) + 1
    cost, squares = usual, usual * usual
    for row in rows(state):
        cost += state.totals[row * channels]
        squares += state.squares[row * channels]
    return max(state.remaining[0], 0.0) + squares / cost  # type: ignore[no-any-return]


def known_cost(cost: float, ahead: float, count: int) -> float:
    """The cost behind the estimate of an arm of the safest mixture, now or in time."""
    return max(cost, LEARNING * ahead if count * LEARNING <= 1.0 else ahead / count)


def safe_rate(
    constants: Constants, outlook: Outlook, reserve: float, allowance: float, ahead: float
) -> float:
    """The largest penalty rate from which the safest mixture can rescue the limit, or LATE or LOST.

    If only this mixture is pulled from now on, the allowance ends ``room`` above the ``reserve`` on
    average. A steady rate comes nearest to the barrier on the way, not at the end; there it has z
    deviations left at the returned rate.
    """
    if outlook[0] * ahead > allowance:
        return LOST
    low, room, variance = _room(constants, outlook, reserve, allowance, ahead)
    spare = room * room - constants[0] * constants[0] * variance
    if room < 0.0 or spare < 0.0:
        return LATE
    return low + (room + math.sqrt(spare)) * (0.5 / ahead)


def can_rescue(
    constants: Constants, outlook: Outlook, reserve: float, allowance: float, ahead: float
) -> bool:
    """Whether the safest mixture alone leaves the allowance z deviations above the reserve.

    Squares are compared, because a root and a quotient would lengthen every step.
    """
    _, room, variance = _room(constants, outlook, reserve, allowance, ahead)
    return room >= 0.0 and room * room >= constants[0] * constants[0] * variance


def room_above(
    constants: Constants, outlook: Outlook, reserve: float, allowance: float, ahead: float
) -> float:
    """How many deviations above the reserve the allowance ends with the safest mixture alone."""
    _, room, variance = _room(constants, outlook, reserve, allowance, ahead)
    return room / math.sqrt(variance)


def _room(
    constants: Constants, outlook: Outlook, reserve: float, allowance: float, ahead: float
) -> tuple[float, float, float]:
    """A cautious rate of the safest mixture, and mean and variance of the room at the end."""
    expected, noise, unsure = outlook
    low = expected + constants[1] * math.sqrt(unsure)
    return low, allowance - low * ahead - reserve, (noise + unsure * ahead) * ahead


def skewness(constants: Constants, size: float) -> float:
    """Cornish and Fisher's term; the third cumulant is taken as ``size`` times the second."""
    return size * ((constants[0] * constants[0] - 1.0) / 6.0)


def pending(constants: Constants, state: State, arms: Arms, m: int) -> float:
    """The excess penalty of pulls in flight over its expectation: z deviations."""
    if state.flying[0] == 0.0:
        return 0.0
    limited, variance = len(state.limits), 0.0
    for row in rows(state):
        cost = state.flight[row] * mean_of(arms.cost_scale[row])
        variance += cost * arms.spread[row * limited + m]
    return constants[0] * math.sqrt(variance)


def excess_of(constants: Constants, size: float, safest: float) -> float:
    """By how much a large penalty of an arm exceeds one of the safest mixture; sizes are given.

    The barrier is about many small penalties of the safest mixture. A single large one of the arm
    to be pulled must not jump over it.
    """
    return max(large_penalty(constants, size) - large_penalty(constants, safest), 0.0)


def large_penalty(constants: Constants, size: float) -> float:
    """A large penalty of an arm whose penalties usually have this size."""
    return min(max(LARGE * constants[0] * constants[0], 1.0) * size, 1.0)


def take_care(drawn: Array, cautious: Array, weight: float) -> None:
    """Move drawn penalty rates to cautious ones: at the end of a budget, learning has no value."""
    for at in range(len(drawn)):
        drawn[at] += weight * (cautious[at] - drawn[at])


def chance_owed(limit: float, promised: float, rate: float, low: float) -> float:
    """The chance to pull the safest mixture instead, so that the target rate is kept on average.

    The mixture was chosen by drawn rates, which look better than its expected ``rate``. Its
    expected excess over the target is compensated by the safest mixture, whose rate is ``low``.
    The compensation grows as the target falls from the limit to the smallest possible target: none
    is needed while the allowance is whole.
    """
    if not (rate > promised and rate > low and limit > promised):
        return 0.0
    worn = limit - promised  # over the next line's first factor: from 0 to 1
    return worn * (rate - promised) / (max(limit - low, worn) * (rate - low))


def be_hopeful(
    apart: int,
    constants: Constants,
    state: State,
    arms: Arms,
    budget: float,
    ahead: float,
    limited: int,
    first: int,
    last: int,
) -> None:
    """Replace the drawn penalty rates by the lowest plausible ones, from ``first`` to ``last`` - 1.

    Drawn or cautious rates lock on to a well-known arm above the limit while another arm may be
    below it. The more cost is ahead, relative to the cost behind an arm's estimate, the less likely
    a rate may be that is tried. ``budget``: at the start. ``apart``: how many arms are learned
    separately; neighbouring numbers are not.
    """
    for m in range(limited):
        each = ahead * _patience(apart, constants, state, arms, m, budget, ahead)
        for row in range(first, last):
            _hope(arms, row, row * limited + m, each)


def _hope(arms: Arms, row: int, at: int, each: float) -> None:
    """Replace the drawn penalty rate of an arm by the lowest plausible one."""
    place, rate = MORE * at, arms.rate[at]
    known, chance = arms.more[place + KNOWN], arms.more[place + CHANCE]
    least = plausible_rate(rate, math.sqrt(arms.spread[at] / known), each / known)
    if chance > 0.0:
        cost = mean_of(arms.cost_scale[row])
        scale, width = arms.more[place + SCALE], arms.more[place + WIDTH]
        apart = (mean_of(scale) - mean_of(arms.penalty_scale[at])) / cost
        rare, deviation = rate + (1.0 - chance) * apart, 3.0 * scale * width / cost
        least = min(least, plausible_rate(rare, deviation, chance * each / known))
    arms.penalty[at] = max(least, 0.0)


def _patience(
    apart: int,
    constants: Constants,
    state: State,
    arms: Arms,
    m: int,
    budget: float,
    ahead: float,
) -> float:
    """The factor on the odds of a rate that is tried, by the penalties allowed per arm.

    Arms that differ by little take long to distinguish. If the limit allows many penalties, there
    is room for that, and an arm with unlucky first pulls is not ruled out. The smaller the risk,
    the larger the factor may be. It fades with the budget: a search that starts near the end has no
    time to pay off, and costly arms leave cheap ones with little cost behind their estimates.
    """
    count, base, limit, cost, reward = len(arms.cost), state.bases[m], state.limits[m], 0.0, 0.0
    for row in range(count):
        cost += mean_of(arms.cost_scale[row])
        reward += mean_of(arms.reward_scale[row])
    allowed = limit * budget / arms.pooled[2 + m]
    if base > 0.0:
        allowed *= base * count / cost
    elif base < 0.0:  # rewards are random like penalties
        allowed *= -base * reward / (cost * (1.0 - base * limit))
    each: float = allowed / (PATIENT * apart)
    most = min(each * each * each, math.exp(0.25 * constants[0] * constants[0]))
    return max(most * min(ahead / budget, 1.0), 1.0 / math.sqrt(apart))


def plausible_rate(rate: float, deviation: float, odds: float) -> float:
    """The lowest rate with a probability of about one in ``odds``; gamma-shaped if above 0.

    A normal number is below -sqrt(2 log odds) with a chance of at most 1 / ``odds``.
    """
    far = math.sqrt(2.0 * math.log(max(odds, 1.0)))
    if rate <= 0.0:
        return rate - far * deviation
    width = deviation / (3.0 * rate)
    root = max(1.0 - width * (width + far), 0.0)
    return rate * root * root * root
