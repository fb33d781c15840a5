"""The public surface, and what an import may cost."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import tightrope


def test_every_public_name_exists_and_has_a_docstring():
    for name in tightrope.__all__:
        assert getattr(tightrope, name).__doc__, name
    assert tightrope.__all__ == sorted(tightrope.__all__)
    assert len(tightrope.__all__) <= 52
    assert {"Setup", "limits_of"} <= set(tightrope.__all__)  # every own policy needs them


def test_no_public_name_is_missing():
    hidden = {"annotations", "TYPE_CHECKING", "Any", "TightropeError"}
    modules = type(sys)
    public = {
        name
        for name, value in vars(tightrope).items()
        if not name.startswith("_") and not isinstance(value, modules) and name not in hidden
    }
    assert public <= set(tightrope.__all__)


@pytest.mark.parametrize("name", sorted(tightrope._MOVED))
def test_a_name_of_the_last_release_is_found_with_a_warning(name):
    place = f"tightrope.{tightrope._MOVED[name]}"
    with pytest.warns(DeprecationWarning, match=f"tightrope.{name} has moved to {place}; ") as told:
        found = getattr(tightrope, name)
    assert told[0].filename == __file__
    assert found is getattr(importlib.import_module(place), name)
    assert name not in tightrope.__all__


def test_no_two_classes_have_one_name():
    found = {}
    for path in sorted(Path(tightrope.__file__).parent.rglob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, []).append(f"{path.name}:{node.lineno}")
    twice = {name: places for name, places in found.items() if len(places) > 1}
    assert list(twice) == ["Ticket"]  # public both here and in the client, which stands alone


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="simulat"):
        tightrope.simulat  # noqa: B018


@pytest.mark.parametrize(
    ("name", "module"), [("optimum", "optimum.pi_star"), ("arena", "arena.problems")]
)
def test_a_function_stays_when_the_package_of_its_name_is_imported(name, module):
    program = (
        f"import tightrope.{module}, tightrope; from tightrope import {name};"
        f" assert callable(tightrope.{name}) and tightrope.{name} is {name}"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_importing_needs_no_heavy_library():
    heavy = "numpy numba scipy matplotlib pandas narwhals rich jinja2".split()
    program = f"import sys, tightrope; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
