"""What a choice policy of a user's own may return from ``setup``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pytest

from tightrope import ChoicePolicy, Setup, limits_of, simulate
from tightrope.errors import PolicyError


@dataclass(frozen=True)
class Explorer(ChoicePolicy):
    """Asks for pulls of every arm before its first choice."""

    name: ClassVar[str] = "explorer"
    summary: ClassVar[str] = "explores"

    def setup(self, task, budget):
        return Setup(constants=(), allowance=limits_of(task), explore=5)

    @staticmethod
    def choose(constants, state, scratch, words):
        return 0


def test_it_chooses_its_first_pulls_itself():
    with pytest.raises(PolicyError, match=r"explorer: setup returned explore = 5; must be 0: "):
        simulate("paper", Explorer(), budgets=10, runs=1)
