"""A made-up kind of limit, per batch of 64 pulls: one entry of a registry, no other file.

Files that a new kind needed before: results, replay, planning, the campaign's tables, the pages'
curves and facts, the outlook, the moments, panels, and the task. Files that this one changes: none.
The entry is made here, by a patch of ``BASES`` alone, and everything agrees with a limit of 1/64 as
much per pull to the last bit, as 64 is a power of two.
"""

from __future__ import annotations

import random
import re
from pathlib import Path

import numpy as np
import pytest

import tightrope
from tests.service.samples import SimulatedClock
from tightrope import (
    Controller,
    FullTable,
    Limit,
    LyOn,
    Problem,
    Resolve,
    Task,
    open_campaign,
    optimum,
    oracle,
    replay,
    simulate,
)
from tightrope.data.planning import plan
from tightrope.errors import ProblemError
from tightrope.live.stores.memory import MemoryStore
from tightrope.policies import UniformRandom
from tightrope.problem.limits import BASES, Base, as_limit
from tightrope.report.panels import metric_panels
from tightrope.report.rows import typed
from tightrope.service.pages.curves import charts_of
from tightrope.service.pages.facts import Facts
from tightrope.service.pages.history import History
from tightrope.service.pages.mixture import best_of
from tightrope.shell.campaigns.tables import print_status
from tightrope.shell.fits import limits_of

SIZE = 64.0
PULL = Limit(0.4, per="pull")
MEANS = ((0.4, 0.6, 0.5, 0.9), (0.8, 0.6, 0.5, 0.3), (0.6, 0.3, 0.2, 0.05))
NOW = 1_700_000_000.0


@pytest.fixture(autouse=True)
def batch(monkeypatch) -> Limit:
    monkeypatch.setitem(BASES, "batch", Base("pull", "per batch of pulls", "batches", SIZE))
    return Limit(0.4 * SIZE, per="batch")


def both(make, batch):
    """What is made of the known kind and of the made-up one."""
    return make({"bad": PULL}), make({"bad": batch})


def problem_of(limits) -> Problem:
    return Problem.from_bernoulli(*MEANS, limits=limits)


def test_without_its_entry_it_is_refused(monkeypatch):
    monkeypatch.delitem(BASES, "batch")
    with pytest.raises(ProblemError, match="per = 'batch': must be 'cost' or 'pull' or 'reward'"):
        Limit(1.0, per="batch")


def test_it_is_read_and_written(batch):
    task = Task(["a", "b"], {"bad": batch})
    assert Task.from_toml(task.to_toml()) == task
    assert as_limit({"at_most": 0.4 * SIZE, "per": "batch"}) == batch
    assert limits_of(["bad=25.6/batch"]) == {"bad": batch}
    assert task.limit_text(0) == "limit 'bad' = 25.6 per batch of pulls"
    assert "per batch of pulls" in task._repr_html_()


def test_it_knows_its_base_and_its_violation(batch):
    assert batch.base(cost=7.0, pulls=128, reward=3.0) == 2.0
    penalty, pulls = np.array([0.0, 64.0]), np.array([64, 128])
    np.testing.assert_array_equal(batch.base(7.0, pulls, penalty), [1.0, 2.0])
    np.testing.assert_array_equal(batch.violation(penalty, 7.0, pulls, penalty), [-25.6, 32 - 25.6])


def test_results(batch):
    pull, made = both(
        lambda limits: simulate(
            problem_of(limits), [LyOn(), Resolve()], budgets=50, runs=10, progress=False
        ),
        batch,
    )
    for one, other in zip(pull.rows(), made.rows(), strict=True):
        assert other.reward_rate == one.reward_rate  # the same decisions
        assert other.regret == one.regret
        assert other.violation[0].mean == pytest.approx(SIZE * one.violation[0].mean, rel=1e-12)
    (panel,) = metric_panels(made.problem, typed(made.rows()), "violation")
    assert panel.y_label == "bad / batches − limit"


def test_the_best_there_is(batch):
    pull, made = both(problem_of, batch)
    assert oracle(made).reward_rate == oracle(pull).reward_rate
    assert oracle(made).penalty_rate[0] == SIZE * oracle(pull).penalty_rate[0]
    assert optimum(made, 50) == optimum(pull, 50)
    np.testing.assert_array_equal(made.own_rates, SIZE * pull.own_rates)


def test_replay(batch):
    luck = np.random.default_rng(1)
    outcomes = (luck.random((300, 4, 3)) < np.array(MEANS).T) * 1.0
    table = FullTable(["a", "b", "c", "d"], ["bad"], outcomes)
    pull, made = both(
        lambda limits: replay(table, limits, Resolve(), budget=60, orders=5).rows[0], batch
    )
    assert made.reward_rate == pull.reward_rate
    assert made.broken == pull.broken
    assert made.violation[0].mean == pytest.approx(SIZE * pull.violation[0].mean, rel=1e-12)


def test_plan(batch):
    pull, made = both(
        lambda limits: plan(
            problem_of(limits), Resolve(), budgets=40, runs=20, fan=False, progress=False
        ),
        batch,
    )
    assert made.rows[0].reward == pull.rows[0].reward
    assert made.rows[0].broken == pull.rows[0].broken
    np.testing.assert_allclose(made.rows[0].rate, SIZE * np.array(pull.rows[0].rate), rtol=1e-12)
    (one,), (other,) = pull.worth[0].limits, made.worth[0].limits
    assert other.per_unit.mean == pytest.approx(one.per_unit.mean / SIZE, rel=1e-12)
    assert other.words == "per batch of pulls"
    assert "instead of 25.6 per batch of pulls is worth" in str(made)


def test_the_outlook(batch):
    def told(limits):
        controller = Controller(Task(["a", "b"], limits), LyOn(), 100.0)
        for penalty in (1.0, 0.0, 0.0, 0.0) * 20:
            controller.tell(0, 0.5, 0.5, penalty)
        return controller.outlook()

    pull, made = both(told, batch)
    one, other = pull.limits[0], made.limits[0]
    assert (other.rate, other.low, other.high) == (SIZE * one.rate, SIZE * one.low, SIZE * one.high)
    assert (other.chance, other.chance_if_safe, other.standing) == (
        one.chance,
        one.chance_if_safe,
        one.standing,
    )
    assert other.rate == 16.0


def run_campaign(limits):
    """A campaign's view, as its pages have it."""
    store = MemoryStore(SimulatedClock(NOW))
    task, luck = Task(["a", "b"], limits), random.Random(1)
    campaign = open_campaign(store, "one", task=task, budget=1e6, policy=UniformRandom())
    for ticket in campaign.ask_many(50):
        campaign.tell(
            ticket.id,
            cost=luck.uniform(0.5, 1.0),
            reward=luck.random(),
            penalty=float(luck.random() < 0.2),
        )
    history = History(store, "one", lambda name, function: function(campaign.refreshed()))
    history.follow()
    while history.refine():
        pass
    return history.view()


def test_tables_and_pages(batch, capsys):
    pull, made = both(run_campaign, batch)
    print_status(made.status, made.task, made.means)
    rate = pull.status["penalties"]["bad"] / 50
    assert re.search(rf"25\.6 per batch of pulls +{SIZE * rate:.4g}", capsys.readouterr().out)
    assert best_of(made) == best_of(pull)
    assert Facts(made, NOW).limits[0].limit == "at most 25.6 per batch of pulls"
    charts = [{chart.name: chart for chart in charts_of(view)[1]} for view in (pull, made)]
    for one, other in zip(*(chart["limit-0"].series for chart in charts), strict=True):
        np.testing.assert_array_equal(other.values, SIZE * one.values)


def test_nothing_else_looks_at_what_a_limit_is_per():
    """Kernels read a number that ``net_bases`` writes; all others ask the limit."""
    root = Path(tightrope.__file__).parent
    decodes = re.compile(r"""\.per (==|!=|in) |limit_kinds\[\w+\]\.per\b|\bkind\.per\b""")
    found = {
        str(path.relative_to(root))
        for path in root.rglob("*.py")
        if any(decodes.search(line) for line in path.read_text().splitlines())
    }
    assert found <= {"problem/limits.py", "problem/task.py"}
