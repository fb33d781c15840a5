"""Policies of a user's own that go wrong: wrong arms, and what numba cannot compile."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from tests.problems import Astray, AstrayDecider, Careful, LeastPulled, Speller, unlike
from tightrope import BackendError, LyOn, NotCompiledWarning, PolicyError, simulate

OPTIONS = {"budgets": 30, "runs": 3, "seed": 2, "progress": False}


@pytest.mark.parametrize("answer", [2, -1, 10**9, -(2**40)])
@pytest.mark.parametrize(
    ("kind", "backend"),
    [(Astray, "cpu"), (Astray, "python"), (Astray, "auto"), (AstrayDecider, "python")],
)
def test_an_arm_that_does_not_exist_is_named(paper, kind, backend, answer):
    with pytest.raises(PolicyError) as caught:
        simulate(paper, kind(answer=answer), backend=backend, **OPTIONS)
    assert str(caught.value) == (
        f"policy astray:answer={answer}: chose arm {answer} at step 5; must be a number from 0 to 1"
    )


@pytest.mark.parametrize("kind", [Astray, AstrayDecider])
def test_one_that_does_is_pulled(paper, kind):
    runs = simulate(paper, {"p": kind(answer=1)}, **OPTIONS)["p"].runs
    assert (runs.pulls[0, :, 0] == 5).all()


@pytest.mark.parametrize("policy", [Speller(), Careful()], ids=lambda policy: policy.name)
def test_what_cannot_be_compiled_runs_in_plain_python(paper, policy):
    with pytest.warns(NotCompiledWarning) as caught:
        found = simulate(paper, policy, **OPTIONS)[policy.label]
    assert len(caught) == 1
    said = str(caught[0].message)
    start = f"policy '{policy.label}' runs in plain Python, because it cannot be compiled: "
    assert said.startswith(start)
    assert len(said) > len(start) + 10
    assert "\n" not in said
    assert found.backend == "python"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plain = simulate(paper, policy, backend="python", **OPTIONS)[policy.label]
    assert unlike(found.runs, plain.runs) == []
    if isinstance(policy, Careful):
        compiled = simulate(paper, LyOn(), precision="double", **OPTIONS)["lyon"]
        assert np.array_equal(found.runs.pulls, compiled.runs.pulls)
    else:
        assert (np.abs(np.diff(found.runs.pulls, axis=-1)) <= 1).all()


@pytest.mark.parametrize("backend", ["cpu", "gpu"])
@pytest.mark.parametrize("policy", [Speller(), Careful(), LeastPulled()], ids=lambda p: p.name)
def test_a_backend_that_compiles_refuses_it_in_one_line(paper, policy, backend):
    with pytest.raises(BackendError) as caught:
        simulate(paper, policy, backend=backend, **OPTIONS)
    assert str(caught.value).startswith(f"policy '{policy.label}' cannot be compiled (")
    assert str(caught.value).endswith("); use backend 'python'")
    assert "\n" not in str(caught.value)


def test_a_policy_that_never_meant_to_be_compiled_gets_no_warning(paper):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = simulate(paper, LeastPulled(), **OPTIONS)["least-pulled"]
    assert found.backend == "python"


def test_only_those_that_cannot_be_compiled_are_slow(paper):
    with pytest.warns(NotCompiledWarning):
        results = simulate(paper, [Speller(), LyOn()], **OPTIONS)
    assert [results[label].backend for label in results.labels] == ["python", "cpu"]
