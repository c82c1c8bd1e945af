"""Compiled kernels as a part of the package: built with cargo, and reported where they are not."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from sparklake.graveler import kernel_choice
from tests.support.compiled import needs_cargo
from tests.support.wheels import ROOT, built_wheel, source_tree

LIBRARY = "sparklake/_kernels.abi3.so"
# The finder of an editable installation would add the checkout's library to another package.
VERSION = """
import sys
sys.meta_path = [each for each in sys.meta_path if "Editable" not in repr(each)]
from sparklake.cli.main import main
sys.exit(main(["--version"]))
"""
FAILING = "#!/bin/sh\necho 'error: rustup could not choose a version of rustc to run' >&2; exit 1\n"


def version(packages: Path) -> str:
    """Return the answer of `sparklake --version` with the package of this folder."""
    ran = subprocess.run(
        [sys.executable, "-c", VERSION],
        cwd=packages,
        env={**os.environ, "PYTHONPATH": str(packages), "SPARKLAKE_KERNELS": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    return ran.stdout


def unpacked(wheel: Path, folder: Path) -> Path:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


@pytest.fixture(params=["no cargo", "cargo fails"])
def without_rust(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    """Return the environment of an account in which cargo is missing or fails."""
    programs = tmp_path / "programs"
    programs.mkdir()
    if request.param == "cargo fails":
        for name in ("cargo", "rustc"):
            (programs / name).write_text(FAILING)
            (programs / name).chmod(0o755)
    return {"PATH": f"{programs}:/usr/bin:/bin", "HOME": str(tmp_path)}


@pytest.mark.system
def test_a_wheel_is_built_without_cargo_too(without_rust: dict[str, str], tmp_path: Path) -> None:
    wheel = built_wheel(source_tree(tmp_path / "tree"), **without_rust)
    packages = unpacked(wheel, tmp_path / "packages")
    assert not (packages / LIBRARY).exists()
    reason = f"Python ({kernel_choice.MISSING})"
    assert f"kernels: {reason}: {kernel_choice.COST}; {kernel_choice.REMEDY}\n" in version(packages)


@pytest.mark.system
@needs_cargo
def test_a_wheel_built_with_cargo_contains_the_kernels(tmp_path: Path) -> None:
    # The PATH of services often lacks the folder in which rustup puts cargo.
    environment = {"PATH": "/usr/bin:/bin", "CARGO_TARGET_DIR": str(ROOT / "kernels" / "target")}
    wheel = built_wheel(source_tree(tmp_path / "tree"), **environment)
    assert "-cp310-abi3-" in wheel.name
    packages = unpacked(wheel, tmp_path / "packages")
    assert (packages / LIBRARY).exists()
    assert version(packages).endswith("kernels: compiled\n")


def test_a_library_that_cannot_be_loaded_is_reported(tmp_path: Path) -> None:
    tree = source_tree(tmp_path)
    (tree / LIBRARY).write_bytes(b"of another processor")
    assert "kernels: Python (the compiled kernels cannot be loaded: " in version(tree)
