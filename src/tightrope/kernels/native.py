"""One compiled interface for every policy: ``choose(address) -> arm`` and ``learn(address, row)``.

A policy compiles to these two functions over a run's block. The loops around them are compiled once
for all policies, for any number of arms and limits, and kept on the disk: a run, a run with delays,
ask, ask with pulls in flight, and tell. They call the policy at its address. An error in a policy
is returned as a status (``compiled.FAILED``). Forgetting pulls is a third function of this kind,
one for all policies: a run that forgets nothing does not compile it.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np
from numba import types

from tightrope.compiled.functions import (
    address_of,
    compile_function,
    compile_kernel,
    copied,
    direct_call,
    inlined,
    separate,
)
from tightrope.compiled.memory import four_at
from tightrope.kernels import live
from tightrope.kernels.actions import (
    Actions,
    Common,
    actions,
    any_target,
    common,
    forget_at_address,
    forgetter,
    of_any_policy,
)
from tightrope.kernels.flight import Views, views
from tightrope.kernels.memory import memory_of
from tightrope.kernels.memory import of_any_policy as any_memory
from tightrope.kernels.moving import all_moving_runs, moving_loop
from tightrope.kernels.run_state import STEP
from tightrope.kernels.single_run import all_runs, loop, report_writer
from tightrope.kernels.spec import Spec

NUMBERS = types.Array(types.float64, 1, "C")


class Native(NamedTuple):
    """The addresses of the functions that loops call, and the kernels that they belong to."""

    choose: int
    learn: int
    forget: int  # 0 in a run that forgets nothing
    kernels: tuple[Any, ...]

    @property
    def addresses(self) -> tuple[int, int, int]:
        """The addresses as an argument of the loops."""
        return self.choose, self.learn, self.forget


def native(spec: Spec, forgets: bool = False) -> Native:
    """The functions of a run, which ``forgets`` pulls or not: compiled, or loaded from the disk."""
    policy = _of_policy(spec)
    if not forgets:
        return policy
    address, kernel = _forgetting()
    return policy._replace(forget=address, kernels=(*policy.kernels, kernel))


@cache
def _forgetting() -> tuple[int, Any]:
    memory_at, forget = any_memory(), forgetter(_long, _wrap)

    def forget_at(address, row):
        return np.int64(forget(memory_at(address, (0, 0, 0)), row))

    kernel, word = compile_kernel(forget_at), types.int64
    return address_of(kernel, word, word), kernel


@lru_cache(maxsize=256)
def _of_policy(spec: Spec) -> Native:
    made, memory_at = actions(spec), memory_of(spec)
    choose, learn = made.choose, made.learn

    def choose_at(address):
        memory = memory_at(address)
        return np.int64(choose(memory, memory.counts[STEP]))

    def learn_at(address, row):
        learn(memory_at(address), row)
        return np.int64(0)

    kernels = compile_kernel(choose_at), compile_kernel(learn_at)
    word = types.int64
    return Native(address_of(kernels[0], word), address_of(kernels[1], word, word), 0, kernels)


def _part(function: Any, dtype: Any = None) -> Any:
    return compile_function(function, dtype, inlined)


def _wrap(function: Any) -> Any:
    return compile_function(function, None, copied)


def _long(function: Any) -> Any:
    return compile_function(function, None, separate)


@cache
def _parts() -> tuple[Any, Actions, Common, Any]:
    """The step functions, the actions and the shared parts, for any policy."""
    target, own = any_target(), of_any_policy(_wrap)
    shared = common(target, own.learn, _part, _wrap, forget_at_address(_wrap))
    return target, own, shared, any_memory()


@cache
def single_run() -> Any:
    """The kernel of a run for any policy; after the arguments of ``all_runs`` its addresses."""
    target, own, shared, memory_at = _parts()
    play = loop(target, _wrap, target.draw_cells(), own, shared)
    runs = _wrap(all_runs(play, report_writer(_wrap)))

    def run(block, fresh, seeds, policy_words, law, starts, mix, ends, counts, until, stop, policy):
        """It has many parameters because numba takes each array separately."""
        memory = memory_at(block.ctypes.data, policy)
        return runs(
            memory, block, fresh, seeds, policy_words, law, starts, mix, ends, counts, until, stop
        )

    return compile_kernel(run)


@cache
def _views() -> Views:
    target, own, shared, _ = _parts()
    return views(target, _part, own.learn, shared)


@cache
def moving_run() -> Any:
    """The kernel of a run with delays for any policy, likewise."""
    target, own, shared, memory_at = _parts()
    play = moving_loop(target, _part, _wrap, target.draw_cells(), own, shared, _views())
    runs = _wrap(all_moving_runs(play, report_writer(_wrap)))

    def run_late(
        block, fresh, seen_block, flights, rules, keys, seeds, policy_words, law, starts, mix,
        ends, counts, until, stop, policy,
    ):  # fmt: skip
        """It has many parameters because numba takes each array separately."""
        memory = memory_at(block.ctypes.data, policy)
        seen = memory_at(seen_block.ctypes.data, policy)
        return runs(
            memory, seen, block, fresh, seen_block, flights, rules, keys, seeds, policy_words, law,
            starts, mix, ends, counts, until, stop,
        )  # fmt: skip

    return compile_kernel(run_late)


class LiveCalls(NamedTuple):
    """The functions of a live run, see ``live``.

    ``run`` is the address of four numbers: the addresses of the run's block and those of
    ``Native.addresses``. One argument takes less time than four.
    """

    tell: Any  # (run, arm, cost, reward, penalty) -> the next arm if it is known
    ask: Any  # run -> the next arm
    ask_beside: Any  # (run, view, flight, stand_ins) -> the next arm; ``view``: a block's address


def _brief(kernel: Any) -> Any:
    """A kernel that keeps Python's lock: to let go of it takes longer than many a step."""
    return compile_kernel(kernel, nogil=False)


@cache
def live_calls() -> LiveCalls:
    """Compiled, or loaded from the disk."""
    _, own, shared, memory_at = _parts()
    tell, ask = _wrap(live.telling(own, shared, _part)), _wrap(live.asking(own, shared, _part))
    beside = _wrap(live.asking_beside(own, shared, _views(), _part))

    def tell_any(run, arm, cost, reward, penalty):
        block, choose, learn, forget = four_at(run)
        return tell(memory_at(block, (choose, learn, forget)), arm, cost, reward, penalty)

    def ask_any(run):
        block, choose, learn, forget = four_at(run)
        return ask(memory_at(block, (choose, learn, forget)))

    def ask_beside_any(run, view, flight, stand_ins):
        block, choose, learn, forget = four_at(run)
        policy = (choose, learn, forget)
        return beside(memory_at(block, policy), memory_at(view, policy), flight, stand_ins)

    word, number = types.int64, types.float64
    return LiveCalls(
        direct_call(_brief(tell_any), word, word, number, number, number),
        direct_call(_brief(ask_any), word),
        direct_call(_brief(ask_beside_any), word, word, NUMBERS, NUMBERS),
    )
