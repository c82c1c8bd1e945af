"""Wheels, built as installers build them, without a network."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

_BUILD = "from setuptools.build_meta import build_wheel; print(build_wheel('dist'))"


def source_tree(folder: Path) -> Path:
    """Copy the files of the source archive into a new folder; return it."""
    products = shutil.ignore_patterns("__pycache__", "_kernels*", "target")
    for name in ("sparklake", "kernels"):
        shutil.copytree(ROOT / name, folder / name, ignore=products)
    for name in ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder / name)
    return folder


def built_wheel(tree: Path, **environment: str) -> Path:
    """Build the wheel of a tree; return its path."""
    (tree / "dist").mkdir()
    settings = {**os.environ, "SPARKLAKE_KERNELS": "", **environment}
    command = [sys.executable, "-c", _BUILD]
    subprocess.run(command, cwd=tree, env=settings, check=True, capture_output=True)
    (wheel,) = (tree / "dist").glob("*.whl")
    return wheel
