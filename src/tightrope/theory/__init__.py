"""The paper's theorems as functions: constants and bounds, as printed and as they hold.

What lives here: one function per formula (``formulas``, all of them exported here), the table of
bounds for a problem and a budget (``bounds``), the limit of learning, which no policy passes
(``learning``), and how results of the paper are cited (``citations``). ``docs/theory.md`` says what
was mended and why, ``docs/learning-limit.md`` what the limit of learning says.
"""

from tightrope.theory import formulas as _formulas
from tightrope.theory.formulas import *  # noqa: F403
from tightrope.theory.learning import LearningLimit, learning_limit

__all__ = [*_formulas.__all__, "LearningLimit", "learning_limit"]
