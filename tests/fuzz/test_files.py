"""Damaged files are refused in one line."""

from __future__ import annotations

import re

import pytest

from tests.fuzz.files import Damaged, Files


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return Files(tmp_path_factory.mktemp("files"))


def test_a_damaged_file_is_the_same_every_time(files):
    assert [files.damaged(3, n) for n in range(50)] == [files.damaged(3, n) for n in range(50)]


@pytest.mark.parametrize(
    ("old", "new"),
    [(rb'"body": {"', b'"body": {"\xa5'), (rb'\["cost",\d+', b'["cost",-999999999')],
    ids=["not UTF-8", "digits"],
)
def test_a_damaged_export_is_refused_in_one_line(files, old, new):
    sound = files.sound["export.jsonl"]
    assert re.search(old, sound)
    content = {"export.jsonl": re.sub(old, new, sound, count=1)}
    line = "fit export.jsonl --format campaign"
    found = files.run(Damaged(line, content, "export.jsonl", "changed"))
    assert not found, found
    assert found.status == 2
