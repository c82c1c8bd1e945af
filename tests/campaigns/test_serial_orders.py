"""Serial orders of table operations, and their campaign's reader."""

from __future__ import annotations

import json
from io import BytesIO

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from campaigns.tables.log_reader import Log, WrongTableError, contents_of
from campaigns.tables.operations import (
    DELTA,
    EMPTY,
    Change,
    Condition,
    Delete,
    Insert,
    Operation,
    Overwrite,
    Restore,
    Table,
    Target,
    Update,
)
from campaigns.tables.serial import Effect, find_order
from tests.campaigns.test_table_merges import row

BASE = Insert(1, (row(1), row(2, 1))).apply(EMPTY)


def effects(*operations: Operation) -> tuple[list[Effect], Table]:
    table, result = BASE, []
    for each in operations:
        change = Change.of(each, table)
        result.append(Effect.of(change, Target(table, DELTA, is_partitioned=False)))
        table = change.after
    return result, table


def merged(*rows: object) -> list[object]:
    return Table(BASE.columns, dict(enumerate(rows))).contents()  # type: ignore[arg-type]


def test_an_update_ignores_rows_of_the_other_side() -> None:
    source, changed = effects(Update(2, Condition("p", (0, 1)), {"v": 2}))
    dest, _ = effects(Insert(3, (row(3),)))
    contents_after = merged(*changed.rows.values(), row(3))
    assert find_order(BASE, source, dest, Effect.repeat, contents_after)
    match = find_order(BASE, source, dest, Effect.evaluate, contents_after)
    assert match is not None
    assert [each.operation.number for each in match[1]] == [2, 3]


def test_two_removals_of_a_row_have_no_order_unless_both_delete_it() -> None:
    source, after = effects(Delete(2, Condition("id", (1,))))
    dest, changed = effects(Update(3, Condition("id", (1,)), {"v": 3}))
    again, _ = effects(Delete(4, Condition("id", (1,))))
    for table in (after, changed):
        assert find_order(BASE, source, dest, Effect.repeat, table.contents()) is None
    assert find_order(BASE, source, dest, Effect.delete_again, changed.contents()) is None
    assert find_order(BASE, source, again, Effect.repeat, after.contents()) is None
    assert find_order(BASE, source, again, Effect.delete_again, after.contents())


def test_an_overwrite_precedes_rows_that_stay() -> None:
    source, _ = effects(Overwrite(2, (row(9),)))
    dest, _ = effects(Insert(3, (row(3),)))
    contents_after = merged(row(9), row(3))
    match = find_order(BASE, source, dest, Effect.repeat, contents_after)
    assert match is not None
    assert [each.operation.number for each in match[1]] == [2, 3]
    two, _ = effects(Overwrite(3, (row(3),)))
    assert find_order(BASE, source, two, Effect.repeat, contents_after) is None


def test_the_other_side_may_change_a_restored_row() -> None:
    source, _ = effects(Delete(2, Condition("id", (1,))), Restore(3, BASE.rows))
    dest, after = effects(Update(4, Condition("id", (1,)), {"v": 4}))
    assert find_order(BASE, source, dest, Effect.repeat, after.contents())


SCHEMA = {
    "fields": [{"name": each, "type": "long", "metadata": {}} for each in ("k", "id", "p", "v")]
}
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
    rows = contents_of(log_of([HEAD, added(1)]), files.__getitem__)
    assert rows == [(("id", 2), ("k", 1), ("p", 0), ("v", 7))]
    with pytest.raises(WrongTableError, match="have 2 rows"):
        contents_of(log_of([HEAD, added(2)]), files.__getitem__)
    with pytest.raises(WrongTableError, match="removes a file that is not there"):
        log_of([HEAD], [{"remove": {"path": "a%20b"}}])
    with pytest.raises(WrongTableError, match="has gaps"):
        Log.of({1: b""})
