"""How what a corpus holds goes on: steps as JSON has them, written down once and taken again.

A step is a list: what is done, its arguments, and for a decision last what was decided. Reports are
written out in full, so that nothing here decides what is told.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tightrope import Controller, Problem, Results
from tightrope.errors import TightropeError
from tightrope.live.campaign import Campaign

HERE = Path(__file__).parent
MOMENT = 60.0  # seconds between two steps of a campaign
STATUS = (
    "name", "state", "budget", "spent", "reserved", "free", "in_flight", "asked", "told", "voided",
    "expired", "late", "quarantined", "refused", "overruns", "reward", "penalties", "hard", "stop",
    "shadow", "policy", "pinned", "arms", "epoch", "doubtful",
)  # fmt: skip


class Clock:
    """A clock that is moved by hand, in microseconds."""

    def __init__(self, at: int) -> None:
        self.at = at

    def __call__(self) -> int:
        return self.at

    def later(self, seconds: float) -> None:
        self.at += round(seconds * 1e6)


def packed(path: Path, content: bytes) -> None:
    """Write a file, compressed, with the same bytes at any time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(content, 9, mtime=0))


def unpacked(path: Path, folder: Path) -> Path:
    """A compressed file as it was, in a folder where it may be written to."""
    target = folder / path.name.removesuffix(".gz")
    target.write_bytes(gzip.decompress(path.read_bytes()))
    return target


def read(path: Path) -> Any:
    """What a compressed JSON file holds."""
    return json.loads(gzip.decompress(path.read_bytes()))


def as_json(value: object) -> Any:
    """A value as it is after it was written and read."""
    return json.loads(json.dumps(value))


# Controllers.


def step(controller: Controller, what: str, *given: Any) -> Any:
    """Take one step; for a decision the arm."""
    if what == "ask":
        return controller.ask(given[0])
    if what == "tell":
        arm, cost, reward, penalty = given
        controller.tell(arm, cost, reward, penalty)
    elif what == "void":
        controller.void(given[0])
    else:
        raise AssertionError(f"unknown step {what!r}")
    return None


def totals(controller: Controller) -> dict[str, Any]:
    """All that a controller says of itself."""
    return as_json(
        {
            "policy": controller.policy.label,
            "budget": controller.budget,
            "spent": controller.spent,
            "pulls": controller.pulls,
            "in_flight": controller.in_flight,
            "means": controller.means,
            "queues": controller.queues,
            "scales": controller.task.scales.channels,
            "retired": controller.retired,
            "cut": controller.cut,
            "exhausted": controller.exhausted,
        }
    )


# Campaigns.


def act(campaign: Campaign, what: str, *given: Any) -> Any:
    """Take one step; for a decision the arm's name, or the kind of the error."""
    if what == "ask":
        ticket, eligible = given
        try:
            return campaign.ask(ticket, eligible=eligible).arm
        except TightropeError as error:
            return type(error).__name__
    if what == "tell":
        ticket, cost, reward, penalty = given
        campaign.tell(ticket, cost, reward, penalty)
    elif what == "void":
        campaign.void(given[0])
    elif what == "resume":
        campaign.resume()
    else:
        raise AssertionError(f"unknown step {what!r}")
    return None


def act_again(
    campaign: Campaign, steps: list[list[Any]], later: Callable[[float], None]
) -> tuple[list[Any], list[Any]]:
    """Take the steps of a campaign again; what is decided, and what was decided then."""
    now, then = [], []
    for what, *given in steps:
        if what == "ask":
            *given, decided = given
            then.append(decided)
            now.append(act(campaign, what, *given))
        else:
            act(campaign, what, *given)
        later(MOMENT)
    return now, then


def status(campaign: Campaign) -> dict[str, Any]:
    """Where a campaign stands, without what depends on who has opened it and when."""
    found = campaign.status()
    return as_json({key: found[key] for key in STATUS})


# Problems and results.


def facts(problem: Problem) -> dict[str, Any]:
    """What a problem says of itself."""
    return as_json(
        {
            "arms": list(problem.names),
            "limits": [problem.task.limit_text(m) for m in range(problem.penalty_count)],
            "scales": problem.scales.channels,
            "rows": problem.row_count,
            "costs": [arm.cost.mean for arm in problem.arms],
            "rewards": [arm.reward.mean for arm in problem.arms],
        }
    )


def runs_of(results: Results) -> dict[str, Any]:
    """All runs of results, in the user's units."""
    arrays = ("reward", "cost", "penalty", "pulls", "arm_cost", "queue", "queue_max")
    return as_json(
        {
            "budgets": results.budgets,
            "seed": results.seed,
            "numbers": results.run_numbers.tolist(),
            "version": results.version,
            "complete": results.complete,
            "delay": results.delay,
            "lost": results.lost,
            "runs": {
                record.label: {name: getattr(record.runs, name).tolist() for name in arrays}
                for record in results.records
            },
        }
    )
