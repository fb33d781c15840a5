"""The documentation as a site: one strict build, and the checks that make it strict."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import tomli_w

from docs import conf, make_site, pictures, rules
from tests.service.browser import axe_script, barriers, chromium, missing

ROOT = Path(__file__).parents[1]
NEEDED = ("sphinx", "furo", "myst_nb", "sphinx_copybutton")
# Cards and pictures, code, formulas, wide tables, docstrings, a notebook, no content.
KINDS = (
    *("index", "quickstart", "resolve-algorithm", "data-sets"),
    *("reference/policies", "notebooks/paper", "search"),
)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    for name in NEEDED:
        pytest.importorskip(name, reason=f"the site needs {name}, which the docs extra has")
    out = tmp_path_factory.mktemp("site") / "site"
    command = [sys.executable, str(ROOT / "docs" / "make_site.py"), "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "warning" not in done.stderr.lower()
    return out


def test_one_strict_build(site):
    page = (site / "index.html").read_text()
    assert "theme-toggle" in page, "light and dark"
    article = page[page.index("<article") : page.index("</article>")]
    assert "to earn the most from a fixed budget" in article
    for door in ("quickstart.html", "notebooks/paper.html"):
        assert f'href="{door}"' in article
    shell = article[article.index("highlight-sh") :]
    commands = re.sub(r"<[^>]+>", "", shell[shell.index("<pre>") : shell.index("</pre>")])
    starts = [line.split()[:2] for line in commands.strip().splitlines()]
    assert starts == [["pip", "install"], ["tightrope", "demo"], ["tightrope", "reproduce"]]
    captions = re.findall(r'caption-text">([^<]+)<', page)
    assert captions[1:3] == ["Run it live", "Research"], "the sidebar's groups"
    assert "<math" in (site / "glossary.html").read_text(), "formulas are typeset"
    index = (site / "searchindex.js").read_text()
    for path in (ROOT / "docs").glob("*.md"):
        assert (site / f"{path.stem}.html").exists()
        assert f'"{path.stem}"' in index, "it can be found"
    entries = set()
    for path in (site / "reference").glob("*.html"):
        entries |= make_site.Links(path.read_text()).ids
    names = {f"{name.place}.{name.name}" for name in make_site.public_names()}
    assert names <= entries


def test_axe_finds_no_barriers(site):
    """In both themes, on a phone and on a desk: contrast needs the one, sizes the other."""
    script = axe_script()
    if (why := missing()) is not None or script is None:
        pytest.skip(why or "axe is not installed: pip install axe-playwright-python")
    with chromium() as browser:
        for scheme, width in (("light", 1280), ("dark", 390)):
            size = {"width": width, "height": 900}
            page = browser.new_page(viewport=size, color_scheme=scheme)
            for name in KINDS:
                page.goto((site / f"{name}.html").as_uri())
                assert barriers(page, script) == [], (name, scheme, width)
            page.close()


def test_cells_of_wide_tables_name_their_columns():
    """So that a phone can show a row as a card."""
    nodes = pytest.importorskip("docutils.nodes", reason="docutils comes with the docs extra")
    from docutils.core import publish_doctree

    narrow = "== == ==\na  b  c\n== == ==\n1  2  3\n== == ==\n"
    wide = "== == == ==\na  b  c  d\n== == == ==\n1  2     4\n== == == ==\n"
    for text, expected in {narrow: [], wide: ["b", "d"]}.items():
        conf.label_cells(None, tree := publish_doctree(text), "page")
        named = [one.astext() for one in tree.findall(nodes.inline) if one["classes"] == ["column"]]
        assert named == expected


def test_the_script_of_the_quickstart_runs_as_it_is(tmp_path):
    """Pasted into an empty folder; it prints what the page shows."""
    page = (ROOT / "docs" / "quickstart.md").read_text()
    (script,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (shown,) = re.findall(r"```text\n(.*?)```", page, re.DOTALL)
    (tmp_path / "router.py").write_text(script)
    command = [sys.executable, "router.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, shown), done.stderr


def test_what_is_wrong_with_a_site_is_found(tmp_path):
    (tmp_path / "a.html").write_text(
        '<p id="here"><a href="b.html#there">1</a><a href="c.html">2</a><a href="#here">3</a>'
        '<a href="https://example.org">4</a><a href="b.html#nowhere">5</a><img src="x.png">'
        '<script src="https://cdn.example.org/x.js"></script><img src="//host/x.png">'
    )
    (tmp_path / "b.html").write_text(
        '<p id="there"><a href="a.html#here">1</a></p><blockquote>a</blockquote>'
        "<blockquote><ul><li><blockquote>b</blockquote></li></ul></blockquote>"
    )
    (tmp_path / "a.css").write_text(
        "p { background: url('data:x') } @import 'https://fonts.example.org/x.css';"
    )
    assert sorted(make_site.faults(tmp_path)) == [
        "a.css: loads https://fonts.example.org/x.css",
        "a.html: b.html#nowhere has no such place",
        "a.html: c.html leads nowhere",
        "a.html: loads //host/x.png from another host",
        "a.html: loads https://cdn.example.org/x.js from another host",
        "a.html: x.png leads nowhere",
        "b.html: nested block quotes",
    ]


def test_links_lead_to_pages_and_other_files_are_named():
    page = ROOT / "docs" / "live.md"
    for target, expected in {
        "problems.md#units": "problems.md#units",
        "figure1.png": "figure1.png",
        "../CHANGELOG.md": "changelog.md",
        "../examples/notebooks/paper.ipynb": "notebooks/paper.ipynb",
        "#outlook": "#outlook",
        "https://example.org": "https://example.org",
    }.items():
        assert make_site.for_site(f"[it]({target})", page, "live.md") == f"[it]({expected})"
    for target, expected in {
        "[it](../examples/router.py)": "it (`examples/router.py`)",
        "[`router.py`](../examples/router.py)": "`examples/router.py`",
        "[seven](../examples/modelling)": "seven (`examples/modelling`)",
    }.items():
        assert make_site.for_site(target, page, "live.md") == expected
    book = ROOT / "examples" / "notebooks" / "paper.ipynb"
    linked = make_site.for_site("[it](../../docs/live.md)", book, "notebooks/paper.ipynb")
    assert linked == "[it](../live.md)"
    with pytest.raises(SystemExit, match=r"docs/live\.md: \.\./nothing\.py leads nowhere"):
        make_site.for_site("[it](../nothing.py)", page, "live.md")


FORMULAS = (
    *("x <= y", "x >= y", "B = 1000 runs", "10^5 pulls", "u^2", "S_X", "c * B", "sqrt(B)", "T / B"),
    *("C log B", "OPT(B)", "o(B)", "max(0, x)", "the mixture pi*", "delta is small", "mu"),
)


@pytest.mark.parametrize("formula", FORMULAS)
def test_a_formula_in_plain_text_is_refused(formula):
    (fault,) = rules.prose_faults(f"First line.\nThen {formula} follows.\n", "page.md")
    assert fault.startswith("page.md:2: '")
    assert fault.endswith("write a formula as $...$, code as `...`")
    marked = (f"`{formula}`", f"${formula}$", f"$$\n{formula}\n$$", f"```text\n{formula}\n```")
    for typeset in marked:
        assert rules.prose_faults(f"Then\n\n{typeset}\n", "page.md") == []
    for around in ("| a |\n|---|\n| {} |\n", "# {}\n", "- {}\n", ":::{{note}}\n{}\n:::\n"):
        assert len(rules.prose_faults(around.format(formula), "page.md")) == 1


def test_plain_english_is_no_formula():
    text = "A beta version: and/or, 20 - 30 %, e-mail (a word), max. 5, arm(s), the log."
    assert rules.prose_faults(text, "page.md") == []
    assert rules.prose_faults("It costs $5 or $10, and epsilon-greedy explores.", "page.md") == []


def test_sessions_quotes_blocks_and_links_are_refused():
    for text, fault in {
        "Text:\n\n>>> 1 + 1\n2\n": "3: nested block quotes; put >>> into a fence (```python)",
        "Text with >>> in it.\n": "1: >>> outside of a fence (```python)",
        "> a\n>\n> > b\n": "3: nested block quotes; put >>> into a fence (```python)",
        "Text:\n\n    indented\n": "3: an indented block; write a fence, or $$ for a formula",
        "```\ntext\n```\n": "1: a fence without a language; write one, such as ```text",
        "See [live.md](live.md).\n": "1: [live.md] is a file's name; link words",
        "A\nb [`a/b.py`](../a/b.py).\n": "2: [a/b.py] is a file's name; link words",
    }.items():
        assert rules.prose_faults(text, "page.md") == [f"page.md:{fault}"]
    good = (
        "> a\n\n```python\n>>> 1 + 1\n2\n\n```\n\n[words](live.md) <https://example.org/a_b.md>\n"
    )
    assert rules.prose_faults(good, "page.md") == []


def test_long_paragraphs_are_refused():
    short, long = "word " * 79 + "$a + b$.\n", "word " * 81
    assert list(rules.long_paragraphs(f"{short}\n- {short}", "page.md")) == []
    assert list(rules.long_paragraphs(f"# Title\n\n1. {long}\n", "page.md")) == [
        "page.md:3: a paragraph of 81 words; at most 80, or a list"
    ]


def test_every_page_links_to_the_concepts(tmp_path, monkeypatch):
    monkeypatch.setattr(rules, "ROOT", tmp_path)
    (tmp_path / "docs").mkdir()
    for name, text in {
        "a": "No link.",
        "b": "[It](concepts.md#task).",
        "concepts": "Words.",
    }.items():
        (tmp_path / "docs" / f"{name}.md").write_text(text)
    assert rules.broken_rules(sorted((tmp_path / "docs").iterdir())) == [
        "docs/a.md: no link to concepts.md, which explains the terms"
    ]


def test_the_text_of_notebooks_is_read(tmp_path):
    cells = [("code", ["x_y = 3"]), ("markdown", ["# Title\n", "sqrt(B)"])]
    book = {"cells": [{"cell_type": kind, "source": lines} for kind, lines in cells]}
    (path := tmp_path / "book.ipynb").write_text(json.dumps(book))
    (fault,) = rules.broken_rules([path])
    assert fault.startswith(f"{path}:cell 2:2: 'sqrt(B)'")


@pytest.fixture
def drawn(tmp_path, monkeypatch):
    """A repository with one picture, just made; gives its record."""
    monkeypatch.setattr(pictures, "ROOT", tmp_path)
    monkeypatch.setattr(pictures, "RECORD", tmp_path / "docs" / "pictures.toml")
    (tmp_path / "docs").mkdir()
    (tmp_path / "draw.py").write_text('"""Draws."""\n\nSIZE = 3  # inches\n')
    group = {"files": ["a.png"], "command": "printf 1 > docs/a.png", "sources": ["draw.py"]}
    pictures.make(group)
    group["digest"] = pictures.digest_of(group)
    return {"a": group}


def test_a_picture_that_is_older_than_its_sources_is_refused(drawn, tmp_path):
    old = ["docs/a.png: older than its sources; python docs/pictures.py --make a"]
    assert pictures.stale(drawn) == []
    (tmp_path / "draw.py").write_text('"""Draws well."""\nSIZE = 3\n')
    assert pictures.stale(drawn) == [], "words and comments change no picture"
    refusal = "if SIZE > 9:\n    most = 9\n    raise ValueError(most)\n"
    (tmp_path / "draw.py").write_text(f"SIZE = 3\n{refusal}")
    assert pictures.stale(drawn) == [], "what was drawn was not refused"
    (tmp_path / "draw.py").write_text(f"SIZE = 3\n{refusal}else:\n    SIZE = 2\n")
    assert pictures.stale(drawn) == old, "a branch that is taken counts"
    (tmp_path / "draw.py").write_text("SIZE = 4\n")
    assert pictures.stale(drawn) == old
    (tmp_path / "draw.py").write_text("SIZE = 3\n")
    assert pictures.stale({"a": drawn["a"] | {"command": "printf 2 > docs/a.png"}}) == old
    (tmp_path / "docs" / "a.png").write_text("2")
    assert pictures.stale(drawn) == old, "another picture than the recorded one"
    (tmp_path / "docs" / "a.png").unlink()
    assert pictures.stale(drawn) == ["docs/a.png: is missing; docs/pictures.toml has it for a"]
    (tmp_path / "draw.py").unlink()
    assert pictures.stale(drawn) == ["draw.py: is missing; docs/pictures.toml has it for a"]
    (tmp_path / "docs" / "b.svg").touch()
    assert pictures.stale({}) == ["docs/b.svg: docs/pictures.toml has no command that makes it"]


def test_making_a_picture_records_it(drawn, tmp_path, monkeypatch, capsys):
    record = tmp_path / "docs" / "pictures.toml"
    record.write_text(tomli_w.dumps({"a": drawn["a"] | {"digest": ""}}))
    monkeypatch.setattr(sys, "argv", ["pictures.py"])
    assert pictures.main() == 1
    assert "docs/a.png: older than its sources" in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", ["pictures.py", "--make", "a"])
    assert pictures.main() == 0
    assert tomllib.loads(record.read_text()) == drawn


def test_data_that_are_older_than_their_sources_are_listed(tmp_path, drawn, monkeypatch, capsys):
    (tmp_path / "docs" / "data").mkdir()
    (tmp_path / "docs" / "data" / "a.csv").write_text("1")
    assert pictures.stale(drawn) == [
        "docs/data/a.csv: docs/pictures.toml has no command that makes it"
    ]
    group = drawn["a"] | {"files": ["data/a.csv"], "command": "measure", "made": "0.2"}
    groups = drawn | {"data": group}
    assert pictures.stale(groups) == [], "the site is built with them"
    (tmp_path / "docs" / "pictures.toml").write_text(tomli_w.dumps(groups))
    (tmp_path / "docs" / "page.md").write_text("[numbers](data/a.csv)")
    recorded = ["--record", "data", "--at", "1a2b3c4, H200"]
    new = "(1a2b3c4, H200): as new as its sources"
    for options, age in (([], "(0.2): STALE"), (recorded, new)):
        monkeypatch.setattr(sys, "argv", ["pictures.py", *options])
        assert pictures.main() == 0
        monkeypatch.setattr(sys, "argv", ["pictures.py", "--list"])
        capsys.readouterr()
        assert pictures.main() == 0
        picture, data = capsys.readouterr().out.splitlines()
        assert picture == "docs/a.png: as new as its sources; no page; printf 1 > docs/a.png"
        assert data == f"docs/data/a.csv {age}; page.md; measure"


def test_every_measurement_in_a_page_has_a_recorded_command(tmp_path, drawn):
    command = "python -m benchmarks.a --runs 3"
    (tmp_path / "docs" / "page.md").write_text(f"It takes 3 s (`{command}`).\n")
    told = f"docs/page.md:1: docs/pictures.toml has no group with the command {command}"
    assert pictures.stale(drawn) == [told]
    (tmp_path / "docs" / "data").mkdir()
    (tmp_path / "docs" / "data" / "a.txt").write_text("3 s")
    group = {**drawn["a"], "files": ["data/a.txt"], "command": f"{command} > docs/data/a.txt"}
    groups = {"data": group | {"made": "1a2b3c4"}}
    (tmp_path / "docs" / "a.png").unlink()
    assert pictures.stale(groups) == []
    [line] = pictures.listed(groups)
    assert line.startswith("docs/data/a.txt (1a2b3c4): STALE; docs/page.md:1; python -m ")


def test_the_build_refuses_what_the_rules_refuse(monkeypatch, tmp_path, capsys):
    pytest.importorskip("sphinx", reason="the site needs sphinx, which the docs extra has")
    checks = ((rules, "broken_rules"), (pictures, "stale"), (make_site, "undocumented"))
    for place, name in checks:
        with monkeypatch.context() as patched:
            for module, check in checks:
                patched.setattr(module, check, list)
            patched.setattr(place, name, lambda: ["a fault"])
            assert make_site.build(tmp_path / "out", tmp_path / "staged") == 1
        assert capsys.readouterr().err == "a fault\n"


def test_every_public_name_is_documented_with_an_example():
    assert make_site.undocumented() == []


def test_a_name_without_docstring_or_example_is_told(monkeypatch):
    class Bare:
        def method(self):
            pass

    class Told:
        """It has words, but no example."""

    names = [make_site.Name("tightrope", one.__name__, one) for one in (Bare, Told)]
    monkeypatch.setattr(make_site, "public_names", lambda: names)
    assert make_site.undocumented() == [
        "tightrope.Bare has no docstring",
        "tightrope.Bare has no example",
        "tightrope.Bare.method has no docstring",
        "tightrope.Told has no example",
    ]


def test_every_name_has_a_page_of_the_reference():
    pages = {make_site.group_of(name).page for name in make_site.public_names()}
    assert {"problems", "policies", "simulation", "errors", "client", "testing"} <= pages
    unknown = make_site.Name("tightrope", "x", type("x", (), {"__module__": "tightrope.new"}))
    with pytest.raises(SystemExit, match=r"tightrope\.x: no group"):
        make_site.group_of(unknown)
