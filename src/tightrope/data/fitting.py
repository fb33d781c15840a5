"""A problem from a log: arms draw their own whole rows; scales come from the largest outcomes."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tightrope.callers import warn_caller
from tightrope.data.adaptive import caveat
from tightrope.data.completion import ASSUMED
from tightrope.data.log import Log, has_features, kinds_of, types_of
from tightrope.data.points import laid_over, over_points
from tightrope.data.reading import format_of, penalty_columns, read_log, read_rows
from tightrope.errors import InputError, LogWarning, ProblemError, nearest
from tightrope.names import listed
from tightrope.problem import Arm, Kind, Problem, Scales
from tightrope.problem.limits import as_limit
from tightrope.problem.meaning import check_limits_of_data
from tightrope.problem.named import Named
from tightrope.problem.values import Floats, shown

if TYPE_CHECKING:
    from tightrope.data.campaigns import Export

FEW_ROWS = 30  # an arm with fewer rows is named in a warning
FEW_OF_TYPE = 10  # with fewer rows of a type, an arm draws its rows of all types
FEW_ARMS = 32  # whose rows are found by looking for each of them
UNBALANCED = 100  # ratio of the most to the fewest rows of an arm from which to warn
STEPS = (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)  # the digits of inferred scales


@dataclass(frozen=True, eq=False)
class Fitted:
    """A log and the problem made from it.

    ``log`` has all penalties that were read and only the arms of the problem; penalties without a
    limit are not in the problem. ``warnings``: the warnings about the log.
    """

    log: Log
    problem: Problem
    warnings: tuple[str, ...] = ()


def fit(
    source: Any,
    *,
    penalty: str | Sequence[str] | Mapping[str, str] | None = None,
    limits: Mapping[str, float | str | Kind] | None = None,
    scales: Scales | Mapping[str, float] | None = None,
    name: str = "",
    min_rows: int = 1,
    without: Sequence[str] = (),
    row: str | None = None,
    format: str | None = None,
    archives: Sequence[str] = (),
    **columns: Any,
) -> Fitted:
    """The log in ``source`` and its problem.

    ``columns``, ``penalty`` and ``format`` are for :func:`read_log`; the other arguments are those
    of :meth:`Problem.from_frame`. There are many because each is an independent choice. A
    campaign's export has its own limits and scales; ``archives`` are the files with the events that
    were archived before the export.

    >>> import warnings
    >>> warnings.simplefilter("ignore")  # so few rows
    >>> log = {"model": ["a", "b"], "usd": [0.2, 0.1], "bad": [1, 0]}
    >>> limits = {"bad": "50% per pull"}
    >>> fit(log, arm="model", cost="usd", reward=1, limits=limits).problem.scales.cost
    0.2
    """
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", LogWarning)
        if format_of(source, format) == "campaign":
            from tightrope.data.campaigns import read_export

            roles = ("arm", "cost", "reward", "propensity", "context", "interval", "features")
            given = {role: columns.get(role) for role in roles}
            found = read_export(source, archives, **given, penalty=penalty, row=row)
            log = found.log
            limits = found.task.limits if limits is None else limits
            scales = _seen_scales(found) if scales is None else scales
        elif archives:
            raise InputError(
                f"archives = {shown(list(archives))}: must come with a campaign's export"
            )
        else:
            penalty = _penalty_columns(penalty, limits)
            log = read_log(source, penalty=penalty, format=format, **columns)
        log = log if log.space is None else over_points(log)
        rows = None if row is None else read_rows(source, row, format)
        if rows is not None and (min_rows > 1 or without or columns.get("drop_missing")):
            raise InputError(f"row = {shown(row)}: a table has no gaps; must not leave out lines")
        whole, log = log, chosen_arms(log, min_rows, without)
        problem = _problem_of(log, whole, limits, scales, name, rows)
    for one in said:
        warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
    told = tuple(str(one.message) for one in said if issubclass(one.category, LogWarning))
    return Fitted(log, problem, told)


def _seen_scales(found: Export) -> dict[str, float]:
    """The scales of a campaign, at least as large as its outcomes, which may exceed them.

    They are by the channels of its log.
    """
    scales = dict(zip(found.task.channels, found.task.scales.channels, strict=True))
    rows = zip(found.log.channels, found.log.outcomes, strict=True)
    return {channel: max(scales[channel], float(row.max())) for channel, row in rows}


def _penalty_columns(
    penalty: str | Sequence[str] | Mapping[str, str] | None,
    limits: Mapping[str, float | str | Kind] | None,
) -> dict[str, str]:
    """The columns of the penalties: those given, or those with the limits' names."""
    if penalty is not None:
        return penalty_columns(penalty)
    return {name: name for name in own_penalties(limits)}


def own_penalties(limits: object) -> list[str]:
    """The names of the limits that have a penalty of their own."""
    if limits is not None and not isinstance(limits, Mapping):
        raise ProblemError(f"limits = {shown(limits)}: must be numbers by name")
    return [name for name, limit in (limits or {}).items() if as_limit(limit).of is None]


def chosen_arms(log: Log, min_rows: int = 1, without: Sequence[str] = ()) -> Log:
    """The log of the arms that have enough rows and are not in ``without``.

    Warns about arms that are dropped or have few rows, and about very uneven numbers of rows.
    """
    if isinstance(min_rows, bool) or not isinstance(min_rows, int) or min_rows < 1:
        raise InputError(f"min_rows = {shown(min_rows)}: must be a whole number, at least 1")
    log = log.without(*([without] if isinstance(without, str) else without))
    counts, names = log.counts, list(log.arms)
    if not names:
        raise InputError("without: no arm is left; must leave one")
    kept = np.flatnonzero(counts >= min_rows).tolist()
    if not kept:
        largest = f"the largest of {len(names)} arms has {max(counts, default=0):,}"
        raise InputError(f"min_rows = {min_rows:,}: must leave an arm; {largest}")
    dropped = np.flatnonzero(counts < min_rows).tolist()
    if any(counts[k] for k in dropped) or (dropped and min_rows > 1):
        _warn(f"left out, with fewer than {min_rows:,} rows: {_counted(names, counts, dropped)}")
    elif dropped:
        _warn(f"left out, without any rows: {listed([names[k] for k in dropped], 6)}")
    sides = 0 if log.space is None else log.space.side_count
    fewest = FEW_ROWS >> sides  # points at the ends have half of the rows, or less
    few = [k for k in kept if counts[k] < fewest]
    if few:
        _warn(
            f"arms with few rows (fewer than {fewest}) are uncertain: "
            f"{_counted(names, counts, few)}; --min-rows (min_rows=) drops such arms"
        )
    most, least = max(kept, key=counts.__getitem__), min(kept, key=counts.__getitem__)
    if not few and counts[most] >= UNBALANCED * counts[least]:
        _warn(
            f"the log is unbalanced: {counts[most]:,} rows of {names[most]!r}, "
            f"{counts[least]:,} of {names[least]!r}, which is less certain"
        )
    return log.only(kept)


def _counted(names: Sequence[str], counts: Any, which: Sequence[int]) -> str:
    return listed([f"{names[k]!r} ({counts[k]:,})" for k in which], 6)


def _warn(text: str) -> None:
    warn_caller(text, LogWarning)


def problem_of(
    log: Log,
    limits: Mapping[str, float | str | Kind] | None = None,
    *,
    scales: Scales | Mapping[str, float] | None = None,
    name: str = "",
    min_rows: int = 1,
    without: Sequence[str] = (),
) -> Problem:
    """The problem whose arms draw the rows of a log; see :meth:`Problem.from_frame`.

    If the log has propensities, an arm's rows are drawn in proportion to 1 / propensity, as if the
    arm had been pulled every time.
    """
    log = log if log.space is None else over_points(log)
    return _problem_of(chosen_arms(log, min_rows, without), log, limits, scales, name)


def _problem_of(
    log: Log,
    whole: Log,
    limits: Mapping[str, float | str | Kind] | None,
    scales: object,
    name: str,
    rows: npt.NDArray[Any] | None = None,
) -> Problem:
    """The problem of a log; ``whole``: with the rows of the arms that were left out, too.

    ``rows``: names of the rows, if the log is the long form of a table.
    """
    own = own_penalties(limits)
    for limit in own:
        if limit not in log.penalties:
            known = nearest(str(limit), log.penalties) if log.penalties else "there is none"
            raise ProblemError(f"limit {shown(limit)}: there is no penalty of this name; {known}")
    loose = [penalty for penalty in log.penalties if penalty not in (limits or {})]
    if loose:
        _warn(f"no limit, so it is not in the problem: penalty {listed(loose, 6)}")
    found = _scales(log, own, scales)
    for k in np.flatnonzero(
        np.bincount(log.chosen, log.outcomes[0], len(log.arms)) == 0.0
    ).tolist():
        raise ProblemError(
            f"arm {log.arms[k]!r}: all of its rows ({log.counts[k]:,}) cost 0; must have a "
            "positive cost, or pulls would never spend the budget; --without (without=) drops "
            "the arm"
        )
    known = caveat(log)
    if known:
        _warn(known)
    if rows is not None or has_features(log):
        from tightrope.data import tables

        if rows is not None:
            table = tables.FullTable.from_long(rows, log)
            return tables.problem_of(table, Named(limits or {}), found, name)
        table, pulled = tables.completed_log(log, whole)
        known = "; ".join(filter(None, (known, ASSUMED)))
        return tables.problem_of(table, Named(limits or {}), found, name, pulled, known)
    arms, shares = arms_of(log, own, whole, FEW_OF_TYPE)
    more: Any = {"scales": found, "name": name, "caveat": known, "contexts": shares}
    if log.space is not None:
        by_type = {
            name: laid_over(log.space, some) for name, some in (arms if shares else {}).items()
        }
        more["arm"] = by_type or laid_over(log.space, arms)
        arms = log.space
    if isinstance(scales, Scales):
        return Problem(arms, limits=limits or {}, **more)
    problem = Problem(arms, limits=Named(limits or {}), **more)
    check_limits_of_data(problem.stated, limits)
    return problem


def arms_of(
    log: Log, own: Sequence[str], whole: Log, least: int = 1
) -> tuple[Any, dict[str, float] | None]:
    """Arms that draw the log's rows, by type if it has contexts, and how often each type comes.

    ``own``: the penalties of the arms. ``whole``: the log whose rows are all requests. With fewer
    than ``least`` rows of a type, an arm draws its rows of all types; a warning names such pairs.
    """
    rows = [0, 1, *(2 + list(log.penalties).index(limit) for limit in own)]
    pooled = [_arm(log, k, places, rows, own) for k, places in enumerate(rows_by_arm(log))]
    if not (types := types_of(whole)):
        return pooled, None
    found: dict[str, list[Arm]] = {name: [] for name in types}
    few = []
    for k, parts in enumerate(rows_by_type(log, types)):
        for name, places in zip(types, parts, strict=True):
            enough = len(places) >= least
            found[name].append(_arm(log, k, places, rows, own, name) if enough else pooled[k])
            few += [] if enough else [f"{log.arms[k]!r} for {name!r} ({len(places)})"]
    if few:
        _warn(
            f"pairs of an arm and a type with few rows (fewer than {least}) draw the arm's rows of"
            f" all types: {listed(few, 6)}"
        )
    counts = np.bincount(kinds_of(whole, types), minlength=len(types))
    return found, dict(zip(types, counts.tolist(), strict=True))


def _arm(
    log: Log,
    k: int,
    places: npt.NDArray[np.int64],
    rows: Sequence[int],
    own: Sequence[str],
    kind: str | None = None,
) -> Arm:
    """The arm that draws the log's rows at some places, those of a type if one is given."""
    columns = _columns_of(log, places, rows)
    if kind is not None and not columns[0].any():
        raise ProblemError(
            f"arm {log.arms[k]!r}, type {kind!r}: all of its rows ({len(places):,}) cost 0; must"
            " have a positive cost; --without (without=) drops the arm"
        )
    arm = Arm.from_columns(log.arms[k], columns, own)
    return arm if log.propensity is None else arm.weighted(1.0 / log.propensity[places])


def rows_by_type(log: Log, types: Sequence[str]) -> list[list[npt.NDArray[np.int64]]]:
    """The places of the rows of every arm and type in the log, in order: [K][T], each [n]."""
    kinds, found = kinds_of(log, types), []
    for places in rows_by_arm(log):
        mine = kinds[places]
        ends = np.cumsum(np.bincount(mine, minlength=len(types)))[:-1]
        found.append(np.split(places[np.argsort(mine, kind="stable")], ends))
    return found


def rows_by_arm(log: Log) -> list[npt.NDArray[np.int64]]:
    """The places of every arm's rows in the log, in order: [K], each [n]."""
    if len(log.arms) <= FEW_ARMS:  # a pass over the log each, faster than sorting it
        small = log.chosen.astype(np.uint8)
        return [np.flatnonzero(small == k) for k in range(len(log.arms))]
    return np.split(np.argsort(log.chosen, kind="stable"), np.cumsum(log.counts)[:-1])


def _columns_of(log: Log, places: npt.NDArray[np.int64], rows: Sequence[int]) -> list[Floats]:
    """Outcomes of the rows at some places, read-only so that arms can share them."""
    columns = [log.outcomes[row].take(places) for row in rows]
    for column in columns:
        column.flags.writeable = False
    return columns


def _scales(log: Log, own: Sequence[str], given: object) -> Scales:
    """The scales: given ones, and the others from the largest observed outcomes."""
    if isinstance(given, Scales):
        return given
    if given is not None and not isinstance(given, Mapping):
        raise ProblemError(f"scales = {shown(given)}: must be a Scales, or numbers by name")
    named = dict(given or {})
    for name in named:
        if name not in log.channels:
            raise ProblemError(
                f"scales: {shown(name)} is not an outcome; {nearest(str(name), log.channels)}"
            )
    return scales_of(log.channels, log.outcomes.max(axis=1).tolist(), own, named)


def scales_of(
    channels: Sequence[str],
    largest: Sequence[float],
    own: Sequence[str],
    given: Mapping[str, float] = MappingProxyType({}),
) -> Scales:
    """The scales of cost, reward and the penalties ``own``, from the ``largest`` outcomes."""
    seen = dict(zip(channels, largest, strict=True))
    found = {c: given.get(c, scale_of(seen[c])) for c in ("cost", "reward", *own)}
    cost, reward = found.pop("cost"), found.pop("reward")
    return Scales(cost=cost, reward=reward, penalty=found)


def scale_of(largest: float) -> float:
    """The largest observed outcome, rounded up to a short number; 1 if none is above 0.

    >>> scale_of(0.97), scale_of(1.0), scale_of(0.0431), scale_of(12), scale_of(0)
    (1.0, 1.0, 0.05, 12.0, 1.0)
    """
    if largest <= 0.0:
        return 1.0
    power = math.floor(math.log10(largest))
    for extra in (0, 1):
        for step in STEPS:
            scale = float(f"{step:g}e{power + extra}")
            if scale >= largest:
                return scale
    return largest
