"""Do the features of a visitor tell which kind of item to show?

    python examples/data_sets/open_bandit_features.py

The logs are those of random choices in ``open_bandit.py``, for three campaigns. A visitor has four
anonymous categories and an affinity to each item, which is mostly 0. Ridge regressions of the
clicks on each kind of item, from one half of a log, choose a kind for every visitor of the other
half; inverse propensity weights estimate the clicks that these choices get there. The same is done
without features, and with each visitor's features given to another visitor.
"""

from __future__ import annotations

import argparse
import csv
import io
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from open_bandit import CAMPAIGNS, by_kind, columns_of, kinds_of
from wheels import OBP, default_cache, fetch, read

from tightrope.data.log import Log
from tightrope.errors import TightropeError
from tightrope.statistics import wilson

RIDGES = (30.0, 300.0, 3000.0)  # impressions
Floats = npt.NDArray[np.float64]


def visitors_of(wheel: Path, campaign: str) -> tuple[Floats, Floats]:
    """Features of every visitor: categories, and the affinity to each kind; that to the item shown.

    A category that most visitors have is left out, because the others determine it.
    """
    text = read(wheel, f"obp/dataset/obd/random/{campaign}/{campaign}.csv")
    rows, kinds = list(csv.DictReader(io.StringIO(text))), kinds_of(wheel, campaign)
    items = list(kinds)
    affinity = np.array(
        [[float(row[f"user-item_affinity_{item}"]) for item in items] for row in rows]
    )
    found = [affinity[:, [kinds[item] == kind for item in items]] for kind in set(kinds.values())]
    columns = [np.log1p(one.sum(axis=1)) for one in found]
    for name in (name for name in rows[0] if name.startswith("user_feature_")):
        values, counts = np.unique([row[name] for row in rows], return_counts=True)
        others = np.delete(values, counts.argmax())
        columns += [np.array([row[name] == value for row in rows], float) for value in others]
    shown = np.array([items.index(row["item_id"]) for row in rows])
    return np.column_stack(columns), affinity[np.arange(len(rows)), shown]


def scores(log: Log, features: Floats, rows: npt.NDArray[np.int64], ridge: float) -> Floats:
    """The clicks that are expected of every kind [n, K], from some rows of the log."""
    centred = features - features[rows].mean(axis=0)
    made = np.column_stack([np.ones(len(log)), centred])
    weight = np.diag([1.0, *[ridge] * features.shape[1]])
    clicks, rate = log.outcomes[1], log.outcomes[1][rows].mean()
    found = []
    for kind in range(len(log.arms)):
        mine = rows[log.chosen[rows] == kind]
        square, moment = made[mine].T @ made[mine], made[mine].T @ (clicks[mine] - rate)
        found.append(rate + made @ np.linalg.solve(square + weight, moment))
    return np.array(found).T


def gained(log: Log, features: Floats, ridge: float, splits: int) -> float:
    """Clicks per 10,000 on the other half of the log, over all splits."""
    assert log.propensity is not None
    found = []
    for number in range(splits):
        rows = np.random.default_rng([17, number]).permutation(len(log))
        first, second = np.array_split(rows, 2)
        best = scores(log, features, first, ridge).argmax(axis=1)[second]
        weights = (best == log.chosen[second]) / log.propensity[second]
        found.append(float(weights @ log.outcomes[1][second] / weights.sum()))
    return 1e4 * float(np.mean(found))


def share(clicks: int, count: int) -> str:
    low, high = 1e4 * np.array(wilson(clicks, max(count, 1)))
    return f"{clicks} of {count:,} impressions, {low:.0f} to {high:.0f} clicks per 10,000"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print who clicks, and what a choice of kinds by features earns."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--cache", default=str(default_cache()), help="folder for the wheel")
    parser.add_argument("--splits", type=int, default=100, help="of a log into halves")
    options = parser.parse_args(arguments)
    try:
        wheel = fetch(OBP, options.cache)
        for campaign in CAMPAIGNS:
            log = by_kind(columns_of(wheel, "random", campaign))
            features, own = visitors_of(wheel, campaign)
            clicks = log.outcomes[1].astype(int)
            kinds = len(set(kinds_of(wheel, campaign).values()))
            some = features[:, :kinds].any(axis=1)
            print(f"{campaign}: {share(clicks.sum(), len(log))}")
            print(
                f"  visitors with an affinity to some item: {share(clicks[some].sum(), sum(some))}"
            )
            print(f"  shown such an item: {share(clicks[own > 0].sum(), sum(own > 0))}")
            other = features[np.random.default_rng(5).permutation(len(log))]
            nothing = gained(log, features[:, :0], 1.0, options.splits)
            print(f"  best kind of one half, on the other: {nothing:.1f} clicks per 10,000")
            for ridge in RIDGES:
                made = [gained(log, one, ridge, options.splits) for one in (features, other)]
                text = f"{made[0]:.1f}; with another visitor's features {made[1]:.1f}"
                print(f"  best kind for each visitor, ridge {ridge:g}: {text}", flush=True)
    except TightropeError as error:
        print(f"open_bandit_features: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
