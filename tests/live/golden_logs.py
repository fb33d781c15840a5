"""Writes the golden logs: small campaigns whose events together are of every kind.

    python -m tests.live.golden_logs

Only for a new version of the rules, under new names: what is there stays, as old logs do. The
policy's state is left out of the events that carry one, since the ledger does not look at it.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

from tests.live.cheap import Rotation
from tightrope import Features, Limit, Task, open_campaign
from tightrope.errors import TightropeError
from tightrope.live.events import START, VERSION, event_of, line_of, stored, text_of
from tightrope.live.kinds import Archived, BudgetAdded, Discarded, Restored, Stateful, Upgraded
from tightrope.live.ledger import Ledger
from tightrope.live.stores.memory import MemoryStore
from tightrope.problem.features import Mixed

FOLDER = Path(__file__).parent / "golden"
MINUTE = 60_000_000


class Made:
    """A campaign in memory, with a clock."""

    def __init__(self, budget, task, **options):
        self.at = 1_700_000_000_000_000
        self.store = MemoryStore(lambda: self.at)
        options = {"policy": Rotation(), "expire_after": 600, "who": "golden", **options}
        self.campaign = open_campaign(self.store, "golden", task=task, budget=budget, **options)

    def later(self, minutes):
        self.at += minutes * MINUTE
        return self.campaign

    def emit(self, body):
        self.campaign.do(lambda writer: writer.emit(body) and None)


def refused(act, *arguments, **options):
    with contextlib.suppress(TightropeError):
        act(*arguments, **options)
        raise AssertionError("was not refused")


def tickets():
    """What may happen to a ticket, with one account."""
    made = Made(12.5, Task(["a", "b"], {"bad": Limit(0.4)}))
    campaign = made.campaign
    for name in "abcdefgh":
        campaign.ask(name)
    made.later(1).tell("a", 0.25, 1, 0)
    campaign.tell("a", 0.25, 1, 0)
    refused(campaign.tell, "a", 0.5, 1, 0)
    campaign.void("b")
    refused(campaign.tell, "c", -1, 1, 0)
    refused(campaign.tell, "nobody", 1, 1, 0)
    campaign.correct(next(iter(campaign.refreshed().ledger.quarantine)) + 2, 0.125, 0.5, 0.25)
    campaign.tell("d", 1 / 3, 2 / 3, 0.1)
    campaign.amend("d", 0.3, {"bad": 0.2}, note="a bill")
    campaign.tell("b", 0.75, 1, 0)  # after a void
    made.later(11).ask("i", eligible=["b"])  # the rest expires
    campaign.tell("e", 0.5, 1, 1)  # late
    campaign.discard(campaign.quarantine()[0]["number"], note="nothing")
    campaign.tell("i", 2.5, 1, 0)  # an overrun
    campaign.resume()
    for number in range(3):
        campaign.ask(f"n{number}")
    campaign.pause("by hand")
    campaign.close()
    campaign.tell("n1", 1, 1, 0)
    return made


def changes():
    """What may happen to a campaign."""
    made = Made(100, Task(["a", "b"], {"bad": Limit(0.4)}, costs={"a": 0.3, "b": 0.7}), per_day=50)
    campaign = made.campaign
    campaign.ask("x")
    campaign.add_arm("c", cost=0.5)
    campaign.retire_arm("a")
    campaign.reprice("b", cost=0.6)
    made.emit(BudgetAdded(7.25, moves=[72500000000, 0, 0]))  # as 0.2 wrote it
    campaign.pin("b")
    made.later(2).ask("y")
    campaign.pin(None)
    campaign.change(expire_after=1200)
    core = campaign.refreshed()
    made.emit(Upgraded(**core.state(), program="later"))
    campaign.ask("z")
    made.emit(Archived(2, "00", "00"))
    made.emit(Restored(2, ["x", "y", "z"]))
    refused(campaign.ask)
    campaign.tell("y", reward=1, penalty=0)
    campaign.resume()
    campaign.ask()
    made.later(15 * 60)
    return made


def limits():
    """Two accounts; and reports that were refused and not kept."""
    made = Made(20, Task(["a", "b"], {"bad": Limit(total=3, hard=True)}))
    campaign = made.campaign
    for name in "abc":
        campaign.ask(name)
    refused(campaign.ask)
    campaign.tell("a", 0.5, 1, 0.1)
    campaign.tell("b", 0.5, 1, 1.5)  # above what is possible, of the limit
    campaign.amend("a", None, {"bad": 0.7})
    made.emit(Discarded(refused=4))
    made.later(11).pause("x")
    return made


def budgets():
    """Budgets that are raised and lowered, and overruns by amendments; of a hard rate, too."""
    made = Made(20, Task(["a", "b"], {"bad": Limit(0.5, hard=True)}), on_overrun="alert")
    campaign = made.campaign
    for name in "abc":
        campaign.ask(name)
    campaign.tell("a", 0.5, 1, 0.1)
    campaign.tell("b", 1.5, 1, 0.2)  # an overrun
    refused(campaign.set_budget, 2.9)
    campaign.set_budget(10)
    campaign.amend("a", 1.25)  # an overrun
    campaign.amend("a", 1.125)
    campaign.change(on_overrun="pause")
    campaign.amend("b", None, {"bad": 1.5})  # an overrun, which pauses
    campaign.add_budget(2.5)
    campaign.set_budget(8)
    return made


def types():
    """Requests with types, which are added as they come; two of them are merged."""
    task = Task(["a", "b"], {"bad": Limit(0.4)}, contexts={"most": 2})
    made = Made(20, task)
    campaign = made.campaign
    for name, context in zip("abcdef", ["u", "v", "u", "w", "z", "v"], strict=True):
        campaign.ask(name, context=context)
    campaign.tell("a", 0.5, 1, 0.1)
    campaign.tell("d", 0.25, 0.5, 1)
    campaign.amend("d", 0.3, {"bad": 0.2})
    campaign.void("b")
    refused(campaign.tell, "c", -1, 1, 0)
    campaign.correct(next(iter(campaign.refreshed().ledger.quarantine)), 0.125, 0.5, 0.25)
    made.later(11).ask("g", context="u")  # the rest expires
    campaign.merge_types("v", "u")
    campaign.tell("f", 0.5, 1, 1)  # late
    campaign.tell("g", 0.5, 1, 1)
    campaign.ask("h", context="v")
    return made


def features():
    """Requests with a type and features, which are erased."""
    contexts = Mixed(["u", "v"], Features(["size"], erasable=True))
    made = Made(20, Task(["a", "b"], {"bad": Limit(0.4)}, contexts=contexts))
    campaign = made.campaign
    for number, name in enumerate("abcd"):
        campaign.ask(name, context=("uv"[number % 2], [0.1 * number]))
    campaign.tell("a", 0.5, 1, 0.1)
    refused(campaign.tell, "b", -1, 1, 0)
    campaign.correct(next(iter(campaign.refreshed().ledger.quarantine)), 0.125, 0.5, 0.25)
    made.later(11).ask("e", context=("u", [7]))  # the rest expires
    campaign.erase_contexts()
    campaign.tell("c", 0.5, 1, 1)  # late, and its features are gone
    campaign.tell("e", 0.5, 1, 1)
    return made


def written(made):
    """The log as lines of JSON, and at the end the ledger."""
    before, ledger, lines = START, Ledger(), []
    for row in made.store.read("golden", 0, 10**6):
        body = event_of(row).body
        if isinstance(body, Stateful):
            body.state = ""
        row = stored(before, *row[:6], text_of(body))
        ledger.follow(event_of(row, before))
        before = row.hash
        lines.append(line_of(row))
    return "\n".join([*lines, json.dumps({"ledger": ledger.table()})]) + "\n"


def main():
    FOLDER.mkdir(exist_ok=True)
    for make in (tickets, changes, limits, budgets, types, features):
        path = FOLDER / f"{make.__name__}-{VERSION}.jsonl"
        if not path.exists():  # an old log is never written again
            path.write_text(written(make()))


if __name__ == "__main__":
    main()
