"""The shell's help: groups, examples, its page, the nearest command, completion, widths."""

from __future__ import annotations

import json
import math
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import pytest

from benchmarks.page import replaced
from tests.test_paper_map import LABELS
from tightrope.cli import COMMANDS, main
from tightrope.paper.claims import CLAIMS
from tightrope.policies import POLICIES
from tightrope.problem.ready import ready_problem
from tightrope.shell.campaigns import CAMPAIGN
from tightrope.shell.commands import Argument, Group, called, described, parameters
from tightrope.shell.policies import describe
from tightrope.theory.bounds import bounds
from tightrope.theory.citations import CITED, cited
from tools.shell_page import PAGE, markdown

LABEL = re.compile(r"\b(thm|prop|lemma|eqn|fig|def|alg|assn|sec|app|policy):\w")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("simulte paper", "tightrope: command 'simulte' is unknown; did you mean 'simulate'?"),
        ("polices", "tightrope: command 'polices' is unknown; did you mean 'policies'?"),
        ("policies lyonn", "tightrope: policy 'lyonn' is unknown; did you mean 'lyon'?"),
        (
            "simulate paper --buget 10",
            "tightrope: simulate: option '--buget' is unknown; did you mean '--budget'?",
        ),
        (
            "arena --polcy=lyon --budget 10",
            "tightrope: arena: option '--polcy' is unknown; did you mean '--policy'?",
        ),
        (
            "theory paper --xyzzy 3",
            "tightrope: theory: option '--xyzzy' is unknown; known: --help, --json, --budget, --v0,"
            " --delta0, --alpha",
        ),
        (
            "problems mine.toml",
            "tightrope: problem 'mine.toml': the file does not exist; must be a TOML file or a"
            " ready problem's name",
        ),
        (
            "simulate paper",
            "tightrope: simulate: the following arguments are required: --budget;"
            " see simulate --help",
        ),
        ("", "tightrope: the following arguments are required: COMMAND; see --help"),
    ],
)
def test_one_line_with_the_nearest_word(shell, words, expected):
    assert shell(*words.split()) == (2, "", expected + "\n")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("completion tcsh", "argument SHELL: invalid choice: 'tcsh'; known: bash, zsh, fish"),
        ("completion fsh", "argument SHELL: invalid choice: 'fsh'; did you mean 'fish'?"),
        ("simulate paper paper --budget 9", "PROBLEM 'paper' is given twice; each must be"),
        ("simulate --budget -1e-9 paper", "budget = -1e-09"),
        ("simulate --budget 9 paper --policy lyonn", "policy 'lyonn' is unknown; did you mean"),
        ("keys", "keys: the following arguments are required: COMMAND; see keys --help"),
        ("keys ad x", "keys command 'ad' is unknown; did you mean 'add'?"),
        ("oracle paper hiring", "oracle: unrecognized arguments: hiring; see oracle --help"),
    ],
)
def test_one_line_for_values(shell, words, expected):
    status, out, err = shell(*words.split())
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert expected in err


def test_options_stand_anywhere(shell):
    lines = ("oracle paper --budget 9 --json", "oracle --json --budget 9 paper",
             "--json oracle --budget=9 -- paper")  # fmt: skip
    found = [shell(*line.split()) for line in lines]
    assert [status for status, _, _ in found] == [0, 0, 0]
    assert found[0] == found[1] == found[2]


def test_the_former_names_of_options_still_work():
    tune = "tune paper --budget 9".split()
    assert called([*tune, "--resume"], COMMANDS).keywords["fresh"] is False
    assert called([*tune, "--fresh"], COMMANDS).keywords["fresh"] is True
    assert called(["arena", "--processes", "2"], COMMANDS).keywords["processes"] == 2


@dataclass
class Where:
    """A place."""

    place: str


def test_a_command_is_its_function():
    def visit(
        where: Where,
        guests: Sequence[int],
        *,
        gift: Literal["cake", "wine"] = "cake",
        late: bool = False,
        by_day: float | None = None,
        wish: Annotated[Sequence[str], Argument(many=True)] = (),
    ) -> int:
        """Visit a place.

        guests AGE: how old they are
        gift: what they bring, which is a long story that goes on
            in a second line
        """
        return 0

    group = Group("tightrope", "Nothing.", {"commands": [visit]})
    call = called("visit --by-day -inf home 3 4 --wish a -b --late 5".split(), group)
    assert call.func is visit
    assert call.keywords == {
        "where": Where("home"),
        "guests": [3, 4, 5],
        "gift": "cake",
        "late": True,
        "by_day": -math.inf,
        "wish": ["a", "-b"],
    }
    told = {one.name: one.help for one in parameters(visit)}
    assert told["guests"] == "how old they are"
    assert told["gift"].endswith("that goes on in a second line; default cake")


def test_the_beginning_of_an_option_will_do(shell):
    status, out, _ = shell("oracle", "paper", "--bud=100", "--js")
    assert status == 0
    assert json.loads(out)["optimum"] > 0


@pytest.mark.parametrize("name", POLICIES)
def test_every_parameter_is_explained(shell, name):
    status, out, err = shell("policies", name, "--json")
    facts = json.loads(out)
    assert (status, err, facts["name"]) == (0, "", name)
    assert facts["meaning"]
    for parameter, one in facts["parameters"].items():
        assert len(one["meaning"]) > 10, parameter
        assert one["allowed"], parameter
    text = shell("policies", name)[1]
    assert all(f"\n  {parameter} = " in text for parameter in facts["parameters"])
    assert not LABEL.search(text)
    assert "`" not in text


def test_what_is_allowed_is_what_the_policy_says():
    known = describe(POLICIES["resolve"])["parameters"]
    assert "between 0 and 1" in known["risk"]["allowed"]
    assert known["risk"]["allowed"].count("or none") == 1
    assert known["risk"]["allowed"].endswith(", or none")
    assert "see forgetting" not in known["window0"]["meaning"]
    assert known["risk"]["default"] is None
    assert describe(POLICIES["lyon"])["parameters"]["v0"]["allowed"] == "a finite number above 0"


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_completion_scripts(shell, name):
    status, out, _ = shell("completion", name)
    assert status == 0
    assert "tightrope" in out
    assert "_ARGCOMPLETE" in out
    if name == "bash":
        subprocess.run(["bash", "-n"], input=out, text=True, check=True)


def test_completion_of_another_shell_is_one_line(shell):
    status, out, err = shell("completion", "tcsh")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "tcsh" in err


def completed(line: str, folder) -> list[str]:
    """What a shell would offer after a line."""
    answer = folder / "answer"
    environment = {
        **os.environ,
        "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_SHELL": "fish",
        "_ARGCOMPLETE_STDOUT_FILENAME": str(answer),
        "_ARGCOMPLETE_IFS": "\n",
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
    }
    subprocess.run([sys.executable, "-m", "tightrope"], env=environment, check=True, cwd=folder)
    return [word.partition("\t")[0].strip() for word in answer.read_text().splitlines()]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("tightrope sim", ["simulate"]),
        ("tightrope oracle hir", ["hiring"]),
        ("tightrope oracle mi", ["mine.toml"]),
        ("tightrope simulate paper --policy ucb", ["ucb-bwi", "ucb-lp", "ucb-alp"]),
        ("tightrope simulate paper --policy resolve:risk=0.1,wi", ["resolve:risk=0.1,window0="]),
        ("tightrope simulate paper --backend py", ["python"]),
        ("tightrope completion f", ["fish"]),
    ],
)
def test_completion(tmp_path, line, expected):
    (tmp_path / "mine.toml").write_text("")
    assert completed(line, tmp_path) == expected


def helped(capsys, *path: str) -> str:
    with pytest.raises(SystemExit) as stop:
        main([*path, "--help"])
    assert stop.value.code == 0
    return capsys.readouterr().out


def test_commands_are_listed_in_groups(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    text = helped(capsys)
    places = [text.index(f"\n{title}:\n") for title in ("study", "plan", "run")]
    assert places == sorted(places)
    assert places[0] < text.index("  simulate ") < places[1] < text.index("  fit ") < places[2]
    text = helped(capsys, "campaign")
    for title, commands in CAMPAIGN.sections.items():
        part = text.partition(f"\n{title}:\n")[2].partition("\n\n")[0]
        assert [name for name in commands if f"  {name} " in part] == list(commands)
        assert 1 <= len(commands) <= 10


def commands_in(group: Group, *path: str):
    for name, one in group.commands.items():
        yield (*path, name), one
        if isinstance(one, Group):
            yield from commands_in(one, *path, name)


@pytest.mark.parametrize("path", [path for path, _ in commands_in(COMMANDS)], ids=" ".join)
def test_every_command_has_an_example_that_can_be_read(path):
    """An example of a group is of one of its commands; all options and words are known."""
    command = dict(commands_in(COMMANDS))[path]
    text = described(command).examples.replace("\\\n", " ")
    lines = [line.partition(" #")[0].partition(" >")[0] for line in text.splitlines()]
    assert lines
    for line in lines:
        words = shlex.split(line)
        assert tuple(words[1 : 1 + len(path)]) == path
        call = called(words[1:], COMMANDS)
        assert isinstance(command, Group) or call.func is command


def test_the_page_has_the_text_of_the_help():
    assert replaced(PAGE.read_text(), "commands", markdown()) == PAGE.read_text(), (
        "docs/shell.md is older than --help: python -m tools.shell_page"
    )


WORDS = "simulate paper --policy lyoff --budget 20 --runs 3 --backend python --quiet".split()


def test_columns_are_kept_to_in_a_pipe_too(shell, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    assert max(map(len, shell(*WORDS)[1].splitlines())) > 80
    monkeypatch.setenv("COLUMNS", "60")
    narrow = shell(*WORDS)[1].splitlines()
    assert max(map(len, narrow)) <= 60
    assert any("not shown, too little width" in line for line in narrow)


def test_no_colour(shell, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    coloured = shell("oracle", "paper")[1]
    monkeypatch.setenv("NO_COLOR", "1")
    assert re.search(r"\x1b\[[\d;]*m", coloured)
    assert not re.search(r"\x1b\[(3[0-7]|9[0-7]|[34]8)", shell("oracle", "paper")[1])


def test_people_see_the_papers_numbers():
    shown = [cited(claim.source) for claim in CLAIMS]
    shown += [text for bound in bounds(ready_problem("paper"), 1000) for text in _texts(bound)]
    assert "Theorem 1" in shown
    assert [text for text in shown if LABEL.search(text)] == []


def _texts(bound) -> list[str]:
    return [bound.name, bound.label, bound.note, bound.obstacle]


def test_what_is_cited_is_in_the_paper():
    assert {label for label in CITED if not label.startswith("sec:")} <= set(LABELS)
