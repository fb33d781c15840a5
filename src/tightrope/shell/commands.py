"""Commands from typed functions: what a line means, the help, completion in shells.

A command is a function. Its positional parameters are words of the line, its keyword-only ones are
options, each with its type and default; a parameter that is a dataclass stands for its fields. The
docstring is the help: a paragraph that begins with ``tightrope`` holds examples, the last one a
line ``name METAVAR: help`` per parameter. Parameters that several commands share are types
(``options``). argparse reads the words, argcomplete completes them.
"""

from __future__ import annotations

import argparse
import inspect
import os
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, is_dataclass, replace
from functools import partial
from itertools import takewhile
from types import UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    NoReturn,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from tightrope.errors import InputError, nearest
from tightrope.version import __version__

TOLD = re.compile(r"(\w+)(?: (\S+))?:(?: (.*))?")  # name METAVAR: help
EXAMPLE = "tightrope "  # a paragraph that begins with it holds examples
Command = Callable[..., int]


@dataclass(frozen=True)
class Argument:
    """What a parameter's type declares besides its values, as ``Annotated[int, Argument("N")]``.

    ``read`` makes a value of a word. ``completer`` is argcomplete's. ``many``: several words may
    follow the option. ``distinct``: no value comes twice. ``short`` is another name of the option,
    ``opposite`` one that takes it back. Those that are ``hidden`` are not in the help.
    """

    metavar: str | None = None
    help: str = ""
    completer: Callable[..., list[str]] | None = None
    read: Callable[[str], Any] | None = None
    many: bool = False
    distinct: bool = False
    short: str | None = None
    opposite: str | None = None
    hidden: bool = False


class Group:
    """Commands, and groups of them, by name and in titled sections; ``text`` is the help.

    A command's name is its function's: ``add_arm`` is add-arm, and ``list_`` is list.
    """

    def __init__(
        self, name: str, text: str, sections: Mapping[str, Sequence[Command | Group]]
    ) -> None:
        self.__name__, self.__doc__ = name, text
        self.sections = {title: dict(map(_named, some)) for title, some in sections.items()}
        self.commands = {name: one for some in self.sections.values() for name, one in some.items()}


def _named(command: Command | Group) -> tuple[str, Command | Group]:
    return command.__name__.strip("_").replace("_", "-"), command


def called(words: Sequence[str], group: Group) -> partial[int]:
    """The call that the words of a line mean; raises with one line if they mean none.

    ``--help`` and ``--version`` print and exit.
    """
    path, rest = list[str](), list[str]()
    command: Command | Group = group
    for word in words:
        if isinstance(command, Group) and not word.startswith("-"):
            if word not in command.commands:
                place, hint = " ".join([*path, "command"]), nearest(word, command.commands)
                raise InputError(f"{place} {word!r} is unknown; {hint}")
            path.append(word)
            command = command.commands[word]
        else:
            rest.append(word)
    parser = Parser(path, command)
    if isinstance(command, Group):
        parser.parse_known_args(rest)
        parser.error("the following arguments are required: COMMAND")
    values = vars(parser.parse_args(parser.arranged(rest)))
    for one in parameters(command):
        one.require_distinct(values[one.name])
    return _bound(command, values)


def _bound(function: Callable[..., Any], values: Mapping[str, Any]) -> partial[Any]:
    """The function with its values."""
    hints, given = get_type_hints(function), {}
    for name in inspect.signature(function).parameters:
        grouped = is_dataclass(hints[name])
        given[name] = _bound(hints[name], values)() if grouped else values[name]
    return partial(function, **given)


# What a function declares.


class Parameter(NamedTuple):
    """A parameter of a command, as its signature and docstring declare it."""

    name: str
    about: Argument
    kind: Any  # of one value
    listed: bool  # it has several values
    option: bool
    required: bool
    default: Any

    @classmethod
    def of(cls, declared: inspect.Parameter, kind: Any, told: Mapping[str, Any]) -> Parameter:
        """The parameter of this type; ``told``: its metavar and help in the docstring."""
        about = Argument()
        while get_origin(kind) in (Annotated, Union, UnionType):
            about = get_args(kind)[1] if get_origin(kind) is Annotated else about
            kind = get_args(kind)[0]
        listed = get_origin(kind) is Sequence
        (kind,) = get_args(kind) if listed else (kind,)
        required = declared.default is declared.empty
        default = None if required else [] if declared.default == () else declared.default
        option = declared.kind is declared.KEYWORD_ONLY
        if about.help and told.get("help", "").startswith("default "):
            told = {**told, "help": f"{about.help}; {told['help']}"}
        return cls(declared.name, replace(about, **told), kind, listed, option, required, default)

    @property
    def shown(self) -> str:
        """What errors call it."""
        return f"--{self.name.replace('_', '-')}" if self.option else self.metavar

    @property
    def metavar(self) -> str:
        """What stands for its value."""
        return self.about.metavar or METAVARS.get(self.kind, self.name.upper())

    @property
    def help(self) -> str:
        """Its help, with whether it may be repeated and its default, where that is not in it."""
        if self.about.hidden:
            return argparse.SUPPRESS
        told = [self.about.help] if self.about.help else []
        told += ["may be repeated"] * (self.option and self.listed and not self.about.many)
        if not isinstance(self.default, bool | list | None) and self.default != "":
            value = self.default if isinstance(self.default, str) else f"{self.default:g}"
            told += [f"default {value}"] * ("default" not in self.about.help)
        return "; ".join(told)

    def values(self) -> dict[str, Any]:
        """How argparse reads its values."""
        if self.kind is bool:
            return {"action": "store_true"}
        choices = get_args(self.kind) if get_origin(self.kind) is Literal else None
        read = partial(_chosen, choices) if choices else self.about.read or READERS[self.kind]
        given = {"type": read, "choices": choices, "default": self.default}
        given |= {"metavar": self.metavar}
        if self.about.many:
            given |= {"action": "extend", "nargs": "+"}
        elif self.option and self.listed:
            given["action"] = "append"
        elif not self.option and (self.listed or not self.required):
            given["nargs"] = "+" if self.listed else "?"
        return given

    def add(self, parser: argparse.ArgumentParser) -> None:
        """Add it to a parser."""
        names, given = [self.name], self.values()
        if self.option:
            names = [name for name in (self.about.short, self.shown) if name]
            given |= {"dest": self.name, "required": self.required}
        text = self.help.replace("%", "%%")  # argparse formats it
        action = parser.add_argument(*names, help=text, **given)
        action.completer = self.about.completer  # type: ignore[attr-defined]
        if self.about.opposite:
            given |= {"action": "store_false", "help": argparse.SUPPRESS}
            parser.add_argument(self.about.opposite, **given)

    def require_distinct(self, values: Sequence[Any]) -> None:
        """Raise if one of the values comes twice and must not."""
        for value in values if self.listed and self.about.distinct else ():
            if values.count(value) > 1:
                raise InputError(f"{self.shown} {value!r} is given twice; each must be different")


def parameters(function: Callable[..., Any]) -> Iterator[Parameter]:
    """The parameters of a command, in order."""
    hints, told = get_type_hints(function, include_extras=True), dict[str, Mapping[str, str]]()
    for one in reversed(getattr(function, "__mro__", (function, object))[:-1]):
        told |= described(one).parameters
    for name, declared in inspect.signature(function).parameters.items():
        if is_dataclass(hints[name]):
            yield from parameters(hints[name])
        else:
            yield Parameter.of(declared, hints[name], told.get(name, {}))


class Description(NamedTuple):
    """What a docstring says: paragraphs, examples, and the help of parameters."""

    text: str
    examples: str
    parameters: Mapping[str, Mapping[str, str]]

    @property
    def summary(self) -> str:
        """The first line."""
        return self.text.partition("\n")[0]


def described(command: Callable[..., Any] | Group) -> Description:
    """What the docstring of a command says."""
    paragraphs = inspect.cleandoc(command.__doc__ or "").split("\n\n")
    lines = [TOLD.fullmatch(x) for x in re.sub(r"\n +", " ", paragraphs[-1]).splitlines()]
    told = {}
    if len(paragraphs) > 1 and all(lines):
        del paragraphs[-1]
        for name, metavar, help in (line.groups() for line in lines if line):
            told[name] = {"help": help or ""} | ({"metavar": metavar} if metavar else {})
    examples = [one for one in paragraphs if one.startswith(EXAMPLE)]
    text = [one for one in paragraphs if one not in examples]
    return Description("\n\n".join(text), "\n".join(examples), told)


def _number(text: str) -> float:
    """The number that an option is given; also nan and infinite ones, which commands refuse."""
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} must be a number") from None


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} must be a whole number") from None


def _chosen(choices: Sequence[str], text: str) -> str:
    if text not in choices:
        raise argparse.ArgumentTypeError(f"invalid choice: {text!r}; {nearest(text, choices)}")
    return text


READERS: Mapping[Any, Callable[[str], Any]] = {str: str, float: _number, int: _whole}
METAVARS: Mapping[Any, str] = {float: "X", int: "N"}


# Reading a line.


class HelpFormatter(argparse.HelpFormatter):
    """Fills paragraphs, leaves examples as they are, and breaks no name at a hyphen."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if text.startswith(EXAMPLES):
            return text
        return "\n\n".join("\n".join(self._split_lines(x, width)) for x in text.split("\n\n"))

    def _split_lines(self, text: str, width: int) -> list[str]:
        return textwrap.wrap(" ".join(text.split()), width, break_on_hyphens=False)


EXAMPLES = "examples:\n"


class Parser(argparse.ArgumentParser):
    """Reads the words of one command, or shows the commands of a group; errors are one line."""

    def __init__(self, path: Sequence[str], command: Command | Group) -> None:
        self.options: dict[str, argparse.Action] = {}
        self.command = " ".join(path)
        about = described(command)
        super().__init__(
            " ".join(["tightrope", *path]),
            description=about.text,
            epilog=EXAMPLES + textwrap.indent(about.examples, "  ") if about.examples else None,
            formatter_class=HelpFormatter,
        )
        if not path:
            self.add_argument("--version", action="version", version=f"tightrope {__version__}")
        if isinstance(command, Group):
            self.usage = f"%(prog)s [-h]{'' if path else ' [--version]'} COMMAND ..."
            for title, commands in command.sections.items():
                listed = self.add_argument_group(title)
                for name, one in commands.items():
                    listed.add_argument(name, nargs="?", help=described(one).summary)
        else:
            for parameter in parameters(command):
                parameter.add(self)

    def add_argument(self, *names: str, **given: Any) -> argparse.Action:
        """Add an argument, and keep it by the names of its option."""
        action = super().add_argument(*names, **given)
        self.options |= dict.fromkeys(action.option_strings, action)
        return action

    def error(self, message: str) -> NoReturn:
        """Raise, with the command's name."""
        place, see = (f"{self.command}: ", f"{self.command} ") if self.command else ("", "")
        raise InputError(f"{place}{message}; see {see}--help")

    def arranged(self, words: Sequence[str]) -> list[str]:
        """The words with the options first, each beside its value; raises for an unknown option.

        Else argparse takes ``--cost -inf`` for two options, and wants what may be left out, such as
        a ticket's id, before any option.
        """
        options, others, waiting = list[str](), list[str](), list(words)
        while waiting:
            word = waiting.pop(0)
            if word == "--":
                others += waiting
                break
            if not word.startswith("-") or word == "-" or _is_number(word):
                others.append(word)
                continue
            values = self._values_of(word, waiting)
            options += [f"{word}={value}" for value in values] or [word]
            del waiting[: len(values)]
        return [*options, *["--"] * any(word.startswith("-") for word in others), *others]

    def _values_of(self, word: str, after: Sequence[str]) -> list[str]:
        """The words after an option that are its values; the beginning of its name is enough."""
        name, equals, _ = word.partition("=")
        found = {name} & set(self.options)
        if not found and name.startswith("--"):
            found = {key for key in self.options if key.startswith(name)}
            if not found:
                known = [
                    key
                    for key, action in self.options.items()
                    if key.startswith("--") and action.help != argparse.SUPPRESS
                ]
                hint = nearest(name, known)
                raise InputError(f"{self.command}: option {name!r} is unknown; {hint}")
        nargs = {self.options[key].nargs for key in found}
        if equals or nargs not in ({None}, {"+"}):
            return []
        values = list(takewhile(lambda one: not one.startswith("--"), after))
        return values[:1] if None in nargs else values


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def complete(group: Group) -> None:
    """Answer a shell's completion request and exit; do nothing if there is none."""
    if "_ARGCOMPLETE" in os.environ:
        import argcomplete

        parser = argparse.ArgumentParser()
        _add_commands(parser, group)
        argcomplete.autocomplete(parser)


def _add_commands(parser: argparse.ArgumentParser, group: Group) -> None:
    inner = parser.add_subparsers()
    for name, one in group.commands.items():
        parser = inner.add_parser(name, help=described(one).summary)
        if isinstance(one, Group):
            _add_commands(parser, one)
        else:
            for parameter in parameters(one):
                parameter.add(parser)
