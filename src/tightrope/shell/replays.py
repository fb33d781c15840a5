"""``tightrope replay``: run policies over recorded rows, and estimate mixtures of arms."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from typing import Any

import tightrope
from tightrope.errors import InputError, nearest
from tightrope.shell.fits import Column, LogColumns
from tightrope.shell.named import by_name, limits_of
from tightrope.shell.options import Json, LearnFrom, PolicyNames, Scale, Weight, learned
from tightrope.shell.output import answer, say


@dataclass(kw_only=True, eq=False, repr=False)
class Recorded(LogColumns):
    """The columns of a file, of which some are needed.

    interval LOW,HIGH: the arms are numbers, which only plan can simulate
    uniform: every arm was equally likely in the log
    without ARM: leave out the rows of this arm
    """

    arm: str = field()
    cost: Column = field()
    reward: Column = field()
    uniform: bool = False
    without: Sequence[str] = ()

    def require_one_way(self) -> None:
        """Raise if options contradict each other on what the log is."""
        if self.uniform and self.propensity is not None:
            raise InputError("--uniform: must not come with --propensity")
        if self.row is not None and (self.uniform or self.propensity is not None):
            raise InputError("--row: a table has every arm's outcome; must have no propensities")
        if self.row is not None and (self.drop_missing or self.without):
            option = "--drop-missing" if self.drop_missing else "--without"
            raise InputError(f"{option}: must not come with --row; a table has no gaps")

    def read(self, path: str, limits: dict[str, Any]) -> tightrope.Log | tightrope.FullTable:
        """The log, or the table, in the file."""
        from tightrope.data.fitting import own_penalties
        from tightrope.data.offpolicy import equally_likely
        from tightrope.data.reading import read_rows, space_of_columns
        from tightrope.data.replays import require_names

        self.require_one_way()
        if self.interval is not None:
            require_names(space_of_columns(self.interval, self.sides)[0])
        others = ("interval", "row", "uniform", "without")
        columns = {key: value for key, value in vars(self).items() if key not in others}
        columns["penalty"] = self.penalty or own_penalties(limits)
        log = tightrope.read_log(path, **columns | {"features": self.features or ()})
        if self.row is not None:
            return tightrope.FullTable.from_long(read_rows(path, self.row), log)
        log = equally_likely(log) if self.uniform else log
        return log.without(*self.without)


def replay(
    log: str,
    *,
    json: Json = False,
    recorded: Recorded,
    limit: Sequence[str] = (),
    policy: PolicyNames = (),
    budget: float | None = None,
    mixture: Sequence[str] = (),
    orders: int = 100,
    with_replacement: bool = False,
    method: str = "rejection",
    learn_from: LearnFrom = None,
    weight: Weight = None,
    scale: Scale = (),
    least: float = 50.0,
    seed: int = 0,
) -> int:
    r"""Run policies over the rows of a log, or estimate mixtures of its arms.

    Policies that break a limit come last, in red.

    tightrope replay log.csv --arm model --cost usd --reward score \
        --limit bad=5%/pull --propensity chance \
        --policy resolve --policy lyon --budget 50 \
        --mixture haiku=0.3,sonnet=0.7
    tightrope replay june.csv --arm model --cost usd --reward score --uniform \
        --policy resolve --budget 50 --learn-from may.csv --weight 0.3
    tightrope replay table.csv --row prompt --arm model --cost 1 --reward score \
        --features length,has_code --limit usd=0.002/pull --policy resolve --budget 900

    log: a CSV or Parquet file with a line per pull
    limit NAME=X[%][/pull|/cost|/reward|/total]: limit on a penalty, such as bad=5%/pull, or on
        the share of arms: "few=at most 30% for opus"
    budget B: budget of the policies, in units of cost
    mixture [TYPE/]ARM=SHARE,...: shares of the pulls, which sum to 1, or do so for each type
    orders: random orders of the rows; 0 takes the rows in their order
    with_replacement: draw rows with replacement, as a simulation does
    method NAME: rejection or queues; default rejection
    learn_from FILE: a log, or a table, with the same columns, to learn from before each run
    least N: smallest effective sample size of a mixture
    seed: seed of the random orders
    """
    from tightrope.data.offpolicy import evaluate_mixture
    from tightrope.engine.arguments import named_policies
    from tightrope.report.replay import describe_replay, print_replay

    mixtures: list[Any] = [by_name(one.split(","), "--mixture") for one in mixture]
    limits = limits_of(limit)
    if not policy and not mixtures:
        raise InputError("replay: nothing to do; must have --policy with --budget, or --mixture")
    if policy and budget is None:
        raise InputError("--budget: is missing; must be given with --policy, in units of cost")
    data = recorded.read(log, limits)
    scales = by_name(scale, "--scale")
    past = learned(None if learn_from is None else recorded.read(learn_from, limits), weight)
    estimates = [evaluate_mixture(data, _by_type(data, one), least=least) for one in mixtures]
    found = None
    if policy and budget is not None:
        with redirect_stdout(sys.stderr), _options_named():  # a user's policy may print
            named = named_policies(policy)
            found = tightrope.replay(
                data,
                _scaled(data, limits, scales, named) if scales else limits,
                named,
                budget=budget,
                orders=orders,
                seed=seed,
                method=method,
                with_replacement=with_replacement,
                **past,
            )
    described = describe_replay(data, found, estimates)
    answer(json, described, lambda: print_replay(data, found, estimates))
    if found is not None and found.remark and not json:
        say(found.remark)
    return 0


@contextmanager
def _options_named() -> Iterator[None]:
    """Name the option in an error that names the parameter of ``Scales``."""
    try:
        yield
    except InputError as error:
        told = re.sub(r"Scales\((\w+)=\.\.\.\)", r"--scale \1=X (\g<0>)", str(error))
        raise InputError(told) from error


def _scaled(
    data: tightrope.Log | tightrope.FullTable,
    limits: Mapping[str, Any],
    given: Mapping[str, float],
    policies: Mapping[str, tightrope.Policy],
) -> tightrope.Task | tightrope.Problem:
    """What is replayed, with these scales by name; the others are those of the data."""
    from tightrope.data.fitting import scales_of
    from tightrope.data.tables import problem_of, task_of
    from tightrope.policies.base import InformedPolicy

    own = [name for name in data.penalties if name in limits]
    for name in given:
        if name not in ("cost", "reward", *own):
            raise InputError(f"--scale {name}: {nearest(name, ('cost', 'reward', *own))}")
    axes = (0, 1) if isinstance(data, tightrope.FullTable) else 1
    scales = scales_of(data.channels, data.outcomes.max(axis=axes).tolist(), own, given)
    informed = any(isinstance(policy, InformedPolicy) for policy in policies.values())
    return (problem_of if informed else task_of)(data, limits, scales)


def _by_type(data: tightrope.Log | tightrope.FullTable, shares: dict[str, float]) -> Any:
    """Shares by type and arm if they are named TYPE/ARM; otherwise as they are."""
    from tightrope.data.log import types_of
    from tightrope.data.offpolicy import with_types_alone

    types = types_of(with_types_alone(data))
    found: dict[str, dict[str, float]] = {}
    for name, share in shares.items():
        kind = next((kind for kind in types if name.startswith(f"{kind}/")), None)
        if kind is None or name in data.arms:
            return shares
        found.setdefault(kind, {})[name.removeprefix(f"{kind}/")] = share
    return found
