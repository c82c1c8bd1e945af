"""Unions of the deletion vectors of one file, for every vector over four rows."""

from __future__ import annotations

from itertools import combinations, product

from sparklake.vectors.bitmaps import positions
from sparklake.vectors.unite import unite_vectors

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


def test_all_vectors_over_four_rows() -> None:
    cases = list(product(SETS, SETS, SETS))
    assert len(cases) == 4096
    for base, source, dest in cases:
        vectors = (positions(*each) for each in (base, source, dest))
        union, overlap = (set(each.tolist()) for each in unite_vectors(*vectors))
        expected = serial(base, source, dest)
        # The other order of the sides has the same result.
        assert expected == serial(base, dest, source)
        assert overlap == (base ^ source) & (base ^ dest)
        assert expected == (None if overlap else union)
        if base <= source and base <= dest:
            assert overlap == (source & dest) - base
            assert overlap or union == source | dest
