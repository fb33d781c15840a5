"""A controller as bytes: a magic word, a checksum, a line of JSON, and the state's block."""

from __future__ import annotations

import hashlib
import json
import operator
from collections.abc import Iterator
from dataclasses import MISSING, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from tightrope.engine.arguments import as_seeing
from tightrope.errors import InputError
from tightrope.kernels.aligned import aligned_copy
from tightrope.kernels.run_state import RunState
from tightrope.kernels.spec import SCAN, Spec
from tightrope.live.beside import Beside
from tightrope.live.old_snapshots import read_old, with_coins
from tightrope.live.rebuild import with_sieve
from tightrope.policies.base import Policy
from tightrope.problem import Task, check_budget
from tightrope.version import __version__

MAGIC = b"tightrope controller\n"
FORMAT = 5  # version of the format
OLD = (2, 3)  # other versions that are read, besides 4


def pack(
    task: Task, policy: Policy, budget: float, state: RunState, arm: int, beside: Beside
) -> bytes:
    """A controller's snapshot; ``arm`` is the next decision if it is already made."""
    spec, kind = state.spec, type(policy)
    head = {
        "format": FORMAT,
        "version": __version__,
        "task": task.whole.to_toml(),
        "policy": [kind.__module__, kind.__qualname__],
        "parameters": _parameters(policy),
        "budget": budget,
        "arm": arm,
        "beside": beside.table(),
        "spec": {f.name: getattr(spec, f.name) for f in fields(spec) if f.name not in NAMED},
        "dtype": np.dtype(spec.dtype).name,
    }
    return sealed(json.dumps(head).encode() + b"\n" + state.block.tobytes())


def sealed(content: bytes) -> bytes:
    """The content with the magic word and its checksum in front."""
    return MAGIC + hashlib.sha256(content).hexdigest().encode() + b"\n" + content


def _parameters(policy: Policy) -> dict[str, Any]:
    return {field.name: getattr(policy, field.name) for field in fields(policy)}  # type: ignore[arg-type]


def _defaults(policy: Policy) -> dict[str, Any]:
    """The parameters that have a default, as JSON has them."""
    listed = fields(policy)  # type: ignore[arg-type]
    found = {one.name: one.default for one in listed if one.default is not MISSING}
    return dict(json.loads(json.dumps(found)))


NAMED = ("policy", "dtype")  # fields of a spec that are not plain values


def _opened(saved: bytes) -> tuple[bytes, bytes]:
    """The line of JSON and the block of a snapshot; raises for anything else."""
    if not isinstance(saved, bytes | bytearray | memoryview):
        raise InputError(f"snapshot: {type(saved).__name__} must be bytes from snapshot()")
    saved = bytes(saved)
    if not saved.startswith(MAGIC):
        raise InputError(f"snapshot: {len(saved)} bytes must come from snapshot()")
    _, _, content = saved[len(MAGIC) :].partition(b"\n")
    if saved != sealed(content):
        raise InputError(f"snapshot: is damaged; the checksum of {len(saved)} bytes is wrong")
    line, _, block = content.partition(b"\n")
    return line, block


def unpack(saved: bytes, policy: Policy | None) -> tuple[Any, ...]:
    """The arguments of :func:`pack`; raises a one-line ``InputError`` for invalid bytes."""
    line, block = _opened(saved)
    try:
        return _unpacked(json.loads(line), np.frombuffer(block, np.uint8), policy)
    except InputError:
        raise
    except Exception as error:  # the checksum is right, so the snapshot was written like this
        told = " ".join(str(error).split()) or type(error).__name__
        raise InputError(f"snapshot: cannot be read ({told:.200})") from error


def task_of(saved: bytes) -> Task:
    """The task of a snapshot, with any policy; raises a one-line ``InputError`` like unpack."""
    return Task.from_toml(json.loads(_opened(saved)[0])["task"])


def _unpacked(
    head: dict[str, Any], block: npt.NDArray[np.uint8], policy: Policy | None
) -> tuple[Any, ...]:
    if head["format"] not in (*OLD, 4, FORMAT):
        raise InputError(f"snapshot: format {head['format']!r} must be {OLD[0]} to {FORMAT}")
    task = Task.from_toml(head["task"])
    found, (_, name) = policy or _policy(head), head["policy"]
    if type(found).__qualname__ != name:  # one made before a promise was possible continues
        found = found.for_task(task)
    found = as_seeing(found, task)
    if found.contextual:
        task = task.over_rows
    given = type(found).__qualname__
    saved = {**_defaults(found), **head["parameters"]}  # a later version may have more of them
    if name != given or json.loads(json.dumps(_parameters(found))) != saved:
        raise InputError(
            f"snapshot: its policy is {name} {head['parameters']}; must not be given {found}"
        )
    arm, budget = operator.index(head["arm"]), check_budget(head["budget"])
    envelope = head["spec"]["method"] == "envelope"  # how versions before 0.3 found an index
    if envelope:
        head["spec"]["method"] = SCAN  # which has all other arrays
    if head["format"] in OLD:
        state = read_old(head, block, task, found, budget)
    else:
        spec = Spec(policy=type(found), dtype=np.dtype(head["dtype"]).type, **head["spec"])
        state = RunState(spec, aligned_copy(block))
    if head["format"] == 4:
        state = with_coins(state, task, budget)
    if envelope:
        state = with_sieve(state, task, found, budget)
    if len(state["totals"]) != task.arm_count or not -1 <= arm < task.arm_count:
        raise ValueError(f"its state is not of {task.arm_count} arms")
    return task, found, budget, state, arm, Beside.of_table(head.get("beside", {}), task.arm_count)


def _policy(head: dict[str, Any]) -> Policy:
    """The policy, if its class is already imported; a snapshot must not import modules."""
    module, name = head["policy"]
    places = {module, module.replace(".policies.", ".policies.rivals.")}  # 0.2 had no rivals
    for kind in _kinds(Policy):  # type: ignore[type-abstract]
        if kind.__module__ in places and kind.__qualname__ == name:
            plain = {
                key: tuple(value) if isinstance(value, list) else value
                for key, value in head["parameters"].items()
            }
            return kind(**plain)
    raise InputError(
        f"snapshot: its policy {module}.{name} is not imported here; import it, or pass the "
        "policy to restore"
    )


def _kinds(kind: type[Policy]) -> Iterator[type[Policy]]:
    for one in kind.__subclasses__():
        yield one
        yield from _kinds(one)
