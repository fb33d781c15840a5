"""Rebuild a state for a changed task: other arms, prices, scales, limits or budget.

Reported numbers are converted to the new units; what the policy derives from them is computed
again. Scales change by powers of two, so no number is rounded. Arms keep their numbers and new arms
come last, so the old arms come first in every array.
"""

from __future__ import annotations

from dataclasses import replace
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from tightrope.kernels.run_state import ASKED, PHASE, STEP, RunState
from tightrope.kernels.spec import CHOICE, SIEVE, Spec, spec_of, stateful
from tightrope.policies.base import (
    IndexPolicy,
    Policy,
    Setup,
    Statistics,
    net_penalty,
    net_sum,
    set_up,
)
from tightrope.policies.choice import ChoicePolicy, carried_fields
from tightrope.policies.parts.watch import watch_units
from tightrope.policies.state import record_fields
from tightrope.problem import Problem, Task
from tightrope.problem.values import Floats

SUMS = ("pulls", "totals", "squares", "products", "net_squares")  # of a ``State``, by row
MANY = 128  # with more arms, a decision does not scan all of them


class Moves(NamedTuple):
    """How a state's numbers change.

    ``factors`` [2 + M]: the old scale of each channel, over the new one. ``learn``: changed arms.
    ``renew``: whether the policy's own memory must be computed again. ``types``: how many types the
    rows are of; a new arm is the last one of each.
    """

    factors: Floats
    learn: tuple[int, ...] = ()
    renew: bool = False
    types: int = 1


def new_state(
    task: Task | Problem, policy: Policy, budget: float, like: RunState | None = None
) -> RunState:
    """The state at the start of a live run.

    ``like``: a state that it continues, which sets how many pulls are remembered.
    """
    known, many = task.task, task.arm_count > MANY
    setup = set_up(policy, task, task.normal_budget(budget))
    if like is not None:
        setup = replace(setup, window=like.setup.window, fade=like.setup.fade)
    spec = spec_of(policy, setup, np.float64, many_arms=many, hard=known.hard)
    if like is not None and like.spec.remembers:
        spec = stateful(spec)
    return state_at_start(spec, setup, known, budget)


def with_record(old: RunState, task: Task, policy: Policy, budget: float) -> RunState:
    """The same state, with a ``State``; its setup is that of the old one."""
    if old.spec.remembers:
        return old
    fresh = state_at_start(stateful(old.spec), _setup_of(old), task, budget)
    return rebuilt(old, fresh, policy, Moves(np.ones(2 + task.penalty_count)))


def with_sieve(old: RunState, task: Task, policy: Policy, budget: float) -> RunState:
    """The same state, with short lists of arms to find the smallest index."""
    fresh = state_at_start(replace(old.spec, method=SIEVE), _setup_of(old), task, budget)
    return rebuilt(old, fresh, policy, Moves(np.ones(2 + task.penalty_count)))


def _setup_of(state: RunState) -> Setup:
    """The setup of a state, with the bases of its limits."""
    bases = tuple(state.run.bases.tolist())
    return replace(state.setup, bases=bases if any(bases) else ())


def state_at_start(spec: Spec, setup: Setup, known: Task, budget: float) -> RunState:
    """The state at the start of a run; ``budget`` in the task's units."""
    return RunState.new(
        spec,
        known.arm_count,
        setup,
        known.normal_budget(budget),
        known.at(float(budget)),
        scales=known.scales.channels,
    )


def rebuilt(old: RunState, new: RunState, policy: Policy, moves: Moves) -> RunState:
    """``new``, a state at the start of a run, with all the reports of ``old``."""
    for name in ("words", "pair"):
        new[name][:] = old[name]
    for entry in (STEP, ASKED, PHASE):
        new["counts"][entry] = old["counts"][entry]
    _move_run(old, new, moves.factors)
    units = np.ones(new["totals"].shape[1])  # a task without limits has a penalty that is always 0
    units[1 : 1 + len(moves.factors)] = moves.factors[: len(units) - 1]
    _move(old["totals"].ravel(), units, new["totals"].reshape(-1), moves.types)
    if new.spec.remembers:
        _move_record(old, new, moves)
    if new.spec.indexed and policy.learns:  # type: ignore[attr-defined]
        renew_terms(new, policy)  # type: ignore[arg-type]
    if new.spec.method == CHOICE:
        _move_scratch(old, new, policy, moves)  # type: ignore[arg-type]
    return new


def copy_statistics(state: RunState, arm: int, source: int, share: float) -> None:
    """Give an arm the sums of another one, times ``share``."""
    record = state.record
    for name in SUMS:
        rows = getattr(record, name).reshape(len(record.pulls), -1)
        rows[arm] = share * rows[source]


def merge_rows(state: RunState, source: int, target: int, count: int) -> None:
    """Add the sums of ``count`` rows to those of others, and clear them."""
    record, rows = state.record, len(state.record.pulls)
    sums = [getattr(record, name) for name in SUMS]
    for numbers in (state["totals"], *(one.reshape(rows, -1) for one in sums)):
        numbers[target : target + count] += numbers[source : source + count]
        numbers[source : source + count] = 0.0
    setup, history = state.setup, state["history"]
    if len(history) and not setup.watch:  # a pull in a window begins with its row
        moved = history.reshape(setup.window, -1)[:, 0]
        own = (moved >= source) & (moved < source + count)
        moved[own] += target - source


def reprice_statistics(state: RunState, arm: int, prices: Floats) -> None:
    """Change an arm's sums to what they would be at known outcomes [2 + M]; -1 where not known."""
    record = state.record
    count, limited = len(record.pulls), len(record.limits)
    pulls, totals = record.pulls[arm], record.totals.reshape(count, -1)[arm]
    squares, products = (
        record.squares.reshape(count, -1)[arm],
        record.products.reshape(count, -1)[arm],
    )
    nets = record.net_squares.reshape(count, -1)[arm]
    old = totals.copy()
    for channel in np.flatnonzero(prices >= 0.0).tolist():
        totals[channel] = pulls * prices[channel]
        squares[channel] = totals[channel] * prices[channel]
    for m in range(limited):
        base, limit = record.bases[m], record.limits[m]
        if prices[2 + m] >= 0.0:  # known: no variance except that of the limit's base
            net = net_sum(base, limit, pulls, totals[1], totals[2 + m])
            nets[m] = net * net / pulls if pulls > 0.0 else 0.0
            products[m] = totals[0] * net / pulls if pulls > 0.0 else 0.0
        elif prices[0] >= 0.0 and old[0] > 0.0:
            products[m] *= totals[0] / old[0]


def _move_run(old: RunState, new: RunState, factors: Floats) -> None:
    """The queues and the money spent."""
    penalties = new.penalties
    limits = np.resize(factors[2:], penalties) if len(factors) > 2 else np.ones(penalties)
    new.run.queues[:] = old.run.queues * np.tile(limits, 3)
    new.run.spent[0] = old.run.spent[0] * factors[0]


def _move_record(old: RunState, new: RunState, moves: Moves) -> None:
    """The ``State``: sums in new units, and the remaining budget."""
    record, factors = new.record, moves.factors
    width = len(record.totals) // len(record.pulls)
    limited = len(record.limits)
    scale = np.ones(width)
    scale[: len(factors)] = factors[:width]
    sums = _sums(old)
    units = {
        "pulls": np.ones(1),
        "totals": scale,
        "squares": scale * scale,
        "products": scale[0] * scale[2:],
        "net_squares": scale[2:] * scale[2:],
    }
    for name, unit in units.items():
        _move(sums[name], unit, getattr(record, name), moves.types)
    record.steps[0] = sums["steps"][0]
    left = np.array([scale[0], *scale[2:]])[: 1 + limited]
    start, before = record.remaining.copy(), sums["start"] * left
    unmoved = start == before
    record.remaining[:] = np.where(
        unmoved, sums["remaining"] * left, start - (before - sums["remaining"] * left)
    )
    unit = np.array([1.0, *scale])  # of a pull in a window
    if new.setup.watch:  # of the numbers of an arm that is watched
        unit = watch_units(*units.values())
    _move(old["history"], unit, new["history"], moves.types)
    if new.setup.window and moves.types > 1:  # a pull in a window begins with its row
        rows = new["history"].reshape(new.setup.window, -1)[:, 0]
        more = (len(record.pulls) - len(sums["pulls"])) // moves.types
        rows[rows > 0] += rows[rows > 0] // (len(sums["pulls"]) // moves.types) * more


def _sums(old: RunState) -> dict[str, Floats]:
    """The reported sums, by the names of ``State``'s fields, and the budget at the ``start``."""
    budget = float(old.run.budget[0])
    if old.spec.remembers:
        record = old.record
        start = np.array([budget, *(record.limits * budget)])
        return {**record._asdict(), "start": start}
    pulls, totals = old["totals"][:, 0], old["totals"][:, 1:]
    bases = old.run.bases
    limits = old.run.limits if bases.any() else np.ones(len(bases))
    start = np.array([budget, *(limits * budget)])
    used = [float(old.run.spent[0])]
    for m, base in enumerate(bases):
        net = net_penalty(
            base, limits[m], pulls.sum(), used[0], totals[:, 1].sum(), totals[:, 2 + m].sum()
        )
        used.append(float(net))
    return {
        "pulls": pulls.astype(float),
        "totals": totals.astype(float).ravel(),
        "squares": totals.astype(float).ravel(),
        "products": np.zeros(totals[:, 2:].size),
        "net_squares": totals[:, 2:].astype(float).ravel(),
        "steps": np.array([float(old["counts"][STEP])]),
        "start": start,
        "remaining": start - np.array(used),
    }


def renew_terms(new: RunState, policy: IndexPolicy) -> None:
    """The terms of every arm that was pulled."""
    setup, limited = _setup_of(new), new.penalties
    if new.spec.remembers:
        pulls = new.record.pulls
        totals = new.record.totals.reshape(len(pulls), -1)
    else:
        pulls, totals = new["totals"][:, 0], new["totals"][:, 1:]
    seen = Statistics(
        pulls.tolist(),
        totals[:, 0].tolist(),
        totals[:, 1].tolist(),
        totals[:, 2 : 2 + limited].tolist(),
    )
    constants = tuple(float(value) for value in setup.constants)
    for arm in np.flatnonzero(pulls > 0.0).tolist():
        terms = policy._terms(setup, constants, seen, arm)
        new["places"][: 2 * len(terms), arm] = np.ravel(terms)


def _move_scratch(old: RunState, new: RunState, policy: ChoicePolicy, moves: Moves) -> None:
    """The policy's own memory: copied, or computed again as far as possible."""
    kind, before, after = type(policy), old.scratch, new.scratch
    kept = {name for name, _ in record_fields(kind.Scratch)}
    if moves.renew:
        kind.renew(new.constants, new.record, after)
        kept &= {*carried_fields(kind), *kind.learned}
    for name, shape in record_fields(kind.Scratch):
        if name in kept:
            field, unit = attrgetter(name), _unit(kind.learned.get(name, ""), moves.factors)
            if "C" in shape and np.ndim(unit):  # a factor holds for all numbers of its channel
                arms = len(new.record.pulls) if "K" in shape else 1
                unit = np.append(unit, np.ones(len(new.record.remaining) + 1 - len(unit)))
                unit = np.repeat(unit, len(field(after)) // (arms * len(unit)))
            _move(field(before), unit, field(after), moves.types)
    for arm in moves.learn:
        kind.learn(new.constants, new.record, after, arm)


def _move(source: Floats, unit: Any, to: Floats, types: int) -> None:
    """Copy numbers in new units; those of new arms stay as they are."""
    parts = types if len(to) != len(source) else 1
    moved = (source * np.resize(unit, len(source))).reshape(parts, -1)
    to.reshape(parts, -1)[:, : moved.shape[1]] = moved


def _unit(kind: str, factors: Floats) -> Any:
    """The factors of a field, by its unit."""
    per_limit = factors[2:] if len(factors) > 2 else np.ones(1)
    return {
        "": 1.0,
        "outcomes": factors,
        "squares": factors * factors,
        "reward": factors[1],
        "penalties": per_limit,
        "remaining": np.array([factors[0], *factors[2:]]),
    }[kind]
