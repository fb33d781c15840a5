"""Rules for the text of every page: ``python docs/rules.py [FILE ...]``.

``make_site.py`` applies them before it builds the site. Formulas are typeset, sessions of Python
are in fences, block quotes do not nest, and the text of a link is words. The rules read the text
as Markdown, so code (in fences or in backticks) and mathematics (in dollars) are exempt. Paragraphs
are short, except in the changelog, and every page in ``docs/`` links to the concepts.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token
from mdit_py_plugins.colon_fence import colon_fence_plugin
from mdit_py_plugins.dollarmath import dollarmath_plugin
from mdit_py_plugins.front_matter import front_matter_plugin

ROOT = Path(__file__).resolve().parents[1]
MOST_WORDS = 80  # of a paragraph; a formula counts as one
AS_TEXT = {"math_inline": "F", "softbreak": " ", "hardbreak": " "}
OUTSIDE = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "examples/README.md")

PARSER = (
    MarkdownIt("commonmark")
    .enable("table")
    .use(front_matter_plugin)
    .use(colon_fence_plugin)
    .use(dollarmath_plugin, allow_space=False, allow_digits=False)  # as in conf.py
)
VERBATIM = {"code-block", "eval-rst", "literalinclude", "math", "raw", "toctree"}  # directives
GREEK = (
    "alpha|gamma|delta(?! method)|epsilon|zeta|eta|theta|kappa|lambda|mu|nu|xi|pi|rho|sigma|tau"
    "|phi|chi|psi|omega"
)
FORMULA = re.compile(
    r"[<>=!:]=|(?<=\s)=(?=\s)"  # x <= y, B = 1000
    r"|\w\^\S|\w_\w"  # 10^5, S_X; also names of Python, which are code
    r"|(?<=\s)\*(?=\s)|\b[A-Za-z] [-+/·] [A-Za-z]\b"  # c * B, T / B
    r"|\bsqrt\b|\blog [A-Znt]\b|\b(?:OPT|log|exp|max|min|[A-Za-z])\("  # sqrt(B), log n, OPT(B)
    rf"|\b(?:{GREEK})\b(?!-\w)"
)
FILE_NAME = re.compile(r"[\w./-]+\.(?:bib|cff|csv|html|ipynb|json|md|png|py|svg|toml|txt)")


def prose_faults(text: str, place: str, first: int = 1) -> list[str]:
    """What is wrong with a text in Markdown, whose first line is line ``first`` of ``place``."""
    found, quotes = [], 0
    for token in PARSER.parse(text):
        line = first + (token.map[0] if token.map else 0)
        quotes += {"blockquote_open": 1, "blockquote_close": -1}.get(token.type, 0)
        if token.type == "blockquote_open" and quotes == 2:
            found.append(f"{place}:{line}: nested block quotes; put >>> into a fence (```python)")
        elif token.type == "code_block":
            found.append(f"{place}:{line}: an indented block; write a fence, or $$ for a formula")
        elif token.type in ("fence", "colon_fence"):
            found += _fence_faults(token, place, line)
        elif token.type == "inline":
            found += _inline_faults(token.children or [], place, line)
    return found


def _fence_faults(token: Token, place: str, line: int) -> list[str]:
    """A fence has a language; a directive's content is text again."""
    if not token.info.strip():
        return [f"{place}:{line}: a fence without a language; write one, such as ```text"]
    directive = re.match(r"\{([\w-]+)\}", token.info.strip())
    if directive and directive[1] not in VERBATIM:
        return prose_faults(token.content, place, line + 1)
    return []


def _inline_faults(tokens: list[Token], place: str, line: int) -> list[str]:
    """Faults of a paragraph, a heading or a cell."""
    found: list[str] = []
    link, address = "", False  # the text of the link so far; whether it is <https://...>
    for token in tokens:
        line += token.type in ("softbreak", "hardbreak")
        link += token.content
        if token.type == "link_open":
            link, address = "", token.info == "auto"
        elif token.type == "link_close":
            if FILE_NAME.fullmatch(link) and not address:
                found.append(f"{place}:{line}: [{link}] is a file's name; link words")
            address = False
        elif token.type == "text" and not address:
            found += [f"{place}:{line}: {fault}" for fault in _text_faults(token.content)]
    return found


def _text_faults(text: str) -> Iterator[str]:
    """Faults of plain text, without its code and links."""
    if ">>>" in text:
        yield ">>> outside of a fence (```python)"
    if formula := FORMULA.search(text):
        shown = text[max(0, formula.start() - 12) : formula.end() + 12].strip()
        yield f"'{shown}': write a formula as $...$, code as `...`"


def long_paragraphs(text: str, place: str) -> Iterator[str]:
    """Paragraphs, also those of lists, with more than ``MOST_WORDS`` words."""
    tokens = PARSER.parse(text)
    for opening, token in pairwise(tokens):
        if opening.type != "paragraph_open":
            continue
        words = "".join(AS_TEXT.get(one.type, one.content) for one in token.children or [])
        if (count := len(words.split())) > MOST_WORDS:
            line = 1 + (opening.map or [0])[0]
            yield f"{place}:{line}: a paragraph of {count} words; at most {MOST_WORDS}, or a list"


def page_faults(path: Path) -> Iterator[str]:
    """What is wrong with a page or a notebook."""
    for place, text in texts(path):
        yield from prose_faults(text, place)
        if path.name != "CHANGELOG.md":
            yield from long_paragraphs(text, place)
        concepts = path.name == "concepts.md" or "](concepts.md" in text
        if path.parent == ROOT / "docs" and not concepts:
            yield f"{place}: no link to concepts.md, which explains the terms"


def texts(path: Path) -> Iterator[tuple[str, str]]:
    """The Markdown of a page or a notebook, and where it is."""
    place = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else str(path)
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".ipynb":
        yield place, text
        return
    for number, cell in enumerate(json.loads(text)["cells"], 1):
        if cell["cell_type"] == "markdown":
            yield f"{place}:cell {number}", "".join(cell["source"])


def pages() -> list[Path]:
    """Every page that people write: the reference is made of docstrings, which are plain text."""
    files = [*(ROOT / "docs").glob("*.md"), *(ROOT / "examples/notebooks").glob("*.ipynb")]
    return sorted([*files, *(ROOT / name for name in OUTSIDE)])


def broken_rules(paths: list[Path] | None = None) -> list[str]:
    """What is wrong with the text of the pages, one line each."""
    return [fault for path in (pages() if paths is None else paths) for fault in page_faults(path)]


if __name__ == "__main__":
    wrong = broken_rules([Path(name).resolve() for name in sys.argv[1:]] or None)
    print("\n".join(wrong) or "no rule is broken")
    sys.exit(bool(wrong))
