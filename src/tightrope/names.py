"""Escape the names that users choose, for terminals, tables, figures and CSV files.

The name of an arm, a limit, a policy or a problem may contain anything: markup, formulas, escape
sequences, line ends, marks that reverse the reading direction. There is one function per medium.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection

__all__ = ["LONGEST", "in_csv", "in_figure", "in_table", "in_text", "shortened"]

LONGEST = 60  # characters of a name in a table or a figure
JOINERS = "\u200c\u200d"  # kept: some scripts and emoji need them, and they are harmless
HIDDEN = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")  # controls, formats, surrogates, private, line ends
FORMULA = tuple("=+-@＝＋－＠")


def in_text(text: str, keep: str = "") -> str:
    r"""The text with every invisible or control character, except those in ``keep``, escaped.

    >>> print(in_text("a\x1b[31m\nb"))
    a\x1b[31m\nb
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(one if one in keep or _is_visible(one) else _escape(one) for one in text)


def in_table(name: str, longest: int = LONGEST) -> str:
    r"""The name for a table's cell or heading: one line of at most ``longest`` characters.

    >>> in_table("a\tb"), in_table("x" * 30, 9)
    ('a\\tb', 'xxxxxx…xx')
    """
    return shortened(in_text(name), longest)


def in_figure(name: str, glyphs: Collection[int]) -> str:
    r"""The name for a matplotlib figure whose font has ``glyphs``; dollars start no formula.

    >>> print(in_figure("$^{$", range(128)), in_figure("é", range(128)))
    \$^{\$ \xe9
    """
    shown = "".join(one if ord(one) in glyphs else _escape(one) for one in in_text(name))
    return shortened(shown).replace("$", r"\$")


def in_csv(value: object) -> object:
    r"""The value for a CSV file: text is one line and no spreadsheet reads it as a formula.

    >>> in_csv("=1+1"), in_csv("lyon"), in_csv("a\nb"), in_csv(-0.5)
    ("'=1+1", 'lyon', 'a\\nb', -0.5)
    """
    if not isinstance(value, str):
        return value
    text = in_text(value)
    return f"'{text}" if text.lstrip().startswith(FORMULA) else text


def shortened(text: str, longest: int = LONGEST) -> str:
    """The text in at most ``longest`` characters: longer ones keep their beginning and end."""
    if len(text) <= longest:
        return text
    end = (longest - 1) // 3
    return f"{text[: longest - 1 - end]}…{text[len(text) - end :]}"


def _is_visible(one: str) -> bool:
    return one in JOINERS or unicodedata.category(one) not in HIDDEN


def _escape(one: str) -> str:
    return one.encode("unicode_escape").decode()
