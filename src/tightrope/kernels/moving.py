"""The loop of a run with outcomes reported late or never, and with arms that come and go.

Same as ``single_run.loop``, with decisions in a view (``flight``). A pull at step t with a delay of
d is reported before the decision of step t + 1 + d; a lost one never is. The cost of a pull is
spent at once, whether it is reported or not. Letters: K arms, C channels, D the longest delay, J
phases.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from numba import int64

from tightrope.kernels.rng import WEYL
from tightrope.kernels.run_state import (
    ARMS,
    COLUMNS,
    CONTEXT,
    EXPLORE,
    PHASE,
    STEP,
    WRONG,
    WRONG_ARM,
)
from tightrope.kernels.single_run import CHECK_EVERY, next_row, next_type
from tightrope.policies.choice import hashed

DELAYS = 1024  # equally likely delays


class Rules(NamedTuple):
    """When outcomes are reported, and which arms can be pulled."""

    delays: Any  # [DELAYS] in decisions
    lost: Any  # the chance that an outcome is never reported, times 2^32
    slots: Any  # 1 + D
    stand_ins: Any  # [J * K] see ``flight``


def flight_numbers(arms: int, channels: int, slots: int, featured: bool = False) -> int:
    """The count of numbers of a run: its key, pulls in flight, lists of due pulls, outcomes.

    ``featured``: also the row of the features of each pull.
    """
    return 1 + arms + slots * (3 + channels + featured)


def moving_loop(
    target: Any,
    part: Any,
    wrap: Any,
    draw: Any,
    own: Any,
    shared: Any,
    view: Any,
    typed: bool = True,
    featured: bool = True,
) -> Any:
    """A function like that of ``single_run.loop``, over a memory, its view and ``flights``.

    ``flights``: the key of the run's delays, the pulls in flight [K], the first pull due at each
    step and the next one due with each pull [slots, -1 for none], the arms and outcomes of pulls,
    the places of their features. A report comes with the features of its request.

    It is long, and so are the lists of arguments, because compiled parts share its variables.
    """
    one, choose, sound = target.number(1), own.choose, own.sound
    look, keep, unexplored = view
    report, count_in, goes_on = shared.report, shared.count, shared.goes_on
    move, chance, toss, kind_of = shared.move, part(hashed), shared.toss, next_type(part)
    face = next_row(target, part)

    def deliver(memory, flights, count, slots, step, explore, mix):
        """Report the outcomes that are due before this step."""
        due, after, arms = 1 + count, 1 + count + slots, 1 + count + 2 * slots
        first, outcome = 1 + count + 3 * slots, memory.run.outcome
        channels = 2 + memory.penalties
        slot = int(flights[due + step % slots])
        flights[due + step % slots] = -1.0
        while slot >= 0:
            arm = int(flights[arms + slot])
            for channel in range(channels):
                outcome[channel] = flights[first + slot * channels + channel]
            if featured and memory.counts[COLUMNS] > 0:
                row, place = int(flights[first + slots * channels + slot]), memory.counts[CONTEXT]
                for column in range(memory.counts[COLUMNS]):
                    memory.own_numbers[place + column] = mix[row + column]
            counting = memory.state.steps[0] >= explore
            report(memory, arm)
            if counting:
                move(memory, one)
            flights[1 + arm] -= 1.0
            slot = int(flights[after + slot])

    def send(memory, flights, rules, count, step, arm, row):
        """Record a pull whose outcomes will be reported, or not."""
        slots, key = rules.slots, int(flights[0])
        due, after, arms = 1 + count, 1 + count + slots, 1 + count + 2 * slots
        first, slot, channels = 1 + count + 3 * slots, step % slots, 2 + memory.penalties
        flights[1 + arm] += 1.0
        if chance(key, 2 * step + 1) < rules.lost:
            return
        delay = int(rules.delays[chance(key, 2 * step) >> 22])
        at = due + (step + 1 + delay) % slots
        flights[after + slot], flights[at] = flights[at], float(slot)
        flights[arms + slot] = float(arm)
        for channel in range(channels):
            flights[first + slot * channels + channel] = memory.run.outcome[channel]
        if featured and memory.counts[COLUMNS] > 0:
            flights[first + slots * channels + slot] = float(row)

    tell, note = part(deliver), part(send)

    def play(
        memory, seen, flights, rules, law, starts, mix, count, explore, step, phase, until, stop
    ):
        run, going, arm = memory.run, goes_on(memory), int64(0)
        channels = 2 + memory.penalties
        flight = flights[1 : 1 + count]
        while going and step < until:
            while phase + 1 < len(starts) and run.spent[0] >= starts[phase + 1]:
                phase += 1
            tell(memory, flights, count, rules.slots, step, explore, mix)
            toss(memory, step)
            for word in range(memory.random):
                seen.pair[word] = memory.pair[word]
            stand_ins = rules.stand_ins[phase * count : (phase + 1) * count]
            before, row = phase, int64(0)
            if featured and memory.counts[COLUMNS] > 0:
                row = face(memory, mix, (step * channels + 1) * WEYL)
            elif typed and len(mix) > 0:
                before = kind_of(memory, seen, mix, step)
            look(memory, seen, flight, stand_ins, memory.state.steps[0] >= explore)
            arm = int64(unexplored(seen.state, stand_ins, explore / count))
            if arm < 0:
                arm = int64(choose(seen, step))
                if arm < 0 or arm >= count:
                    break
                keep(memory, seen, stand_ins)
                arm = int64(stand_ins[arm])
            first, weyl = (before * count + arm) * channels, step * (channels * WEYL)
            draw(run.outcome, 0, 1, memory.words, 0, 1, weyl, law, arm, first, one, channels)
            count_in(memory, arm)
            run.spent[0] += run.outcome[0]
            note(memory, flights, rules, count, step, arm, row)
            going = goes_on(memory) and sound(memory) and sound(seen)
            step += 1
            if step % CHECK_EVERY == 0 and stop[0]:
                break
        return step, phase, arm

    return wrap(play)


def all_moving_runs(play: Any, report: Any) -> Any:
    """Same as ``single_run.all_runs``; it has many parameters because a view is among them."""

    def runs(
        memory, seen, block, fresh, seen_block, flights, rules, keys, seeds, policy_words, law,
        starts, mix, ends, counts, until, stop,
    ):  # fmt: skip
        numbers = memory.counts
        for run in range(len(ends)):
            count = numbers[ARMS]
            if len(fresh) > 0:
                for at in range(len(fresh)):
                    block[at] = fresh[at]
                    seen_block[at] = fresh[at]
                for at in range(len(flights)):
                    flights[at] = -1.0 if 1 + count <= at < 1 + count + rules.slots else 0.0
                flights[0] = float(keys[run])
                for at in range(4):
                    memory.words[at], memory.words[4 + at] = seeds[at, run], policy_words[at, run]
            step, phase, arm = play(
                memory, seen, flights, rules, law, starts, mix, count, numbers[EXPLORE],
                numbers[STEP], numbers[PHASE], until, stop,
            )  # fmt: skip
            numbers[STEP], numbers[PHASE] = step, phase
            if arm < 0 or arm >= count:
                numbers[WRONG], numbers[WRONG_ARM] = 1, arm
            if seen.counts[WRONG]:
                numbers[WRONG] = 1
            report(memory, run, ends, counts)
            if stop[0] or numbers[WRONG]:
                return run
        return len(ends)

    return runs
