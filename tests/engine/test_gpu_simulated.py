"""The GPU's kernels where there is no GPU, and what a user hears then."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tightrope import LyOn, simulate
from tightrope.engine import gpu, planning
from tightrope.errors import BackendError

HERE = Path(__file__).parent


@pytest.mark.parametrize("file", ["test_gpu.py", "test_every_policy.py"])
def test_kernels_in_the_cuda_simulator(file):
    pytest.importorskip("numba_cuda", reason="numba-cuda is not installed")
    environment = {**os.environ, "NUMBA_ENABLE_CUDASIM": "1"}
    environment.pop("PYTEST_XDIST_WORKER", None)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-rs",
        "-p",
        "no:xdist",
        "-p",
        "no:cacheprovider",
    ]
    done = subprocess.run(
        [*command, str(HERE / file)],
        cwd=HERE.parents[1],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    assert "skipped" not in done.stdout
    assert " passed" in done.stdout


RAY_GPU = """
import numpy as np, ray
from tightrope import LyOn, ready_problem, simulate

ray.init(num_cpus=1, num_gpus=1, include_dashboard=False, log_to_driver=False)
work = dict(budgets=12.0, runs=3, progress=False)
there = simulate(ready_problem("paper"), LyOn(), backend="ray:gpu", **work)["lyon"]
here = simulate(ready_problem("paper"), LyOn(), backend="gpu", **work)["lyon"]
assert there.backend == "ray:gpu"
assert np.array_equal(there.runs.pulls, here.runs.pulls)
assert np.array_equal(there.runs.queue_max, here.runs.queue_max)
"""


def test_a_cluster_s_gpus_run_the_same_kernels():
    pytest.importorskip("ray", reason="ray is not installed")
    pytest.importorskip("numba_cuda", reason="numba-cuda is not installed")
    done = subprocess.run(
        [sys.executable, "-c", RAY_GPU],
        env={**os.environ, "NUMBA_ENABLE_CUDASIM": "1", "RAY_USAGE_STATS_ENABLED": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]


CONSTANT_ARRAYS = """
import inspect
from numba.cuda.cudadrv import nvvm
from numba.cuda.target import CUDATargetContext

assert nvvm.ADDRSPACE_CONSTANT != nvvm.ADDRSPACE_GLOBAL
assert "nvvm.ADDRSPACE_CONSTANT" in inspect.getsource(CUDATargetContext.make_constant_array)
"""


def test_numba_cuda_still_places_arrays_where_tables_in_global_memory_expects():
    pytest.importorskip("numba_cuda", reason="numba-cuda is not installed")
    environment = {name: value for name, value in os.environ.items() if "CUDASIM" not in name}
    subprocess.run([sys.executable, "-c", CONSTANT_ARRAYS], env=environment, check=True)


def test_no_numba_cuda_is_one_line_that_says_how_to_get_it(monkeypatch, paper):
    monkeypatch.setattr(gpu, "find_spec", lambda name: None)
    with pytest.raises(BackendError, match=r'pip install "tightrope\[gpu\]"'):
        simulate(paper, LyOn(), budgets=100.0, runs=2, backend="gpu", progress=False)


def test_no_device_is_one_line(paper):
    cuda = pytest.importorskip("numba.cuda")
    if cuda.is_available():
        pytest.skip("there is a device here")
    with pytest.raises(BackendError, match="found no NVIDIA device or driver"):
        simulate(paper, LyOn(), budgets=100.0, runs=2, backend="gpu", progress=False)


def test_auto_takes_a_device_only_for_work_that_is_worth_it(monkeypatch, paper):
    def engine(runs: int, budget: float, there: bool) -> str:
        monkeypatch.setattr(gpu, "available", lambda: there)
        return planning.plan_jobs(paper, {"p": LyOn()}, [budget], runs, seed=0)["p", budget].engine

    assert engine(100_000, 100_000.0, there=True) == "gpu"
    assert engine(100_000, 100_000.0, there=False) == "cpu"
    assert engine(1000, 1000.0, there=True) == "cpu"
    assert engine(10, 1e9, there=True) == "cpu"
