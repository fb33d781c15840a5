"""What can be asked of a campaign is described once: HTTP, the page and the client follow it."""

from __future__ import annotations

import asyncio
from typing import Annotated, get_args

import httpx

from tests.service.conftest import TASK
from tightrope.client.drivers import REPEATABLE, Action
from tightrope.service import campaigns
from tightrope.service.app import make_app
from tightrope.service.changes import CHANGES, FORMS, CampaignChange, Form, form_input
from tightrope.service.desk import Service
from tightrope.service.openapi import document_of
from tightrope.service.pages.actions import inputs_of, place_of


def test_every_change_has_a_route_with_its_fields():
    start = "/v1/campaigns/{campaign}/"
    routes = {(one.method, one.path.removeprefix(start)): one for one in campaigns.TABLE}
    shapes = document_of()["components"]["schemas"]
    for kind in CHANGES:
        route = routes[kind.method, kind.path]
        assert (route.summary, route.roles) == (kind.summary, ("admin",))
        if kind.method == "POST":
            assert set(shapes[kind.__name__]["properties"]) == set(kind.__struct_fields__)


def test_the_client_names_every_change_that_a_body_describes():
    """And repeats those of which it knows that this is harmless."""
    named = {kind.path for kind in CHANGES if "/" not in kind.path}
    assert set(get_args(Action)) == named
    assert REPEATABLE - named == set()


def test_every_form_asks_for_what_its_change_needs():
    for action, (kind, form) in FORMS.items():
        asked = {field.name for field, _ in inputs_of(kind, form)} | set(form.fixed)
        shape = kind.__struct_fields__
        needed = shape[: len(shape) - len(kind.__struct_defaults__)]
        assert set(needed) <= asked <= set(shape), action
        assert place_of(kind) in ("", "arm", "number")


class Nap(CampaignChange):
    """A pause for a while."""

    path = "nap"
    summary = "Pause for a nap"
    forms = (Form("nap", "Nap {name}?", "It sleeps.", "Sleep", "It sleeps now."),)
    minutes: Annotated[float, form_input("Minutes", "number")]

    def do(self, writer, place=""):
        writer.pause(f"a nap of {self.minutes:g} minutes")


def test_a_new_change_is_one_class(monkeypatch):
    """Its fields, its act and its form are all that is written for HTTP and the page."""
    monkeypatch.setattr(campaigns, "TABLE", list(campaigns.TABLE))
    monkeypatch.setitem(campaigns.ROUTES, ("v1", "campaigns", "{}", "nap"), {})
    monkeypatch.setitem(FORMS, "nap", (Nap, Nap.forms[0]))
    campaigns.add_change(Nap)

    async def work():
        service = Service("memory:")
        await service.start()
        transport = httpx.ASGITransport(make_app(service))
        address = "http://localhost"
        async with httpx.AsyncClient(transport=transport, base_url=address) as http:
            path = "/v1/campaigns/sleepy"
            made = await http.put(path, json={"task": TASK, "budget": 9, "policy": "lyon"})
            assert made.status_code == 201
            refused = await http.post(f"{path}/nap", json={})
            assert refused.status_code == 422
            assert "minutes" in refused.json()["detail"]
            answer = await http.post(f"{path}/nap", json={"minutes": 5})
            assert answer.json()["why"] == "a nap of 5 minutes"
            await http.post(f"{path}/resume")
            form = await http.get("/campaigns/sleepy/act/nap")
            assert "Nap sleepy?" in form.text
            assert 'name="minutes"' in form.text
            sent = await http.post(
                "/campaigns/sleepy/act/nap", data={"minutes": "20"}, headers={"origin": address}
            )
            assert sent.status_code == 303
            assert (await http.get(path)).json()["why"] == "a nap of 20 minutes"
            assert "It sleeps now." in (await http.get(sent.headers["location"])).text
        await service.drain()

    asyncio.run(work())
