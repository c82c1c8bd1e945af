"""The notebooks run as they are, show tables and pictures, and have their outputs in the files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.notebooks import NOTEBOOKS, displayed, outputs, read_notebook, run_notebook

SHOWN = {
    "quickstart": [
        "<caption>commit ",
        "orders/day=2024-05-31/",
        "Repository created",
        "<b>removed</b>",
    ],
    "merge_conflicts": ["config/prices.json", ">source</th>", "<b>conflict</b>", "image/svg+xml"],
    "merge_rows": ["conflicts=1", "<th>column</th>", "<td>22</td>", "image/svg+xml"],
    "history": ["<b>removed</b>", "<b>changed</b>", "image/svg+xml", "image/png", "nightly"],
}
"""Parts of what each one shows as tables and pictures."""

NO_JVM = {"merge_conflicts", "history"}

MACHINE = re.compile(r"(?<![\w.~}])/(?:root|home|work|farm|tmp|dev/shm|var|Users)/|0x[0-9a-f]{8,}")
LONG_DIGEST = re.compile(r">[0-9a-f]{32,}<")

by_name = pytest.mark.parametrize(
    "path",
    [
        pytest.param(each, marks=[] if each.stem in NO_JVM else pytest.mark.spark)
        for each in NOTEBOOKS
    ],
    ids=lambda path: path.stem,
)


@by_name
def test_a_notebook_runs_and_shows_tables(path: Path, tmp_path: Path) -> None:
    found = displayed(run_notebook(path, tmp_path))
    assert missing(path, found) == set()


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_committed_outputs_are_complete_and_name_no_machine(path: Path) -> None:
    notebook = read_notebook(path)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == [*range(1, len(code) + 1)]
    assert {each["output_type"] for each in outputs(notebook)} <= {
        "execute_result",
        "display_data",
        "stream",
    }
    found = displayed(notebook)
    assert missing(path, found) == set()
    texts = [each for each in found if not each.startswith("image/png")]
    assert [each for each in texts if MACHINE.search(each)] == []
    assert [each for each in texts if LONG_DIGEST.search(each)] == []


def missing(path: Path, found: list[str]) -> set[str]:
    return {each for each in SHOWN[path.stem] if not any(each in content for content in found)}


def test_every_notebook_is_looked_at() -> None:
    assert {path.stem for path in NOTEBOOKS} == set(SHOWN)
