"""An estimate of how a live run ends: forward runs of its policy from a copy of its state.

The estimate is not proved. Each forward run draws the arms' means from a posterior and runs the
policy until the budget is spent. So the share of forward runs that end above a limit reflects both
randomness and uncertainty about the arms.

A state has only sums: S of an arm's outcome in n pulls and Q of its squares. A forward run draws 0
or u = Q / S, which has the observed mean and variance if the chance of u is S / (n u). That chance
is drawn from Beta(S / u + q, n - S / u + 1 - q): the prior counts as one pull, with the chance q of
all arms. An outcome that was never above 0 has the u of all arms. The outcomes of a pull are drawn
independently, except for those that are known and shares of others. Pulls in flight are decided
again. A policy that uses features has models in place of sums: see ``estimate_featured``.

In the first fifth of a budget each arm has few reports. Estimates for ``resolve`` are calibrated
even then. Estimates for ``lyon`` and ``lyon-ts``, which end near the limit or above it, are too
low, and those for ``resolve`` with a risk are too high. A prior of two or four pulls does not
improve them. Letters: K arms, M limits, C = 2 + M channels, R forward runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tightrope.kernels.moving import DELAYS, Rules, flight_numbers
from tightrope.kernels.native import moving_run, single_run
from tightrope.kernels.rng import LATE, OUTCOMES, POLICY, seed_words
from tightrope.kernels.run_state import COLUMNS, STEP, RunState
from tightrope.kernels.single_run import Ends
from tightrope.kernels.step import packed
from tightrope.live.outlook import rate_unit
from tightrope.problem import Task
from tightrope.problem.values import Floats

if TYPE_CHECKING:
    from tightrope.live.controller import Controller

FORWARD, FEWEST = 200, 50  # forward runs, and the fewest for an estimate
WORK = 200_000_000  # of all forward runs, at most: a second or two
QUANTILES = (0.05, 0.5, 0.95)  # of the rates at the end
LONGER = 3.0  # times the pulls that are expected to be left, at most, in a forward run


def estimate_of(controller: Controller, pulls_left: float | None) -> EndRates | None:
    """How forward runs end: see :class:`EndRates`.

    None before the first cost, for numbers with features, while the policy is not compiled, if it
    fails, and if it would take too long: a pull takes about (10 + K) M^2 units of ``WORK``, and
    with D columns of features C D^2 / 16 more.
    """
    if pulls_left is None or (
        controller.task.feature_columns and controller.task.space is not None
    ):
        return None
    longest = int(LONGER * pulls_left) + 100
    task = controller.rows.at(controller.budget)
    each = (10 + task.arm_count) * task.penalty_count**2
    if controller.policy.contextual and task.feature_columns:
        each += (2 + task.penalty_count) * task.feature_columns**2 // 16
    runs = min(FORWARD, WORK // (longest * each))
    ends = _forward(controller, runs, longest) if runs >= FEWEST else None
    if ends is None:
        return None
    limits = range(task.penalty_count)
    shares = [float(np.mean(_above(task, ends, m))) for m in limits]
    return EndRates(runs, shares, [_rates(controller, ends, m) for m in limits])


class EndRates(NamedTuple):
    """How many forward runs there were, and how they ended."""

    runs: int
    shares: list[float]  # that end above each limit, [M]
    rates: list[tuple[float, float, float]]  # quantiles (``QUANTILES``) of each limit's rate, [M]


class _Forward(NamedTuple):
    """The totals of forward runs, normalised."""

    cost: Floats  # [R] the budget, or the cost spent in an unfinished run
    pulls: Floats  # [R]
    reward: Floats  # [R]
    penalty: Floats  # [R, M]


def _bases(task: Task, ends: _Forward, m: int) -> Floats:
    """What limit m is per, in each forward run."""
    return task.limit_kinds[m].unit.pick(ends.cost, ends.pulls, ends.reward)


def _above(task: Task, ends: _Forward, m: int) -> Any:
    """Which forward runs end above limit m."""
    return ends.penalty[:, m] > task.normal_limits[m] * _bases(task, ends, m) * (1.0 + 1e-12)


def _rates(controller: Controller, ends: _Forward, m: int) -> tuple[float, float, float]:
    """Quantiles of limit m's rate at the end, in the user's units."""
    bases = _bases(controller.rows, ends, m)
    rates = ends.penalty[:, m] / np.where(bases > 0.0, bases, np.inf)
    low, middle, high = np.quantile(rates, QUANTILES) * rate_unit(controller, m)
    return float(low), float(middle), float(high)


def _forward(controller: Controller, runs: int, longest: int) -> _Forward | None:
    """Run ``runs`` times from the controller's state, for at most ``longest`` pulls."""
    copied = controller.copy()
    if controller.retired:
        copied._remember()  # decisions among some of the arms need a ``State``
    if copied._made is None:
        return None
    kernel, policy = moving_run() if controller.retired else single_run(), copied._made[0]
    state, numbers = copied._state, np.arange(runs)
    columns = Ends.of(state.penalties)
    ends, counts = np.zeros((runs, columns.size)), np.zeros((runs, len(state["totals"]), 2))
    seeds, words = (seed_words(0, stream, numbers) for stream in (OUTCOMES, POLICY))
    mix, laws = _requests(controller, state, runs)
    until, block, beside = int(state["counts"][STEP]) + longest, state.copy().block, _beside(copied)
    for run, law in enumerate(laws):
        one = slice(run, run + 1)
        kernel(
            block, state.block, *beside, seeds[:, one], words[:, one], law, np.zeros(1),
            mix, ends[one], counts[one], until, np.zeros(1, np.uint8), policy.addresses,
        )  # fmt: skip
    if ends[:, columns.wrong].any():
        return None
    over, first = ends[:, columns.step] < until, columns.totals + 1
    return _Forward(
        cost=np.where(over, state.run.budget[0], ends[:, columns.cost]),
        pulls=counts[:, :, 0].sum(axis=1),
        reward=ends[:, columns.totals],
        penalty=ends[:, first : first + controller.rows.penalty_count],
    )


def _requests(
    controller: Controller, state: RunState, runs: int
) -> tuple[Floats, Iterator[tuple[Any, ...]]]:
    """What the loop draws requests from, and the outcomes of each forward run.

    Of types that came, the cumulative shares [T]; of features, the columns; or nothing.
    """
    task, mix = controller.rows, np.zeros(0)
    if controller.policy.contextual and task.feature_columns:
        from tightrope.live.estimate_featured import FeaturedForward

        forward = FeaturedForward(task, state)
        return forward.columns, forward.laws(_sizes(*_sums(state)[1:]), runs)
    if task.types:
        seen = state["totals"][:, 0].reshape(task.types, -1).sum(axis=1)
        mix = np.asarray(np.cumsum(seen / seen.sum()))
    return mix, _laws(task, state, runs)


def _beside(copied: Controller) -> tuple[Any, ...]:
    """The loop's additional arguments if some arms cannot be pulled: see ``kernels.moving``."""
    if not copied.retired:
        return ()
    state, slots = copied._state, np.int64(1)
    rules = Rules(np.zeros(DELAYS), np.int64(0), slots, copied._stand_ins(None))
    featured = bool(state["counts"][COLUMNS])
    flights = flight_numbers(len(state["totals"]), 2 + state.penalties, int(slots), featured)
    return state.copy().block, np.zeros(flights), rules, seed_words(0, LATE, np.arange(1))[0]


def _laws(task: Task, state: RunState, runs: int) -> Iterator[tuple[Any, ...]]:
    """The outcome distributions of each forward run, as in ``engine.laws``."""
    pulls, totals, squares = _sums(state)
    sizes = _sizes(totals, squares)
    hits = totals / sizes
    prior = (hits.sum(axis=0) + 0.5) / (pulls.sum() + 1.0)
    misses = np.maximum(pulls[:, np.newaxis] - hits, 0.0)
    shape = (runs, *totals.shape)
    chances = np.random.default_rng(0).beta(hits + prior, misses + 1.0 - prior, shape)
    sources = np.tile(np.arange(shape[2]), (shape[1], 1))
    for arm, channel in np.argwhere(task.normal_known >= 0.0).tolist():
        chances[:, arm, channel], sizes[arm, channel] = 1.0, task.normal_known[arm, channel]
    for m, kind in enumerate(task.limit_kinds):
        if kind.of in ("cost", "reward"):
            place = ("cost", "reward").index(kind.of)
            chances[:, :, 2 + m], sources[:, 2 + m] = chances[:, :, place], place
            sizes[:, 2 + m] = task.weights[:, m] * sizes[:, place]
    ones, places = np.ones(totals.size, np.int64), np.arange(totals.size)
    for drawn in chances.reshape(runs, -1):
        yield packed(ones, places, sources, drawn, sizes.ravel(), 0.0 * drawn, 0.0 * drawn)


def _sizes(totals: Floats, squares: Floats) -> Floats:
    """U of every arm's outcomes, [K, C], from their sums and squares."""
    with np.errstate(invalid="ignore"):
        usual = np.nan_to_num(squares.sum(axis=0) / totals.sum(axis=0), nan=1.0)
        return np.where(totals > 0.0, squares / totals, usual)


def _sums(state: RunState) -> tuple[Floats, Floats, Floats]:
    """The pulls of every arm [K], and the sums and squares of its outcomes [K, C].

    A policy without a ``State`` has no squares: its outcomes count as coins.
    """
    book = np.asarray(state["totals"], float)
    if not state.spec.remembers:
        return book[:, 0], book[:, 1:], book[:, 1:]
    record, found = state.record, np.zeros((2, len(book), book.shape[1] - 1))
    for to, sums in zip(found, (record.totals, record.squares), strict=True):
        seen = sums.reshape(len(book), -1)
        to[:, : seen.shape[1]] = seen  # without limits there is one penalty, which is always 0
    return record.pulls, *found
