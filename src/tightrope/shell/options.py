"""Parameters that several commands share: their types, with help and completion."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Any

from tightrope.errors import InputError, TightropeError
from tightrope.shell.commands import Argument


def _problems(prefix: str, **_: Any) -> list[str]:
    from argcomplete.completers import FilesCompleter

    from tightrope.problem.ready import ready_names

    return [*ready_names(), *FilesCompleter(("toml",))(prefix)]


def _policies(prefix: str, **_: Any) -> list[str]:
    """Completions of a policy's name and, after a colon, of its parameters."""
    from tightrope.policies import POLICIES

    name, colon, rest = prefix.partition(":")
    if not colon or name not in POLICIES:
        return list(POLICIES)
    before = prefix[: len(prefix) - len(rest.rpartition(",")[2])]
    return [f"{before}{field.name}=" for field in fields(POLICIES[name])]  # type: ignore[arg-type]


def _backends(**_: Any) -> list[str]:
    return ["auto", "cpu", "gpu", "python", "ray", "ray:gpu"]


def _campaigns(parsed_args: argparse.Namespace, **_: Any) -> list[str]:
    """The campaigns of the store that was named before."""
    from tightrope.live.stores import open_store

    try:
        store = open_store(parsed_args.store, create=False)
        try:
            return store.names()
        finally:
            store.close()
    except TightropeError:
        return []


Json = Annotated[bool, Argument(help="print JSON and nothing else on standard output")]
Quiet = Annotated[bool, Argument(help="print no progress on standard error")]
Fresh = Annotated[
    bool, Argument(help="start again instead of continuing interrupted work", opposite="--resume")
]
Threads = Annotated[int | None, Argument(help="threads to use; default all processors")]
Backend = Annotated[
    str, Argument(help="auto, cpu, gpu, python, ray or ray:gpu", completer=_backends)
]
LearnFrom = Annotated[str | None, Argument("FILE", "a log to learn from before the first decision")]
Weight = Annotated[
    float | None, Argument("W", "pulls that a row of --learn-from counts as; default 0.3")
]
Scale = Annotated[
    Sequence[str],
    Argument(
        "NAME=X",
        "largest possible cost, reward or penalty; default the largest in the log, rounded up",
    ),
]
Folder = Annotated[str, Argument("FOLDER", "folder to write to")]
Unit = Annotated[str, Argument("TEXT", "unit of costs, such as $ or EUR; it is only shown")]
StoreName = Annotated[str, Argument("STORE", "a SQLite file, or postgresql://USER@HOST/DATABASE")]
TrustPolicy = Annotated[
    Sequence[str],
    Argument("FILE.py:CLASS", "run this policy's code where the store names it"),
]
CampaignName = Annotated[str, Argument("NAME", "the campaign's name", _campaigns)]

PROBLEM = Argument("PROBLEM", "a ready problem's name or a TOML file", _problems, distinct=True)
ProblemName = Annotated[str, PROBLEM]
ProblemNames = Annotated[Sequence[str], PROBLEM]
POLICY = Argument(
    "POLICY", "NAME[:PARAMETER=VALUE,...], FILE.py:CLASS or MODULE:CLASS", _policies, distinct=True
)
PolicyName = Annotated[str, POLICY]
PolicyNames = Annotated[Sequence[str], POLICY]
BUDGET = Argument("B", "budget of a run, in the problem's unit of cost")
Budget = Annotated[float, BUDGET]
Budgets = Annotated[Sequence[float], BUDGET]


def learned(log: Any, weight: float | None) -> dict[str, Any]:
    """The arguments of a function that learns from a log, which may be None."""
    if log is None and weight is not None:
        raise InputError(f"--weight {weight:g}: must come with --learn-from FILE")
    return {"learn_from": log} | ({} if weight is None else {"weight": weight})


@dataclass(kw_only=True, eq=False, repr=False)
class Effort:
    """How much is simulated, and on what.

    runs: runs of each policy at each budget
    seed: seed of the random numbers
    """

    runs: int = 1000
    seed: int = 0
    quiet: Quiet = False
    backend: Backend = "auto"

    @property
    def given(self) -> dict[str, Any]:
        """The arguments of a function that simulates; raises if the backend is not there."""
        from tightrope.engine.planning import require_backend

        require_backend(self.backend)
        kept = {"runs": self.runs, "seed": self.seed, "backend": self.backend}
        return {**kept, "progress": False if self.quiet else None}
