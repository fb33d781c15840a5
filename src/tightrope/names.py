"""Names are data: how a name that somebody chose is shown in each medium, and never obeyed.

A name of an arm, a limit, a policy or a problem may hold anything: markup, formulas, escape
sequences, line ends, marks that turn the reading direction. One function per medium.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Sequence
from itertools import islice

__all__ = ["LONGEST", "in_csv", "in_figure", "in_table", "in_text", "listed", "shortened"]

LONGEST = 60  # characters of a name in a table or a figure
JOINERS = "\u200c\u200d"  # letters and pictures need them: they move nothing
HIDDEN = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")  # controls, formats, surrogates, private, line ends
FORMULA = tuple("=+-@＝＋－＠")


def in_text(text: str, keep: str = "") -> str:
    r"""Text whose every character is seen: what would act on a terminal is shown as an escape.

    >>> print(in_text("a\x1b[31m\nb"))
    a\x1b[31m\nb
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(one if one in keep or _is_seen(one) else _escape(one) for one in text)


def in_table(name: str, longest: int = LONGEST) -> str:
    r"""A name in a cell or a heading: one line, not too long.

    >>> in_table("a\tb"), in_table("x" * 30, 9)
    ('a\\tb', 'xxxxxx…xx')
    """
    return shortened(in_text(name), longest)


def listed(names: Sequence[str], most: int = 4) -> str:
    """The first names in a line, and how many more there are.

    >>> listed(["a", "b"]), listed("abcdefg", 3)
    ('a, b', 'a, b, c and 4 more')
    """
    shown = ", ".join(in_table(name, LONGEST // 2) for name in islice(names, most))
    return shown if len(names) <= most else f"{shown} and {len(names) - most:,} more"


def in_figure(name: str, glyphs: Collection[int]) -> str:
    r"""A name in a picture of matplotlib's, whose font has ``glyphs``: no dollar is mathematics.

    >>> print(in_figure("$^{$", range(128)), in_figure("é", range(128)))
    \$^{\$ \xe9
    """
    shown = "".join(one if ord(one) in glyphs else _escape(one) for one in in_text(name))
    return shortened(shown).replace("$", r"\$")


def in_csv(value: object) -> object:
    r"""A value in a CSV file: a text is one line, and none that a spreadsheet takes for a formula.

    >>> in_csv("=1+1"), in_csv("lyon"), in_csv("a\nb"), in_csv(-0.5)
    ("'=1+1", 'lyon', 'a\\nb', -0.5)
    """
    if not isinstance(value, str):
        return value
    text = in_text(value)
    return f"'{text}" if text.lstrip().startswith(FORMULA) else text


def shortened(text: str, longest: int = LONGEST) -> str:
    """A text of at most so many characters: its beginning, …, its end."""
    if len(text) <= longest:
        return text
    end = (longest - 1) // 3
    return f"{text[: longest - 1 - end]}…{text[len(text) - end :]}"


def _is_seen(one: str) -> bool:
    return one in JOINERS or unicodedata.category(one) not in HIDDEN


def _escape(one: str) -> str:
    return one.encode("unicode_escape").decode()
