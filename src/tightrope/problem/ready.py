"""Ready problems by name: the paper's figures and applications, the arena's own, and routing."""

from __future__ import annotations

import os.path
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from tightrope.errors import InputError, ProblemError, nearest
from tightrope.files import read_file
from tightrope.problem import (
    Arm,
    Problem,
    Scales,
    Task,
    holds_task,
    routing,
    table_of,
)
from tightrope.problem.distributions import (
    Bernoulli,
    Beta,
    Constant,
    CostAbove,
    TruncatedNormal,
    TwoPoint,
    Uniform,
)
from tightrope.problem.values import at, shown

LIMIT = 0.8  # c in every experiment of the paper
MOST_BYTES = 2**27  # largest file to read; enough for a million arms
LOGS = (".csv", ".tsv", ".parquet", ".pq", ".jsonl", ".ndjson")  # how names of logs end
ARMS_PREFIX = "paper-arms-"


def _bernoulli_arm(name: str, cost: float, reward: float, penalty: float) -> Arm:
    return Arm(name, Bernoulli(cost), Bernoulli(reward), Bernoulli(penalty))


def _paper() -> Problem:
    arms = [_bernoulli_arm("bold", 0.4, 0.8, 0.6), _bernoulli_arm("careful", 0.6, 0.6, 0.3)]
    return Problem(arms, limit=LIMIT, name="paper")


def _paper_tradeoff() -> Problem:
    arms = [_bernoulli_arm("bold", 0.4, 0.6, 0.6), _bernoulli_arm("careful", 0.6, 0.3, 0.3)]
    return Problem(arms, limit=LIMIT, name="paper-tradeoff")


def _paper_arms(name: str) -> Problem:
    """Pairs i = 0, 1, ...: costs grow by 1.005^i, rewards and penalties by 1.01^i."""
    count = name.removeprefix(ARMS_PREFIX)
    allowed = [str(k) for k in range(2, 101, 2)]
    if count not in allowed:
        raise ProblemError(f"problem {name!r}: the number of arms must be even, 2 to 100")
    arms = []
    for i in range(int(count) // 2):
        slow, fast = 1.005**i, 1.01**i
        arms.append(_bernoulli_arm(f"bold {i + 1}", 0.4 * slow, 0.6 * fast, 0.6 * fast))
        arms.append(_bernoulli_arm(f"careful {i + 1}", 0.6 * slow, 0.3 * fast, 0.3 * fast))
    return Problem(arms, limit=LIMIT, name=name)


def _wireless() -> Problem:
    """Cost: milliseconds of a transmission, up to 20; reward: kilobits; penalty: 1 if late."""
    late = CostAbove(8.0)
    arms = [
        Arm("millimetre wave", Beta(0.6, 1.8, low=0.5, high=20.0), Uniform(20.0, 60.0), late),
        Arm("mid band", TruncatedNormal(6.0, 1.5, low=1.0, high=20.0), Uniform(20.0, 40.0), late),
        Arm("low band", Uniform(4.0, 7.0), TwoPoint(0.0, 20.0, p=0.95), late),
    ]
    return Problem(arms, limit=0.02, scales=Scales(cost=20.0, reward=60.0), name="wireless")


def _hiring() -> Problem:
    """Cost: hours of a task, up to 8; reward: its value; penalty: 1 for a task outside A.

    As in the paper, the limit is on tasks outside A per hour, not on their share of the hours.
    """
    outside, inside = Constant(1.0), Constant(0.0)
    arms = [
        Arm("established", Beta(2.0, 4.0, high=8.0), Bernoulli(0.9), outside),
        Arm("returning", Beta(2.0, 3.0, high=8.0), Bernoulli(0.8), inside),
        Arm("newcomers", Beta(3.0, 3.0, high=8.0), Bernoulli(0.7), inside),
    ]
    return Problem(arms, limit=0.2, scales=Scales(cost=8.0), name="hiring")


def _advertising() -> Problem:
    """Cost: dollars of a won auction, up to 5; reward: dollars of sales; penalty: young viewer."""
    arms = [
        Arm("video", Beta(2.0, 3.0, high=5.0), TwoPoint(0.0, 60.0, p=0.12), Bernoulli(0.7)),
        Arm("search", Uniform(0.5, 4.0), TwoPoint(0.0, 40.0, p=0.15), Bernoulli(0.2)),
        Arm("banner", Uniform(0.1, 0.5), TwoPoint(0.0, 20.0, p=0.01), Bernoulli(0.4)),
    ]
    scales = Scales(cost=5.0, reward=60.0)
    return Problem(arms, limit=0.25, scales=scales, name="advertising")


_READY: dict[str, tuple[str, Callable[[], Problem]]] = {
    "paper": ("Figure 1 of the paper: two Bernoulli arms, limit 0.8", _paper),
    "paper-tradeoff": ("Figures 4 and 5: the same arms with rewards 0.6 and 0.3", _paper_tradeoff),
    "wireless": ("packets over three channels, few later than 8 ms; cost in ms", _wireless),
    "hiring": ("tasks for three groups, few per hour for the first; cost in hours", _hiring),
    "advertising": ("three ad spots, few young viewers; cost in dollars", _advertising),
}


def _arena() -> Any:
    """The arena's problems. They are in a layer above this one, so they are imported when used."""
    return import_module("tightrope.arena.problems")


def ready_names() -> dict[str, str]:
    """The name of every ready problem and one line about it.

    ``paper-arms-K`` exists for every even K from 2 to 100. The arena's families, such as
    ``arena-random-K-S``, exist for every K from 2 (some from 3 or 4) to 100 and every seed S. The
    list has only some of them.

    >>> ready_names()["paper"]
    'Figure 1 of the paper: two Bernoulli arms, limit 0.8'
    """
    names = {name: description for name, (description, _) in _READY.items()}
    many = {
        f"{ARMS_PREFIX}{k}": f"Figures 2 and 3: {k} Bernoulli arms, limit 0.8"
        for k in (10, 20, 50, 100)
    }
    arena: dict[str, str] = _arena().LISTED
    return names | many | arena | routing.LISTED


def ready_problem(name: str) -> Problem:
    """The ready problem called ``name``.

    >>> ready_problem("paper").names
    ('bold', 'careful')
    """
    if not isinstance(name, str):
        raise ProblemError(f"problem = {shown(name)}: must be the name of a ready problem")
    if name.startswith(ARMS_PREFIX):
        return _paper_arms(name)
    if name.startswith("arena-"):
        own: Problem | None = _arena().made(name)
        if own is not None:
            return own
    if name in routing.LISTED:
        return routing.routing(name)
    if name not in _READY and _is_path(name):
        raise ProblemError(
            f"problem {name!r}: the file does not exist; must be a TOML file or a ready problem's"
            " name"
        )
    if name not in _READY:
        raise ProblemError(
            f"problem {name!r}: no such ready problem or file; {nearest(name, ready_names())}"
        )
    return _READY[name][1]()


def _is_path(name: str) -> bool:
    """Whether a name can only be the path of a file."""
    return os.path.basename(name) != name or "." in name


def load_problem(name_or_path: str | Path) -> Problem:
    """A ready problem by its name, or the problem in a TOML file.

    >>> load_problem("paper").arm_count
    2
    """
    text = _file_text(str(name_or_path))
    if text is None:
        return ready_problem(str(name_or_path))
    with at(str(name_or_path)):
        return Problem.from_toml_table(table_of(text), _folder(name_or_path))


def as_problem(problem: object) -> Problem:
    """``problem`` itself, or the one that a text names; raises if it is neither."""
    if isinstance(problem, str):
        return load_problem(problem)
    if isinstance(problem, Problem):
        return problem
    given = "a Task" if isinstance(problem, Task) else shown(problem)
    raise InputError(
        f"problem: {given} cannot be simulated; must be a Problem, with distributions for the arms"
    )


def load_task(name_or_path: str | Path) -> Task:
    """The task of a ready problem, or the task in a TOML file, with or without distributions.

    >>> load_task("paper").limit_values
    (0.8,)
    """
    text = _file_text(str(name_or_path))
    if text is None:
        return ready_problem(str(name_or_path)).task
    with at(str(name_or_path)):
        table = table_of(text)
        if holds_task(table):
            return Task.from_table(table)
        return Problem.from_toml_table(table, _folder(name_or_path)).task


def _folder(path: str | Path) -> str:
    """The folder of a file, where its rows are."""
    return os.path.dirname(os.path.abspath(path))


def _file_text(name: str) -> str | None:
    """The file's text; None for a ready problem or if there is no such file."""
    if name in ready_names():
        return None
    if not os.path.exists(name):
        return None  # maybe an unlisted ready problem; otherwise the caller raises with a hint
    if name.lower().endswith(LOGS):
        told = (
            f"this is a log; must be a TOML file. Make one with: tightrope fit {name} -o "
            "problem.toml"
        )
        raise ProblemError(f"problem {name!r}: {told}")
    content = read_file(name, "problem", MOST_BYTES, ProblemError)
    try:
        return content.decode("utf-8-sig").replace("\r\n", "\n")
    except ValueError as error:
        raise ProblemError(f"problem {name!r}: must be a readable UTF-8 file: {error}") from None
