"""Constructors of problems from logs; ``tightrope.data`` implements them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Required, TypedDict, Unpack

from tightrope.errors import InputError
from tightrope.problem.limits import Kind
from tightrope.problem.scales import Scales

if TYPE_CHECKING:
    from tightrope.problem.problem import Problem


class LogOptions(TypedDict, total=False):
    """The meaning of a log's columns and the other parameters of a problem; see ``from_frame``."""

    arm: Required[str]
    cost: Required[str | float]
    reward: Required[str | float]
    penalty: str | Sequence[str] | Mapping[str, str] | None
    propensity: str | None
    context: str | None
    features: Sequence[str]
    row: str | None
    interval: Any  # an Interval, or its ends
    limits: Mapping[str, float | str | Kind] | None
    scales: Scales | Mapping[str, float] | None
    name: str
    drop_missing: bool
    min_rows: int
    without: Sequence[str]


def _fitting() -> Any:
    """The module that reads logs. It is in a layer above this one, so it is imported when used."""
    return import_module("tightrope.data.fitting")


class FromLogs:
    """The constructors of a problem that read a log."""

    @classmethod
    def from_frame(cls, frame: Any, **options: Unpack[LogOptions]) -> Problem:
        """A problem from a log: a data frame with a row for each pull.

        ``frame``: a frame of pandas, polars, pyarrow or another library that narwhals supports, or
        a mapping of columns. ``arm``: the column that names the arm. ``cost``, ``reward``: columns,
        or one number for all rows (a request costs 1). ``penalty``: the columns of the penalties,
        or a mapping from limits' names to columns; by default the columns have the limits' names.
        ``propensity``: the column with the probability of each choice, in (0, 1]. ``context``: the
        column with the type of each request. ``limits``: by name, as for a problem. A pull of an
        arm draws one of its rows with all outcomes, of the type of the request; propensities weight
        the rows by 1 / propensity. ``interval``: the lowest and highest arm, if arms are numbers
        such as bids; the problem is then over an :class:`Interval`.

        ``row``: where the frame has a line for each request and arm, the column that names the
        request; then requests are drawn, with the outcomes of all arms. ``features``: columns of
        numbers that describe a request. Without ``row``, the outcome of an arm that was not pulled
        is that of one of its requests for which a linear model of the features expects about the
        same; ``propensity`` is not used then.

        ``scales``: the largest possible outcomes, a ``Scales`` or a mapping by name (cost, reward,
        the limits' names); by default the largest observed values, rounded up. ``drop_missing``
        drops rows with a missing value; by default they raise an error. Arms with fewer than
        ``min_rows`` rows, and the arms in ``without``, are dropped.

        >>> from tightrope import Problem
        >>> log = {"model": ["a", "a", "b"], "usd": [0.2, 0.4, 0.1], "score": [1, 0, 1],
        ...        "bad": [0, 1, 0]}
        >>> import warnings
        >>> warnings.simplefilter("ignore")  # so few rows
        >>> seen = Problem.from_frame(log, arm="model", cost="usd", reward="score",
        ...                           limits={"bad": "50% per pull"})
        >>> seen.names, seen.scales.cost, [round(arm.cost.mean, 3) for arm in seen.arms]
        (('a', 'b'), 0.4, [0.3, 0.1])
        """
        return cls._fitted(frame, options)

    @classmethod
    def from_csv(cls, path: str | os.PathLike[str], **options: Unpack[LogOptions]) -> Problem:
        """Same as ``from_frame``, from a CSV file with a header. Reads only the named columns.

        Fields are separated by commas, semicolons, tabs or ``|``. Large files are read faster if
        pyarrow is installed.
        """
        return cls._fitted(path, options, format="csv")

    @classmethod
    def from_parquet(cls, path: str | os.PathLike[str], **options: Unpack[LogOptions]) -> Problem:
        """Same as ``from_frame``, from a Parquet file; needs pyarrow or polars."""
        return cls._fitted(path, options, format="parquet")

    @classmethod
    def from_campaign(cls, path: str | os.PathLike[str], **options: Any) -> Problem:
        """A problem from the settled tickets of a campaign, in a file from ``campaign export``.

        Arms, limits and scales are those of the campaign; ``limits`` and ``scales`` override them.
        ``options``: the options of ``from_frame`` that name no columns.
        """
        return cls._fitted(path, options, format="campaign")

    @classmethod
    def from_log(
        cls, log: Any, limits: Mapping[str, float | str | Kind] | None = None, **options: Any
    ) -> Problem:
        """Same as ``from_frame``, from a log that ``tightrope.data.read_log`` returned."""
        made: Problem = _fitting().problem_of(log, limits, **options)
        return made

    @classmethod
    def from_table(
        cls,
        table: Any,
        limits: Mapping[str, float | str | Kind] | None = None,
        *,
        scales: Scales | None = None,
        name: str = "",
    ) -> Problem:
        """A problem that draws whole rows of a ``FullTable``, with replacement.

        A request is a row: its context, and the outcome of every arm. ``limits``: by name, as for a
        :class:`Task`. ``scales``: by default the largest outcomes in the table, rounded up.

        >>> from tightrope import FullTable, Problem
        >>> rows = [[(1, 0.5, 1), (1, 0.9, 0)], [(1, 0.7, 0), (1, 0.8, 0)]]
        >>> table = FullTable(["small", "large"], ["bad"], rows, contexts=["math", "code"])
        >>> problem = Problem.from_table(table, {"bad": "30% per pull"})
        >>> problem
        Problem(2 arms: small, large; limits: bad <= 0.3 per pull; types: code, math)
        """
        tables = import_module("tightrope.data.tables")
        if not isinstance(table, tables.FullTable):
            raise InputError(f"table = {type(table).__name__}: must be a FullTable")
        made: Problem = tables.problem_of(table, limits, scales, name)
        return made

    @classmethod
    def _fitted(cls, source: Any, options: Any, **format: str) -> Problem:
        made: Problem = _fitting().fit(source, **options, **format).problem
        return made
