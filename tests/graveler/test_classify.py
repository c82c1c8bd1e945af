"""The rule of a merge, row by row."""

from __future__ import annotations

from itertools import product

from sparklake.graveler.algebra.classify import KeyOutcome, Strategy, classify
from tests.graveler.merge_table import MERGE_TABLE, A, B, C, Row, X
from tests.support.cases import for_each


@for_each("row", MERGE_TABLE)
def test_every_row_is_classified(row: Row) -> None:
    assert classify(row.base, row.source, row.dest) is row.outcome


@for_each("row", MERGE_TABLE)
def test_strategies_of_the_merge_table_follow_from_the_outcome(row: Row) -> None:
    for strategy in Strategy:
        settled = {
            KeyOutcome.SAME: row.dest,
            KeyOutcome.TAKE_SOURCE: row.source,
            KeyOutcome.TAKE_DEST: row.dest,
            KeyOutcome.CONFLICT: row.source if strategy is Strategy.SOURCE_WINS else row.dest,
        }
        assert row.result(strategy) == settled[row.outcome]
    assert row.is_conflict or row.no_strategy == row.source_wins == row.dest_wins


def test_the_merge_table_has_every_row() -> None:
    """Every arrangement of sides is one of the rows, after renaming identities."""
    rows = {str(row) for row in MERGE_TABLE}
    for sides in product((A, B, C, X), repeat=3):
        names: dict[bytes, str] = {}
        shape = [
            "X" if side is None else names.setdefault(side, "ABC"[len(names)]) for side in sides
        ]
        assert "".join(shape) in rows
    assert len(rows) == len(MERGE_TABLE) == 15


def test_classification_is_symmetric() -> None:
    """Source and dest are alike to the rule."""
    mirrored = {
        KeyOutcome.TAKE_SOURCE: KeyOutcome.TAKE_DEST,
        KeyOutcome.TAKE_DEST: KeyOutcome.TAKE_SOURCE,
        KeyOutcome.SAME: KeyOutcome.SAME,
        KeyOutcome.CONFLICT: KeyOutcome.CONFLICT,
    }
    for base, source, dest in product((A, B, C, X), repeat=3):
        assert classify(base, dest, source) is mirrored[classify(base, source, dest)]
