"""Policies of a user's own that are wrong, each in its own way: the text of each one's class.

``WRONG`` maps what is wrong to the body of a class and to what the error must say, a pattern.
"""

from __future__ import annotations

HEAD = """
import math
from dataclasses import dataclass
from tightrope import ChoicePolicy, IndexPolicy
from tightrope.policies.base import Policy, Setup, limits_of


"""
INDEX = """
@dataclass(frozen=True)
class Mine(IndexPolicy):
    name = "mine"
    summary = "wrong"

    def setup(self, task, budget):
        return Setup(constants=(1.0,), allowance=limits_of(task), explore=1)

    @staticmethod
    def reward_terms(constants, pulls, cost, earned):
        return {terms}

    @staticmethod
    def reward_index({taken}):
        {body}
"""
CHOICE = """
@dataclass(frozen=True)
class Mine(ChoicePolicy):
    name = "mine"
    summary = "wrong"

    def setup(self, task, budget):
        return {setup}

    @staticmethod
    def choose({taken}):
        {body}
"""
SETUP = "Setup(constants=(1.0,), allowance=limits_of(task))"
INDEX_TAKES = "constants, clock, uniform, arm, level, width"
CHOICE_TAKES = "constants, state, scratch, words"


def index(body: str, taken: str = INDEX_TAKES, terms: str = "earned / pulls, 1.0 / pulls") -> str:
    return HEAD + INDEX.format(body=body, taken=taken, terms=terms)


def choice(body: str, taken: str = CHOICE_TAKES, setup: str = SETUP) -> str:
    return HEAD + CHOICE.format(body=body, taken=taken, setup=setup)


TURN = "return int(state.steps[0]) % len(state.pulls)"
GOOD = {"an index": index("return -level - width"), "a choice": choice(TURN)}
WRONG = {
    "index: a constant past the end": (index("return -level - constants[1]"), "IndexError"),
    "index: the logarithm of a negative number": (
        index("return math.log(-level - 1.0)"),
        "ValueError",
    ),
    "index: the root of a negative number": (index("return math.sqrt(-1.0 - width)"), "ValueError"),
    "index: a division by zero": (index("return level / (width - width)"), "ZeroDivisionError"),
    "index: nan": (index("return math.inf - math.inf"), "reward_index of arm 0 gives nan"),
    "index: nan, later": (
        index("return -level if width > 0.2 else math.nan"),
        "reward_index of arm 0 gives nan",
    ),
    "index: terms of a name that is missing": (
        index("return -level", terms="earned / pulls, missing"),
        "NameError",
    ),
    "index: one term": (
        index("return -level", terms="earned"),
        r"reward_terms of arm 0 gives one number at step 2; must be a pair|TypeError",
    ),
    "index: an argument is missing": (
        index("return -level", "constants, clock, arm, level, width"),
        r"must be @staticmethod reward_index\(constants, clock, uniform, arm, level, width\)",
    ),
    "index: text": (
        index('return "a"'),
        "reward_index of arm 0 gives a at step 2|ValueError at step 2",
    ),
    "index: None": (
        index("return None"),
        "reward_index of arm 0 gives None at step 2|TypeError at step 2",
    ),
    "index: no staticmethod": (
        index("return -level").replace(
            "    @staticmethod\n    def reward_index(", "    def reward_index(self, "
        ),
        r"must be @staticmethod reward_index\(",
    ),
    "no dataclass": (
        choice(TURN).replace("@dataclass(frozen=True)\n", ""),
        r"lacks @dataclass\(frozen=True\)",
    ),
    "not frozen": (choice(TURN).replace("(frozen=True)", ""), r"lacks @dataclass\(frozen=True\)"),
    "a field without a dataclass": (
        GOOD["a choice"] + "\n\nclass Other(Mine):\n    boldness: float = 2.0\n\n\nMine = Other\n",
        r"lacks @dataclass\(frozen=True\)",
    ),
    "choice: a constant past the end": (choice("return int(constants[1])"), "IndexError"),
    "choice: an array past its end": (
        choice("return int(state.pulls[len(state.pulls)])"),
        "IndexError",
    ),
    "choice: the logarithm of a negative number": (
        choice("return int(math.log(-1.0 - state.steps[0]) > 0.0)"),
        "ValueError",
    ),
    "choice: a name that is missing": (choice("return missing"), "NameError"),
    "choice: an argument is missing": (
        choice("return 0", "constants, state, words"),
        r"must be @staticmethod choose\(constants, state, scratch, words\)",
    ),
    "choice: an argument too many": (
        choice("return 0", "constants, state, scratch, words, more"),
        r"must be @staticmethod choose\(constants, state, scratch, words\)",
    ),
    "choice: an arm that does not exist": (choice("return 7"), "chose arm 7 at step 0"),
    "choice: below the first arm": (choice("return -1"), "chose arm -1 at step 0"),
    "choice: a fraction": (
        choice("return 0.5"),
        r"chose arm 0\.5 at step 0|choose returns float64",
    ),
    "choice: None": (choice("pass"), "chose arm None at step 0|choose returns none"),
    "choice: it writes to constants": (choice("constants[0] = 2.0\n        return 0"), "TypeError"),
    "choice: an attribute that is missing": (choice("return state.arms"), "AttributeError"),
    "choice: a sum of a number and text": (choice('return len(state.pulls) + "1"'), "TypeError"),
    "setup: a name that is missing": (choice(TURN, setup="missing"), "NameError"),
    "setup: nothing": (choice(TURN, setup="None"), "must be a Setup"),
    "setup: an allowance of nan": (
        choice(TURN, setup="Setup(constants=(), allowance=(math.nan,))"),
        r"setup returned allowance = \(nan,\); must be numbers, not nan",
    ),
    "setup: a constant of nan": (
        choice(TURN, setup="Setup(constants=(math.nan,), allowance=limits_of(task))"),
        r"setup returned constants = \(nan,\); must be numbers, not nan",
    ),
    "setup: an attribute that is missing": (choice(TURN, setup="task.boldness"), "AttributeError"),
}

# an index that becomes nan after 200 pulls, and what is said of it
LATE = index("return -level - width if arm < 1.0 or clock < 200.0 else math.nan").replace(
    "    @staticmethod",
    "    @staticmethod\n    def clock(constants, step):\n        return step\n\n    @staticmethod",
    1,
)
LATE_SAID = r"^policy mine: reward_index of arm 1 gives nan at step \d+; must be a number \(in "
