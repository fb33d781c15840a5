"""The arena: policies against each other on many problems, ranked, with a page about it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from tightrope.engine.arguments import budget_list, run_numbers, seed_number, thread_count
from tightrope.engine.progress import Progress
from tightrope.errors import InputError, PolicyError
from tightrope.experiments.arena_ranking import judged, ranked
from tightrope.experiments.arena_report import standings_html, verdicts, write
from tightrope.experiments.arena_rows import ArenaRow, Scene, row_of
from tightrope.experiments.arena_targets import Target, targets
from tightrope.experiments.base import Call, Experiment
from tightrope.experiments.reproduction import PARTS, make_folder, require_writable
from tightrope.experiments.running import Kept, parts, run_sweeps
from tightrope.policies import parse_policy
from tightrope.policies.base import IndexPolicy, Policy, set_up
from tightrope.problem import Problem
from tightrope.ready import load_problem, ready_names
from tightrope.report.extra import MODULES, require
from tightrope.results import Results
from tightrope.version import __version__

__all__ = ["BUDGETS", "PROBLEMS", "Arena", "arena", "default_policies"]

PROBLEMS = (
    "paper",
    "paper-arms-10",
    "paper-arms-50",
    "paper-arms-100",
    "arena-random-5",
    "arena-random-10",
    "arena-random-30",
    "arena-continuous-8",
    "arena-tight",
    "arena-free",
    "arena-cheap",
    "arena-two-limits",
    "arena-three-limits",
    "advertising",
    "hiring",
    "wireless",
    "arena-abrupt",
    "arena-drift",
)
BUDGETS = (100.0, 300.0, 1000.0, 10_000.0, 100_000.0)  # in largest costs of one pull
VERDICT = 10_000.0  # the budget of verdicts

# One more contestant is one more line here; a name without a policy is passed over.
CONTESTANTS = (
    "resolve",
    "resolve:risk=0.01",
    "lyon",
    "lyon:delta0=15",
    "lyon-ts",
    "lyon-wilson",
    "ucb-lp",
    "ts-lp",
    "primal-dual-bwk",
    "pessimistic-optimistic",
    "ucb-bwi",
    "epsilon-greedy",
    "budgeted-ts",
    "omega-ucb",
    "lyoff",
    "stationary",
)
FORGETFUL = (  # only where the arms change
    "resolve:window0=2",
    "resolve:discount0=2",
    "lyon:alpha=0.1",
    "lyon:alpha=0.1,window0=8",
    "lyon:alpha=0.1,discount0=8",
)

FEWEST_RUNS = 24  # at large budgets
FULL_BUDGET = 10_000.0  # from here on fewer runs
LANE_SECONDS, SOLO_SECONDS = 5e-9, 60e-9  # of a pull and of an arm in it, about


@dataclass(frozen=True)
class Match(Call):
    """One policy on one problem, ready or of a file, at one budget."""

    def load(self) -> Problem:
        """The problem itself."""
        return _loaded(self.problem)

    @property
    def weight(self) -> float:
        """About how long one run takes, in seconds."""
        problem, (policy,), (budget,) = self.load(), self.policies, self.budgets
        pulls = budget / problem.scales.cost / float(problem.moments.cost.mean())
        lanes = isinstance(policy, IndexPolicy) and not problem.changes
        arm = LANE_SECONDS if lanes else SOLO_SECONDS
        return pulls * arm * float(problem.arm_count**0.7)


@lru_cache(maxsize=64)
def _loaded(name: str) -> Problem:
    return load_problem(name)


@dataclass(frozen=True, eq=False)
class Arena:
    """What came of it. ``rows`` are ranked; ``verdicts`` are by problem, at ``budget``."""

    rows: Sequence[ArenaRow]
    verdicts: Mapping[str, str]
    budget: float
    targets: Sequence[Target]
    left_out: Sequence[str]  # who could not take part, and why
    files: Sequence[Path]

    def summary(self) -> list[dict[str, Any]]:
        """The rows as dictionaries that JSON takes."""
        return [row.as_dict() for row in self.rows]

    def _repr_html_(self) -> str:
        return standings_html(self.rows, self.budget)


def default_policies() -> list[str]:
    """Everyone who takes part unless told otherwise, in the shell's words."""
    return [text for text in CONTESTANTS + FORGETFUL if _exists(text)]


def _exists(text: str) -> bool:
    """Whether the policy and its parameter are there."""
    try:
        parse_policy(text)
    except PolicyError:
        return False
    return True


def runs_at(runs: int, budget: float) -> int:
    """How many of ``runs`` are made at a budget in largest costs.

    All up to 10^4; beyond that fewer, in proportion, but not below 24.

    >>> [runs_at(200, budget) for budget in (100, 1e4, 1e5)]
    [200, 200, 24]
    """
    return min(runs, max(FEWEST_RUNS, int(runs * FULL_BUDGET / budget)))


def arena(
    problems: Sequence[str] = (),
    policies: Sequence[str] = (),
    budgets: Iterable[float] = (),
    *,
    runs: int = 200,
    seed: int = 0,
    out: str | os.PathLike[str] = "out",
    progress: Progress = None,
    fresh: bool = False,
    say: Callable[[str], None] | None = None,
) -> Arena:
    """Run the policies on the problems at the budgets and write ``arena.html`` and its files.

    ``problems`` are names or TOML files, ``policies`` as the shell writes them, ``budgets`` in
    largest costs of one pull; none given means all. See :func:`runs_at` for the runs at large
    budgets. Finished parts are kept in ``out/.partial``: after an interruption the same call goes
    on from there; ``fresh`` starts anew.
    """
    require(*MODULES)
    wanted, seed = len(run_numbers(runs)), seed_number(seed)
    sizes = budget_list(budgets or BUDGETS)
    scenes = _scenes(problems or PROBLEMS)
    named = _policies(policies or default_policies())
    require_writable(out)
    matches, left_out = _matches(scenes, named, sizes, () if policies else FORGETFUL)
    sweep = Experiment("arena", "arena", "", tuple(matches), lambda _: [], lambda _: [])
    plan = parts(sweep, lambda call: runs_at(wanted, _size(call)), seed)
    kept = Kept(Path(out) / PARTS)
    if fresh:
        kept.forget(plan)
    (evidence,) = run_sweeps([sweep], plan, kept, progress, say or (lambda line: None))
    rows = ranked(_rows(scenes, matches, evidence.results))
    budget, aims = judged(rows, VERDICT), targets(rows, scenes)
    facts = _facts(rows, wanted, seed)
    files = write(make_folder(out), rows, scenes, aims, facts, budget, left_out)
    kept.forget(plan)
    return Arena(rows, verdicts(rows, budget), budget, aims, left_out, files)


def _scenes(names: Sequence[str]) -> dict[str, Scene]:
    """The problems, each feasible."""
    _require_distinct("problem", names)
    known, scenes = ready_names(), {}
    for name in names:
        problem = _loaded(name)
        scenes[name] = Scene(name, known.get(name, problem.name or "of a file"), problem)
        scenes[name].require_feasible()
    return scenes


def _policies(texts: Sequence[str]) -> dict[str, Policy]:
    named = {policy.label: policy for policy in map(parse_policy, texts)}
    _require_distinct("policy", texts)
    if len(named) < len(texts):
        raise InputError(f"policies: {', '.join(texts)} must all be different")
    return named


def _require_distinct(what: str, texts: Sequence[str]) -> None:
    for text in texts:
        if list(texts).count(text) > 1:
            raise InputError(f"{what} {text!r} is given twice; each must be different")


def _matches(
    scenes: Mapping[str, Scene],
    policies: Mapping[str, Policy],
    budgets: Sequence[float],
    forgetful: Sequence[str],
) -> tuple[list[Match], list[str]]:
    """Who meets which problem at which budget, and a sentence on those that cannot.

    The ``forgetful`` meet only problems whose arms change.
    """
    matches: list[Match] = []
    obstacles: dict[tuple[str, str], list[str]] = {}
    for name, scene in scenes.items():
        for label, policy in policies.items():
            if label in forgetful and not scene.changes:
                continue
            try:
                for budget in budgets:
                    set_up(policy, scene.problem, budget)
            except PolicyError as error:
                obstacles[label, str(error)] = [*obstacles.get((label, str(error)), []), name]
                continue
            cost = scene.problem.scales.cost
            matches += [Match(name, (policy,), (budget * cost,)) for budget in budgets]
    if not matches:
        raise PolicyError(next(reason for _, reason in obstacles))
    told = [
        f"{label} does not take part on {', '.join(names)}: {reason}."
        for (label, reason), names in obstacles.items()
    ]
    return matches, told


def _size(call: Call) -> float:
    """The budget in largest costs."""
    return call.budgets[0] / call.load().scales.cost


def _rows(
    scenes: Mapping[str, Scene], matches: Sequence[Match], results: Sequence[Results]
) -> list[ArenaRow]:
    places = {(match.problem, match.budgets[0]) for match in matches}
    best = {place: scenes[place[0]].optimum(place[1]) for place in places}
    return [
        row_of(
            scenes[match.problem],
            found,
            match.policies[0].knows,
            best[match.problem, match.budgets[0]],
        )
        for match, found in zip(matches, results, strict=True)
    ]


def _facts(rows: Sequence[ArenaRow], runs: int, seed: int) -> list[tuple[str, str]]:
    """What was run, so that anyone can run it again."""
    problems, labels = ({getattr(row, key): 0 for row in rows} for key in ("problem", "policy"))
    counts = {row.budget: row.runs for row in sorted(rows, key=lambda row: row.budget)}
    fewer = [f"{count:,} at {budget:,g}" for budget, count in counts.items() if count < runs]
    options = _options(problems, labels, list(counts))
    return [
        ("Problems", str(len(problems))),
        ("Policies", str(len(labels))),
        ("Budgets", ", ".join(f"{budget:,g}" for budget in counts)),
        ("Runs", "; ".join([f"{runs:,}", *fewer])),
        ("Seed", str(seed)),
        ("Threads", str(thread_count(None))),
        ("tightrope", __version__),
        ("Again", f"tightrope arena{options} --runs {runs} --seed {seed}"),
    ]


def _options(problems: Iterable[str], labels: Iterable[str], budgets: Sequence[float]) -> str:
    """The shell's options for what is not the default."""
    told = ""
    if tuple(problems) != PROBLEMS:
        told += "".join(f" --problem {name}" for name in problems)
    if set(labels) != set(default_policies()):
        told += "".join(f" --policy {label}" for label in labels)
    if tuple(budgets) != BUDGETS:
        told += "".join(f" --budget {budget:g}" for budget in budgets)
    return told
