"""The GPU's kernels: on a device where there is one, in numba's CUDA simulator elsewhere.

The simulator has to be chosen before numba is imported, so on a machine without a device these
tests skip themselves and ``test_gpu_simulated.py`` runs this file again, in a process of its own.
"""

from __future__ import annotations

import inspect

import numpy as np
import pytest

from tests.conftest import bernoulli_problem
from tests.engine.wrong_policies import LATE, LATE_SAID
from tests.problems import Astray, changing, unlike
from tightrope import (
    Change,
    LyOff,
    LyOn,
    Policy,
    Problem,
    Resolve,
    Stationary,
    parse_policy,
    simulate,
)
from tightrope.engine import gpu
from tightrope.errors import PolicyError
from tightrope.kernels import cuda_thread
from tightrope.kernels.rng import OUTCOMES, WEYL, Generator, seed_words
from tightrope.kernels.step import next_word
from tightrope.policies import EpsilonGreedy, FixedArm, LyOnTS, UCBBwI, UniformRandom
from tightrope.runs import Runs

pytest.importorskip("numba_cuda", reason="numba-cuda is not installed")
from numba import config, cuda

SIMULATED = bool(config.ENABLE_CUDASIM)
pytestmark = pytest.mark.skipif(
    not cuda.is_available(), reason="no CUDA device here; test_gpu_simulated.py runs this file"
)
EXACT = [FixedArm(2), UniformRandom(), Stationary()]  # no arithmetic that a device rounds its way
ROUNDED = [LyOff(), LyOn(), LyOn(penalty_bonus="as-printed"), UCBBwI(), EpsilonGreedy()]
MANY = bernoulli_problem([(0.3 + 0.01 * k, 0.2 + 0.01 * k, 0.9 - 0.02 * k) for k in range(25)], 0.6)
TWO_LIMITS = bernoulli_problem(
    [(0.5, 0.9, 0.7, 0.2), (0.6, 0.5, 0.2, 0.6), (1.0, 0.3, 0.0, 0.1)], (0.6, 0.5)
)
NO_LIMIT = bernoulli_problem([(0.5, 0.9), (0.4, 0.3)], None)


def both(
    problem: Problem,
    policy: Policy,
    budget: float,
    runs: int,
    precision: str = "auto",
    reference: str = "cpu",
) -> tuple[Runs, Runs]:
    """The same runs on the GPU and on the CPU."""
    made = [
        simulate(
            problem,
            policy,
            budgets=budget,
            runs=runs,
            seed=3,
            backend=backend,
            progress=False,
            precision=precision,
        )[policy.label]
        for backend in ("gpu", reference)
    ]
    assert [record.backend for record in made] == ["gpu", reference]
    return made[0].runs, made[1].runs


def agree(a: Runs, b: Runs) -> None:
    """The same runs to the bit in the simulator; on a device the same means, draws in common."""
    if SIMULATED:
        assert unlike(a, b) == []
        return
    for name in ("reward", "cost", "penalty", "queue", "queue_max"):
        difference = getattr(a, name)[0] - getattr(b, name)[0]
        error = difference.std(axis=0) / np.sqrt(len(difference))
        assert np.all(np.abs(difference.mean(axis=0)) <= 4.0 * error + 1e-9), name


def size(simulated: int, device: int) -> int:
    return simulated if SIMULATED else device


@pytest.mark.parametrize("policy", EXACT, ids=lambda policy: policy.name)
@pytest.mark.parametrize("arms", ["registers", "memory"])
def test_draws_are_the_cpu_s_bits(policy, arms, paper):
    problem = paper if arms == "registers" else MANY
    if isinstance(policy, Stationary) and problem is MANY:
        policy = Stationary(tuple(np.full(25, 0.04)))
    assert unlike(*both(problem, policy, 12.0, size(3, 5000))) == []


def test_words_are_those_of_the_plain_generator():
    draw = cuda.jit(device=True)(next_word)

    @cuda.jit
    def fill(words, drawn):
        run = cuda.grid(1)
        if run < drawn.shape[0]:
            for step in range(drawn.shape[1]):
                drawn[run, step] = draw(words, run, drawn.shape[0], (step + 1) * WEYL)

    words = seed_words(7, OUTCOMES, np.arange(3)).reshape(-1)
    given, drawn = cuda.to_device(words), cuda.to_device(np.zeros((3, 40), np.uint32))
    fill[1 if SIMULATED else 128, 32](given, drawn)
    drawn = drawn.copy_to_host()
    for run in range(3):
        plain = Generator(7, OUTCOMES, run)
        assert drawn[run].tolist() == [plain.word() for _ in range(40)]


@pytest.mark.parametrize("policy", ROUNDED, ids=lambda policy: policy.label)
@pytest.mark.parametrize("arms", ["registers", "memory"])
def test_results_agree_with_the_cpu(policy, arms, paper):
    problem = paper if arms == "registers" else MANY
    agree(*both(problem, policy, size(15, 1000), size(2, 5000)))


@pytest.mark.parametrize("problem", [TWO_LIMITS, NO_LIMIT], ids=["two limits", "no limit"])
@pytest.mark.parametrize("policy", [LyOn(beta0=0.3), LyOff()], ids=lambda policy: policy.name)
def test_any_number_of_limits(problem, policy):
    agree(*both(problem, policy, size(12, 300), size(2, 5000)))


@pytest.mark.parametrize("policy", [LyOn(beta0=0.3), UniformRandom()], ids=lambda p: p.name)
def test_any_outcome_law(policy, mixed):
    on_gpu, on_cpu = both(mixed, policy, size(300, 10_000), size(2, 5000))
    agree(on_gpu, on_cpu)
    assert on_gpu.pulls.sum() > on_gpu.pulls.shape[1] * 3  # more than a pull of each


def test_without_exploration_arms_start_as_unknown(paper):
    agree(*both(paper, LyOn(beta0=0.0), size(12, 1000), size(2, 5000)))


def test_double_precision_when_asked(paper):
    agree(*both(paper, LyOn(), size(15, 1000), size(2, 2000), precision="double"))


def test_certain_outcomes_are_certain():
    problem = bernoulli_problem([(1.0, 1.0, 0.0), (1.0, 0.0, 1.0)], 0.5)
    runs, _ = both(problem, FixedArm(1), 20.0, size(3, 5000))
    assert np.all(runs.reward == 21)
    assert np.all(runs.penalty == 0)
    assert np.all(runs.cost == 21)


def test_a_run_longer_than_foreseen_is_made_again(paper, monkeypatch):
    expected, _ = both(paper, LyOn(), 12.0, 2)
    monkeypatch.setattr(gpu, "_steps", lambda job: 5)
    found, _ = both(paper, LyOn(), 12.0, 2)
    assert unlike(found, expected) == []


def test_a_clock_too_long_for_a_table_is_computed(paper, monkeypatch):
    expected, _ = both(paper, LyOn(), 12.0, 2)
    monkeypatch.setattr(gpu, "LONGEST_TABLE", 1)
    agree(both(paper, LyOn(), 12.0, 2)[0], expected)


def test_runs_do_not_depend_on_the_split(paper, monkeypatch):
    whole = simulate(paper, LyOn(), budgets=12.0, runs=4, backend="gpu", progress=False)
    monkeypatch.setattr(gpu, "MOST_RUNS", 3)
    parts = simulate(paper, LyOn(), budgets=12.0, runs=4, backend="gpu", progress=False)
    assert unlike(whole["lyon"].runs, parts["lyon"].runs) == []


# What is in double precision anyway, in the simulator without a compilation.
REFERENCE = "python" if SIMULATED else "cpu"
OVER_A_STATE = [Resolve(), Resolve(window0=1), LyOnTS(), LyOn(window0=1), LyOn(discount0=1)]


@pytest.mark.parametrize("policy", OVER_A_STATE, ids=lambda policy: policy.label)
@pytest.mark.parametrize("problem", [changing(), TWO_LIMITS, NO_LIMIT], ids=["1", "2", "0"])
def test_policies_that_choose_or_forget(problem, policy):
    agree(*both(problem, policy, size(12, 100), size(2, 500), reference=REFERENCE))


@pytest.mark.parametrize(("fewest", "own"), [(1, 4096), (10**9, 4096), (1, 0), (10**9, 0)])
@pytest.mark.parametrize("policy", [Resolve(), LyOn(window0=1.0)], ids=lambda policy: policy.name)
def test_wherever_a_thread_s_numbers_lie(policy, fewest, own, paper, monkeypatch):
    monkeypatch.setattr(cuda_thread, "FEWEST_THREADS", fewest)
    monkeypatch.setattr(cuda_thread, "OWN_NUMBERS", own)
    agree(*both(paper, policy, size(12, 300), size(3, 5000), reference=REFERENCE))


@pytest.mark.parametrize("policy", [LyOn(), UniformRandom()], ids=lambda policy: policy.label)
def test_arms_that_change(policy):
    agree(*both(changing(), policy, size(15, 300), size(2, 5000), reference=REFERENCE))


@pytest.mark.parametrize("policy", [LyOn(), Resolve(), Resolve(watch=0.3)], ids=lambda p: p.label)
def test_outcomes_told_late_and_arms_that_come_and_go(policy, paper):
    arms = list(paper.arms)
    moving = Problem(arms, paper.limits[0], changes=[Change(0.5, arms, absent=[arms[0].name])])
    for problem, delay in ((paper, 5), (moving, 0), (moving, 3)):
        made = [
            simulate(
                problem,
                policy,
                budgets=14.0,
                runs=size(2, 2000),
                seed=3,
                backend=backend,
                progress=False,
                delay=delay,
                lost=0.1 if delay else 0.0,
            )[policy.label].runs
            for backend in ("gpu", REFERENCE)
        ]
        agree(*made)


def test_any_outcome_law_of_policies_that_choose(mixed):
    agree(*both(mixed, Resolve(), size(300, 2000), size(2, 500), reference=REFERENCE))


def test_runs_over_a_state_do_not_depend_on_the_split(paper, monkeypatch):
    options = {"budgets": 8.0, "runs": 10, "backend": "gpu", "progress": False}
    whole = simulate(paper, Resolve(), **options)
    monkeypatch.setattr(gpu, "BLOCK", 4)
    monkeypatch.setattr(gpu, "MOST_RUNS", 4)
    parts = simulate(paper, Resolve(), **options)
    assert unlike(whole["resolve"].runs, parts["resolve"].runs) == []


def test_a_run_over_a_state_longer_than_foreseen_is_made_again(paper, monkeypatch):
    expected, _ = both(paper, Resolve(), 8.0, 2, reference=REFERENCE)
    monkeypatch.setattr(gpu, "_steps", lambda job: 5)
    found, _ = both(paper, Resolve(), 8.0, 2, reference=REFERENCE)
    assert unlike(found, expected) == []


@pytest.mark.usefixtures("unrehearsed")
@pytest.mark.parametrize("answer", [2, -1, 10**9])
def test_an_arm_that_does_not_exist_is_named(paper, answer):
    with pytest.raises(PolicyError) as error:
        simulate(paper, Astray(answer), budgets=20.0, runs=3, backend="gpu", progress=False)
    assert str(error.value) == (
        f"policy astray:answer={answer}: chose arm {answer} at step 5; must be a whole number"
        f" from 0 to 1 (in choose, problems.py line {inspect.getsourcelines(Astray.choose)[1]})"
    )


@pytest.mark.usefixtures("unrehearsed")
@pytest.mark.parametrize("problem", ["paper", "paper-arms-10", "arena-abrupt"])
def test_a_nan_index_is_an_error(tmp_path, problem):
    """With arms in registers, arms shared by a group of threads, and a thread for the whole run."""
    (tmp_path / "mine.py").write_text(LATE.replace("200.0", "30.0"))
    policy = parse_policy(f"{tmp_path / 'mine.py'}:Mine")
    with pytest.raises(PolicyError, match=LATE_SAID):
        simulate(problem, policy, budgets=30, runs=2, backend="gpu", progress=False)


def two_types() -> Problem:
    """Requests of two types, each with the same two arms."""
    weekday = bernoulli_problem([(0.4, 0.8, 0.6), (0.6, 0.6, 0.3)], 0.6).arms
    weekend = bernoulli_problem([(0.5, 0.3, 0.2), (0.9, 0.6, 0.1)], 0.6).arms
    arms = {"weekday": list(weekday), "weekend": list(weekend)}
    return Problem(arms, contexts={"weekday": 5, "weekend": 2}, limit=0.6)


@pytest.mark.parametrize(
    "policy", ["resolve", "resolve:risk=0.01", "lyon", "lyon-ts", "uniform-random"]
)
def test_requests_with_types(policy):
    """Policies that use the types, and policies that ignore them."""
    agree(*both(two_types(), parse_policy(policy), 60.0, size(3, 5000), reference=REFERENCE))


def test_requests_with_types_and_late_reports():
    """The loop for pulls in flight draws the same types."""
    made = [
        simulate(
            two_types(),
            "resolve",
            budgets=40,
            runs=size(3, 5000),
            seed=3,
            delay=5,
            backend=backend,
            progress=False,
        )["resolve"].runs
        for backend in ("gpu", REFERENCE)
    ]
    agree(*made)
