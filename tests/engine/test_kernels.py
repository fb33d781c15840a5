"""Compiled kernels on the disk: found again, never taken for one another."""

from __future__ import annotations

import enum
import json
import os
import subprocess
import sys
import textwrap
from dataclasses import replace
from types import ModuleType

import numpy as np
import pytest

from tests.problems import compilations
from tightrope import LyOn, Problem
from tightrope.compiled.functions import compile_function, compile_kernel
from tightrope.compiled.keys import key_of
from tightrope.engine.planning import plan_jobs, with_shared_kernels
from tightrope.kernels import native
from tightrope.kernels.simd import Kernel, build
from tightrope.kernels.single_run import kernel
from tightrope.kernels.spec import CHOICE, SCAN, SEVERAL, SIEVE, Spec
from tightrope.policies import POLICIES, IndexPolicy, UCBBwI

PROGRAM = textwrap.dedent(
    """
    import json, sys
    from tests.conftest import bernoulli_problem
    from tightrope import LyOn, simulate
    from tests.problems import compilations
    from tightrope.engine import cpu
    kernels, build = [], cpu.build
    cpu.build = lambda spec: kernels.append(build(spec)) or kernels[-1]
    means = [(0.4, 0.8, 0.6, 0.5, 0.4), (0.6, 0.6, 0.3, 0.1, 0.2)]
    for penalties in map(int, sys.argv[1:]):
        used = [m[: 2 + penalties] for m in means]
        problem = bernoulli_problem(used, (0.8, 0.7, 0.6)[:penalties])
        results = simulate(problem, LyOn(), budgets=80, runs=20, precision="double")
        plain = simulate(problem, LyOn(), budgets=80, runs=20, backend="python")
        record = results["lyon"]
        same = record.runs.pulls.tolist() == plain["lyon"].runs.pulls.tolist()
        compiled = sum(map(compilations, kernels))
        print(json.dumps([penalties, record.compile_seconds, same, compiled]))
    """
)


def run(folder, *penalties: int) -> tuple[list[list[object]], str]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *map(str, penalties)],
        env={**os.environ, "NUMBA_CACHE_DIR": str(folder)},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    return [json.loads(line) for line in done.stdout.splitlines()], done.stderr


def test_a_kernel_from_the_disk_keeps_its_own_parts(tmp_path):
    """Three penalties are compiled by one process and read by another that has compiled two.

    The parts of both kernels have the same names in the source; linked together they must not mix.
    """
    (first,), said = run(tmp_path, 3)
    assert first[1] > 0
    assert first[2:] == [True, 1]
    assert said == "compiling kernels, once\n"
    (two, three), said = run(tmp_path, 2, 3)
    assert two[1] > 0
    assert two[2:] == [True, 1]
    assert 0 < three[1] < two[1]  # the time to load it
    assert three[2:] == [True, 1], "nothing more is compiled"
    lines, said = run(tmp_path, 3, 2)
    assert said == ""
    assert [line[2:] for line in lines] == [[True, 0], [True, 0]]


def test_a_damaged_file_costs_a_compilation_not_a_crash(tmp_path):
    run(tmp_path, 1)
    for path in tmp_path.rglob("*.nbc"):
        path.write_bytes(b"not a kernel")
    (again,), _ = run(tmp_path, 1)
    assert again[1] > 0
    assert again[2:] == [True, 1]


EVERY_KIND = """
from tightrope import Controller, parse_policy, ready_problem, simulate
from tightrope.engine import single
problem = ready_problem("paper")
for text in ("lyon", "lyon:window0=1", "omega-ucb"):
    policy = parse_policy(text)
    simulate(problem, policy, budgets=20, runs=2, backend="cpu")
    Controller(problem, policy, 20).ask_many(3)
simulate(problem, policy, budgets=20, runs=2, backend="cpu", delay=2)
single.TO_COMPILE = 0.0
simulate(problem, policy, budgets=20, runs=2, backend="cpu")
"""


SEEDS = 1  # the kernel that seeds generators
LOOPS = 1 + 1 + 3  # for any policy: runs, runs with delays, tell and two kinds of ask


def files_after(folder, program):
    """The kernels on the disk, with their times, after a program; and its output."""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "NUMBA_CACHE_DIR": str(folder)},
        capture_output=True,
        text=True,
        check=True,
    )
    return {p: p.stat().st_mtime_ns for p in folder.rglob("*.nbc")}, done


FORMS = """
import json, os, warnings
from pathlib import Path
from tests.conftest import bernoulli_problem
from tightrope import Controller, Limit, Problem, parse_policy, simulate
warnings.simplefilter("ignore")
folder = Path(os.environ["NUMBA_CACHE_DIR"])

def arms(means):
    return bernoulli_problem(means, [1.0] * (len(means[0]) - 2)).arms

ONE = [(0.4, 0.8, 0.6), (0.6, 0.6, 0.3)]
THREE = [(*m, 0.5, 0.4) for m in ONE]

def use(text, problem):
    policy = parse_policy(text)
    for late in ({}, {"delay": 2}):
        found = simulate(problem, policy, budgets=12, runs=2, seed=1, backend="cpu", **late)
        assert found[policy.label].backend == "cpu"
    controller = Controller(problem, policy, 12, seed=1)
    for _ in range(4):
        for arm in controller.ask_many(3):
            controller.tell(arm, 0.5, 0.5, [0.25] * len(problem.task.told))
        controller.ask(eligible=[1])
        controller.void(1)
    assert Controller.restore(controller.snapshot()) == controller

def case(name, text, means=ONE, limits=None, **more):
    limits = {"bad": Limit(0.8)} if limits is None else limits
    use(text, Problem(arms(means), limits=limits, **more))
    print(json.dumps([name, len(list(folder.rglob("*.nbc")))]))

case("plain", "resolve")
case("expected", "resolve", expected={"arm 1": {"cost": 0.5, "reward": 0.7, "bad": 0.5}})
case("hard", "resolve", limits={"bad": Limit(total=3, hard=True)})
case("per pull", "resolve", limits={"bad": Limit(0.4, per="pull")})
case("per reward", "resolve", limits={"bad": Limit(0.6, per="reward")})
case("in total", "resolve", limits={"bad": Limit(total=9)})
case("three arms", "resolve", means=[*ONE, (0.5, 0.5, 0.5)])
case("window", "resolve:window0=1")
case("discount", "resolve:discount0=1")
case("watch", "resolve:watch=0.1")
case("all of it", "resolve:window0=1", means=[*ONE, (0.5, 0.5, 0.5)],
     limits={"bad": Limit(0.4, per="pull")}, expected={"arm 2": {"reward": 0.5}})
LIMITS = {"bad": Limit(0.8), "slow": Limit(0.7, per="pull"), "dear": Limit(total=9, hard=True)}
case("three limits", "resolve", means=THREE, limits=LIMITS)
case("two limits", "resolve", means=[m[:4] for m in THREE],
     limits={"bad": Limit(0.6, per="reward"), "slow": Limit(0.7)})
case("no limit", "resolve", means=[m[:2] for m in ONE], limits={})
case("two limits, window", "resolve:window0=1", means=[m[:4] for m in THREE],
     limits={"bad": Limit(0.6), "slow": Limit(0.7)})
case("an index", "lyon:window0=1")
case("an index, hard", "lyon", limits={"bad": Limit(total=3, hard=True)})
case("an index, discount", "lyon:discount0=1", means=[*ONE, (0.5, 0.5, 0.5)])
case("an index, three limits", "lyon:window0=1", means=THREE, limits=LIMITS)
case("an index, two limits", "lyon:discount0=1", means=[m[:4] for m in THREE],
     limits={"bad": Limit(0.6), "slow": Limit(0.7)})
"""


def test_what_a_task_declares_compiles_nothing(tmp_path):
    """A policy has two functions per form, one limit or several; the rest is data.

    Forgetting is one function for all policies, compiled for the first that forgets. Simulated,
    with and without delays, and live with pulls in flight and arms left out.
    """
    files, done = files_after(tmp_path, FORMS)
    counts = [json.loads(line) for line in done.stdout.splitlines()]
    more = {
        name: count - before
        for (_, before), (name, count) in zip([["", 0], *counts], counts, strict=False)
    }
    assert more.pop("plain") == SEEDS + LOOPS + 2  # choose and learn
    assert more.pop("window") == 1  # forgetting
    assert more.pop("three limits") == 2
    assert more.pop("an index") == 2
    assert more.pop("an index, three limits") == 2
    assert len(more) == 15
    assert not any(more.values()), more
    assert len(files) == counts[-1][1]
    every_kind_is_found_again(tmp_path, files)


def every_kind_is_found_again(folder, before):
    """A process compiles what is new to it, and another one compiles nothing."""
    first, done = files_after(folder, EVERY_KIND)
    assert done.stderr == "compiling kernels, once\n"
    policies = 2 + 2  # lyon without a state, omega-ucb: choose and learn
    assert len(first) - len(before) == policies + 2  # lanes, a kernel with a policy in it
    again, done = files_after(folder, EVERY_KIND)
    assert (again, done.stderr) == (first, "")


def name_of(made) -> str:
    """A kernel's name: on the disk and in the linker it is found by this, which ends with a key."""
    return made.py_func.__name__


def test_kernels_of_lanes_are_told_apart():
    def lanes(**change) -> str:
        facts = {
            "policy": LyOn,
            "penalties": 1,
            "lanes": 128,
            "arms": 2,
            "bernoulli": True,
            "dtype": np.float32,
        }
        return name_of(build(Kernel(**{**facts, **change})))

    names = {
        lanes(),
        lanes(policy=UCBBwI),
        lanes(penalties=2),
        lanes(lanes=32),
        lanes(arms=3),
        lanes(bernoulli=False),
        lanes(dtype=np.float64),
        lanes(bases=(1.0,)),
    }
    assert len(names) == 8
    assert lanes() == lanes()


def test_kernels_of_single_runs_are_told_apart():
    def single(policy=LyOn, bernoulli=False, **change) -> str:
        facts = {"method": SCAN, "penalties": 1, "remembers": False}
        return name_of(kernel.__wrapped__(Spec(policy, **{**facts, **change}), bernoulli))

    names = {
        single(),
        single(UCBBwI),
        single(bernoulli=True),
        single(method=SIEVE),
        single(penalties=2),
        single(penalties=3),
        single(dtype=np.float32),
        single(remembers=True),
        single(remembers=True, penalties=SEVERAL),
        single(POLICIES["resolve"], method=CHOICE, remembers=True),
        single(POLICIES["resolve"], method=CHOICE, remembers=True, penalties=SEVERAL),
    }
    assert len(names) == 11
    assert single() == single()


@pytest.fixture
def uncompiled(monkeypatch):
    """A function that makes the kernels of a spec's ``choose`` and ``learn``, not yet compiled."""
    monkeypatch.setattr(native, "address_of", lambda *_: 0)
    return lambda spec: native._of_policy.__wrapped__(spec).kernels


def every_form():
    """Every policy with one limit and with several; index policies with and without a state."""
    for policy in POLICIES.values():
        indexed = issubclass(policy, IndexPolicy)
        for penalties in (1, SEVERAL):
            yield Spec(policy, SCAN if indexed else CHOICE, penalties)
        if indexed:
            methods = [SCAN, *([SIEVE] if policy.steady else [])]
            for method in methods:
                for penalties, dtype in ((1, np.float64), (2, np.float64), (1, np.float32)):
                    yield Spec(policy, method, penalties, remembers=False, dtype=dtype)


def lines_of(spec: Spec, place: int) -> str:
    """The key of what a policy says of ``choose`` (place 0) or ``learn`` (1)."""
    policy = spec.policy
    if spec.method == CHOICE:
        return key_of(spec.functions[1 + place], policy.Scratch)
    if place == 0:
        return key_of(policy.reward_index, policy.penalty_index, policy.clock, policy.random)
    return key_of(policy.reward_terms, policy.penalty_terms) if policy.learns else ""


def test_no_two_policies_share_a_function_wrongly(uncompiled):
    """A kernel of the same name is of the same lines, with the same facts compiled into it."""
    found: dict[str, set[tuple[object, ...]]] = {}
    specs = list(every_form())
    for spec in specs:
        names = [name_of(made) for made in uncompiled(spec)]
        assert names == [name_of(made) for made in uncompiled(spec)]
        form = (spec.method, spec.penalties, spec.remembers, spec.dtype, spec.words, spec.constants)
        for place, name in enumerate(names):
            found.setdefault(name, set()).add((place, lines_of(spec, place), *form))
    assert len(found) > len(specs)
    for name, uses in found.items():
        assert len(uses) == 1, name


SCALE = 2.0
TABLE = np.arange(3.0)


def helper(x):
    return x + 0.1


def uses_helper(x):
    return helper(x) * SCALE + TABLE[1]


def test_a_key_follows_calls_and_constants(monkeypatch):
    changes = {
        "SCALE": [3.0, np.float32(2.0), 2],
        "TABLE": [np.arange(3.0) + 1e-9, np.arange(3)],
        "helper": [lambda x: x + 0.2, lambda x: x - 0.1],
    }
    keys = [key_of(uses_helper)]
    for name, values in changes.items():
        for value in values:
            with monkeypatch.context() as patch:
                patch.setitem(globals(), name, value)
                keys.append(key_of(uses_helper))
    assert len(set(keys)) == 8
    assert key_of(uses_helper) == keys[0]


def test_a_key_follows_closures():
    def closed(over, also=1.0):
        def function(x, more=also):
            return helper(x) * over + more

        return key_of(function)

    values = [2.0, 3.0, 2, (2.0,), np.float32(2), np.array([2.0]), helper, uses_helper, key_of]
    keys = {closed(value) for value in values}
    assert len(keys) == len(values)
    assert closed(2.0, 2.0) not in keys, "a default"
    assert closed(2.0) in keys


def written(text: str, **names):
    """The function ``f`` of a text."""
    space = {"__name__": "a_user_s_own", **names}
    exec(textwrap.dedent(text), space)
    return space["f"]


def test_a_key_stays_where_only_words_change():
    """Docstrings, comments, lines, and other functions of the file."""
    bare = written("def f(x):\n    return 2.0 * x + g(x)\ndef g(x):\n    return x")
    told = written(
        '''
        """A file."""
        import math

        def g(x):
            """The same."""
            return x  # it is

        def another(x):
            return math.sin(x)

        def f(x):
            """Twice as much, and once more."""
            # by a sum
            return (2.0 * x
                    + g(x))
        '''
    )
    assert key_of(told) == key_of(bare)
    assert key_of(written("def f(x):\n    return 2.5 * x + g(x)\ndef g(x):\n    return x")) != (
        key_of(bare)
    )
    deeper = written("def f(x):\n    return 2.0 * x + g(x)\ndef g(x):\n    return x + 0.0")
    assert key_of(deeper) != key_of(bare)


def test_a_key_follows_what_numba_takes_for_constants():
    """Members of an enumeration, and what a module in a module holds."""

    def with_member(value):
        kind = enum.IntEnum("Kind", {"A": value})
        return key_of(written("def f(x):\n    return x + Kind.A", Kind=kind))

    def with_modules(value):
        outer, inner = ModuleType("outer"), ModuleType("outer.inner")
        outer.inner, inner.ARM = inner, value
        return key_of(written("def f(x):\n    return x + outer.inner.ARM", outer=outer))

    for made in (with_member, with_modules):
        assert made(1) == made(1)
        assert made(1) != made(2), made.__name__


def test_a_key_is_that_of_another_process(tmp_path):
    """What is found on the disk; sets and dictionaries have no order of their own there."""
    program = (
        "from tests.engine.test_kernels import uses_helper\n"
        "from tightrope.compiled.keys import key_of\n"
        "print(key_of(uses_helper, {'a', 'b', 'c'}, {'a': 1}, 0.1))"
    )
    for seed in "12":
        said = subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        assert said == key_of(uses_helper, {"a", "b", "c"}, {"a": 1}, 0.1)


def test_functions_that_call_themselves_have_a_key():
    even = written(
        "def f(n):\n    return n == 0 or odd(n - 1)\ndef odd(n):\n    return n and f(n - 1)"
    )
    other = written(
        "def f(n):\n    return n == 1 or odd(n - 1)\ndef odd(n):\n    return n and f(n - 1)"
    )
    assert len({key_of(one) for one in (even, even.__globals__["odd"], other)}) == 3
    assert key_of(even) == key_of(even)


def test_kernels_with_the_same_names_do_not_mix():
    """Two kernels, and two parts, of one name and of different texts, linked together."""

    def of(number):
        def part(x):
            return x + number

        inner = compile_function(part)

        def both(x):
            return inner(x)

        return compile_kernel(both)

    first, second, again = of(1.0), of(2.0), of(1.0)
    assert [made(0.0) for made in (first, second, again)] == [1.0, 2.0, 1.0]
    assert name_of(first) == name_of(again) != name_of(second)
    assert compilations(first) <= 1


def test_constants_take_the_kernels_precision():
    """As numpy computes it: single stays single, to the bit."""

    def scaled(x):
        return helper(x) * SCALE

    compiled = compile_function(scaled, np.float32)
    for x in np.linspace(0, 7, 50, dtype=np.float32):
        assert compiled(x) == (x + np.float32(0.1)) * np.float32(2.0)
    assert str(compiled.nopython_signatures[0].return_type) == "float32"


def test_problems_with_different_numbers_of_arms_share_a_kernel():
    """A kernel for each number would take longer to compile than short runs gain from it."""
    problems = [
        Problem.from_bernoulli(*np.random.default_rng(arms).uniform(0.2, 0.9, (3, arms)), limit=0.7)
        for arms in (2, 3, 5, 10)
    ]
    alone = [list(plan_jobs(one, {"x": LyOn()}, [40.0], 5, seed=1).values()) for one in problems]
    shared = with_shared_kernels(alone)
    assert len({job.plan.spec for (job,) in shared}) == 1
    assert len({job.plan.spec for (job,) in alone}) == 4
    for (one,), (other,) in zip(alone, shared, strict=True):
        runs = [job.plan.run(job.numbers, np.zeros(1, np.uint8))[0] for job in (one, other)]
        for name in ("reward", "penalty", "pulls", "queue_max"):
            assert np.array_equal(*(getattr(made, name) for made in runs)), name
    assert not with_shared_kernels(alone[:1])[0][0].any_arms
    long = [
        [replace(job, numbers=np.broadcast_to(0, 10**8)) for job in jobs]
        for jobs in (alone[0], alone[1])
    ]
    assert not any(job.any_arms for (job,) in with_shared_kernels(long))
