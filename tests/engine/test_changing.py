"""Arms that change while a budget is spent: where exactly, in both engines, and who adapts."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tests.conftest import by_policy
from tests.problems import AFTER, BEFORE, LAST, changing, equal, turning, unlike
from tightrope import (
    Arm,
    Change,
    Constant,
    LyOff,
    LyOn,
    Problem,
    Resolve,
    Results,
    Scales,
    Stationary,
    optimum,
    parse_policy,
    ready_problem,
    simulate,
)
from tightrope.engine import checkpoint, single
from tightrope.engine.python import play
from tightrope.errors import PolicyError
from tightrope.policies import FixedArm, UniformRandom
from tightrope.policies.base import set_up


def steady(reward, cost=1.0, penalty=0.25):
    return [Arm("only", Constant(cost), Constant(reward), Constant(penalty))]


def one_arm(rewards, at, cost=1.0, scale=1.0):
    """One arm that gives each of ``rewards`` for a while; no policy_words."""
    return Problem(
        steady(rewards[0], cost),
        limit=10.0,
        scales=Scales(cost=scale, reward=16.0),
        changes=[Change(a, steady(r, cost)) for a, r in zip(at, rewards[1:], strict=True)],
    )


def made(problem, policy, **options):
    """The runs at one budget."""
    settings = {"budgets": 60, "runs": 5, "seed": 8, "precision": "double", "progress": False}
    return simulate(problem, {"p": policy}, **settings | options)["p"].normalised_runs[0]


# Where a phase starts.


@pytest.mark.parametrize("backend", ["cpu", "python"])
@pytest.mark.parametrize(
    ("budget", "at", "pulls"),
    [
        (10, [0.5], [5, 6]),
        (10, [0.51], [6, 5]),
        (10, [0.49], [5, 6]),
        (10.9, [0.5], [6, 5]),
        (10, [0.2, 0.7], [2, 5, 4]),
        (10, [0.21, 0.22], [3, 0, 8]),
        (100, [0.07], [7, 94]),
        (100, [0.07, 0.14, 0.28, 0.29], [7, 7, 14, 1, 72]),
        (1000, [0.001], [1, 1000]),
        (10, [1e-3], [1, 10]),
        (10, [0.999], [10, 1]),
    ],
)
def test_a_pull_gets_the_arms_of_what_was_spent_before_it(backend, budget, at, pulls):
    rewards = [1.0, 0.5, 4.0, 8.0, 16.0][: len(pulls)]
    problem = one_arm(rewards, at)
    runs = made(problem, FixedArm(), budgets=budget, runs=2, backend=backend)
    earned = sum(count * reward for count, reward in zip(pulls, rewards, strict=True))
    assert (runs.pulls == sum(pulls)).all()
    assert (runs.reward * 16.0 == earned).all()
    assert optimum(problem, budget) == pytest.approx(earned, rel=1e-12)


@pytest.mark.parametrize("backend", ["cpu", "python"])
@pytest.mark.parametrize("scale", [1.0, 3.0, 0.1, 250.0])
def test_the_unit_of_cost_changes_nothing(backend, scale):
    problem = one_arm([1.0, 4.0], [0.07], cost=scale, scale=scale)
    runs = made(problem, FixedArm(), budgets=100 * scale, runs=1, backend=backend)
    assert runs.reward[0] * 16.0 == 7 * 1.0 + 94 * 4.0


@pytest.mark.parametrize("backend", ["cpu", "python"])
def test_pulls_may_cost_less_than_the_scale(backend):
    """A tenth of it: a hundred of them add up to a little less than 10 in floats."""
    problem = one_arm([1.0, 4.0], [0.5], cost=0.1)
    runs = made(problem, FixedArm(), budgets=20, runs=1, backend=backend)
    assert runs.arm_cost[0, 0] == pytest.approx(200 / 10)
    assert runs.reward[0] * 16.0 == 100 * 1.0 + 100 * 4.0


def test_starts_of_phases_are_not_after_what_they_name():
    starts = one_arm([1.0, 2.0, 3.0], [0.07, 0.57]).phase_starts(100.0)
    assert 0.07 * 100 > 7.0
    assert starts[0] <= 0.0
    assert (starts[1:] <= [7.0, 57.0]).all()
    np.testing.assert_allclose(starts, [0.0, 7.0, 57.0], rtol=0, atol=1e-8)


def test_a_phase_knows_its_arms():
    problem = changing()
    assert [phase.start for phase in problem.phases] == [0.0, 0.35, 0.7]
    assert sum(phase.share for phase in problem.phases) == pytest.approx(1.0)
    assert [phase.share for phase in problem.phases] == pytest.approx([0.35, 0.35, 0.3])
    rewards = [phase.problem.moments.reward.tolist() for phase in problem.phases]
    assert rewards == [[m[1] for m in means] for means in (BEFORE, AFTER, LAST)]
    assert not any(phase.problem.changes for phase in problem.phases)


# The two engines.


EVERY_POLICY = [
    "lyon",
    "lyon:window0=1",
    "lyon:discount0=1",
    "resolve",
    "resolve:window0=1",
    "resolve:discount0=1",
    "epsilon-greedy",
    "uniform-random",
    "ucb-bwi",
    "fixed-arm:arm=2",
    "stationary:shares=0.2/0.5/0.3",
    "ts-lp",
    "lyon-ts",
]
FEW_POLICIES = [
    "lyon",
    "lyon:window0=1",
    "lyon:discount0=1",
    "resolve:window0=1",
    "resolve:discount0=1",
    "epsilon-greedy",
]


def check_engines(problem, text, budget):
    policy = parse_policy(text)
    compiled, plain = (
        made(problem, policy, budgets=budget, backend=backend) for backend in ("cpu", "python")
    )
    assert unlike(compiled, plain) == []
    still = dataclasses.replace(problem, changes=())
    other = made(still, policy, budgets=budget, backend="cpu")
    assert not np.array_equal(other.reward, compiled.reward)


@pytest.mark.parametrize("text", by_policy(EVERY_POLICY))
def test_kernel_makes_the_decisions_of_plain_python(text):
    check_engines(changing(), text, 60)


@pytest.mark.parametrize("text", by_policy(FEW_POLICIES))
def test_kernel_makes_the_decisions_of_plain_python_on_any_law(text):
    check_engines(turning(), text, 1000)


@pytest.mark.parametrize("text", by_policy(FEW_POLICIES))
def test_kernel_makes_the_decisions_of_plain_python_without_a_limit(text):
    check_engines(changing(penalties=0), text, 50)


def test_any_split_and_any_threads_give_the_same_bits():
    policies = [LyOn(window0=1), Resolve(discount0=1), UniformRandom()]
    settings = {"budgets": [20, 50.5], "seed": 2, "progress": False}
    whole = simulate(changing(), policies, runs=30, threads=1, **settings)
    threaded = simulate(changing(), policies, runs=30, threads=2, **settings)
    parts = [
        simulate(changing(), policies, runs=part, **settings)
        for part in (range(0, 7), range(20, 30), range(7, 20))
    ]
    assert equal(whole, threaded)
    assert equal(whole, parts[0].merge(*parts[1:]))


@pytest.mark.parametrize("policy", [LyOn(), Resolve(), LyOn(window0=1)], ids=lambda p: p.label)
def test_a_change_to_the_same_arms_is_none(policy):
    """For lyon the lanes against the kernel of one run at a time."""
    repeated = changing(then=(BEFORE, BEFORE))
    still = dataclasses.replace(repeated, changes=())
    runs = [made(one, policy, budgets=80, runs=20) for one in (repeated, still)]
    assert unlike(*runs) == []


@pytest.mark.parametrize("text", ["lyon:window0=1", "resolve"])
def test_a_run_is_the_unchanging_one_until_the_change(text):
    policy, late = parse_policy(text), changing(at=(0.6,), then=(LAST,))
    still = dataclasses.replace(late, changes=())
    a, b = (list(play(one, policy, set_up(policy, one, 50.0), 50.0, 3, 0)) for one in (late, still))
    spent = np.cumsum([values[0] for _, values, _ in a])
    same = 1 + int(np.argmax(spent >= 30.0))
    assert a[:same] == b[:same]
    assert a[same:] != b[same:]


# What is refused.


def test_a_run_on_the_processors_is_named_so():
    results = simulate(changing(), [LyOn(), Resolve()], budgets=20, runs=2)
    assert [results[label].backend for label in results.labels] == ["cpu", "cpu"]


@pytest.mark.parametrize("backend", ["cpu", "python"])
@pytest.mark.parametrize("policy", [LyOff(), Stationary()], ids=["lyoff", "stationary"])
def test_policies_that_know_the_means_need_them_to_stay(policy, backend):
    for problem, which in (
        (changing(), "the problem"),
        (ready_problem("arena-abrupt"), "problem 'arena-abrupt'"),
    ):
        with pytest.raises(PolicyError) as error:
            simulate(problem, policy, budgets=100, runs=1, backend=backend)
        assert str(error.value).startswith(f"policy {policy.name}: ")
        assert f"arms that do not change; {which} changes" in str(error.value)
        assert "\n" not in str(error.value)


# Files.


def test_results_keep_the_changes(tmp_path):
    problem = changing()
    results = simulate(problem, LyOn(window0=1), budgets=30, runs=3, progress=False)
    results.save(tmp_path / "results")
    loaded = Results.load(tmp_path / "results")
    assert loaded.problem == problem
    assert loaded.problem.changes == problem.changes
    assert loaded.problem.phases[2].problem.moments.reward.tolist() == [m[1] for m in LAST]
    assert loaded.labels == ("lyon:window0=1",)
    assert equal(loaded, results)
    assert loaded.summary() == results.summary()


def test_going_on_from_a_checkpoint_gives_the_bits_of_one_go(tmp_path, monkeypatch):
    monkeypatch.setattr(single, "ARMS_PER_CHUNK", 1)
    monkeypatch.setattr(checkpoint, "FLUSH_SECONDS", 0.0)
    monkeypatch.setattr(checkpoint, "FLUSH_SHARE", 0.0)

    def go(problem=None, **options):
        settings = {"budgets": [20, 30], "runs": 12, "seed": 3, "threads": 1, "progress": False}
        policies = [LyOn(window0=1), Resolve()]
        return simulate(problem or changing(), policies, **settings | options)

    def stop(done):
        if done > 0.5:
            raise KeyboardInterrupt

    folder = tmp_path / "parts"
    part = go(checkpoint=folder, progress=stop)
    rest = go(checkpoint=folder)
    assert not part.complete
    assert rest.complete
    assert equal(rest, go())
    for other in (changing(at=(0.35, 0.71)), changing(then=(AFTER, BEFORE))):
        assert equal(go(other, checkpoint=folder), go(other))


# What forgetting is for.


def test_who_forgets_follows_the_arms():
    problem, budget = ready_problem("arena-abrupt"), 1000
    texts = ("resolve", "resolve:window0=2", "resolve:discount0=2")
    results = simulate(
        problem, [parse_policy(text) for text in texts], budgets=budget, runs=60, seed=3
    )
    best = optimum(problem, budget)
    lost = {text: 1.0 - results[text].runs.reward.mean() / best for text in texts}
    assert lost["resolve"] > 0.2
    for text in texts[1:]:
        assert lost[text] < 0.12
        over = results[text].runs.penalty[0, :, 0] / budget - problem.limits[0]
        assert over.mean() < 0.001 * problem.limits[0] + 3 * over.std() / np.sqrt(60)
