from __future__ import annotations

import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
import warnings
from dataclasses import replace

import pytest
from matplotlib import image

from tests.report.test_page import Reader
from tightrope import cli
from tightrope.engine import checkpoint, cpu
from tightrope.engine.simulation import Interrupted, simulate
from tightrope.errors import InputError, OutsideTheoryWarning
from tightrope.paper import EXPERIMENTS, reproduce, reproduction
from tightrope.paper.figure1 import FIGURE1
from tightrope.report.table import flat

BUDGETS = (1000, 2000, 3000)
SMALL = replace(FIGURE1, sweep=(replace(FIGURE1.sweep[0], budgets=BUDGETS),))
NAMES = ["fig1.png", "fig1.svg", "fig1.pdf", "fig1.csv", "claims.csv", "index.html"]
TINY = replace(FIGURE1, sweep=(replace(FIGURE1.sweep[0], budgets=(20, 30)),))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    out = tmp_path_factory.mktemp("report") / "deep" / "out"
    with pytest.warns(OutsideTheoryWarning) as caught:
        report = reproduce(SMALL, runs=64, seed=3, out=out, progress=False)
    return out, report, caught


def test_files(made):
    out, report, _ = made
    assert [path.name for path in report.files] == NAMES
    assert sorted(os.listdir(out)) == sorted(NAMES)
    assert image.imread(out / "fig1.png")[..., :3].std() > 0.05
    pdf = (out / "fig1.pdf").read_bytes()
    assert pdf.startswith(b"%PDF-")
    assert b"Date" not in pdf


def test_rows_and_csv_agree_with_a_plain_simulation(made):
    out, report, _ = made
    (call,) = SMALL.sweep
    with warnings.catch_warnings(action="ignore"):
        results = simulate(
            call.load(), call.policies, budgets=BUDGETS, runs=64, seed=3, progress=False
        )
    timed = {"seconds", "compile_seconds"}
    assert len(report.rows) == 15
    for row, plain in zip(report.rows, results.summary(), strict=True):
        assert {key: row[key] for key in plain.keys() - timed} == {
            key: plain[key] for key in plain.keys() - timed
        }
        assert (row["experiment"], row["problem"]) == ("fig1", "paper")
        assert not timed & row.keys()
    with open(out / "fig1.csv", newline="") as file:
        lines = list(csv.DictReader(file))
    for line, row in zip(lines, report.rows, strict=True):
        for name, value in flat(row).items():
            if isinstance(value, float):
                assert float(line[name]) == value


def test_outside_theory_is_told_once_and_marked(made):
    _, report, caught = made
    (warning,) = caught
    assert "smallest budget inside the theory is about 2,790" in str(warning.message)
    assert str(warning.message).endswith("The same holds at budget 2000")
    marked = {(row["policy"], row["budget"]) for row in report.rows if row["outside_theory"]}
    assert marked == {("lyon:delta0=15", 1000.0), ("lyon:delta0=15", 2000.0)}
    assert any("2,790" in note for note in report.notes)


def test_the_page(made):
    out, report, _ = made
    html = (out / "index.html").read_text()
    reader = Reader(html)
    assert reader.open == []
    for text in (SMALL.title, "tightrope reproduce fig1 --runs 64 --seed 3", *report.notes):
        assert text in reader.text
    links = [a["href"] for tag, a in reader.tags if tag == "a"]
    assert links == NAMES[:-1]


def test_a_second_time_gives_the_same_pictures(made, tmp_path):
    out, _, _ = made
    with warnings.catch_warnings(action="ignore"):
        reproduce(SMALL, runs=64, seed=3, out=tmp_path, progress=False)
    for name in NAMES:
        assert (out / name).read_bytes() == (tmp_path / name).read_bytes()


def test_registry():
    assert all(name == experiment.name for name, experiment in EXPERIMENTS.items())
    with pytest.raises(InputError, match=r"experiment 'fig11' is unknown; known: 'fig1', .*'all'$"):
        reproduce("fig11")


def never(*_, **__):
    raise AssertionError("must not be called")


def test_a_folder_that_cannot_be_written_fails_before_the_work(tmp_path, monkeypatch):
    monkeypatch.setattr(cpu.LanesPlan, "run", never)
    (tmp_path / "file").write_text("mine")
    for out in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(InputError, match="must be a folder"):
            reproduce(TINY, out=out)
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.filterwarnings("ignore::tightrope.errors.OutsideTheoryWarning")
class TestFailures:
    def test_bad_input_writes_nothing(self, tmp_path):
        for wrong in ({"runs": 0}, {"seed": -1}):
            with pytest.raises(InputError):
                reproduce(TINY, out=tmp_path / "out", progress=False, **{"runs": 2} | wrong)
        assert os.listdir(tmp_path) == []

    def test_a_failing_analysis_writes_no_report_and_keeps_the_work(self, tmp_path, monkeypatch):
        def fails(evidence):
            raise RuntimeError("no picture")

        for broken in (replace(TINY, panels=fails), replace(TINY, notes=fails)):
            with pytest.raises(RuntimeError, match="no picture"):
                reproduce(broken, runs=2, out=tmp_path, progress=False)
            assert os.listdir(tmp_path) == [".partial"]
        monkeypatch.setattr(cpu.LanesPlan, "run", never)
        reproduce(TINY, runs=2, out=tmp_path, progress=False)
        assert sorted(os.listdir(tmp_path)) == sorted(NAMES)

    def test_an_old_report_survives_a_failure(self, tmp_path, monkeypatch):
        reproduce(TINY, runs=2, out=tmp_path, progress=False)
        before = contents(tmp_path)
        monkeypatch.setattr(reproduction, "render_book", never)
        with pytest.raises(AssertionError):
            reproduce(TINY, runs=3, out=tmp_path, progress=False)
        assert contents(tmp_path) == before

    def test_interrupted_before_anything_leaves_nothing(self, tmp_path, monkeypatch):
        def interrupted(*arguments, **options):
            raise KeyboardInterrupt

        monkeypatch.setattr(cpu.LanesPlan, "compile", interrupted)
        with pytest.raises(Interrupted, match="before any work was finished"):
            reproduce(TINY, runs=2, out=tmp_path / "out", progress=False)
        assert list((tmp_path / "out").rglob("*")) == []

    def test_one_progress_over_all_calls(self, tmp_path):
        told: list[float] = []
        short = replace(TINY.sweep[0], budgets=(25,))
        reproduce(
            replace(TINY, sweep=(*TINY.sweep, short)), runs=2, out=tmp_path, progress=told.append
        )
        assert told == sorted(told)
        assert told[-1] == pytest.approx(1.0)
        assert len(told) > len(TINY.sweep[0].budgets)

    def test_one_run_is_enough(self, tmp_path):
        report = reproduce(TINY, runs=1, out=tmp_path, progress=False)
        assert {row["reward_rate_interval"] for row in report.rows} == {None}
        assert len(os.listdir(tmp_path)) == len(NAMES)
        told = {claim.claim for claim in report.claims if claim.verdict != "cannot be told"}
        assert told <= {"π*'s regret is O(1)", "π*'s violation is O(1/B)"}  # these are computed


def contents(folder):
    """Every file but those of finished parts, by name."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.mark.filterwarnings("ignore::tightrope.errors.OutsideTheoryWarning")
class TestGoingOn:
    """Parts of 128 runs: what an interruption leaves, and what is made of it."""

    RUNS = 640

    @pytest.fixture(autouse=True)
    def small_parts(self, monkeypatch):
        monkeypatch.setattr(cpu, "STEPS_PER_CHUNK", 1)
        monkeypatch.setattr(checkpoint, "FLUSH_SECONDS", 0.0)
        monkeypatch.setattr(checkpoint, "FLUSH_SHARE", 0.0)

    @pytest.fixture
    def counted(self, monkeypatch):
        """The first runs of the chunks that were made."""
        made: list[int] = []
        run = cpu.LanesPlan.run

        def counts(self, runs, stop):
            made.append(int(runs[0]))
            return run(self, runs, stop)

        monkeypatch.setattr(cpu.LanesPlan, "run", counts)
        return made

    @pytest.fixture
    def stopped(self, tmp_path):
        """A folder in which some of the chunks are finished."""

        def stop(done: float) -> None:
            if done > 0.35:
                raise KeyboardInterrupt

        with pytest.raises(Interrupted) as caught:
            self.go(tmp_path, progress=stop)
        assert re.fullmatch(
            rf"interrupted: \d+ % is done and kept in {tmp_path / '.partial'}; run the same"
            " command again to continue",
            str(caught.value),
        )
        return tmp_path

    def go(self, out, **options):
        settings = {"runs": self.RUNS, "progress": False, "out": out}
        return reproduce(options.pop("experiment", TINY), **settings | options)

    def chunks(self):
        """How many chunks all of it has."""
        call = TINY.sweep[0]
        return self.RUNS // 128 * len(call.policies) * len(call.budgets)

    def test_goes_on_to_the_same_bytes_and_says_so(
        self, stopped, counted, tmp_path_factory, capsys
    ):
        told = []
        counted.clear()
        self.go(stopped, progress=told.append)
        assert 0 < len(counted) < self.chunks()
        said = capsys.readouterr().err
        assert re.search(rf"continuing from \d+ %, kept in {stopped / '.partial'}", said)
        assert told[0] > 0.35
        assert told == sorted(told)
        assert told[-1] == pytest.approx(1.0)
        assert sorted(os.listdir(stopped)) == sorted(NAMES)
        whole = tmp_path_factory.mktemp("whole")
        self.go(whole)
        assert contents(stopped) == contents(whole)

    def test_fresh_starts_again(self, stopped, counted):
        counted.clear()
        self.go(stopped, fresh=True)
        assert len(counted) == self.chunks()
        assert sorted(os.listdir(stopped)) == sorted(NAMES)

    @pytest.mark.parametrize(
        "other",
        [
            {"seed": 1},
            {"experiment": replace(TINY, sweep=(replace(TINY.sweep[0], budgets=(21, 31)),))},
        ],
    )
    def test_other_work_is_not_mistaken_for_this(self, stopped, counted, other):
        counted.clear()
        self.go(stopped, **other)
        assert len(counted) == self.chunks()

    def test_more_runs_use_what_is_there(self, stopped, counted):
        counted.clear()
        self.go(stopped, runs=self.RUNS + 60)
        assert 0 < len(counted) < self.chunks()

    def test_a_file_that_cannot_be_read_is_made_again(self, stopped, counted):
        first = min((stopped / ".partial").glob("part-*"))
        first.write_bytes(first.read_bytes()[:100])
        with pytest.warns(checkpoint.StoreWarning, match="its runs will be made again"):
            self.go(stopped)
        assert sorted(os.listdir(stopped)) == sorted(NAMES)


PROGRAM = """
import sys
from dataclasses import replace
from tightrope import cli
from tightrope.engine import cpu, checkpoint
from tightrope.paper import reproduction
figure1 = reproduction.FIGURE1
call = replace(figure1.sweep[0], budgets=(1000, 2000, 3000))
reproduction.EXPERIMENTS = {"fig1": replace(figure1, sweep=(call,))}
cpu.STEPS_PER_CHUNK = 1
checkpoint.FLUSH_SECONDS = 0.01
sys.exit(cli.main(sys.argv[1:]))
"""


class TestKilled:
    """For real: another process, killed in the middle."""

    RUNS = 128 * 24

    def start(self, out):
        words = ["reproduce", "fig1", "--runs", str(self.RUNS), "--out", str(out)]
        return subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def stop(self, out, number):
        """Start, wait for some parts, and send a signal."""
        process = self.start(out)
        kept = out / ".partial"
        while not (kept.is_dir() and sum(1 for _ in kept.glob("part-*")) >= 3):
            assert process.poll() is None, process.communicate()
            time.sleep(0.002)
        process.send_signal(number)
        return process, process.communicate(timeout=60)

    def test_killed_and_gone_on_with(self, tmp_path):
        process, _ = self.stop(tmp_path / "a", signal.SIGKILL)
        assert process.returncode == -signal.SIGKILL
        assert os.listdir(tmp_path / "a") == [".partial"]
        again, whole = self.start(tmp_path / "a"), self.start(tmp_path / "b")
        for one, text in ((again, "continuing from "), (whole, "")):
            _, err = one.communicate(timeout=120)
            assert one.returncode == 0, err
            assert text in err
            assert ("continuing" in err) == bool(text)
        assert contents(tmp_path / "a") == contents(tmp_path / "b")
        assert sorted(os.listdir(tmp_path / "a")) == sorted(NAMES)

    def test_control_c_says_how_to_go_on(self, tmp_path):
        process, (out, err) = self.stop(tmp_path / "a", signal.SIGINT)
        assert (process.returncode, out) == (130, "")
        (last,) = [line for line in err.splitlines() if not line.startswith("warning:")]
        assert "run the same command again to continue" in last


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    out, patch = tmp_path_factory.mktemp("all"), pytest.MonkeyPatch()
    two = {"fig1": TINY, "other": replace(TINY, name="other", title="Another <one>")}
    patch.setattr("tightrope.paper.reproduction.EXPERIMENTS", two)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        report = reproduce(runs=4, out=out, progress=False)
    patch.undo()
    return out, report, caught


class TestAll:
    """Several experiments in one report."""

    def test_files_and_rows(self, both):
        out, report, _ = both
        kinds = ("png", "svg", "pdf", "csv")
        names = [f"{name}.{kind}" for name in ("fig1", "other") for kind in kinds]
        assert [path.name for path in report.files] == [*names, "claims.csv", "index.html"]
        assert sorted(os.listdir(out)) == sorted(path.name for path in report.files)
        assert [row["experiment"] for row in report.rows] == ["fig1"] * 10 + ["other"] * 10
        assert (out / "fig1.csv").read_bytes() == (out / "other.csv").read_bytes()

    def test_one_short_warning(self, both):
        (warning,) = [one for one in both[2] if not issubclass(one.category, DeprecationWarning)]
        assert str(warning.message).startswith("fig1, other: some points lie outside the theory")

    def test_one_page_with_contents_and_claims(self, both):
        out, report, _ = both
        html = (out / "index.html").read_text()
        reader = Reader(html)
        assert reader.open == []
        ids = [attributes["id"] for _, attributes in reader.tags if "id" in attributes]
        assert len(ids) == len(set(ids))
        links = [a["href"] for tag, a in reader.tags if tag == "a"]
        assert links[:3] == ["#claims", "#fig1", "#other"]
        assert {"claims", "fig1", "other"} <= set(ids)
        for text in ("Another <one>", "tightrope reproduce all --runs 4 --seed 0"):
            assert text in reader.text
        unbroken = reader.text.replace("\u00a0", " ")
        assert report.claims
        assert all(claim.claim in unbroken for claim in report.claims)

    def test_shell(self, tmp_path, capsys, monkeypatch):
        two = {"fig1": TINY, "other": replace(TINY, name="other", title="Another one")}
        monkeypatch.setattr("tightrope.paper.reproduction.EXPERIMENTS", two)
        words = ["reproduce", "--runs", "2", "--out", str(tmp_path)]
        assert cli.main(words) == 0
        out, err = capsys.readouterr()
        assert out.splitlines()[:2] == [f"fig1   {TINY.title}", "other  Another one"]
        assert "cannot be told" in out
        assert "stationary" not in out  # no table of numbers
        assert err.splitlines()[1:] == [
            "writing the report",
            f"wrote {tmp_path / 'index.html'}, 9 files beside it",
        ]
        assert cli.main([*words, "--json", "--quiet"]) == 0
        rows = json.loads(capsys.readouterr().out)
        assert [row["experiment"] for row in rows] == ["fig1"] * 10 + ["other"] * 10
        assert cli.main([*words[:1], "other", *words[1:]]) == 0
        assert "stationary" in capsys.readouterr().out
