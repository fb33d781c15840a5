from __future__ import annotations

import csv
import os
import warnings
from dataclasses import replace

import numpy as np
import pytest
from matplotlib import image

from tests.report.test_page import Reader
from tightrope import InputError, OutsideTheoryWarning
from tightrope.engine.simulation import simulate
from tightrope.experiments import EXPERIMENTS, reproduce, reproduction
from tightrope.experiments.figure1 import FIGURE1
from tightrope.report.table import flat

BUDGETS = (1000, 2000, 3000)
SMALL = replace(FIGURE1, sweep=(replace(FIGURE1.sweep[0], budgets=BUDGETS),))
TINY = replace(FIGURE1, sweep=(replace(FIGURE1.sweep[0], budgets=(20, 30)),))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    out = tmp_path_factory.mktemp("report") / "deep" / "out"
    with pytest.warns(OutsideTheoryWarning) as caught:
        report = reproduce(SMALL, runs=64, seed=3, out=out, progress=False)
    return out, report, caught


def test_files(made):
    out, report, _ = made
    names = ["fig1.png", "fig1.svg", "fig1.csv", "index.html"]
    assert [path.name for path in report.files] == names
    assert sorted(os.listdir(out)) == sorted(names)
    assert image.imread(out / "fig1.png")[..., :3].std() > 0.05
    assert report.complete


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
        assert row["problem"] == "paper"
    with open(out / "fig1.csv", newline="") as file:
        lines = list(csv.DictReader(file))
    for line, row in zip(lines, report.rows, strict=True):
        for name, value in flat(row).items():
            if isinstance(value, float):
                assert float(line[name]) == value


def test_outside_theory_is_told_once_and_marked(made):
    _, report, caught = made
    (warning,) = caught
    assert "smallest budget inside is about 2,790" in str(warning.message)
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
    assert links == ["fig1.png", "fig1.svg", "fig1.csv"]


def test_a_second_time_gives_the_same_pictures(made, tmp_path):
    out, _, _ = made
    with warnings.catch_warnings(action="ignore"):
        reproduce(SMALL, runs=64, seed=3, out=tmp_path, progress=False)
    for name in ("fig1.png", "fig1.svg"):
        assert (out / name).read_bytes() == (tmp_path / name).read_bytes()


def test_registry():
    assert all(name == experiment.name for name, experiment in EXPERIMENTS.items())
    with pytest.raises(InputError, match=r"experiment 'fig11' is unknown; did you mean 'fig1'\?"):
        reproduce("fig11")


def never(*_, **__):
    raise AssertionError("must not be called")


def test_a_folder_that_cannot_be_written_fails_before_the_work(tmp_path, monkeypatch):
    monkeypatch.setattr(reproduction, "simulate", never)
    (tmp_path / "file").write_text("mine")
    for out in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(InputError, match="must be a folder"):
            reproduce(TINY, out=out)
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.filterwarnings("ignore::tightrope.OutsideTheoryWarning")
class TestFailures:
    def test_bad_input_writes_nothing(self, tmp_path):
        for wrong in ({"runs": 0}, {"seed": -1}):
            with pytest.raises(InputError):
                reproduce(TINY, out=tmp_path / "out", progress=False, **{"runs": 2} | wrong)
        assert os.listdir(tmp_path) == []

    def test_a_failing_analysis_writes_nothing(self, tmp_path):
        def fails(evidence):
            raise RuntimeError("no picture")

        for broken in (replace(TINY, panels=fails), replace(TINY, notes=fails)):
            with pytest.raises(RuntimeError, match="no picture"):
                reproduce(broken, runs=2, out=tmp_path / "out", progress=False)
        assert os.listdir(tmp_path) == []

    def test_an_old_report_survives_a_failure(self, tmp_path, monkeypatch):
        reproduce(TINY, runs=2, out=tmp_path, progress=False)
        before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
        monkeypatch.setattr(reproduction, "render", never)
        with pytest.raises(AssertionError):
            reproduce(TINY, runs=3, out=tmp_path, progress=False)
        assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before

    def test_interrupted_runs_are_reported_as_such(self, tmp_path, monkeypatch):
        def interrupted(*arguments, runs, **options):
            return replace(simulate(*arguments, runs=2, **options), complete=False)

        monkeypatch.setattr(reproduction, "simulate", interrupted)
        report = reproduce(TINY, runs=8, out=tmp_path, progress=False)
        assert not report.complete
        assert report.notes[0] == "Interrupted: 2 of 8 runs were finished."
        assert "Interrupted: 2 of 8" in (tmp_path / "index.html").read_text()

    def test_interrupted_before_the_last_call_is_interrupted(self, tmp_path, monkeypatch):
        def interrupted(*arguments, **options):
            return replace(simulate(*arguments, **options), complete=False)

        monkeypatch.setattr(reproduction, "simulate", interrupted)
        with pytest.raises(KeyboardInterrupt):
            reproduce(
                replace(TINY, sweep=TINY.sweep * 2), runs=2, out=tmp_path / "out", progress=False
            )
        assert os.listdir(tmp_path) == []

    def test_one_progress_over_all_calls(self, tmp_path):
        told: list[float] = []
        short = replace(TINY.sweep[0], budgets=(25,))
        reproduce(
            replace(TINY, sweep=(*TINY.sweep, short)), runs=2, out=tmp_path, progress=told.append
        )
        assert told == sorted(told)
        assert told[-1] == pytest.approx(1.0)
        at_first_end = TINY.sweep[0].weight / (TINY.sweep[0].weight + short.weight)
        assert np.min(np.abs(np.array(told) - at_first_end)) < 1e-9

    def test_one_run_is_enough(self, tmp_path):
        report = reproduce(TINY, runs=1, out=tmp_path, progress=False)
        assert {row["reward_rate_interval"] for row in report.rows} == {None}
        assert len(os.listdir(tmp_path)) == 4
