"""Markers of tests that need the compiled kernels or their compiler."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from shutil import which

import pytest

from sparklake.graveler import kernel_choice

EXPECTED = "SPARKLAKE_EXPECT_KERNELS"
"""The variable with which tests fail, instead of being skipped, without compiled kernels."""

CARGO_PATH = f"{os.environ['PATH']}:{Path.home() / '.cargo/bin'}"


def are_expected() -> bool:
    return bool(os.environ.get(EXPECTED)) and os.environ.get(kernel_choice.SETTING, "") != "off"


def _has_cargo() -> bool:
    """Return whether cargo runs. Rustup's is only a proxy, which may lack a toolchain."""
    cargo = which("cargo", path=CARGO_PATH)
    return (
        cargo is not None
        and not subprocess.run([cargo, "--version"], capture_output=True).returncode
    )


needs_kernels = pytest.mark.skipif(
    not kernel_choice.CHOICE.library and not are_expected(),
    reason=f"no compiled kernels: {kernel_choice.description()}",
)
needs_cargo = pytest.mark.skipif(
    not _has_cargo() and not are_expected(), reason="no cargo that runs"
)
