"""The paper's theorems as functions: constants and bounds, as printed and as corrected.

``formulas`` has one function per formula, ``bounds`` the table of bounds for a problem and a
budget, ``citations`` the paper's numbers for its labels. ``docs/theory.md`` explains the
corrections.
"""

from tightrope.theory.formulas import *  # noqa: F403
from tightrope.theory.formulas import __all__ as __all__
