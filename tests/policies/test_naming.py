"""Policies from files, modules and installed packages."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest

import tightrope
from tightrope import LyOn, parse_policy, simulate
from tightrope.errors import PolicyError
from tightrope.policies import naming

FILE = """
from dataclasses import dataclass
from typing import ClassVar

from tightrope import IndexPolicy, LyOn


@dataclass(frozen=True)
class Bolder(LyOn):
    name: ClassVar[str] = "bolder"
    summary: ClassVar[str] = "LyOn by another name"
    colour: ClassVar[str] = "#123456"


class Nameless(IndexPolicy):
    pass


NUMBER = 3
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(FILE)
    return path


def test_of_a_file(file):
    policy = parse_policy(f"{file}:Bolder:delta0=3,alpha=1")
    assert (policy.label, policy.delta0, policy.alpha) == ("bolder:delta0=3,alpha=1", 3.0, 1.0)
    assert type(parse_policy(f"{file}:Bolder")) is type(policy)
    file.write_text(FILE + "\n# changed\n")
    assert type(parse_policy(f"{file}:Bolder")) is not type(policy)


def test_of_a_module(file, monkeypatch):
    monkeypatch.chdir(file.parent)
    monkeypatch.setattr(sys, "path", [*sys.path])
    assert parse_policy("mine:Bolder:v0=2").label == "bolder:v0=2"
    assert parse_policy("tightrope.policies.lyon:LyOn") == LyOn()
    sys.modules.pop("mine")


class Entry:
    name, value = "installed", "somewhere:LyOn"

    def load(self):
        return LyOn


class Broken(Entry):
    name, value = "broken", "nowhere:Nothing"

    def load(self):
        raise ModuleNotFoundError("No module named 'nowhere'")


@pytest.fixture
def installed(monkeypatch):
    def entries(group):
        assert group == "tightrope.policies"
        return [Entry(), Broken()]

    naming.known_policies.cache_clear()
    monkeypatch.setattr(naming, "entry_points", entries)
    yield
    naming.known_policies.cache_clear()


def test_of_an_installed_package(installed):
    assert parse_policy("installed:delta0=2") == LyOn(delta0=2)
    with pytest.raises(PolicyError, match=r"entry point broken = 'nowhere:Nothing' .* be loaded"):
        parse_policy("broken")
    with pytest.raises(PolicyError, match="did you mean 'installed'"):
        parse_policy("instaled")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{file}:Bolde", "no class 'Bolde'; "),
        ("{file}:NUMBER", "3 must be a class of policies"),
        ("{file}:Nameless", "the class Nameless lacks "),
        ("{file}:Bolder:speed=1", "parameter 'speed' is unknown"),
        ("{file}x.py:Bolder", "there is no such file"),
        ("no_such_module:Bolder", "No module named 'no_such_module'"),
        ("json:JSONDecoder", "must be a class of policies"),
        (":", "is unknown"),
        ("a:b:c:d", "cannot be imported"),
    ],
)
def test_mistakes_are_one_line(file, text, words):
    with pytest.raises(PolicyError) as caught:
        parse_policy(text.format(file=file))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_is_no_text_is_refused():
    with pytest.raises(PolicyError, match=r"^policy 3: must be text"):
        parse_policy(3)


def test_a_file_that_fails_is_one_line(tmp_path):
    for text, words in {"1 / 0": "ZeroDivisionError", "def": "SyntaxError", "\0": "null"}.items():
        path = tmp_path / "wrong.py"
        path.write_text(text)
        with pytest.raises(PolicyError, match=words) as caught:
            parse_policy(f"{path}:Any")
        assert "\n" not in str(caught.value)


def test_in_the_shell_everywhere(file, shell, tmp_path):
    words = f"--policy {file}:Bolder --policy lyon --quiet --json".split()
    status, out, _ = shell("simulate", "paper", *words, "--budget", "50", "--runs", "20")
    mine, ours = json.loads(out)
    assert status == 0
    assert (mine["policy"], mine["reward_rate"]) == (f"{file}:Bolder", ours["reward_rate"])
    arena = ["arena", "--problem", "paper", *words, "--budget", "20", "--runs", "4"]
    status, out, _ = shell(*arena, "--out", str(tmp_path / "out"))
    assert status == 0
    assert {row["policy"] for row in json.loads(out)} == {f"{file}:Bolder", "lyon"}
    tune = f"tune paper --policy {file}:Bolder --budget 30 --runs 8 --quiet --json"
    status, out, _ = shell(*tune.split(), "--out", str(tmp_path / "tuned"))
    assert json.loads(out)[0]["policy"].startswith("bolder:")
    assert not (tmp_path / "tuned.parts").exists()


def test_its_colour_is_its_own(file):
    from tightrope.report.styles import styles

    policy = parse_policy(f"{file}:Bolder")
    assert styles([policy.label])[policy.label].colour == "#123456"


def test_on_a_cluster_with_its_code(file, paper):
    pytest.importorskip("ray", reason="ray is not installed")
    policy = parse_policy(f"{file}:Bolder")
    options = {"budgets": 20.0, "runs": 8, "progress": False}
    there = simulate(paper, policy, backend="ray", threads=1, **options)["bolder"]
    here = simulate(paper, policy, **options)["bolder"]
    assert there.backend == "ray"
    assert np.array_equal(there.runs.pulls, here.runs.pulls)


def test_objects_in_python(paper, file):
    policy = parse_policy(f"{file}:Bolder")
    found = tightrope.arena([paper], [policy], [20], runs=3, progress=False)
    assert [row.policy for row in found.rows] == ["bolder"]


def test_a_constant_of_an_imported_module_is_part_of_the_code(tmp_path, monkeypatch):
    from types import ModuleType

    from tightrope.compiled.keys import key_of

    helper = ModuleType("helper")
    helper.ARM = 0
    space: dict[str, object] = {"__name__": "own", "helper": helper}
    exec("def choose():\n    return helper.ARM", space)
    before = key_of(space["choose"])
    helper.ARM = 1
    assert key_of(space["choose"]) != before


def test_a_policy_that_ends_the_program_or_prints(tmp_path, shell):
    path = tmp_path / "loud.py"
    path.write_text("print('noise')\n" + FILE)
    words = ["simulate", "paper", "--budget", "20", "--runs", "3", "--quiet", "--json"]
    status, out, _ = shell(*words, "--policy", f"{path}:Bolder")
    assert status == 0
    assert json.loads(out)
    path.write_text("import sys\nsys.exit(0)")
    status, out, err = shell(*words, "--policy", f"{path}:Bolder")
    assert (status, out, err.count("\n")) == (2, "", 1)


def test_mistakes_in_a_policy_of_one_s_own_name_its_line(tmp_path, shell):
    path = tmp_path / "wrong.py"
    words = ["simulate", "paper", "--budget", "20", "--runs", "3", "--quiet"]
    for body, status, said in (
        ("return undefined", 2, "NameError at step 0 (name 'undefined' is not defined) in decide,"),
        ("return None", 2, "chose arm None at step 0"),
        ("return 0.5", 2, "chose arm 0.5 at step 0"),
    ):
        path.write_text(
            f"""
from dataclasses import dataclass

from tightrope import Policy
from tightrope.policies.base import Setup, limits_of

@dataclass(frozen=True)
class Wrong(Policy):
    name, summary = "wrong", ""
    def setup(self, task, budget):
        return Setup((), limits_of(task))

    def decide(self, *given):
        {body}
"""
        )
        found = shell(*words, "--policy", f"{path}:Wrong")
        assert (found[0], found[2].count("\n")) == (status, 1)
        assert said in found[2]
