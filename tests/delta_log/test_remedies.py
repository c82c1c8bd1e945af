"""What a conflict between settings says is done, and the tables are united."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from sparklake.delta_log.union.log_sides import UnionSignature
from sparklake.delta_log.union.unite import united
from sparklake.unions.conflicts import UnmergeableTableError
from tests.delta_log.test_features import (
    MAPPED,
    NEW,
    A,
    Actions,
    B,
    C,
    add,
    column,
    ids,
    refused,
    remove,
    settings,
    side,
    table,
    union,
)

Z, Y = {**A, "name": "z"}, {**A, "name": "y"}
OURS = column("c", 3, file_name="ours")
MINE = add("mine", **ids(10, 1))


@pytest.mark.parametrize(
    ("source", "dest", "words", "source_then", "dest_then"),
    [
        (
            [settings(table(A, B, x="1"))],
            [settings(table(A, B, x="2"))],
            "Make the same change on both sides",
            [settings(table(A, B, x="2"))],
            None,
        ),
        (
            [settings(table(Z, B))],
            [settings(table(Y, B))],
            "Make the same change on both sides",
            None,
            [settings(table(Z, B))],
        ),
        (
            [settings(table(Z, B))],
            [settings(table(A, {**B, "name": "Z"}))],
            "Rename the column on one side",
            [settings(table(Y, B))],
            None,
        ),
        (
            [settings(table(A, B, C)), *NEW],
            [settings(table(A, B, OURS)), MINE],
            "Rename it on one side, merge, copy its values",
            [settings(table(A, B, {**C, "name": "c2"}))],
            None,
        ),
        (
            [settings(table(Z, B))],
            [settings(table(A, B, constraints_x="a > 0"))],
            "Drop the expression, merge, and add it again",
            None,
            [settings(table(A, B))],
        ),
        (
            [settings(table(A, B, appendOnly="true"))],
            [remove("old")],
            "Set it to 'true' on both sides",
            None,
            [settings(table(A, B, appendOnly="true"))],
        ),
        (
            NEW,
            [settings(table(A, B, enableIcebergCompatV2="true"))],
            "Set it to 'true' on both sides",
            [settings(table(A, B, enableIcebergCompatV2="true"))],
            None,
        ),
        (
            NEW,
            [settings(table({**A, "nullable": False}, B))],
            "Make the same change on both sides",
            [settings(table({**A, "nullable": False}, B))],
            None,
        ),
    ],
)
def test_what_a_conflict_says_is_done(
    source: Actions,
    dest: Actions,
    words: str,
    source_then: Actions | None,
    dest_then: Actions | None,
) -> None:
    refused(MAPPED, [source], [dest], words)
    theirs, ours = (
        [first] if then is None else [first, then]
        for first, then in ((source, source_then), (dest, dest_then))
    )
    union(MAPPED, theirs, ours)


def test_features_that_a_side_lacks_are_enabled_there() -> None:
    def featured(commits: Sequence[Actions], *features: str) -> Any:
        return side(MAPPED, *commits, features=features)

    base = featured((), "columnMapping")
    pairs = [
        (("columnMapping", "variantType"), ("columnMapping", "v2Checkpoint"), "the same features"),
        (("columnMapping", "variantType"), ("v2Checkpoint",), "the same features"),
    ]
    for theirs, ours, words in pairs:
        both = {*theirs, *ours}
        sides = featured([NEW], *theirs), featured([[MINE]], *ours)
        with pytest.raises(UnmergeableTableError, match=words):
            united(base, *sides, UnionSignature(1, "tests"))
        protocol = {**sides[0].protocol, "writerFeatures": sorted(both)}
        sides = tuple(replace(each, protocol=protocol) for each in sides)
        assert united(base, *sides, UnionSignature(1, "tests")).commits
