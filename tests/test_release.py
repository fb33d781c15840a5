"""The release script: what it refuses before anything is built, and what it finds in the files."""

from __future__ import annotations

import io
import subprocess
import tarfile
import zipfile

import pytest

from tools import release
from tools.release import ReleaseError


def write(root, version="1.2.3", cited="1.2.3", heading="1.2.3 (2026-11-16)"):
    (root / "src/tightrope").mkdir(parents=True)
    (root / "src/tightrope/version.py").write_text(f'__version__ = "{version}"\n')
    (root / "CITATION.cff").write_text(f"cff-version: 1.2.0\nversion: {cited}\n")
    (root / "CHANGELOG.md").write_text(f"# Changelog\n\n## {heading}\n\n- x\n\n## 1.0.0\n")
    return root


def test_this_version_could_be_released():
    assert release.agreed_version(release.ROOT) == __import__("tightrope").__version__


def test_the_version_is_the_same_everywhere(tmp_path):
    assert release.agreed_version(write(tmp_path)) == "1.2.3"


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"version": "1.2.3.dev0"}, "1.2.3.dev0: not the version of a release"),
        ({"cited": "1.2.2"}, "CITATION.cff: version 1.2.2, but version.py has 1.2.3"),
        ({"heading": "1.3.0 (2026-11-16)"}, "CHANGELOG.md: version 1.3.0"),
        ({"heading": "1.2.3 (unreleased)"}, "must have the date"),
        ({"heading": "1.2.3"}, "must have the date"),
    ],
)
def test_versions_that_differ_are_named(tmp_path, files, said):
    with pytest.raises(ReleaseError) as caught:
        release.agreed_version(write(tmp_path, **files))
    assert said in str(caught.value)


def test_files_that_git_does_not_know_end_it(tmp_path):
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    (tmp_path / "known").write_text("")
    subprocess.run(["git", "add", "known"], cwd=tmp_path, check=True)
    who = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
    subprocess.run(["git", *who, "commit", "-qm", "x"], cwd=tmp_path, check=True)
    assert release.tracked(tmp_path) == {"known"}
    (tmp_path / "left over").write_text("")
    with pytest.raises(ReleaseError, match="left over"):
        release.tracked(tmp_path)


KNOWN = {"README.md", "src/tightrope/__init__.py", "src/tightrope/py.typed"}
INFO = "tightrope-1.2.3.dist-info/"
WHEEL = {
    "tightrope/__init__.py", "tightrope/py.typed",
    *(INFO + name for name in ("METADATA", "WHEEL", "RECORD", "entry_points.txt")),
    *(f"{INFO}licenses/{name}" for name in release.LICENCES),
}  # fmt: skip


def test_the_licences_are_those_of_the_project():
    found = {str(one.relative_to(release.ROOT)) for one in release.ROOT.glob("LICENSES/*")}
    assert set(release.LICENCES) == {"LICENSE", "NOTICE", *found}


def test_archives_are_read_as_they_are(tmp_path):
    with zipfile.ZipFile(tmp_path / "x.whl", "w") as wheel:
        for name in WHEEL:
            wheel.writestr(name, b"12")
    found = release.contents(tmp_path / "x.whl")
    assert found == dict.fromkeys(WHEEL, 2)
    release.checked_wheel(found, KNOWN, "1.2.3")
    with tarfile.open(tmp_path / "x.tar.gz", "w:gz") as sdist:
        for name in [*KNOWN, "PKG-INFO"]:
            info = tarfile.TarInfo(f"tightrope-1.2.3/{name}")
            info.size = 3
            sdist.addfile(info, io.BytesIO(b"123"))
    found = release.contents(tmp_path / "x.tar.gz")
    assert found == dict.fromkeys([*KNOWN, "PKG-INFO"], 3)
    release.checked_sdist(found, KNOWN)


@pytest.mark.parametrize("name", sorted(WHEEL))
def test_a_file_that_is_missing_in_the_wheel_is_named(name):
    with pytest.raises(ReleaseError, match="is missing"):
        release.checked_wheel(dict.fromkeys(WHEEL - {name}, 1), KNOWN, "1.2.3")


def test_files_too_many_or_too_large_are_named():
    with pytest.raises(ReleaseError, match=r"wheel: tests/x\.py is in it"):
        release.checked_wheel(dict.fromkeys([*WHEEL, "tests/x.py"], 1), KNOWN, "1.2.3")
    sizes = dict.fromkeys([*KNOWN, "PKG-INFO"], 1)
    with pytest.raises(ReleaseError, match=r"README\.md: 3\.0 MB"):
        release.checked_sdist(sizes | {"README.md": 3_000_000}, KNOWN)


def test_a_command_that_fails_is_one_line(tmp_path):
    with pytest.raises(ReleaseError) as caught:
        release.run(["sh", "-c", "echo one >&2; echo ERROR: two >&2; exit 3"], tmp_path, title="x")
    assert str(caught.value) == "x: status 3: ERROR: two"


def test_every_extra_is_tried_or_named_as_one_that_is_not():
    tried = {*release.SCRIPTS, *release.COMMANDS} - {release.BARE}
    assert {*release.extras(release.ROOT)} == tried | {"dev", "docs"}
    assert set(release.SKIPPED) <= {*release.extras(release.ROOT)}


def test_the_table_has_the_largest_packages_first():
    row = release.Environment("serve", {"a": 1_000_000, "b": 9_000_000}, 10_400_000, 61.2)
    assert release.table([row]).splitlines()[2] == (
        "| tightrope[serve] | 2 | 10 MB | b 9, a 1 | 61 s |"
    )
