"""Who gets which model: the shares of the models by type of prompt and by its length, drawn.

    python examples/data_sets/routing_shares.py docs/contexts.png

The router is that of ``routing_features.py``: ``resolve:risk=0.01`` sees the words, the length and
the benchmark of each prompt, after it learned from the other table.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from routing import LIMITS, MODELS, columns_of, orders_of
from routing_features import features_of, prompts_of, with_features
from routing_types import LARGEST_PRICE, WEIGHT, table_of
from wheels import PARETOBANDIT, default_cache, fetch

from tightrope import Controller, FullTable, Limit, Resolve, Scales, Task
from tightrope.errors import TightropeError
from tightrope.problem import Mixed
from tightrope.report.extra import require

SHOWN = (LIMITS[1], LIMITS[4])  # dollars per request
PARTS = 8  # groups of prompts of like length
COLOURS = ("#56b4e9", "#0072b2", "#d55e00")
Floats = npt.NDArray[np.float64]


def pulled(tables: Sequence[FullTable], task: Task, orders: int) -> Floats:
    """How often each prompt went to each model, as a share of the orders [n, K]."""
    table, other = tables
    contexts: Any = task.contexts
    rows, found = contexts.rows(table.contexts), np.zeros(table.outcomes.shape[:2])
    taught = Controller(task, Resolve(risk=0.01), len(table) - 1, learn_from=other, weight=WEIGHT)
    for order in orders_of(len(table), orders):
        controller = taught.copy()
        for row in order:
            arm = controller.ask(context=rows[row])
            controller.tell_row(arm, table.outcomes[row, arm])
            found[row, arm] += 1.0 / orders
    return found


def draw(shares: Sequence[Floats], types: Sequence[str], lengths: Floats, path: str) -> None:
    """A row of panels for each limit: bars by type, and by length."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    from tightrope.report.styles import SETTINGS

    names = sorted(set(types), key=lambda name: float(shares[0][np.array(types) == name, 0].mean()))
    edges = np.quantile(lengths, np.linspace(0.0, 1.0, PARTS + 1))
    part = np.clip(np.searchsorted(edges, lengths, "right") - 1, 0, PARTS - 1)
    middle = [f"{np.median(lengths[part == at]):,.0f}" for at in range(PARTS)]
    groups = [[np.array(types) == name for name in names], [part == at for at in range(PARTS)]]
    with pyplot.rc_context(SETTINGS):
        figure, panels = pyplot.subplots(
            len(shares), 2, figsize=(9.2, 5.4), layout="constrained", sharex="col", sharey=True
        )
        for limit, found, (left, right) in zip(SHOWN, shares, panels, strict=True):
            for axes, some, labels in ((left, groups[0], names), (right, groups[1], middle)):
                heights = np.array([found[one].mean(axis=0) for one in some])
                below = np.zeros(len(some))
                for arm, colour in enumerate(COLOURS):
                    axes.bar(range(len(some)), heights[:, arm], 0.85, below, color=colour)
                    below += heights[:, arm]
                axes.set_axisbelow(True)
                axes.set_xticks(range(len(labels)), labels, rotation=40, ha="right")
            left.set_ylabel("share of the prompts")
            left.set_title(f"by benchmark, {limit:.3g} dollars per request")
            right.set_title(f"by length of the prompt, {limit:.3g} dollars per request")
        panels[-1][1].set_xlabel("characters, median of an eighth of the prompts")
        handles = [pyplot.Rectangle((0, 0), 1, 1, color=colour) for colour in COLOURS]
        figure.legend(handles, tuple(MODELS.values()), loc="outside lower center", ncols=3)
        figure.savefig(path, dpi=110)
        pyplot.close(figure)


def main(arguments: Sequence[str] | None = None) -> int:
    """Replay the router at two limits, and draw who got what."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("out", help="the picture, a PNG file")
    parser.add_argument("--orders", type=int, default=20, help="shuffles of the prompts")
    options = parser.parse_args(arguments)
    try:
        require("matplotlib")
        wheel, names = fetch(PARETOBANDIT, default_cache()), ("test_holdout", "val")
        prompts = [prompts_of(wheel, name) for name in names]
        features = features_of(*prompts)
        plain = [table_of(columns_of(wheel, name), types=True) for name in names]
        tables = [with_features(*pair, True) for pair in zip(plain, features, strict=True)]
        kinds = sorted({*plain[0].contexts, *plain[1].contexts})
        shares = []
        for limit in SHOWN:
            task = Task(
                plain[0].arms,
                {"dollars": Limit(limit, per="pull")},
                Scales(penalty={"dollars": LARGEST_PRICE}),
                costs=1,
                contexts=Mixed(kinds, features[0].shape[1]),
            )
            shares.append(pulled(tables, task, options.orders))
        draw(shares, plain[0].contexts, np.array(list(map(len, prompts[0]))), options.out)
    except TightropeError as error:
        print(f"routing_shares: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
