"""The limit of learning: C such that no consistent policy has regret below (C - o(1)) log B.

An arm k outside the best mixture loses ``loss_k = g x_k + lambda . y_k - r_k`` per pull, with x, r
and y its mean cost, reward and penalties, lambda the multipliers of the limits and
g = r* - lambda . c. It must still be pulled log B / ``divergence_k`` times: the least
Kullback-Leibler divergence from its distribution to one with which it would enter the mixture, that
is, with a mean gain r' - lambda . y' - g x' >= 0. So

    C = sum of loss_k / divergence_k over the arms outside.

The minimum is over all distributions on [0, largest outcome] for each channel: channels with their
own draws are independent, those that share the cost's draw have any joint distribution. For
channels that are 0 or the largest outcome this is the Bernoulli family. ``docs/learning-limit.md``
has the statement and its assumptions, ``docs/promises.md`` the proof.

Computed in normalised units. For a price nu of the gain, the distribution G that minimises
KL(F, G) - nu E_G[gain] has the density 1 / (eta - nu gain) with respect to F, and the rest of its
mass at the largest gain (Honda and Takemura 2010); nu is the root of E_G[gain] = 0.

Letters: K arms, M limits, J = 2 + M channels (cost, reward, penalties), N points of a distribution.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tightrope.errors import InputError
from tightrope.optimum.pi_star import best_arms
from tightrope.problem import Arm, Problem, require_unchanging
from tightrope.problem.cells import Cells
from tightrope.problem.mixtures import BestMixture
from tightrope.problem.outcomes import FiniteLaw
from tightrope.problem.values import Floats, number

Indices = npt.NDArray[np.intp]

TIED = 1e-7  # of the terms of a loss: a smaller one is none
BINDING = 1e-9  # of a limit: a smaller distance to it is none
MOST_PRICE = 2.0**80  # of the gain, normalised: an arm that has not entered there cannot
HALVINGS = 120  # of the price's bracket
SMALLEST, SHARPEST = 1e-300, 1e-15  # absolute and relative error of a root
ROUNDING = 1e-12  # of a mean cost
NODES, FEW_NODES = 64, 4  # points of a density: where the table is one cell, and per cell


@dataclass(frozen=True, eq=False)
class LearningLimit:
    """A lower bound on the cost of learning a problem, in the user's units; see the module.

    ``loss`` [K]: reward lost per pull, 0 for arms in the best mixture or tied with it.
    ``divergence`` [K]: in nats per pull; infinite if no distribution lets the arm enter, nan if
    there is no loss. ``price``: g, the required reward per unit of cost after the price of
    penalties; ``multiplier`` [M]: the price of a unit of penalty. ``obstacle``: why there is no
    constant, or ""; then every divergence is nan.
    """

    names: Sequence[str]
    loss: Floats
    divergence: Floats
    price: float
    multiplier: tuple[float, ...]
    largest_cost: float  # of one pull
    obstacle: str = ""

    @cached_property
    def pulls(self) -> Floats:
        """The necessary pulls of each arm outside the mixture, per unit of log B, [K]."""
        outside = self.loss > 0.0
        return np.divide(1.0, self.divergence, out=np.zeros(len(self.loss)), where=outside)

    @property
    def constant(self) -> float | None:
        """C, in units of reward; None if there is an ``obstacle``."""
        return None if self.obstacle else float(self.loss @ self.pulls)

    def regret(self, budget: float) -> float | None:
        """C log B at a budget in the user's units; B is in largest costs of one pull."""
        constant = self.constant
        return None if constant is None else constant * math.log(budget / self.largest_cost)


def learning_limit(problem: Problem, smallest_cost: float | None = None) -> LearningLimit:
    """The limit of learning of a problem with any number of limits.

    ``smallest_cost``: a lower bound on every arm's mean cost that policies know, in units of cost;
    distributions below it are then no alternatives. By default policies know only the task's limits
    and scales. InfeasibleError if no mixture keeps the limits, ProblemError if the arms change.

    >>> from tightrope.problem.ready import ready_problem
    >>> found = learning_limit(ready_problem("arena-random-5"))
    >>> round(found.constant, 2), found.loss.round(3).tolist()
    (31.04, [0.028, 0.0, 0.0, 0.251, 0.312])
    """
    require_unchanging(problem, "the limit of learning is for")
    mixture, moments, scales = best_arms(problem), problem.moments, problem.scales
    least = _least_cost(problem, smallest_cost)
    price = mixture.reward - float(mixture.multiplier @ moments.limits)
    means = np.column_stack([moments.cost, moments.reward, moments.penalty])
    gain = np.array([-price, 1.0, *-mixture.multiplier])  # of a unit of each channel, [J]
    terms = means * gain  # [K, J]
    loss = -terms.sum(axis=1)
    if problem.not_per_cost:
        loss = price * moments.cost + moments.net @ mixture.multiplier - moments.reward
    loss[loss <= TIED * np.abs(terms).max(axis=1)] = 0.0
    loss[mixture.members] = 0.0
    obstacle, divergence = _obstacle(problem, mixture), np.full(len(loss), math.nan)
    if not obstacle:
        outside = np.flatnonzero(loss)
        divergence[outside] = _divergences(problem, outside, gain, least)
    loss *= scales.reward
    loss.flags.writeable = divergence.flags.writeable = False
    return LearningLimit(
        names=problem.names,
        loss=loss,
        divergence=divergence,
        price=price * scales.reward / scales.cost,
        multiplier=tuple((mixture.multiplier * scales.reward / scales.penalties).tolist()),
        largest_cost=scales.cost,
        obstacle=obstacle,
    )


def _least_cost(problem: Problem, smallest_cost: float | None) -> float:
    """The smallest mean cost that policies know, normalised; 0 if they know none."""
    if smallest_cost is None:
        return 0.0
    told, most = number(smallest_cost, "smallest_cost"), problem.moments.smallest_cost
    if not 0.0 <= told <= most * problem.scales.cost * (1.0 + TIED):
        allowed = f"lie in [0, {most * problem.scales.cost!r}], the smallest mean cost of an arm"
        raise InputError(f"smallest_cost = {told!r}: must {allowed}")
    return min(told / problem.scales.cost, most)


def _obstacle(problem: Problem, mixture: BestMixture) -> str:
    """Why the multipliers may not be unique, or "".

    They are unique if one more arm than binding limits shares the cost: then no arm can enter at
    their prices without earning more.
    """
    if which := problem.not_per_cost:
        return f"learning: {which}: C is known for limits per unit of cost only"
    rates = mixture.weights @ problem.moments.penalty_rate[mixture.members]
    limits = problem.moments.limits
    binding = int(np.count_nonzero(rates >= limits * (1.0 - BINDING)))
    members = len(mixture.members)
    if members > binding:
        return ""
    many = f"{members} arm{'s' * (members != 1)} for {binding} binding limit{'s' * (binding != 1)}"
    return f"learning: the multipliers need not be unique ({many}), so C is not known"


def _divergences(problem: Problem, arms: Indices, gain: Floats, least: float) -> Floats:
    """The divergences of some arms; ``gain`` [J]: the value of a unit of each channel."""
    best = gain[1] + gain[0] * (least if gain[0] < 0.0 else 1.0)  # of any distribution
    if best <= 0.0:
        return np.full(len(arms), math.inf)
    odds = problem.bernoulli()
    if odds is not None:
        return _bernoulli_divergences(odds[arms], gain, least)
    return np.array([_divergence(_blocks(problem, problem.arms[k], gain), least) for k in arms])


# --- Bernoulli channels, all arms at once -------------------------------------------------


def _bernoulli_divergences(odds: Floats, gain: Floats, least: float) -> Floats:
    """The divergence of each of K arms with the probabilities ``odds`` [K, J], by bisection."""

    def enters(price: Floats) -> npt.NDArray[np.bool_]:
        return np.asarray(_tilted_odds(odds, price[:, None] * gain, least) @ gain >= 0.0)

    high = np.ones(len(odds))
    while not (there := enters(high)).all() and high.max() < MOST_PRICE:
        high = np.where(there, high, 2.0 * high)
    low = np.zeros(len(odds))
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        there = enters(middle)
        low, high = np.where(there, low, middle), np.where(there, middle, high)
    found = _bernoulli_divergence(odds, _tilted_odds(odds, high[:, None] * gain, least))
    return np.asarray(found.sum(axis=1))


def _tilted_odds(odds: Floats, tilt: Floats, least: float) -> Floats:
    """The q that minimises KL(odds, q) - tilt q, channel by channel, [K, J]; costs of ``least``.

    It is the root of tilt q^2 + (1 - tilt) q - p in [0, 1], in a form that loses no digits.
    """
    root = np.sqrt((1.0 - tilt) ** 2 + 4.0 * tilt * odds)
    with np.errstate(divide="ignore", invalid="ignore"):  # of the form that is not taken
        low, high = 2.0 * odds / (1.0 - tilt + root), (tilt - 1.0 + root) / (2.0 * tilt)
    never = np.maximum(1.0 - 1.0 / np.maximum(tilt, 1.0), 0.0)  # where p = 0
    q = np.clip(np.where(odds == 0.0, never, np.where(tilt <= 1.0, low, high)), 0.0, 1.0)
    q[:, 0] = np.maximum(q[:, 0], least)
    return q


def _bernoulli_divergence(odds: Floats, other: Floats) -> Floats:
    """KL between Bernoulli distributions, element by element."""
    from scipy.special import rel_entr

    return np.asarray(rel_entr(odds, other) + rel_entr(1.0 - odds, 1.0 - other))


# --- other distributions, arm by arm
# ---------------------------------------------------------------


class JointChannels(NamedTuple):
    """Channels of an arm with a common draw: any joint distribution is an alternative."""

    weights: Floats  # [N] sum to 1
    points: Floats  # [N, D] outcomes in [0, 1]
    gain: Floats  # [D] the value of a unit of each channel
    has_cost: bool  # the first channel is the cost


def _blocks(problem: Problem, arm: Arm, gain: Floats) -> list[JointChannels]:
    """The channels of an arm in blocks that share a draw."""
    sources, scales = np.array(arm.sources), problem.scales.channels
    cells, laws, found = arm.cells(), arm.laws, []
    for source in np.unique(sources):
        channels = np.flatnonzero(sources == source)
        law = laws[channels[0]]
        if len(channels) == 1 and isinstance(law, FiniteLaw):
            values, weights = law.atoms()
            points = values[:, None] / scales[source]
        else:
            weights, points = _points([cells[j].divided_by(scales[j]) for j in channels])
        found.append(JointChannels(weights, points, gain[channels], source == 0))
    return found


def _points(tables: Sequence[Cells]) -> tuple[Floats, Floats]:
    """The weights [N] and outcomes [N, D] of D channels that share a draw and the cells' splits.

    A cell that is uniform becomes the nodes of a Gauss-Legendre rule.
    """
    count, nodes, shares = len(tables[0]), np.zeros(1), np.ones(1)
    if any(table.slope.any() for table in tables):
        nodes, shares = np.polynomial.legendre.leggauss(NODES if count == 1 else FEW_NODES)
        nodes, shares = nodes / 2.0, shares / 2.0
    split = tables[0].split
    chances = np.concatenate([split, 1.0 - split])[:, None] * shares / count
    columns = [
        np.concatenate([table.first, table.second])[:, None]
        + np.concatenate([table.slope, table.slope])[:, None] * nodes
        for table in tables
    ]
    weights, points = chances.ravel(), np.stack([column.ravel() for column in columns], axis=1)
    return weights[weights > 0.0], np.clip(points[weights > 0.0], 0.0, 1.0)


def _divergence(blocks: Sequence[JointChannels], least: float) -> float:
    """The least divergence to distributions with a gain of 0 or more; mean cost ``least``."""

    def gain(price: float) -> float:
        return sum(_tilted(block, price, least).gain for block in blocks)

    high = 1.0
    while gain(high) < 0.0:
        high *= 2.0
        if high > MOST_PRICE:
            return math.inf
    price = _root(gain, 0.0, high)
    return max(0.0, sum(_tilted(block, price, least).divergence for block in blocks))


class Tilted(NamedTuple):
    """The distribution with the least divergence minus price times gain: its gain, that minimum."""

    gain: float
    divergence: float  # minus price times gain: the divergence itself if all gains add up to 0


def _tilted(block: JointChannels, price: float, least: float) -> Tilted:
    """A block at a price of the gain, its mean cost kept at ``least`` if it has a cost."""
    tilt = price * block.gain
    means, value = _tilted_means(block, tilt)
    if block.has_cost and means[0] < least:
        unit = np.eye(1, len(tilt))[0]

        def over(rise: float) -> float:
            return float(_tilted_means(block, tilt + rise * unit)[0][0]) - least

        most = abs(float(tilt[0]))  # undoes the cost's own tilt
        while over(most) < -ROUNDING and most < MOST_PRICE:
            most *= 2.0
        rise = _root(over, 0.0, most)
        means, value = _tilted_means(block, tilt + rise * unit)
        value += rise * least
    return Tilted(float(means @ block.gain), value)


def _tilted_means(block: JointChannels, tilt: Floats) -> tuple[Floats, float]:
    """The means [D] of the G that minimises KL(F, G) - tilt . E_G[outcome], and that minimum.

    G has the density 1 / (eta - tilt . outcome), and the rest of its mass where tilt . outcome is
    largest in the box, at ``top``; the minimum is E_F[log(eta - tilt . outcome)] - eta + 1.
    """
    score, corner = block.points @ tilt, (tilt > 0.0).astype(np.float64)
    top, middle = float(np.maximum(tilt, 0.0).sum()), float(block.weights @ score)

    def room(rise: float) -> Floats:  # 1 / density, with eta = 1 + rise: at least the weight
        return np.maximum(1.0 + rise - score, block.weights)

    def missing(rise: float) -> float:
        return float((block.weights / room(rise)).sum()) - 1.0

    last = int(score.argmax())  # its density is at most 1 / weight
    rise = max(top - 1.0, middle, float(score[last] - 1.0 + block.weights[last]))
    if missing(rise) > 0.0:
        rise = _root(missing, rise, float(score[last]))
    density, shift = block.weights / room(rise), rise - score
    means = density @ block.points + max(0.0, 1.0 - float(density.sum())) * corner
    logs = np.where(shift > -0.5, np.log1p(np.maximum(shift, -0.5)), np.log(room(rise)))
    return means, float(block.weights @ logs) - rise


def _root(function: Callable[[float], float], low: float, high: float) -> float:
    """The root of a monotone function between two ends; the nearer end if rounding hides it."""
    from scipy.optimize import brentq

    at_low, at_high = function(low), function(high)
    if at_low * at_high >= 0.0:
        return low if abs(at_low) <= abs(at_high) else high
    return float(brentq(function, low, high, xtol=SMALLEST, rtol=SHARPEST))
