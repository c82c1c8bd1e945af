"""Benchmark results report the kernels, and none are written without them."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import pytest

from benchmarks import report
from sparklake.graveler import kernel_choice


def test_the_head_of_a_table_reports_the_kernels(tmp_path: Path) -> None:
    table = tmp_path / "table.md"
    report.write(Namespace(table=table, json=None), "A title", [], [{"op": "diff"}])
    head = table.read_text().partition("| op |")[0]
    assert f"Kernels: {kernel_choice.description()}." in head


@pytest.mark.parametrize("option", ["--json", "--table"])
def test_results_without_compiled_kernels_are_rejected(
    option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = report.RESULTS / ".." / "results" / "check.md"
    with kernel_choice.only_definitions(), pytest.raises(SystemExit):
        report.new_parser(None).parse_args([option, str(path)])
    assert "check.md is for figures of compiled kernels" in capsys.readouterr().err


def test_default_results_without_compiled_kernels_are_rejected() -> None:
    with kernel_choice.only_definitions(), pytest.raises(SystemExit):
        report.new_parser(None, "check").parse_args([])


def test_other_files_are_written_without_kernels(tmp_path: Path) -> None:
    options = [f"--{option}={tmp_path / option}" for option in ("json", "table")]
    with kernel_choice.only_definitions():
        args = report.new_parser(None, "check").parse_args(options)
    assert (args.json, args.table) == (tmp_path / "json", tmp_path / "table")
