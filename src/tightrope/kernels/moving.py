"""The loop of a run whose outcomes are told late or never, and whose arms come and go.

As ``single_run.loop``, with decisions in a view (``flight``). A pull at step t with a delay of d is
told before the decision of step t + 1 + d; a lost one never is. The cost of a pull is spent at
once, whether it is told or not. Letters: K arms, C channels, D the longest delay, J phases.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

from numba import int64

from tightrope.compiled import compile_kernel, fingerprint
from tightrope.kernels.flight import views
from tightrope.kernels.rng import WEYL
from tightrope.kernels.run_state import (
    ARMS,
    EXPLORE,
    PHASE,
    STEP,
    WRONG,
    WRONG_ARM,
    Field,
    Run,
    view,
)
from tightrope.kernels.single_run import (
    CHECK_EVERY,
    counter,
    going_on,
    learner,
    memory_of,
    policy_parts,
    queue_mover,
    report_writer,
)
from tightrope.kernels.single_run import actions as actions_of
from tightrope.kernels.spec import Spec
from tightrope.policies.choice import hashed

__all__ = ["DELAYS", "Rules", "flight_numbers", "moving_kernel", "moving_loop"]

DELAYS = 1024  # equally likely delays


class Rules(NamedTuple):
    """What is told when, and which arms may be pulled."""

    delays: Any  # [DELAYS] in decisions
    lost: Any  # the chance that an outcome is never told, times 2^32
    slots: Any  # 1 + D
    stand_ins: Any  # [J * K] see ``flight``


def flight_numbers(arms: int, channels: int, slots: int) -> int:
    """How many numbers a run needs: its key, pulls in flight, lists of what is due, outcomes."""
    return 1 + arms + slots * (3 + channels)


def moving_loop(spec: Any, target: Any, part: Any, wrap: Any, draw: Any, own: Any) -> Any:
    """A function as that of ``single_run.loop``, over a memory, its view and ``flights``.

    ``flights``: the key of the run's delays, the pulls in flight [K], the first pull due at each
    step and the next one due with each pull [slots, -1 for none], the arms and outcomes of pulls.

    It is long, and so are the lists of arguments, because compiled parts share what is around them.
    """
    layout, channels, number = Run.of(spec.penalties), 2 + spec.penalties, target.number
    spent, one, goes_on = layout.spent, number(1), going_on(spec, wrap)
    _, learn = policy_parts(spec, target, part, wrap)
    look, keep, unexplored = views(spec, target, part, wrap, learn)
    learn_told, count_in = learner(spec, part, wrap, learn), counter(spec, target, wrap)
    move, chance, random = queue_mover(spec, target, part), part(hashed), spec.words > 0
    choose, toss = own.choose, own.toss

    def deliver(memory, flights, count, slots, step, explore):
        """Tell the outcomes that are due before this step."""
        due, after, arms = 1 + count, 1 + count + slots, 1 + count + 2 * slots
        first = 1 + count + 3 * slots
        slot = int(flights[due + step % slots])
        flights[due + step % slots] = -1.0
        while slot >= 0:
            arm = int(flights[arms + slot])
            for channel in range(channels):
                memory.outcome[channel] = flights[first + slot * channels + channel]
            counting = memory.state.steps[0] >= explore
            learn_told(memory, arm)
            if counting:
                move(memory, one)
            flights[1 + arm] -= 1.0
            slot = int(flights[after + slot])

    def send(memory, flights, rules, count, step, arm):
        """Note a pull whose outcomes will be told, or not."""
        slots, key = rules.slots, int(flights[0])
        due, after, arms = 1 + count, 1 + count + slots, 1 + count + 2 * slots
        first, slot = 1 + count + 3 * slots, step % slots
        flights[1 + arm] += 1.0
        if chance(key, 2 * step + 1) < rules.lost:
            return
        delay = int(rules.delays[chance(key, 2 * step) >> 22])
        at = due + (step + 1 + delay) % slots
        flights[after + slot], flights[at] = flights[at], float(slot)
        flights[arms + slot] = float(arm)
        for channel in range(channels):
            flights[first + slot * channels + channel] = memory.outcome[channel]

    tell, note = part(deliver), part(send)

    def play(memory, seen, flights, rules, law, starts, count, explore, step, phase, until, stop):
        run, going, arm = memory.run, goes_on(memory), int64(0)
        flight = flights[1 : 1 + count]
        while going and step < until:
            while phase + 1 < len(starts) and run[spent] >= starts[phase + 1]:
                phase += 1
            tell(memory, flights, count, rules.slots, step, explore)
            if random:
                toss(memory, step)
                for word in range(len(memory.pair)):
                    seen.pair[word] = memory.pair[word]
            stand_ins = rules.stand_ins[phase * count : (phase + 1) * count]
            look(memory, seen, flight, stand_ins, memory.state.steps[0] >= explore)
            arm = int64(unexplored(seen.state, stand_ins, explore / count))
            if arm < 0:
                arm = int64(choose(seen, step))
                if arm < 0 or arm >= count:
                    break
                keep(memory, seen, stand_ins)
                arm = int64(stand_ins[arm])
            row, weyl = (phase * count + arm) * channels, step * (channels * WEYL)
            draw(memory.outcome, 0, 1, memory.words, 0, 1, weyl, law, arm, row, one)
            count_in(memory, arm)
            run[spent] += memory.outcome[0]
            note(memory, flights, rules, count, step, arm)
            going = goes_on(memory)
            step += 1
            if step % CHECK_EVERY == 0 and stop[0]:
                break
        return step, phase, arm

    return wrap(play)


@lru_cache(maxsize=64)
def moving_kernel(spec: Spec, bernoulli: bool) -> Any:
    """The CPU kernel, as ``single_run.kernel``; ``keys`` [R] are those of the runs' delays."""
    digest = fingerprint([], (spec.digest, bernoulli, "moving"))
    return compile_kernel(_moving_run(spec, bernoulli), digest)


def _moving_run(spec: Spec, bernoulli: bool) -> Any:
    draw = spec.target.draw_bits() if bernoulli else spec.target.draw_cells()
    own = actions_of(spec)
    play = moving_loop(spec, spec.target, spec.formula, spec.part, draw, own)
    memory_at, counts_of, report = memory_of(spec), view(spec, Field.COUNTS), report_writer(spec)

    def moving_run(
        block, fresh, seen_block, flights, rules, keys, seeds, policy_words, law, starts, ends,
        counts, until, stop,
    ):  # fmt: skip
        """As ``single_run``; so many parameters because a view and the flights are among them."""
        address = block.ctypes.data
        memory, numbers = memory_at(address), counts_of(address)
        seen = memory_at(seen_block.ctypes.data)
        for run in range(len(ends)):
            count = numbers[ARMS]
            if len(fresh) > 0:
                block[:] = fresh
                seen_block[:] = fresh
                flights[:] = 0.0
                flights[0] = float(keys[run])
                flights[1 + count : 1 + count + rules.slots] = -1.0
                for at in range(4):
                    memory.words[at], memory.words[4 + at] = seeds[at, run], policy_words[at, run]
            step, phase, arm = play(
                memory, seen, flights, rules, law, starts, count, numbers[EXPLORE],
                numbers[STEP], numbers[PHASE], until, stop,
            )  # fmt: skip
            numbers[STEP], numbers[PHASE] = step, phase
            if arm < 0 or arm >= count:
                numbers[WRONG], numbers[WRONG_ARM] = 1, arm
            report(memory, numbers, ends[run], counts[run])
            if stop[0] or numbers[WRONG]:
                return run
        return len(ends)

    return moving_run
