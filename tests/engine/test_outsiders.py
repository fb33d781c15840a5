"""Policies of a user's own that go wrong: wrong arms, errors, and what numba cannot compile."""

from __future__ import annotations

import dataclasses
import inspect
import re
import warnings
from typing import ClassVar

import numpy as np
import pytest

from tests.problems import (
    Astray,
    AstrayDecider,
    Careful,
    HalfSpelled,
    Halfway,
    LeastPulled,
    Reaching,
    Speller,
    unlike,
)
from tightrope import ChoicePolicy, Controller, LyOn, simulate, trajectory
from tightrope.engine import single
from tightrope.errors import BackendError, NotCompiledWarning, PolicyError
from tightrope.live.calls import Background
from tightrope.policies.base import Setup, limits_of

pytestmark = pytest.mark.usefixtures("unrehearsed")  # compiled code has to notice
OPTIONS = {"budgets": 30, "runs": 3, "seed": 2, "progress": False}


@pytest.mark.parametrize("answer", [2, -1, 10**9, -(2**31), -(2**40)])
@pytest.mark.parametrize(
    ("kind", "backend"),
    [(Astray, "cpu"), (Astray, "python"), (Astray, "auto"), (AstrayDecider, "python")],
)
def test_an_arm_that_does_not_exist_is_named(paper, kind, backend, answer):
    with pytest.raises(PolicyError) as caught:
        simulate(paper, kind(answer=answer), backend=backend, **OPTIONS)
    chooses = kind.choose if kind is Astray else kind.decide
    line = inspect.getsourcelines(chooses)[1]
    assert str(caught.value) == (
        f"policy astray:answer={answer}: chose arm {answer} at step 5;"
        f" must be a whole number from 0 to 1 (in {chooses.__name__}, problems.py line {line})"
    )


@pytest.mark.parametrize("backend", ["cpu", "auto", "gpu", "python"])
def test_half_an_arm_is_refused(paper, backend):
    said = {
        "python": "chose arm 0.5 at step 0; must be a whole number from 0 to 1",
        "compiled": "choose returns float64; must be a whole number, the arm to pull",
    }
    with pytest.raises(PolicyError) as caught:
        simulate(paper, Halfway(), backend=backend, **OPTIONS)
    expected = said["python" if backend == "python" else "compiled"]
    line = inspect.getsourcelines(Halfway.choose)[1]
    assert str(caught.value) == f"policy halfway: {expected} (in choose, problems.py line {line})"


def test_half_an_arm_is_refused_live(paper):
    with pytest.raises(PolicyError, match=r"^policy halfway: choose returns float64"):
        Controller(paper, Halfway(), budget=10)
    with pytest.warns(NotCompiledWarning):
        spelled = Controller(paper, HalfSpelled(), budget=10)
    with pytest.raises(PolicyError, match=r"chose arm 0.5 at step 0; must be a whole number"):
        spelled.ask()


NEVER = 10**6


@dataclasses.dataclass(frozen=True)
class Raising(ChoicePolicy):
    """Takes turns, until one of its lines fails: from so many pulls on."""

    name = "raising"
    summary = "raises an error"
    choose_by: int = NEVER
    learn_by: int = NEVER
    choose_at: int = NEVER
    learn_at: int = NEVER
    choose_said: int = NEVER
    learn_said: int = NEVER

    def setup(self, task, budget):
        return Setup(tuple(map(float, dataclasses.astuple(self))), limits_of(task))

    @staticmethod
    def choose(constants, state, scratch, words):
        if state.steps[0] >= constants[0]:
            raise ValueError("no arm is good enough")
        if state.steps[0] >= constants[2]:
            return int(state.pulls[len(state.pulls)])
        if state.steps[0] >= constants[4]:
            raise PolicyError("no arm at all")
        return int(state.steps[0]) % len(state.pulls)

    @staticmethod
    def learn(constants, state, scratch, arm):
        if state.steps[0] >= constants[1]:
            raise ArithmeticError("nothing to learn")
        if state.steps[0] >= constants[3]:
            state.squares[len(state.squares)] += 1.0
        if state.steps[0] >= constants[5]:
            raise PolicyError("nothing to be learned")


LINES = {
    "choose_by": (
        "ValueError",
        "no arm is good enough",
        'raise ValueError("no arm is good enough")',
    ),
    "learn_by": (
        "ArithmeticError",
        "nothing to learn",
        'raise ArithmeticError("nothing to learn")',
    ),
    "choose_at": (
        "IndexError",
        "index 2 is out of bounds for axis 0 with size 2",
        "return int(state.pulls[len(state.pulls)])",
    ),
    "learn_at": (
        "IndexError",
        "index 6 is out of bounds for axis 0 with size 6",
        "state.squares[len(state.squares)] += 1.0",
    ),
}
SAID = {"choose_said": "no arm at all", "learn_said": "nothing to be learned"}


def said_of(place, step):
    """What is said of a policy that fails at a place, as a pattern; ``step`` is one too."""
    kind, told, line = LINES[place]
    lines, first = inspect.getsourcelines(Raising)
    [number] = [first + at for at, text in enumerate(lines) if text.strip() == line]
    function = place.partition("_")[0]
    return (
        rf"^policy raising:{place}=5: {kind} at step {step} \({re.escape(told)}\) in {function},"
        rf" test_outsiders\.py line {number}: {re.escape(line)}$"
    )


def step_of(place):
    """The step of ``choose``; ``learn`` fails between two of them."""
    return "5" if place.startswith("choose") else "[456]"


@pytest.fixture(params=["called", "inlined"])
def form(request, monkeypatch):
    """Both forms of a kernel: a policy called at an address, and one inlined."""
    if request.param == "inlined":
        monkeypatch.setattr(single, "TO_COMPILE", 0.0)


def runs_of(paper, policy, backend="cpu", **more):
    return simulate(paper, policy, backend=backend, **OPTIONS, **more)[policy.label]


@pytest.mark.usefixtures("form")
@pytest.mark.parametrize("place", LINES)
def test_an_error_names_its_line(paper, place):
    """Compiled code would read, or write, whatever lies there."""
    policy = Raising(**{place: 5})
    for backend in ("cpu", "auto"):
        kept = runs_of(paper, Raising(), backend)
        assert kept.backend == "cpu"
        with pytest.raises(PolicyError, match=said_of(place, step_of(place))):
            runs_of(paper, policy, backend)
    with pytest.raises(PolicyError, match=said_of(place, step_of(place))):
        runs_of(paper, policy, "python")


@pytest.mark.parametrize("place", LINES)
@pytest.mark.parametrize(
    "how", [{"delay": 2}, {"delay": 2, "lost": 0.1}, {"lost": 1e-9}], ids=["late", "both", "lost"]
)
def test_an_error_names_its_line_where_outcomes_are_late(paper, place, how):
    """Also one of a decision beside what was told, for which pulls in flight are learned."""
    with pytest.raises(PolicyError, match=said_of(place, step_of(place))):
        runs_of(paper, Raising(**{place: 5}), **how)


@pytest.mark.parametrize("place", LINES)
def test_an_error_names_its_line_in_parts_of_a_run(paper, place):
    with pytest.raises(PolicyError, match=said_of(place, step_of(place))):
        trajectory(paper, Raising(**{place: 5}), budget=30, runs=2, points=20)


@pytest.mark.usefixtures("form")
@pytest.mark.parametrize("place", SAID)
def test_an_error_of_the_policy_s_own_words_is_passed_on(paper, place):
    for backend in ("cpu", "python"):
        with pytest.raises(PolicyError, match=f"^{SAID[place]}$"):
            runs_of(paper, Raising(**{place: 5}), backend)


def controller_of(paper, policy, how, monkeypatch):
    """Compiled, or in plain Python."""
    if how == "plain":
        monkeypatch.setattr(Background, "wanted", False)
    return Controller(paper, policy, budget=30, background=how == "plain")


@pytest.mark.parametrize("how", ["compiled", "plain"])
@pytest.mark.parametrize("place", [*LINES, *SAID])
def test_a_failed_call_changes_nothing(paper, place, how, monkeypatch):
    """The fifth pull, or the decision after it: the call can be made again, and fails again."""
    controller = controller_of(paper, Raising(**{place: 5}), how, monkeypatch)
    learns = place.startswith("learn")
    for _ in range(4 if learns else 5):
        controller.tell(controller.ask(), 1, 1, 0)
    said = said_of(place, "4" if learns else "5") if place in LINES else f"^{SAID[place]}$"
    if learns:
        assert controller.ask() == 0
    before, copy = controller.snapshot(), controller.copy()
    for _ in range(2):
        with pytest.raises(PolicyError, match=said):
            controller.tell(0, 1, 1, 0) if learns else controller.ask()
        assert controller.snapshot() == before
        assert controller == copy
    assert controller.in_flight == [int(learns), 0]
    assert sum(controller.pulls) == (4 if learns else 5)


@pytest.mark.parametrize("how", ["compiled", "plain"])
@pytest.mark.parametrize("place", [*LINES, *SAID])
def test_a_failed_decision_beside_pulls_in_flight_changes_nothing(paper, place, how, monkeypatch):
    """Three pulls are told and two in flight, which count as told: ``learn`` fails in the view."""
    controller = controller_of(paper, Raising(**{place: 5}), how, monkeypatch)
    for _ in range(3):
        controller.tell(controller.ask(), 1, 1, 0)
    assert controller.ask_many(2) == [1, 0]
    said = said_of(place, "3") if place in LINES else f"^{SAID[place]}$"
    before, copy = controller.snapshot(), controller.copy()
    for eligible in (None, [0, 1], ["arm 1"], None):
        with pytest.raises(PolicyError, match=said):
            controller.ask(eligible)
        assert controller.snapshot() == before
        assert controller == copy
    controller.void(0)
    assert controller.ask() == 0, "one pull less in flight, and it decides"


@pytest.mark.parametrize("place", ["choose_at", "learn_at"])
@pytest.mark.parametrize("backend", ["cpu", "auto"])
def test_an_index_far_out_of_range_ends_it(paper, backend, place):
    kept = simulate(paper, Reaching(), backend=backend, **OPTIONS)["reaching"]
    assert kept.backend == "cpu"
    told = "index 1000000 is out of bounds for axis 0 with size"
    with pytest.raises(PolicyError, match=told):
        simulate(paper, Reaching(**{place: 10**6}), backend=backend, **OPTIONS)
    with pytest.raises(PolicyError, match=told):
        simulate(paper, Reaching(**{place: 10**6}), backend="python", **OPTIONS)


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


@dataclasses.dataclass(frozen=True)
class Lister(ChoicePolicy):
    name: ClassVar[str] = "lister"
    summary: ClassVar[str] = "creates a list"

    def setup(self, task, budget):
        return Setup((0.0,), limits_of(task))

    @staticmethod
    def choose(constants, state, scratch, words):
        arms = [0, 1]
        arms.append(words[0] % 2)
        return arms[-1]


def test_a_policy_that_creates_a_list_is_told_so(paper):
    with pytest.warns(NotCompiledWarning, match="compiled: it creates a list, a dictionary"):
        assert simulate(paper, Lister(), **OPTIONS)["lister"].backend == "python"


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


def test_a_misspelled_choose_is_named():
    @dataclasses.dataclass(frozen=True)
    class Greedy(ChoicePolicy):
        name = "greedy"

        def setup(self, task, budget):
            return Setup(constants=(), allowance=limits_of(task))

        @staticmethod
        def chose(constants, state, scratch, words):
            return 0

    with pytest.raises(PolicyError, match=r"Greedy: the class has no choose; did you mean 'chose'"):
        simulate("paper", Greedy(), budgets=10, runs=2)
