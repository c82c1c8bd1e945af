"""The matrix of Delta's features in the documentation is the one that tests go through."""

from __future__ import annotations

from pathlib import Path

from tests.support.delta_features import matrix

PAGE = Path(__file__).parents[2] / "docs" / "tables.md"


def test_the_page_has_the_matrix_of_the_tests() -> None:
    rows = "\n".join(matrix())
    assert rows in PAGE.read_text(), f"the matrix in docs/tables.md must be:\n{rows}"
