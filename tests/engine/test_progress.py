"""Progress off a terminal: a line from time to time; none if it is quick or not wanted."""

from __future__ import annotations

import re
from threading import Event

import pytest

from tightrope.engine import progress
from tightrope.engine.progress import reporting


@pytest.fixture
def written(monkeypatch):
    """The lines, and an event that is set at the first."""
    lines, event = [], Event()

    def write(line, **_):
        lines.append(line)
        event.set()

    monkeypatch.setattr(progress, "print", write, raising=False)
    return lines, event


def test_long_work_prints_lines(written, monkeypatch):
    lines, event = written
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.001)
    with reporting(None, 8.0, "simulating") as tell:
        tell(2.0)
        assert event.wait(60.0)
    assert re.fullmatch(r"simulating: (0|25) % after [\d.]+ s", lines[0])


@pytest.mark.parametrize("wanted", [None, True, False])
def test_short_work_prints_nothing(written, wanted):
    with reporting(wanted, 8.0, "simulating") as tell:
        tell(8.0)
    assert written[0] == []
