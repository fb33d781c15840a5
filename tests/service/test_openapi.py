"""The OpenAPI document, against the running service."""

from __future__ import annotations

import json
import warnings

import hypothesis
import pytest

from tests.service.conftest import TASK, Api
from tightrope import Task, open_campaign
from tightrope.live.stores.memory import MemoryStore
from tightrope.service.acts import ACTS
from tightrope.service.campaigns import TABLE
from tightrope.service.openapi import document_of

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import schemathesis
    from schemathesis.checks import CHECKS, load_all_checks

DOCUMENT = json.loads(json.dumps(document_of()))
OPERATIONS = [
    (method.upper(), path) for path, methods in DOCUMENT["paths"].items() for method in methods
]


def test_every_route_is_in_the_document():
    acts = {("POST", f"/v1/campaigns/{{campaign}}/{name}") for name in ACTS}
    batches = {(method, f"{path}/batch") for method, path in acts}
    assert set(OPERATIONS) == {(one.method, one.path) for one in TABLE} | acts | batches
    ids = [one["operationId"] for methods in DOCUMENT["paths"].values() for one in methods.values()]
    assert len(ids) == len(set(ids))


def test_every_reference_leads_somewhere():
    def references(value):
        if isinstance(value, dict):
            if "$ref" in value:
                yield value["$ref"]
            for one in value.values():
                yield from references(one)
        elif isinstance(value, list):
            for one in value:
                yield from references(one)

    found = set(references(DOCUMENT))
    known = {f"#/components/schemas/{name}" for name in DOCUMENT["components"]["schemas"]}
    assert found
    assert found <= known


def test_the_document_is_valid(api):
    served = api("GET", "/openapi.json")[1]
    assert served == DOCUMENT
    schemathesis.openapi.from_dict(served).validate()


def test_the_document_has_every_field_of_a_status(api):
    """The document, Python and the service give a status the same fields; limits are data."""
    campaign = open_campaign(
        MemoryStore(), "n", task=Task.from_table(TASK), budget=9, policy="lyon"
    )
    schemas = DOCUMENT["components"]["schemas"]
    assert api.create("scaled")["notices"] == []
    told = api.create("status", task={key: TASK[key] for key in ("arms", "limits")})
    (notice,) = told.pop("notices")
    assert "reserves 1 per decision" in notice
    # Where the task has contexts or an interval.
    typed = {"types", "mix_changed", "features", "features_changed", "curve"}
    assert set(schemas["CreatedStatus"]["properties"]) == {*told, "notices", *typed}
    known = schemas["CampaignStatus"]
    assert set(told) == set(known["required"]) == set(campaign.status())
    assert set(known["properties"]) == {*told, *typed}
    assert {"hard", "stop", "shadow", "epoch", "doubtful"} <= set(told)
    assert told["limits"] == {"bad": {"at_most": 0.2, "per": "pull"}} == campaign.status()["limits"]
    assert set(told["arms"][0]) == set(schemas["StatusArm"]["properties"])
    types = api.create("typed", task={**TASK, "contexts": {"types": ["a"]}})["types"]
    assert set(types[0]) == set(schemas["StatusType"]["properties"])


@pytest.fixture(scope="module")
def campaigns(server):
    """Campaigns with something in them, for requests that are made up."""
    api = Api(server.url)
    for name in ("november", "december", "closing"):
        api.create(name, budget=10_000)
        path = f"/v1/campaigns/{name}"
        for id in "abcdef":
            api("POST", f"{path}/decisions", {"id": id})
        api("POST", f"{path}/reports", {"id": "a", "cost": 1, "reward": 1, "penalty": {"bad": 0}})
        api("POST", f"{path}/reports", {"id": "b", "cost": -1, "reward": 1})
    return server


@pytest.fixture
def checked():
    """What every answer is held to: no failure of the service, and all as the document says."""
    names = {
        "not_a_server_error",
        "status_code_conformance",
        "content_type_conformance",
        "response_schema_conformance",
        "negative_data_rejection",
    }
    load_all_checks()
    found = CHECKS.get_by_names([name for name in CHECKS.get_all_names() if name in names])
    assert len(found) == len(names)
    return found


@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_answers_are_as_the_document_says(campaigns, checked, method, path):
    schema = schemathesis.openapi.from_dict(DOCUMENT)
    schema.config.update(base_url=campaigns.url)
    operation = schema[path][method]

    @hypothesis.given(case=operation.as_strategy())
    @hypothesis.settings(
        max_examples=15, deadline=None, database=None, derandomize=True,
        suppress_health_check=list(hypothesis.HealthCheck),
    )  # fmt: skip
    def check(case):
        if case.path_parameters.get("campaign"):
            name = "closing" if path.endswith("/close") else "november"
            case.path_parameters["campaign"] = name
        if path == "/v1/campaigns/{campaign}" and method == "PUT" and case.body:
            case.body = {**case.body, "task": TASK} if isinstance(case.body, dict) else case.body
        case.call_and_validate(checks=checked)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check()


def test_the_service_stands_after_all_that(campaigns):
    api = Api(campaigns.url)
    assert api("GET", "/readyz")[0] == 200
    assert api("GET", "/v1/campaigns/december")[1]["asked"] == 6
    ledger = api("GET", "/v1/campaigns/november/ledger")[1]
    for account in ledger["accounts"]:
        ticks = account["ticks"]
        assert ticks["budget"] == ticks["spent"] + ticks["reserved"] + ticks["free"]
