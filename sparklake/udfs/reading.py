"""Bodies that read: the objects of a ref, and what differs between refs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import TypeVar

import pyarrow as pa

from sparklake.graveler.algebra import (
    Change,
    ChangeCounts,
    ChangeType,
    Conflict,
    apply,
    diff,
    staged_diff,
    three_way_diff,
)
from sparklake.graveler.blocks import Blocks
from sparklake.graveler.entries import record_entry
from sparklake.graveler.keys import key_path
from sparklake.graveler.records import Record
from sparklake.scratch import scratch_folder
from sparklake.stores.objects import open_store
from sparklake.udfs.objects import object_batch, object_info
from sparklake.udfs.streams import open_sides
from sparklake.udfs.tasks import Workspace, decode_tasks

BATCH_ROWS = 8192

DIFF_SCHEMA = pa.schema(
    [
        pa.field("type", pa.string(), nullable=False),
        pa.field("path", pa.string(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("left_checksum", pa.string()),
        pa.field("right_checksum", pa.string()),
        pa.field("base_checksum", pa.string()),
    ]
)
"""`type` is a ChangeType; `size` in bytes, of the right side unless the object is not there."""

DIFF_DDL = (
    "type string, path string, size bigint, "
    "left_checksum string, right_checksum string, base_checksum string"
)

Streams = Sequence[Blocks]
"""The streams of a piece's sides, restricted to its interval."""

_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True)
class DiffRow:
    """Is one object that differs; checksums are None where the object is not there.

    Of a conflict, left is dest, right is source, and base is what both had; else base is None.
    """

    type: ChangeType
    path: str
    size: int
    left_checksum: str | None = None
    right_checksum: str | None = None
    base_checksum: str | None = None


def list_body(workspace: Workspace, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yields OBJECT_SCHEMA: sides are base, then staged layers, the newest first."""
    namespace = workspace.storage_namespace
    for records in _read(workspace, batches, _current):
        yield object_batch([object_info(record, namespace) for record in records])


def diff_body(workspace: Workspace, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yields DIFF_SCHEMA: sides are left, right."""
    for changes in _read(workspace, batches, lambda sides: diff(*sides)):
        yield diff_batch(list(map(diff_row, changes)))


def staged_diff_body(
    workspace: Workspace, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yields DIFF_SCHEMA: sides are base, then staged layers, the newest first."""
    for changes in _read(workspace, batches, _staged):
        yield diff_batch(list(map(diff_row, changes)))


def three_way_diff_body(
    workspace: Workspace, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yields DIFF_SCHEMA of what a merge would change in dest: sides are base, source, dest."""
    for changes in _read(workspace, batches, lambda sides: three_way_diff(*sides)):
        yield diff_batch(list(map(diff_row, changes)))


def _current(sides: Streams) -> Iterator[Record]:
    base, *layers = sides
    return chain.from_iterable(apply(layers, base, ChangeCounts()))


def _staged(sides: Streams) -> Iterator[Change]:
    base, *layers = sides
    return staged_diff(layers, base)


def _read(
    workspace: Workspace,
    batches: Iterable[pa.RecordBatch],
    algebra: Callable[[Streams], Iterator[_Item]],
) -> Iterator[list[_Item]]:
    """Yields what the algebra makes of the pieces of tasks, some thousand items at a time."""
    store = open_store(workspace.storage_namespace)
    for task in decode_tasks(batches):
        with scratch_folder() as scratch:
            sides = open_sides(store, task.pieces, scratch)
            for each in task.pieces:
                items = algebra([side.within(each.piece.interval) for side in sides])
                while chunk := list(islice(items, BATCH_ROWS)):
                    yield chunk


def diff_row(change: Change | Conflict) -> DiffRow:
    """Returns the row of a change; of a conflict, left is dest and right is source."""
    if isinstance(change, Conflict):
        kind, values = ChangeType.CONFLICT, (change.dest, change.source, change.base)
    else:
        kind, values = change.type, (change.left, change.right, None)
    left, right, base = (
        None if stored is None else record_entry((change.key, stored)) for stored in values
    )
    shown = right or left
    return DiffRow(
        type=kind,
        path=key_path(change.key),
        size=shown.size if shown else 0,
        left_checksum=left.checksum if left else None,
        right_checksum=right.checksum if right else None,
        base_checksum=base.checksum if base else None,
    )


def diff_batch(rows: Sequence[DiffRow]) -> pa.RecordBatch:
    """Returns rows as one batch of DIFF_SCHEMA."""
    columns = (
        [row.type.value for row in rows],
        [row.path for row in rows],
        [row.size for row in rows],
        [row.left_checksum for row in rows],
        [row.right_checksum for row in rows],
        [row.base_checksum for row in rows],
    )
    arrays = [
        pa.array(values, field.type) for values, field in zip(columns, DIFF_SCHEMA, strict=True)
    ]
    return pa.record_batch(arrays, schema=DIFF_SCHEMA)


def diff_rows(batch: pa.RecordBatch) -> Iterator[DiffRow]:
    """Yields the rows in a batch of DIFF_SCHEMA."""
    for row in batch.to_pylist():
        row["type"] = ChangeType(row["type"])
        yield DiffRow(**row)
