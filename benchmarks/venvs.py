"""A virtual environment per package, kept under benchmarks/.venvs, and its installed size.

An environment starts empty, without even pip, so that its size is that of the requirements.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import venv
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import Distribution, distributions
from pathlib import Path

FOLDER = Path(__file__).parent / ".venvs"


class NotInstalledError(Exception):
    """pip failed; the message is its reason on one line."""


@dataclass(frozen=True)
class Installed:
    """The version and bytes of each installed distribution, and the total bytes."""

    requirements: list[str]
    versions: dict[str, str]
    sizes: dict[str, int]
    size: int


def python(name: str) -> Path:
    """The interpreter of the environment ``name``."""
    return FOLDER / name / "bin" / "python"


def install(name: str, requirements: Sequence[str], *, anew: bool = False) -> Installed:
    """Create the environment ``name``, unless it exists with these requirements."""
    note = FOLDER / name / "installed.json"
    if note.exists() and not anew:
        known = Installed(**json.loads(note.read_text()))
        if known.requirements == list(requirements):
            return known
    shutil.rmtree(FOLDER / name, ignore_errors=True)
    venv.create(FOLDER / name, symlinks=True)
    pip_install(name, requirements)
    installed = look(name, requirements)
    note.write_text(json.dumps(asdict(installed)))
    return installed


def pip_install(name: str, requirements: Sequence[str]) -> None:
    pip = [sys.executable, "-m", "pip", "--python", str(python(name)), "install", "--quiet"]
    done = subprocess.run([*pip, *requirements], capture_output=True, text=True)
    if done.returncode:
        raise NotInstalledError(reason(done.stderr))


def look(name: str, requirements: Sequence[str]) -> Installed:
    """Measure the installed distributions, before anything has run there."""
    (site,) = (FOLDER / name / "lib").glob("python*/site-packages")
    found = sorted(distributions(path=[str(site)]), key=lambda one: one.name.lower())
    return Installed(
        list(requirements),
        versions={one.name.lower(): one.version for one in found},
        sizes={one.name.lower(): size_of(one) for one in found},
        size=sum(file.stat().st_size for file in site.rglob("*") if file.is_file()),
    )


def size_of(distribution: Distribution) -> int:
    paths = [Path(str(file.locate())) for file in distribution.files or ()]
    return sum(path.stat().st_size for path in paths if path.is_file())


def reason(stderr: str) -> str:
    """The most useful line of an error output: pip's first ERROR, else the last line."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith(("ERROR:", "error:"))]
    return (errors[:1] or lines[-1:] or ["no reason given"])[0]
