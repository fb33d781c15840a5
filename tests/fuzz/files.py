"""Files that the program wrote, damaged from a seed, for the commands that read them."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import sqlite3
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from unittest.mock import patch

from tests.fuzz.inputs import EDGES, NOT_NUMBERS, WORDS, Draw
from tests.fuzz.running import Outcome, judged, status_of
from tests.live.cheap import Rotation
from tightrope import Controller, Features, Limit, Results, Task, open_campaign
from tightrope.client.answers import Ticket
from tightrope.client.spool import Spool
from tightrope.errors import StoreError, TightropeError
from tightrope.live.archive import archive_events, exported
from tightrope.live.stores.sqlite import SQLiteStore
from tightrope.live.verification import verified
from tightrope.policies.naming import trust_policy
from tightrope.service.keys import Key, digest_of, write_keys

__all__ = ["Damaged", "Files"]

START = 1_700_000_000_000_000  # microseconds: what is written is the same every time
COLUMNS = "--arm arm --cost cost --reward reward"
FITTED = f"{COLUMNS} --limit bad=50%/pull"
SIMULATED = "--backend python --budget 10 --runs 3 --policy uniform-random --quiet --json"
SHARES = "--propensity chance --mixture a=0.4,b=0.3,c=0.3 --json"
URL = "http://127.0.0.1:1"
PART = "parts/part-00000-00000000.npz"
NEEDS = {"problem.toml": ["problem.parquet"], "parts": [PART]}
STORES = {"plain.db": "", "typed.db": " --context x", "featured.db": " --context 0.5"}
WORDS_OF_A_CAMPAIGN = [
    *("status", "verify", "export", "outlook --json", "events", "tickets", "notes", "quarantine"),
    *("why lead-3", "pause", "archive old.jsonl --before 20"),
]
COMMANDS = [
    *(f"{name} {store}" for store in STORES for name in ["verified"] * 4),
    *(f"campaign ask {store} one --json{context}" for store, context in STORES.items()),
    *(
        f"campaign {name} {store} one {more}"
        for store in STORES
        for name, _, more in (word.partition(" ") for word in WORDS_OF_A_CAMPAIGN)
    ),
    *("campaign list plain.db", "campaign restore plain.db new.db"),
    *("campaign restore featured.db new.db", "campaign backup typed.db new.db"),
    *("fit export.jsonl --format campaign --json", "fit export.jsonl --format campaign"),
    *["fit rest.jsonl --format campaign --archive archive.jsonl --json"] * 2,
    "campaign change rest.db one --policy fixed-arm:arm=1 --archive archive.jsonl",
    *(f"fit log.csv {FITTED} --json", f"fit log.csv {FITTED} --context type -o new.toml"),
    *(f"fit log.csv {FITTED} --features size --json", f"replay log.csv {FITTED} {SHARES}"),
    *(f"fit log.parquet {FITTED} --json", f"fit log.parquet {FITTED} --context type --json"),
    *(f"replay log.parquet {FITTED} {SHARES}", f"fit log.parquet {FITTED} --drop-missing"),
    *["oracle problem.toml --json", f"simulate problem.toml {SIMULATED}"] * 2,
    *("theory problem.toml --budget 1000 --json", "problems problem.toml"),
    *["loaded results.npz"] * 3,
    *["restored snapshot"] * 3,
    *[f"simulate paper {SIMULATED} --checkpoint parts"] * 3,
    *("keys list keys.toml --json", "keys add keys.toml new --role admin", "keys list keys.toml"),
    *["spooled spool.db"] * 4,
]  # fmt: skip
SEALED = ("verified", "loaded", "restored", "simulate paper")  # whose files tell of all damage


@dataclass(frozen=True)
class Damaged:
    """A command, the files that it reads, and which of them was damaged, how."""

    line: str
    files: dict[str, bytes]
    name: str
    how: str

    def __str__(self) -> str:
        size = len(self.files[self.name])
        return f"tightrope {self.line}\n{self.name} is {self.how} ({size} bytes)"


class Files:
    """The sound files, written once, and a folder in which the commands run."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._sound = folder / "work", folder / "sound"
        self.folder.mkdir()
        self._sound.mkdir()
        trust_policy("tests.live.cheap:Rotation")
        with _inside(self._sound), _same_every_time(), warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            _write_stores()
            _write_logs()
            _write_others()
        paths = [one for one in sorted(self._sound.rglob("*")) if one.is_file()]
        paths = [one for one in paths if one.name != "lock"]
        self.sound = {str(path.relative_to(self._sound)): path.read_bytes() for path in paths}
        self._said = dict[str, str]()  # by the commands on sound files

    def damaged(self, seed: int, number: int) -> Damaged:
        """Input ``number`` of a seed: always the same."""
        draw = Draw(f"files {seed} {number}")
        line = draw.choice(COMMANDS)
        files = self._read_by(line)
        name = draw.choice(list(files))
        how = list[str]()
        body, kept = (
            _without_footer(files[name]) if name.endswith(".parquet") else (files[name], b"")
        )
        for _ in range(draw.choice([1, 1, 1, 2, 4])):
            ways = [*WAYS, *[cell] * 6] if name.endswith(".db") else WAYS
            way = draw.choice(ways)
            body = way(draw, body, self)
            how.append(way.__name__)
        files[name] = body + kept
        return Damaged(line, files, name, ", ".join(how))

    def _read_by(self, line: str) -> dict[str, bytes]:
        words = line.split()
        names = [name for word in words for name in (word, *NEEDS.get(word, []))]
        return {name: self.sound[name] for name in names if name in self.sound}

    def run(self, one: Damaged) -> Outcome:
        """Run a command; one whose file tells of all damage must say what it said before."""
        found = self._ended(one.line, one.files)
        if found or found.status != 0 or not one.line.startswith(SEALED):
            return found
        if one.line not in self._said:
            self._said[one.line] = _untimed(self._ended(one.line, self._read_by(one.line)).out)
        if _untimed(found.out) == self._said[one.line]:
            return found
        return Outcome.of("damage was not noticed, and the answer differs", 0, found.seconds)

    def _ended(self, line: str, files: dict[str, bytes]) -> Outcome:
        shutil.rmtree(self.folder)
        for name, content in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        words = line.split()
        act = FUNCTIONS.get(words[0])
        with _inside(self.folder):
            if act is None:
                return judged(words, lambda: status_of(words), fails=True)
            return judged(words, lambda: _status(act, words[1]), fails=True)


def _status(act: Callable[[str], object], path: str) -> int:
    """A function as a command: it prints what it returns, or an error in one line."""
    try:
        print(act(path))
    except TightropeError as error:
        print(f"tightrope: {error}", file=sys.stderr)
        return 2
    return 0


@contextmanager
def _inside(folder: Path) -> Iterator[None]:
    here = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(here)


@contextmanager
def _same_every_time() -> Iterator[None]:
    """With clocks that count, and without salts."""
    clocks = {name: count(START / 1e6, 1e-6).__next__ for name in ("time", "perf_counter")}
    with patch.multiple("time", **clocks), patch("os.urandom", bytes):
        yield


def _untimed(out: str) -> str:
    return re.sub(r'"\w*seconds": [^,\n]+', "", out)


# --- sound files --------------------------------------------------------------------------


def _write_stores() -> None:
    """Campaigns of each kind, and one whose first events are in an archive."""
    ticks = count(START, 1000)
    limits = {"bad": Limit(0.4, per="pull")}
    for path, contexts, given in [
        ("plain.db", None, None),
        ("typed.db", ["x", "y"], ["x", "y"]),
        ("featured.db", Features(["size"], erasable=True), [[0.25], [1.5]]),
        ("rest.db", None, None),
    ]:
        task = Task(["a", "b"], limits, costs=1, contexts=contexts)
        store = SQLiteStore(path, clock=lambda: next(ticks))
        more = {"task": task, "budget": 80, "policy": Rotation(), "who": "fuzz"}
        with open_campaign(store, "one", **more) as campaign:
            for n in range(60):
                asked = {} if given is None else {"context": given[n % 2]}
                ticket = campaign.ask(f"lead-{n}", **asked)
                if n % 7 == 6:
                    campaign.void(ticket)
                elif n % 7 or n < 50:
                    campaign.tell(ticket, reward=n % 3 / 2, penalty=n % 5 == 0)
            if path == "plain.db":
                Path("export.jsonl").write_text(
                    "".join(f"{one}\n" for one in exported(store, "one"))
                )
            if path == "rest.db":
                archive_events(campaign, "archive.jsonl", 50)
                Path("rest.jsonl").write_text("".join(f"{one}\n" for one in exported(store, "one")))
        store.close()


def _write_logs() -> None:
    """A log as CSV and as Parquet, and the problem of its rows, which are too many for a TOML."""
    from pyarrow import csv, parquet

    draw = Draw(7)
    rows = [
        f"{'abc'[n % 3]},{draw.random():.3f},{n % 2},{n % 4 // 3},{'xy'[n % 2]},0.3333,{n / 9:.2f}"
        for n in range(510)
    ]
    Path("log.csv").write_text("\n".join(["arm,cost,reward,bad,type,chance,size", *rows, ""]))
    parquet.write_table(csv.read_csv("log.csv"), "log.parquet")
    _silently(f"fit log.csv {FITTED} -o problem.toml")


def _write_others() -> None:
    _silently(f"simulate paper {SIMULATED} --checkpoint parts --save results.npz")
    next(Path("parts").glob("part-*")).rename(PART)
    controller = Controller(Task(["a", "b"], {"bad": Limit(0.4)}), budget=50.0, policy=Rotation())
    for n in range(20):
        controller.tell(controller.ask(), 0.5, n % 2, n % 3 == 0)
    Path("snapshot").write_bytes(controller.snapshot())
    keys = [Key("ops", digest_of("a"), ("admin",)), Key("x", digest_of("b"), ("read",), ("one",))]
    write_keys("keys.toml", keys)
    spool = Spool("spool.db", URL)
    table = {"arm": "a", "number": 0, "reserved": 1.0, "expires_at": "2090-01-01T00:00:00+00:00"}
    spares = [(Ticket.of_table({"id": f"s-{n}", **table}), 3.8e9) for n in range(4)]
    spool.answered("one", spares, ["v-1"], [])
    for n in range(5):
        number = spool.put("one", "reports", {"id": f"r-{n}", "cost": 0.5, "reward": 1.0}, set())
        spool.want("one", [{"id": f"w-{n}", "ttl_s": 60.0}], spare=n % 2 == 0)
    spool.settle([one for one in spool.next_entries(99) if one.number == number], [])
    spool.close()


def _silently(line: str) -> None:
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        assert status_of(line.split()) == 0, line


# --- functions that read ------------------------------------------------------------------


def _verified(path: str) -> str:
    """The log and the status of a campaign, if it is verified."""
    store = SQLiteStore(path, clock=lambda: START + 10**6, create=False)
    try:
        found = verified(store, "one", Rotation())
        if not found.good:
            raise StoreError(found.wrong[0])
        status = open_campaign(store, "one", policy=Rotation()).status()
        return "\n".join([*exported(store, "one"), json.dumps(status)])
    finally:
        store.close()


def _loaded(path: str) -> str:
    found = Results.load(path)
    return f"{found!r} {[vars(row) for row in found.rows()]}"


def _restored(path: str) -> str:
    found = Controller.restore(Path(path).read_bytes(), policy=Rotation())
    return f"{found!r} {found.pulls} {found.means} {found.spent} {found.ask()}"


def _spooled(path: str) -> str:
    """Everything that a client reads from its spool."""
    spool = Spool(path, URL)
    try:
        spool.give_back(0.0)
        found = [spool.campaigns(), spool.waiting(), spool.refused(), spool.ready("one")]
        read = [spool.wanted("one"), spool.take("one"), spool.next_entries(99)]
        spool.settle(spool.next_entries(99), [])
        return repr([*found, *read])
    finally:
        spool.close()


FUNCTIONS: dict[str, Callable[[str], str]] = {
    "verified": _verified,
    "loaded": _loaded,
    "restored": _restored,
    "spooled": _spooled,
}


# --- damage -------------------------------------------------------------------------------


def _without_footer(data: bytes) -> tuple[bytes, bytes]:
    """A Parquet file and its footer: pyarrow 26 ends the process on some damaged footers."""
    at = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    return data[:at], data[at:]


def _span(draw: Draw, data: bytes) -> tuple[int, int]:
    """The start and the end of a piece, often short, and a page or a line at times."""
    at = draw.randrange(len(data) + 1)
    if draw.random() < 0.3:
        at -= at % 4096
    if draw.random() < 0.2:
        at = data.rfind(b"\n", 0, at) + 1
        return at, data.find(b"\n", at) + 1 or len(data)
    return at, at + draw.choice([1, 1, 2, 8, 60, 512, 4096])


def flipped(draw: Draw, data: bytes, _: Files) -> bytes:
    made = bytearray(data)
    whole = draw.choice([len(data), len(data), 110])
    for _number in range(draw.choice([1, 1, 1, 3, 20])):
        if made:
            made[draw.randrange(min(whole, len(made)))] ^= 1 << draw.randrange(8)
    return bytes(made)


def ended_otherwise(draw: Draw, data: bytes, _: Files) -> bytes:
    """Flipped in the last bytes, where Parquet and archives list their content."""
    made = bytearray(data)
    if made:
        made[-1 - draw.randrange(min(700, len(made)))] ^= 1 << draw.randrange(8)
    return bytes(made)


def deleted(draw: Draw, data: bytes, _: Files) -> bytes:
    start, end = _span(draw, data)
    return data[:start] + data[end:]


def inserted(draw: Draw, data: bytes, _: Files) -> bytes:
    start, end = _span(draw, data)
    more = [draw.randbytes(end - start), bytes(end - start), draw.choice(WORDS).encode()]
    return data[:start] + draw.choice(more) + data[start:]


def overwritten(draw: Draw, data: bytes, _: Files) -> bytes:
    start, end = _span(draw, data)
    more = draw.choice([draw.randbytes(end - start), bytes(end - start)])
    return data[:start] + more[: len(data) - start] + data[end:]


def cut(draw: Draw, data: bytes, _: Files) -> bytes:
    return data[: _span(draw, data)[0]]


def swapped(draw: Draw, data: bytes, _: Files) -> bytes:
    (a, b), (c, d) = sorted([_span(draw, data), _span(draw, data)])
    b = min(b, c)
    return data[:a] + data[c:d] + data[b:c] + data[a:b] + data[d:]


def repeated(draw: Draw, data: bytes, _: Files) -> bytes:
    start, end = _span(draw, data)
    return data[:end] + data[start:end] * draw.choice([1, 1, 3, 50]) + data[end:]


def spliced(draw: Draw, data: bytes, files: Files) -> bytes:
    other = files.sound[draw.choice(sorted(files.sound))]
    return data[: _span(draw, data)[0]] + other[_span(draw, other)[0] :]


def edged(draw: Draw, data: bytes, _: Files) -> bytes:
    """Some numbers replaced."""
    for _number in range(draw.choice([1, 1, 2, 5])):
        found = list(re.finditer(rb"-?\d+(\.\d+)?([eE][-+]?\d+)?", data))
        if found:
            one = draw.choice(found)
            text = draw.choice(EDGES if draw.random() < 0.75 else NOT_NUMBERS).encode()
            data = data[: one.start()] + text + data[one.end() :]
    return data


def cell(draw: Draw, data: bytes, files: Files) -> bytes:
    """A value in a table of SQLite replaced, or a row deleted; other files stay as they are."""
    path = files.folder.parent / "cell.db"
    path.write_bytes(data)
    other = sqlite3.connect(path)
    try:
        other.execute("PRAGMA journal_mode = MEMORY")
        names = other.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY 1")
        table = draw.choice([name for (name,) in names.fetchall()])
        (rows,) = other.execute(f'SELECT count(*) FROM "{table}"').fetchone()
        columns = other.execute(f'PRAGMA table_info("{table}")').fetchall()
        keys = [row[1] for row in columns if row[5]] or ["rowid"]  # some tables have no rowid
        column, at = draw.choice(columns)[1], draw.randrange(max(rows, 1))
        wanted = f'SELECT "{column}", {", ".join(keys)} FROM "{table}" LIMIT 1 OFFSET {at}'
        old, *known = other.execute(wanted).fetchone()
        new = _other_value(draw, old, files)
        where = " AND ".join(f"{key} IS ?" for key in keys)
        with other:
            if draw.random() < 0.1:
                other.execute(f'DELETE FROM "{table}" WHERE {where}', known)
            else:
                other.execute(f'UPDATE "{table}" SET "{column}" = ? WHERE {where}', [new, *known])
    except (
        sqlite3.Error,
        IndexError,
        TypeError,
        UnicodeError,
    ):  # it was damaged before, or is empty
        return data
    finally:
        other.close()
    return path.read_bytes()


def _other_value(draw: Draw, old: object, files: Files) -> object:
    if isinstance(old, (str, bytes)) and draw.random() < 0.8:
        data = old.encode() if isinstance(old, str) else old
        made = draw.choice([edged, edged, flipped, cut, deleted])(draw, data, files)
        return made.decode("utf-8", "replace") if isinstance(old, str) else made
    edge = draw.choice(EDGES)
    return draw.choice([None, edge, edge.encode(), b"", 0, -1, 2**63 - 1, 1e300, 0.5, "{}", "[]"])


WAYS: list[Callable[[Draw, bytes, Files], bytes]] = [
    *(flipped, flipped, ended_otherwise, deleted, inserted, overwritten, cut, swapped, repeated),
    *(spliced, edged, edged),
]
