"""Read the state in snapshots of formats 2 and 3, written by version 0.2 and earlier.

Their layout is today's with fewer arrays, fewer fields in a ``State``, and other fields in the
memory of ``resolve``. Fields that no longer exist are dropped. In these formats and in format 4,
arms were watched without random checks, which start after loading.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tightrope.errors import InputError
from tightrope.kernels.run_state import ENTRIES, Field, Run, RunState
from tightrope.kernels.spec import CHOICE, SEVERAL, Spec
from tightrope.live.rebuild import renew_terms, state_at_start
from tightrope.policies.base import IndexPolicy, Policy
from tightrope.policies.lyon import LyOn
from tightrope.policies.parts.beliefs import CHANCE, KNOWN, MORE, SCALE, SIZE, WIDTH
from tightrope.policies.parts.watch import watch_of_old
from tightrope.policies.resolve import Resolve
from tightrope.policies.state import State, field_starts, record_fields
from tightrope.problem import Task

Bytes = npt.NDArray[np.uint8]

OLD_FIELDS = 27  # of the entries of today's ``Field``, the first ones
OLD_RUN = 7  # of today's ``Run``, likewise; new fields of a ``State`` come last, too
CHANGED = {"run", "constants", "wide", "rounded", "counts", "state", "starts"}
CHANGED |= {"scratch", "own_starts"}  # arrays that are not copied as they are
# The beliefs of ``resolve``, with the fields that are now in ``more``.
ARMS = (
    *("limits", "bases", "shared", "weights", "pooled", "cost_scale", "cost_width"),
    *("reward_scale", "reward_width", "penalty_scale", "penalty_width", "rare", "rare_scale"),
    *("rare_width", "any_rare", "size", "known", "rate", "spread", "cautious", "cost", "reward"),
    "penalty",
)
IN_MORE = {"size": SIZE, "known": KNOWN, "rare": CHANCE, "rare_scale": SCALE, "rare_width": WIDTH}


def read_old(
    head: Mapping[str, Any], block: Bytes, task: Task, policy: Policy, budget: float
) -> RunState:
    """The state of an old snapshot, in today's layout."""
    if head["format"] < 3 and head["spec"]["bases"]:
        raise InputError("snapshot: format 2 with limits per pull or reward is not read")
    old = _old_state(head, block, type(policy), task.arm_count)
    new = _fresh(head, old, task, policy, budget)
    for field in Field:
        if field < OLD_FIELDS and (name := field.name.lower()) not in CHANGED:
            new[name][...] = old[name] if name != "history" else _history(old, task.arm_count)
    new["counts"][:14] = old["counts"][:14]
    for name in Run._fields[:OLD_RUN]:
        getattr(new.run, name)[:] = getattr(old.run, name)
    if old.spec.remembers:
        listed = [name for name, _ in record_fields(State)]
        _copy_record(old["state"], old["starts"], listed, new.record)
    if old.spec.method == CHOICE:
        numbers, starts, fields = old["scratch"], old["own_starts"], _old_scratch(policy)
        _copy_record(numbers, starts, fields, new.scratch)
        if isinstance(policy, Resolve):
            _copy_beliefs(numbers, starts, fields, new.scratch, new.record)
    if isinstance(policy, IndexPolicy) and policy.learns:
        renew_terms(new, policy)  # in plain Python, 0.2 did not keep them
    return new


def with_coins(old: RunState, task: Task, budget: float) -> RunState:
    """A state of format 4 in today's layout, which differs if arms are watched."""
    if not old.setup.watch:
        return old
    new = state_at_start(old.spec, replace(old.setup, watch_block=1), task, budget)
    for name in (field.name.lower() for field in Field):
        new[name][...] = old[name] if name != "history" else _history(old, task.arm_count)
    return new


def _history(old: RunState, arms: int) -> Any:
    """The stored past pulls, in today's layout."""
    numbers, setup = old["history"], old.setup
    return watch_of_old(numbers, arms, old.limited) if setup.watch else numbers


def _old_state(head: Mapping[str, Any], block: Bytes, policy: type, arms: int) -> RunState:
    """The old state with today's additional arrays and fields, empty."""
    facts, dtype = head["spec"], np.dtype(head["dtype"]).type
    remembers = facts["forgets"] or facts["stateful"] or facts["method"] == CHOICE
    old_table = block[: 8 * 3 * OLD_FIELDS].copy().view(np.int64).reshape(-1, 3)
    table = np.zeros((ENTRIES, 3), np.int64)
    table[:OLD_FIELDS] = old_table
    table[:OLD_FIELDS, 0] += table.nbytes - old_table.nbytes
    parts = [block[old_table.nbytes :]]
    offset, _, count = old_table[Field.STARTS]
    starts = block[offset : offset + 8 * count].copy().view(np.int64)
    more = len(State._fields) + 1 - count
    added = {
        Field.RUN_STARTS: np.array(field_starts(Run, arms, facts["penalties"])),
        Field.STARTS: np.pad(starts, (0, more), "edge") if count else starts,
    }
    for field, numbers in added.items():
        table[field] = table.nbytes + sum(map(len, parts)), 1, len(numbers)
        parts.append(numbers.view(np.uint8))
    spec = Spec(policy, facts["method"], facts["penalties"], remembers, dtype)
    return RunState(spec, np.concatenate([table.ravel().view(np.uint8), *parts]))


def _fresh(
    head: Mapping[str, Any], old: RunState, task: Task, policy: Policy, budget: float
) -> RunState:
    """A state at the start of a run, with the old one's setup."""
    spec, facts, constants = old.spec, head["spec"], old.setup.constants
    if isinstance(policy, Resolve):  # the expected means were among its constants
        expected = task.arm_count * (2 + old.limited) if constants[3] else 0
        constants = constants[:3] + constants[4 + expected :]
    if isinstance(policy, LyOn):
        constants += (0.0,) * (4 - len(constants))  # in format 2 it had three
    if spec.remembers or not spec.indexed:
        several = old.penalties > 1 or (spec.method == CHOICE and old.limited != 1)
        spec = replace(spec, penalties=SEVERAL if several else 1, remembers=True)
    if spec.outside:
        spec = replace(spec, constants=len(constants) + 1)
    bases = tuple(facts["bases"] or ())
    setup = replace(old.setup, constants=constants, bases=bases, watch_block=1)
    return state_at_start(spec, setup, task, budget)


def _copy_record(numbers: Any, starts: Any, fields: Sequence[str], to: Any) -> None:
    """Copy the fields of a record that exist in both layouts."""
    for at, name in enumerate(fields[: len(starts) - 1]):
        target: Any = to
        for part in name.split("."):
            target = getattr(target, part, None)
        if target is not None and starts[at] < starts[at + 1]:
            target[:] = numbers[starts[at] : starts[at + 1]]


def _copy_beliefs(numbers: Any, starts: Any, fields: Sequence[str], to: Any, state: State) -> None:
    """Copy the fields of ``resolve`` that are now in ``more``, and recover the costs."""
    arms, channels = getattr(to, "beliefs", to).arms, len(state.remaining) + 1
    arms.any_part[0] = float((state.totals[::channels] != state.squares[::channels]).any())
    more = arms.more.reshape(-1, MORE)
    for at, name in enumerate(fields):
        place = IN_MORE.get(name.rpartition(".")[2])
        if place is not None:
            more[:, place] = numbers[starts[at] : starts[at + 1]]


def _old_scratch(policy: Any) -> list[str]:
    """The old fields of a choice policy's memory."""
    found: list[str] = []
    for name, _ in record_fields(policy.Scratch):
        arms, within, _ = name.rpartition("arms.")
        if not within or not isinstance(policy, Resolve):
            found.append(name)
        elif f"{arms}arms.{ARMS[0]}" not in found:
            found += [f"{arms}arms.{one}" for one in ARMS]
    return found
