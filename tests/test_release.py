"""Releases: one version, the notes, the bill of materials."""

from __future__ import annotations

import re
import shutil
import subprocess
import tarfile
import zipfile
from importlib import metadata
from pathlib import Path

import msgspec._core
import pytest

from tools import release

ROOT = Path(__file__).parents[1]

LOG = """# Changelog

## [Unreleased]

- soon

## [1.2.0] - 2026-05-01

- new

## [1.1.0] - 2026-01-01

- old
"""


def test_the_version_is_that_of_the_project(tmp_path: Path) -> None:
    assert release.project_version() == metadata.version("sparklake")
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    with pytest.raises(release.ReleaseError, match="no version"):
        release.project_version(tmp_path)


def test_notes_are_the_section_of_the_version() -> None:
    assert release.release_notes(LOG, "1.2.0") == "## [1.2.0] - 2026-05-01\n\n- new\n"
    assert release.release_notes(LOG, "1.1.0") == "## [1.1.0] - 2026-01-01\n\n- old\n"
    assert release.release_notes(LOG, "1.1") is None


def test_the_bill_names_every_dependency_and_crate() -> None:
    pins = "numpy==2.2.6 ; python_full_version < '3.11'\nnumpy==2.4.6\nPyYAML==6.0.3\n"
    crates = (ROOT / "kernels" / "Cargo.lock").read_text()
    bill = release.bill_of_materials("1.2.3", pins, crates)
    components = bill["components"]
    assert isinstance(components, list)
    purls = [each["purl"] for each in components]
    assert "pkg:pypi/pyyaml@6.0.3" in purls
    assert {"pkg:pypi/numpy@2.2.6", "pkg:pypi/numpy@2.4.6"} <= set(purls)
    foreign = re.findall(r'^source = "', crates, re.MULTILINE)
    assert len([each for each in purls if each.startswith("pkg:cargo/")]) == len(foreign)
    assert not any("sparklake" in each for each in purls)


def test_a_checkout_without_a_dated_section_is_no_release(tmp_path: Path) -> None:
    checkout = tmp_path
    shutil.copy(ROOT / "pyproject.toml", checkout)
    (checkout / "CHANGELOG.md").write_text(LOG)
    commands = (["init", "-q"], ["add", "-A"], ["-c", "user.name=t", "-c", "user.email=t@t"])
    subprocess.run(["git", *commands[0]], cwd=checkout, check=True)
    with pytest.raises(release.ReleaseError, match="commit them first"):
        release.check_final(checkout)
    subprocess.run(["git", *commands[1]], cwd=checkout, check=True)
    subprocess.run(["git", *commands[2], "commit", "-qm", "x"], cwd=checkout, check=True)
    with pytest.raises(release.ReleaseError, match=r"no section"):
        release.check_final(checkout)
    (checkout / "CHANGELOG.md").write_text(LOG.replace("1.2.0", release.project_version(checkout)))
    subprocess.run(["git", *commands[2], "commit", "-qam", "y"], cwd=checkout, check=True)
    release.check_final(checkout)


# --- the wheels -----------------------------------------------------------------------------------

SDIST = "sparklake-1.2.3.tar.gz"
PURE = "sparklake-1.2.3-py3-none-any.whl"
COMPILED = "sparklake-1.2.3-cp310-abi3-manylinux_2_17_x86_64.whl"
LIBRARY = "sparklake/_kernels.abi3.so"
OLD, NEW = b"\0GLIBC_2.2.5\0GLIBC_2.14\0", b"\0GLIBC_2.2.5\0GLIBC_2.34\0"

Files = dict[str, dict[str, bytes]]


def good_files() -> Files:
    """Return the content of the archives of a good release."""
    wheel = {"sparklake/py.typed": b"", "sparklake-1.2.3.dist-info/licenses/LICENSE": b""}
    sdist = {f"sparklake-1.2.3/{name}": b"" for name in ("pyproject.toml", "kernels/Cargo.lock")}
    return {SDIST: sdist, PURE: wheel, COMPILED: {**wheel, LIBRARY: OLD}}


def write(files: Files, folder: Path) -> None:
    for name, content in files.items():
        if name == SDIST:
            with tarfile.open(folder / name, "w:gz") as archive:
                for each in content:
                    archive.addfile(tarfile.TarInfo(each))
        else:
            with zipfile.ZipFile(folder / name, "w") as wheel:
                for each, data in content.items():
                    wheel.writestr(each, data)


def test_a_good_release_is_accepted(tmp_path: Path) -> None:
    write(good_files(), tmp_path)
    release.check_files(tmp_path, "1.2.3")


@pytest.mark.parametrize("name", [SDIST, PURE, COMPILED])
def test_a_missing_archive_is_refused(name: str, tmp_path: Path) -> None:
    files = good_files()
    del files[name]
    write(files, tmp_path)
    with pytest.raises(release.ReleaseError, match="not built"):
        release.check_files(tmp_path, "1.2.3")


@pytest.mark.parametrize(
    ("archive", "name"),
    [(archive, name) for archive, content in good_files().items() for name in content],
)
def test_a_missing_file_is_refused(archive: str, name: str, tmp_path: Path) -> None:
    files = good_files()
    del files[archive][name]
    write(files, tmp_path)
    with pytest.raises(release.ReleaseError, match=re.escape(archive)):
        release.check_files(tmp_path, "1.2.3")


def test_a_library_in_the_pure_wheel_is_refused(tmp_path: Path) -> None:
    files = good_files()
    files[PURE][LIBRARY] = OLD
    write(files, tmp_path)
    with pytest.raises(release.ReleaseError, match=f"{PURE} has the libraries"):
        release.check_files(tmp_path, "1.2.3")


def test_a_library_that_needs_a_newer_glibc_is_refused(tmp_path: Path) -> None:
    files = good_files()
    files[COMPILED][LIBRARY] = NEW
    write(files, tmp_path)
    with pytest.raises(release.ReleaseError, match=r"needs glibc 2\.34"):
        release.check_files(tmp_path, "1.2.3")


def test_the_needed_glibc_of_a_real_library_is_found() -> None:
    needed = release.needed_glibc(Path(msgspec._core.__file__).read_bytes())
    assert (2, 2) <= needed < (3, 0)
