"""The documentation as a site: ``make docs``, or ``python docs/make_site.py --out FOLDER``.

Four steps, and each refuses what is wrong. The pages' text (``rules.py``), the pictures
(``pictures.py``) and the docstrings of public names are checked. ``stage`` makes a folder of
sources: the pages of ``docs/``, the notebooks, the changelog, and a page of the reference for every
group of public names. Sphinx turns them into HTML; a warning is an error. ``faults`` looks at the
HTML for links that lead nowhere, nested block quotes, and files that another host would serve.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import json
import re
import shutil
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # run as a script, too, this is docs.make_site

from docs import pictures, rules  # noqa: E402

# Files outside docs/ that are pages of the site.
PAGES = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "examples/README.md": "examples.md",
    "README.md": "index.md",
}
COPIED = {".md", ".png", ".svg", ".css", ".js", ".csv", ".html"}  # of docs/, and conf.py
LINK = re.compile(r"\[([^\]\[]*)\]\((?!\w+:|#)([^)#\s]+)(#[^)\s]*)?\)")

DOCTEST_END = re.compile(r"\n(\n```\n)")  # pytest needs the empty line, readers do not


class Group(NamedTuple):
    """A page of the reference."""

    page: str
    title: str
    text: str
    modules: tuple[str, ...]  # where its names are defined; the longest match takes a name
    members: bool = True  # whether methods are shown


GROUPS = (
    Group(
        "problems",
        "Problems and tasks",
        "A task describes what is known; a problem adds the distributions of all outcomes. Amounts"
        " are in your own units. Guides: [model your problem](../modelling.md),"
        " [problem files](../problems.md).",
        ("tightrope.problem",),
    ),
    Group(
        "distributions",
        "Distributions",
        "Distributions of costs, rewards and penalties. Outcomes lie between 0 and their scale.",
        ("tightrope.problem.distributions",),
        members=False,
    ),
    Group(
        "simulation",
        "Simulation",
        "Many runs of policies on a problem. See [the simulator](../simulator.md).",
        ("tightrope.engine", "tightrope.results", "tightrope.runs", "tightrope.runs"),
    ),
    Group(
        "optimum",
        "The best that can be done",
        "The best mixture of the arms, and the most that any policy can earn. See"
        " [theory](../theory.md).",
        ("tightrope.optimum",),
    ),
    Group(
        "policies",
        "Policies",
        "Each has a name in the shell (`tightrope policies`) and parameters with defaults. The page"
        " [policies](../policies.md) compares them. Amounts inside a policy are in units of the"
        " largest outcome.",
        ("tightrope.policies",),
        members=False,
    ),
    Group(
        "own-policies",
        "Policies of your own",
        "Base classes. See [your own policy](../own-policy.md).",
        tuple(f"tightrope.policies.{module}" for module in ("base", "choice", "naming", "state")),
    ),
    Group(
        "live",
        "Live decisions",
        "A controller in memory, or a campaign with a ledger. See [live campaigns](../live.md).",
        ("tightrope.live",),
    ),
    Group(
        "client",
        "The client of the service",
        "`tightrope.client`: decisions and reports over HTTP (extra `client`). See"
        " [the service](../service.md).",
        ("tightrope.client",),
    ),
    Group(
        "data",
        "Logs, plans and replay",
        "From rows of observed pulls to a problem, an answer with its uncertainty, and a plan. See"
        " [plan and replay](../plan.md).",
        ("tightrope.data",),
    ),
    Group(
        "arena",
        "Tuning and the arena",
        "See [policies](../policies.md) and [the arena](../arena.md).",
        ("tightrope.arena",),
    ),
    Group(
        "report",
        "Tables and figures",
        "Tables and figures of results, in a terminal or a notebook.",
        ("tightrope.report",),
    ),
    Group(
        "theory",
        "The paper's bounds",
        "`tightrope.theory`: one function per formula, in the paper's normalised units. See"
        " [theory](../theory.md) and [the limit of learning](../learning-limit.md).",
        ("tightrope.theory",),
    ),
    Group(
        "testing",
        "Tests for your own parts",
        "`tightrope.testing`: subclass a contract in your tests, and pytest checks what every"
        " policy or store must do.",
        ("tightrope.testing",),
    ),
    Group(
        "errors",
        "Errors and warnings",
        "Every error is one line: the value, the place and what is allowed. The shell exits with"
        " status 2 for bad input.",
        (),
    ),
)
PLACES = (
    *("tightrope", "tightrope.policies", "tightrope.errors", "tightrope.data"),
    *("tightrope.client", "tightrope.testing", "tightrope.theory"),
)
# Types that public functions return or take, and that users do not construct.
RESULTS = {
    "tightrope.policies": ("State", "Statistics"),
    "tightrope.runs": ("Record", "SummaryRow"),
    "tightrope.live": ("Outlook",),
    "tightrope.live.outlook": ("LimitOutlook",),
    "tightrope.arena.tuning": ("Tuning",),
    "tightrope.arena.contest": ("Arena",),
}
# Methods that other modules of the library call, and its users do not.
INSIDE = {
    "Arm": "in_order outcomes channels cells short_cells sources check_range",
    "Campaign": "do perform refreshed",
    "ChoicePolicy": "functions decide Scratch",
    "Controller": "in_order all_penalties checked charge cut choose launch",
    "IndexPolicy": "functions decide",
    "InformedPolicy": "needs_laws",
    "Limit": "number weights base plain table",
    "Problem": "tables declared normal_smallest_cost from_toml_table",
    "Scales": "for_limits channels penalties",
    "Share": "number of weights base plain table",
    "Task": "task limit_values normal_smallest_cost normal_known knows_something"
    " require_as_many head_table from_table",
}


class Name(NamedTuple):
    """A public name: ``place.name`` is the object."""

    place: str
    name: str
    thing: object

    @property
    def is_error(self) -> bool:
        """Whether it is an exception or a warning."""
        return inspect.isclass(self.thing) and issubclass(self.thing, BaseException)

    @property
    def module(self) -> str:
        """Where it is defined."""
        return getattr(self.thing, "__module__", self.place)


def public_names() -> list[Name]:
    """Every public name of the library, once each and in order."""
    found: dict[str, Name] = {}
    for place in PLACES:
        module = importlib.import_module(place)
        for name in sorted(module.__all__, key=str.lower):
            thing = getattr(module, name)
            if name not in found or found[name].thing is not thing:
                found[f"{place}.{name}" if name in found else name] = Name(place, name, thing)
    return list(found.values())


def group_of(name: Name) -> Group:
    """The page of the reference that a name is on."""
    if name.is_error:
        return next(group for group in GROUPS if group.page == "errors")
    inside = name.place if name.place in PLACES[4:] else name.module
    fits = [
        (len(module), group)
        for group in GROUPS
        for module in group.modules
        if f"{inside}.".startswith(f"{module}.")
    ]
    if not fits:
        raise SystemExit(f"{name.place}.{name.name}: no group of docs/make_site.py has {inside}")
    return max(fits)[1]


def undocumented() -> list[str]:
    """Public names, and their public methods, without a docstring; names without an example.

    Exceptions and warnings need no example: they say when they are raised. Nor do names of
    ``tightrope.testing``, whose example is the module's, and of ``tightrope.theory``, which are
    formulas.
    """
    missing = []
    for name in public_names():
        known, text = f"{name.place}.{name.name}", inspect.getdoc(name.thing) or ""
        if not (getattr(name.thing, "__doc__", "") or "").strip():
            missing.append(f"{known} has no docstring")
        exempt = name.is_error or name.place in ("tightrope.testing", "tightrope.theory")
        if ">>>" not in text and not exempt:
            missing.append(f"{known} has no example")
        if inspect.isclass(name.thing):
            for method, value in vars(name.thing).items():
                function = getattr(value, "__func__", value)
                shown = callable(function) or isinstance(function, property)
                if shown and not method.startswith("_") and not inspect.getdoc(function):
                    missing.append(f"{known}.{method} has no docstring")
    return missing


def entry(name: Name, members: bool) -> str:
    """The directive of autodoc for a name."""
    kind = "autofunction"
    if inspect.isclass(name.thing):
        kind = "autoexception" if name.is_error else "autoclass"
    elif not callable(name.thing):
        kind = "autodata"
    options = "   :members:\n" if kind == "autoclass" and members else ""
    if options and name.place == "tightrope.client":  # both clients have one base's methods
        options += "   :inherited-members: tuple\n"
    if name.name == "Controller":  # its parts are its bases
        options += "   :inherited-members:\n"
    if options and name.name in INSIDE:
        options += f"   :exclude-members: {', '.join(INSIDE[name.name].split())}\n"
    if name.is_error:
        options = "   :show-inheritance:\n"
    return f"```{{eval-rst}}\n.. {kind}:: {name.place}.{name.name}\n{options}```\n"


def reference() -> dict[str, str]:
    """The pages of the reference, by their paths."""
    names = public_names() + [
        Name(place, name, getattr(importlib.import_module(place), name))
        for place, listed in RESULTS.items()
        for name in listed
    ]
    pages, rows = {}, []
    for group in GROUPS:
        own = [name for name in names if group_of(name) is group]
        if not own:
            continue
        entries = "\n".join(entry(name, group.members) for name in own)
        pages[f"reference/{group.page}.md"] = f"# {group.title}\n\n{group.text}\n\n{entries}"
        links = ", ".join(f"[{one.name}](#{one.place}.{one.name})" for one in own)
        rows.append(f"## [{group.title}]({group.page}.md)\n\n{links}\n")
    listed = "\n".join([*(group.page for group in GROUPS if f"reference/{group.page}.md" in pages)])
    pages["reference/index.md"] = (
        "# Reference\n\nEvery public name of the Python library. See also"
        " [the shell](../shell.md), [the service over HTTP](../service.md),"
        " [problem files](../problems.md) and [the concepts](../concepts.md).\n\n"
        f"```{{toctree}}\n:hidden:\n\n{listed}\n```\n\n" + "\n".join(rows)
    )
    return pages


def page_of(path: Path) -> str | None:
    """The page of the site that a file of the repository is on, from its root."""
    inside = path.relative_to(ROOT).as_posix()
    if inside in PAGES:
        return PAGES[inside]
    if inside.startswith("examples/notebooks/") and path.suffix == ".ipynb":
        return inside.removeprefix("examples/")
    return inside.removeprefix("docs/") if inside.startswith("docs/") else None


def for_site(text: str, source: Path, page: str) -> str:
    """A page's Markdown: links lead to pages of the site; other files are named by their path."""

    def changed(link: re.Match[str]) -> str:
        target = (source.parent / unquote(link[2])).resolve()
        if page.startswith("reference/") or not target.is_relative_to(ROOT):
            return link[0]
        if not target.exists():
            if page_of(target) is None:
                raise SystemExit(f"{source.relative_to(ROOT)}: {link[2]} leads nowhere")
            return link[0]  # generated; Sphinx knows
        inside = page_of(target)
        if inside is None or (target.is_dir() and inside is not None):
            place = f"`{target.relative_to(ROOT).as_posix()}`"
            return place if link[1].strip("`") in place else f"{link[1]} ({place})"
        return f"[{link[1]}]({'../' * page.count('/')}{inside}{link[3] or ''})"

    return LINK.sub(changed, DOCTEST_END.sub(r"\1", text))


def sources() -> Iterator[tuple[str, bytes]]:
    """Every file of the staged folder: its path and what is in it."""
    files = [path for path in sorted((ROOT / "docs").rglob("*")) if path.suffix in COPIED]
    files.append(ROOT / "docs" / "conf.py")
    files += [ROOT / path for path in PAGES if path != "README.md"]
    files += sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))
    for path in files:
        page = page_of(path)
        if page is None:
            continue
        if path.suffix == ".md":
            yield page, for_site(path.read_text(encoding="utf-8"), path, page).encode()
        elif path.suffix == ".ipynb":
            book = json.loads(path.read_text(encoding="utf-8"))
            for cell in book["cells"]:
                if cell["cell_type"] == "markdown":
                    cell["source"] = for_site("".join(cell["source"]), path, page)
            yield page, json.dumps(book).encode()
        else:
            yield page, path.read_bytes()
    for page, text in reference().items():
        yield page, text.encode()


def stage(folder: Path) -> None:
    """Write the sources of the site; what has not changed keeps its time, and is not read again."""
    kept = set()
    for page, content in sources():
        path = folder / page
        kept.add(path)
        if not path.exists() or path.read_bytes() != content:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    for path in folder.rglob("*"):
        if path.is_file() and path not in kept:
            path.unlink()


class Links(HTMLParser):
    """The ids of a page, where it links to, what it loads, and how deep its block quotes nest."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.quotes = self.deepest = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Called for every tag."""
        self.quotes += tag == "blockquote"
        self.deepest = max(self.deepest, self.quotes)
        given = {name: value or "" for name, value in attrs}
        self.ids |= {given[key] for key in ("id", "name") if key in given}
        if tag in ("a", "area"):
            self.links += [given["href"]] if "href" in given else []
        else:  # link, script, img, iframe, source, use, ...
            self.loaded += [given[key] for key in ("href", "src", "data", "poster") if key in given]
            self.loaded += [part.split()[0] for part in given.get("srcset", "").split(",") if part]

    def handle_endtag(self, tag: str) -> None:
        """Called for every closing tag."""
        self.quotes -= tag == "blockquote"


CSS_LOADS = re.compile(r"""(?:@import\s+|url\()\s*["']?((?!data:|#)[^"')\s]+)""")


def faults(site: Path) -> list[str]:
    """What is wrong with the built HTML, one line each."""
    pages = {path: Links(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}
    found = []
    for path, page in pages.items():
        here = path.relative_to(site)
        found += [
            f"{here}: loads {one} from another host"
            for one in page.loaded
            if urlsplit(one).netloc or urlsplit(one).scheme not in ("", "data")
        ]
        found += [f"{here}: nested block quotes"] * (page.deepest > 1)
        for link in [*page.links, *page.loaded]:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if target.is_dir():
                target /= "index.html"
            known = pages.get(target)
            if not target.exists():
                found.append(f"{here}: {link} leads nowhere")
            elif parts.fragment and known and unquote(parts.fragment) not in known.ids:
                found.append(f"{here}: {link} has no such place")
    for path in site.rglob("*.css"):
        loads = CSS_LOADS.findall(path.read_text(encoding="utf-8"))
        found += [f"{path.relative_to(site)}: loads {one}" for one in loads if "//" in one]
    return found


def build(out: Path, sources_in: Path) -> int:
    """Build the site strictly into ``out``; return the exit status."""
    from sphinx.cmd.build import build_main

    for fault in (wrong := [*rules.broken_rules(), *pictures.stale(), *undocumented()]):
        print(fault, file=sys.stderr)
    if wrong:
        return 1
    stage(sources_in)
    doctrees = sources_in.with_name(sources_in.name + "-doctrees")
    strict = ["-b", "html", "-W", "--keep-going", "-n", "-q"]
    places = ["-d", str(doctrees), str(sources_in), str(out)]
    status = build_main([*strict, *places])
    if status:
        return status
    (out / ".nojekyll").touch()  # for hosts that leave out folders like _static
    for fault in (wrong := faults(out.resolve())):
        print(fault, file=sys.stderr)
    return 1 if wrong else 0


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "site")
    parser.add_argument("--fresh", action="store_true", help="forget what was built before")
    chosen = parser.parse_args()
    staged = chosen.out.with_name(chosen.out.name + "-sources")
    if chosen.fresh:
        for folder in (chosen.out, staged, staged.with_name(staged.name + "-doctrees")):
            shutil.rmtree(folder, ignore_errors=True)
    status = build(chosen.out, staged)
    if status == 0:
        print(f"the site is in {chosen.out}: open {chosen.out / 'index.html'}")
    return status


if __name__ == "__main__":
    sys.exit(main())
