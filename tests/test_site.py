"""The documentation as a site: one strict build, and the checks that make it strict."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from docs import make_site

ROOT = Path(__file__).parents[1]
NEEDED = ("sphinx", "furo", "myst_nb", "sphinx_copybutton")


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
    """In one test, so that there is one build."""
    page = (site / "index.html").read_text()
    assert "theme-toggle" in page, "light and dark"
    article = page[page.index("<article") : page.index("</article>")]
    assert "Decisions under a budget and a promise" in article
    assert article.count("<img") == 1
    shell = article[article.index("highlight-sh") :]
    commands = re.sub(r"<[^>]+>", "", shell[shell.index("<pre>") : shell.index("</pre>")])
    starts = [line.split()[:2] for line in commands.strip().splitlines()]
    assert starts == [["pip", "install"], ["tightrope", "reproduce"], ["tightrope", "demo"]]
    index = (site / "searchindex.js").read_text()
    for path in (ROOT / "docs").glob("*.md"):
        assert (site / f"{path.stem}.html").exists()
        assert f'"{path.stem}"' in index, "it can be found"
    entries = set()
    for path in (site / "reference").glob("*.html"):
        entries |= make_site.Links(path.read_text()).ids
    names = {f"{name.place}.{name.name}" for name in make_site.public_names()}
    assert names <= entries


def test_what_is_wrong_with_a_site_is_found(tmp_path):
    (tmp_path / "a.html").write_text(
        '<p id="here"><a href="b.html#there">1</a><a href="c.html">2</a><a href="#here">3</a>'
        '<a href="https://example.org">4</a><a href="b.html#nowhere">5</a><img src="x.png">'
        '<script src="https://cdn.example.org/x.js"></script><img src="//host/x.png">'
    )
    (tmp_path / "b.html").write_text('<p id="there"><a href="a.html#here">1</a></p>')
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
    told = make_site.for_site("[it](../../docs/live.md)", book, "notebooks/paper.ipynb")
    assert told == "[it](../live.md)"
    with pytest.raises(SystemExit, match=r"docs/live\.md: \.\./nothing\.py leads nowhere"):
        make_site.for_site("[it](../nothing.py)", page, "live.md")


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
