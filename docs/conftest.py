"""The sessions of each page run in a folder of their own."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that a page writes are not left in the repository."""
    monkeypatch.chdir(tmp_path)
