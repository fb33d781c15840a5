"""The paper's theorems as functions: constants and bounds, as printed and as they hold.

What lives here: one function per formula (``formulas``, all of them exported here), the table of
bounds for a problem and a budget (``bounds``), and how results of the paper are cited
(``citations``). ``docs/theory.md`` says what was mended and why.
"""

from tightrope.theory.formulas import *  # noqa: F403
from tightrope.theory.formulas import __all__ as __all__
