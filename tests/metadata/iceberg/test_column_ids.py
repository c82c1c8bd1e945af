"""Columns with one id on both sides, mapped to ids of dest and back."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from sparklake.metadata.iceberg.union.column_ids import in_ids_of_dest, own_ids, with_ids
from sparklake.metadata.union.conflicts import UnmergeableTableError

Columns = dict[int, str]


def document(*schemas: Columns) -> dict[str, Any]:
    """Return metadata with schemas of columns by id. The last one is current."""
    fields = [
        [{"id": at, "name": name, "required": False, "type": "long"} for at, name in each.items()]
        for each in schemas
    ]
    return {
        "last-column-id": max(at for each in schemas for at in each),
        "current-schema-id": len(schemas) - 1,
        "schemas": [{"schema-id": at, "fields": each} for at, each in enumerate(fields)],
        "partition-specs": [{"spec-id": 0, "fields": [{"source-id": 1, "field-id": 1000}]}],
    }


def columns(table: dict[str, Any]) -> Columns:
    return {each["id"]: each["name"] for each in table["schemas"][-1]["fields"]}


def moved(*sides: Sequence[Columns]) -> tuple[list[Columns], list[Any]]:
    documents, ids = in_ids_of_dest([document(*each) for each in sides])
    for side, own, back in zip(sides, documents, ids, strict=True):
        assert columns(with_ids(own, own_ids(back, own))) == side[-1]
    return [*map(columns, documents)], ids


OLD = {1: "id", 2: "name"}


def test_new_columns_with_one_id_are_renumbered() -> None:
    (base, source, dest), _ = moved([OLD], [OLD, OLD | {3: "x", 4: "y"}], [OLD, OLD | {3: "y"}])
    assert base == OLD
    assert dest == OLD | {3: "y"}
    # The new id of x is one that no side has.
    assert source == OLD | {6: "x", 3: "y"} or source == OLD | {5: "x", 3: "y"}


def test_columns_renumbered_by_a_merge_are_matched() -> None:
    theirs, ours = OLD | {3: "x"}, OLD | {3: "y", 4: "x"}
    later = OLD | {3: "renamed"}
    (base, source, _), ids = moved([theirs], [theirs, later], [OLD | {3: "y"}, ours])
    assert (base, source) == (OLD | {4: "x"}, OLD | {4: "renamed"})
    # Dest's columns that source lacks get ids that source's files do not have.
    merged = document(ours)
    read = columns(with_ids(merged, own_ids(ids[1], merged)))
    assert read[3] == "x"
    assert {at for at, name in read.items() if name == "y"}.isdisjoint({1, 2, 3, 4})
    (base, source, _), _ = moved([theirs], [OLD | {3: "y"}, ours], [theirs])
    assert base == theirs
    assert source[3] == "x"


def test_a_name_with_two_ids_is_rejected() -> None:
    twice = [OLD | {3: "x"}, OLD | {4: "x"}]
    with pytest.raises(UnmergeableTableError, match="the name of a column to several"):
        moved(twice, twice, [OLD | {3: "y", 5: "x"}])


def test_a_rename_without_the_former_schema_is_rejected() -> None:
    with pytest.raises(UnmergeableTableError, match="column id 2 has its former name or type"):
        moved([OLD], [OLD | {2: "label"}], [OLD])


@pytest.mark.parametrize("seed", range(30))
def test_columns_keep_their_names(seed: int) -> None:
    rng = random.Random(seed)

    def grow(side: list[Columns]) -> list[Columns]:
        side, names = [*side], [*"abcdef"]
        for _ in range(rng.randint(1, 3)):
            name = rng.choice([each for each in names if each not in side[-1].values()])
            last = max(at for each in side for at in each)
            side.append(side[-1] | {last + 1: name})
            if rng.random() < 0.3:
                side.append({at: each for at, each in side[-1].items() if at == 1 or each != name})
        return side

    base = [OLD]
    source, dest = grow(base), grow(base)
    try:
        sides, _ = moved(base, source, dest)
    except UnmergeableTableError:
        return
    assert [*map(sorted, (each.values() for each in sides))] == [
        sorted(each[-1].values()) for each in (base, source, dest)
    ]
    shared = {*source[-1].values()} & {*dest[-1].values()}
    at = [{name: at for at, name in each.items()} for each in sides]
    assert all(at[1][name] == at[2][name] for name in shared)
