"""The house's rules that no linter has."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCES = sorted((Path(__file__).parents[1] / "src").rglob("*.py"))
LONGEST, MOST_PARAMETERS = 60, 10
Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(node: ast.AST, told: str = "") -> Iterator[tuple[Function, str]]:
    """Every function with its docstring and those of what it stands in."""
    for child in ast.iter_child_nodes(node):
        inner = told
        if isinstance(child, Function | ast.ClassDef):
            inner = told + (ast.get_docstring(child) or "")
        if isinstance(child, Function):
            yield child, inner
        yield from functions(child, inner)


def is_large(function: Function, command: bool = False) -> bool:
    """A ``command`` of the shell has a parameter for each option, and its help as docstring."""
    given = function.args
    parameters = len(given.posonlyargs) + len(given.args) + len(given.kwonlyargs) * (not command)
    start = function.body[1].lineno if command and len(function.body) > 1 else function.lineno
    lines = (function.end_lineno or 0) - start + 1
    return lines > LONGEST or parameters > MOST_PARAMETERS


def is_overload(function: Function) -> bool:
    return any(
        isinstance(one, ast.Name) and one.id == "overload" for one in function.decorator_list
    )


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_a_large_function_says_why(path):
    """Of more than 60 lines or 10 parameters: its docstring says "because"."""
    shell = path.stem == "cli" or "shell" in path.parts
    large = [
        function.name
        for function, told in functions(ast.parse(path.read_text()))
        if is_large(function, shell) and not is_overload(function) and "because" not in told
    ]
    assert large == []


def test_the_rule_sees_large_functions():
    body = "\n    ".join(["x = 1"] * 61)
    (found,) = functions(ast.parse(f"def f():\n    {body}"))
    assert is_large(found[0])
    (found,) = functions(ast.parse(f"def f({', '.join(f'a{i}' for i in range(11))}): pass"))
    assert is_large(found[0])


@pytest.mark.parametrize(
    "path",
    [path for path in SOURCES if path.name == "__init__.py"],
    ids=lambda path: path.parent.stem,
)
def test_every_package_has_a_door(path):
    """Its docstring says what lives there."""
    assert len(ast.get_docstring(ast.parse(path.read_text())) or "") > 40
