"""The API of a running server, as a client sees it."""

from __future__ import annotations


def test_a_campaign_is_created_decides_and_takes_reports(api):
    found = api.create("first")
    assert (found["state"], found["budget"], found["asked"]) == ("open", 100, 0)
    assert api("PUT", "/v1/campaigns/first", {"task": found_task(), "budget": 100})[0] == 200
    status, ticket, _ = api("POST", "/v1/campaigns/first/decisions", {"id": "a"})
    assert (status, ticket["state"], ticket["id"]) == (201, "open", "a")
    again = api("POST", "/v1/campaigns/first/decisions", {"id": "a"})
    assert again[:2] == (200, ticket)
    report = {"id": "a", "cost": 0.5, "reward": 1, "penalty": {"bad": 0}}
    assert api("POST", "/v1/campaigns/first/reports", report)[:2] == (
        200,
        {"id": "a", "state": "told"},
    )
    state = api("GET", "/v1/campaigns/first")[1]
    assert (state["spent"], state["told"], state["in_flight"]) == (0.5, 1, 0)


def found_task():
    from tests.service.conftest import TASK

    return TASK
