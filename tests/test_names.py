"""Names that mean something elsewhere, as markup, formulas or escapes, are only shown here."""

from __future__ import annotations

import csv
import html
import io
import re
import unicodedata
import xml.etree.ElementTree

import pytest
from rich.console import Console

from tightrope import Arm, Bernoulli, Limit, LyOn, Problem, Results, Stationary, oracle, simulate
from tightrope.cli import main
from tightrope.names import LONGEST, in_csv, in_figure, in_table, in_text
from tightrope.policies import UniformRandom
from tightrope.report import Chapter, plot, print_rows, save, table, write_csv
from tightrope.report.page import Picture, render
from tightrope.report.rows import detailed
from tightrope.report.table import print_oracle
from tightrope.report.verdicts import FAILS, Verdict, print_verdicts

NASTY = {
    "closing markup": "[/]",
    "markup": "[bold]loud[/bold]",
    "link": "[link=http://x]y",
    "emoji code": ":warning:",
    "mathematics": "$^{$",
    "more mathematics": r"$\frac{1}{2}$ \$ $",
    "formula": "=1+1",
    "old formula": "@SUM(A1)",
    "plus": "+cmd|' /C calc'!A0",
    "minus": "-2",
    "escape": "\x1b[31mred\x1b[0m",
    "title": "\x1b]0;owned\x07",
    "newline": "a\nb",
    "carriage return": "a\rb",
    "tab": "\ta",
    "other line ends": "a\u2028b\u2029c\x85d",
    "null": "a\x00b",
    "script": "<script>alert(1)</script>",
    "attribute": "\" onload='x' --> ]]>",
    "template": "{{ 7 * 7 }}{% raw %}",
    "format": "{0} %s {name}",
    "long": "x" * 300,
    "one long word": "é" * 300,
    "turned around": "\u202egnp.exe",
    "isolate": "\u2067abc\u2069",
    "emoji": "🦊👩\u200d🚀",
    "combining": "Z͑ͫ̓ͪ̂a̴̵̞l͎g̗o",
    "chinese": "手臂",
    "hebrew": "זרוע",
    "underscore": "_hidden",
    "comma and quotes": 'a,"b";c',
    "spaces": "  a  ",
    "backslash": "a\\nb",
}
BY_NAME = pytest.mark.parametrize("name", NASTY.values(), ids=NASTY)


def named(name: str) -> Results:
    """A tiny simulation where everything is called so."""
    coin = Bernoulli(0.5)
    arms = [
        Arm(name, coin, Bernoulli(0.9), {name: coin, "other": coin}),
        Arm("plain", Bernoulli(0.6), coin, {name: Bernoulli(0.1), "other": Bernoulli(0.1)}),
    ]
    problem = Problem(arms, limits={name: Limit(0.7), "other": Limit(0.9)}, name=name)
    policies = {name: LyOn(), f"{name}2": Stationary((0.5, 0.5)), "z": UniformRandom()}
    few = {"runs": 3, "backend": "python", "progress": False}
    return simulate(problem, policies, budgets=[20, 30], **few)


def acts(text: str, but: str = "\n") -> list[str]:
    """The characters of a text that do something instead of being seen."""
    kept = "\u200c\u200d" + but
    hidden = ("Cc", "Cf", "Cs", "Zl", "Zp")
    return [one for one in text if unicodedata.category(one) in hidden and one not in kept]


@BY_NAME
def test_in_a_text(name):
    assert not acts(in_text(name), but="")
    if name.isprintable():
        assert in_text(name) == name
    assert len(in_table(name)) <= LONGEST
    assert in_text("a\tb\x00", keep="\t") == "a\tb\\x00"


def printed(rows) -> str:
    file = io.StringIO()
    print_rows(rows, file)
    return file.getvalue()


@BY_NAME
def test_in_a_terminal(name, monkeypatch, capsys):
    results = named(name)
    shown = printed(results.summary())
    assert not acts(shown)
    assert in_table(name).strip() in shown
    print_oracle(results.problem, _oracle_row(results.problem))
    text = capsys.readouterr().out
    assert not acts(text)
    assert in_table(name).strip() in text
    file = io.StringIO()
    Console(file=file, width=1000).print(table(results.summary(), title=name))
    assert not acts(file.getvalue())
    print_verdicts([Verdict(name, name, "fig1", name, name, FAILS)], name)
    assert not acts(capsys.readouterr().out)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")
    shown = re.sub(r"\x1b\[[\d;]*m", "", printed(results.summary()))
    assert not acts(shown)
    assert all(len(line) <= 100 for line in shown.splitlines())


def _oracle_row(problem):
    best = oracle(problem)
    return {
        "reward_rate": best.reward_rate,
        "penalty_rate": list(best.penalty_rate),
        "multiplier": list(best.multiplier),
        "pull_share": best.pull_share.tolist(),
        "cost_share": best.cost_share.tolist(),
    }


@BY_NAME
def test_in_csv(name, tmp_path):
    write_csv(detailed(named(name)), tmp_path / "rows.csv")
    with open(tmp_path / "rows.csv", newline="", encoding="utf-8") as file:
        read = list(csv.DictReader(file))
    assert [row["policy"] for row in read[::2]] == [in_csv(name), in_csv(f"{name}2"), "z"]
    assert read[0]["policy"].removeprefix("'") == in_text(name)
    for row in read:
        assert all(not value.lstrip().startswith(("=", "@", "+", "\t")) for value in row.values())
        float(row["violation_1"])  # a number stays one, below 0 too


@BY_NAME
def test_in_figures(name, tmp_path):
    """Warnings are errors here: of letters that the font lacks, of labels left out."""
    results = named(name)
    for metric in ("violation", "pull_share"):
        figure = plot(results, metric)
        for axes in figure.axes:
            texts = [axes.title, axes.xaxis.label, axes.yaxis.label, *axes.get_xticklabels()]
            assert not any(acts(text.get_text()) for text in texts)
        assert len(figure.legends[0].get_texts()) >= 3
    [path] = save(figure, tmp_path / "picture", kinds=("svg",))  # as the other kinds are drawn
    assert path.stat().st_size > 1000
    xml.etree.ElementTree.parse(tmp_path / "picture.svg")


@BY_NAME
def test_one_budget_stands_side_by_side(name):
    results = named(name)
    coin = simulate(results.problem, {name: LyOn()}, budgets=20, runs=3, backend="python")
    labels = [text.get_text() for text in plot(coin).axes[0].get_xticklabels()]
    assert [label.replace(r"\$", "$") for label in labels] == [drawn(name)]


def drawn(name: str) -> str:
    from tightrope.report.figures import _glyphs

    return in_figure(name, _glyphs()).replace(r"\$", "$")


@BY_NAME
def test_on_a_page(name):
    results = named(name)
    page = Chapter(
        title=name,
        lead=name,
        facts=[(name, name)],
        legend=[Picture(name, "<svg></svg>")],
        pictures=[Picture(name, "<svg></svg>")],
        notes=[name],
        rows=results.summary(),
        sources=[(name, results.problem.to_toml())],
    )
    text = render(page)
    assert not acts(text, but="\n\t")
    assert "<script>alert" not in text
    assert "onload='" not in text
    assert "49" not in re.findall(r"<h1[^>]*>(.*?)</h1>", text, re.DOTALL)[0]
    assert html.escape(in_text(name, keep="\n\t"), quote=False) in text.replace(
        "&#34;", '"'
    ).replace("&#39;", "'")


@BY_NAME
def test_on_the_disk(name, tmp_path):
    results = named(name)
    results.save(tmp_path / "runs.npz")
    again = Results.load(tmp_path / "runs.npz")
    assert again.problem == results.problem
    assert again.labels == results.labels


@BY_NAME
def test_in_the_shell(name, tmp_path, capsys):
    path = tmp_path / "problem.toml"
    path.write_text(named(name).problem.to_toml(), encoding="utf-8")
    words = ["simulate", str(path), "--policy", "lyon", "--budget", "20", "--runs", "3"]
    assert main([*words, "--backend", "python", "--quiet"]) == 0
    assert main(["oracle", str(path), "--budget", "20"]) == 0
    assert not acts("".join(capsys.readouterr()))
    for bad in (["oracle", name], ["simulate", "paper", "--budget", "9", "--policy", name], [name]):
        assert main(bad) == 2
        out, err = capsys.readouterr()
        assert (out, err.count("\n")) == ("", 1)
        assert not acts(err)
