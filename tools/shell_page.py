"""The commands of docs/shell.md, from the docstrings that ``--help`` prints.

python -m tools.shell_page      # writes them into the page
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks import page
from tightrope.cli import COMMANDS
from tightrope.shell.commands import Command, Group, Parameter, described, parameters

__all__ = ["PAGE", "markdown"]

PAGE = Path(__file__).parents[1] / "docs" / "shell.md"
BLOCK = "commands"
REPEATED = "; may be repeated"  # it is shown by dots
SHARED = 3  # an argument of as many commands is explained once
CODE = re.compile(  # options, quoted text, expressions
    r"""(?<![`\w-])(?:--[a-z][a-z-]*|"[^"]+"|'{.*}'|\$\d*|[A-Z]+_[A-Z]+|pi\*|OPT\(B\)"""
    r"""|\S*[=:][\w.]+\S*[\w\]])"""
)
SHARED_LEAD = "Several commands take these arguments. Three dots mean that one may be repeated."


def markdown() -> str:
    """The block of the page: shared arguments, then every command with its own."""
    commands = dict(_commands(COMMANDS))
    every = [_words(parameter) for one in commands.values() for parameter in _visible(one)]
    shared = [one for one in dict.fromkeys(every) if every.count(one) >= SHARED]
    parts = ["## Shared arguments", SHARED_LEAD, page.bullets(shared)]
    for title, some in COMMANDS.sections.items():
        parts.append(f"## {title.capitalize()}")
        for name, one in some.items():
            parts += _opening([name], one) if isinstance(one, Group) else []
            for path, command in (
                _commands(one, name) if isinstance(one, Group) else [((name,), one)]
            ):
                parts += _command(path, command, shared)
    return "\n\n".join(parts)


def _commands(group: Group, *path: str) -> Iterator[tuple[Sequence[str], Command]]:
    for name, one in group.commands.items():
        if isinstance(one, Group):
            yield from _commands(one, *path, name)
        else:
            yield (*path, name), one


def _command(path: Sequence[str], command: Command, shared: Sequence[str]) -> Iterator[str]:
    """A command: its text, how it is called, its own arguments, and names of the shared ones."""
    yield from _opening(path, command)
    known = list(_visible(command))
    own = [words for one in known if (words := _words(one)) not in shared]
    also = [f"`{one.shown}`" for one in known if one.option and _words(one) in shared]
    yield page.bullets([*own, *[f"shared: {', '.join(also)}"] * bool(also)])


def _opening(path: Sequence[str], command: Command | Group) -> Iterator[str]:
    about = described(command)
    yield f"{'#' * (2 + len(path))} {' '.join(path)}"
    yield _marked(about.text)
    if isinstance(command, Group) and len(command.sections) > 1:
        yield page.bullets(
            f"{title}: {', '.join(f'`{name}`' for name in some)}"
            for title, some in command.sections.items()
        )
    usage = "" if isinstance(command, Group) else f"{_usage(path, command)}\n\n"
    yield f"```sh\n{usage}{about.examples}\n```"


def _usage(path: Sequence[str], command: Command) -> str:
    known = list(_visible(command))
    needed = [_called(one) for one in known if one.required or not one.option]
    options = ["[options]"] * any(one.option and not one.required for one in known)
    return " ".join(["# usage: tightrope", *path, *needed, *options])


def _visible(command: Command) -> Iterator[Parameter]:
    return (one for one in parameters(command) if not one.about.hidden)


def _called(one: Parameter) -> str:
    """A needed word or option as it is written in the line."""
    several = "..." * one.listed
    if one.option:
        return f"{one.shown} {one.metavar}{several}"
    return f"{one.metavar}{several}" if one.required else f"[{one.metavar}]"


def _words(one: Parameter) -> str:
    dots = "..." * (one.listed and not one.metavar.endswith("..."))
    value = "" if one.kind is bool or not one.option else f" {one.metavar}{dots}"
    needed = "required; " * (one.option and one.required)
    return f"`{one.shown}{value}`: {needed}{_marked(one.help.replace(REPEATED, ''))}"


def _marked(text: str) -> str:
    """A text with its options and expressions as code."""
    return CODE.sub(r"`\g<0>`", text)


if __name__ == "__main__":
    page.write({BLOCK: markdown()}, PAGE)
