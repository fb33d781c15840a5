"""``python -m tests.fuzz --minutes 10 --seed 3``: run inputs, print those that end badly."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.fuzz.inputs import case
from tests.fuzz.running import run


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first input")
    parser.add_argument("--one", type=int, help="run this input alone, and show it")
    options = parser.parse_args()
    end, number, failures = time.monotonic() + 60.0 * options.minutes, options.first, 0
    statuses: Counter[int | None] = Counter()
    with tempfile.TemporaryDirectory() as name:
        os.chdir(name)  # nothing that an input writes is left behind
        while time.monotonic() < end:
            number = number if options.one is None else options.one
            one = case(options.seed, number)
            if options.one is not None:
                print(one)
            found = run(one, Path(name))
            statuses[found.status] += 1
            if found:
                failures += 1
                print(f"--- input {number} of seed {options.seed}\n{one}\n{found}\n", flush=True)
            if options.one is not None:
                print(f"status {found.status} after {found.seconds:.2f} s")
                break
            number += 1
    counts = ", ".join(f"status {key}: {count}" for key, count in sorted(statuses.items(), key=str))
    print(f"{sum(statuses.values())} inputs, {failures} failed; {counts}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
