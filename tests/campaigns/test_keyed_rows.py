"""The three-way merge of dicts that row merges are compared with."""

from __future__ import annotations

import pytest

from campaigns.tables.keyed_rows import RowMerge

BASE = {1: (0, "x", "y"), 2: (0, "x", "y"), 3: (0, "x", "y")}
SOURCE = {1: (0, "z", "y"), 2: (0, "z", "y"), 4: (1, "n", "n")}
DEST = {1: (0, "x", "z"), 2: (0, "q", "y"), 3: (0, "x", "q"), 4: (1, "n", "n")}


@pytest.mark.parametrize(
    ("columns", "winner", "rows", "conflicts"),
    [
        (False, None, {4: (1, "n", "n")}, {1, 2, 3}),
        (True, None, {1: (0, "z", "z"), 4: (1, "n", "n")}, {2, 3}),
        (True, "source", {1: (0, "z", "z"), 2: (0, "z", "y"), 4: (1, "n", "n")}, set()),
        (False, "source", SOURCE, set()),
        (False, "dest", DEST, set()),
    ],
)
def test_rows_merge_by_key(
    columns: bool, winner: str | None, rows: dict[int, object], conflicts: set[int]
) -> None:
    merge = RowMerge.of(BASE, SOURCE, DEST, columns=columns, winner=winner)
    found = {key: row for key, row in merge.rows.items() if key not in merge.conflicts}
    assert (found, merge.conflicts) == (rows, conflicts)
