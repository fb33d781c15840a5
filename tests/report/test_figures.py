from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import matplotlib
import numpy as np
import pytest
from matplotlib import image
from matplotlib.colors import to_hex

from tightrope import Limit, TightropeError, oracle, ready_problem, simulate
from tightrope.engine import Trajectory
from tightrope.errors import InputError
from tightrope.policies import POLICIES, FixedArm
from tightrope.policies.base import Policy
from tightrope.report import extra
from tightrope.report.figures import draw, legend_marks, plot, save, svg_text
from tightrope.report.panels import METRICS, curve, metric_panels, trajectory_panels
from tightrope.report.rows import detailed
from tightrope.report.styles import styles

COLOURS = Policy.colours


def is_clipped(figure) -> bool:
    """Whether anything that is drawn sticks out of the picture."""
    figure.canvas.draw()
    drawn, (width, height) = figure.get_tightbbox(), figure.get_size_inches()
    return drawn.x0 < 0 or drawn.y0 < 0 or drawn.x1 > width or drawn.y1 > height


@pytest.mark.parametrize("metric", METRICS)
def test_every_metric_is_drawn_and_saved(one_limit, metric, tmp_path):
    figure = plot(one_limit, metric)
    paths = save(figure, tmp_path / f"picture.{metric}")
    assert [path.name for path in paths] == [f"picture.{metric}.png", f"picture.{metric}.svg"]
    assert len(os.listdir(tmp_path)) == 2
    pixels = image.imread(paths[0])
    assert min(pixels.shape[:2]) > 300
    assert pixels[..., :3].std() > 0.05
    root = ElementTree.parse(paths[1]).getroot()
    assert len(list(root.iter())) > 100
    assert "date" not in paths[1].read_text().lower()


@pytest.mark.parametrize("which", ["one_limit", "no_limit", "two_limits", "many_arms", "one_run"])
def test_nothing_is_clipped(which, request):
    results = request.getfixturevalue(which)
    for metric in ("reward_rate", "pull_share"):
        assert not is_clipped(plot(results, metric))


def test_curves_carry_the_rows_numbers(one_limit):
    rows = detailed(one_limit)
    (panel,) = metric_panels(one_limit.problem, rows, "violation")
    learner = panel.curves[1]
    assert learner.label == "lyon"
    assert learner.x.tolist() == [50, 200, 2000]
    assert learner.y.tolist() == [row.violation[0].mean for row in rows if row.policy == "lyon"]
    assert (learner.low < learner.y).all()
    assert (learner.y < learner.high).all()
    assert panel.x_log


def test_reference_lines(one_limit):
    rows, problem = detailed(one_limit), one_limit.problem
    lines = {
        metric: {line.role: line for line in metric_panels(problem, rows, metric)[0].references}
        for metric in ("reward_rate", "violation", "pull_share")
    }
    assert set(lines["reward_rate"]) == {"optimum", "stationary"}
    assert lines["reward_rate"]["stationary"].y[0] == pytest.approx(1.3)
    exact = (1.3 * 50 + 0.5) / 50  # paper.md: pi*'s reward on B + 1 under the limit c B
    assert lines["reward_rate"]["optimum"].y[0] == pytest.approx(exact)
    assert lines["violation"]["limit"].y.tolist() == [0]
    assert lines["pull_share"]["stationary"].y[0] == pytest.approx(oracle(problem).pull_share[0])


@pytest.mark.parametrize("metric", ["reward_rate", "violation", "regret", "cost_share"])
def test_a_problem_whose_arms_change_is_drawn_without_pi_star(metric):
    problem = ready_problem("arena-abrupt")
    results = simulate(problem, FixedArm(), budgets=[10, 20], runs=3, progress=False)
    panels = metric_panels(problem, detailed(results), metric)
    roles = [line.role for panel in panels for line in panel.references]
    assert "stationary" not in roles
    assert ("optimum" in roles) == (metric == "reward_rate")
    assert plot(results, metric).axes


def test_an_infeasible_problem_has_no_reference(infeasible):
    (panel,) = metric_panels(infeasible.problem, detailed(infeasible), "reward_rate")
    assert list(panel.references) == []
    assert not is_clipped(plot(infeasible))


def test_one_budget_sets_policies_side_by_side(two_limits):
    panels = metric_panels(two_limits.problem, detailed(two_limits), "violation")
    assert [panel.title for panel in panels] == ["penalty 1, limit 0.8", "penalty 2, limit 0.6"]
    assert list(panels[0].x_names) == ["lyoff", "lyon", "stationary"]
    assert [one.x.tolist() for one in panels[0].curves] == [[0], [1], [2]]
    assert "lyon" not in legend_marks(panels)


def test_panels_by_the_names_of_the_limits(one_limit, two_limits):
    problem = replace(two_limits.problem, limit={"bad": Limit(0.8), "late": Limit(0.6)})
    panels = metric_panels(problem, detailed(two_limits), "violation")
    assert [panel.title for panel in panels] == ["bad, limit 0.8", "late, limit 0.6"]
    problem = replace(one_limit.problem, limit={"bad": Limit(0.8)})
    (panel,) = metric_panels(problem, detailed(one_limit), "violation")
    assert panel.y_label == "bad / budget − limit"


def test_many_arms_show_six_panels(many_arms):
    panels = metric_panels(many_arms.problem, detailed(many_arms), "pull_share")
    assert len(panels) == 6
    assert all(panel.title.startswith("arm ") for panel in panels)


def test_one_run_has_no_interval(one_run):
    one = curve(detailed(one_run)[:1], "reward_rate")
    assert one.low is None
    assert one.high is None
    assert "95 % interval" not in legend_marks(
        metric_panels(one_run.problem, detailed(one_run), "violation")
    )


@pytest.mark.parametrize(
    ("which", "metric", "words"),
    [
        ("one_limit", "violations", "did you mean 'violation'"),
        ("no_limit", "violation", "metric = 'violation'"),
        ("infeasible", "regret", "metric = 'regret'"),
    ],
)
def test_a_metric_that_is_not_there(which, metric, words, request):
    with pytest.raises(InputError, match=words):
        plot(request.getfixturevalue(which), metric)


def a_trajectory(runs: int, limits: int = 1) -> Trajectory:
    """Of runs that earn 1, 2, ... a pull, and half as much in each penalty."""
    step = np.arange(0, 50, 10)
    reward = np.arange(1.0, runs + 1)[:, None] * step
    penalty = np.repeat(0.5 * reward[:, :, None], limits, axis=2)
    return Trajectory(step, reward / 2, reward, penalty, penalty)


def test_a_trajectory_is_drawn_run_by_run():
    figure = plot({"lyon": a_trajectory(3), "resolve": a_trajectory(2)})
    (axes,) = figure.axes
    assert [line.get_ydata()[-1] for line in axes.lines] == [40, 80, 120, 40, 80]
    assert to_hex(axes.lines[0].get_color()) == COLOURS["lyon"]
    assert [entry.get_text() for entry in figure.legends[0].texts] == ["lyon", "resolve"]
    assert not is_clipped(figure)


def test_many_runs_of_a_trajectory_are_a_band():
    (panel,) = trajectory_panels({"runs": a_trajectory(101)}, "reward")
    (one,) = panel.curves
    assert (one.low[-1], one.y[-1], one.high[-1]) == (6 * 40, 51 * 40, 96 * 40)
    assert set(legend_marks([panel])) == {"runs: median", "5 % to 95 % of the runs"}


@pytest.mark.parametrize("metric", ["reward", "cost", "penalty", "queue"])
def test_every_metric_of_trajectories(metric):
    figure = plot([a_trajectory(2, 2), a_trajectory(3, 2)], metric)
    assert len(figure.axes) == (2 if metric in ("penalty", "queue") else 1)
    assert plot(a_trajectory(1), metric).axes


@pytest.mark.parametrize(
    ("given", "metric", "words"),
    [
        (a_trajectory(1), "violation", "metric = 'violation' is unknown"),
        (a_trajectory(1, 0), "queue", "metric = 'queue'"),
        ([a_trajectory(1), a_trajectory(1, 2)], "penalty", "for the same limits"),
        ([], None, "metric = 'reward'"),
        (3, None, "results = 3: must be Results, a Trajectory"),
        ({"a": "b"}, None, "results = 'b': must be"),
    ],
)
def test_what_cannot_be_drawn(given, metric, words):
    with pytest.raises(InputError, match=words):
        plot(given, metric)


def test_a_policy_keeps_its_colour():
    alone, among = styles(["lyon:delta0=15"]), styles(["lyoff", "lyon", "lyon:delta0=15", "mine"])
    assert {alone["lyon:delta0=15"].colour, among["lyon"].colour} == {COLOURS["lyon"]}
    assert among["lyon:delta0=15"].colour == COLOURS["lyon"]
    assert among["lyon:delta0=15"] != among["lyon"]
    assert among["mine"] == styles(["mine"])["mine"]
    ours = [policy.colour for policy in POLICIES.values()]
    assert len(set(ours)) == len(ours)


def test_policies_of_ones_own_differ():
    looks = styles([f"mine-{i}" for i in range(5)])
    assert len({style.colour for style in looks.values()}) == 5
    assert not {style.colour for style in looks.values()} & set(COLOURS.values())
    assert len(styles([f"mine-{i}" for i in range(9)])) == 9


def test_drawn_colours_are_the_policies(one_limit):
    axes = plot(one_limit).axes[0]
    drawn = {to_hex(line.get_color()) for line in axes.lines}
    assert {COLOURS["lyoff"], COLOURS["lyon"], COLOURS["stationary"]} <= drawn


def test_hollow_points_are_explained(one_limit):
    rows = [replace(row, outside_theory=row.budget < 100) for row in detailed(one_limit)]
    panels = metric_panels(one_limit.problem, rows, "reward_rate")
    assert panels[0].curves[0].hollow.tolist() == [True, False, False]
    assert any("δ ≥ c" in name for name in legend_marks(panels))
    assert not is_clipped(draw(panels, columns=1))


def test_the_same_picture_is_the_same_bytes(one_limit, tmp_path):
    for name in ("one", "two"):
        save(plot(one_limit), tmp_path / name)
    for suffix in ("png", "svg"):
        one, two = ((tmp_path / f"{name}.{suffix}").read_bytes() for name in ("one", "two"))
        assert one == two


def test_no_setting_outlives_a_call(one_limit):
    before = dict(matplotlib.rcParams)
    svg_text(plot(one_limit))
    assert dict(matplotlib.rcParams) == before


def test_a_users_own_settings_change_nothing(one_limit):
    plain = svg_text(plot(one_limit))
    with matplotlib.rc_context({"font.size": 30.0, "axes.facecolor": "red"}):
        assert svg_text(plot(one_limit)) == plain


def test_failed_saving_leaves_nothing(one_limit, tmp_path, monkeypatch):
    figure = plot(one_limit)
    with pytest.raises(InputError, match="cannot write"):
        save(figure, tmp_path / "absent" / "picture")
    real = figure.savefig

    def fails_at_svg(file, format, **options):
        if format == "svg":
            raise RuntimeError("no more")
        real(file, format=format, **options)

    monkeypatch.setattr(figure, "savefig", fails_at_svg)
    with pytest.raises(RuntimeError, match="no more"):
        save(figure, tmp_path / "picture")
    assert os.listdir(tmp_path) == []


def test_matplotlib_is_imported_when_used_and_pyplot_never():
    code = (
        "import sys, tightrope.report, tightrope.paper;"
        "assert 'matplotlib' not in sys.modules and 'jinja2' not in sys.modules;"
        "from tightrope import LyOff, simulate, ready_problem;"
        "r = simulate(ready_problem('paper'), LyOff(), budgets=[50, 60], runs=2, progress=False);"
        "tightrope.report.plot(r);"
        "assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_missing_extra_says_how_to_get_it(one_limit, monkeypatch):
    monkeypatch.setattr(extra, "find_spec", lambda module: None)
    with pytest.raises(TightropeError, match=r"pip install 'tightrope\[report\]'"):
        plot(one_limit)


def test_pixels_differ_between_policies(one_limit, tmp_path):
    """Each policy's colour is really in the picture."""
    png, _ = save(plot(one_limit, "violation"), tmp_path / "picture")
    pixels = np.round(image.imread(png)[..., :3] * 255).astype(int).reshape(-1, 3)
    for name in ("lyoff", "lyon"):
        wanted = [int(COLOURS[name][i : i + 2], 16) for i in (1, 3, 5)]
        assert (np.abs(pixels - wanted).max(axis=1) <= 2).sum() > 20


def test_a_notebook_shows_the_picture_that_is_saved(one_limit, tmp_path):
    """Without pyplot: IPython asks the object itself."""
    figure = plot(one_limit)
    shown, size = figure._repr_png_()
    (path,) = save(figure, tmp_path / "figure", ["png"])
    assert shown == path.read_bytes()
    dots = int.from_bytes(shown[16:20])  # wide, says the header
    assert size["width"] == pytest.approx(dots / 1.6, abs=1), "100 pixels per inch of 160 dots"
