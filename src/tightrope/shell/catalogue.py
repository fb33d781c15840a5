"""``tightrope problems | policies | completion``: names, and what they stand for."""

from __future__ import annotations

from typing import Literal

import tightrope
from tightrope.errors import InputError
from tightrope.shell.options import Json, PolicyName, ProblemName
from tightrope.shell.output import aligned, answer


def problems(name: ProblemName | None = None, *, json: Json = False) -> int:
    """List the ready problems, or print one as TOML.

    tightrope problems
    tightrope problems paper > mine.toml

    name NAME: problem to print as TOML
    """
    from tightrope.problem import table_of
    from tightrope.problem.ready import ready_names

    if name:
        text = tightrope.load_problem(name).outline
        return answer(json, table_of(text), lambda: print(text, end=""))
    names = ready_names()
    return answer(json, dict(names), aligned(names.items()))


def policies(name: PolicyName | None = None, *, json: Json = False) -> int:
    """List the policies with their parameters and defaults, or explain one.

    tightrope policies
    tightrope policies resolve

    name NAME: policy whose parameters to explain
    """
    from tightrope.policies import POLICIES
    from tightrope.policies.naming import policy_class
    from tightrope.shell.policies import describe, facts_of, lines, list_lines

    if name:
        kind = policy_class(name)
        return answer(json, describe(kind), lambda: print(*lines(kind), sep="\n"))
    listed = {name: facts_of(kind) for name, kind in POLICIES.items()}
    return answer(json, listed, lambda: print(*list_lines(listed), sep="\n"))


def completion(shell: Literal["bash", "zsh", "fish"], *, json: Json = False) -> int:
    """Print the script that completes commands, problems and policies in your shell.

    tightrope completion bash >> ~/.bashrc

    shell SHELL: bash, zsh or fish
    """
    try:
        from argcomplete.shell_integration import shellcode
    except ImportError:
        raise InputError(
            "completion needs argcomplete, which is not installed; pip install argcomplete"
        ) from None
    script = str(shellcode(["tightrope"], shell=shell))
    return answer(json, {"shell": shell, "script": script}, lambda: print(script))
