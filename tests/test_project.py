"""The project's own files agree with each other."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tightrope import __version__

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def declared():
    """Everything that ``pip install -e .[dev]`` asks for by name."""
    waiting = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["dev"]]
    while waiting:
        asked = Requirement(waiting.pop())
        if asked.name == PROJECT["name"]:
            for extra in asked.extras:
                waiting += PROJECT["optional-dependencies"][extra]
        else:
            yield asked


def test_the_lock_has_a_version_that_is_allowed_of_everything_asked_for():
    text = (ROOT / "requirements-dev.txt").read_text()
    pins = re.findall(r"(?m)^([\w.-]+)==(\S+)", text)
    for asked in declared():
        versions = [pin for name, pin in pins if name == canonicalize_name(asked.name)]
        assert versions, f"{asked.name} is not locked: make lock"
        assert all(asked.specifier.contains(one) for one in versions), f"{asked}: make lock"
    assert "://" not in text, "an index's address is each developer's own"


def test_a_registry_page_has_no_links_to_files():
    hook = pytest.importorskip("hatch_build", reason="needs hatchling, which the dev extra has")
    text = (ROOT / "README.md").read_text()
    targets = re.findall(r"\]\(([^)]+)\)", text)
    assert targets
    for target in targets:
        assert target.startswith("https://") or (ROOT / target.partition("#")[0]).exists(), target
    left = re.findall(r"\]\(([^)]+)\)", hook.without_files(text))
    assert all(target.startswith("https://") for target in left)
    shown = hook.without_files("![a](b.png) [c](docs/d.md#e), [f](https://g.org), [h](#i)")
    assert shown == " c, [f](https://g.org), [h](#i)"


def test_the_citation_has_the_version():
    citation = (ROOT / "CITATION.cff").read_text()
    assert __version__.startswith(*re.findall(r"(?m)^version: (\S+)$", citation))


@pytest.mark.parametrize("folder", ["benchmarks", "tests"])
def test_no_installed_package_of_the_same_name_hides_a_folder_of_the_project(tmp_path, folder):
    installed = tmp_path / folder
    installed.mkdir()
    (installed / "__init__.py").touch()
    code = "import sys; sys.path.append(sys.argv[1]); print(__import__(sys.argv[2]).__path__)"
    asked = [sys.executable, "-c", code, str(tmp_path), folder]
    found = subprocess.run(asked, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    assert found.strip() == str([str(ROOT / folder)])
