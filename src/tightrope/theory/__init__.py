"""The paper's theorems as functions: constants and bounds, as printed and as corrected.

``problem_constants`` has the constants of a problem, ``formulas`` one function per formula,
``bounds`` the table of bounds for a problem and a budget, ``learning`` the limit of learning,
``citations`` the paper's numbers for its labels.
``docs/theory.md`` explains the corrections, ``docs/learning-limit.md`` the limit of learning.
"""

from tightrope.theory import formulas as _formulas
from tightrope.theory.formulas import *  # noqa: F403
from tightrope.theory.learning import LearningLimit, learning_limit

__all__ = [*_formulas.__all__, "LearningLimit", "learning_limit"]
