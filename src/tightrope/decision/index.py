"""The index of one arm, all arms compared, and what a pull teaches: compiled, one run at a time.

The same operations in the same order as the lanes' kernel and plain Python: the same bits.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

from tightrope.compiled import keep, select
from tightrope.decision.memory import ARMS, BLOCK, Field, Run, constants_of, view
from tightrope.decision.spec import Spec
from tightrope.policies.base import advance

__all__ = ["by_scan", "clock_at", "index_of", "learner", "scanner", "settler"]


@cache
def clock_at(spec: Spec) -> Any:
    """The number that all arms share after ``step`` pulls."""
    clock, number = spec.formula(spec.policy.clock), spec.dtype
    wide = constants_of(spec, Field.WIDE)

    def clock_now(address, step):
        return number(clock(wide(address), float(max(step, 1))))

    return spec.part(clock_now)


@cache
def index_of(spec: Spec) -> Any:
    """The index of the arm at a place."""
    number, penalties, channels = spec.dtype, spec.penalties, spec.channels
    reward_index = spec.formula(spec.policy.reward_index, number)
    penalty_index = spec.formula(spec.policy.penalty_index, number)

    def index(places, run, constants, place, now, luck):
        value = reward_index(
            constants, now, luck, places[2 * channels, place], places[0, place], places[1, place]
        )
        for m in range(penalties):
            level, width = places[2 + 2 * m, place], places[3 + 2 * m, place]
            value += run[m] * penalty_index(constants, now, level, width)
        return number(value)

    return spec.part(index)


@cache
def scanner(spec: Spec) -> Any:
    """The smallest index of ``count`` places from ``start`` on, and whose it is.

    The arm with the lowest number on ties. A block of places at a time, each in a lane of its own,
    so that LLVM makes SIMD code of it; what lies past the end of the list counts for nothing.
    """
    number, index, row = spec.dtype, index_of(spec), 2 * spec.channels
    nothing = number(math.inf)
    places_of, run_of, best_of = (view(spec, f) for f in (Field.PLACES, Field.RUN, Field.BEST))
    constants_at = constants_of(spec, Field.CONSTANTS)

    def scan(address, start, count, now, luck):
        best, places, run = best_of(address), places_of(address), run_of(address)
        constants = constants_at(address)
        for lane in range(BLOCK):
            best[0, lane] = nothing
            best[1, lane] = nothing
        for base in range(0, count, BLOCK):
            for lane in range(BLOCK):
                place = start + base + lane
                value = index(places, run, constants, place, now, luck)
                arm, old, holder = places[row, place], best[0, lane], best[1, lane]
                better = (value < old) | ((value == old) & (arm < holder))
                better = better & (base + lane < count)
                best[0, lane] = keep(better, value, old)
                best[1, lane] = keep(better, arm, holder)
        half = BLOCK // 2
        while half > 0:
            for lane in range(half):
                value, arm = best[0, lane + half], best[1, lane + half]
                old, holder = best[0, lane], best[1, lane]
                better = (value < old) | ((value == old) & (arm < holder))
                best[0, lane] = select(better, value, old)
                best[1, lane] = select(better, arm, holder)
            half //= 2
        value, arm = best[0, 0], best[1, 0]
        chosen = int(arm) if arm < nothing else 0  # every index not a number
        return value, chosen

    return spec.routine(scan)


@cache
def learner(spec: Spec) -> Any:
    """Add a pull's outcomes to the arm's totals and renew its terms."""
    number, channels, learns = spec.dtype, spec.channels, spec.policy.learns
    outcome, one = Run.of(spec.penalties).outcome, spec.dtype(1)
    reward_terms = spec.formula(spec.policy.reward_terms, number)
    penalty_terms = spec.formula(spec.policy.penalty_terms, number)
    places_of, run_of, totals_of = (view(spec, f) for f in (Field.PLACES, Field.RUN, Field.TOTALS))
    constants_at = constants_of(spec, Field.CONSTANTS)

    def learn(address, arm):
        totals, run, places = totals_of(address), run_of(address), places_of(address)
        constants = constants_at(address)
        pulls, cost = totals[arm, 0] + one, totals[arm, 1] + run[outcome]
        totals[arm, 0], totals[arm, 1] = pulls, cost
        for channel in range(channels):
            total = totals[arm, 2 + channel] + run[outcome + 1 + channel]
            totals[arm, 2 + channel] = total
            if learns:
                if channel == 0:
                    level, width = reward_terms(constants, pulls, cost, total)
                else:
                    level, width = penalty_terms(constants, pulls, cost, total)
                places[2 * channel, arm] = number(level)
                places[2 * channel + 1, arm] = number(width)

    return spec.part(learn)


@cache
def settler(spec: Spec) -> Any:
    """Charge the cost and move the queues; whether the budget allows another pull."""
    layout, penalties, number = Run.of(spec.penalties), spec.penalties, spec.dtype
    lost, peak, outcome = layout.lost, layout.peak, layout.outcome
    allowance, spent, budget = layout.allowance, layout.spent, layout.budget
    advance_queue, run_of = spec.formula(advance, number), view(spec, Field.RUN)

    def settle(address, counting):
        run = run_of(address)
        cost = run[outcome]
        total = run[spent] + cost
        run[spent] = total
        if counting:
            for m in range(penalties):
                length, left = advance_queue(
                    run[m], run[lost + m], run[allowance + m], cost, run[outcome + 2 + m]
                )
                run[m] = length
                run[lost + m] = left
                run[peak + m] = max(run[peak + m], length)
        return total <= run[budget]

    return spec.part(settle)


@cache
def by_scan(spec: Spec) -> Any:
    """Decide by looking at every arm."""
    clock, scan, counts_of = clock_at(spec), scanner(spec), view(spec, Field.COUNTS)

    def decide(address, step, luck):
        _, arm = scan(address, 0, counts_of(address)[ARMS], clock(address, step), luck)
        return arm

    return spec.part(decide)
