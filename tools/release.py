"""Build the release and try it as its users will.

    python -m tools.release [--out dist] [--extra serve]

Builds sdist and wheel from the files that git knows, looks at what is in them, checks their
metadata (twine), installs the wheel into empty environments, alone and with each extra, and runs it
there, outside the clone. The last lines are a table of what was installed and how large it is.
Nothing is uploaded: docs/releasing.md says what to do with the files.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import venv
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path

from benchmarks.venvs import reason, size_of

ROOT = Path(__file__).resolve().parents[1]
TOOLS = ("build>=1.2", "twine>=6.1")
LARGE = 2_000_000  # bytes of a file in the sdist that nobody put there on purpose
LICENCES = (
    "LICENSE",
    "NOTICE",
    "LICENSES/Apache-2.0.txt",
    "LICENSES/htmx.txt",
    "LICENSES/uPlot.txt",
)
SKIPPED = ("dev", "docs", "gpu", "gpu-cuda12")  # of the extras: asked for by name
BARE = "the client alone"  # without what it does not import: docs/service.md
VERSION = "import tightrope; print('tightrope', tightrope.__version__)"  # where there is no shell
SIMULATE = "simulate paper --policy lyon --budget 1000 --runs 50 --seed 1 --json".split()


class ReleaseError(Exception):
    """What keeps the release from being made, on one line."""


# --- what every environment has to do -----------------------------------------------------

PLAIN = """
import json, sys
rows = json.loads(sys.stdin.read())
assert [row["runs"] for row in rows] == [50], rows
assert 0.5 < rows[0]["reward_rate"] < 2.0, rows
"""
FRAMES = """
import tightrope
paper = tightrope.ready_problem("paper")
results = tightrope.simulate(paper, [tightrope.LyOn()], budgets=[1000], runs=50)
try:
    results.to_frame()
except tightrope.TightropeError as error:  # the user brings pandas, polars or pyarrow
    assert "narwhals" not in str(error), error
"""
DATA = """
import tightrope
log = {"model": ["a", "b"] * 400, "usd": [0.2, 0.1] * 400, "bad": [1, 0] * 400}
problem = tightrope.Problem.from_frame(log, arm="model", cost="usd", reward=1, limits={"bad": 0.5})
problem.save("problem.toml")
assert tightrope.load_problem("problem.toml") == problem
"""
PANDAS = """
import tightrope
paper = tightrope.ready_problem("paper")
results = tightrope.simulate(paper, [tightrope.LyOn()], budgets=[1000], runs=50)
assert results.to_frame("pandas").shape[0] == 1
"""
POSTGRES = """
import tightrope
try:
    tightrope.open_campaign("postgresql://nobody@127.0.0.1:1/none", "november")
except tightrope.TightropeError as error:
    assert "pip install" not in str(error), error
else:
    raise SystemExit("no server, and no error")
"""
SERVE = """
import urllib.request
from tightrope.client import Client
from tightrope.service.server import Running
task = {"arms": [{"name": "haiku"}, {"name": "opus"}], "limits": {"bad": 0.2}}
with Running("campaigns.db") as server, Client(server.url) as client:
    client.create("november", task, 100.0, policy="uniform-random")
    for _ in range(5):
        ticket = client.ask("november")
        client.report("november", ticket.id, 0.5, 1.0, {"bad": 0.0})
    assert client.status("november")["told"] == 5
    for path in ("/", "/static/htmx.min.js", "/campaigns/november", "/openapi.json", "/metrics"):
        with urllib.request.urlopen(server.url + path) as answer:
            assert answer.status == 200, path
"""
CLIENT = """
import tightrope.client
try:
    tightrope.client.Client("http://127.0.0.1:1", deadline=1.0).ask("november")
except tightrope.client.UnreachableError:
    pass
else:
    raise SystemExit("no server, and no error")
"""
SCRIPTS = {
    "frames": FRAMES, "data": DATA, "pandas": PANDAS, "postgres": POSTGRES, "serve": SERVE,
    "client": CLIENT, BARE: CLIENT,
}  # fmt: skip
COMMANDS = {
    "report": "reproduce fig1 --runs 50 --out out".split(),
    "ray": [*SIMULATE, "--backend", "ray"],
    "gpu": [*SIMULATE, "--backend", "gpu"],
    "gpu-cuda12": [*SIMULATE, "--backend", "gpu"],
}
MADE = {"report": ("out/index.html",)}  # files that a command leaves


@dataclass(frozen=True)
class Environment:
    """What was installed for an extra, in bytes."""

    extra: str
    packages: Mapping[str, int]
    size: int
    seconds: float  # of installing and trying it

    def row(self) -> list[str]:
        """Of the table."""
        largest = sorted(self.packages.items(), key=lambda one: -one[1])[:4]
        named = ", ".join(f"{name} {size / 1e6:.0f}" for name, size in largest)
        title = f"tightrope[{self.extra}]" if self.extra else "tightrope"
        title = self.extra if self.extra == BARE else title
        return [title, str(len(self.packages)), f"{self.size / 1e6:.0f} MB", named,
                f"{self.seconds:.0f} s"]  # fmt: skip


def run(
    command: Sequence[str | Path], where: Path, *, stdin: str = "", title: str | None = None
) -> str:
    """Standard output of a command, away from the clone; its failure is a ``ReleaseError``."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        [str(word) for word in command], cwd=where, input=stdin, capture_output=True, text=True,
        env=environment | {"NUMBA_CACHE_DIR": str(where / "kernels"), "NO_COLOR": "1"},
    )  # fmt: skip
    if done.returncode:
        what = title or " ".join(map(str, command))
        raise ReleaseError(
            f"{what}: status {done.returncode}: {reason(done.stderr or done.stdout)}"
        )
    return done.stdout


# --- what is built ------------------------------------------------------------------------


def agreed_version(root: Path) -> str:
    """The version, if the package, the changelog and the citation say the same."""
    source = (root / "src/tightrope/version.py").read_text()
    (version,) = re.findall(r'__version__ = "([^"]+)"', source)
    (cited,) = re.findall(r"(?m)^version: (\S+)$", (root / "CITATION.cff").read_text())
    headings = re.findall(r"(?m)^## (\S+)(?: \((.+)\))?$", (root / "CHANGELOG.md").read_text())
    newest, date = headings[0]
    if not re.fullmatch(r"\d+\.\d+\.\d+((a|b|rc)\d+)?", version):
        raise ReleaseError(f"version.py: {version}: not the version of a release")
    for name, found in (("CITATION.cff", cited), ("CHANGELOG.md", newest)):
        if found != version:
            raise ReleaseError(f"{name}: version {found}, but version.py has {version}")
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", date):
        raise ReleaseError(f"CHANGELOG.md: {version} ({date}): must have the date of the release")
    return version


def tracked(root: Path) -> set[str]:
    """The files that git knows, of a clone without changes."""
    changed = run(["git", "status", "--porcelain"], root).splitlines()
    if changed:
        raise ReleaseError(f"{changed[0].strip()}: commit or remove it; {len(changed)} such files")
    return set(run(["git", "ls-files", "-z"], root).rstrip("\0").split("\0"))


def contents(file: Path) -> dict[str, int]:
    """Names and sizes of the files in an archive; of an sdist without its folder."""
    if file.suffix == ".whl":
        with zipfile.ZipFile(file) as wheel:
            return {one.filename: one.file_size for one in wheel.infolist()}
    with tarfile.open(file) as sdist:
        return {one.name.partition("/")[2]: one.size for one in sdist if one.isfile()}


def checked_sdist(found: Mapping[str, int], known: Iterable[str]) -> None:
    """An sdist has the files that git knows, PKG-INFO, and nothing else."""
    _same("sdist", set(found), {*known, "PKG-INFO"})
    for name, size in found.items():
        if size > LARGE:
            raise ReleaseError(f"sdist: {name}: {size / 1e6:.1f} MB; at most {LARGE / 1e6:g}")


def checked_wheel(found: Mapping[str, int], known: Iterable[str], version: str) -> None:
    """A wheel has every file of the package, its licences and metadata, and nothing else."""
    info = f"tightrope-{version}.dist-info/"
    wanted = {name.removeprefix("src/") for name in known if name.startswith("src/tightrope/")}
    if "tightrope/py.typed" not in wanted:
        raise ReleaseError("src/tightrope/py.typed: missing, so that its types are not seen")
    metadata = {info + name for name in ("METADATA", "WHEEL", "RECORD", "entry_points.txt")}
    licences = {f"{info}licenses/{name}" for name in LICENCES}
    _same("wheel", set(found), wanted | metadata | licences)


def _same(what: str, found: set[str], wanted: set[str]) -> None:
    for name in sorted(wanted - found):
        raise ReleaseError(f"{what}: {name} is missing")
    for name in sorted(found - wanted):
        raise ReleaseError(f"{what}: {name} is in it, and should not be")


def built(root: Path, work: Path, say: Callable[[str], None]) -> tuple[Path, Path]:
    """The sdist and the wheel that is built from it, looked at and checked, in a folder of ours."""
    version, known = agreed_version(root), tracked(root)
    tools = work / "tools"
    venv.create(tools, with_pip=True)
    python = tools / "bin" / "python"
    run([python, "-m", "pip", "install", "--quiet", *TOOLS], work)
    run([python, "-m", "build", "--outdir", work / "dist", root], work, title="build")
    sdist = work / "dist" / f"tightrope-{version}.tar.gz"
    wheel = work / "dist" / f"tightrope-{version}-py3-none-any.whl"
    checked_sdist(contents(sdist), known)
    checked_wheel(contents(wheel), known, version)
    run([python, "-m", "twine", "check", "--strict", sdist, wheel], work, title="twine check")
    for file in (sdist, wheel):
        say(f"{file.name}: {len(contents(file))} files, {file.stat().st_size / 1e6:.2f} MB")
    return sdist, wheel


# --- what is installed --------------------------------------------------------------------


def tried(wheel: Path, extra: str, work: Path) -> Environment:
    """Install the wheel with an extra into an empty environment, and use it there."""
    began, place = time.monotonic(), work / (extra or "plain")
    venv.create(place / "venv", symlinks=True)
    python, command = place / "venv/bin/python", place / "venv/bin/tightrope"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"]
    wanted = [[f"tightrope[{extra}] @ {wheel.as_uri()}" if extra else str(wheel)]]
    if extra == BARE:
        wanted = [["httpx"], ["--no-deps", str(wheel)]]
    for words in wanted:
        run([*pip, *words], place, title=f"pip install {' '.join(words)}")
    (site,) = (place / "venv/lib").glob("python*/site-packages")
    packages = {one.name.lower(): size_of(one) for one in distributions(path=[str(site)])}
    size = sum(file.stat().st_size for file in site.rglob("*") if file.is_file())
    version = wheel.name.split("-")[1]
    asked = [python, "-c", VERSION] if extra == BARE else [command, "--version"]
    if (said := run(asked, place).strip()) != f"tightrope {version}":
        raise ReleaseError(f"{asked[-1]}: {said!r}, not {version}")
    used(extra, python, command, place)
    return Environment(extra, packages, size, time.monotonic() - began)


def used(extra: str, python: Path, command: Path, place: Path) -> None:
    """Do in an environment what it is for."""
    if extra != BARE:
        simulated = run([command, *SIMULATE], place)
        run([python, "-c", PLAIN], place, stdin=simulated, title=" ".join(SIMULATE))
    if extra in COMMANDS:
        run([command, *COMMANDS[extra]], place)
    for name in MADE.get(extra, ()):
        if not (place / name).exists():
            raise ReleaseError(f"{' '.join(COMMANDS[extra])}: {name} was not made")
    if extra in SCRIPTS:
        run([python, "-c", SCRIPTS[extra]], place, title=f"the script of [{extra}]")


def extras(root: Path) -> list[str]:
    """All of pyproject.toml."""
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    return list(project["optional-dependencies"])


def table(rows: Sequence[Environment]) -> str:
    """Markdown."""
    head = ["installed", "packages", "size", "largest, MB", "installed and tried in"]
    lines = [head, ["---"] * len(head), *(one.row() for one in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the release, or say in one line why not."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="default dist/")
    parser.add_argument(
        "--extra", action="append", choices=[*extras(ROOT), BARE],
        help=f"only these, and none; else all but {', '.join(SKIPPED)}",
    )  # fmt: skip
    given = parser.parse_args(arguments)
    chosen = given.extra or [*(one for one in extras(ROOT) if one not in SKIPPED), BARE]

    def say(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    try:
        with tempfile.TemporaryDirectory(prefix="tightrope-release-") as folder:
            work, rows = Path(folder), []
            files = built(ROOT, work, say)
            for extra in ["", *chosen]:
                rows.append(tried(files[1], extra, work))
                shutil.rmtree(work / (extra or "plain"))
                say(f"{rows[-1].row()[0]}: good")
            given.out.mkdir(parents=True, exist_ok=True)
            for file in files:
                shutil.copy2(file, given.out)
    except ReleaseError as error:
        say(f"error: {error}")
        return 1
    print(table(rows))
    say(f"{files[0].name} and {files[1].name} are in {given.out}; nothing was uploaded")
    return 0


if __name__ == "__main__":
    sys.exit(main())
