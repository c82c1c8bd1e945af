"""Runs the notebooks; `python -m tests.support.notebooks` puts their outputs into the files."""

from __future__ import annotations

import os
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any
from unittest import mock

from benchmarks.spark import spark_environment
from campaigns.postgres import system_folder

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))

_SECONDS = 240


def read_notebook(path: Path) -> Any:
    """Return a notebook as nbformat parses it."""
    # It asks for its own tools when it is loaded.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import nbformat

        return nbformat.read(path, as_version=4)


def run_notebook(path: Path, folder: Path) -> Any:
    """Return a notebook with new outputs. Its cells run in a folder."""
    notebook = read_notebook(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from nbclient import NotebookClient

        client = NotebookClient(
            notebook,
            timeout=_SECONDS,
            record_timing=False,
            resources={"metadata": {"path": str(folder)}},
        )
        with system_folder() as scratch, mock.patch.dict(os.environ, spark_environment()):
            os.environ["TMPDIR"] = str(scratch)
            os.environ["SPARKLAKE_COMMITTER"] = "ann"
            client.execute()
    return notebook


def outputs(notebook: Any) -> list[Any]:
    """Return the outputs of all cells."""
    return [each for cell in notebook.cells for each in cell.get("outputs", [])]


def displayed(notebook: Any) -> list[str]:
    """Return the tables, pictures and texts of the outputs."""
    data = [f"{kind}: {each}" for out in outputs(notebook) for kind, each in _data(out).items()]
    return [*data, *(out["text"] for out in outputs(notebook) if out["output_type"] == "stream")]


def _drop_plain_text(output: Any) -> None:
    """Drop the text of a value if it is also shown as a table or a picture."""
    kinds = output.get("data", {})
    if len(kinds) > 1:
        kinds.pop("text/plain", None)


def _data(output: Any) -> dict[str, Any]:
    data: dict[str, Any] = output.get("data", {})
    return data


def main() -> None:
    """Run the given notebooks, or all, and write their outputs."""
    import nbformat

    for path in map(Path, sys.argv[1:] or NOTEBOOKS):
        with tempfile.TemporaryDirectory() as folder:
            notebook = run_notebook(path, Path(folder))
        for cell in notebook.cells:
            retained = [each for each in cell.get("outputs", []) if each.get("name") != "stderr"]
            if cell.cell_type == "code":
                cell["outputs"] = retained
        for output in outputs(notebook):
            _drop_plain_text(output)
        # The version of the kernel that ran it is no part of a notebook.
        notebook.metadata["language_info"] = {"name": "python"}
        nbformat.write(notebook, path)


if __name__ == "__main__":
    main()
