"""Serial orders of table operations, and the reader of their campaign."""

from __future__ import annotations

import json
from io import BytesIO

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from campaigns.tables.log_reader import Log, WrongTableError, contents_of
from campaigns.tables.operations import (
    EMPTY,
    Condition,
    Delete,
    Insert,
    NewRow,
    Operation,
    Overwrite,
    Table,
    Update,
)
from campaigns.tables.serial import Effect, find_order

BASE = Insert(1, (NewRow(100, 1, 0), NewRow(101, 2, 1)), 1).apply(EMPTY)


def effects(*operations: Operation) -> tuple[list[Effect], Table]:
    table, made = BASE, []
    for each in operations:
        made.append(Effect.of(each, table))
        table = each.apply(table)
    return made, table


def test_an_update_does_not_see_rows_of_the_other_side() -> None:
    source, _ = effects(Update(2, Condition("p", (0, 1))))
    dest, _ = effects(Insert(3, (NewRow(300, 3, 0),), 1))
    rows = {**source[0].added, **dest[0].added}
    wanted = Table(BASE.columns, rows).contents()
    assert find_order(BASE, source, dest, Effect.repeat, wanted)
    order = find_order(BASE, source, dest, Effect.evaluate, wanted)
    assert order is not None
    assert [each.operation.number for each in order] == [2, 3]


def test_two_removals_of_a_row_have_no_order() -> None:
    source, after = effects(Delete(2, Condition("id", (1,))))
    dest, _ = effects(Update(3, Condition("id", (1,))))
    assert find_order(BASE, source, dest, Effect.repeat, after.contents()) is None


def test_an_overwrite_comes_before_rows_that_stay() -> None:
    source, _ = effects(Overwrite(2, (NewRow(200, 9, 0),), 1))
    dest, _ = effects(Insert(3, (NewRow(300, 3, 0),), 1))
    wanted = Table(BASE.columns, {**source[0].added, **dest[0].added}).contents()
    order = find_order(BASE, source, dest, Effect.repeat, wanted)
    assert order is not None
    assert [each.operation.number for each in order] == [2, 3]
    two, _ = effects(Overwrite(3, (NewRow(300, 3, 0),), 1))
    assert find_order(BASE, source, two, Effect.repeat, wanted) is None


SCHEMA = {"fields": [{"name": each, "metadata": {}} for each in ("k", "id", "p", "v")]}
HEAD = {"metaData": {"schemaString": json.dumps(SCHEMA), "configuration": {}}}


def added(rows: int) -> dict[str, object]:
    stats = json.dumps({"numRecords": rows})
    return {"add": {"path": "a%20b", "partitionValues": {}, "stats": stats}}


def log_of(*commits: list[dict[str, object]]) -> Log:
    lines = {at: "\n".join(map(json.dumps, each)).encode() for at, each in enumerate(commits)}
    return Log.of(lines)


def test_the_reader_rejects_wrong_tables() -> None:
    body = BytesIO()
    pq.write_table(pa.table({"k": [1], "id": [2], "p": [0], "v": [7]}), body)
    files = {"a b": body.getvalue()}
    found = contents_of(log_of([HEAD, added(1)]), files.__getitem__)
    assert found == [(("id", 2), ("k", 1), ("p", 0), ("v", 7))]
    with pytest.raises(WrongTableError, match="have 2 rows"):
        contents_of(log_of([HEAD, added(2)]), files.__getitem__)
    with pytest.raises(WrongTableError, match="removes a file that is not there"):
        log_of([HEAD], [{"remove": {"path": "a%20b"}}])
    with pytest.raises(WrongTableError, match="has gaps"):
        Log.of({1: b""})
