"""``tightrope plan``: the reward and the risk of a budget, and the worth of more of it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from typing import Any

import tightrope
from tightrope.errors import InputError
from tightrope.shell.fits import LogColumns, with_doubts
from tightrope.shell.named import limits_of
from tightrope.shell.options import Budgets, Effort, Json, PolicyNames, ProblemName, Unit
from tightrope.shell.output import after_the_work, answer, say


def plan(
    problem: ProblemName,
    *,
    json: Json = False,
    budget: Budgets,
    limit: Sequence[str] = (),
    columns: LogColumns,
    policy: PolicyNames = (),
    earn: float | None = None,
    chance: float | None = None,
    promise: float | None = None,
    limit_name: str | None = None,
    effort: Effort,
    unit: Unit = "",
    draws: int = 50,
    out: str | None = None,
) -> int:
    r"""Estimate what a budget earns, the risk of breaking a limit, and the worth of more budget.

    Policies that break a limit come last, in red.

    tightrope plan router.toml --budget 50 --unit $
    tightrope plan router.toml --budget 50 --limit bad=4%/pull --promise 0.01 --out plan
    tightrope plan log.csv --arm model --cost usd --reward score --context country \
        --limit bad=5%/pull --budget 50

    problem: a ready problem's name or a TOML file; with --arm, a log as for fit
    limit [NAME=]X[%][/pull|/cost|/reward|/total]: replace a limit; X alone keeps what the limit is
        per; a share of arms reads "few=at most 30% for opus"
    policy: default resolve, resolve:risk=0.01, ts-lp:update=true and lyon
    earn REWARD: find the smallest budget that earns this reward
    chance P: with this probability; default 0.9
    promise RISK: find the tightest limit that is broken with at most this probability
    limit_name NAME: limit of --promise, if there are several
    draws: draws of the bootstrap over a log's rows; 0 takes the log as the truth
    out FOLDER: write a page with fan charts and its numbers to this folder
    """
    from tightrope.report.plan import print_plan, require_report

    stated = _problem(problem, columns, limit)
    if limit_name is not None and promise is None:
        raise InputError(f"--limit-name {limit_name}: must come with --promise RISK")
    if chance is not None and earn is None:
        raise InputError(f"--chance {chance:g}: must come with --earn REWARD")
    if out is not None:
        require_report(out)
    given: dict[str, Any] = {} if chance is None else {"chance": chance}
    with redirect_stdout(sys.stderr):  # a user's policy may print
        found = tightrope.plan(
            stated,
            policy or None,
            budgets=budget,
            **effort.given,
            draws=draws,
            earn=earn,
            **given,
            promise=promise,
            limit_name=limit_name,
            unit=unit,
            fan=json or out is not None,
        )
    answer(json, found.summary(), lambda: print_plan(found))
    if out is not None:
        with after_the_work():
            files = found.write(out)
        say(f"wrote {files[-1]} and {len(files) - 1} files beside it")
    return 0


def _problem(name: str, columns: LogColumns, limit: Sequence[str]) -> tightrope.Problem:
    """The problem by its name, in a file, or of a log; with the given limits."""
    from tightrope.problem.meaning import require_binding

    if given := columns.given:
        if columns.arm is None:
            columns.require_none("--arm COLUMN, for a log")
        from tightrope.data.fitting import fit

        return with_doubts(fit(name, **given, limits=limits_of(limit) or None)).problem
    loaded = tightrope.load_problem(name)
    limits = limits_of(limit, loaded.limit_names)
    stated = loaded.with_limits(limits)
    require_binding(stated.stated, limits)
    return stated
