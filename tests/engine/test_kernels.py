"""Compiled kernels on the disk: found again, never taken for one another."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap

import numpy as np

from tightrope import LyOn, UCBBwI
from tightrope.compiled import compile_function, fingerprint
from tightrope.kernels.simd import Kernel

PROGRAM = textwrap.dedent(
    """
    import json, sys
    from tests.conftest import bernoulli_problem
    from tightrope import LyOn, simulate
    means = [(0.4, 0.8, 0.6, 0.5, 0.4), (0.6, 0.6, 0.3, 0.1, 0.2)]
    for penalties in map(int, sys.argv[1:]):
        used = [m[: 2 + penalties] for m in means]
        problem = bernoulli_problem(used, (0.8, 0.7, 0.6)[:penalties])
        results = simulate(problem, LyOn(), budgets=80, runs=20, precision="double")
        plain = simulate(problem, LyOn(), budgets=80, runs=20, backend="python")
        record = results["lyon"]
        same = record.runs.pulls.tolist() == plain["lyon"].runs.pulls.tolist()
        print(json.dumps([penalties, record.compile_seconds, same]))
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
    assert first[2]
    assert said == "compiling kernels, once\n"
    (two, three), said = run(tmp_path, 2, 3)
    assert two[1] > 0
    assert two[2]
    assert three == [3, 0.0, True]
    _, said = run(tmp_path, 3, 2)
    assert said == ""


def test_a_damaged_file_costs_a_compilation_not_a_crash(tmp_path):
    run(tmp_path, 1)
    for path in tmp_path.rglob("*.nbc"):
        path.write_bytes(b"not a kernel")
    (again,), _ = run(tmp_path, 1)
    assert again[1] > 0
    assert again[2]


EVERY_KIND = """
from tightrope import Controller, parse_policy, ready_problem, simulate
for text in ("lyon", "lyon:window0=1", "omega-ucb"):
    policy, problem = parse_policy(text), ready_problem("paper")
    simulate(problem, policy, budgets=20, runs=2, backend="cpu")
    Controller(problem, policy, 20).ask()
"""


def test_kernels_of_every_kind_are_found_again(tmp_path):
    """Lanes, single runs with and without a state, live calls: another process compiles nothing."""

    def files():
        made = subprocess.run(
            [sys.executable, "-c", EVERY_KIND],
            env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)},
            capture_output=True,
            text=True,
            check=True,
        )
        return {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*.nb[ci]")}, made.stderr

    first, said = files()
    assert said == "compiling kernels, once\n"
    assert len(first) >= 2 * (1 + 3 + 3 * 2)  # seeds, simulations, tell and ask
    assert files() == (first, "")


def test_the_fingerprint_tells_kernels_apart():
    def kernel(**change) -> str:
        facts = {
            "policy": LyOn,
            "penalties": 1,
            "lanes": 128,
            "arms": 2,
            "bernoulli": True,
            "dtype": np.float32,
        }
        return Kernel(**{**facts, **change}).digest

    digests = {
        kernel(),
        kernel(policy=UCBBwI),
        kernel(penalties=2),
        kernel(lanes=32),
        kernel(arms=3),
        kernel(bernoulli=False),
        kernel(dtype=np.float64),
    }
    assert len(digests) == 7
    assert kernel() == kernel()


SCALE = 2.0


def helper(x):
    return x + 0.1


def uses_helper(x):
    return helper(x) * SCALE


def test_the_fingerprint_follows_calls_and_constants(monkeypatch):
    before = fingerprint([uses_helper], [])
    monkeypatch.setitem(globals(), "SCALE", 3.0)
    assert fingerprint([uses_helper], []) != before
    monkeypatch.undo()
    monkeypatch.setitem(globals(), "helper", lambda x: x + 0.2)
    assert fingerprint([uses_helper], []) != before


def test_constants_take_the_kernels_precision():
    """As numpy computes it: single stays single, to the bit."""
    compiled = compile_function(uses_helper, "0" * 64, np.float32)
    for x in np.linspace(0, 7, 50, dtype=np.float32):
        assert compiled(x) == (x + np.float32(0.1)) * np.float32(2.0)
    assert str(compiled.nopython_signatures[0].return_type) == "float32"
