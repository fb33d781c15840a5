"""Campaigns that are created over HTTP and learn from a log."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from tightrope import Features, FullTable, Interval, Limit, Log, Task, Types, open_campaign
from tightrope.client import Client
from tightrope.errors import InputError
from tightrope.live.stores.memory import MemoryStore
from tightrope.problem import Mixed

ARMS = [{"name": "haiku"}, {"name": "opus"}]
LIMITS = {"bad": {"at_most": 0.2, "per": "pull"}}
TASK = {"arms": ARMS, "limits": LIMITS, "contexts": {"types": ["math", "code"]}}
ROWS = {
    "arm": ["haiku", "opus", "opus"],
    "cost": 1,
    "reward": [0.5, 1, 0.25],
    "bad": [0, 1, 0],
    "context": ["math", "code", "math"],
    "propensity": [0.5, 0.25, 0.5],
}


def made(contexts):
    return Task(["haiku", "opus"], {"bad": Limit(0.2, per="pull")}, contexts=contexts)


def log(contexts, **more):
    outcomes = np.array([[1.0, 1.0, 1.0], [0.5, 1.0, 0.25], [0.0, 1.0, 0.0]])
    return Log(["haiku", "opus"], ["bad"], np.array([0, 1, 1]), outcomes, contexts=contexts, **more)


def first_event(client, name):
    return client.events(name, limit=1)[0]["body"]


def created(task, past, **more):
    """The first event of a campaign in this process."""
    campaign = open_campaign(MemoryStore(), "here", task=task, budget=100, learn_from=past, **more)
    return msgspec.json.decode(msgspec.json.encode(next(campaign.events(0, 1)).body))


def test_columns_teach_as_a_log_does(api, server):
    status, found, _ = api(
        "PUT",
        "/v1/campaigns/columns",
        {"task": TASK, "budget": 100, "learn_from": ROWS, "weight": 0.5},
    )
    assert status == 201, found
    past = log(["math", "code", "math"], propensity=np.array([0.5, 0.25, 0.5]))
    here = created(made(Types(["math", "code"])), past, weight=0.5)
    with Client(server.url) as client:
        assert first_event(client, "columns")["past"] == here["past"] != []
    again = {"task": TASK, "budget": 100, "learn_from": ROWS, "weight": 0.5}
    assert api("PUT", "/v1/campaigns/columns", again)[0] == 200


VECTORS = np.array([[0.0, 1.0], [1.0, 0.5], [0.25, 0.0]])
PAIRS = list(zip(["math", "code", "math"], map(tuple, VECTORS.tolist()), strict=True))
TABLE = FullTable(["haiku", "opus"], ["bad"], np.ones((2, 2, 3)) * 0.5, contexts=["math", "code"])


@pytest.mark.parametrize(
    ("task", "past"),
    [
        (made(None), log(None)),
        (made(Types(["math", "code"])), TABLE),
        (made(Features(2)), log(VECTORS)),
        (made(Features(["long", "hard"])), log(VECTORS, features=["long", "hard"])),
        (made(Mixed(["math", "code"], 2)), log(PAIRS)),
    ],
    ids=["plain", "table", "features", "named", "pairs"],
)
def test_the_client_sends_a_log(server, request, task, past):
    name = request.node.callspec.id
    with Client(server.url) as client:
        client.create(name, task, budget=100, learn_from=past)
        there, here = first_event(client, name), created(task, past)
    for part in ("past", "lines"):
        assert there.get(part) == here.get(part)
    assert there.get("past") or there.get("lines")


def test_the_client_sends_a_log_of_an_interval(server):
    bids = Interval(0.0, 4.0, name="bid")
    task = Task(bids, {"bad": Limit(0.2, per="pull")})
    outcomes = np.array([[1.0, 1.0], [0.5, 1.0], [0.0, 1.0]])
    chosen = np.array([bids.number_of(1.0), bids.number_of(3.0)])
    past = Log(bids.arms, ["bad"], chosen, outcomes, space=bids)
    with Client(server.url) as client:
        client.create("bids", task, budget=100, learn_from=past)
        assert first_event(client, "bids")["past"] == created(task, past)["past"] != []


def without(name):
    return {key: value for key, value in ROWS.items() if key != name}


@pytest.mark.parametrize(
    ("rows", "weight", "said"),
    [
        (ROWS, 2, "weight = 2.0: must be above 0, at most 1"),
        (ROWS | {"arm": ["haiku", "o", "o"]}, 1, "learn_from: its arm 'o' must be one of"),
        (without("bad"), 1, "learn_from: has no penalty 'bad', which the task limits"),
        (without("context"), 1, "learn_from: has no contexts, which the task needs"),
        (ROWS | {"context": ["math", "x", "x"]}, 1, "learn_from: context 'x' is unknown"),
        (ROWS | {"bed": [1, 1, 1]}, 1, "learn_from: column 'bed' is unknown; known: arm, cost"),
        (without("reward"), 1, "learn_from: frame: reward is missing; must be a column: arm, "),
        (ROWS | {"reward": [1, -1, 1]}, 1, "column 'reward': reward = -1.0: must be a number"),
        (ROWS | {"reward": [1, 1]}, 1, "must be columns of one length"),
        (
            ROWS | {"reward": [1, "x", 1]},
            1,
            "row 2 (without the header), column 'reward': 'x' must be a number",
        ),
        (ROWS | {"arm": []}, 1, "must be columns of one length"),
        (3, 1, "learn_from = 3: must be an object or null"),
        (
            ROWS | {"reward": [1, None, 1]},
            1,
            "learn_from[...][1]: must be a number or text, not null",
        ),
    ],
)
def test_a_wrong_log_is_refused_in_one_line(api, rows, weight, said):
    body = {"task": TASK, "budget": 100, "learn_from": rows, "weight": weight}
    status, found, _ = api("PUT", "/v1/campaigns/wrong", body)
    assert (status, found["code"]) == (422, "invalid"), found
    assert said in found["detail"]
    assert "\n" not in found["detail"]
    assert api("GET", "/v1/campaigns/wrong")[0] == 404


def test_a_large_log_is_refused(api):
    rows = {"arm": ["opus"] * 100_000, "cost": 1, "reward": [0.5] * 100_000, "bad": 0}
    task = {"arms": ARMS, "limits": LIMITS}
    body = {"task": task, "budget": 100, "learn_from": rows}
    status, found, _ = api("PUT", "/v1/campaigns/large", body)
    assert (status, found["code"]) == (413, "too_large")


def test_the_client_refuses_what_is_no_log(server):
    with Client(server.url) as client, pytest.raises(InputError, match="learn_from"):
        client.create("none", TASK, budget=100, learn_from=3)
