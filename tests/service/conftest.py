from __future__ import annotations

import json
import urllib.error
import urllib.request

import pytest

from tightrope.service.server import Running

TASK = {
    "arms": [{"name": "haiku"}, {"name": "opus"}],
    "limits": {"bad": {"at_most": 0.2, "per": "pull"}},
    "scales": {"cost": 1, "reward": 1, "penalty": {"bad": 1}},
}


class Api:
    """Requests to a server, one at a time."""

    def __init__(self, url, key=None):
        self.url, self.key = url, key

    def __call__(self, method, path, body=None, *, raw=None, headers=None):
        """The status, the body as JSON, the headers."""
        data = raw if raw is not None else None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}{path}", data, method=method)
        request.add_header("content-type", "application/json")
        if self.key is not None:
            request.add_header("authorization", f"Bearer {self.key}")
        for name, value in (headers or {}).items():
            request.add_header(name, value)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, _json(answer.read()), answer.headers
        except urllib.error.HTTPError as error:
            with error:
                return error.code, _json(error.read()), error.headers

    def create(self, name="november", *, budget=100, policy="lyon", task=TASK, **more):
        body = {"task": task, "budget": budget, "policy": policy, **more}
        status, found, _ = self("PUT", f"/v1/campaigns/{name}", body)
        assert status in (200, 201), found
        return found


def _json(text):
    try:
        return json.loads(text)
    except ValueError:
        return text.decode()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server without keys, for all tests of a module."""
    with Running(tmp_path_factory.mktemp("service") / "campaigns.db") as running:
        yield running


@pytest.fixture
def api(server):
    return Api(server.url)
