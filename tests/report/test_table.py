from __future__ import annotations

import csv
import io
import os
import re

import pytest
from rich.console import Console

from tightrope import oracle, ready_problem
from tightrope.errors import InputError
from tightrope.optimum import Oracle
from tightrope.report.rows import detailed, optimum_rate, typed
from tightrope.report.table import (
    NO_REGRET,
    OUTSIDE,
    flat,
    footnotes,
    in_order,
    print_oracle,
    print_rows,
    rows_table,
    table,
    write_csv,
)


def columns(rows):
    return rows_table(rows).columns


def ordered(rows):
    """The rows in the order of their table."""
    known = typed(rows)
    places = {id(row): at for at, row in enumerate(known)}
    return [rows[places[id(row)]] for row in in_order(known)]


def cells(rows, heading):
    return next(column.texts for column in columns(rows) if column.heading == heading)


def printed(rows) -> str:
    text = io.StringIO()
    print_rows(rows, text)
    return text.getvalue()


def test_columns_with_one_limit(one_limit):
    rows = ordered(one_limit.summary())
    headings = [column.heading for column in columns(rows)]
    assert headings == [
        "policy",
        "budget",
        "reward rate",
        "violation",
        "regret",
        "pull share",
        "pulls",
        "knows",
    ]
    assert sorted(cells(rows, "knows")[::3]) == ["distributions", "distributions", "smallest cost"]
    assert cells(rows, "budget")[:3] == ["50", "200", "2,000"]
    value, reach = cells(rows, "violation")[0].split(" ± ")
    assert float(value) == pytest.approx(rows[0]["violation"], abs=1e-3)
    assert value[0] in "+-"
    assert float(reach) >= round(1.96 * rows[0]["violation_se"], 6)


def named(results, *names):
    """The rows, as if the limits had these names."""
    rows = ordered(results.summary())
    for row in rows:
        row["violations"] = dict(zip(names, row["violations"].values(), strict=True))
    return rows


def test_columns_by_the_names_of_the_limits(one_limit, two_limits):
    assert "violation of bad" in [column.heading for column in columns(named(one_limit, "bad"))]
    rows = named(two_limits, "bad", "late")
    headings = [column.heading for column in columns(rows)]
    assert headings[3:5] == ["violation of bad", "violation of late"]
    unnamed = columns(two_limits.summary())
    assert cells(rows, "violation of late") == unnamed[4].texts
    assert unnamed[4].heading == "violation 2"
    assert not any(key.startswith("violations") for key in flat(rows[0]))


def test_who_knows_nothing_has_no_column(one_limit):
    rows = [{**row, "knows": ""} for row in one_limit.summary()]
    assert "knows" not in [column.heading for column in columns(rows)]


def test_a_shown_interval_is_never_narrower_than_the_real_one(one_limit):
    rows = ordered(one_limit.summary())
    for key, heading in (("reward_rate", "reward rate"), ("regret", "regret")):
        for row, cell in zip(rows, cells(rows, heading), strict=True):
            reach = float(cell.split(" ± ")[1].replace(",", ""))
            assert reach >= 1.9599 * row[f"{key}_se"]


def violating(policy, violation, budget=100.0, error=0.001, problem="p"):
    facts = {"policy": policy, "budget": budget, "violation": violation, "violation_se": error}
    facts |= {"runs": 9, "reward_rate": 1.0, "reward_rate_se": 0.1, "regret": 0.0, "regret_se": 0.1}
    return {**facts, "pull_share": [1.0], "pulls": 9.0, "problem": problem}


def test_policies_that_break_the_limit_are_red_and_last():
    rows = [
        violating("always", 0.3),
        violating("sometimes", -0.3),
        violating("sometimes", 0.3, budget=9.0),
        violating("unclear", 0.1, error=0.1),
        violating("never", -0.3),
        violating("other", 0.3, problem="q"),
    ]
    assert cells(rows, "policy") == [
        "never",
        "unclear",
        "always",
        "sometimes",
        "sometimes",
        "other",
    ]
    first = next(column for column in columns(rows) if column.heading == "policy")
    assert list(first.tones) == ["", "", "bad", "", "bad", "bad"]
    shown = next(column for column in columns(rows) if column.heading == "violation")
    assert list(shown.tones) == ["good", "", "bad", "good", "bad", "bad"]
    assert footnotes(rows)[0] == "breaks a limit (red): always, sometimes, other"


@pytest.mark.parametrize("colour", [True, False])
def test_red_is_for_terminals(colour, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.delenv("NO_COLOR", raising=False)
    if not colour:
        monkeypatch.setenv("NO_COLOR", "1")
    text = printed([violating("always", 0.3), violating("never", -0.3)])
    assert ("\x1b[31malways" in text) == colour
    monkeypatch.delenv("FORCE_COLOR")
    assert "\x1b" not in printed([violating("always", 0.3)])


def test_columns_follow_the_number_of_limits(no_limit, two_limits):
    assert not any("violation" in column.heading for column in columns(no_limit.summary()))
    rows = ordered(two_limits.summary())
    headings = [column.heading for column in columns(rows)]
    assert headings[3:5] == ["violation 1", "violation 2"]
    for m in range(2):
        shown = float(cells(rows, f"violation {m + 1}")[1].split(" ± ")[0])
        assert shown == pytest.approx(rows[1]["violation"][m], abs=6e-3)


def test_many_arms_show_the_largest_shares(many_arms):
    rows = ordered(many_arms.summary())
    for row, cell in zip(rows, cells(rows, "largest pull shares"), strict=True):
        arms = [int(part.split(":")[0].removeprefix("arm ")) for part in cell.split(", ")]
        best = max(range(9), key=lambda arm: row["pull_share"][arm])
        assert len(arms) == 2
        assert arms[0] == best + 1


def test_what_is_not_known_is_left_open(one_run, infeasible):
    assert all("±" not in cell for cell in cells(one_run.summary(), "reward rate"))
    assert set(cells(infeasible.summary(), "regret")) == {"–"}


def test_a_missing_regret_is_explained(infeasible, one_limit):
    assert NO_REGRET in " ".join(printed(infeasible.rows()).split())
    assert NO_REGRET not in printed(one_limit.rows())
    assert footnotes(infeasible.summary()) == ["breaks a limit (red): ucb-bwi", NO_REGRET]


def test_pulls_look_the_same_in_every_table(one_limit, one_run, infeasible):
    for results in (one_limit, one_run, infeasible):
        rows = ordered(results.rows())
        for cell, row in zip(cells(rows, "pulls"), rows, strict=True):
            assert re.fullmatch(r"[\d,]+\.\d", cell)
            assert float(cell.replace(",", "")) == pytest.approx(row.pulls, abs=0.051)


def test_rows_and_dictionaries_give_the_same_table(one_limit, two_limits, no_limit, one_run):
    for results in (one_limit, two_limits, no_limit, one_run):
        assert printed(results.rows()) == printed(results.summary())


def test_no_minus_before_a_zero(one_limit):
    rows = [{**row, "regret": -0.2, "regret_se": 2.04} for row in one_limit.summary()]
    assert set(cells(rows, "regret")) == {"0 ± 4"}


def test_sections_and_marks(one_limit):
    rows = [{**row, "outside_theory": row["budget"] < 100} for row in one_limit.summary()]
    assert rows_table(rows).ends == [False, False, True] * 3
    assert rows_table(rows[::3]).ends == [False] * 3
    assert cells(rows, "policy")[:2] == ["stationary *", "stationary"]
    assert OUTSIDE in printed(rows)
    assert OUTSIDE not in printed(one_limit.summary())


def test_problems_are_named_where_they_differ(one_limit):
    rows = ordered(one_limit.summary())
    assert columns([{**row, "problem": "p"} for row in rows])[0].heading == "policy"
    two = [{**row, "problem": name} for name in ("p", "q") for row in rows]
    assert columns(two)[0].heading == "problem"


def test_a_pipe_gets_every_cell_on_its_line(one_limit):
    rows = ordered(one_limit.summary())
    lines = printed(rows).splitlines()
    shown = [line for line in lines if "/" in line]
    assert len(shown) == len(rows)
    for column in columns(rows):
        for line, cell in zip(shown, column.texts, strict=True):
            assert cell in line


@pytest.mark.parametrize(("width", "missing"), [(200, []), (80, ["knows", "pulls", "pull share"])])
def test_a_narrow_terminal_gets_fewer_columns(one_limit, monkeypatch, width, missing):
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("FORCE_COLOR", "1")
    text = io.StringIO()
    rows = [{**row, "policy": row["policy"] + ":delta0=15"} for row in one_limit.summary()]
    print_rows(rows, text)
    told = f"not shown, too little width: {', '.join(missing)}"
    assert (told in text.getvalue()) == bool(missing)
    assert "…" not in text.getvalue()


def test_a_label_is_not_read_as_markup(one_limit):
    rows = [{**row, "policy": "[red]mine[/]"} for row in one_limit.summary()]
    assert "[red]mine[/]" in printed(rows)


def test_a_title(one_limit):
    text = io.StringIO()
    Console(file=text, width=120).print(table(one_limit.summary(), title="what happened"))
    assert "what happened" in text.getvalue()


@pytest.mark.parametrize(
    "which", ["one_limit", "no_limit", "two_limits", "many_arms", "one_run", "infeasible"]
)
def test_csv_parses_back_to_the_same_numbers(which, request, tmp_path):
    rows = detailed(request.getfixturevalue(which))
    write_csv(rows, tmp_path / "rows.csv")
    with open(tmp_path / "rows.csv", newline="") as file:
        read = list(csv.DictReader(file))
    assert len(read) == len(rows)
    for line, row in zip(read, rows, strict=True):
        for name, value in flat(row).items():
            assert not isinstance(value, list)
            if isinstance(value, float):
                assert float(line[name]) == value
            else:
                assert line[name] == ("" if value is None else str(value))


def test_csv_columns(two_limits):
    line = flat(detailed(two_limits)[0])
    row = detailed(two_limits)[0]
    assert line["violation_2"] == row.violation[1].mean
    assert (line["violation_low_1"], line["violation_high_1"]) == row.violation[0].interval
    assert line["pull_share_low_3"] == row.pull_share_interval[2][0]
    assert line["regret_low"] == row.regret.interval[0]


def test_csv_that_cannot_be_written_leaves_nothing(one_limit, tmp_path):
    with pytest.raises(InputError, match="cannot write"):
        write_csv(one_limit.summary(), tmp_path / "absent" / "rows.csv")
    with pytest.raises(KeyError):
        write_csv([_Broken()], tmp_path / "rows.csv")
    assert os.listdir(tmp_path) == []


class _Broken(dict):
    def items(self):
        raise KeyError("broken")


def test_share_intervals_hold_the_shares(one_limit):
    for row in detailed(one_limit):
        for share, (low, high) in zip(row.pull_share, row.pull_share_interval, strict=True):
            assert low < share < high
            assert (low + high) / 2 == pytest.approx(share)


def test_optimum_rate_is_what_regret_is_measured_against(one_limit, infeasible):
    from tightrope import optimum

    for row in one_limit.summary():
        exact = optimum(one_limit.problem, row["budget"]) / row["budget"]
        assert optimum_rate(row) == pytest.approx(exact)
    assert optimum_rate(infeasible.summary()[0]) is None


def oracle_row(best: Oracle) -> dict[str, object]:
    return {
        "reward_rate": best.reward_rate,
        "penalty_rate": list(best.penalty_rate),
        "multiplier": list(best.multiplier),
        "pull_share": best.pull_share.tolist(),
        "cost_share": best.cost_share.tolist(),
    }


def test_oracle_prints_arms_and_rates(paper, capsys):
    print_oracle(paper, {**oracle_row(oracle(paper)), "optimum": 1300.5}, 1000.0)
    text = capsys.readouterr().out
    assert "0.3913" in text
    assert "0.3000" in text
    assert "reward rate: 1.3\n" in text
    assert "limit: 0.8\n" in text
    assert "optimum at budget 1,000: 1,300.5\n" in text


def test_oracle_of_many_arms_lists_those_it_pulls(capsys):
    problem = ready_problem("paper-arms-100")
    print_oracle(problem, oracle_row(oracle(problem)))
    text = capsys.readouterr().out
    assert "and 98 arms that are never pulled" in text
    assert "bold 1 " in text
    assert "bold 30" not in text


def test_oracle_in_the_users_units(capsys):
    problem = ready_problem("advertising")
    print_oracle(problem, oracle_row(oracle(problem)))
    video = next(line for line in capsys.readouterr().out.splitlines() if "video" in line)
    assert float(video.split()[1]) == pytest.approx(0.12 * 60 / 2.0)
    assert float(video.split()[2]) == pytest.approx(0.7 / 2.0)
