"""The API of a running server, as a client sees it."""

from __future__ import annotations

import json
import re
import urllib.parse

import pytest

from tests.service.conftest import TASK

REPORT = {"cost": 0.5, "reward": 1, "penalty": {"bad": 0}}


@pytest.fixture
def path(api, request):
    """The path of a new campaign, named after the test."""
    name = re.sub(r"\W+", "-", request.node.name)[:100]
    api.create(name)
    return f"/v1/campaigns/{name}"


def status_and(found, *keys):
    return (found[0], *(found[1].get(key) for key in keys))


def test_a_campaign_is_created_decides_and_takes_reports(api, path):
    status, ticket, headers = api("POST", f"{path}/decisions", {"id": "a"})
    assert (status, ticket["id"], ticket["state"], ticket["reserved"]) == (201, "a", "open", 1.0)
    assert ticket["arm"] == TASK["arms"][ticket["number"]]["name"]
    assert headers["content-type"] == "application/json"
    assert api("POST", f"{path}/decisions", {"id": "a"})[:2] == (200, ticket)
    told = {"id": "a", "state": "told"}
    assert api("POST", f"{path}/reports", {"id": "a", **REPORT})[:2] == (200, told)
    assert api("POST", f"{path}/reports", {"id": "a", **REPORT})[:2] == (200, told)
    state = api("GET", path)[1]
    assert (state["spent"], state["told"], state["in_flight"]) == (0.5, 1, 0)
    assert api("GET", f"{path}/state")[1] == state
    assert api("GET", f"{path}/decisions/a")[1] == {**ticket, "state": "told"}


def test_a_decision_needs_no_body(api, path):
    status, ticket, _ = api("POST", f"{path}/decisions")
    assert (status, ticket["id"]) == (201, "1-00000001")
    assert api("GET", f"{path}/decisions/1-00000001")[1] == ticket


def test_put_says_whether_a_campaign_is_new_agrees_or_does_not(api):
    body = {"task": TASK, "budget": 10, "policy": "lyon"}
    assert api("PUT", "/v1/campaigns/put", body)[0] == 201
    assert api("PUT", "/v1/campaigns/put", body)[0] == 200
    found = api("PUT", "/v1/campaigns/put", {**body, "budget": 11})
    assert status_and(found, "code") == (409, "conflict")
    other = {**TASK, "arms": [{"name": "third"}]}
    assert api("PUT", "/v1/campaigns/put", {**body, "task": other})[0] == 409
    assert api("PUT", "/v1/campaigns/other", {**body, "task": {"arms": []}})[0] == 422
    assert api("PUT", "/v1/campaigns/other", {"budget": 10})[0] == 422
    never = {**TASK, "limits": {"bad": {"at_most": 3, "per": "pull"}}}
    found = api("PUT", "/v1/campaigns/other", {**body, "task": never})
    assert found[0] == 422
    assert "limit 'bad' = 3 per pull: can never bind" in found[1]["detail"]
    found = api("PUT", "/v1/campaigns/put", {**body, "task": never})
    assert status_and(found, "code") == (409, "conflict")  # it exists, with another limit
    assert api("GET", "/v1/campaigns/other")[0] == 404


@pytest.mark.parametrize(
    "policy", ["/tmp/mine.py:Mine", "os:system", "lyon:x=/tmp/mine.py:Mine", "nothing", ""]
)
def test_a_policy_from_a_file_or_a_module_is_never_loaded(api, path, policy):
    body = {"task": TASK, "budget": 10, "policy": policy}
    found = api("PUT", "/v1/campaigns/never", body)
    assert status_and(found, "code") == (422, "invalid")
    assert "must be an installed one; " in found[1]["detail"]
    assert api("POST", f"{path}/change", {"policy": policy})[0] == 422


def test_a_policy_with_a_typing_error_gets_the_nearest(api, path):
    found = api("POST", f"{path}/change", {"policy": "resolv:risk=0.1"})
    assert found[1]["detail"].endswith("must be an installed one; did you mean 'resolve'?")


def test_arms_may_be_their_names_alone(api):
    task = {**TASK, "arms": [arm["name"] for arm in TASK["arms"]]}
    for status, given in ((201, task), (200, TASK)):
        assert api("PUT", "/v1/campaigns/names", {"task": given, "budget": 10})[0] == status


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"id": "a", "cost": 1e999}', "cost: must be below 1.8e308 in size"),
        (b'{"id": "a", ', "body: is not JSON: ends too early"),
        (b" ", "body: is empty; must be JSON"),
    ],
)
def test_a_body_that_cannot_be_read_is_refused_in_our_own_words(api, path, body, said):
    assert api("POST", f"{path}/reports", raw=body)[1]["detail"] == said


def test_a_budget_below_the_largest_cost_is_refused(api):
    for key, amount in (("budget", 0.5), ("per_day", 0.25)):
        body = {"task": TASK, "budget": 10, "policy": "uniform-random", key: amount}
        status, problem, _ = api("PUT", "/v1/campaigns/too-little", body)
        said = f"{key} = {amount}: must be at least 1, the largest cost of a pull"
        assert (status, problem["detail"]) == (422, said)
    assert api("GET", "/v1/campaigns/too-little")[0] == 404


def test_names_may_hold_anything_printable(api):
    for name in ("a/b", "ä ö?#%", "../../etc/passwd", "'; DROP TABLE events; --", "batch"):
        place = f"/v1/campaigns/{urllib.parse.quote(name, safe='')}"
        assert api("PUT", place, {"task": TASK, "budget": 5, "policy": "lyon"})[0] == 201
        assert api("GET", place)[1]["name"] == name
        assert api("POST", f"{place}/decisions", {"id": "batch"})[0] == 201
        assert api("GET", f"{place}/decisions/batch")[1]["id"] == "batch"
    names = [one["name"] for one in api("GET", "/v1/campaigns")[1]["campaigns"]]
    assert "'; DROP TABLE events; --" in names


# Refusals.


def test_an_exhausted_budget_is_402_and_a_reserved_one_429(api):
    api.create("small", budget=2)
    place = "/v1/campaigns/small/decisions"
    tickets = [api("POST", place)[1]["id"] for _ in range(2)]
    status, problem, headers = api("POST", place)
    assert (status, problem["code"], headers["retry-after"]) == (429, "fully_reserved", "1")
    assert headers["content-type"] == "application/problem+json"
    assert problem["status"] == 429
    assert "retry_at" not in problem
    report = {"cost": 1, "reward": 1, "penalty": {"bad": 0}}
    for ticket in tickets:
        assert api("POST", "/v1/campaigns/small/reports", {"id": ticket, **report})[0] == 200
    assert status_and(api("POST", place), "code") == (402, "exhausted")
    assert api("GET", "/v1/campaigns/small")[1]["state"] == "exhausted"


def test_budget_that_is_not_released_is_429_with_the_time(api):
    times = {"release": "even", "starts": "2090-01-01", "ends": "2091-01-01"}
    api.create("later", **times)
    status, problem, headers = api("POST", "/v1/campaigns/later/decisions")
    assert (status, problem["code"]) == (429, "not_released")
    assert problem["retry_at"].startswith("2090-01-0")
    assert int(headers["retry-after"]) > 1e9


def test_paused_and_closed_are_409_and_reports_are_taken(api, path):
    ids = [api("POST", f"{path}/decisions")[1]["id"] for _ in range(2)]
    found = api("POST", f"{path}/pause", {"why": "lunch"})
    assert status_and(found, "state", "why") == (200, "paused", "lunch")
    found = api("POST", f"{path}/decisions")
    assert status_and(found, "code") == (409, "paused")
    assert api("POST", f"{path}/reports", {"id": ids[0], **REPORT})[0] == 200
    assert status_and(api("POST", f"{path}/resume"), "state") == (200, "open")
    assert status_and(api("POST", f"{path}/drain", {}), "why") == (200, "drained")
    assert status_and(api("POST", f"{path}/close"), "state") == (200, "closed")
    assert status_and(api("POST", f"{path}/decisions"), "code") == (409, "closed")
    assert status_and(api("POST", f"{path}/resume"), "code") == (409, "closed")
    assert api("POST", f"{path}/reports", {"id": ids[1], **REPORT})[0] == 200


def test_a_bad_report_is_kept_in_quarantine_corrected_or_discarded(api, path):
    ids = [api("POST", f"{path}/decisions")[1]["id"] for _ in range(2)]
    status, problem, _ = api("POST", f"{path}/reports", {"id": ids[0], "cost": -1, "reward": 1})
    assert (status, problem["code"]) == (422, "invalid")
    wrong_type = {"id": ids[1], "cost": "much", "reward": 1, "penalty": {"bad": 0}}
    second = api("POST", f"{path}/reports", wrong_type)[1]["quarantine"]
    kept = api("GET", f"{path}/quarantine")[1]["reports"]
    assert [one["number"] for one in kept] == [problem["quarantine"], second]
    assert "much" in kept[1]["report"]
    place = f"{path}/quarantine/{problem['quarantine']}"
    assert status_and(api("POST", f"{place}/correct", REPORT), "quarantined") == (200, 1)
    assert api("POST", f"{place}/correct", REPORT)[0] == 404
    found = api("POST", f"{path}/quarantine/{second}/discard", {"note": "a test"})
    assert status_and(found, "quarantined", "told") == (200, 0, 1)
    assert api("POST", f"{path}/quarantine/x/discard")[0] == 404


def test_contradictions_are_409(api, path):
    api("POST", f"{path}/decisions", {"id": "a", "eligible": ["haiku"]})
    found = api("POST", f"{path}/decisions", {"id": "a", "eligible": ["opus"]})
    assert status_and(found, "code") == (409, "conflict")
    api("POST", f"{path}/reports", {"id": "a", **REPORT})
    found = api("POST", f"{path}/reports", {"id": "a", **REPORT, "cost": 0.75})
    assert status_and(found, "code") == (409, "conflict")
    assert found[1]["quarantine"] > 0
    assert api("POST", f"{path}/voids", {"id": "a"})[0] == 409


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 400),
        (b"\xff\xfe", 400),
        (b"[" * 100_000, 422),
        (b'{"id": "a", "id2": 1}', 422),
        (b'{"id": 5}', 422),
        (b'{"eligible": "haiku"}', 422),
        (b'{"eligible": []}', 422),
        (b'{"eligible": ["nobody"]}', 422),
        (b'{"eligible": [true]}', 422),
        (b'{"ttl_s": 0}', 422),
        (b'{"ttl_s": -1}', 422),
        (b'{"ttl_s": 1e300}', 422),
        (b'{"ttl_s": NaN}', 400),
        (b'{"id": ""}', 422),
        (b'{"id": "with space"}', 422),
        (b'{"id": "1-00000007"}', 422),
        (b"[]", 422),
        (b"null", 422),
    ],
)
def test_a_decision_with_a_bad_body_is_refused_and_nothing_is_decided(api, path, body, status):
    found = api("POST", f"{path}/decisions", raw=body)
    assert found[0] == status, found[1]
    assert found[1]["code"] == ("malformed" if status == 400 else "invalid")
    assert len(found[1]["detail"]) <= 510
    assert api("GET", path)[1]["asked"] == 0


def test_paths_and_methods_that_are_not_there(api, path):
    assert status_and(api("GET", "/v1/nothing"), "code") == (404, "not_found")
    assert status_and(api("GET", f"{path}/nothing"), "code") == (404, "not_found")
    assert status_and(api("GET", "/v1/campaigns/novembre"), "code") == (404, "not_found")
    assert api("POST", "/v1/campaigns/novembre/decisions")[0] == 404
    assert api("POST", "/v1/campaigns/novembre/decisions/batch", {"decisions": [{}]})[0] == 404
    status, problem, headers = api("DELETE", path)
    assert (status, problem["code"], headers["allow"]) == (405, "method", "GET, PUT")
    for method, act, allowed in (
        ("GET", "decisions", "POST"),
        ("PUT", "reports/batch", "POST"),
        ("PUT", "decisions/batch", "GET, POST"),
    ):
        status, problem, headers = api(method, f"{path}/{act}")
        assert (status, problem["code"], headers["allow"]) == (405, "method", allowed)
    assert api("GET", f"{path}/decisions/unknown")[0] == 404
    assert api("GET", f"{path}/decisions/unknown/why")[0] == 404
    assert api("GET", f"{path}/events?before=3")[0] == 400
    assert api("GET", f"{path}/events?after=-1")[0] == 400
    assert api("GET", f"{path}/events?limit=x")[0] == 400
    assert api("GET", "/v1/campaigns/%ff")[0] == 400


def test_a_page_of_another_host_is_refused(api, path):
    strange = {"origin": "https://evil.example"}
    assert api("POST", f"{path}/decisions", {}, headers=strange)[0] == 403
    assert api("POST", f"{path}/pause", {}, headers=strange)[0] == 403
    assert api("GET", path, headers={"host": "evil.example"})[0] == 403
    assert api("POST", f"{path}/decisions", {}, headers={"host": "evil.example:80"})[0] == 403
    form = {"content-type": "text/plain"}
    assert api("POST", f"{path}/decisions", {}, headers=form)[0] == 415
    own = {"origin": api.url}
    assert api("POST", f"{path}/decisions", {}, headers=own)[0] == 201


# Batches.


def test_a_batch_has_a_result_per_item(api, path):
    items = [{"id": "a"}, {"id": 7}, {"id": "a"}, {"id": "b", "ttl_s": -1}, {"eligible": ["opus"]}]
    status, found, _ = api("POST", f"{path}/decisions/batch", {"decisions": items})
    assert status == 200
    assert [one["status"] for one in found["results"]] == [201, 422, 200, 422, 201]
    assert found["results"][4]["arm"] == "opus"
    last = found["results"][4]["id"]
    reports = [{"id": "a", **REPORT}, {"id": "zz", **REPORT}, {"cost": 1}, {"id": last, **REPORT}]
    _, found, _ = api("POST", f"{path}/reports/batch", {"reports": reports})
    assert [one["status"] for one in found["results"]] == [200, 422, 422, 200]
    assert found["results"][1]["quarantine"] > 0
    assert found["results"][3] == {"id": last, "state": "told", "status": 200}
    bill = [{"id": "a", "cost": 0.6}, {"id": "zz", "cost": 0.1}]
    _, found, _ = api("POST", f"{path}/amendments/batch", {"amendments": bill})
    assert [one["status"] for one in found["results"]] == [200, 422]
    assert api("GET", path)[1]["spent"] == 1.1
    more = api("POST", f"{path}/decisions/batch", {"decisions": [{}, {}]})[1]["results"]
    voids = [{"id": one["id"]} for one in more] + [{"id": "a"}]
    _, found, _ = api("POST", f"{path}/voids/batch", {"voids": voids})
    assert [one["status"] for one in found["results"]] == [200, 200, 409]


def test_a_batch_of_a_thousand_is_taken_and_one_more_is_not(api):
    api.create("thousand", budget=5000)
    place = "/v1/campaigns/thousand/decisions/batch"
    ids = [{"id": f"t{number}"} for number in range(1000)]
    _, found, _ = api("POST", place, {"decisions": ids})
    assert {one["status"] for one in found["results"]} == {201}
    assert [one["id"] for one in found["results"]] == [one["id"] for one in ids]
    found = api("POST", place, {"decisions": [*ids, {}]})
    assert status_and(found, "code") == (413, "too_large")
    assert api("POST", place, {"decisions": []})[0] == 422
    assert api("POST", place, {"reports": []})[0] == 422
    assert api("POST", place, {"decisions": {}})[0] == 422
    assert api("POST", place)[0] == 400
    assert api("GET", "/v1/campaigns/thousand")[1]["asked"] == 1000


# Looking.


def test_the_log_is_read_in_pieces_and_says_who(api, path):
    api("POST", f"{path}/decisions", {"id": "a"})
    api("POST", f"{path}/reports", {"id": "a", **REPORT})
    api("POST", f"{path}/pause", {"why": "x", "note": "a note"})
    _, text, headers = api("GET", f"{path}/events")
    assert headers["content-type"] == "application/x-ndjson"
    lines = [json.loads(line) for line in text.splitlines()]
    assert [one["kind"] for one in lines] == ["created", "asked", "told", "paused"]
    assert {one["who"] for one in lines} == {"http"}
    assert lines[3]["note"] == "a note"
    assert list(lines[3]) == [*"seq at time kind ticket who version body hash note".split()]
    assert len(lines[0]["hash"]) == 32
    _, text, _ = api("GET", f"{path}/events?after=1&limit=2")
    assert [json.loads(line)["seq"] for line in text.splitlines()] == [2, 3]
    assert api("GET", f"{path}/events?after=4")[1] == ""


def test_the_ledger_adds_up_in_ticks(api, path):
    ids = [api("POST", f"{path}/decisions")[1]["id"] for _ in range(3)]
    api("POST", f"{path}/reports", {"id": ids[0], **REPORT, "cost": 0.3})
    found = api("GET", f"{path}/ledger")[1]
    (account,) = found["accounts"]
    ticks = account["ticks"]
    assert ticks["budget"] == ticks["spent"] + ticks["reserved"] + ticks["free"]
    assert (account["spent"], account["reserved"]) == (0.3, 2.0)
    assert ticks["spent"] * account["tick"] == pytest.approx(0.3)
    assert found["tickets"]["in_flight"] == 2


def test_outlook_and_why(api, path):
    api("POST", f"{path}/decisions", {"id": "a"})
    found = api("GET", f"{path}/outlook?doubt=0.05")[1]
    assert [one["name"] for one in found["limits"]] == ["bad"]
    found = api("GET", f"{path}/decisions/a/why")[1]
    assert (found["id"], found["policy"], found["among"]) == ("a", "lyon", ["haiku", "opus"])
    assert api("GET", f"{path}/outlook?doubt=2")[0] == 400
    found = api("GET", f"{path}/outlook?estimate=true")[1]
    assert found["limits"][0]["estimate"] is None  # before the first cost
    assert api("GET", f"{path}/outlook?estimate=maybe")[0] == 400


def test_changes_of_a_campaign(api, path):
    assert status_and(api("POST", f"{path}/pin", {"arm": "opus"}), "pinned") == (200, "opus")
    assert api("POST", f"{path}/decisions")[1]["arm"] == "opus"
    assert status_and(api("POST", f"{path}/pin", {"arm": None}), "pinned") == (200, None)
    assert api("POST", f"{path}/pin", {"arm": "nobody"})[0] == 422
    assert api("POST", f"{path}/pin", {})[0] == 422
    assert status_and(api("POST", f"{path}/budget", {"amount": 50}), "budget") == (200, 150)
    assert api("POST", f"{path}/budget", {"amount": -1})[0] == 422
    assert status_and(api("POST", f"{path}/budget", {"budget": 120}), "budget") == (200, 120)
    for body in ({}, {"amount": 1, "budget": 2}):
        assert api("POST", f"{path}/budget", body)[0] == 422
    found = api("POST", f"{path}/arms", {"name": "third", "like": "opus", "weight": 5})
    assert [arm["arm"] for arm in found[1]["arms"]] == ["haiku", "opus", "third"]
    found = api("DELETE", f"{path}/arms/haiku")
    assert [arm["retired"] for arm in found[1]["arms"]] == [True, False, False]
    assert api("DELETE", f"{path}/arms/nobody")[0] == 404
    found = api("POST", f"{path}/change", {"limits": {"bad": 0.5}, "expire_after": 60})
    assert found[0] == 200, found[1]
    assert found[1]["limits"] == {"bad": {"at_most": 0.5, "per": "pull"}}
    assert api("POST", f"{path}/change", {"policy": "resolve:risk=0.02"})[0] == 200
    assert api("GET", path)[1]["policy"] == "resolve:risk=0.02"
    assert api("POST", f"{path}/change", {})[0] == 422
    assert api("POST", f"{path}/decisions", {"id": "after"})[0] == 201
    text = api("GET", f"{path}/events")[1]
    assert {json.loads(line)["who"] for line in text.splitlines()} == {"http"}


def test_what_happens_at_an_overrun_is_said_at_creation_and_changed(api):
    place = "/v1/campaigns/alert"
    assert api.create("alert", on_overrun="alert")["on_overrun"] == "alert"
    for ticket in "ab":
        api("POST", f"{place}/decisions", {"id": ticket})
        api("POST", f"{place}/reports", {"id": ticket, **REPORT})
    assert api("POST", f"{place}/amendments", {"id": "a", "cost": 1.5})[0] == 200
    found = api("GET", place)[1]
    assert (found["state"], found["overruns"]) == ("open", 1)
    assert api("POST", f"{place}/change", {"on_overrun": "pause"})[1]["on_overrun"] == "pause"
    assert api("POST", f"{place}/amendments", {"id": "b", "cost": 1.5})[0] == 200
    assert api("GET", place)[1]["why"] == "overrun"
    assert api("POST", f"{place}/change", {"on_overrun": "never"})[0] == 422


def test_a_budget_below_what_is_used_is_422_with_the_amounts(api, path):
    api("POST", f"{path}/decisions", {"id": "a"})
    api("POST", f"{path}/reports", {"id": "a", **REPORT})
    api("POST", f"{path}/decisions", {"id": "b"})
    found = api("POST", f"{path}/budget", {"budget": 0.5})
    assert found[0] == 422
    assert "is spent and 1 is reserved" in found[1]["detail"]


def test_a_put_that_differs_names_what_differs(api):
    api.create("differs", budget=10)
    other = {**TASK, "limits": {"bad": {"at_most": 0.3, "per": "pull"}}}
    body = {"task": other, "budget": 11, "policy": "lyon"}
    status, found, _ = api("PUT", "/v1/campaigns/differs", body)
    assert (status, found["code"]) == (409, "conflict")
    assert "budget (10.0 there, 11.0 here), limit 'bad' (Limit(0.2, per='pull')" in found["detail"]


def test_health_readiness_and_metrics(api, path):
    assert api("GET", "/healthz")[1] == {"status": "alive"}
    assert api("GET", "/readyz")[1] == {"status": "ready"}
    api("POST", f"{path}/decisions", {"id": "a"})
    api("POST", f"{path}/reports", {"id": "a", **REPORT})
    api("POST", f"{path}/decisions", {"id": "b"})
    _, text, headers = api("GET", "/metrics")
    assert headers["content-type"].startswith("text/plain; version=0.0.4")
    label = 'campaign="test_health_readiness_and_metrics"'
    found = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert found[f"tightrope_spent{{{label}}}"] == "0.5"
    assert found[f"tightrope_in_flight{{{label}}}"] == "1"
    assert 0 <= float(found[f"tightrope_oldest_in_flight_seconds{{{label}}}"]) < 60
    assert found[f"tightrope_replica_lag_events{{{label}}}"] == "0"
    assert found[f'tightrope_tickets_total{{{label},outcome="told"}}'] == "1"
    assert found[f'tightrope_requests_total{{{label},outcome="ok"}}'] == "3"
    assert found[f"tightrope_commit_wait_seconds_count{{{label}}}"] == "3"
    assert found[f'tightrope_commit_wait_seconds_bucket{{{label},le="+Inf"}}'] == "3"
    assert found[f"tightrope_halted{{{label}}}"] == "0"
    labels = {pair.split("=")[0] for line in found for pair in labels_of(line)}
    assert labels <= {"campaign", "arm", "outcome", "le"}
    helped = [line.split()[2] for line in text.splitlines() if line.startswith("# HELP")]
    assert len(helped) == len(set(helped))


def labels_of(line):
    inside = line.partition("{")[2].rpartition("}")[0]
    return inside.split(",") if inside else []


def test_head_and_old_http(api, path):
    status, body, headers = api("HEAD", path)
    assert (status, body) == (200, "")
    assert int(headers["content-length"]) > 100
