"""Which language model should answer, given a limit on the average price of a request?

    python examples/data_sets/routing.py
    python examples/data_sets/routing.py --orders 200 --out routing --with-paretobandit PYTHON

The table is test_holdout.jsonl in the wheel of paretobandit (Apache 2.0): 1824 prompts of public
benchmarks, and for each of three models the quality of its answer, in [0, 1], and its price in
dollars. Every answer is known, so policies can be replayed exactly. A request is a unit of cost,
dollars are the penalty. See docs/data-sets.md.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from wheels import PARETOBANDIT, Columns, default_cache, fetch, read, write_csv

from tightrope import FullTable, Limit, Problem, oracle, parse_policy, plan, replay
from tightrope.data.fitting import fit
from tightrope.errors import InputError, TightropeError
from tightrope.files import write_text
from tightrope.report.extra import require
from tightrope.statistics import estimate, wilson

LIMITS = (8.29e-5, 2.35e-4, 6.64e-4, 1.88e-3, 5.31e-3)  # dollars per request
PLANNED = 6.64e-4  # the limit of the plan
MODELS = {
    "meta-llama/llama-3.1-8b-instruct": "llama-8b",
    "mistralai/mistral-large-2512": "mistral-large",
    "google/gemini-2.5-pro": "gemini-pro",
}
POLICIES = ("resolve", "resolve:risk=0.01", "ts-lp:update=true", "stationary")
GUESSED = {"resolve, guesses": "resolve", "resolve:risk=0.01, guesses": "resolve:risk=0.01"}
THEIRS = {
    "ParetoBandit": ("prompt", True),
    "ParetoBandit, benchmarks": ("benchmark", True),
    "ParetoBandit, cold": ("prompt", False),
}  # its features of a request, and whether it first learns from the other table
SCRIPT, NEEDS = "paretobandit_runs.py", "import joblib, numpy, sklearn, tqdm"
MARKED = 1.01  # a policy that spends more than this share of the limit is hollow in the picture
FOLDER = "pareto_bandit/data/examples"
Runs = tuple[list[float], list[float], list[Sequence[float]]]  # per order, as ``our_runs`` says


@dataclass(frozen=True)
class Row:
    """A policy at a limit over all orders: rewards and dollars are per request.

    ``spend``: dollars divided by the limit. ``behind``: the best fixed mixture's reward on the
    table minus the policy's. Intervals are 95 % intervals over orders of these rows.
    """

    policy: str
    limit: float
    orders: int
    reward: float
    reward_interval: tuple[float, float] | None
    behind: float
    spend: float
    spend_90: tuple[float, float]  # 5 % and 95 % of the orders
    broken: float
    broken_interval: tuple[float, float]
    shares: tuple[float, ...]


def columns_of(wheel: Path, table: str = "test_holdout") -> Columns:
    """A table of the wheel in long form: a line per prompt and model."""
    found: Columns = {"prompt": [], "benchmark": [], "model": [], "reward": [], "dollars": []}
    lines = read(wheel, f"{FOLDER}/{table}.jsonl").split("\n")
    for number, line in enumerate(filter(None, lines)):
        row = json.loads(line)
        for model, name in MODELS.items():
            answer = row["arms"][model]
            values = (
                number,
                row["source"].partition("/")[0],
                name,
                answer["reward"],
                answer["cost"],
            )
            for column, value in zip(found.values(), values, strict=True):
                column.append(value)
    return found


def fitted(columns: Columns) -> tuple[FullTable, Problem]:
    """The table, and the problem whose arms draw its rows, at the limit of the plan."""
    made = fit(
        columns,
        arm="model",
        cost=1.0,
        reward="reward",
        penalty="dollars",
        limits={"dollars": Limit(PLANNED, per="pull")},
        name="routing",
    )
    return FullTable.from_long(columns["prompt"], made.log), made.problem


def best_by_group(table: FullTable, group: Sequence[Any], limit: float) -> float:
    """The largest mean reward of a mixture per group that keeps the limit on mean dollars.

    By duality: the minimum over prices p >= 0 of a dollar of p limit + the mean over groups of the
    best model's reward minus p times its dollars. A convex function of one number.
    """
    _, place = np.unique(np.asarray(group), return_inverse=True)
    reward, dollars = (
        np.array(
            [np.bincount(place, weights=table.outcomes[:, k, c]) for k in range(len(table.arms))]
        )
        / len(table)
        for c in (1, 2)
    )  # [K, groups]

    def value(price: float) -> float:
        return float(price * limit + (reward - price * dollars).max(axis=0).sum())

    low, high = 0.0, 1.0 / limit  # rewards are at most 1
    for _ in range(200):
        left, right = low + (high - low) / 3.0, high - (high - low) / 3.0
        low, high = (low, right) if value(left) < value(right) else (left, high)
    return value(low)


def orders_of(count: int, orders: int) -> list[list[int]]:
    """The orders of the rows, the same for all policies."""
    return [np.random.default_rng([17, k]).permutation(count).tolist() for k in range(orders)]


def our_runs(
    table: FullTable, problem: Problem, guesses: Mapping[str, Any], orders: Sequence[list[int]]
) -> Iterator[tuple[str, Runs]]:
    """Per policy its mean rewards, mean dollars and shares of models, per order.

    The budget is one less than the rows: a run ends with the pull that exceeds it, the last row.
    """
    (limit,) = problem.limits
    cases: list[tuple[dict[str, str], Any]] = [
        ({name: name for name in POLICIES}, problem),
        (GUESSED, replace(problem.task, expected=guesses)),
    ]
    for named, known in cases:
        policies = {label: parse_policy(text) for label, text in named.items()}
        found: dict[str, list[Any]] = {label: [] for label in policies}
        for number, order in enumerate(orders):
            shuffled = FullTable(table.arms, table.penalties, table.outcomes[order])
            done = replay(shuffled, known, policies, budget=len(table) - 1, orders=0, seed=number)
            for row in done:
                reward = row.reward_rate.mean * row.budget / row.pulls
                found[row.policy].append((reward, row.violation[0].mean + limit, row.pull_share))
        for label, runs in found.items():
            rewards, dollars, shares = map(list, zip(*runs, strict=True))
            yield label, (rewards, dollars, shares)


def their_runs(
    python: str, wheel: Path, arms: Sequence[str], orders: Sequence[list[int]], contexts: str,
    warm: bool,
) -> tuple[list[Runs], str]:  # fmt: skip
    """ParetoBandit's runs by limit, like those of ``our_runs``, and its features of a request."""
    job = {"wheel": str(wheel), "tables": ["val", "test_holdout"], "limits": LIMITS,
           "orders": orders, "contexts": contexts, "warm": warm}  # fmt: skip
    found = json.loads(started([python, Path(__file__).with_name(SCRIPT)], json.dumps(job)))
    names = [MODELS[model] for model in found["models"]]
    places = [names.index(arm) for arm in arms]
    return [
        (
            [run["reward"] for run in runs],
            [run["dollars"] for run in runs],
            [[run["shares"][k] for k in places] for run in runs],
        )
        for runs in found["runs"]
    ], found["features"]


def started(command: Sequence[str | Path], told: str = "") -> str:
    """The output of another Python; raises an ``InputError`` with its last line if it fails."""
    place = f"--with-paretobandit {str(command[0])!r}"
    try:
        done = subprocess.run(command, input=told, capture_output=True, text=True)
    except OSError as error:
        raise InputError(f"{place}: {error.strerror}") from None
    if done.returncode:
        said = done.stderr.strip().splitlines() or ["no reason given"]
        raise InputError(f"{place}: {said[-1]}")
    return done.stdout


def row_of(label: str, limit: float, best: float, rewards: Any, dollars: Any, shares: Any) -> Row:
    mean, spend = estimate(rewards), np.asarray(dollars) / limit
    broken = int((spend > 1.0).sum())
    low, high = wilson(broken, len(spend))
    return Row(
        policy=label,
        limit=limit,
        orders=len(spend),
        reward=mean.mean,
        reward_interval=mean.interval,
        behind=best - mean.mean,
        spend=float(spend.mean()),
        spend_90=(float(np.quantile(spend, 0.05)), float(np.quantile(spend, 0.95))),
        broken=broken / len(spend),
        broken_interval=(float(low), float(high)),
        shares=tuple(np.mean(shares, axis=0).tolist()),
    )


def compared(
    wheel: Path, table: FullTable, problem: Problem, orders: int, python: str | None
) -> tuple[list[Row], str | None]:
    """A row per limit and policy, and ParetoBandit's features of a prompt, if it takes part."""
    before, _ = fitted(columns_of(wheel, "val"))
    means = before.outcomes.mean(axis=0)
    channels = ("cost", "reward", "dollars")
    guesses = {
        arm: dict(zip(channels, means[k].tolist(), strict=True))
        for k, arm in enumerate(before.arms)
    }
    shuffles = orders_of(len(table), orders)
    with ThreadPoolExecutor() as pool:  # each waits for a process
        theirs = {
            label: pool.submit(their_runs, python, wheel, table.arms, shuffles, *how)
            for label, how in THEIRS.items()
            if python is not None
        }
        ours = {}
        for limit in LIMITS:
            say(f"replay at {limit:.3g} dollars per request: {orders} orders")
            here = problem.with_limits({"dollars": limit})
            ours[limit] = dict(our_runs(table, here, guesses, shuffles))
        if theirs:
            say("replay of ParetoBandit")
        found = {label: one.result() for label, one in theirs.items()}
    rows = []
    for at, limit in enumerate(LIMITS):
        best = oracle(problem.with_limits({"dollars": limit})).reward_rate
        runs = ours[limit] | {label: one[0][at] for label, one in found.items()}
        rows += [row_of(label, limit, best, *one) for label, one in runs.items()]
    return rows, next((one[1] for one in found.values() if one[1] != "benchmark"), None)


def say(text: str) -> None:
    print(text, file=sys.stderr)


def print_arms(table: FullTable) -> None:
    print(f"{len(table):,} prompts, every model's answer known; means with 95 % intervals")
    for k, arm in enumerate(table.arms):
        reward, dollars = (estimate(table.outcomes[:, k, c]) for c in (1, 2))
        print(
            f"  {arm:14} reward {reward.mean:.4f} ± {reward.reach:.4f}, dollars"
            f" {dollars.mean:.3g} ± {dollars.reach:.1g},"
            f" at most {table.outcomes[:, k, 2].max():.3g}"
        )


def print_ceilings(ceilings: Mapping[str, Sequence[float]]) -> None:
    print("\nlargest mean reward that keeps the limit")
    print(f"  {'dollars per request':28}" + "".join(f"{limit:>10.3g}" for limit in LIMITS))
    for label, values in ceilings.items():
        print(f"  {label:28}" + "".join(f"{value:10.4f}" for value in values))


def print_rows(rows: Sequence[Row], features: str | None) -> None:
    print(f"\nreplay of {rows[0].orders} orders: reward ± 95 % [spend over the limit; broken]")
    for policy in dict.fromkeys(row.policy for row in rows):
        print(f"  {policy}")
        for row in rows:
            if row.policy == policy:
                low, high = row.broken_interval
                print(
                    f"    {row.limit:8.3g}  {row.reward:.4f} ± {reach_of(row):.4f}"
                    f"  [{row.spend:.3f}; {row.broken:.1%} ({low:.1%} to {high:.1%})]"
                )
    if features == "words":
        print("  ParetoBandit saw frequencies of words: its own encoder is not installed there")


def reach_of(row: Row) -> float:
    """Half of the 95 % interval of the mean reward; 0 with a single order."""
    return 0.0 if row.reward_interval is None else row.reward_interval[1] - row.reward


def replay_columns(rows: Sequence[Row]) -> Columns:
    """The replay as the columns of docs/data/routing-replay.csv."""
    return {
        "policy": [row.policy for row in rows],
        "limit_dollars": [f"{row.limit:.3g}" for row in rows],
        "quality": [f"{row.reward:.4f}" for row in rows],
        "quality_half_interval": [f"{reach_of(row):.4f}" for row in rows],
        "dollars_over_limit": [f"{row.spend:.2f}" for row in rows],
        "broken_percent": [f"{100 * row.broken:.0f}" for row in rows],
    }


def draw(rows: Sequence[Row], path: Path) -> None:
    """Reward minus that of the best fixed mixture, and spend over the limit, by limit."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    from tightrope.report.styles import INK, PAPER, SETTINGS

    looks = {
        "resolve": ("#0072b2", "o"),
        "resolve:risk=0.01": ("#56b4e9", "s"),
        "resolve, guesses": ("#009e73", "^"),
        "ts-lp:update=true": ("#cc79a7", "D"),
        "ParetoBandit": ("#d55e00", "v"),
        "ParetoBandit, benchmarks": ("#882255", "X"),
        "ParetoBandit, cold": ("#e69f00", "P"),
    }
    shown = [label for label in looks if any(row.policy == label for row in rows)]
    with pyplot.rc_context(SETTINGS):
        figure, (left, right) = pyplot.subplots(1, 2, figsize=(9.2, 3.9), layout="constrained")
        for j, label in enumerate(shown):
            colour, marker = looks[label]
            mine = [row for row in rows if row.policy == label]
            x = np.arange(len(mine)) + 0.11 * (j - (len(shown) - 1) / 2)
            reach = [
                row.reward_interval[1] - row.reward if row.reward_interval else 0 for row in mine
            ]
            spend = np.array([row.spend for row in mine])
            low, high = np.array([row.spend_90 for row in mine]).T
            ends = np.maximum([spend - low, high - spend], 0.0)
            look: Any = {"color": colour, "linestyle": "none"}
            left.errorbar(x, [-row.behind for row in mine], reach, **look)
            right.errorbar(x, spend, ends, marker=marker, **look)
            for at, row in zip(x, mine, strict=True):
                inside = PAPER if row.spend > MARKED else colour
                left.plot(at, -row.behind, marker=marker, markerfacecolor=inside, color=colour)
            left.plot([], [], marker=marker, label=label, **look)
        left.axhline(0.0, color=INK, linewidth=0.9)
        right.axhline(1.0, color=INK, linewidth=0.9)
        left.set_title("reward, less the best fixed mixture (hollow: spends too much)")
        right.set_title("dollars spent, over the limit (bars: 5 to 95 % of orders)")
        right.set_ylim(0.3, 1.7)
        outside = [row for row in rows if row.policy in shown and row.spend > 1.7]
        if outside:
            worst = max(outside, key=lambda row: row.spend)
            told = f"not shown: {worst.policy}, {worst.spend:.1f} at {worst.limit:.3g}"
            right.text(0.02, 0.02, told, transform=right.transAxes, color=INK)
        for axes in (left, right):
            axes.set_xticks(range(len(LIMITS)), [f"{limit:.3g}" for limit in LIMITS])
            axes.set_xlabel("limit, dollars per request")
        figure.legend(loc="outside lower center", ncols=3)
        figure.savefig(path, dpi=110)
        pyplot.close(figure)


def main(arguments: Sequence[str] | None = None) -> int:
    asked = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    asked.add_argument("--cache", default=str(default_cache()), help="folder for the wheel")
    asked.add_argument("--orders", type=int, default=40, help="of the rows; default 40")
    asked.add_argument("--plan-runs", type=int, default=400, help="default 400; 0: no plan")
    asked.add_argument("--with-paretobandit", metavar="PYTHON", help="a Python with scikit-learn")
    asked.add_argument(
        "--out", metavar="FOLDER", help="write routing.png, .csv, .toml, .json and replay.csv"
    )
    asked.add_argument("--json", action="store_true", help="print JSON, nothing else")
    options = asked.parse_args(arguments)
    try:
        return run(options)
    except TightropeError as error:
        say(f"routing: {error}")
        return 2


def run(options: argparse.Namespace) -> int:
    if options.orders < 2:
        raise InputError(f"--orders {options.orders}: must be at least 2")
    if options.out:
        require("matplotlib")
    if options.with_paretobandit is not None:
        started([options.with_paretobandit, "-c", NEEDS])
    wheel = fetch(PARETOBANDIT, options.cache)
    columns = columns_of(wheel)
    table, problem = fitted(columns)
    benchmarks = columns["benchmark"][:: len(table.arms)]
    groups = {
        "best fixed mixture": [0] * len(table),
        "best mixture per benchmark": benchmarks,
        "best model per prompt": range(len(table)),
    }
    ceilings = {
        label: [best_by_group(table, group, limit) for limit in LIMITS]
        for label, group in groups.items()
    }
    if not options.json:
        print_arms(table)
        print_ceilings(ceilings)
    planned = None
    if options.plan_runs:
        policies = {name: parse_policy(name) for name in POLICIES[:2]}
        say(f"plan at {PLANNED:.3g} dollars per request")
        planned = plan(problem, policies, budgets=len(table), runs=options.plan_runs, fan=False,
                       progress=False)  # fmt: skip
        if not options.json:
            print(f"\n{planned}")
    rows, features = compared(wheel, table, problem, options.orders, options.with_paretobandit)
    found = {
        "ceilings": {"limits": LIMITS, **ceilings},
        "plan": None if planned is None else planned.summary(),
        "paretobandit_features": features,
        "rows": [asdict(row) for row in rows],
    }
    if options.json:
        print(json.dumps(found))
    else:
        print_rows(rows, features)
    if options.out:
        folder = Path(options.out)
        folder.mkdir(parents=True, exist_ok=True)
        draw(rows, folder / "routing.png")
        write_csv(columns, folder / "routing.csv")
        write_csv(replay_columns(rows), folder / "replay.csv")
        problem.save(folder / "routing.toml")
        write_text(folder / "routing.json", json.dumps(found, indent=1) + "\n")
        say(f"wrote routing.png, .csv, .toml, .json and replay.csv in {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
