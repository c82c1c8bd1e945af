"""Which kernels run: compiled ones, or their definitions in Python."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from sparklake.graveler import kernel_choice, kernels

SAY = "from sparklake.graveler.kernel_choice import description; print(description())"


def description(library: str | None = None, **environment: str) -> str:
    """Return the kernel description of a new process that loads the given library."""
    override = "" if library is None else f"sys.modules['sparklake._kernels'] = {library}"
    ran = subprocess.run(
        [sys.executable, "-c", f"import sys, types; {override}\n{SAY}"],
        env={**os.environ, "SPARKLAKE_KERNELS": "", **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return ran.stdout.strip()


@pytest.mark.parametrize("value", ["off", "OFF"])
def test_the_setting_disables_compiled_kernels(value: str) -> None:
    assert description(SPARKLAKE_KERNELS=value) == "Python (SPARKLAKE_KERNELS is off)"


def test_kernels_built_from_other_sources_are_not_used() -> None:
    """For example, kernels built before a checkout changed."""
    expected = "Python (the compiled kernels were built from different sources than this code)"
    assert (
        description(f"types.SimpleNamespace(INTERFACE={kernel_choice.INTERFACE - 1})") == expected
    )


def test_missing_kernels_are_reported() -> None:
    assert description("None") == f"Python ({kernel_choice.MISSING})"


def test_the_definition_runs_when_its_kernel_declines(monkeypatch: pytest.MonkeyPatch) -> None:
    def compiled(number: int) -> str:
        if number < 0:
            raise kernels.Declined
        return "compiled"

    monkeypatch.setattr(kernels, "_library", object())
    monkeypatch.setattr(kernel_choice.CHOICE, "is_active", True)
    run = kernels.defines(compiled)(lambda number: "Python")
    assert (run(1), run(-1)) == ("compiled", "Python")
    with kernel_choice.only_definitions():
        assert not kernel_choice.is_compiled()
        assert run(1) == "Python"
    assert run(1) == "compiled"


def test_kernel_errors_are_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def compiled() -> None:
        raise TypeError("a defect of the adapter")

    monkeypatch.setattr(kernels, "_library", object())
    monkeypatch.setattr(kernel_choice.CHOICE, "is_active", True)
    with pytest.raises(TypeError, match="adapter"):
        kernels.defines(compiled)(lambda: None)()


def test_the_definition_runs_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    def definition() -> None: ...

    monkeypatch.setattr(kernels, "_library", None)
    assert kernels.defines(definition)(definition) is definition
