"""The notebooks run as they are, and show tables."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from unittest import mock

import pytest

from tests.support.postgres import system_folder
from tests.support.spark import spark_environment

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))

SHOWN = {
    "quickstart": [
        "<caption>commit ",
        "orders/day=2024-05-31/",
        "Repository created",
        "<td>removed</td>",
    ],
    "merge_conflicts": ["config/prices.json", "<th>source</th>", "image/svg+xml"],
}
"""Parts of what each one shows as tables and pictures."""


@pytest.mark.spark
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_shows_tables(path: Path, tmp_path: Path) -> None:
    # It asks for its own tools when it is loaded.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import nbformat
        from nbclient import NotebookClient

        notebook = nbformat.read(path, as_version=4)
        assert not any(cell.get("outputs") for cell in notebook.cells), "commit it without output"
        client = NotebookClient(
            notebook, timeout=240, resources={"metadata": {"path": str(tmp_path)}}
        )
        with system_folder() as folder, mock.patch.dict(os.environ, spark_environment()):
            os.environ["TMPDIR"] = str(folder)
            client.execute()
    shown = [
        f"{kind}: {content}"
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        for kind, content in output.get("data", {}).items()
        if kind != "text/plain"
    ]
    for each in SHOWN[path.stem]:
        assert any(each in content for content in shown), f"{path.name} shows no {each!r}"


def test_every_notebook_is_looked_at() -> None:
    assert {path.stem for path in NOTEBOOKS} == set(SHOWN)
