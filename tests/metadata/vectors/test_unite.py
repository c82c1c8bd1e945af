"""Unions of deletion vectors of one file, for every vector over four rows."""

from __future__ import annotations

from itertools import combinations, product

from sparklake.metadata.vectors.bitmaps import positions
from sparklake.metadata.vectors.unite import VectorOverlap, VectorUnion, unite_vectors

ROWS = range(4)
SETS = [frozenset(some) for count in range(5) for some in combinations(ROWS, count)]


def serial(base: frozenset[int], source: frozenset[int], dest: frozenset[int]) -> set[int] | None:
    """Apply source's deletions and restorations to dest one by one; None if one does not apply."""
    deleted = set(dest)
    for row in source - base:
        if row in deleted:
            return None
        deleted.add(row)
    for row in base - source:
        if row not in deleted:
            return None
        deleted.remove(row)
    return deleted


def test_all_vectors_over_four_rows_are_united_or_overlap() -> None:
    cases = list(product(SETS, SETS, SETS))
    assert len(cases) == 4096
    for base, source, dest in cases:
        result = unite_vectors(*(positions(*each) for each in (base, source, dest)))
        expected = serial(base, source, dest)
        # The other order of the sides has the same result.
        assert expected == serial(base, dest, source)
        rows = set(result.rows.tolist())
        if isinstance(result, VectorUnion):
            assert rows == expected
        else:
            assert expected is None
            assert rows == (base ^ source) & (base ^ dest)
        if base <= source and base <= dest:
            overlap = (source & dest) - base
            assert rows == (overlap or source | dest)
            assert isinstance(result, VectorOverlap) == bool(overlap)
