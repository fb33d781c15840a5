"""The public surface, and what an import may cost."""

from __future__ import annotations

import subprocess
import sys

import pytest

import tightrope


def test_every_public_name_exists_and_has_a_docstring():
    for name in tightrope.__all__:
        assert getattr(tightrope, name).__doc__, name
    assert tightrope.__all__ == sorted(tightrope.__all__)


def test_no_public_name_is_missing():
    hidden = {"annotations", "TYPE_CHECKING", "Any"}
    modules = type(sys)
    public = {
        name
        for name, value in vars(tightrope).items()
        if not name.startswith("_") and not isinstance(value, modules) and name not in hidden
    }
    assert public <= set(tightrope.__all__)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="simulat"):
        tightrope.simulat  # noqa: B018


def test_the_function_optimum_stays_when_the_package_of_its_name_is_imported():
    program = (
        "import tightrope.optimum.pi_star, tightrope; from tightrope import optimum;"
        " assert callable(tightrope.optimum) and tightrope.optimum is optimum"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_importing_needs_no_heavy_library():
    heavy = "numpy numba scipy matplotlib pandas narwhals rich jinja2".split()
    program = f"import sys, tightrope; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
