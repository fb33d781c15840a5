"""The arena: policies against each other on many problems, ranked, with a page about it."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tightrope.arena import interval_problems, typed_problems
from tightrope.arena.problems import CHANGING, SETTLED
from tightrope.arena.ranking import judged, ranked
from tightrope.arena.report import standings_html, verdicts, write
from tightrope.arena.rows import ArenaRow, Scene, row_of
from tightrope.callers import also_called, warn_caller
from tightrope.engine.arguments import (
    budget_list,
    named_policies,
    run_numbers,
    seed_number,
    thread_count,
)
from tightrope.engine.checkpoint import Checkpoint
from tightrope.engine.progress import Progress
from tightrope.engine.simulation import SimulationRequest, SimulationSettings, make
from tightrope.errors import InputError, OutsideTheoryWarning, PolicyError
from tightrope.files import PARTS, make_folder, require_folder
from tightrope.policies import POLICIES, parse_policy
from tightrope.policies.base import Policy, set_up
from tightrope.policies.naming import known_policies
from tightrope.problem import Problem
from tightrope.problem.ready import as_problem, load_problem, ready_names
from tightrope.report.extra import MODULES, require
from tightrope.results import Results
from tightrope.version import __version__

PROBLEMS = (
    "paper",
    "paper-arms-100",  # one of paper-arms-K: the others differ in their number of arms alone
    *SETTLED,
    *("advertising", "hiring", "wireless"),
    *("routing-1", "routing-2", "routing-3", "routing-4", "routing-5"),
    *CHANGING,
)
GROUPS = {  # names that stand for several problems
    typed_problems.ALL_TYPED: typed_problems.LISTED,
    interval_problems.ALL_INTERVALS: interval_problems.LISTED,
}
BUDGETS = (100.0, 1000.0, 10_000.0)  # in largest costs of one pull
VERDICT = 10_000.0  # the budget of verdicts

FEWEST_RUNS = 75  # with fewer than 73 no policy is shown to keep a limit
RUNS = FEWEST_RUNS
FULL_PULLS = 40_000.0  # of a run: from here on fewer runs

LONGEST = 400_000.0  # pulls of a run, in the usual arena

Problems = Iterable[str | Problem] | Mapping[str, Problem]
Policies = Iterable[str | Policy] | Mapping[str, Policy]


@dataclass(frozen=True, eq=False)
class Match:
    """One policy on one problem at one budget, in largest costs of one pull."""

    scene: Scene
    label: str
    policy: Policy
    budget: float

    @property
    def cost_budget(self) -> float:
        """The budget in the problem's cost units."""
        return self.budget * self.scene.problem.scales.cost

    @property
    def pulls(self) -> float:
        """About how many pulls a run takes."""
        return self.budget / float(self.scene.problem.moments.cost.mean())

    @property
    def types(self) -> str:
        """Whether the policy "uses" or "ignores" the types of requests; "" if there are none.

        Over an interval, whether it learns a "curve" or about separate "points".
        """
        problem, policy = self.scene.problem, self.policy.for_task(self.scene.problem)
        if problem.space is not None:
            return "curve" if policy.spatial else "points"
        if not self.scene.typed:
            return ""
        return "uses" if policy.contextual else "ignores"

    def request(self, runs: int) -> SimulationRequest:
        """What to ask the engine for."""
        policies = {self.label: self.policy}
        numbers = np.arange(runs_at(runs, self.pulls))
        return SimulationRequest(self.scene.problem, policies, [self.cost_budget], numbers)


@dataclass(frozen=True, eq=False)
class Arena:
    """The results of an arena.

    ``rows`` are ranked; ``verdicts`` are by problem, at ``budget`` largest costs of one pull.
    """

    rows: Sequence[ArenaRow]
    verdicts: Mapping[str, str]
    budget: float
    left_out: Sequence[str]  # policies that could not take part, and why
    files: Sequence[Path]

    def summary(self) -> list[dict[str, Any]]:
        """The rows as dictionaries that JSON takes."""
        return [row.as_dict() for row in self.rows]

    def _repr_html_(self) -> str:
        return standings_html(self.rows, self.budget)


def default_policies(typed: bool = False) -> list[str]:
    """The policies of the usual arena, as the shell writes them.

    ``typed``: with those that are made for requests with types.
    """
    entered = [one for one in POLICIES.values() if typed or not one.contextual]
    return [text for policy in entered for text in policy.contestants] + forgetful_policies()


def forgetful_policies() -> list[str]:
    """The policies that take part only where the arms change."""
    return [text for policy in POLICIES.values() for text in policy.forgetful]


def special_policies() -> list[str]:
    """The policies that take part only where the arms change, or only where requests have types."""
    typed = [one for one in POLICIES.values() if one.contextual]
    return forgetful_policies() + [text for policy in typed for text in policy.contestants]


def runs_at(runs: int, pulls: float) -> int:
    """How many of ``runs`` are made where a run takes about so many ``pulls``.

    All up to 40,000; beyond that fewer, in proportion, but not below 75.

    >>> [runs_at(200, pulls) for pulls in (100, 4e4, 1e6)]
    [200, 200, 75]
    """
    return min(runs, max(FEWEST_RUNS, int(runs * FULL_PULLS / pulls)))


@also_called("budget", "budgets")
def arena(
    problems: Problems = (),
    policies: Policies = (),
    budgets: Iterable[float] = (),
    *,
    runs: int = RUNS,
    seed: int = 0,
    out: str | os.PathLike[str] | None = None,
    backend: str = "auto",
    progress: Progress = None,
    fresh: bool = False,
    threads: int | None = None,
    processes: int | None = None,
) -> Arena:
    """Run the policies on the problems at the budgets and rank them.

    ``problems``: names of ready problems, TOML files or :class:`Problem` s; ``policies`` as the
    shell writes them, or objects; ``budgets`` in largest costs of one pull. The default is the
    usual arena; without problems and budgets, very long runs are left out.
    See ``runs_at`` for the runs at large budgets. With ``out``, a folder, ``arena.html`` and
    its files are written there, and finished runs are kept in ``out/.partial`` until then: after an
    interruption the same call continues from there; ``fresh`` starts again.

    ``threads`` defaults to the available CPUs; the numbers do not depend on it. There is one
    parameter too many because ``processes``, its former name, is taken until version 0.4.

    >>> table = arena(["paper"], ["resolve", "lyon"], budgets=[1000])  # doctest: +SKIP
    >>> table.verdicts["paper"]  # doctest: +SKIP
    """
    wanted, seed = len(run_numbers(runs)), seed_number(seed)
    if processes is not None:
        text = "arena(processes=...) means threads=... now, and goes with version 0.4"
        warn_caller(text, DeprecationWarning)
        threads = processes if threads is None else threads
    thread_count(threads)  # before any folder is made
    sizes = budget_list(budgets or BUDGETS)
    scenes = scenes_of(problems or PROBLEMS)
    typed = any(scene.typed for scene in scenes.values())
    named = policies_of(policies or default_policies(typed))
    matches, left_out = matches_of(scenes, named, sizes, () if policies else special_policies())
    if not problems and not budgets:
        matches, long = without_long_runs(matches)
        left_out += long
    requests = [match.request(wanted) for match in matches]
    settings = SimulationSettings(
        seed, backend, threads=threads, progress=progress, title="simulating the arena"
    )
    if out is None:
        rows = _rows(matches, _made(requests, settings))
        return _arena(rows, left_out, ())
    require(*MODULES)
    require_folder(out)
    with Checkpoint(Path(out) / PARTS, fresh=fresh) as store:
        rows = _rows(matches, _made(requests, settings, store))
        facts, budget = facts_of(rows, wanted, seed, threads), judged(rows, VERDICT)
        files = write(make_folder(out), rows, scenes, facts, budget, left_out)
        store.remove()
    return _arena(rows, left_out, files)


def _made(
    requests: Sequence[SimulationRequest],
    settings: SimulationSettings,
    store: Checkpoint | None = None,
) -> list[Results]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OutsideTheoryWarning)  # it is in the page's notes
        return make(requests, settings, store, whole=True)


def _arena(rows: Sequence[ArenaRow], left_out: Sequence[str], files: Sequence[Path]) -> Arena:
    budget = judged(rows, VERDICT)
    return Arena(rows, verdicts(rows, budget), budget, left_out, files)


def scenes_of(problems: Problems) -> dict[str, Scene]:
    """The problems by name, each feasible."""
    known, scenes = ready_names(), {}
    if isinstance(problems, Mapping):
        listed: list[tuple[str, str | Problem]] = list(problems.items())
    else:
        each = [one for given in problems for one in _members(given)]
        listed = [_named_problem(one, at) for at, one in enumerate(each)]
    _require_distinct("problem", [name for name, _ in listed])
    for name, given in listed:
        problem = as_problem(given)
        about = known.get(name, problem.name or "your own")
        scenes[name] = Scene(name, about, problem)
        scenes[name].at(VERDICT * problem.scales.cost).require_feasible()
    return scenes


def _members(problem: str | Problem) -> list[str | Problem]:
    """The problems that a name stands for."""
    return list(GROUPS[problem]) if isinstance(problem, str) and problem in GROUPS else [problem]


def _named_problem(problem: str | Problem, at: int) -> tuple[str, Problem]:
    if isinstance(problem, str):
        return problem, load_problem(problem)
    return getattr(problem, "name", "") or f"problem {at + 1}", problem


def policies_of(policies: Policies) -> dict[str, Policy]:
    """The policies by label, each different."""
    if isinstance(policies, Mapping):
        return dict(policies)
    listed = list(policies)
    _require_distinct("policy", [one for one in listed if isinstance(one, str)])
    made = [parse_policy(one) if isinstance(one, str) else one for one in listed]
    named_policies(made)  # all different
    return {_label(given, policy): policy for given, policy in zip(listed, made, strict=True)}


def _label(given: str | Policy, policy: Policy) -> str:
    """A policy's own words; for one of a file or a module those by which it is found again."""
    ours = policy.name in known_policies()
    return given if isinstance(given, str) and not ours else policy.label


def _require_distinct(what: str, texts: Sequence[str]) -> None:
    for text in texts:
        if list(texts).count(text) > 1:
            raise InputError(f"{what} {text!r} is given twice; each must be different")


def matches_of(
    scenes: Mapping[str, Scene],
    policies: Mapping[str, Policy],
    budgets: Sequence[float],
    special: Sequence[str],
) -> tuple[list[Match], list[str]]:
    """The policies on each problem at each budget, and a sentence on those that cannot take part.

    The ``special`` ones take part only where they fit: see ``special_policies``.
    """
    matches: list[Match] = []
    obstacles: dict[tuple[str, str], list[str]] = {}
    for name, scene in scenes.items():
        for label, policy in policies.items():
            fits = scene.typed if policy.contextual else scene.changes
            if label in special and not fits:
                continue
            try:
                places = {
                    budget: scene.at(budget * scene.problem.scales.cost) for budget in budgets
                }
                for budget, there in places.items():
                    set_up(policy.for_task(there.problem), there.problem, budget)
            except PolicyError as error:
                obstacles[label, str(error)] = [*obstacles.get((label, str(error)), []), name]
                continue
            matches += [Match(there, label, policy, budget) for budget, there in places.items()]
    if not matches:
        raise PolicyError(next(reason for _, reason in obstacles))
    told = [
        f"{label} does not take part on {', '.join(names)}: {reason}."
        for (label, reason), names in obstacles.items()
    ]
    return matches, told


def without_long_runs(matches: Sequence[Match]) -> tuple[list[Match], list[str]]:
    """The matches without very long runs, and a sentence on each place that is left out.

    With all of ours, `arena-cheap` at 10^4 would take half of the time.
    """
    long = {(one.scene.name, one.budget): one.pulls for one in matches if one.pulls > LONGEST}
    told = [
        f"{name} is left out at {budget:,g}: a run takes {pulls:,.0f} pulls; name the budgets to"
        " include it."
        for (name, budget), pulls in long.items()
    ]
    return [one for one in matches if (one.scene.name, one.budget) not in long], told


def _rows(matches: Sequence[Match], results: Sequence[Results]) -> list[ArenaRow]:
    """The ranked rows."""
    places = {(match.scene, match.cost_budget) for match in matches}
    best = {(scene, budget): scene.optimum(budget) for scene, budget in places}
    return ranked(
        [
            row_of(
                match.scene,
                found,
                match.policy.knows,
                best[match.scene, match.cost_budget],
                match.types,
            )
            for match, found in zip(matches, results, strict=True)
        ]
    )


def facts_of(
    rows: Sequence[ArenaRow], runs: int, seed: int, threads: int | None = None
) -> list[tuple[str, str]]:
    """What was run, and the command that runs it again."""
    problems, labels = ({getattr(row, key): 0 for row in rows} for key in ("problem", "policy"))
    counts = {row.budget: row.runs for row in sorted(rows, key=lambda row: row.budget)}
    fewer = [f"{count:,} at {budget:,g}" for budget, count in counts.items() if count < runs]
    whole = len({(row.problem, row.budget) for row in rows}) == len(problems) * len(counts)
    usual = default_policies(any(row.types in ("uses", "ignores") for row in rows))
    options = _options(problems, labels, list(counts), whole, usual)
    return [
        ("Problems", str(len(problems))),
        ("Policies", str(len(labels))),
        ("Budgets", ", ".join(f"{budget:,g}" for budget in counts) + " largest costs of one pull"),
        ("Runs", "; ".join([f"{runs:,}", *fewer])),
        ("Seed", str(seed)),
        ("Threads", str(thread_count(threads))),
        ("tightrope", __version__),
        ("Again", f"tightrope arena{options} --runs {runs} --seed {seed}"),
    ]


def _options(
    problems: Iterable[str],
    labels: Iterable[str],
    budgets: Sequence[float],
    whole: bool,
    policies: Sequence[str],
) -> str:
    """The shell's options for what is not the default; ``whole``: no budget is left out."""
    told, names = "", tuple(problems)
    usual = names == PROBLEMS
    if not usual:
        short = [group for group, some in GROUPS.items() if names == tuple(some)] or names
        told += "".join(f" --problem {name}" for name in short)
    if set(labels) != set(policies):
        told += "".join(f" --policy {label}" for label in labels)
    if tuple(budgets) != BUDGETS or (usual and whole):
        told += "".join(f" --budget {budget:g}" for budget in budgets)
    return told
