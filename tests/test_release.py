"""Releases: one version, the notes, the bill of materials."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

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


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "kernels").mkdir()
    for name, _ in release.COPIES:
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def test_all_files_have_the_version_of_the_project() -> None:
    assert len(set(release.versions().values())) == 1
    assert release.project_version() == release.versions()["pyproject.toml"]


def test_a_version_is_set_everywhere(checkout: Path) -> None:
    release.set_version("2.3.4rc1", checkout)
    assert set(release.versions(checkout).values()) == {"2.3.4rc1"}
    for name, _ in release.COPIES:
        before = (ROOT / name).read_text().splitlines()
        after = (checkout / name).read_text().splitlines()
        assert sum(old != new for old, new in zip(before, after, strict=True)) == 1, name


def test_a_version_that_differs_is_named(checkout: Path) -> None:
    path = checkout / "kernels" / "Cargo.toml"
    path.write_text(path.read_text().replace('version = "', 'version = "9.', 1))
    with pytest.raises(release.ReleaseError, match=r"kernels/Cargo\.toml has 9\..*make version"):
        release.project_version(checkout)


@pytest.mark.parametrize("text", ["", "1.2", "v1.2.3", "1.2.3.4", '1.2.3"\n'])
def test_what_is_no_version_is_refused(checkout: Path, text: str) -> None:
    before = release.versions(checkout)
    with pytest.raises(release.ReleaseError, match="not a version"):
        release.set_version(text, checkout)
    assert release.versions(checkout) == before


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


def test_a_checkout_without_a_dated_section_is_no_release(checkout: Path) -> None:
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
