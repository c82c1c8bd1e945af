"""A release: archives, wheels, notes, a bill of materials and checksums in one folder.

The version is in pyproject.toml. `set` copies it into the files of the kernels, and `check`
compares them. docs/releases.md describes the steps.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
NAME = "sparklake"

_IN_PROJECT = re.compile(r'^(version = )"([^"]+)"$', re.MULTILINE)
_IN_CARGO = re.compile(r'^(name = "sparklake-kernels"\nversion = )"([^"]+)"$', re.MULTILINE)
_FORM = re.compile(r"\d+\.\d+\.\d+((a|b|rc)\d+)?")
_PIN = re.compile(r"^([A-Za-z0-9._-]+)==(\S+)", re.MULTILINE)
_CRATE = re.compile(r'^name = "([^"]+)"\nversion = "([^"]+)"\nsource = ', re.MULTILINE)

COPIES = (
    ("pyproject.toml", _IN_PROJECT),
    ("kernels/Cargo.toml", _IN_CARGO),
    ("kernels/Cargo.lock", _IN_CARGO),
)
"""The files that contain the version. The first one is the source."""


class ReleaseError(Exception):
    """Something that a release must not have."""


# --- the version ----------------------------------------------------------------------------------


def versions(root: Path = ROOT) -> dict[str, str]:
    """Return the version in each file that contains it; raise ReleaseError."""
    found = {}
    for name, pattern in COPIES:
        match = pattern.search((root / name).read_text(encoding="utf-8"))
        if match is None:
            raise ReleaseError(f"{name} has no version")
        found[name] = match[2]
    return found


def project_version(root: Path = ROOT) -> str:
    """Return the version; raise ReleaseError if a file has another one."""
    source, *others = versions(root).items()
    different = [f"{name} has {each}" for name, each in others if each != source[1]]
    if different:
        raise ReleaseError(
            f"{source[0]} has the version {source[1]}, but {', '.join(different)}: run "
            f"make version VERSION={source[1]}"
        )
    return source[1]


def set_version(version: str, root: Path = ROOT) -> None:
    """Write a version into every file that contains it; raise ReleaseError."""
    if not _FORM.fullmatch(version):
        raise ReleaseError(f"{version} is not a version such as 1.2.3 or 1.2.3rc1")
    for name, pattern in COPIES:
        path = root / name
        text = path.read_text(encoding="utf-8")
        path.write_text(pattern.sub(rf'\g<1>"{version}"', text, count=1), encoding="utf-8")


# --- the documents --------------------------------------------------------------------------------


def release_notes(changelog: str, version: str) -> str | None:
    """Return the section of a version in the changelog, or None if it has none."""
    heading = re.compile(rf"^## \[{re.escape(version)}\].*$", re.MULTILINE)
    found = heading.search(changelog)
    if found is None:
        return None
    end = changelog.find("\n## [", found.end())
    return changelog[found.start() : None if end < 0 else end].strip() + "\n"


def bill_of_materials(version: str, pins: str, crates: str) -> dict[str, object]:
    """Return what the packages contain and need, in the form of CycloneDX 1.5."""
    found = [("pypi", name, each) for name, each in _PIN.findall(pins)]
    found += [("cargo", name, each) for name, each in _CRATE.findall(crates)]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {"type": "library", "name": NAME, "version": version}},
        "components": [
            {
                "type": "library",
                "name": name,
                "version": each,
                "purl": f"pkg:{kind}/{name.lower()}@{each}",
            }
            for kind, name, each in sorted(set(found))
        ],
    }


def locked_dependencies(root: Path = ROOT) -> str:
    """Return the versions in constraints.txt of all that the extras `all` and `connect` need."""
    compiled = ["uv", "pip", "compile", "--quiet", "--universal", "--python-version", "3.10"]
    options = ["--no-header", "--no-annotate", "--no-emit-package", NAME, "-c", "constraints.txt"]
    extras = ["--extra", "all", "--extra", "connect", "pyproject.toml"]
    command = [_uv(), *compiled[1:], *options, *extras]
    return subprocess.run(command, cwd=root, check=True, stdout=subprocess.PIPE, text=True).stdout


# --- the files ------------------------------------------------------------------------------------


def check_final(root: Path = ROOT) -> None:
    """Raise ReleaseError if the checkout cannot become a release."""
    version = project_version(root)
    status = ["git", "status", "--porcelain"]
    changed = subprocess.run(status, cwd=root, check=True, stdout=subprocess.PIPE, text=True).stdout
    if changed:
        raise ReleaseError("the working tree has changes: commit them first")
    notes = release_notes((root / "CHANGELOG.md").read_text(encoding="utf-8"), version)
    if notes is None or not re.match(rf"## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d\n", notes):
        raise ReleaseError(f"CHANGELOG.md has no section '## [{version}] - YYYY-MM-DD'")


def build(folder: Path, kernels: Sequence[Path], final: bool, root: Path = ROOT) -> list[Path]:
    """Write all files of a release into a folder; return them. Raise ReleaseError."""
    version = project_version(root)
    if final:
        check_final(root)
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*"):
        old.unlink()
    subprocess.run([_uv(), "build", "--quiet", "--out-dir", str(folder)], cwd=root, check=True)
    (folder / ".gitignore").unlink(missing_ok=True)
    for wheel in kernels:
        shutil.copy(wheel, folder)
    notes = release_notes(
        (root / "CHANGELOG.md").read_text(encoding="utf-8"), version if final else "Unreleased"
    )
    (folder / f"CHANGES-{version}.md").write_text(notes or "", encoding="utf-8")
    crates = (root / "kernels" / "Cargo.lock").read_text(encoding="utf-8")
    bill = bill_of_materials(version, locked_dependencies(root), crates)
    text = json.dumps(bill, indent=1) + "\n"
    (folder / f"{NAME}-{version}.cdx.json").write_text(text, encoding="utf-8")
    check_files(folder, version)
    files = sorted(each for each in folder.iterdir() if each.is_file())
    lines = (f"{hashlib.sha256(each.read_bytes()).hexdigest()}  {each.name}\n" for each in files)
    (folder / "SHA256SUMS").write_text("".join(lines), encoding="utf-8")
    return [*files, folder / "SHA256SUMS"]


def check_files(folder: Path, version: str) -> None:
    """Raise ReleaseError if the archives have another version, or lack a file."""
    sdist, wheel = (
        folder / f"{NAME}-{version}.tar.gz",
        folder / f"{NAME}-{version}-py3-none-any.whl",
    )
    for path in (sdist, wheel):
        if not path.exists():
            raise ReleaseError(f"{path.name} was not built")
    for wanted in (f"{NAME}/py.typed", f"{NAME}-{version}.dist-info/licenses/LICENSE"):
        if wanted not in zipfile.ZipFile(wheel).namelist():
            raise ReleaseError(f"{wheel.name} lacks {wanted}")
    with tarfile.open(sdist) as archive:
        if f"{NAME}-{version}/pyproject.toml" not in archive.getnames():
            raise ReleaseError(f"{sdist.name} lacks pyproject.toml")
    for each in folder.glob("sparklake_kernels-*.whl"):
        if not each.name.startswith(f"sparklake_kernels-{version}-"):
            raise ReleaseError(f"{each.name} is of another version: build it again")


def _uv() -> str:
    beside = Path(sys.executable).with_name("uv")
    return str(beside) if beside.exists() else "uv"


def _steps(arguments: argparse.Namespace) -> Iterator[str]:
    """Run the chosen step; yield the lines to print."""
    if arguments.step == "set":
        set_version(arguments.version)
        yield f"{NAME} is {arguments.version} in {', '.join(name for name, _ in COPIES)}"
    elif arguments.step == "check":
        yield project_version()
    else:
        kernels = sorted(arguments.kernels.glob("sparklake_kernels-*.whl"))
        for path in build(arguments.folder, kernels, arguments.final):
            yield f"{path.stat().st_size:>10,}  {path}"
        if not kernels:
            yield "no wheel of the kernels: cargo is missing"


def main(given: Sequence[str] | None = None) -> int:
    """Run a step from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    steps = parser.add_subparsers(dest="step", required=True)
    steps.add_parser("check", help="print the version, if all files agree")
    steps.add_parser("set", help="set the version").add_argument("version")
    building = steps.add_parser("build", help="build all files")
    building.add_argument("folder", type=Path)
    building.add_argument("--kernels", type=Path, required=True, help="folder of their wheel")
    building.add_argument("--final", action="store_true", help="refuse what is not a release")
    try:
        for line in _steps(parser.parse_args(given)):
            print(line)
    except ReleaseError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
