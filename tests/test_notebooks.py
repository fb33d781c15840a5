"""The notebooks run in a real kernel, and print what is saved in them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat", reason="needs nbclient, which the dev extra has")
nbclient = pytest.importorskip("nbclient", reason="the dev extra has it")
pytest.importorskip("ipykernel", reason="the dev extra has it")

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))
MOST_BYTES = 300_000
NUMBER = re.compile(r"-?\d+\.?\d*(?:e[+-]?\d+)?")


def printed(book):
    """What every cell of code prints and shows, as text; its pictures as a word."""
    for cell in book.cells:
        if cell.cell_type == "code":
            yield "\n".join(
                text
                for output in cell.outputs
                if output.get("name") != "stderr"  # "compiling kernels, once"
                for text in [output.get("text", ""), *shown(output.get("data", {}))]
            )


def shown(data):
    return [data.get("text/plain", ""), *(kind for kind in data if kind.startswith("image/"))]


def numbers(text):
    return [float(found) for found in NUMBER.findall(text)]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_prints_what_is_saved(path, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    saved = nbformat.read(path, as_version=4)
    again = nbformat.from_dict(json.loads(json.dumps(saved)))
    for cell in again.cells:
        if cell.cell_type == "code":
            cell.outputs = []
    here = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(again, timeout=300, kernel_name="python3", resources=here).execute()
    for old, new in zip(printed(saved), printed(again), strict=True):
        assert NUMBER.sub("#", old) == NUMBER.sub("#", new)
        assert numbers(old) == pytest.approx(numbers(new), rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_is_saved_small_and_whole(path):
    """With its pictures, its cells run once and in order, and nothing of one machine."""
    assert path.stat().st_size < MOST_BYTES
    book = nbformat.read(path, as_version=4)
    nbformat.validate(book)
    assert book.cells[0].source.startswith("# ")
    assert sum("image/png" in text for text in printed(book)) >= 1
    code = [cell for cell in book.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    kinds = {(output.output_type, output.get("name")) for cell in code for output in cell.outputs}
    assert kinds <= {("stream", "stdout"), ("execute_result", None), ("display_data", None)}
    assert str(Path.home()) not in path.read_text()


def test_all_are_listed():
    front, examples = (ROOT / name for name in ("docs/index.md", "examples/README.md"))
    assert len(NOTEBOOKS) == 4
    for path in NOTEBOOKS:
        assert f"](notebooks/{path.name})" in examples.read_text()
        assert f"<notebooks/{path.stem}>\n" in front.read_text(), "in the site's sidebar"
