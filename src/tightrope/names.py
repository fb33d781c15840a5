"""Escape the names that users choose, for messages, terminals, tables, figures and CSV files.

The name of an arm, a limit, a policy or a problem may contain anything: markup, formulas, escape
sequences, line ends, marks that reverse the reading direction. There is one function per medium.
"""

from __future__ import annotations

import csv
import io
import re
import unicodedata
from collections.abc import Collection, Iterable, Sequence
from itertools import islice

LONGEST = 60  # characters of a name in a table or a figure
JOINERS = "\u200c\u200d"  # kept: some scripts and emoji need them, and they are harmless
HIDDEN = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")  # controls, formats, surrogates, private, line ends
FORMULA = tuple("=+-@＝＋－＠")
NUMBER = re.compile(r"[+-][0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?")  # a number, not a formula
LONGEST_MESSAGE = 500  # characters


def in_text(text: str, keep: str = "") -> str:
    r"""The text with every invisible or control character, except those in ``keep``, escaped.

    >>> print(in_text("a\x1b[31m\nb"))
    a\x1b[31m\nb
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(one if one in keep or _is_visible(one) else _escape(one) for one in text)


def one_line(message: object, longest: int = LONGEST_MESSAGE) -> str:
    r"""A message on one line, shortened in the middle: a value in it may be arbitrarily long.

    >>> one_line("two\nlines"), one_line("x" * 9 + "y" * 9, 12)
    ('two lines', 'xxxxxxxx…yyy')
    """
    return shortened(" ".join(str(message).split()), longest)


def in_table(name: str, longest: int = LONGEST) -> str:
    r"""The name for a table's cell or heading: one line of at most ``longest`` characters.

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
    r"""The name for a matplotlib figure whose font has ``glyphs``; dollars start no formula.

    >>> print(in_figure("$^{$", range(128)), in_figure("é", range(128)))
    \$^{\$ \xe9
    """
    shown = "".join(one if ord(one) in glyphs else _escape(one) for one in in_text(name))
    return shortened(shown).replace("$", r"\$")


def in_csv(value: object) -> object:
    r"""The value for a CSV file: text is one line and no spreadsheet reads it as a formula.

    >>> in_csv("=1+1"), in_csv("lyon"), in_csv("a\nb"), in_csv(-0.5), in_csv("-0.5")
    ("'=1+1", 'lyon', 'a\\nb', -0.5, '-0.5')
    """
    if not isinstance(value, str):
        return value
    text = in_text(value)
    harmless = not text.lstrip().startswith(FORMULA) or NUMBER.fullmatch(text)
    return text if harmless else f"'{text}"


def csv_text(rows: Iterable[Iterable[object]]) -> str:
    r"""The rows as CSV, each value escaped by :func:`in_csv`.

    >>> csv_text([["policy", "budget"], ["=lyon", 1.5], ["resolve", None]])
    "policy,budget\n'=lyon,1.5\nresolve,\n"
    """
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows([map(in_csv, row) for row in rows])
    return file.getvalue()


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
