"""What can be asked of a campaign is described once: HTTP, pages, client and shell follow it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

import tightrope
from tightrope.changes import CHANGES, Action, change_named, inputs_of, name_of
from tightrope.errors import InputError
from tightrope.service import campaigns
from tightrope.service.openapi import document_of
from tightrope.service.pages import actions
from tightrope.shell.campaigns import CAMPAIGN
from tightrope.shell.commands import parameters


def test_every_change_has_a_route_with_its_fields():
    start = "/v1/campaigns/{campaign}/"
    routes = {(one.method, one.path.removeprefix(start)): one for one in campaigns.TABLE}
    shapes = document_of()["components"]["schemas"]
    for kind in CHANGES:
        route = routes[kind.method, kind.path]
        assert (route.summary, route.roles) == (kind.summary, ("admin",))
        if kind.method == "POST":
            assert set(shapes[kind.__name__]["properties"]) == set(kind.__struct_fields__)


def test_every_change_has_a_name_that_type_checkers_know():
    assert get_args(Action) == tuple(map(name_of, CHANGES))
    assert [change_named(one) for one in get_args(Action)] == list(CHANGES)
    with pytest.raises(InputError, match="action 'paus' is unknown; did you mean 'pause'"):
        change_named("paus")


def test_every_form_asks_for_what_its_change_needs():
    for action, (kind, form) in actions.FORMS.items():
        asked = {field.name for field, _ in actions.inputs_of(kind, form)} | set(form.fixed)
        shape = kind.__struct_fields__
        needed = shape[: len(shape) - len(kind.__struct_defaults__)]
        assert set(needed) <= asked <= set(shape), action
        assert kind.place() in ("", "arm", "number")


def test_every_command_takes_the_fields_of_its_change():
    about = {"store", "campaign", "json", "trust_policy"}
    for kind in CHANGES:
        taken = set()
        for form in kind.commands:
            words = {one.name: one for one in parameters(CAMPAIGN.commands[form.name])}
            taken |= set(words) - about
            for field, _ in inputs_of(kind):
                if field.name in words:
                    assert words[field.name].required == (field.required or bool(form.takes))
        if kind.commands:
            assert taken == {*kind.__struct_fields__, kind.place()} - {""}


NEW = '''
import tightrope.changes as changes

class Nap(changes.CampaignChange):
    """A pause for a while."""

    path = "arms/{arm}/nap"
    summary = "Pause for a nap in the name of an arm"
    repeats = True
    commands = (changes.ShellForm("nap"),)
    forms = (changes.Form("nap", "Nap {name}?", "It sleeps.", "Sleep", "It sleeps now."),)
    minutes: changes.Annotated[float, changes.said_of("how long", "Minutes", kind="number")]

    def do(self, writer, place=""):
        writer.pause(f"a nap of {self.minutes:g} minutes for {place}")

    def said(self, place, status):
        return f"{place} sleeps"

changes.CHANGES = (*changes.CHANGES, Nap)  # all that a new change needs
'''
USE = '''
import httpx, sys
from tightrope import Task, open_campaign
from tightrope.cli import main
from tightrope.client import Client
from tightrope.errors import InputError
from tightrope.service.server import Running

store = sys.argv[1]
with open_campaign(store, "one", task=Task(["a", "b"], {"bad": "0.4 per cost"}), budget=9) as made:
    made.pause("nothing")

def why(act):
    """Why the campaign is paused after an act."""
    with open_campaign(store, "one") as campaign:
        campaign.resume()
    act()
    with open_campaign(store, "one") as campaign:
        return campaign.status()["why"]

assert why(lambda: main(["campaign", "nap", store, "one", "1", "5"])) == "a nap of 5 minutes for b"
assert main(["campaign", "nap", store, "one", "a"]) == 2  # the minutes are missing

import asyncio, tightrope.service.app, tightrope.service.desk
from tightrope.service.openapi import document_of
assert "/v1/campaigns/{campaign}/arms/{arm}/nap" in document_of()["paths"]

async def work():
    service = tightrope.service.desk.Service(store)
    await service.start()
    transport = httpx.ASGITransport(tightrope.service.app.make_app(service))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
        form = await http.get("/campaigns/one/act/nap?arm=a")
        assert "Nap one?" in form.text and 'name="minutes"' in form.text, form.text
        await http.post("/v1/campaigns/one/resume")
        sent = await http.post("/campaigns/one/act/nap", data={"arm": "a", "minutes": "20"},
                               headers={"origin": "http://localhost"})
        assert sent.status_code == 303, sent.text
        found = (await http.get("/v1/campaigns/one")).json()
        assert found["why"] == "a nap of 20 minutes for a", found
        assert "It sleeps now." in (await http.get(sent.headers["location"])).text
        await http.post("/v1/campaigns/one/resume")
        refused = await http.post("/v1/campaigns/one/arms/a/nap", json={})
        assert refused.status_code == 422 and "minutes" in refused.json()["detail"]
        from tightrope.client import AsyncClient
        async with AsyncClient("http://localhost", transport=transport) as client:
            answer = await client.act("one", "nap", arm="b", minutes=3)
            assert answer["why"] == "a nap of 3 minutes for b"
            try:
                await client.act("one", "nap", minutes=3)
            except InputError as error:
                assert str(error) == "nap: arm is missing"
    await service.drain()

asyncio.run(work())
print("used")
'''


def test_a_new_change_is_one_class_in_one_file(tmp_path):
    """It is in the registry alone: HTTP, its document, pages, client and shell have it."""
    done = subprocess.run(
        [sys.executable, "-c", NEW + USE, str(tmp_path / "store.db")],
        capture_output=True, text=True, timeout=300, env=os.environ,
    )  # fmt: skip
    assert done.stdout.splitlines()[-1:] == ["used"], done.stderr
    assert "'one': b sleeps; " in done.stdout
    assert "nap: the following arguments are required: MINUTES" in done.stderr


def test_no_other_file_lists_the_changes():
    """Files that name most of them: the registry alone, before it HTTP, the shell and the client.

    A name counts if it is quoted, or a path's end, or a function of the shell.
    """
    root = Path(tightrope.__file__).parent
    names = {form.name for kind in CHANGES for form in kind.commands} | set(get_args(Action))
    listed = {}
    for path in root.rglob("*.py"):
        text = path.read_text()
        found = {one for one in names if re.search(rf"""["'/]{one}["']""", text)}
        if len(found) > len(names) / 3:
            listed[str(path.relative_to(root))] = sorted(found)
    assert list(listed) == ["changes.py"], listed
