"""Command names: a hint for unknown ones, and completion in shells."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tightrope.errors import InputError, nearest

__all__ = ["SHELLS", "complete", "completion_script", "require_command", "without_own_name"]

SHELLS = ("bash", "zsh", "fish")


def require_command(arguments: Sequence[str], known: Iterable[str]) -> None:
    """Raise, naming the closest command, if the first word is not a command."""
    word = next((word for word in arguments if not word.startswith("-")), None)
    names = list(known)
    if word is not None and word not in names:
        raise InputError(f"command {word!r} is unknown; {nearest(word, names)}")


def without_own_name(program: str) -> str:
    """The prefix for a message about a command, without the program's name.

    >>> without_own_name("tightrope simulate"), without_own_name("tightrope")
    ('simulate: ', '')
    """
    command = program.partition(" ")[2]
    return f"{command}: " if command else ""


def completion_script(shell: str) -> str:
    """The lines for a shell's start-up file that enable completion for ``tightrope``."""
    try:
        from argcomplete.shell_integration import shellcode
    except ImportError:
        raise InputError(
            "completion needs argcomplete, which is not installed; pip install argcomplete"
        ) from None
    return str(shellcode(["tightrope"], shell=shell))


def complete(parser: Callable[[], argparse.ArgumentParser]) -> None:
    """Answer a shell's completion request and exit; do nothing if there is none."""
    if "_ARGCOMPLETE" in os.environ:
        import argcomplete

        made = parser()
        _add_completers(made)
        argcomplete.autocomplete(made)


def _add_completers(parser: argparse.ArgumentParser) -> None:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for one in action.choices.values():
                _add_completers(one)
        completer = COMPLETERS.get(action.dest)
        if completer is not None and not action.choices:
            action.completer = completer  # type: ignore[attr-defined]


def _problems(prefix: str, **_: Any) -> list[str]:
    from argcomplete.completers import FilesCompleter

    from tightrope.problem.ready import ready_names

    return [*ready_names(), *FilesCompleter(("toml",))(prefix)]


def _policies(prefix: str, **_: Any) -> list[str]:
    """Completions of a policy's name and, after a colon, of its parameters."""
    from dataclasses import fields

    from tightrope.policies import POLICIES

    name, colon, rest = prefix.partition(":")
    if not colon or name not in POLICIES:
        return list(POLICIES)
    before = prefix[: len(prefix) - len(rest.rpartition(",")[2])]
    return [f"{before}{field.name}=" for field in fields(POLICIES[name])]  # type: ignore[arg-type]


def _backends(prefix: str, **_: Any) -> list[str]:
    return ["auto", "cpu", "gpu", "python", "ray", "ray:gpu"]


def _experiments(prefix: str, **_: Any) -> list[str]:
    return ["all", "fig1", "fig2", "fig3", "fig4", "fig5", "erratum"]


COMPLETERS = {
    "problem": _problems,
    "policy": _policies,
    "backend": _backends,
    "experiment": _experiments,
}
