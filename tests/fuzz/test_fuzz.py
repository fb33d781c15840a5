"""Whatever is typed ends with status 0 or 2, in seconds, with one line where it is refused."""

from __future__ import annotations

import time

import pytest

from tests.fuzz.inputs import SOUND_PROBLEM, Case, case
from tests.fuzz.running import run

SEED, INPUTS, SECONDS = 11, 1000, 40.0  # as many as the seconds allow


def test_generated_inputs_end_well(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    end, number = time.monotonic() + SECONDS, 0
    while number < INPUTS and time.monotonic() < end:
        one = case(SEED, number)
        if "cpu" not in one.arguments and one.arguments[0] != "tune":  # nothing is compiled here
            found = run(one, tmp_path)
            assert not found, f"input {number}:\n{one}\n{found}"
        number += 1
    assert number > 50


def test_an_input_is_the_same_every_time():
    assert [case(3, n) for n in range(50)] == [case(3, n) for n in range(50)]
    assert len({case(3, n) for n in range(50)}) > 40


PYTHON = ("--backend", "python", "--quiet", "--runs", "2")


def simulated(policy: str = "lyon", budget: str = "20", *more: str) -> tuple[str, ...]:
    return ("simulate", "{file}", "--policy", policy, "--budget", budget, *(more or PYTHON))


def with_line(old: str, new: str) -> bytes:
    assert old in SOUND_PROBLEM
    return SOUND_PROBLEM.replace(old, new).encode()


KNOWN = [  # each was a traceback, or endless, or took gigabytes
    (("tune", "{file}", "--budget", "20", "--runs", "1", "--out", "{out}"), b""),
    (("tune", "{file}", "--budget", "20", "--max-violation", "nan", "--out", "{out}"), b""),
    (simulated("fixed-arm:arm=nan"), b""),
    (simulated("fixed-arm:arm=inf"), b""),
    (simulated("stationary:shares=nan/1"), b""),
    (simulated("lyon-wilson:delta0=1e300"), b""),
    (simulated("lyon:v0=5e-324"), b""),
    (simulated("lyon", "5e-324"), b""),
    (simulated("lyon", "1e300"), b""),
    (simulated("lyon", "1e17"), b""),
    (simulated("lyon", "nan"), b""),
    (simulated("lyon", "20", "--runs", "1000000000000"), b""),
    (simulated("lyon", "20", "--runs", "1" + "0" * 40), b""),
    (simulated("lyon", "20", "--runs", "0"), b""),
    (simulated("lyon", "20", "--runs", "9" * 5000), b""),
    (simulated("lyon", "20", "--threads", "1000000000"), b""),
    (("theory", "{file}", "--budget", "1000", "--alpha", "1e300"), b""),
    (("theory", "{file}", "--budget", "1e300"), b""),
    (("oracle", "{file}", "--budget", "1e300"), b""),
    (("oracle", "/dev/zero"), b""),
    (("oracle", "."), b""),
    (("oracle", "a\0b"), b""),
    (simulated(), with_line("0.8\n", "1e-300\n")),
    (simulated(), with_line("0.8\n", "5e-324\n")),
    (simulated(), with_line("0.8\n", "1" + "0" * 400 + "\n")),
    (simulated(), with_line("0.8\n", "inf\n")),
    (simulated(), with_line("0.8\n", "-0.0\n")),
    (simulated(), with_line("0.8\n", "[]\n")),
    (simulated(), with_line("0.8\n", '"0.8 per"\n')),
    (simulated(), with_line("0.8\n", "[" * 3000 + "]" * 3000 + "\n")),
    (simulated(), with_line("limit = 0.8\n", "a." * 30000 + "b = 1\n")),
    (simulated(), with_line("{ bernoulli = 0.3 }", "{ beta = [0.5, 1e300] }")),
    (simulated(), with_line("{ bernoulli = 0.4 }", "{ discrete = [0.5, [1]] }")),
    (simulated(), with_line("{ bernoulli = 0.4 }", "{ truncated-normal = [0.5, 0.2, 0, 1e308] }")),
    (simulated(), with_line('"a"', '""')),
    (simulated(), b"\xff\xfe\x00"),
]


@pytest.mark.parametrize(("arguments", "content"), KNOWN, ids=range(len(KNOWN)))
def test_what_once_failed_is_refused_in_one_line(arguments, content, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = run(Case(arguments, content or SOUND_PROBLEM.encode()), tmp_path)
    assert not found, found
    assert found.status == 2


@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbf" + SOUND_PROBLEM.encode(),
        SOUND_PROBLEM.replace("\n", "\r\n").encode(),
        with_line("0.8\n", "0.76\n"),
        with_line("0.8\n", "1e9\n"),
        with_line("0.8\n", '"0.8"\n'),
    ],
    ids=["BOM", "CRLF", "tight", "loose", "a text"],
)
def test_what_is_odd_but_sound_runs(content, tmp_path):
    found = run(Case((*simulated(), "--json"), content), tmp_path)
    assert not found, found
    assert found.status == 0
