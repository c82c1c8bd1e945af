"""Task bodies that read: the objects of a ref, and the differences between refs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparklake.graveler.algebra import (
    BlockChanges,
    Change,
    ChangeCounts,
    ChangeType,
    Conflict,
    SideRows,
    apply,
    diff,
    staged_diff,
    three_way_diff,
)
from sparklake.graveler.blocks.block import Blocks
from sparklake.graveler.blocks.entry_columns import decode_entries, paths_of
from sparklake.graveler.entries import record_entry
from sparklake.graveler.keys import key_path
from sparklake.udfs.content_types import without_same_content
from sparklake.udfs.objects.object_rows import object_batch
from sparklake.udfs.streams import open_sides
from sparklake.udfs.workspace import Workspace, decode_tasks

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
"""`type` is a ChangeType. `size` is in bytes, of the right side if it has the object, else of the
left."""

DIFF_DDL = (
    "type string, path string, size bigint, "
    "left_checksum string, right_checksum string, base_checksum string"
)

Encode = Callable[[BlockChanges], pa.RecordBatch]


@dataclass(frozen=True, slots=True)
class DiffRow:
    """An object that differs. A checksum is None where the object does not exist.

    In a conflict, left is dest, right is source, and base is the merge base. Without a conflict,
    base is None. `reason` explains a special conflict.
    """

    type: ChangeType
    path: str
    size: int
    left_checksum: str | None = None
    right_checksum: str | None = None
    base_checksum: str | None = None
    reason: str | None = None


def list_body(workspace: Workspace, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield OBJECT_SCHEMA. The sides are base, then staged layers, the newest first."""
    for base, *layers in _tasks(workspace, batches):
        for block in apply(layers, base, ChangeCounts()):
            yield object_batch(block, workspace.storage_namespace)


def diff_body(
    workspace: Workspace, batches: Iterable[pa.RecordBatch], encode: Encode | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield DIFF_SCHEMA, or the batches that `encode` returns. The sides are left, right."""
    for left, right in _tasks(workspace, batches):
        yield from map(encode or diff_batch, diff(left, right))


def removed_batch(changes: BlockChanges) -> pa.RecordBatch:
    """Return the keys of a two-way diff that the right side lacks."""
    return pa.record_batch([changes.where(~changes.right.present).keys()], names=["key"])


def staged_diff_body(
    workspace: Workspace, batches: Iterable[pa.RecordBatch], encode: Encode | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the same as `diff_body`. The sides are base, then staged layers, newest first."""
    for base, *layers in _tasks(workspace, batches):
        yield from map(encode or diff_batch, staged_diff(layers, base))


def three_way_diff_body(
    workspace: Workspace, batches: Iterable[pa.RecordBatch], encode: Encode | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the changes of a merge, as `diff_body` does. The sides are base, source, dest."""
    for base, source, dest in _tasks(workspace, batches):
        changes = map(without_same_content, three_way_diff(base, source, dest))
        yield from map(encode or diff_batch, filter(len, changes))


def _tasks(workspace: Workspace, batches: Iterable[pa.RecordBatch]) -> Iterator[Sequence[Blocks]]:
    """Yield the streams of each task's sides."""
    store = workspace.open_store()
    for task in decode_tasks(batches):
        yield open_sides(store, task.pieces)


def diff_row(change: Change | Conflict) -> DiffRow:
    """Return the row of a change. In a conflict, left is dest and right is source."""
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


def diff_batch(changes: BlockChanges) -> pa.RecordBatch:
    """Return changes as one batch of DIFF_SCHEMA."""
    left, right, base = (_Side.of(rows) for rows in (changes.left, changes.right, changes.base))
    kinds = np.select(
        [changes.conflicts, ~changes.left.present, ~changes.right.present],
        [ChangeType.CONFLICT.value, ChangeType.ADDED.value, ChangeType.REMOVED.value],
        ChangeType.CHANGED.value,
    )
    # A conflict always has an object on one of the two sides.
    size = pc.coalesce(right.size, left.size)
    columns = [
        pa.array(kinds, pa.string()),
        paths_of(changes.keys()),
        size,
        left.checksum,
        right.checksum,
        base.checksum,
    ]
    return pa.record_batch(columns, schema=DIFF_SCHEMA)


@dataclass(frozen=True, slots=True)
class _Side:
    """The columns of one side of a diff, null where there is no object."""

    size: pa.Array
    checksum: pa.Array

    @staticmethod
    def of(rows: SideRows) -> _Side:
        entries = decode_entries(rows.records())
        present = rows.present
        at = pa.array(np.cumsum(present) - 1, mask=~present)
        return _Side(pa.array(entries.size).take(at), entries.checksum.take(at))


def diff_rows(batch: pa.RecordBatch) -> Iterator[DiffRow]:
    """Yield the rows in a batch of DIFF_SCHEMA."""
    for row in batch.to_pylist():
        row["type"] = ChangeType(row["type"])
        yield DiffRow(**row)
