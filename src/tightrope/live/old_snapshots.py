"""Read the state in snapshots of formats 2 and 3, which version 0.2 and those before it wrote.

Their blocks have the same arrays as today's, but for the order of a run's numbers, fewer fields in
a ``State``, and other fields in the memory of ``resolve``. What is not there any more is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tightrope.errors import InputError
from tightrope.kernels.argmin import envelope_of
from tightrope.kernels.run_state import KINDS, ROWS, WHOLE, Field, RunState
from tightrope.kernels.spec import CHOICE, ENVELOPE, SCAN, SEVERAL, Spec
from tightrope.live.rebuild import renew_terms
from tightrope.policies.base import IndexPolicy, Policy, Setup
from tightrope.policies.lyon import LyOn
from tightrope.policies.parts.beliefs import CHANCE, KNOWN, MORE, SCALE, SIZE, WIDTH
from tightrope.policies.resolve import Resolve
from tightrope.policies.state import State, record_fields
from tightrope.problem import Task

__all__ = ["read_old"]

Arrays = dict[str, npt.NDArray[Any]]

OLD_FIELDS = 27  # of today's ``Field``, the first ones
# A run's numbers, and how many: M penalties, C = 2 + M channels.
RUN = (
    ("queues", "3M"),
    ("spent", "1"),
    ("outcome", "C"),
    ("allowance", "M"),
    ("scale", "C"),
    ("budget", "1"),
    ("fade", "1"),
)
ADDED_TO_STATE = ("expected", "flying", "stated")  # since then
# The beliefs of ``resolve``, with what is now together in ``more``.
ARMS = (
    *("limits", "bases", "shared", "weights", "pooled", "cost_scale", "cost_width"),
    *("reward_scale", "reward_width", "penalty_scale", "penalty_width", "rare", "rare_scale"),
    *("rare_width", "any_rare", "size", "known", "rate", "spread", "cautious", "cost", "reward"),
    "penalty",
)
IN_MORE = {"size": SIZE, "known": KNOWN, "rare": CHANCE, "rare_scale": SCALE, "rare_width": WIDTH}


class OldRun(NamedTuple):
    """What a snapshot says of a run beside its arrays."""

    method: str
    penalties: int
    limited: int
    remembers: bool
    bases: tuple[float, ...]


def read_old(
    head: Mapping[str, Any], block: npt.NDArray[np.uint8], task: Task, policy: Policy, budget: float
) -> RunState:
    """The state of an old snapshot, in today's layout."""
    facts, dtype = head["spec"], np.dtype(head["dtype"]).type
    if head["format"] < 3 and facts["bases"]:
        raise InputError("snapshot: format 2 with limits per pull or reward is not read")
    method = facts["method"]
    remembers = facts["forgets"] or facts["stateful"] or method == CHOICE
    old = OldRun(
        method, facts["penalties"], facts["limited"], remembers, tuple(facts["bases"] or ())
    )
    arrays = _arrays(block, dtype)
    run = _cut(arrays["run"], RUN, old.penalties)
    setup = _setup(policy, arrays, run, old, task)
    new = _fresh(policy, setup, task, budget, old, dtype)
    _copy_plain(arrays, new)
    for name, numbers in run.items():
        getattr(new.run, name)[:] = numbers
    if remembers:
        listed = [name for name, _ in record_fields(State) if name not in ADDED_TO_STATE]
        _copy_record(arrays["state"], arrays["starts"], listed, new.record)
    if method == CHOICE:
        numbers, starts = arrays["scratch"], arrays["own_starts"]
        fields = _old_scratch(policy)
        _copy_record(numbers, starts, fields, new.scratch)
        if isinstance(policy, Resolve):
            _copy_beliefs(numbers, starts, fields, new.scratch, new.record)
    if isinstance(policy, IndexPolicy) and policy.learns:
        renew_terms(new, policy)  # in plain Python, 0.2 did not keep them
    return new


def _arrays(block: npt.NDArray[np.uint8], dtype: type) -> Arrays:
    """The arrays of an old block by name."""
    table = block[: 8 * 3 * OLD_FIELDS].copy().view(np.int64).reshape(-1, 3).tolist()
    found = {}
    for field, (offset, rows, columns) in zip(Field, table, strict=False):
        kind = np.dtype(KINDS.get(field, WHOLE[dtype] if field is Field.BITS else dtype))
        size = rows * columns * kind.itemsize
        if min(offset, rows, columns) < 0 or offset + size > len(block):
            raise ValueError("its state has parts beyond its end")
        array = block[offset : offset + size].copy().view(kind)
        found[field.name.lower()] = array.reshape(rows, columns) if field in ROWS else array
    return found


def _cut(numbers: Any, fields: Iterable[tuple[str, str]], penalties: int) -> Arrays:
    sizes = {"1": 1, "M": penalties, "C": 2 + penalties, "3M": 3 * penalties}
    found, first = {}, 0
    for name, size in fields:
        found[name] = numbers[first : first + sizes[size]]
        first += sizes[size]
    return found


def _setup(policy: Policy, arrays: Arrays, run: Arrays, old: OldRun, task: Task) -> Setup:
    """The setup that the old state was made for."""
    arms, fade = task.arm_count, float(run["fade"][0])
    constants = arrays["wide"][:-1].tolist()
    if isinstance(policy, Resolve):  # the expected means were among its constants
        expected = arms * (2 + old.limited) if constants[3] else 0
        constants = constants[:3] + constants[4 + expected :]
    if isinstance(policy, LyOn):
        constants += [0.0] * (4 - len(constants))  # in format 2 it had three
    terms, rows = None, 2 * (1 + old.penalties)
    if not getattr(policy, "learns", True) and old.method != CHOICE:
        terms = arrays["places"][:rows, :arms].T.reshape(arms, -1, 2)
    return Setup(
        constants=tuple(constants),
        allowance=tuple(run["allowance"][: old.limited].tolist()),
        explore=int(arrays["counts"][1]) // arms,
        terms=terms,
        window=len(arrays["history"]) // (3 + old.limited) if fade > 0.0 else 0,
        fade=max(fade, 0.0) or 1.0,
        watch=max(-fade, 0.0),
        bases=old.bases,
    )


def _fresh(
    policy: Policy, setup: Setup, task: Task, budget: float, old: OldRun, dtype: type
) -> RunState:
    """A state at the start of a run, with the old one's setup."""
    stated = old.remembers or old.method not in (SCAN, ENVELOPE, "sieve")
    several = SEVERAL if old.penalties > 1 or (old.method == CHOICE and old.limited != 1) else 1
    outside = not type(policy).__module__.startswith("tightrope.")
    spec = Spec(
        policy=type(policy),
        method=old.method,
        penalties=several if stated else old.penalties,
        remembers=stated,
        dtype=dtype,
        constants=len(setup.constants) + 1 if outside else 0,
    )
    return RunState.new(
        spec,
        task.arm_count,
        setup,
        task.normal_budget(budget),
        task.at(budget),
        scales=task.scales.channels,
        envelope=envelope_of(spec, setup) if spec.method == ENVELOPE else None,
    )


def _copy_plain(arrays: Arrays, new: RunState) -> None:
    """Copy the arrays that are as they were."""
    changed = {"run", "constants", "wide", "rounded", "state", "starts", "scratch", "own_starts"}
    for name, numbers in arrays.items():
        if name == "counts":
            new[name][:14] = numbers[:14]
        elif name not in changed:
            new[name][...] = numbers


def _copy_record(numbers: Any, starts: Any, fields: Sequence[str], to: Any) -> None:
    """Copy the fields of a record that are still there."""
    for at, name in enumerate(fields[: len(starts) - 1]):
        target: Any = to
        for part in name.split("."):
            target = getattr(target, part, None)
        if target is not None:
            target[:] = numbers[starts[at] : starts[at + 1]]


def _copy_beliefs(numbers: Any, starts: Any, fields: Sequence[str], to: Any, state: State) -> None:
    """Copy what ``resolve`` now has together in ``more``; see what the costs were."""
    arms, channels = getattr(to, "beliefs", to).arms, len(state.remaining) + 1
    arms.any_part[0] = float((state.totals[::channels] != state.squares[::channels]).any())
    more = arms.more.reshape(-1, MORE)
    for at, name in enumerate(fields):
        place = IN_MORE.get(name.rpartition(".")[2])
        if place is not None:
            more[:, place] = numbers[starts[at] : starts[at + 1]]


def _old_scratch(policy: Any) -> list[str]:
    """The fields of a choice policy's memory, as they were."""
    found: list[str] = []
    for name, _ in record_fields(policy.Scratch):
        arms, within, _ = name.rpartition("arms.")
        if not within or not isinstance(policy, Resolve):
            found.append(name)
        elif f"{arms}arms.{ARMS[0]}" not in found:
            found += [f"{arms}arms.{one}" for one in ARMS]
    return found
