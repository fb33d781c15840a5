"""How the distributions of the arms change while the budget is spent."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from tightrope.errors import ProblemError
from tightrope.problem.arms import Arm, BernoulliArms
from tightrope.problem.values import number, shown


@contextmanager
def within(place: str) -> Iterator[None]:
    """Same as ``at``, with a comma before an arm's place: change 2 (at 0.7), arm 'a'."""
    try:
        yield
    except ProblemError as error:
        joint = ", " if str(error).startswith("arm") else ": "
        raise type(error)(f"{place}{joint}{error}") from None


@dataclass(frozen=True)
class Change:
    """New distributions for all arms from a share of the budget on. Names and order stay the same.

    ``at``: the share, between 0 and 1. The new distributions apply to every pull that starts after
    ``at`` times the budget is spent. ``absent``: names of arms that cannot be pulled until the next
    change.

    >>> from tightrope import Arm, Bernoulli, Change, Problem
    >>> before = Arm("bold", cost=Bernoulli(0.4), reward=Bernoulli(0.8), penalty=Bernoulli(0.6))
    >>> after = Arm("bold", cost=Bernoulli(0.4), reward=Bernoulli(0.1), penalty=Bernoulli(0.6))
    >>> problem = Problem([before], limit=2, changes=[Change(at=0.5, arms=[after])])
    >>> [(phase.start, phase.share) for phase in problem.phases]
    [(0.0, 0.5), (0.5, 0.5)]
    """

    at: float
    arms: Sequence[Arm]  # kept as a tuple
    absent: Sequence[str] = ()  # kept as a tuple, in the order of the arms

    def __post_init__(self) -> None:
        share = number(self.at, "at")
        if not 0.0 < share < 1.0:
            raise ProblemError(f"at = {share!r}: must be a share of the budget, between 0 and 1")
        object.__setattr__(self, "at", share)
        if not isinstance(self.arms, Iterable):
            raise ProblemError(f"arms = {shown(self.arms)}: must be a list of arms")
        if not isinstance(self.arms, BernoulliArms):
            object.__setattr__(self, "arms", tuple(self.arms))


def standing_in(arms: Sequence[Arm], away: frozenset[int]) -> Sequence[Arm]:
    """The arms, with the distributions of others in place of those that cannot be pulled."""
    if not away:
        return arms
    there = [arm for k, arm in enumerate(arms) if k not in away]
    return tuple(
        replace(there[k % len(there)], name=arm.name) if k in away else arm
        for k, arm in enumerate(arms)
    )
