import csv
import math
import re
import subprocess
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from benchmarks.arena import main as run_arena
from benchmarks.charts import CHARTS, draw
from benchmarks.comparison import Row
from benchmarks.families import Found, summed_up
from benchmarks.gpu import printed_rates
from benchmarks.growth import growth, main
from benchmarks.page import NoBlockError, publish, write
from benchmarks.promises import declared
from benchmarks.risk import FAMILIES as CELLS
from benchmarks.risk import HALVES, cells, wilson, yardstick
from benchmarks.risk import main as print_cells
from benchmarks.steps import PROBE, compiled_probe
from benchmarks.types import main as time_types
from benchmarks.types import problems
from tightrope import LyOn, arena, ready_problem, simulate
from tightrope.theory import learning_limit
from tightrope.version import __version__

PAGE = "Mine.\n<!-- begin: a -->\nold\n<!-- end -->\nMine too.\n<!-- begin: b --><!-- end -->\n"


@pytest.fixture
def page(tmp_path):
    path = tmp_path / "page.md"
    path.write_text(PAGE)
    return path


def test_blocks_are_replaced_and_the_text_around_them_stays(page):
    write({"a": "new", "b": "| x |"}, page)
    write({"a": "newer"}, page)
    assert page.read_text() == (
        "Mine.\n<!-- begin: a -->\n\nnewer\n\n<!-- end -->\nMine too.\n"
        "<!-- begin: b -->\n\n| x |\n\n<!-- end -->\n"
    )


def test_a_page_without_the_block_is_left_alone(page):
    with pytest.raises(NoBlockError, match="begin: c"):
        write({"a": "new", "c": "new"}, page)
    assert page.read_text() == PAGE


def test_tables_of_a_block_become_csv_files_with_units_in_their_heads(page):
    first = "| store | wait | speed |\n| --- | --- | --- |\n| `a` | 1.5 ms | 2,000 |\n"
    second = "|  | ours | theirs |\n| --- | --- | --- |\n| size | 3 MB | 4 MB |\n| text | x | y |"
    publish({"a": f"Before.\n\n{first}\n{second}\n\nAfter."}, page)
    assert "begin: a -->\n\nBefore.\n\nAfter.\n\n<!-- end" in page.read_text()
    data = page.parent / "data"
    assert (data / "a.csv").read_text() == "store,wait (ms),speed\na,1.5,2000\n"
    assert (data / "a-2.csv").read_text() == ",ours,theirs\nsize (MB),3,4\ntext,x,y\n"


@pytest.mark.parametrize("name", CHARTS)
def test_charts_are_drawn_from_the_numbers_in_the_documentation(name, tmp_path):
    assert CHARTS[name].rows()
    assert draw(name, tmp_path).read_bytes().startswith(b"\x89PNG")


def test_ahead_of_every_one():
    row = Row("steps", 300.0, {"one": 100.0, "two": 200.0})
    assert row.verdict() == "steps: ahead of all; 1.5 times better than two."


def test_not_ahead_says_of_whom_and_why():
    row = Row("size", 300.0, {"one": 10.0, "two": 400.0}, more_is_better=False, why="Heavy.")
    assert row.verdict() == "size: **not ahead** of one (10), with 300. Heavy."


def test_the_probe_plays_lyon(paper):
    """Its mean reward and violation are ours, within the chance of so many runs."""
    budget, runs = 500.0, 4096
    with compiled_probe(PROBE) as program:
        if program is None:
            pytest.skip("no C++ compiler, or a processor without AVX2")
        arguments = [program, f"{budget:g}", f"{runs}"]
        text = subprocess.run(arguments, check=True, capture_output=True, text=True).stdout
    lines = text.splitlines()
    assert len(lines) == 4
    ours = simulate(paper, LyOn(), budgets=budget, runs=runs, seed=1).summary()[0]
    for line in lines:
        reward, violation = map(float, re.findall(r"(?:reward rate|violation) (\S+)", line))
        assert reward == pytest.approx(ours["reward_rate"], abs=6 * ours["reward_rate_se"])
        assert violation == pytest.approx(ours["violation"], abs=6 * ours["violation_se"])
        assert float(line.split()[1]) > 0, "nanoseconds per step, where the page looks for them"


def test_steps_per_second_are_read_from_what_the_gpu_probes_print():
    few = "runs 9 B 10: 1.0 ms, 1e+09 steps/s, x\nruns 1000000 B 100000: 2.0 ms, 3e+11 steps/s, x"
    many = "K 20 G 4 runs 9 B 10: 3.0 ms, 2e+10 steps/s, x\nK 50 G 4 runs 9: 1 ms, 1e+10 steps/s, x"
    assert printed_rates(few) == [(2, 3e11)]
    assert printed_rates(many) == [(20, 2e10), (50, 1e10)]


def test_a_family_is_summed_up_by_its_middle_and_its_worst():
    some = [Found(1.0, 0.0, 0.0), Found(2.0, 0.5, 0.0), Found(9.0, 0.1, 0.3), Found(None, 0.0, 0.1)]
    assert list(summed_up(some).values()) == pytest.approx([2.0, 9.0, 15.0, 50.0, 10.0])
    assert summed_up(some[3:])["regret_percent"] is None


def test_growth_is_of_the_loss_on_arms_outside_the_mixture():
    """Who pulls every arm alike loses their mean loss per pull, whatever the penalties did."""
    problem = ready_problem("arena-random-5")
    small, large = growth(
        problem, ["uniform-random"], [300.0, 30.0], runs=20, seed=1, backend="python"
    )
    limit = learning_limit(problem)
    per_cost = limit.loss.mean() / problem.moments.cost.mean()
    for row in (small, large):
        assert row.priced == pytest.approx(per_cost * row.budget, abs=6 * row.priced_se + 1.0)
        assert row.limit == limit.regret(row.budget)
    assert (small.budget, small.growth) == (30.0, None)
    rise = (large.priced - small.priced) / math.log(10.0)
    assert large.growth == pytest.approx(rise / limit.constant)


def test_growth_of_who_knows_the_laws_is_none(capsys):
    """pi* pulls the best mixture alone."""
    few = "--runs 4 --budget 100 1000 --backend python".split()
    main(["arena-random-5", "--policy", "stationary", *few])
    small, large = csv.DictReader(capsys.readouterr().out.splitlines())
    assert abs(float(small["priced"])) < 1.0
    assert float(large["growth"]) == pytest.approx(0.0, abs=0.01)
    assert (small["growth"], small["backend"], small["release"]) == ("", "python", __version__)
    with pytest.raises(SystemExit):
        main(["nowhere"])
    assert "nowhere" in capsys.readouterr().err


def test_the_arena_of_the_benchmarks_ranks_as_the_arena_does(tmp_path):
    problems, policies = ["paper", "arena-rare"], ["lyon", "uniform-random"]
    options = [f"--problem={name}" for name in problems] + [f"--policy={name}" for name in policies]
    options += ["--budget=20", "--runs=3", "--threads=2", "--backend=cpu", f"--out={tmp_path}"]
    run_arena(options)
    assert "paper" in (tmp_path / "arena.html").read_text()
    with (tmp_path / "arena.csv").open() as file:
        found = [(row["problem"], row["policy"], row["rank"]) for row in csv.DictReader(file)]
    rows = arena(problems, policies, [20.0], runs=3, progress=False).rows
    assert found == [(row.problem, row.policy, str(row.rank)) for row in rows]
    with (tmp_path / "arena-policies.csv").open() as file:
        best = {row["policy"]: (row["problems"], row["within"]) for row in csv.DictReader(file)}
    assert best == dict.fromkeys(policies, ("2", "0"))  # three runs do not show enough
    with (tmp_path / "arena-by-problem.csv").open() as file:
        assert [(row["problem"], row["policy"]) for row in csv.DictReader(file)] == [
            (row.problem, row.policy) for row in rows
        ]


def test_the_most_careful_arm_is_declared_safe():
    known = declared(ready_problem("arena-two-limits"))
    assert known.task.safe_arm == 5
    assert known.safe_rates == {"penalty 1": 0.25, "penalty 2": 0.25}


def test_cells_of_a_risk_have_their_safest_arm_below_the_limit_and_the_others_around_it():
    found = [*cells(list(CELLS), HALVES["train"]), *cells(list(CELLS), HALVES["fresh"])]
    assert len(set(found)) == len(found) >= 60
    for cell in found:
        first, last, *_ = CELLS[cell.family][2]
        cost, reward, *penalties = cell.means[0]
        for penalty in penalties:
            rate = penalty / cell.limit.unit.pick(cost, 1.0, reward)
            assert first - 1e-9 <= 1.0 - rate / cell.limit.number <= last + 1e-9


@pytest.mark.parametrize(("joint", "sign"), [("together", 1), ("apart", -1)])
@pytest.mark.parametrize("family", ["plain", "pull", "two"])
def test_costs_and_penalties_that_come_together_or_apart_have_the_same_means(family, joint, sign):
    (plain,), (cell,) = (cells([family], [1], [2.5], one) for one in ("independent", joint))
    problem, order = cell.problem(range(len(cell.means))), range(len(cell.means))
    moments, expected = problem.moments, plain.problem(order).moments
    np.testing.assert_allclose(moments.cost, expected.cost)
    np.testing.assert_allclose(moments.penalty, expected.penalty)
    for arm, (cost, _, *means) in zip(problem.arms, cell.means, strict=True):
        for penalty, mean in zip(arm.penalty, means, strict=True):
            both = arm.cost.chances @ (arm.cost.values * penalty.values)
            assert sign * (both - cost * mean) > 0.0


def test_the_interval_of_a_share():
    assert wilson(0.0, 2000) == (0.0, pytest.approx(0.0019, abs=1e-4))
    assert wilson(0.5, 100) == pytest.approx((0.404, 0.596), abs=1e-3)


@pytest.mark.parametrize("family", ["plain", "reward"])
def test_who_knows_the_laws_hardly_breaks_a_limit_with_room(family):
    (cell,) = cells([family], [1], [2.5])
    assert yardstick(cell, 200) <= 0.02


def test_cells_are_printed_with_the_yardstick(capsys):
    print_cells(["--family", "plain", "--g", "1.5", "--runs", "8"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:3] for line in lines[::2]] == [
        ["plain", "1.5", "1"],
        ["plain", "1.5", "2"],
    ]
    assert all("broken" in line for line in lines[::2])
    assert all("yardstick" in line for line in lines[1::2])


def test_a_step_with_types_is_timed_beside_the_plain_one(capsys, monkeypatch):
    monkeypatch.setattr("benchmarks.types.BUDGET", 200.0)
    time_types(["--types", "2", "--arms", "2", "--repeats", "2", "--policy", "resolve"])
    rows = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    assert [row["costs"] for row in rows] == ["learned", "known"]
    for row in rows:
        typed, plain = float(row["ns with types"]), float(row["ns plain"])
        assert typed > 0.0
        assert float(row["ratio"]) == pytest.approx(typed / plain, rel=1e-4)


def test_the_rows_of_a_timed_problem_are_the_arms_of_the_plain_one():
    typed, plain = problems(2, 3, known=False)
    assert typed.arm_count == 3
    assert plain.arm_count == 6
    rows = [arm for arms in typed.typed.values() for arm in arms]
    assert [arm.outcomes for arm in plain.arms] == [arm.outcomes for arm in rows]


@pytest.mark.parametrize("path", sorted(Path("benchmarks").glob("[a-z]*.py")), ids=str)
def test_every_benchmark_is_imported(path):
    """None asks for a name of the package that is gone."""
    import_module(f"benchmarks.{path.stem}")
