"""``python -m tests.fuzz --minutes 10 --seed 3``: run inputs, print those that end badly.

``python -m tests.fuzz http`` sends bytes to the service instead of lines to the shell, and
``python -m tests.fuzz files`` gives damaged files to the commands that read them.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.fuzz.inputs import case
from tests.fuzz.running import Outcome, run

Running = Callable[[int, int], tuple[Any, Outcome]]


@contextmanager
def shell() -> Iterator[Running]:
    """Lines for the shell."""
    with tempfile.TemporaryDirectory() as name:
        os.chdir(name)  # nothing that an input writes is left behind

        def one(seed: int, number: int) -> tuple[Any, Outcome]:
            made = case(seed, number)
            return made, run(made, Path(name))

        yield one


@contextmanager
def http() -> Iterator[Running]:
    """Bytes for the service."""
    from tests.fuzz.requests import Target, request

    with Target() as target:

        def one(seed: int, number: int) -> tuple[Any, Outcome]:
            made = request(seed, number)
            return made, target.run(made)

        yield one
        print(f"the server has grown by {target.grown / 2**20:.1f} MiB")


@contextmanager
def files() -> Iterator[Running]:
    """Damaged files."""
    from tests.fuzz.files import Files

    with tempfile.TemporaryDirectory() as name:
        sound = Files(Path(name))

        def one(seed: int, number: int) -> tuple[Any, Outcome]:
            made = sound.damaged(seed, number)
            return made, sound.run(made)

        yield one


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("what", nargs="?", choices=["shell", "http", "files"], default="shell")
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first input")
    parser.add_argument("--one", type=int, help="run this input alone, and show it")
    options = parser.parse_args()
    end, failures = time.monotonic() + 60.0 * options.minutes, 0
    number = options.first if options.one is None else options.one
    statuses: Counter[int | None] = Counter()
    with {"shell": shell, "http": http, "files": files}[options.what]() as running:
        while time.monotonic() < end:
            one, found = running(options.seed, number)
            statuses[found.status] += 1
            if found:
                failures += 1
                print(f"--- input {number} of seed {options.seed}\n{one}\n{found}\n", flush=True)
            if options.one is not None:
                print(f"{one}\nstatus {found.status} after {found.seconds:.2f} s")
                break
            number += 1
    counts = ", ".join(f"status {key}: {count}" for key, count in sorted(statuses.items(), key=str))
    print(f"{options.what}: {sum(statuses.values())} inputs, {failures} failed; {counts}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
