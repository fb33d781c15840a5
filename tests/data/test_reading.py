"""Logs from frames, CSV, Parquet and exports: the same rows whatever they come from."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from tightrope import Log, Problem, TightropeError, read_log
from tightrope.data import columns, sources
from tightrope.errors import InputError, LogWarning

COLUMNS = {"arm": "model", "cost": "usd", "reward": "score", "penalty": ["bad"]}
HEADER = "model,usd,score,bad\n"


@pytest.fixture(scope="module")
def table():
    """Names with commas and quotes, numbers with all their digits, a flag."""
    draws = np.random.default_rng(4)
    names = ['a, "b"', "é", "haiku", "10", "9"]
    return {
        "time": list(range(200)),
        "model": [names[k] for k in draws.integers(0, 5, 200)],
        "usd": draws.random(200).tolist(),
        "score": draws.integers(0, 9, 200).tolist(),
        "bad": (draws.random(200) < 0.3).tolist(),
        "p": draws.uniform(0.1, 1, 200).tolist(),
    }


def same(one: Log, two: Log) -> bool:
    return (
        one.arms == two.arms
        and one.penalties == two.penalties
        and np.array_equal(one.chosen, two.chosen)
        and np.array_equal(one.outcomes, two.outcomes)
    )


def by_hand(table):
    """The log by plain Python."""
    arms = ("9", "10", 'a, "b"', "haiku", "é")  # numbers by size, then words
    chosen = np.array([arms.index(name) for name in table["model"]])
    outcomes = np.array([table["usd"], table["score"], table["bad"]], dtype=float)
    return Log(arms, ("bad",), chosen, outcomes)


def write_csv(path, table, separator=","):
    with open(path, "w", newline="") as file:
        writer = csv.writer(file, delimiter=separator)
        writer.writerow(table)
        writer.writerows(zip(*table.values(), strict=True))
    return path


LIBRARIES = {"dict": dict, "pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}


@pytest.mark.parametrize("frame", LIBRARIES.values(), ids=LIBRARIES)
def test_every_library_gives_the_same_log(table, frame):
    found = read_log(frame(table), **COLUMNS, propensity="p")
    assert same(found, by_hand(table))
    assert found.propensity.tolist() == table["p"]


def test_other_types_of_columns(table):
    expected = by_hand(table)
    frame = pd.DataFrame(table)
    frame["model"] = frame["model"].astype("category")
    frame["bad"] = frame["bad"].astype("boolean")
    frame["usd"] = frame["usd"].astype("Float64")
    assert same(read_log(frame, **COLUMNS), expected)
    frame = pl.DataFrame(table).with_columns(pl.col("model").cast(pl.Categorical))
    frame = frame.with_columns(
        pl.col("usd").cast(pl.String), pl.col("score").cast(pl.Decimal(9, 2))
    )
    assert same(read_log(frame, **COLUMNS), expected)
    mixed = pd.DataFrame(table).astype(object)
    mixed.loc[0, "usd"] = Decimal(repr(table["usd"][0]))
    assert same(read_log(mixed.astype({"usd": float}), **COLUMNS), expected)


def test_arms_that_are_numbers():
    found = read_log({"arm": [10, 9, 10], "x": [1, 2, 3]}, arm="arm", cost="x", reward=0.5)
    assert found.arms == ("9", "10")
    assert found.outcomes.tolist() == [[1, 2, 3], [0.5, 0.5, 0.5]]
    assert found.chosen.tolist() == [1, 0, 1]
    missing = pd.DataFrame({"arm": [10, None], "x": [1, 2]})  # pandas makes these floats
    with pytest.warns(LogWarning, match="1 of 2 rows are dropped"):
        found = read_log(missing, arm="arm", cost="x", reward=1, drop_missing=True)
    assert found.arms == ("10",)


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("reader", ["pyarrow", "python"])
def test_every_reader_of_csv_gives_the_same_log(table, tmp_path, monkeypatch, reader, separator):
    path = write_csv(tmp_path / "log.csv", table, separator)
    used = []
    monkeypatch.setattr(sources, "find_spec", lambda name: name in (reader, "narwhals"))
    slow = sources._by_python
    monkeypatch.setattr(sources, "_by_python", lambda *a: used.append(1) or slow(*a))
    assert same(read_log(path, **COLUMNS), by_hand(table))
    assert bool(used) == (reader == "python")


@pytest.mark.parametrize("reader", ["polars", "pyarrow"])
def test_parquet(table, tmp_path, monkeypatch, reader):
    path = tmp_path / "log.parquet"
    pl.DataFrame(table).write_parquet(path)
    monkeypatch.setattr(sources, "find_spec", lambda name: name in (reader, "narwhals"))
    assert same(read_log(path, **COLUMNS), by_hand(table))


GOOD = {
    "bom": "\ufeff" + HEADER + "a,1,2,0\nb,1,1,1\n",
    "windows": HEADER.replace("\n", "\r\n") + "a,1,2,0\r\nb,1,1,1\r\n",
    "old mac": HEADER.replace("\n", "\r") + "a,1,2,0\rb,1,1,1\r",
    "empty lines": HEADER + "a,1,2,0\n\nb,1,1,1\n\n\n",
    "spaces": " model , usd,score,bad\n a , 1 , 2,0\nb,1, 1.0 ,1\n",
    "words": HEADER + "a,1,2,False\nb,1,1,true\n",
    "quotes": HEADER + '"a","1",2,0\n"b",1,"1",1\n',
}


@pytest.mark.parametrize("name", GOOD)
@pytest.mark.parametrize("reader", ["pyarrow", "python"])
def test_harmless_oddities(tmp_path, monkeypatch, name, reader):
    path = tmp_path / "log.csv"
    path.write_bytes(GOOD[name].encode())
    monkeypatch.setattr(sources, "find_spec", lambda name: name in (reader, "narwhals"))
    found = read_log(path, **COLUMNS)
    assert found.arms == ("a", "b")
    assert found.outcomes.tolist() == [[1, 1], [2, 1], [0, 1]]


BAD = {
    "": "is empty; must have a line of column names",
    "\n\n": "is empty",
    HEADER: "has no rows; must have at least one",
    HEADER + "a,1,2,0\na,one,1,0\n": "row 2 (without the header), column 'usd': 'one' must be a",
    HEADER + "a,1,2,0\na,1,-1,1\n": "row 2 (without the header), column 'score': reward = -1.0",
    HEADER
    + "a,inf,2,0\n": "row 1 (without the header), column 'usd': cost = inf: must be a number",
    HEADER + "a,1e400,2,0\n": "cost = inf: must be a number from 0 to 1e+30",
    HEADER + f"a,{'9' * 40},2,0\n": "cost = 1e+40",
    HEADER + "a,1,2,0\nb,,2,0\nb,NA,2,0\n": "row 2 (without the header), column 'usd': cost is"
    " missing, as in 1 other row; --drop-missing",
    HEADER + "a,1,2,0\n,1,2,0\n": "row 2 (without the header), column 'model': arm is missing;",
    HEADER + "a,1,2,0\na,1,2\n": "row 2 (without the header): has 3 fields; must have 4",
    HEADER + "a,1,2,0,5\n": "row 1 (without the header): has 5 fields; must have 4",
    HEADER + 'a,"1,000",2,0\n': "'1,000' must be a number",
    HEADER + "a,1_0,2,0\n": "'1_0' must be a number",
    "model,usd,usd,score,bad\na,1,1,1,0\n": "2 columns are called 'usd' (cost); names must differ",
    "model,usd,skore,bad\na,1,1,0\n": "no column 'score' (reward); did you mean 'skore'?",
    "a\0b,c\n": "first line holds a zero byte",
}


@pytest.mark.parametrize("text", BAD)
@pytest.mark.parametrize("reader", ["pyarrow", "python"])
def test_a_fault_is_one_line_with_its_place(tmp_path, monkeypatch, text, reader):
    path = tmp_path / "log.csv"
    path.write_text(text)
    monkeypatch.setattr(sources, "find_spec", lambda name: name in (reader, "narwhals"))
    with pytest.raises(InputError) as error:
        read_log(path, **COLUMNS)
    assert BAD[text] in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("drop_missing", [False, True])
@pytest.mark.parametrize("reader", ["pyarrow", "python"])
def test_a_quote_that_never_closes_is_refused(tmp_path, monkeypatch, reader, drop_missing):
    """In any column, read or not."""
    path = tmp_path / "log.csv"
    monkeypatch.setattr(sources, "find_spec", lambda name: name in (reader, "narwhals"))
    rows = [["a", "1", "2", "0", "fine"] for _ in range(20_000)]
    for row, column in ((1, 0), (5, 4), (19_990, 2), (20_000, 4)):
        text = [list(one) for one in rows]
        text[row - 1][column] = '"' + text[row - 1][column]
        head = HEADER.replace("\n", ",note\n")
        path.write_text(head + "\n".join(map(",".join, text)))
        with pytest.raises(InputError) as error:
            read_log(path, **COLUMNS, drop_missing=drop_missing)
        told = f"row {row:,} (without the header): opens a quote; must close it"
        long = f"row {row:,} (without the header): field larger than field limit (131072); is a q"
        assert (told if 20_000 - row < 1000 else long) in str(error.value)
    path.write_text(HEADER.replace("bad", '"bad') + "a,1,2,0\n")
    with pytest.raises(InputError):
        read_log(path, **COLUMNS, drop_missing=drop_missing)


@pytest.mark.parametrize("reader", ["pyarrow", "python"])
def test_quotes_that_are_no_fault(tmp_path, monkeypatch, reader):
    """Texts of several lines, doubled quotes, and a single one within a text, such as of inches."""
    path = tmp_path / "log.csv"
    monkeypatch.setattr(sources, "find_spec", lambda name: name in (reader, "narwhals"))
    for text in ('"two\nlines"', '"a ""word"" or\n""two"""', '5" pipe', '""', '"""\n"""'):
        for end in ("\n", ""):
            path.write_text(HEADER.replace("\n", ",note\n") + f"a,1,2,0,\nb,1,1,1,{text}{end}")
            found = read_log(path, **COLUMNS)
            assert (found.arms, len(found)) == (("a", "b"), 2), text


FIELDS = (
    'a|b|é| a ||"x"|"a,b"|"q""q"|1|0.5| 2|1e3|true|False|-1|nan|inf|NA|1_0|0x1|1e400|９|NaN|+3|1.'
    "|1e-400|.5|'|-0|TRUE|null|Infinity|1d|1e"
).split("|")


def test_readers_agree_on_files_full_of_oddities(tmp_path, monkeypatch):
    """Each gives the same log, or refuses with the same words; the more common, the more often."""
    draws, path, read = np.random.default_rng(5), tmp_path / "log.csv", 0
    for _ in range(150):
        rows = [["m", "x", "y"]]
        for _ in range(draws.integers(0, 6)):
            name, number = (int(draws.integers(0, k)) for k in (8, 6))
            odd = draws.random(2) < 0.1
            rows.append(
                [
                    FIELDS[draws.integers(len(FIELDS))] if odd[0] else FIELDS[name],
                    FIELDS[draws.integers(len(FIELDS))] if odd[1] else FIELDS[8 + number],
                    "0.25",
                ]
            )
        end = ("\n", "\r\n", "\n\n")[draws.integers(3)]
        path.write_bytes(end.join(",".join(row) for row in rows).encode())
        found = []
        for reader in ("pyarrow", "python"):
            monkeypatch.setattr(
                sources, "find_spec", lambda name, r=reader: name in (r, "narwhals")
            )
            try:
                log = read_log(path, arm="m", cost="x", reward="y")
                found.append((log.arms, log.chosen.tolist(), log.outcomes.tolist()))
                read += 1
            except InputError as error:
                found.append(str(error))
        assert found[0] == found[1], path.read_text()
    assert 40 < read < 260, "some are read, some refused"


def test_texts_of_several_lines_are_read_fast(tmp_path, monkeypatch):
    """Also where they lie across the blocks that pyarrow reads, of a megabyte each."""
    path, count = tmp_path / "log.csv", 60_000
    texts = ["p", '"two\nlines"', '"1\nb,b,3,4\nb,x,1,1\nc,y,2,2"']
    lines = [f"{'bc'[k % 2]},{texts[k % 3]},{k % 7},1" for k in range(count)]
    path.write_text("\n".join(["m,note,x,y", *lines]) + "\n")
    assert path.stat().st_size > 2**20
    monkeypatch.setattr(sources, "_by_python", None)
    found = read_log(path, arm="m", cost="x", reward="y")
    assert np.array_equal(found.chosen, np.arange(count) % 2)
    assert np.array_equal(found.outcomes[0], np.arange(count) % 7)


MEMORY = """
import resource, sys
from tightrope import read_log
roles = dict(arm="model", cost="usd", reward="score", penalty="bad")
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
for _ in range(2):
    read_log(sys.argv[1], **roles)  # whatever reading needs once
before, log = peak(), read_log(sys.argv[2], **roles)
print((peak() - before) / (log.chosen.nbytes + log.outcomes.nbytes))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems count memory in other units")
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_reading_takes_at_most_twice_the_memory_of_the_columns(tmp_path, suffix):
    random = np.random.default_rng(1)
    for name, count in (("few", 1000), ("many", 2_000_000)):
        arms = np.array(["haiku", "sonnet", "opus"])[random.integers(3, size=count)]
        numbers = {name: random.random(count).round(6) for name in ("usd", "score", "bad")}
        frame = pl.DataFrame({"model": arms, **numbers, "prompt": ["what is it?"] * count})
        write = frame.write_csv if suffix == "csv" else frame.write_parquet
        write(tmp_path / f"{name}.{suffix}")
    paths = [str(tmp_path / f"{name}.{suffix}") for name in ("few", "many")]
    code = [sys.executable, "-c", MEMORY, *paths]
    found = subprocess.run(code, capture_output=True, text=True, check=True)
    assert float(found.stdout) < 2.0


def test_a_column_may_have_several_roles(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("k,x\n1,0.5\n2,0.25\n")
    found = read_log(path, arm="k", cost="x", reward="x", penalty={"bad": "k"})
    assert found.outcomes.tolist() == [[0.5, 0.25], [0.5, 0.25], [1.0, 2.0]]


def test_bytes_that_are_no_text(tmp_path):
    path = tmp_path / "log.csv"
    for content in (b"\xff\xfe\x00garbage", HEADER.encode() + "é,1,2,0\n".encode("latin-1")):
        path.write_bytes(content)
        with pytest.raises(InputError, match="must be UTF-8 text"):
            read_log(path, **COLUMNS)
    other = tmp_path / "log.parquet"
    other.write_bytes(b"PAR1 not really")
    with pytest.raises(InputError, match="must be a Parquet file"):
        read_log(other, **COLUMNS)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("/nowhere/log.csv", "there is no such file"),
        ("/tmp", "must be a file"),
        (5, "source = a builtins int: must be an eager data frame"),
        (pl.DataFrame({"model": ["a"]}).lazy(), "must be an eager data frame"),
        ({"model": ["a", "b"], "usd": [1]}, "must be columns of one length"),
    ],
    ids=str,
)
def test_sources_that_are_no_logs(source, message):
    with pytest.raises(InputError, match=message):
        read_log(source, **COLUMNS)


def test_roles_that_are_no_columns(tmp_path):
    frame = {"model": ["a"], "usd": [1.0], "when": np.array(["2026-01-01"], "datetime64[ms]")}
    for given, message in (
        ({"arm": "model", "reward": 1}, "cost is missing; must be a column: model, usd"),
        ({"arm": 3, "cost": 1, "reward": 1}, "arm = 3: must be the name of a column"),
        ({"arm": "model", "cost": 1, "reward": 1, "penalty": ["usd"] * 2}, "is given twice"),
        ({"arm": "model", "cost": 1, "reward": 1, "penalty": 5}, "penalty = 5: must be names"),
        ({"arm": "model", "cost": "when", "reward": 1}, "must be numbers"),
        ({"arm": "model", "cost": 1, "reward": 1, "format": "xml"}, "format = 'xml': known: csv"),
    ):
        source = pl.DataFrame(frame) if "format" not in given else tmp_path / "x"
        with pytest.raises(InputError, match=message):
            read_log(source, **given)
    path = tmp_path / "log.weird"
    path.touch()
    with pytest.raises(InputError, match=r"must end in one of \.csv"):
        read_log(path, **COLUMNS)
    twice = pd.DataFrame([["a", 1.0, 2.0]], columns=["model", "usd", "usd"])
    with pytest.raises(InputError, match="usd"):
        read_log(twice, arm="model", cost="usd", reward=1)


def test_a_role_without_a_column_gets_the_columns_and_a_typing_error_the_nearest():
    columns = {"Model": ["a"], "usd": [1.0], "score": [1.0]}
    with pytest.raises(InputError, match=r"cost is missing; must be a column: Model, usd, score$"):
        read_log(columns, arm="Model", reward="score")
    with pytest.raises(InputError, match=r"no column 'model' \(arm\); did you mean 'Model'\?"):
        read_log(columns, arm="model", cost="usd", reward="score")
    with pytest.raises(InputError, match=r"^arm is missing"):
        read_log(columns, cost="usd", reward="score", interval=(0, 1))


def test_missing_values_are_left_out_and_counted():
    frame = pl.DataFrame(
        {"model": ["a", None, "b", "b"], "usd": [1.0, 1.0, None, 2.0], "score": [1, 1, None, 0]}
    )
    wanted = {"arm": "model", "cost": "usd", "reward": "score"}
    with pytest.warns(LogWarning, match="2 of 4 rows are dropped.* model in 1, usd in 1, score"):
        found = read_log(frame, **wanted, drop_missing=True)
    with pytest.warns(LogWarning) as caught:
        Problem.from_frame(frame, **wanted, drop_missing=True)
    assert {one.filename for one in caught} == {__file__}  # at the caller's line
    assert found.chosen.tolist() == [0, 1]
    assert found.outcomes.tolist() == [[1, 2], [1, 0]]
    with pytest.raises(InputError, match="every row lacks a value"):
        read_log(frame[1:3], **wanted, drop_missing=True)


@pytest.mark.parametrize("share", [0.0, 1.5, -0.1, 5e-324])
def test_a_propensity_is_a_probability(share):
    frame = {"m": ["a", "a"], "p": [0.5, share]}
    with pytest.raises(
        InputError, match=r"row 2 .*'p': propensity = .*must lie above 0, at most 1"
    ):
        read_log(frame, arm="m", cost=1, reward=1, propensity="p")


def test_penalties_by_other_names_and_a_column_in_two_roles():
    frame = {"m": ["a", "b"], "usd": [0.5, 0.25], "flag": [1, 0]}
    found = read_log(
        frame, arm="m", cost=1, reward="flag", penalty={"dollars": "usd", "bad": "flag"}
    )
    assert found.channels == ("cost", "reward", "dollars", "bad")
    assert found.outcomes.tolist() == [[1, 1], [1, 0], [0.5, 0.25], [1, 0]]


def test_what_is_missing_is_said_with_the_command(monkeypatch, tmp_path):
    path = tmp_path / "log.parquet"
    path.touch()
    for module in (columns, sources):
        monkeypatch.setattr(module, "find_spec", lambda name: False)
    with pytest.raises(TightropeError, match="narwhals, which is not installed; pip install"):
        read_log(path, **COLUMNS)
    for module in (columns, sources):
        monkeypatch.setattr(module, "find_spec", lambda name: name == "narwhals")
    with pytest.raises(
        TightropeError, match="pyarrow or polars, which are not installed; pip install"
    ):
        read_log(path, **COLUMNS)


def test_an_export_that_is_none(tmp_path):
    path, event = tmp_path / "log.jsonl", {"seq": 1, "at": 0, "ticket": "x", "who": "me"}
    for text, message in (
        ("", "is empty"),
        ("{}\n", "line 1: must be an event"),
        ("nonsense\n", "line 1: must be an event"),
        (json.dumps({**event, "kind": "expired", "body": {}}), "first events are missing"),
        (json.dumps({**event, "kind": "created", "body": {"state": "abc"}}), "line 1"),
        (json.dumps({"kind": "told", "body": {}, "ticket": "x"}), "line 1: must be an event"),
    ):
        path.write_text(text)
        with pytest.raises(InputError, match=message), warnings.catch_warnings():
            read_log(path)
    with pytest.raises(InputError, match="arm = 'model': must be left out"):
        read_log(path, arm="model")


def test_a_decimal_comma_and_latin_1_come_with_their_remedy(tmp_path):
    path = tmp_path / "log.csv"
    for number, point in (("2,5", "2.5"), ("-0,25", "-0.25"), ("1.234,5", "1234.5")):
        path.write_text(f"model;usd;score;bad\na;{number};1;0\n")
        with pytest.raises(InputError, match=rf"with a decimal point: {point}; .*decimal=','"):
            read_log(path, **COLUMNS)
    path.write_text("model;usd;score;bad\na;2 dollars;1;0\n")
    with pytest.raises(InputError, match=r"'2 dollars' must be a number$"):
        read_log(path, **COLUMNS)
    for number, plain in (("$2.50", "2.5"), ("4%", "0.04"), ("1,250.5", "1250.5")):
        path.write_text(f"model;usd;score;bad\na;{number};1;0\n")
        with pytest.raises(InputError, match=f"must be a number, without signs: {plain}$"):
            read_log(path, **COLUMNS)
    path.write_text("model;usd;score;bad\na;1;1;no\n")
    with pytest.raises(InputError, match=r"'no' must be a number; write 1 for yes and 0 for no$"):
        read_log(path, **COLUMNS)
    path.write_text("model;usd;score;bad\na;1;1;0\n", encoding="utf-16")
    with pytest.raises(InputError, match="as it is UTF-16, convert it with: iconv -f utf16 -t utf"):
        read_log(path, **COLUMNS)
    for rows in ("caf\xe9;1;1;0\n", "a;1;1;0\n" * 200_000 + "caf\xe9;1;1;0\n"):
        path.write_bytes(("model;usd;score;bad\n" + rows).encode("latin-1"))
        with pytest.raises(InputError, match=r"iconv -f latin1 -t utf-8 \S+log.csv > new-log.csv"):
            read_log(path, **COLUMNS)


@pytest.mark.parametrize("name", ["log.csv", "log.parquet", "log.jsonl", "LOG.CSV"])
def test_a_log_in_place_of_a_problem_points_to_fit(tmp_path, monkeypatch, name, shell):
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_text("a,c\n")
    for command in (("simulate", name, "--budget", "5"), ("plan", name, "--budget", "5")):
        status, _, told = shell(*command)
        assert status == 2
        assert f"tightrope fit {name}" in told


def test_a_parquet_file_with_another_name_is_named(tmp_path):
    path = tmp_path / "log.csv"
    pl.DataFrame({"model": ["a", "b"], "usd": [1.0, 2.0]}).write_parquet(path)
    with pytest.raises(InputError, match=r"log\.csv': is a Parquet file; its name must end in"):
        read_log(path, arm="model", cost="usd", reward=1)
    found = read_log(path, arm="model", cost="usd", reward=1, format="parquet")
    assert found.outcomes[0].tolist() == [1.0, 2.0]


def test_an_empty_name_of_a_log():
    with pytest.raises(InputError, match=r"^log '': must be the name of a file$"):
        read_log("", arm="model", cost=1, reward=1)
