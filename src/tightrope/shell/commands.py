"""Names of commands and options: a hint for unknown ones, their order, completion in shells."""

from __future__ import annotations

import argparse
import itertools
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tightrope.errors import InputError, TightropeError, nearest

__all__ = [
    "SHELLS",
    "HelpOfCommands",
    "arranged",
    "complete",
    "completion_script",
    "number",
    "require_command",
    "require_options",
    "whole",
    "without_own_name",
]

SHELLS = ("bash", "zsh", "fish")


Commands = Mapping[str, argparse.ArgumentParser]


class HelpOfCommands(argparse.RawDescriptionHelpFormatter):
    """Help that lists commands in two columns, however long their names are."""

    def add_argument(self, action: argparse.Action) -> None:
        """Make room for commands: argparse forgets that it indents them."""
        super().add_argument(action)
        if isinstance(action, argparse._SubParsersAction):
            longest = max(map(len, action.choices), default=0) + 2 * self._indent_increment
            self._action_max_length = max(self._action_max_length, longest)


def number(text: str) -> float:
    """The number that an option is given; also nan and infinite ones, which commands refuse."""
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} must be a number") from None


def whole(text: str) -> int:
    """The whole number that an option is given."""
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} must be a whole number") from None


def require_command(arguments: Sequence[str], known: Commands, group: str = "") -> None:
    """Raise, naming the closest command, if the first word is not a command; so in its groups."""
    for place, word in enumerate(arguments):
        if word.startswith("-"):
            continue
        if word not in known:
            hint = nearest(word, list(known))
            raise InputError(f"{group}command {word!r} is unknown; {hint}")
        inner = commands_of(known[word])
        if inner:
            require_command(arguments[place + 1 :], inner, f"{word} ")
        return


def commands_of(parser: argparse.ArgumentParser) -> Commands:
    """The commands of a group; none of a command."""
    return getattr(parser, "commands", {})


def named_command(
    arguments: Sequence[str], known: Commands, group: str = ""
) -> tuple[str, argparse.ArgumentParser, Sequence[str]] | None:
    """The command that the words name, its parser, and the words after it; None without one."""
    for place, word in enumerate(arguments):
        if word in known:
            parser, rest, name = known[word], arguments[place + 1 :], f"{group}{word}"
            inner = commands_of(parser)
            found = named_command(rest, inner, f"{name} ") if inner else None
            return found or (name, parser, rest)
    return None


def require_options(arguments: Sequence[str], known: Commands) -> None:
    """Raise for an unknown option of a command, with the nearest one; a prefix is enough."""
    named = named_command(arguments, known)
    if named is None:
        return
    command, parser, _ = named
    actions = parser._option_string_actions
    shown = [name for name, action in actions.items() if action.help != argparse.SUPPRESS]
    given = itertools.takewhile(lambda word: word != "--", arguments)
    for word in (word.partition("=")[0] for word in given if word.startswith("--")):
        if not any(name.startswith(word) for name in actions):
            options = [name for name in shown if name.startswith("--")]
            raise InputError(f"{command}: option {word!r} is unknown; {nearest(word, options)}")


def arranged(arguments: Sequence[str], known: Commands) -> list[str]:
    """The words of a group's command with its options first, each beside its value.

    Else argparse takes ``--cost -inf`` for two options, and wants what may be left out, such as a
    ticket's id, before any option. Other commands' words stay as they are.
    """
    named = named_command(arguments, known)
    if named is None or " " not in named[0] or not is_first(named[0], arguments):
        return list(arguments)
    command, parser, rest = named
    options, others = list[str](), list[str]()
    waiting = list(rest)
    while waiting:
        word = waiting.pop(0)
        if word == "--":
            others += waiting
            break
        if not word.startswith("-") or word == "-" or _is_number(word):
            others.append(word)
            continue
        values = _values_of(word, parser, waiting)
        options += [f"{word}={value}" for value in values] or [word]
        del waiting[: len(values)]
    if any(word.startswith("-") for word in others):
        others.insert(0, "--")
    return [*command.split(), *options, *others]


def is_first(command: str, arguments: Sequence[str]) -> bool:
    """Whether the words begin with a command."""
    words = command.split()
    return list(arguments[: len(words)]) == words


def _values_of(word: str, parser: argparse.ArgumentParser, after: Sequence[str]) -> list[str]:
    """The words after an option that are its values."""
    found = {
        id(action): action
        for name, action in parser._option_string_actions.items()
        if name == word or (word.startswith("--") and name.startswith(word))
    }
    exact = parser._option_string_actions.get(word)
    action = exact or (next(iter(found.values())) if len(found) == 1 else None)
    if action is None or action.nargs == 0:
        return []
    taken = list(itertools.takewhile(lambda one: not one.startswith("--"), after))
    return taken[:1] if action.nargs is None else taken


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


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


def _campaigns(prefix: str, parsed_args: argparse.Namespace, **_: Any) -> list[str]:
    """The campaigns of the store that was named before."""
    from tightrope.live.stores import open_store

    try:
        store = open_store(parsed_args.store, create=False)
        try:
            return store.names()
        finally:
            store.close()
    except TightropeError:
        return []


COMPLETERS = {
    "problem": _problems,
    "task": _problems,
    "campaign": _campaigns,
    "policy": _policies,
    "backend": _backends,
    "experiment": _experiments,
}
