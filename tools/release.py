"""A release: archives, wheels, notes, a bill of materials and checksums in one folder.

One wheel has compiled kernels for this processor, linked with an old glibc by zig. The other one
is for all other machines. docs/releases.md describes the steps.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
NAME = "sparklake"

GLIBC = (2, 17)
"""The oldest glibc that the compiled wheel runs on, that of all machines since 2014."""

_VERSION = re.compile(r'^version = "([^"]+)"$', re.MULTILINE)
_PIN = re.compile(r"^([A-Za-z0-9._-]+)==(\S+)", re.MULTILINE)
_CRATE = re.compile(r'^name = "([^"]+)"\nversion = "([^"]+)"\nsource = ', re.MULTILINE)
_LIBRARY = f"{NAME}/_kernels.abi3.so"
_NEEDED_GLIBC = re.compile(rb"\0GLIBC_(\d+)\.(\d+)")


class ReleaseError(Exception):
    """Something that a release must not have."""


def project_version(root: Path = ROOT) -> str:
    """Return the version of pyproject.toml."""
    match = _VERSION.search((root / "pyproject.toml").read_text(encoding="utf-8"))
    if match is None:
        raise ReleaseError("pyproject.toml has no version")
    return match[1]


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
    """Return the locked versions of all that the extras `all` and `connect` need."""
    compiled = ["uv", "pip", "compile", "--quiet", "--universal", "--python-version", "3.10"]
    options = [
        "--no-header",
        "--no-annotate",
        "--no-emit-package",
        NAME,
        "-c",
        "constraints/all.txt",
    ]
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


def build(folder: Path, final: bool, root: Path = ROOT) -> list[Path]:
    """Write all files of a release into a folder; return them. Raise ReleaseError."""
    version = project_version(root)
    if final:
        check_final(root)
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*"):
        old.unlink()
    archive = build_archive(folder, root)
    build_pure_wheel(archive, folder)
    build_compiled_wheel(archive, folder)
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


def build_archive(folder: Path, root: Path = ROOT) -> Path:
    """Build the source archive; return its path."""
    _build(["--sdist", str(root)], folder, {})
    (archive,) = folder.glob(f"{NAME}-*.tar.gz")
    return archive


def build_pure_wheel(archive: Path, folder: Path) -> None:
    """Build the wheel without compiled kernels from the source archive."""
    _build(["--wheel", str(archive)], folder, {"SPARKLAKE_KERNELS": "off"})


def build_compiled_wheel(archive: Path, folder: Path) -> None:
    """Build the wheel with compiled kernels, for this processor and any Linux with GLIBC."""
    machine, glibc = platform.machine(), GLIBC
    with tempfile.NamedTemporaryFile("w", suffix=".cfg") as settings:
        settings.write(f"[bdist_wheel]\nplat_name = manylinux_{glibc[0]}_{glibc[1]}_{machine}\n")
        settings.flush()
        environment = {
            "SPARKLAKE_KERNELS": "",
            "CARGO": "cargo-zigbuild",
            "CARGO_BUILD_TARGET": f"{machine}-unknown-linux-gnu.{glibc[0]}.{glibc[1]}",
            "CARGO_TARGET_DIR": str(ROOT / "kernels" / "target"),
            "CARGO_ZIGBUILD_PYTHON_PATH": sys.executable,
            "DIST_EXTRA_CONFIG": settings.name,
        }
        _build(["--wheel", str(archive)], folder, environment)


def _build(words: Sequence[str], folder: Path, environment: Mapping[str, str]) -> None:
    command = [_uv(), "build", "--quiet", "--no-create-gitignore", "--out-dir", str(folder), *words]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    subprocess.run(command, check=True, env={**os.environ, "PATH": path, **environment})


def check_files(folder: Path, version: str) -> None:
    """Raise ReleaseError if the archives have another version, or lack a file."""
    release = f"{NAME}-{version}"
    sdist, pure = folder / f"{release}.tar.gz", folder / f"{release}-py3-none-any.whl"
    compiled = [*folder.glob(f"{release}-cp310-abi3-manylinux_{GLIBC[0]}_{GLIBC[1]}_*.whl")]
    for path in (sdist, pure):
        if not path.exists():
            raise ReleaseError(f"{path.name} was not built")
    if not compiled:
        raise ReleaseError("the wheel with compiled kernels was not built")
    with tarfile.open(sdist) as archive:
        lacking = {f"{release}/{name}" for name in ("pyproject.toml", "kernels/Cargo.lock")}
        lacking -= set(archive.getnames())
    if lacking:
        raise ReleaseError(f"{sdist.name} lacks {', '.join(sorted(lacking))}")
    for wheel in (pure, *compiled):
        check_wheel(wheel, is_compiled=wheel != pure)


def check_wheel(path: Path, is_compiled: bool) -> None:
    """Raise ReleaseError if a wheel lacks a file, or its kernels need a newer glibc than GLIBC."""
    release = "-".join(path.name.split("-")[:2])
    with zipfile.ZipFile(path) as wheel:
        names = set(wheel.namelist())
        for name in (f"{NAME}/py.typed", f"{release}.dist-info/licenses/LICENSE"):
            if name not in names:
                raise ReleaseError(f"{path.name} lacks {name}")
        libraries = {name for name in names if ".so" in Path(name).suffixes}
        if libraries != ({_LIBRARY} if is_compiled else set()):
            raise ReleaseError(
                f"{path.name} has the libraries {sorted(libraries)}: "
                f"is cargo missing, or did it fail? Run `make kernels`"
            )
        for library in libraries:
            needed = needed_glibc(wheel.read(library))
            if needed > GLIBC:
                raise ReleaseError(f"{library} of {path.name} needs glibc {needed[0]}.{needed[1]}")


def needed_glibc(library: bytes) -> tuple[int, int]:
    """Return the newest version of glibc of which a library uses symbols."""
    found = ((int(major), int(minor)) for major, minor in _NEEDED_GLIBC.findall(library))
    return max(found, default=(0, 0))


def _uv() -> str:
    beside = Path(sys.executable).with_name("uv")
    return str(beside) if beside.exists() else "uv"


def main(given: Sequence[str] | None = None) -> int:
    """Build a release from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--final", action="store_true", help="refuse what is not a release")
    arguments = parser.parse_args(given)
    try:
        for path in build(arguments.folder, arguments.final):
            print(f"{path.stat().st_size:>10,}  {path}")
    except ReleaseError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
