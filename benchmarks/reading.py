"""Reading a log: seconds, and the peak of memory over the size of the columns that are used.

    python -m benchmarks.reading [--rows 1e6 1e7] [--old ../release/src]   # of 0.2

The log has eight columns of numbers and names, of which four are used. Each reading is a process of
its own; both versions run in turn. The memory is what the process grows by at most (on Linux), over
the bytes of the log that it returns. Prints rows of CSV.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from benchmarks.rows import print_rows

SOURCE = Path(__file__).parents[1] / "src"
ARMS = ("haiku", "sonnet", "opus")
UNUSED = 4  # columns of numbers that are not read
REPEATS = 3

READ = """
import json, sys, time
import pyarrow.csv, pyarrow.parquet
from tightrope import read_log
roles = dict(arm="model", cost="usd", reward="score", penalty="bad")
read_log(sys.argv[1], **roles)  # modules are loaded
def memory(what):
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(what))
open("/proc/self/clear_refs", "w").write("5")  # the peak starts anew
before, start = memory("VmRSS"), time.perf_counter()
log = read_log(sys.argv[2], **roles)
taken = time.perf_counter() - start
used = log.chosen.nbytes + log.outcomes.nbytes
print(json.dumps([taken, (memory("VmHWM") - before) / used, used]))
"""


def write(folder: Path, rows: int) -> list[Path]:
    """The same log as CSV and as Parquet."""
    import pyarrow as pa
    from pyarrow import csv, parquet

    random = np.random.default_rng(0)
    table = pa.table({
        "model": pa.array(np.array(ARMS)[random.integers(3, size=rows)]),
        "usd": random.random(rows).round(4),
        "score": random.integers(0, 2, size=rows),
        "bad": random.integers(0, 2, size=rows),
        **{f"other {n}": random.random(rows).round(4) for n in range(UNUSED)},
    })  # fmt: skip
    paths = [folder / f"{rows}.csv", folder / f"{rows}.parquet"]
    csv.write_csv(table, paths[0])
    parquet.write_table(table, paths[1])
    return paths


def read(source: Path, small: Path, path: Path) -> tuple[float, float, float]:
    """Seconds, memory over the columns, and the bytes of the columns."""
    command = [sys.executable, "-c", READ, str(small), str(path)]
    environment = {**os.environ, "PYTHONPATH": str(source)}
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    seconds, memory, used = json.loads(done.stdout)
    return seconds, memory, used


def measured(counts: Sequence[int], versions: dict[str, Path]) -> Iterator[dict[str, object]]:
    with tempfile.TemporaryDirectory() as name:
        few = write(Path(name), 1000)
        for rows in counts:
            for small, path in zip(few, write(Path(name), rows), strict=True):
                found: dict[str, list[tuple[float, float, float]]] = {one: [] for one in versions}
                for _ in range(REPEATS):
                    for version, source in versions.items():
                        found[version].append(read(source, small, path))
                for version, some in found.items():
                    least = min(seconds for seconds, _, _ in some)
                    yield {
                        "version": version,
                        "format": path.suffix[1:],
                        "rows": rows,
                        "file_mb": f"{path.stat().st_size / 1e6:.0f}",
                        "columns_mb": f"{some[0][2] / 1e6:.0f}",
                        "seconds": f"{least:.2f}",
                        "million_rows_per_second": f"{rows / least / 1e6:.1f}",
                        "memory_over_columns": f"{max(memory for _, memory, _ in some):.2f}",
                    }
                path.unlink()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=float, nargs="+", default=[1e6, 1e7])
    parser.add_argument("--old", type=Path, help="the folder src of another version")
    given = parser.parse_args()
    versions = {"0.2": given.old} if given.old else {}
    print_rows(measured([int(one) for one in given.rows], {**versions, "this": SOURCE}))


if __name__ == "__main__":
    main()
