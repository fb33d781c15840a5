"""Compare tightrope with other packages on the same Bernoulli task, each in its own environment.

    python -m benchmarks.side_by_side [--rounds 5]

Every round starts each package's script once, one process at a time; a figure is the best of all
rounds. Packages that do not install or do not run are left out, with the reason.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
from dataclasses import dataclass, field

from benchmarks import page, venvs
from benchmarks.comparison import Row
from benchmarks.packages import OURS, PEERS, Package
from benchmarks.peers.bernoulli import Environment
from benchmarks.peers.stopwatch import ARMS, SECONDS, rate
from benchmarks.venvs import Installed

ROUNDS = 5
PATIENCE = 120  # most seconds per script
IMPORT = "import time; start = time.perf_counter(); import {}; print(time.perf_counter() - start)"


class NotRunError(Exception):
    """A package's script failed; the message is the reason, on one line."""


@dataclass
class Entry:
    """A package and its best so far: rates by (what, K), seconds to import by module."""

    package: Package
    installed: Installed
    rates: dict[tuple[str, int], float] = field(default_factory=dict)
    imports: dict[str, float] = field(default_factory=dict)

    def measure(self) -> None:
        """Measure one round."""
        for module in (self.package.top, self.package.module):
            seconds = float(last_line(self.package, "-I", "-c", IMPORT.format(module)))
            self.imports[module] = min(self.imports.get(module, seconds), seconds)
        figures = json.loads(last_line(self.package, str(self.package.script)))
        for what, by_arms in figures.items():
            for arms, figure in by_arms.items():
                key = what, int(arms)
                self.rates[key] = max(self.rates.get(key, 0.0), figure)

    def decisions(self, arms: int) -> float:
        """Decisions per second, ask and tell."""
        return self.rates["decisions", arms]

    def steps(self, arms: int) -> float:
        """Simulated steps per second: by its runner or its ask/tell loop, whichever is faster."""
        return max(self.rates.get(("runner", arms), 0.0), self.decisions(arms))

    def simulated_by(self) -> str:
        """The method that was faster in ``steps`` at each K."""
        loop = "its ask/tell loop"
        by = [self.package.runner if self.steps(k) > self.decisions(k) else loop for k in ARMS]
        if len(set(by)) == 1:
            return by[0]
        return ", ".join(f"{arms} arms: {name}" for arms, name in zip(ARMS, by, strict=True))

    @property
    def version(self) -> str:
        return self.installed.versions[self.package.key]


def last_line(package: Package, *arguments: str) -> str:
    """The last line that the package's interpreter prints."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [str(venvs.python(package.key)), *arguments]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=PATIENCE, env=environment
        )
    except subprocess.TimeoutExpired:
        raise NotRunError(f"took more than {PATIENCE} s") from None
    if done.returncode:
        raise NotRunError(venvs.reason(done.stderr))
    return done.stdout.splitlines()[-1]


@dataclass
class Comparison:
    """Our entry, the others', why some are left out, and the seconds of one bare pull."""

    ours: Entry
    others: list[Entry] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    pull_seconds: float = float("inf")

    @property
    def entries(self) -> list[Entry]:
        return [self.ours, *self.others]

    def leave_out(self, package: Package, reason: str) -> None:
        print(f"left out: {package.name} {reason}", flush=True)
        self.left_out[package.name] = reason
        self.others = [entry for entry in self.others if entry.package is not package]

    def round(self) -> None:
        """Measure every package once."""
        self.pull_seconds = min(self.pull_seconds, 1 / rate(bare_pulls))
        self.ours.measure()
        for entry in self.others:
            try:
                entry.measure()
            except NotRunError as error:
                self.leave_out(entry.package, f"does not run: {error}")


def bare_pulls(steps: int) -> int:
    """Play the loop of every script without a policy, to time the environment itself."""
    pull = Environment(2).pull
    for _ in range(steps):
        pull(1)
    return steps


def installed() -> Comparison:
    """A comparison with every package that installs, without measurements."""
    print(f"installing {OURS.name}", flush=True)
    comparison = Comparison(Entry(OURS, venvs.install(OURS.key, OURS.requirements, anew=True)))
    for peer in PEERS:
        print(f"installing {peer.name}", flush=True)
        try:
            comparison.others.append(Entry(peer, venvs.install(peer.key, peer.requirements)))
        except venvs.NotInstalledError as error:
            comparison.leave_out(peer, f"does not install: {error}")
    return comparison


def rows(comparison: Comparison) -> list[Row]:
    """The seven rows."""
    ours, others = comparison.ours, {one.package.name: one for one in comparison.others}
    decisions = [
        Row(
            f"decisions per second, {arms} arms",
            ours.decisions(arms),
            {name: other.decisions(arms) for name, other in others.items()},
        )
        for arms in ARMS
    ]
    steps = [
        Row(
            f"simulated steps per second, {arms} arms",
            ours.steps(arms),
            {name: other.steps(arms) for name, other in others.items()},
        )
        for arms in ARMS
    ]
    top = Row(
        "import the top package",
        1e3 * ours.imports[OURS.top],
        {name: 1e3 * other.imports[other.package.top] for name, other in others.items()},
        more_is_better=False,
        unit=" ms",
        why="Ours loads errors and a table of names; faster ones import almost nothing.",
    )
    deciding = Row(
        "import what decides",
        1e3 * ours.imports[OURS.module],
        {name: 1e3 * other.imports[other.package.module] for name, other in others.items()},
        more_is_better=False,
        unit=" ms",
        why="Ours loads numba, the compiler, and numpy; faster ones do not.",
    )
    sizes = Row(
        "size installed",
        ours.installed.size / 1e6,
        {name: other.installed.size / 1e6 for name, other in others.items()},
        more_is_better=False,
        unit=" MB",
        why=weights(ours.installed),
    )
    return [*decisions, *steps, top, deciding, sizes]


def weights(installed: Installed) -> str:
    """The installed size of our dependencies, largest first."""
    heaviest = sorted(installed.sizes, key=installed.sizes.__getitem__, reverse=True)[:4]
    parts = ", ".join(f"{name} {installed.sizes[name] / 1e6:.0f} MB" for name in heaviest)
    itself = installed.sizes[OURS.key] / 1e6
    return (
        f"Ours is mostly {parts}: the compiler of the kernels and the numerics under them; "
        f"{OURS.name} itself is {itself:.1f} MB."
    )


def usage(entries: list[Entry]) -> str:
    """How each package is used, and what pip installed with it."""
    head = ["package", "policy", "decides with", "simulated by", "module", "remark", "installed"]
    return page.table(
        head,
        (
            [
                f"{entry.package.name} {entry.version}",
                entry.package.policy,
                entry.package.decides,
                entry.simulated_by(),
                f"`{entry.package.module}`",
                entry.package.remark,
                companions(entry),
            ]
            for entry in entries
        ),
    )


def companions(entry: Entry) -> str:
    """What pip installed along with the package."""
    versions = entry.installed.versions
    others = [f"{name} {versions[name]}" for name in versions if name != entry.package.key]
    return ", ".join(others) or "nothing more"


def text(comparison: Comparison, rounds: int) -> str:
    """The page's block."""
    found = rows(comparison)
    names = [entry.package.name for entry in comparison.entries]
    left_out = [f"{name} {reason}" for name, reason in comparison.left_out.items()]
    return "\n\n".join(
        (
            f"{page.machine()}; best of {rounds} rounds, each timing about {SECONDS} s, "
            "one process and one thread at a time.",
            page.table(["", *names], [row.cells() for row in found]),
            page.bullets(row.verdict() for row in found),
            f"Left out: {'; '.join(left_out) or 'none'}.",
            f"One pull of the shared environment takes {1e9 * comparison.pull_seconds:.0f} ns, "
            "which all decisions include.",
            usage(comparison.entries),
        )
    )


def block(rounds: int = ROUNDS) -> str:
    """Install and measure everything; returns the page's block."""
    comparison = installed()
    for number in range(1, rounds + 1):
        print(f"side by side: round {number} of {rounds}", flush=True)
        comparison.round()
    return text(comparison, rounds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    print(block(parser.parse_args().rounds))


if __name__ == "__main__":
    main()
