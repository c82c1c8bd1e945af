"""Which kernels run: compiled ones, or their definitions in Python."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sparklake.graveler import kernels

SAY = "from sparklake.graveler import kernels; print(kernels.description())"


def said(*path: Path, **environment: str) -> str:
    settings = {**os.environ, **environment}
    settings["PYTHONPATH"] = os.pathsep.join([*map(str, path), settings.get("PYTHONPATH", "")])
    ran = subprocess.run(
        [sys.executable, "-c", SAY], env=settings, capture_output=True, text=True, check=True
    )
    return ran.stdout.strip()


@pytest.mark.parametrize("value", ["off", "OFF"])
def test_the_setting_turns_compiled_kernels_off(value: str) -> None:
    assert said(SPARKLAKE_KERNELS=value) == "Python (SPARKLAKE_KERNELS is off)"


def test_another_version_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "sparklake_kernels.py").write_text("__version__ = '9.0.0'")
    expected = "Python (sparklake-kernels 9.0.0 is another version)"
    assert said(tmp_path, SPARKLAKE_KERNELS="") == expected


@pytest.mark.parametrize("said_number", ["", "\nINTERFACE = 1"])
def test_kernels_of_another_commit_are_not_used(tmp_path: Path, said_number: str) -> None:
    """Such as those that were built before a checkout moved on."""
    (tmp_path / "sparklake_kernels.py").write_text(f"__version__ = '0.1.0'{said_number}")
    expected = "Python (sparklake-kernels 0.1.0 has another interface)"
    assert said(tmp_path, SPARKLAKE_KERNELS="") == expected


def test_a_missing_package_is_said(tmp_path: Path) -> None:
    (tmp_path / "sparklake_kernels.py").write_text("raise ImportError")
    assert said(tmp_path, SPARKLAKE_KERNELS="") == "Python (sparklake-kernels is not installed)"


def test_a_definition_runs_for_what_its_kernel_declines(monkeypatch: pytest.MonkeyPatch) -> None:
    def compiled(number: int) -> str:
        if number < 0:
            raise kernels.Declined
        return "compiled"

    monkeypatch.setattr(kernels, "library", object())
    monkeypatch.setattr(kernels._CHOSEN, "is_active", True)
    run = kernels.kernel(compiled)(lambda number: "Python")
    assert (run(1), run(-1)) == ("compiled", "Python")
    with kernels.only_definitions():
        assert not kernels.is_compiled()
        assert run(1) == "Python"
    assert run(1) == "compiled"


def test_errors_of_kernels_are_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def compiled() -> None:
        raise TypeError("a defect of the adapter")

    monkeypatch.setattr(kernels, "library", object())
    monkeypatch.setattr(kernels._CHOSEN, "is_active", True)
    with pytest.raises(TypeError, match="adapter"):
        kernels.kernel(compiled)(lambda: None)()


def test_without_the_package_the_definition_itself_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    def definition() -> None: ...

    monkeypatch.setattr(kernels, "library", None)
    assert kernels.kernel(definition)(definition) is definition
