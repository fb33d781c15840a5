"""Off-policy estimates beside those of Open Bandit Pipeline (obp), on the data in its own wheel.

    python -m benchmarks.offpolicy

The wheel (Apache 2.0, with a small sample of ZOZO's Open Bandit Dataset) is fetched by pip, without
its dependencies, into benchmarks/.venvs and read there. Only the module of its estimators is
imported: what that names of torch and scikit-learn, for tensors and seeds, is not called or is
replaced by numpy.
"""

from __future__ import annotations

import csv
import importlib
import io
import subprocess
import sys
import types
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.venvs import FOLDER, NotInstalledError, reason
from tightrope.data.log import Log
from tightrope.data.offpolicy import evaluate_mixture
from tightrope.errors import InputError

VERSION = "0.4.1"
WHEEL = FOLDER / "wheels" / f"obp-{VERSION}-py3-none-any.whl"
CLASSES = {
    "ips": "InverseProbabilityWeighting",
    "snips": "SelfNormalizedInverseProbabilityWeighting",
    "dr": "DoublyRobust",
}


class Pair(NamedTuple):
    """One estimate by both, and 95 % intervals: theirs by the bootstrap, ours by the normal law."""

    method: str
    theirs: float
    ours: float
    their_interval: tuple[float, float]
    our_interval: tuple[float, float]


def wheel() -> Path:
    """The wheel, fetched if it is not here yet; raises a ``NotInstalledError`` if it cannot be."""
    if not WHEEL.exists():
        WHEEL.parent.mkdir(parents=True, exist_ok=True)
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary"]
        command = [*pip, ":all:", "--dest", str(WHEEL.parent), f"obp=={VERSION}"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode or not WHEEL.exists():
            raise NotInstalledError(reason(done.stderr))
    return WHEEL


@contextmanager
def estimators(path: Path) -> Iterator[Any]:
    """The module of obp's estimators, for as long as it is needed."""
    before, made = dict(sys.modules), dict[str, Any]()
    for name in ("torch", "sklearn", "sklearn.utils", "obp", "obp.ope"):
        made[name] = types.ModuleType(name)
    made["torch"].Tensor = object
    made["sklearn.utils"].check_random_state = np.random.RandomState
    made["obp"].__path__, made["obp.ope"].__path__ = [f"{path}/obp"], [f"{path}/obp/ope"]
    sys.modules.update(made)
    try:
        yield importlib.import_module("obp.ope.estimators")
    finally:
        for name in set(sys.modules) - set(before):
            if name.partition(".")[0] in ("torch", "sklearn", "obp"):
                del sys.modules[name]
        sys.modules.update({name: before[name] for name in made if name in before})


def log_of(path: Path, behaviour: str, campaign: str) -> Log:
    """A log of obp's data: an item that is shown is a pull at a cost of 1, a click its reward."""
    with zipfile.ZipFile(path) as archive:
        name = f"obp/dataset/obd/{behaviour}/{campaign}/{campaign}.csv"
        rows = list(csv.DictReader(io.TextIOWrapper(archive.open(name), "utf-8")))
    items = np.array([int(row["item_id"]) for row in rows])
    clicks = np.array([float(row["click"]) for row in rows])
    arms = [f"item {k}" for k in range(items.max() + 1)]
    propensity = np.array([float(row["propensity_score"]) for row in rows])
    return Log(arms, (), items, np.array([np.ones(len(rows)), clicks]), propensity)


def compared(path: Path, log: Log, shares: Any, model: Any) -> list[Pair]:
    """Both's estimates of a mixture's clicks per pull; ``model`` [K]: clicks expected of an arm."""
    count, arms = len(log), len(log.arms)
    expected = np.ones((count, arms, 2))
    expected[:, :, 1] = model
    found = evaluate_mixture(log, shares, model=expected)
    given = {
        "reward": log.outcomes[1],
        "action": log.chosen,
        "pscore": log.propensity,
        "action_dist": np.broadcast_to(np.asarray(shares)[None, :, None], (count, arms, 1)),
        "estimated_rewards_by_reg_model": expected[:, :, 1:],
    }
    pairs = []
    with estimators(path) as module:
        for method, kind in CLASSES.items():
            one, mine = getattr(module, kind)(), found.value("reward", method=method)
            spread = one.estimate_interval(**given, n_bootstrap_samples=2000, random_state=1)
            ends = [value for key, value in spread.items() if "CI" in key]
            theirs = float(one.estimate_policy_value(**given))
            pairs.append(Pair(method, theirs, mine.mean, (min(ends), max(ends)), mine.interval))
    return pairs


def cases(path: Path, campaign: str) -> Iterator[tuple[str, Log, Any, Any]]:
    """Logs of both of obp's behaviour policies, and the other one's mixture of the items."""
    logs = {name: log_of(path, name, campaign) for name in ("random", "bts")}
    for here, there in (("random", "bts"), ("bts", "random")):
        log, other = logs[here], logs[there]
        clicks = np.bincount(other.chosen, weights=other.outcomes[1], minlength=len(other.arms))
        model = (clicks + 1.0) / (other.counts + 200.0)
        shares = other.counts / len(other)
        yield f"{campaign}, log of {here}, the shares of {there}", log, shares, model


def main() -> None:
    path = wheel()
    for campaign in ("men", "women", "all"):
        for title, log, shares, model in cases(path, campaign):
            print(f"{title}: {len(log):,} rows, {len(log.arms)} items")
            try:
                pairs = compared(path, log, shares, model)
            except InputError as error:
                print(f"  refused: {error}")
                continue
            for one in pairs:
                ends = [
                    f"[{low:.6f}, {high:.6f}]"
                    for low, high in (one.their_interval, one.our_interval)
                ]
                print(f"  {one.method:6} obp {one.theirs:.12f} {ends[0]}")
                print(f"  {'':6} our {one.ours:.12f} {ends[1]}")


if __name__ == "__main__":
    main()
