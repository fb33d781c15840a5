"""Which kinds of items should a shop show, if kinds with few items must not vanish?

    python examples/data_sets/open_bandit.py
    python examples/data_sets/open_bandit.py --out open-bandit

The logs are the small sample of the Open Bandit Dataset in the wheel of obp (Apache 2.0): for each
of three campaigns 10,000 impressions chosen at random and 10,000 chosen by Thompson sampling
("bts"), each with its item, whether it was clicked, and the item's probability. An impression is a
unit of cost, a click the reward. See docs/data-sets.md.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from wheels import OBP, Columns, default_cache, fetch, read, write_csv

from tightrope import Problem, Share, oracle, parse_policy, plan, replay
from tightrope.data import evaluate_mixture
from tightrope.data.fitting import problem_of
from tightrope.data.log import Log
from tightrope.data.reading import read_log
from tightrope.errors import InputError, TightropeError
from tightrope.files import write_text
from tightrope.report.extra import require
from tightrope.statistics import Estimate, estimate, wilson

CAMPAIGNS = ("men", "women", "all")
CAMPAIGN = "men"  # the one that is planned
METHODS = ("ips", "snips", "dr")
FEATURE = "item_feature_1"  # anonymous; items that share it are a kind
FEW_ITEMS = 4  # kinds with at most this many items are small
SMALL = 0.2  # the smallest share of the impressions for small kinds
POLICIES = ("resolve", "ts-lp:update=true", "uniform-random")
BUDGET = 10_000  # impressions of the plan
REPLAYED = {"rejection": 400, "queues": 1500}  # budgets with enough rows
SPLITS = 100
TELLING = 1.96 + 0.84  # standard errors for a 95 % interval above 0 in 80 % of logs


def kinds_of(wheel: Path, campaign: str) -> dict[str, str]:
    """The kind of every item. The same features have other hashes in the folder of bts."""
    text = read(wheel, f"obp/dataset/obd/random/{campaign}/item_context.csv")
    return {row["item_id"]: f"kind {row[FEATURE][:4]}" for row in csv.DictReader(io.StringIO(text))}


def columns_of(wheel: Path, behaviour: str, campaign: str) -> Columns:
    """A log of the wheel with the kinds of its items, and the kind's probability at random."""
    text = read(wheel, f"obp/dataset/obd/{behaviour}/{campaign}/{campaign}.csv")
    lines = list(csv.DictReader(io.StringIO(text)))
    kinds = kinds_of(wheel, campaign)
    items = Counter(kinds.values())
    return {
        "item": [f"item {row['item_id']}" for row in lines],
        "kind": [kinds[row["item_id"]] for row in lines],
        "click": [int(row["click"]) for row in lines],
        "chance": [float(row["propensity_score"]) for row in lines],
        "kind_chance": [items[kinds[row["item_id"]]] / len(kinds) for row in lines],
    }


def small_kinds(wheel: Path, campaign: str) -> list[str]:
    """The kinds with few items."""
    items = Counter(kinds_of(wheel, campaign).values())
    return sorted(kind for kind, count in items.items() if count <= FEW_ITEMS)


def by_item(columns: Columns) -> Log:
    return read_log(columns, arm="item", cost=1.0, reward="click", propensity="chance")


def by_kind(columns: Columns) -> Log:
    return read_log(columns, arm="kind", cost=1.0, reward="click", propensity="kind_chance")


def clicked(clicks: Sequence[int]) -> dict[str, Any]:
    """Clicks per impression with its 95 % interval."""
    low, high = wilson(sum(clicks), len(clicks))
    return {"mean": float(np.mean(clicks)), "interval": [float(low), float(high)]}


def checked(wheel: Path, campaign: str) -> list[dict[str, Any]]:
    """Each log's estimate of the other's mixture of items, beside that mixture's own reward.

    ``errors_apart``: the difference in standard errors of both. ``rows_to_tell``: the number of
    rows that distinguish the two mixtures (the 95 % interval of the gain is above 0) four times in
    five, if the gain is that of their own logs.
    """
    columns = {name: columns_of(wheel, name, campaign) for name in ("random", "bts")}
    logs = {name: by_item(one) for name, one in columns.items()}
    found = []
    for here, there in (("random", "bts"), ("bts", "random")):
        log, other = logs[here], logs[there]
        own = estimate(other.outcomes[1])
        row: dict[str, Any] = {
            "campaign": campaign,
            "log": here,
            "mixture": there,
            "rows": len(log),
            "clicks": int(log.outcomes[1].sum()),
            "own": clicked(columns[there]["click"]),
            "refused": None,
            "estimates": {},
        }
        if there == "random":
            shares = {arm: 1.0 / len(other.arms) for arm in other.arms}
        else:
            shares = dict(zip(other.arms, (other.counts / len(other)).tolist(), strict=True))
        try:
            made = evaluate_mixture(log, shares)
        except InputError as error:
            found.append({**row, "refused": str(error)})
            continue
        row["effective_rows"] = made.effective
        for method in METHODS:
            value = made.value("reward", method=method)
            row["estimates"][method] = {
                "mean": value.mean,
                "interval": value.interval,
                "errors_apart": apart(value, own),
            }
        if here == "random":
            wanted = np.array([shares[arm] for arm in log.arms])
            weights = wanted[log.chosen] * len(log.arms)
            gain = estimate((weights - 1.0) * log.outcomes[1])
            truth = own.mean - float(log.outcomes[1].mean())
            row["gain"] = {"mean": gain.mean, "interval": gain.interval, "own": truth}
            if truth > 0.0:
                row["rows_to_tell"] = len(log) * (TELLING * (gain.error or 0.0) / truth) ** 2
        found.append(row)
    return found


def apart(one: Estimate, other: Estimate) -> float:
    return (one.mean - other.mean) / float(np.hypot(one.error or 0.0, other.error or 0.0))


def chosen_on_half(log: Log, limits: dict[str, Any]) -> dict[str, Any]:
    """The best mixture of one half of the log, measured on that half and on the other."""
    seen, other = [], []
    for number in range(SPLITS):
        rows = np.random.default_rng([17, number]).permutation(len(log))
        first, second = (part_of(log, np.sort(part)) for part in np.array_split(rows, 2))
        problem = problem_of(first, limits)
        shares = dict(zip(problem.names, oracle(problem).pull_share.tolist(), strict=True))
        seen.append(evaluate_mixture(first, shares).value("reward", method="snips").mean)
        other.append(evaluate_mixture(second, shares).value("reward", method="snips").mean)
    return {
        "splits": SPLITS,
        "same_half": float(np.mean(seen)),
        "other_half": float(np.mean(other)),
        "all_at_random": float(log.outcomes[1].mean()),
    }


def part_of(log: Log, rows: Any) -> Log:
    assert log.propensity is not None
    return Log(
        log.arms, log.penalties, log.chosen[rows], log.outcomes[:, rows], log.propensity[rows]
    )


def replayed(log: Log, problem: Problem, orders: int) -> list[dict[str, Any]]:
    """Policies over the random log, by both methods; "stationary" knows the log's own means."""
    policies = {name: parse_policy(name) for name in (*POLICIES, "stationary")}
    found = []
    for method, budget in REPLAYED.items():
        say(f"replay by {method}: {orders} orders")
        done = replay(log, problem, policies, budget=budget, orders=orders, method=method)
        found += [{"method": method, **row.as_dict()} for row in done]
    return found


def say(text: str) -> None:
    print(text, file=sys.stderr)


def spread(found: Any) -> str:
    low, high = found["interval"]
    return f"{found['mean']:.4f} ({low:.4f} to {high:.4f})"


def print_checks(checks: Sequence[dict[str, Any]]) -> None:
    print("clicks per impression of one policy's mixture of items, from the other's log")
    for row in checks:
        print(f"  {row['campaign']}: {row['mixture']}, from the {row['clicks']} clicks in"
              f" {row['rows']:,} rows of {row['log']}")  # fmt: skip
        if row["refused"]:
            print(f"    refused: {row['refused']}")
        for method, one in row["estimates"].items():
            print(f"    {method:6} {spread(one)}, {one['errors_apart']:+.1f} errors from its own")
        print(f"    {'own':6} {spread(row['own'])}")
        if "gain" in row:
            gain = row["gain"]
            print(f"    gain   {spread(gain)} over random; by their own logs {gain['own']:+.4f}")
        if "rows_to_tell" in row:
            need = row["rows_to_tell"]
            print(f"           {need:,.0f} rows would show it above 0 in four of five logs")


def print_kinds(log: Log, other: Log) -> None:
    print(f"\n{CAMPAIGN}: clicks per 10,000 impressions of a kind, with 95 % intervals")
    for k, arm in enumerate(log.arms):
        texts = []
        for one in (log, other):
            clicks = int(one.of_arm(k)[1].sum())
            low, high = 1e4 * np.array(wilson(clicks, max(int(one.counts[k]), 1)))
            texts.append(f"{clicks:3} of {one.counts[k]:5,}: {low:4.0f} to {high:4.0f}")
        print(f"  {arm}  random {texts[0]}   bts {texts[1]}")


def print_replays(rows: Sequence[dict[str, Any]]) -> None:
    print("\nreplay over the random log: clicks per 10,000 impressions, over orders of these rows")
    for row in rows:
        low, high = (1e4 * end for end in row["reward_rate_interval"])
        print(
            f"  {row['method']:9} {row['policy']:18} {1e4 * row['reward_rate']:5.1f} ({low:.1f} to"
            f" {high:.1f}) at {row['budget']:g} impressions, {row['rows_used']:,.0f} of"
            f" {row['rows_passed']:,.0f} rows used"
        )


def draw(checks: Sequence[dict[str, Any]], log: Log, path: Path) -> None:
    """The random log's estimate of bts beside its own reward; the kinds' click rates."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    from tightrope.report.styles import INK, SETTINGS

    looks = {"ips": ("#0072b2", "o"), "snips": ("#56b4e9", "s"), "dr": ("#009e73", "^"),
             "own": (INK, "D")}  # fmt: skip
    mine = [row for row in checks if row["log"] == "random"]
    with pyplot.rc_context(SETTINGS):
        figure, (left, right) = pyplot.subplots(1, 2, figsize=(9.2, 3.7), layout="constrained")
        for j, (method, (colour, marker)) in enumerate(looks.items()):
            found = [row["own"] if method == "own" else row["estimates"][method] for row in mine]
            means = 1e4 * np.array([one["mean"] for one in found])
            reach = np.abs(1e4 * np.array([one["interval"] for one in found]).T - means)
            label = "bts in its own log" if method == "own" else f"{method}, from the log of random"
            left.errorbar(np.arange(len(mine)) + 0.16 * (j - 1.5), means, reach, color=colour,
                          marker=marker, linestyle="none", label=label)  # fmt: skip
        left.set_xticks(range(len(mine)), [row["campaign"] for row in mine])
        left.set_title("clicks per 10,000 impressions of bts")
        left.set_ylim(0.0)
        left.legend(loc="lower left")
        clicks = np.bincount(log.chosen, log.outcomes[1], len(log.arms))
        order = np.argsort(clicks / log.counts)
        rates = 1e4 * (clicks / log.counts)[order]
        ends = 1e4 * np.array([wilson(int(clicks[k]), int(log.counts[k])) for k in order]).T
        right.errorbar(rates, range(len(order)), xerr=np.abs(ends - rates), color="#0072b2",
                       marker="o", linestyle="none", label="a kind")  # fmt: skip
        right.axvline(1e4 * log.outcomes[1].mean(), color=INK, linewidth=0.9, label="all items")
        names = [f"{log.arms[k]} ({clicks[k]:.0f} of {log.counts[k]:,})" for k in order]
        right.set_yticks(range(len(order)), names)
        right.set_xlim(0.0)
        right.legend(loc="lower right")
        right.set_title(f"clicks per 10,000 at random, {CAMPAIGN}")
        figure.savefig(path, dpi=110)
        pyplot.close(figure)


def main(arguments: Sequence[str] | None = None) -> int:
    asked = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    asked.add_argument("--cache", default=str(default_cache()), help="folder for the wheel")
    asked.add_argument("--orders", type=int, default=40, help="of the rows; default 40")
    asked.add_argument("--plan-runs", type=int, default=400, help="default 400; 0: no plan")
    asked.add_argument("--out", metavar="FOLDER", help="write open-bandit.png, .csv, .toml, .json")
    asked.add_argument("--json", action="store_true", help="print JSON, nothing else")
    options = asked.parse_args(arguments)
    try:
        return run(options)
    except TightropeError as error:
        say(f"open_bandit: {error}")
        return 2


def run(options: argparse.Namespace) -> int:
    if options.orders < 2:
        raise InputError(f"--orders {options.orders}: must be at least 2")
    if options.out:
        require("matplotlib")
    wheel = fetch(OBP, options.cache)
    checks = [row for campaign in CAMPAIGNS for row in checked(wheel, campaign)]
    columns = columns_of(wheel, "random", CAMPAIGN)
    log = by_kind(columns)
    limits = {"small kinds": Share(small_kinds(wheel, CAMPAIGN), at_least=SMALL)}
    problem = problem_of(log, limits, name="open-bandit-men")
    best = oracle(problem)
    halves = chosen_on_half(log, limits)
    if not options.json:
        print_checks(checks)
        print_kinds(log, by_kind(columns_of(wheel, "bts", CAMPAIGN)))
        mixed = {n: round(float(x), 2) for n, x in zip(log.arms, best.pull_share, strict=True) if x}
        print(f"\nbest mixture of the log: {mixed}, {1e4 * best.reward_rate:.1f} clicks per 10,000")
        print(
            f"chosen on one half of the log: {1e4 * halves['same_half']:.1f} there,"
            f" {1e4 * halves['other_half']:.1f} on the other half;"
            f" all at random: {1e4 * halves['all_at_random']:.1f}"
        )
    planned = None
    if options.plan_runs:
        say(f"plan for {BUDGET:,} impressions")
        policies = {name: parse_policy(name) for name in POLICIES}
        planned = plan(problem, policies, budgets=BUDGET, runs=options.plan_runs, fan=False,
                       progress=False)  # fmt: skip
        if not options.json:
            print(f"\n{planned}")
    replays = replayed(log, problem, options.orders)
    found = {
        "checks": checks,
        "best_mixture": dict(zip(log.arms, best.pull_share.tolist(), strict=True)),
        "best_rate": best.reward_rate,
        "halves": halves,
        "plan": None if planned is None else planned.summary(),
        "replays": replays,
    }
    if options.json:
        print(json.dumps(found))
    else:
        print_replays(replays)
    if options.out:
        folder = Path(options.out)
        folder.mkdir(parents=True, exist_ok=True)
        draw(checks, log, folder / "open-bandit.png")
        write_csv(columns, folder / "open-bandit.csv")
        problem.save(folder / "open-bandit.toml")
        write_text(folder / "open-bandit.json", json.dumps(found, indent=1) + "\n")
        say(f"wrote open-bandit.png, .csv, .toml and .json in {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
