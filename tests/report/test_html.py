"""Tables for notebooks: what they say, and that names are data."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.problems import LeastPulled
from tests.report.test_page import Reader
from tightrope import (
    Controller,
    LyOn,
    Scales,
    Task,
    load_problem,
    oracle,
    ready_problem,
    trajectory,
)
from tightrope.arena.report import standings_html
from tightrope.report.html import MOST_LINES, text
from tightrope.report.panels import trajectory_panels
from tightrope.report.table import NO_REGRET

DELIVERY = Path(__file__).parents[2] / "examples" / "delivery.toml"

NASTY = [
    "<script>alert(1)</script>",
    "two\nlines\u2028three",
    "turned \u202egnp.exe\u2066",
    "x" * 300,
    "\"quoted\" & 'so'",
    "שלום",
    "\ud800 alone",
]


@pytest.fixture(scope="module")
def nasty() -> Task:
    limits = {"<img src=x onerror=alert(1)>": "0.05 per cost", "dollars": "0.004 per cost"}
    return Task(NASTY, limits, Scales(penalty={"dollars": 0.05}), name="</style><b>router")


def read(html: str) -> Reader:
    """The element, whole: all that opens closes, and it needs nothing from elsewhere."""
    reader = Reader(html)
    assert reader.open == []
    assert {tag for tag, _ in reader.tags} <= TAGS
    for _, attributes in reader.tags:
        assert not any(name.startswith("on") or name in ("src", "href") for name in attributes)
    html.encode("utf-8")
    return reader


TAGS = {"div", "style", "p", "b", "span", "table", "thead", "tbody", "tr", "th", "td"}
TAGS |= {"bdi", "i", "svg", "polyline", "circle"}


def told_controller(task: Task) -> Controller:
    controller = Controller(task, LyOn(beta0=0.01), budget=10)
    for _ in range(5):
        penalty = dict.fromkeys(task.limit_names, 0.0)
        controller.tell(controller.ask(), cost=1, reward=0.5, penalty=penalty)
    return controller


@pytest.mark.parametrize("name", NASTY)
def test_a_name_is_only_text(name):
    shown = text(name)
    inside = shown.removeprefix("<bdi>").removesuffix("</bdi>")
    assert "<" not in inside
    assert '"' not in inside
    assert inside.isprintable()
    assert len(Reader(shown).text) <= 60


def test_nasty_names_are_harmless(nasty):
    for shown in (nasty, told_controller(nasty)):
        html = shown._repr_html_()
        reader = read(html)
        assert html.count("<style>") == html.count("</style>") == 1
        assert "<script>alert(1)</script>" in reader.text
        assert r"two\nlines\u2028three" in reader.text
        assert "x" * 60 not in html
        assert not re.search("[\u2028\u202e\u2066\n]", html)


def test_a_task(nasty):
    said = read(nasty._repr_html_()).text
    assert "7 arms" in said
    assert "2 limits" in said
    assert "0.004" in said
    many = read(ready_problem("paper-arms-100").task._repr_html_()).text
    assert "and 88 more" in many
    assert "smallest mean cost" in many


def test_a_problem_in_the_users_units():
    html = load_problem("advertising")._repr_html_()
    said, line = read(html), html.split("video")[1].split("</tr>")[0]
    cells = re.findall(r"<td[^>]*>([\d.]+)", line)
    assert [float(cell) for cell in cells] == [2.0, 7.2, 3.6, 0.35]
    bad = [a for tag, a in said.tags if tag == "td" and "bad" in a.get("class", "")]
    assert len(bad) == 2  # video and banner are above the limit of 0.25
    assert "The arms change at" in read(ready_problem("arena-abrupt")._repr_html_()).text


def test_many_arms_are_cut():
    reader = read(ready_problem("paper-arms-100")._repr_html_())
    assert sum(tag == "tr" for tag, _ in reader.tags) == 1 + MOST_LINES
    assert f"and {100 - MOST_LINES} more" in reader.text


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (lambda _: oracle(ready_problem("paper")), "bold|careful|0.3913|reward rate 1.3"),
        (lambda _: oracle(ready_problem("paper-arms-100")), "98 arms never pulled|bold "),
        (lambda _: oracle(load_problem(DELIVERY)), "van|bicycle|penalty rate of noise 1.5 "),
        (told_controller, "spent 5 of 10|5 pulls"),
    ],
)
def test_what_is_said(nasty, made, words):
    said = read(made(nasty)._repr_html_()).text
    assert [word for word in words.split("|") if word not in said] == []


def test_bars_are_as_long_as_their_shares(nasty):
    assert "width:39.1%" in oracle(ready_problem("paper"))._repr_html_()
    assert "width:50.0%" in told_controller(nasty)._repr_html_()


def test_a_trajectory_by_the_names_of_its_limits():
    path = trajectory(load_problem(DELIVERY), LeastPulled(), budget=20, runs=30, seed=1)
    html = path._repr_html_()
    reader = read(html)
    heads = re.findall(r"<th[^>]*>([^<]*)</th>", html)
    assert heads == "run,cost,reward,late,noise,queue of late,queue of noise".split(",")
    assert "Trajectory least-pulled" in reader.text
    assert f"and {30 - MOST_LINES} more" in reader.text
    first = re.findall(r"<td[^>]*>([\d.]+)", html)[1:7]
    ends = (path.cost[0, -1], path.reward[0, -1], *path.penalty[0, -1], *path.queue[0, -1])
    assert first == [f"{end:,.5g}" for end in ends]
    titles = [panel.title for panel in trajectory_panels({"runs": path}, "queue")]
    assert titles == ["queue of late", "queue of noise"]


def test_results(one_limit, two_limits, infeasible, one_run, no_limit):
    reader = read(one_limit._repr_html_())
    assert "64 runs per policy and budget" in reader.text
    assert sum(tag == "svg" for tag, _ in reader.tags) == 3  # three policies at three budgets
    assert sum(tag == "tr" for tag, _ in reader.tags) == 1 + 9
    assert NO_REGRET not in reader.text
    lines = read(two_limits._repr_html_())
    assert "violation 2" in lines.text
    assert not any(tag == "svg" for tag, _ in lines.tags)
    assert NO_REGRET in read(infeasible._repr_html_()).text
    read(one_run._repr_html_())
    assert "limit" not in read(no_limit._repr_html_()).text


def test_colours_say_who_keeps_the_limit(infeasible, no_limit):
    """Both budgets of a policy that breaks the limit for sure."""
    bad = [a for _, a in read(infeasible._repr_html_()).tags if "bad" in a.get("class", "")]
    assert len(bad) == 4, "two violations, and the name beside each"
    tones = [a for _, a in read(no_limit._repr_html_()).tags if "bad" in a.get("class", "")]
    assert tones == []


def test_standings_of_the_arena():
    from tests.arena.test_arena import made_up
    from tightrope.arena.ranking import ranked

    rows = ranked([made_up("<b>a</b>", 1.4), made_up("c", keeps=False, share=0.5)])
    said = read(standings_html(rows, 10_000.0)).text
    assert "<b>a</b>" in said
    assert "1 of 1" in said
    assert "0 of 1" in said
    assert "10 %-10 %" in said  # regret, violation
