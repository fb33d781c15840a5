"""Writes the corpus of the version that runs it: what later versions must read, and go on with.

    python -m tests.corpus.write

It writes into a folder named after the version, such as ``v0.2``. What is there is never rewritten:
if the folder exists, nothing is done. A release writes one, and it is committed with the release;
``test_corpus.py`` finds the folders by itself.

- ``controllers.json.gz``: snapshots of controllers by kind, each with the steps that come next
  (decisions, and reports in full) and what the controller says of itself before and after.
- ``plain.json.gz``: the same for index policies that had decided in plain Python.
- ``stores/*.db.gz``: SQLite stores. ``campaigns.json.gz`` has, for every campaign of each, its
  status, the steps that come next, and its status after them. ``stores/archived.jsonl.gz`` has the
  events that were moved out of ``archived.db``.
- ``postgres.sql.gz``: a database as ``pg_dump --inserts`` writes it, in a schema of its own;
  ``postgres.json.gz`` is the same for it as ``campaigns.json.gz``.
- ``exports/*.jsonl.gz``: what ``tightrope campaign export`` writes; ``exports.json`` what is fitted
  to them.
- ``results/``: saved results; ``results.json.gz`` has their runs.
- ``problems/``: problems and tasks as TOML, one with its rows in a Parquet file; ``problems.json``
  has facts of them.

Index policies are compiled first, because in plain Python 0.2 does not keep the terms of their
indices in the state; ``plain.json.gz`` has some snapshots of that kind. All else is decided in
plain Python, which makes the same bits.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from hashlib import blake2b
from math import isnan
from pathlib import Path
from typing import Any

import numpy as np

from tests.corpus.steps import (
    HERE,
    MOMENT,
    Clock,
    act,
    facts,
    packed,
    runs_of,
    status,
    step,
    totals,
)
from tests.live.postgres import Server, server_programs
from tests.problems import coins
from tightrope import (
    Arm,
    Bernoulli,
    Beta,
    Controller,
    Limit,
    Problem,
    Scales,
    Share,
    Task,
    Uniform,
    open_campaign,
    parse_policy,
    ready_problem,
    simulate,
)
from tightrope.cli import main as shell
from tightrope.data.fitting import fit
from tightrope.errors import TightropeError
from tightrope.live import turns
from tightrope.live.archive import archive_events, backup_store, restore_store
from tightrope.live.calls import Background, NativeCalls
from tightrope.live.stores import open_store
from tightrope.live.stores.sqlite import SQLiteStore
from tightrope.policies import POLICIES
from tightrope.policies.base import IndexPolicy
from tightrope.version import __version__

SNAPSHOT_EVERY = 60  # events, so that short logs have several
FOR_EVER = 90 * 365 * 86400.0  # seconds: tickets that are open in the corpus stay open
Later = Callable[[float], None]


def chance(*words: object) -> float:
    """A number in [0, 1) that hangs on the words alone."""
    return int.from_bytes(blake2b(repr(words).encode(), digest_size=4).digest()) / 2**32


def outcome(task: Task, arm: int, turn: int, most: float = 1.0) -> list[Any]:
    """Cost, reward and penalties of a pull; what is known is left out.

    ``most``: the largest outcome in terms of its scale, where scales grow.
    """
    known, grows = task.known_outcomes[arm], task.scales.grow

    def drawn(place: int) -> float | None:
        if not isnan(known[place]):
            return None
        scale, mean = task.scales.channels[place], 0.2 + 0.6 * chance(arm, place)
        value = chance(arm, place, turn)
        if task.channels[place] in grows:
            scale *= most
        if place == 1 or place == 2:
            return scale if value < mean else 0.0
        return round(scale * (0.05 + 0.9 * mean * value), 6)

    several = {task.limit_names[m]: drawn(2 + m) for m in task.told}
    told = {name: value for name, value in several.items() if value is not None}
    penalty: Any = told or None
    if len(several) == 1 and told:
        (penalty,) = told.values()
    return [drawn(0), drawn(1), penalty]


# Controllers.


def compile_index(task: Task | Problem, policy: str, budget: float) -> None:
    """Have an index policy's kernels on the disk."""
    if isinstance(parse_policy(policy), IndexPolicy):
        Controller(task, parse_policy(policy), budget, background=True)
        Background.wait()


class Run:
    """A controller on its way: steps are taken and written down."""

    def __init__(
        self, task: Task | Problem, policy: str, budget: float = 200.0, compiled: bool = True
    ) -> None:
        if compiled:
            compile_index(task, policy, budget)
        made = Controller(task, parse_policy(policy), budget, seed=7, background=True)
        if not compiled:
            made._tell, made._choose = made._plain_calls(compilable=False)
        self.controller = made
        self.steps: list[list[Any]] = []
        self.waiting: list[int] = []
        self.turn = self.shift = 0  # shift: how far arms have taken each other's places

    def take(self, what: str, *given: Any) -> Any:
        found = step(self.controller, what, *given)
        self.steps.append([what, *given, found] if what == "ask" else [what, *given])
        return found

    def pulls(self, count: int, flight: int = 0, most: float = 1.0) -> Run:
        """So many decisions, each told after ``flight`` others were made."""
        for _ in range(count):
            self.turn += 1
            self.waiting.append(self.take("ask", None))
            while len(self.waiting) > flight:
                arm, task = self.waiting.pop(0), self.controller.task
                like = (arm + self.shift) % task.arm_count if self.shift else arm
                self.take("tell", arm, *outcome(task, like, self.turn, most))
        return self


def paper() -> Problem:
    """Three arms of zeros and ones."""
    return Problem.from_bernoulli(
        [0.4, 0.6, 0.5], [0.8, 0.6, 0.3], [[0.6], [0.3], [0.2]], limit=0.8, name="three"
    )


TASKS = {  # limits that bind, so that decisions are mixtures
    "one": Task(["a", "b", "c"], {"bad": Limit(1.2)}),
    "none": Task(["a", "b", "c"]),
    "two": Task(
        ["a", "b", "c"],
        {"bad": Limit(0.9), "usd": Limit(0.025)},
        Scales(cost=2, penalty={"usd": 0.05}),
    ),
    "expected": Task(
        ["a", "b", "c"],
        {"bad": Limit(1.2)},
        expected={"a": {"cost": 0.5, "reward": 0.7}, "c": {"bad": 0.2, "reward": 0.1}},
    ),
    "safe": Task(["a", "b", "c"], {"bad": Limit(1.5)}, safe="a", safe_rates={"bad": 0.7}),
    "hard": Task(["a", "b", "c"], {"bad": Limit(total=240, hard=True), "usd": Limit(1.0)}),
    "bases": Task(
        ["a", "b", "c"],
        {
            "bad": Limit(0.35, per="pull"),
            "slow": Limit(0.7, per="reward"),
            "dear": Limit(0.6, of="cost", per="reward"),
            "sum": Limit(total=160),
        },
    ),
    "shares": Task(["a", "b", "c"], {"bad": Limit(1.2), "new": Share(["c"], at_least=0.2)}),
    "known": Task(
        ["a", "b", "c", "no"],
        {"bad": Limit(0.5), "usd": Limit(0.4)},
        costs={"a": 0.9, "b": 0.5, "c": 0.25, "no": 0.1},
        known={"usd": {"a": 0.5, "b": 0.2, "c": 0.1, "no": 0.0}},
        skip="no",
    ),
    "growing": Task(
        ["a", "b", "c"],
        {"bad": Limit(1.2), "usd": Limit(0.3)},
        Scales(penalty={"usd": 0.125}, grow={"usd": 1.0, "reward": 8.0}),
    ),
    "growing-known": Task(
        ["a", "b", "c"],
        {"bad": Limit(0.9), "usd": Limit(0.3)},
        Scales(penalty={"usd": 0.125}, grow={"usd": 1.0}),
        costs={"a": 0.7, "b": 0.3, "c": 0.3},
    ),
}
VARIANTS = (
    "lyon:window0=1", "lyon:discount0=1", "lyon:delta0=15,alpha=2", "resolve:window0=2",
    "resolve:discount0=2", "resolve:risk=0.01", "resolve:watch=0.01", "ts-lp:update=true",
    "stationary:shares=0.2/0.3/0.5", "control-budget:known=true", "fixed-arm:arm=2",
)  # fmt: skip
SHAPES = (
    *((task, policy) for task in ("none", "two") for policy in ("lyon", "resolve", "ts-lp")),
    ("expected", "resolve"),
    ("safe", "resolve:risk=0.05"),
    ("safe", "optpess-lp"),
    *((task, policy) for task in ("hard", "bases", "shares") for policy in ("lyon", "resolve")),
    ("bases", "primal-dual-bwk"),
    *(("known", policy) for policy in ("lyon", "resolve", "lyon-ts", "primal-dual-bwk")),
)
FLYING = (
    "lyon", "lyon:window0=1", "resolve", "resolve:watch=0.01", "resolve:window0=2", "ts-lp",
    "lyon-ts", "primal-dual-bwk", "stationary:shares=0.2/0.3/0.5",
)  # fmt: skip


def runs() -> Iterator[tuple[str, Run, int]]:
    """Controllers at the moment of their snapshot, by kind, and how many pulls stay in flight."""
    for text in (*POLICIES, *VARIANTS):
        yield text, Run(paper(), text).pulls(60), 0
    for task, policy in SHAPES:
        yield f"{task} {policy}", Run(TASKS[task], policy).pulls(60), 0
    for policy in FLYING:
        yield f"in flight {policy}", Run(TASKS["one"], policy).pulls(60, flight=4), 4
    yield "in flight safe", Run(TASKS["safe"], "resolve:risk=0.05").pulls(60, flight=4), 4
    yield "in flight bases", Run(TASKS["bases"], "resolve").pulls(60, flight=4), 4
    for policy in ("lyon", "resolve"):
        yield f"new {policy}", Run(TASKS["one"], policy), 0
        yield f"exploring {policy}", Run(TASKS["one"], policy).pulls(2, flight=1), 1
    yield "many lyon", Run(coins(150, 1), "lyon:beta0=0.05", 1000.0).pulls(220), 0
    yield "many lyon two limits", Run(coins(150, 2), "lyon:beta0=0.05", 1000.0).pulls(220), 0
    yield "many lyoff", Run(coins(150, 1), "lyoff", 1000.0).pulls(60), 0
    yield "many resolve", Run(coins(150, 1), "resolve", 1000.0).pulls(160), 0
    watching = Run(TASKS["one"], "resolve:watch=0.01").pulls(100)
    watching.shift = 2
    watching.pulls(80)
    assert watching.controller.outlook().changed, "no alarm"
    yield "alarmed resolve:watch=0.01", watching, 0
    yield from moved()


def moved() -> Iterator[tuple[str, Run, int]]:
    """Controllers whose arms, prices, budget and scales have changed."""
    for policy in ("lyon", "resolve", "lyon:window0=1", "ts-lp", "resolve:watch=0.01"):
        run = Run(TASKS["one"], policy).pulls(40)
        run.controller.add_arm("d", like="a", weight=5)
        run.pulls(10)
        run.controller.add_arm("e")
        run.controller.retire_arm("b")
        run.controller.add_budget(25)
        yield f"arms {policy}", run.pulls(15, flight=2), 2
    for policy in ("lyon", "resolve"):
        run = Run(TASKS["known"], policy).pulls(40)
        run.controller.reprice("a", cost=0.4, penalty={"usd": 0.3})
        run.controller.add_arm("d", cost=0.35, penalty={"usd": 0.15})
        yield f"repriced {policy}", run.pulls(20), 0
        run = Run(TASKS["growing"], policy).pulls(30)
        run.pulls(3, most=3.0).pulls(20, most=0.9).pulls(4, most=9.0)
        yield f"grown {policy}", run.pulls(10, most=0.5), 0
    run = Run(TASKS["one"], "lyon").pulls(30, flight=3)
    run.take("void", run.waiting.pop())
    run.take("ask", ["b", "c"])
    run.waiting.append(run.steps[-1][-1])
    run.controller.charge(1.5)
    yield "voided lyon", run, 2


def plain_runs() -> Iterator[tuple[str, Run, int]]:
    """Index policies that have decided in plain Python."""
    for policy in ("lyon", "ucb-bwi", "epsilon-greedy"):
        yield policy, Run(TASKS["one"], policy, compiled=False).pulls(60), 0
    yield "many lyon", Run(coins(150, 1), "lyon:beta0=0.05", 1000.0, compiled=False).pulls(220), 0


def write_controllers(path: Path, made: Iterator[tuple[str, Run, int]], compiled: bool) -> None:
    found = {}
    for kind, run, flight in made:
        if isinstance(run.controller.policy, IndexPolicy):
            assert isinstance(run.controller._calls, NativeCalls) == compiled, kind
        saved, before = run.controller.snapshot(), totals(run.controller)
        run.steps = []
        run.pulls(60, flight)
        found[kind] = {
            "snapshot": base64.b85encode(saved).decode(),
            "before": before,
            "steps": run.steps,
            "after": totals(run.controller),
        }
        again = Controller.restore(saved, background=True)
        if not compiled:
            again._tell, again._choose = again._plain_calls(compilable=False)
        decided = [step(again, *(one[:-1] if one[0] == "ask" else one)) for one in run.steps]
        assert decided == [one[-1] if one[0] == "ask" else None for one in run.steps], kind
        assert totals(again) == totals(run.controller), kind
    packed(path, json.dumps(found).encode())


# Campaigns.


class Live:
    """A campaign on its way."""

    def __init__(self, store: Any, later: Later, name: str, **options: Any) -> None:
        if "task" in options:
            compile_index(options["task"], options["policy"], options["budget"])
        self.campaign = open_campaign(
            store, name, **{"who": "corpus", "expire_after": FOR_EVER, "seed": 7, **options}
        )
        self.later, self.name, self.turn = later, name, 0
        self.steps: list[list[Any]] = []
        self.waiting: list[tuple[str, int]] = []

    @property
    def task(self) -> Task:
        return self.campaign.refreshed().controller.task

    def take(self, what: str, *given: Any) -> Any:
        found = act(self.campaign, what, *given)
        self.steps.append([what, *given, found] if what == "ask" else [what, *given])
        self.later(MOMENT)
        return found

    def ask(self, ticket: str, eligible: list[str] | None = None) -> None:
        arm = self.take("ask", ticket, eligible)
        if arm in self.task.names:
            self.waiting.append((ticket, self.task.names.index(arm)))

    def tell(self, ticket: str, arm: int, most: float = 1.0) -> None:
        self.turn += 1
        self.take("tell", ticket, *outcome(self.task, arm, self.turn, most))

    def pulls(self, count: int, flight: int = 0, most: float = 1.0, word: str = "t") -> Live:
        """So many decisions, each told after ``flight`` others were made."""
        for _ in range(count):
            self.turn += 1
            self.ask(f"{word}-{self.turn}")
            while len(self.waiting) > flight:
                self.tell(*self.waiting.pop(0), most)
        return self

    def expires(self, ticket: str) -> None:
        """A ticket of which nothing is heard in time."""
        self.campaign.ask(ticket, expire_after=0.02)
        self.later(0.05)


def refused(done: Callable[..., Any], *given: Any) -> None:
    with suppress(TightropeError):
        done(*given)
        raise AssertionError("was not refused")


def tickets(store: Any, later: Later) -> Live:
    """All that may happen to tickets; one limit."""
    live = Live(store, later, "tickets", task=TASKS["one"], budget=150, policy="resolve")
    campaign = live.campaign
    live.pulls(30, flight=3)
    campaign.void(live.waiting.pop()[0])
    live.expires("gone-1")
    live.expires("gone-2")
    live.pulls(20, flight=5)
    campaign.tell("gone-1", 0.5, 1.0, {"bad": 0.0})  # late
    refused(campaign.tell, "t-1", 0.123, 1.0, 0.0)  # a contradiction
    refused(campaign.tell, "nobody", 1.0, 1.0, 0.0)
    campaign.ask("wrong-1"), campaign.ask("wrong-2")
    refused(campaign.tell, "wrong-1", -1.0, 1.0, 0.0)
    refused(campaign.tell, "wrong-2", float("nan"), 1.0, 0.0)
    numbers = {one["ticket"]: one["number"] for one in campaign.quarantine()}
    campaign.correct(numbers["wrong-1"], 0.25, 1.0, 0.5)
    campaign.discard(numbers["nobody"], note="nobody knows it")
    told = next(one[1] for one in live.steps if one[0] == "tell")
    campaign.amend(told, 0.75, {"bad": 0.25}, note="the bill says so")
    campaign.pin("c")
    live.pulls(4)
    campaign.pin(None)
    campaign.pause("for a while", note="lunch")
    campaign.resume()
    live.ask("some-1", ["a", "b"])
    live.pulls(75, flight=4)
    campaign.ask_many(3)
    campaign.tell_many([{"id": "some-1", "cost": 0.1, "reward": 0.0, "penalty": 1.0}])
    live.waiting = [one for one in live.waiting if one[0] != "some-1"]
    return live


def archived(store: Any, later: Later, path: str) -> Live:
    """Old events are in a file; the log goes on."""
    live = Live(store, later, "archived", task=TASKS["two"], budget=150, policy="resolve")
    live.pulls(25, flight=2)
    live.expires("gone-1")
    live.campaign.void(live.waiting.pop()[0])
    live.pulls(25)
    archive_events(live.campaign, path, 80)
    return live.pulls(20, flight=3)


def changes(store: Any, later: Later) -> Live:
    """Other policies, arms, prices, limits, budgets; scales that grow."""
    live = Live(store, later, "changes", task=TASKS["growing-known"], budget=60, policy="lyon")
    campaign = live.campaign
    live.pulls(30, flight=2)
    campaign.change(policy="resolve")
    live.pulls(8, flight=2, most=3.0)
    campaign.add_arm("d", like="a", weight=5, cost=0.4)
    live.pulls(6, most=0.7)
    campaign.retire_arm("b")
    campaign.add_budget(12.5)
    campaign.reprice("c", cost=0.45)
    live.pulls(6, flight=2, most=12.0)  # some are above the cap
    assert live.campaign.refreshed().controller.cut, "nothing is above the cap"
    campaign.change(limits={"bad": 1.1}, expire_after=FOR_EVER / 2)
    live.pulls(10, flight=2, most=0.5)
    campaign.change(policy="resolve:risk=0.1")
    return live.pulls(35, flight=2, most=0.5)


def kinds(store: Any, later: Later) -> Iterator[Live]:
    """Short campaigns of many kinds."""

    def made(name: str, kind: str, policy: str, **options: Any) -> Live:
        options = {"task": TASKS.get(kind), "budget": 80, "policy": policy, **options}
        return Live(store, later, name, **options)

    yield made("lyon-in-flight", "one", "lyon").pulls(40, flight=6)
    yield made("limits", "bases", "resolve", budget=200).pulls(30, flight=1)
    yield made("hard", "hard", "resolve", budget=200).pulls(30, flight=1)
    yield made("shares", "shares", "resolve").pulls(30)
    yield made("known", "known", "resolve").pulls(30, flight=1)
    yield made("guarded", "safe", "resolve:risk=0.05").pulls(40, flight=2)
    yield made("expected", "expected", "resolve").pulls(30)
    yield made("window", "one", "resolve:window0=2").pulls(40, flight=1)
    yield made("watch", "one", "resolve:watch=0.01").pulls(40, flight=1)
    yield made("sampled", "one", "ts-lp").pulls(30, flight=1)
    yield made("paper-stop", "one", "lyon", stop="paper", budget=12).pulls(15, flight=1)
    yield made("shadow", "one", "resolve", shadow=True).pulls(15, flight=2)
    now = time.time() - 3 * 86400
    days = [time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(now + d * 86400)) for d in (0, 9)]
    paced = {"release": "even", "starts": days[0], "ends": days[1], "per_day": 12.0}
    yield made("paced", "one", "resolve", **paced).pulls(25, flight=1)
    soft = Task(["a", "b"], {"bad": Limit(0.6)}, Scales(cost=0.25, grow=["cost"]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield made("soft", "soft", "resolve", task=soft).pulls(15, most=1.5)
    closed = made("closed", "one", "resolve").pulls(10, flight=3)
    closed.campaign.close()
    yield closed


def continued(live: Live) -> dict[str, Any]:
    """Go on with a campaign as the tests do; what is recorded of it."""
    before = status(live.campaign)
    live.steps = []
    live.take("resume") if before["state"] == "paused" else None
    asked = live.campaign.refreshed().ledger.tickets
    waiting = [(ticket, one.arm) for ticket, one in asked.items()]
    for ticket, arm in waiting[::2]:
        live.tell(ticket, arm)
    if "gone-2" in {event.ticket for event in live.campaign.events()}:
        live.tell("gone-2", 0)  # late
    live.waiting, live.turn = [], 1000
    if before["state"] == "closed":
        live.ask("next-0")  # which is refused
    else:
        live.pulls(20, flight=2, word="next")
        if live.waiting:
            live.take("void", live.waiting.pop()[0])
    assert live.campaign.verify().good, live.name
    return {"before": before, "steps": live.steps, "after": status(live.campaign)}


def go_on_in(path: Path, at: int) -> dict[str, Any]:
    """Go on with every campaign of a copy of a store."""
    copy = path.with_suffix(".copy.db")
    shutil.copy(path, copy)
    clock, found = Clock(at), {}
    store = SQLiteStore(str(copy), clock=clock)
    for name in store.names():
        live = Live(store, clock.later, name)
        assert live.campaign.verify().good, name
        found[name] = continued(live)
        clock.at = at
    store.close()
    return {"at": at, "campaigns": found}


def write_campaigns(folder: Path, work: Path) -> None:
    start = round(time.time() - 7200) * 1_000_000
    makers: dict[str, Callable[[Any, Later], Any]] = {
        "tickets": tickets,
        "archived": lambda store, later: archived(store, later, str(work / "archived.jsonl")),
        "changes": changes,
        "kinds": lambda store, later: list(kinds(store, later)),
    }
    found = {}
    for stem, make in makers.items():
        path, clock = work / f"{stem}.db", Clock(start)
        store = SQLiteStore(str(path), clock=clock)
        make(store, clock.later)
        store.close()
        found[stem] = go_on_in(path, clock.at)
    backup_store(str(work / "tickets.db"), str(work / "backup.db"))
    restore_store(str(work / "backup.db"), str(work / "restored.db"))
    found["restored"] = go_on_in(work / "restored.db", round(time.time() + 60) * 1_000_000)
    for stem in found:
        packed(folder / "stores" / f"{stem}.db.gz", (work / f"{stem}.db").read_bytes())
    packed(folder / "stores" / "archived.jsonl.gz", (work / "archived.jsonl").read_bytes())
    packed(folder / "campaigns.json.gz", json.dumps(found).encode())


def write_postgres(folder: Path, work: Path) -> None:
    programs = server_programs()
    if programs is None:
        raise SystemExit("PostgreSQL's server is not installed: apt-get install postgresql")
    server = Server(programs)
    try:
        url = server.url()  # of the schema t1
        store = open_store(url)
        pause = lambda seconds: time.sleep(seconds if seconds < 1 else 0)  # noqa: E731
        lives = [
            archived(store, pause, str(work / "archived-postgres.jsonl")),
            changes(store, pause),
        ]
        command = [programs / "pg_dump", "-h", server.folder, "-U", "tightrope", "-n", "t1"]
        command += ["--inserts", "--no-owner", "--no-privileges", "postgres"]
        dump = subprocess.run(command, capture_output=True, check=True).stdout
        dump = dump.replace(b"t1.tightrope_", b"corpus.tightrope_")
        dump = dump.replace(b"CREATE SCHEMA t1;", b"CREATE SCHEMA corpus;")
        found = {live.name: continued(Live(store, pause, live.name)) for live in lives}
        store.close()
    finally:
        server.remove()
    packed(folder / "postgres.sql.gz", dump)
    packed(folder / "postgres.json.gz", json.dumps({"campaigns": found}).encode())


# Exports, results, problems.


def write_exports(folder: Path, work: Path) -> None:
    found = {}
    wanted = [("tickets", "tickets"), ("changes", "changes"), ("archived", "archived")]
    wanted += [("kinds", name) for name in ("limits", "known", "lyon-in-flight")]
    for store, name in wanted:
        path = work / f"export-{name}.jsonl"
        assert (
            shell(["campaign", "export", str(work / f"{store}.db"), name, "--out", str(path)]) == 0
        )
        packed(folder / "exports" / f"{name}.jsonl.gz", path.read_bytes())
        if name != "archived":  # its beginning is elsewhere
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                fitted = fit(str(path), format="campaign")
            found[name] = {"told": len(fitted.log), **facts(fitted.problem)}
    (folder / "exports.json").write_text(json.dumps(found, indent=1) + "\n")


def observed() -> Problem:
    """A problem with so many rows that they are not in its TOML."""
    random = np.random.default_rng(3)
    names = [f"model {k}" for k in range(3)]
    columns = {
        "arm": [names[k] for k in random.integers(0, 3, 10_500)],
        "usd": (random.integers(1, 9, 10_500) / 8).tolist(),
        "score": (random.integers(0, 3, 10_500) / 2).tolist(),
        "bad": random.integers(0, 2, 10_500).astype(float).tolist(),
    }
    return Problem.from_frame(
        columns, arm="arm", cost="usd", reward="score", limits={"bad": Limit(1.2)}
    )


def mixed() -> Problem:
    """Laws of several kinds, rows, units, limits of several kinds."""
    rows = [(10.0, 0.5, 0.0), (30.0, 0.9, 1.0), (2.0, 0.1, 0.0)]
    return Problem(
        (
            Arm("a", Uniform(5.0, 40.0), Beta(2, 3), [Bernoulli(0.5)]),
            Arm("b", Uniform(1.0, 50.0), Uniform(0.0, 1.0), [Bernoulli(0.2)]),
            Arm.from_rows("c", rows),
        ),
        limits={"bad": Limit(0.4, per="pull"), "new": Share(["c"], at_least=0.1)},
        scales=Scales(cost=50.0),
        name="mixed",
    )


def write_problems(folder: Path) -> None:
    target = folder / "problems"
    target.mkdir(parents=True)
    problems = {"observed": observed(), "mixed": mixed(), "arena-abrupt": None, "paper": None}
    found = {}
    for name, problem in problems.items():
        made = problem or ready_problem(name)
        made.save(target / f"{name}.toml")
        found[name] = facts(made)
    (target / "tasks").mkdir()
    for name, task in TASKS.items():
        (target / "tasks" / f"{name}.toml").write_text(task.to_toml())
    (folder / "problems.json").write_text(json.dumps(found, indent=1) + "\n")


def write_results(folder: Path, work: Path) -> None:
    policies = [parse_policy("lyon"), parse_policy("resolve:window0=2")]
    made = {
        "paper": simulate(
            ready_problem("paper"), policies, budgets=[20, 40], runs=8, seed=3, backend="python"
        ),
        "mixed-late": simulate(
            mixed(), policies[0], budgets=300, runs=range(4, 10), backend="python", delay=3,
            lost=0.1,
        ),
        "observed": simulate(observed(), policies[1], budgets=20, runs=4, backend="python"),
    }  # fmt: skip
    for name, results in made.items():
        results.save(work / f"{name}.npz")
        packed(folder / "results" / f"{name}.results.gz", (work / f"{name}.npz").read_bytes())
    found = {name: runs_of(results) for name, results in made.items()}
    packed(folder / "results.json.gz", json.dumps(found).encode())


def main() -> None:
    version = ".".join(__version__.split(".")[:2])
    folder = HERE / f"v{version}"
    if folder.exists():
        raise SystemExit(f"{folder}: exists; what a version has written is never written again")
    turns.SNAPSHOT_EVERY = SNAPSHOT_EVERY
    turns.own_name = lambda: "corpus"  # no machine's name
    with tempfile.TemporaryDirectory() as name:
        work, target = Path(name), Path(name) / "corpus"
        target.mkdir()
        write_controllers(target / "controllers.json.gz", runs(), compiled=True)
        write_controllers(target / "plain.json.gz", plain_runs(), compiled=False)
        write_campaigns(target, work)
        write_postgres(target, work)
        write_exports(target, work)
        write_problems(target)
        write_results(target, work)
        shutil.copytree(target, folder)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    print(f"wrote {size:,} bytes to {os.path.relpath(folder)}", file=sys.stderr)


if __name__ == "__main__":
    main()
