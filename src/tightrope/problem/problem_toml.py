"""A problem and its arms as TOML, with many observed rows in a Parquet file beside it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from tightrope.errors import ProblemError
from tightrope.files import require_writable, whole_file, write_text
from tightrope.problem.arms import Arm, Change, row_columns, within
from tightrope.problem.contexts import ARM_KEYS, shares_of
from tightrope.problem.curves import arms_over, stated_arms
from tightrope.problem.distributions import outcome_from_toml
from tightrope.problem.features import read_vectors
from tightrope.problem.limits import as_limit
from tightrope.problem.named import channel_names
from tightrope.problem.outcomes import Law, Outcome
from tightrope.problem.rows import (
    FileOfRows,
    RowReader,
    Rows,
    file_of_rows,
    read_parquet,
    write_parquet,
)
from tightrope.problem.spaces import Space, space_of
from tightrope.problem.task import FACT_KEYS, HEAD_KEYS, Task, holds_task, read_head
from tightrope.problem.toml import alone, entries_text
from tightrope.problem.values import at, known_keys, shown

if TYPE_CHECKING:
    from tightrope.problem.problem import Problem

FEW_ROWS = 500  # most observed rows that a saved TOML holds itself


class KnownLaws(NamedTuple):
    """The raw declarations of a file; arms can leave out the outcomes declared as known."""

    costs: object
    skip: object
    limits: Sequence[str]  # the names of the penalties with distributions
    observed: RowReader | None = None  # the rows of arms that have only their number

    def fill(self, name: object, entries: dict[str, Any]) -> None:
        """Add the distributions that an arm has left out."""
        cost = self.costs.get(name) if isinstance(self.costs, dict) else self.costs
        if cost is not None and "rows" not in entries:
            entries.setdefault("cost", {"constant": cost})
        if name == self.skip and name is not None:
            entries.setdefault("reward", {"constant": 0.0})
            if "penalty" not in entries and self.limits:
                zeros = {limit: {"constant": 0.0} for limit in self.limits}
                entries["penalties"] = zeros | entries.get("penalties", {})


def read_arms(tables: object, place: str, laws: KnownLaws) -> tuple[Arm, ...]:
    """The arms of a list of TOML tables; ``place`` is the tables' header, for messages."""
    if not isinstance(tables, list):
        raise ProblemError(f"arms = {shown(tables)}: must be [[{place}]] tables")
    return tuple(_read_arm(table, k, laws) for k, table in enumerate(tables, start=1))


def _read_arm(table: object, k: int, laws: KnownLaws) -> Arm:
    """Arm number ``k``, from 1, read from its TOML table."""
    with at(f"arm {k}"):
        entries = dict(known_keys(table, ARM_KEYS))
    name, limit_names = entries.pop("name", f"arm {k}"), laws.limits
    laws.fill(name, entries)
    if set(entries) == {"rows"} and type(entries["rows"]) is int:
        return _take_rows(name, entries["rows"], laws)
    if {"rows"} <= set(entries) <= {"rows", "weights"}:
        return Arm.from_rows(name, entries["rows"], limit_names, entries.get("weights"))
    if (
        {"rows", "weights"} & set(entries)
        or not {"cost", "reward"} <= set(entries)
        or {"penalty", "penalties"} <= set(entries)
    ):
        given = ", ".join(entries) or "nothing"
        raise ProblemError(
            f"arm {name!r}: has {given}; must have cost, reward and a penalty for each limit,"
            " or rows alone"
        )
    penalty = _read_penalties(name, entries, limit_names)
    cost, reward = (_read_outcome(name, key, entries[key]) for key in ("cost", "reward"))
    return Arm(name, cast(Law, cost), reward, penalty)  # Arm checks that cost is a Law


def _take_rows(name: str, count: int, laws: KnownLaws) -> Arm:
    """An arm whose rows are not in the TOML."""
    with at(f"arm {name!r}"):
        if laws.observed is None:
            allowed = "be the rows themselves, or their number beside a file of rows at the top"
            raise ProblemError(f"rows = {count}: must {allowed}")
        columns, weights = laws.observed.take(count)
    return Arm.from_columns(name, columns, laws.limits, weights)


def _read_penalties(
    name: object, entries: Mapping[str, Any], limit_names: Sequence[str]
) -> list[Outcome] | dict[str, Outcome]:
    """The arm's penalties, in the order of the limits or by their names."""
    if "penalties" in entries:
        named = entries["penalties"]
        if not isinstance(named, dict):
            allowed = (
                "a table of distributions by limit, such as penalties.bad = { bernoulli = 0.1 }"
            )
            raise ProblemError(f"arm {name!r}, penalties: {shown(named)} must be {allowed}")
        return {key: _read_outcome(name, key, law) for key, law in named.items()}
    laws = entries.get("penalty", [])
    laws = laws if isinstance(laws, list) else [laws]
    known = len(limit_names) == len(laws)
    channels = limit_names if known else channel_names(len(laws))[2:]
    return [_read_outcome(name, key, law) for key, law in zip(channels, laws, strict=True)]


def _read_outcome(name: object, channel: str, law: object) -> Outcome:
    with at(f"arm {name!r}, {channel}"):
        return outcome_from_toml(law)


def arm_texts(arms: Iterable[Arm], place: str, task: Task, *, counts: bool) -> list[str]:
    """The arms as TOML, each under its table's header; with ``counts``, rows as their number."""
    return [f"\n[[{place}]]\n{_arm_text(arm, task, counts)}" for arm in arms]


def _arm_text(arm: Arm, task: Task, counts: bool) -> str:
    laws = _arm_table(arm, task, counts)
    named = entries_text(laws.pop("penalties", {}))
    lines = "".join(f"penalties.{line}\n" for line in named.split("\n") if line)
    return entries_text(_place(arm, task) | laws) + lines


def _place(arm: Arm, task: Task) -> dict[str, Any]:
    """The name of an arm, or its place in the space."""
    return {"name": arm.name} if task.space is None else {"at": task.space.point_of(arm.name)}


def _arm_table(arm: Arm, task: Task, counts: bool) -> dict[str, Any]:
    """An arm's distributions or rows as TOML entries."""
    columns = row_columns(arm)
    if columns and counts:
        return {"rows": len(columns[0].values)}
    if columns:
        rows = np.column_stack([column.values for column in columns]).tolist()
        weighted = columns[0].weights is not None
        return {"rows": rows, "weights": columns[0].chances.tolist() if weighted else None}
    laws = {"cost": arm.cost.to_toml(), "reward": arm.reward.to_toml()}
    penalties = [penalty.to_toml() for penalty in arm.penalties]
    if not task.has_named_limits:
        return laws | {"penalty": alone(penalties)}
    return laws | {"penalties": dict(zip(task.told_names, penalties, strict=True))}


def _typed_texts(problem: Problem, *, counts: bool) -> list[str]:
    """The arms of a problem with types: a table for each type."""
    task, given = problem.stated, {name: stated_arms(arms) for name, arms in problem.typed.items()}
    texts = []
    for arms in zip(*given.values(), strict=True):
        named = zip(given, arms, strict=True)
        tables = {name: _arm_table(arm, task, counts) for name, arm in named}
        texts.append(f"\n[[arms]]\n{entries_text(_place(arms[0], task) | tables)}")
    return texts


def _read_typed(tables: object, types: Sequence[str], laws: KnownLaws) -> dict[str, Any]:
    """The arms of each type: an arm's own entries, and those of its table for that type."""
    if not isinstance(tables, list) or not all(isinstance(one, dict) for one in tables):
        raise ProblemError(f"arms = {shown(tables)}: must be [[arms]] tables")
    for k, table in enumerate(tables, start=1):
        with at(f"arm {table.get('name', k)!r}"):
            if more := [key for key in table if key not in (*ARM_KEYS, *types)]:
                allowed = f"{', '.join(ARM_KEYS)} or a type in [contexts], {shown([*types])}"
                raise ProblemError(f"unknown key {shown(more[0])}; must be {allowed}")
            known_keys(table, (*ARM_KEYS, *types))
    return {
        name: tuple(_read_for_type(table, k, name, laws) for k, table in enumerate(tables, start=1))
        for name in types
    }


def _read_for_type(table: dict[str, Any], k: int, name: str, laws: KnownLaws) -> Arm:
    """Arm number ``k``, from 1, for a type."""
    title, there = f"arm {table.get('name', k)!r}", table.get(name, {})
    own = {key: value for key, value in table.items() if key in ARM_KEYS}
    if not isinstance(there, dict) or not (there or set(own) > {"name"}):
        raise ProblemError(f"{title}: must have a table for the type {name!r}")
    with within(f"{title}, type {name!r}"):
        return _read_arm(own | there, k, laws)


def _read_points(tables: object, types: Sequence[str], laws: KnownLaws, space: Space) -> Any:
    """The arms of a space from those of some points; by type where there are types."""
    if not isinstance(tables, list) or not all(isinstance(one, dict) for one in tables):
        raise ProblemError(f"arms = {shown(tables)}: must be [[arms]] tables")
    places: list[Any] = []
    for k, table in enumerate(tables, start=1):
        if "at" not in table:
            with at(f"arm {k}"):
                known_keys(table, ("at", *ARM_KEYS, *types))
            raise ProblemError(f"arm {k}: must have at, its place in the space")
        place = tuple(table["at"]) if isinstance(table["at"], list) else table["at"]
        if place in places:
            raise ProblemError(f"arm {k}: at = {shown(table['at'])}: is given twice")
        places.append(place)
    laid = [{key: table[key] for key in table if key != "at"} for table in tables]
    if not types:
        return arms_over(space, dict(zip(places, read_arms(laid, "arms", laws), strict=True)))
    found = _read_typed(laid, types, laws)
    return {
        name: arms_over(space, dict(zip(places, arms, strict=True))) for name, arms in found.items()
    }


def read_problem(
    table: dict[str, Any], rows: Rows | str | None
) -> tuple[dict[str, Any], FileOfRows | None]:
    """The arguments of a problem in a TOML table, and its entry about rows in another file."""
    known_keys(table, (*HEAD_KEYS, "changes", "absent", "rows", "caveat", *FACT_KEYS))
    if holds_task(table):
        raise ProblemError(
            "arms have only names, so this is a task; simulating needs the cost, reward and "
            "penalty distributions of every arm"
        )
    for key in FACT_KEYS:
        if key in table:
            raise ProblemError(
                f"{key} = {shown(table[key])}: must be left out; only a task declares it, for a "
                "problem it follows from the distributions"
            )
    head = read_head(table)
    known = head.get("known")
    told = tuple(
        name
        for name, limit in head["limits"].items()
        if "limits" in table
        and as_limit(limit).of is None
        and not (isinstance(known, dict) and name in known)
    )
    said, reader = _reader(table, rows)
    laws = KnownLaws(head.get("costs"), head.get("skip"), told, reader)
    arms: Any
    if (features := read_vectors(head.get("contexts"))) is not None:
        head = {key: value for key, value in head.items() if key != "contexts"}
    contexts, given = head.get("contexts"), table.get("arms", [])
    types = () if contexts is None else tuple(shares_of(contexts))
    if (space := space_of(head.get("space"))) is not None:
        arms = _read_points(given, types, laws, space)
    elif types:
        arms = _read_typed(given, types, laws)
    else:
        arms = read_arms(given, "arms", laws)
    arguments: dict[str, Any] = {
        "arms": arms,
        "features": features,
        "changes": tuple(_read_changes(table.get("changes", []), laws)),
        "absent": table.get("absent", ()),
        "caveat": table.get("caveat", ""),
    }
    if reader is not None:
        reader.require_end()
    return head | arguments, said


def _reader(
    table: dict[str, Any], rows: Rows | str | None
) -> tuple[FileOfRows | None, RowReader | None]:
    """The table's entry about rows in another file, and a reader of those rows."""
    if "rows" not in table:
        return None, None
    said = file_of_rows(table["rows"])
    if isinstance(rows, str) and said.file:
        rows = read_parquet(os.path.join(rows, said.file), said.weights)
    if not isinstance(rows, Rows):
        where = f"in the file {said.file!r}" if said.file else "elsewhere"
        raise ProblemError(f"rows: are {where}; must be read with load_problem, from its folder")
    return said, RowReader(rows)


def _read_changes(tables: object, laws: KnownLaws) -> Iterator[Change]:
    """The changes of a list of TOML tables, counted from 1 in messages."""
    if not isinstance(tables, list):
        raise ProblemError(f"changes = {shown(tables)}: must be [[changes]] tables")
    for k, table in enumerate(tables, start=1):
        with at(f"change {k}"):
            entries = known_keys(table, ("at", "arms", "absent"))
            if not {"at", "arms"} <= set(entries):
                raise ProblemError(f"has {', '.join(entries) or 'nothing'}; must have at and arms")
        with within(f"change {k} (at {shown(entries['at'])})"):
            arms = read_arms(entries["arms"], "changes.arms", laws)
        with at(f"change {k}"):
            change = Change(entries["at"], arms, entries.get("absent", ()))
        yield change


def problem_text(problem: Problem, file: str | None = None) -> str:
    """The problem as TOML; with ``file``, only the numbers of rows, which are in that file.

    ``file`` is "" if the text does not name the file.
    """
    task, counts = problem.stated, file is not None
    head = task.head_table() | {"absent": list(problem.absent), "caveat": problem.caveat}
    if file is not None:
        weighted = any(one[0].weights is not None for one in problem.observed_columns())
        head["rows"] = FileOfRows(problem.rows_digest, file, weighted).table()
    if problem.features is not None:
        head["contexts"] = problem.features.table()
    if problem.typed:
        head["contexts"] = dict(problem.shares)
        return "".join([entries_text(head), *_typed_texts(problem, counts=counts)]).lstrip()
    arms = stated_arms(problem.arms)
    texts = [entries_text(head), *arm_texts(arms, "arms", task, counts=counts)]
    for change in problem.changes:
        entries = {"at": change.at, "absent": list(change.absent)}
        texts.append(f"\n[[changes]]\n{entries_text(entries)}")
        texts += arm_texts(change.arms, "changes.arms", task, counts=counts)
    return "".join(texts).lstrip()


def save_problem(problem: Problem, target: str) -> list[str]:
    """Write a problem to the file ``target``; see :meth:`Problem.save`."""
    stem, suffix = os.path.splitext(target)
    if suffix != ".toml":
        raise ProblemError(f"file {target!r}: must end in .toml")
    require_writable(target)
    if problem.row_count <= FEW_ROWS:
        write_text(target, problem.to_toml())
        return [target]
    beside = f"{stem}.parquet"
    if os.path.exists(beside) and not os.path.exists(target):
        allowed = "another name, because the rows would replace that file"
        raise ProblemError(
            f"file {target!r}: {beside!r} exists and is not of it; must be {allowed}"
        )
    wheres = [f", type {kind}" for kind in problem.shares]
    wheres = wheres or ["", *(f", after change {j + 1}" for j in range(len(problem.changes)))]
    counts = {
        f"{arm.name}{where}": len(columns[0].values)
        for where, arms in zip(wheres, problem.arms_by_phase, strict=True)
        for arm in stated_arms(arms)
        if (columns := row_columns(arm))
    }
    with whole_file(beside) as file:
        write_parquet(file, problem.observed_rows(), problem.told_channels, counts)
    write_text(target, problem_text(problem, os.path.basename(beside)))
    return [target, beside]
