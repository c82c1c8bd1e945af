"""The task bodies of two-way diffs, and their rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparklake.graveler.algebra import (
    BlockChanges,
    ChangeType,
    SideRows,
    diff,
    staged_diff,
)
from sparklake.graveler.blocks.entry_columns import EntryColumns, decode_entries, paths_of
from sparklake.udfs.streams import open_tasks
from sparklake.udfs.workspace import Workspace

CHANGE_FIELDS = (
    pa.field("type", pa.string(), nullable=False),
    pa.field("path", pa.string(), nullable=False),
    pa.field("size", pa.int64(), nullable=False),
)
DIFF_SCHEMA = pa.schema(
    [
        *CHANGE_FIELDS,
        pa.field("left_checksum", pa.string()),
        pa.field("right_checksum", pa.string()),
    ]
)
"""`type` is a ChangeType. `size` is in bytes, of the right side if it has the object, else of the
left."""

CHANGE_DDL = "type string, path string, size bigint"
DIFF_DDL = f"{CHANGE_DDL}, left_checksum string, right_checksum string"

_MTIME_TYPE = pa.timestamp("us", tz="UTC")

Encode = Callable[[BlockChanges], pa.RecordBatch]


@dataclass(frozen=True, slots=True)
class DiffRow:
    """An object that differs. A checksum is None where the object does not exist."""

    type: ChangeType
    path: str
    size: int
    left_checksum: str | None = None
    right_checksum: str | None = None


def diff_body(
    workspace: Workspace, batches: Iterable[pa.RecordBatch], encode: Encode | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield DIFF_SCHEMA, or the batches that `encode` returns. The sides are left, right."""
    for left, right in open_tasks(workspace, batches):
        yield from map(encode or diff_batch, diff(left, right))


def removed_batch(changes: BlockChanges) -> pa.RecordBatch:
    """Return the keys of a two-way diff that the right side lacks."""
    return pa.record_batch([changes.where(~changes.right.present).keys()], names=["key"])


def staged_diff_body(
    workspace: Workspace, batches: Iterable[pa.RecordBatch], encode: Encode | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the same as `diff_body`. The sides are base, then staged layers, newest first."""
    for base, *layers in open_tasks(workspace, batches):
        yield from map(encode or diff_batch, staged_diff(layers, base))


def diff_batch(changes: BlockChanges) -> pa.RecordBatch:
    """Return changes as one batch of DIFF_SCHEMA."""
    left, right = DiffSide.of(changes.left), DiffSide.of(changes.right)
    columns = [*change_columns(changes, left, right), left.checksum, right.checksum]
    return pa.record_batch(columns, schema=DIFF_SCHEMA)


def change_columns(changes: BlockChanges, left: DiffSide, right: DiffSide) -> list[pa.Array]:
    """Return the columns of CHANGE_FIELDS."""
    kinds = np.select(
        [changes.conflicts, ~changes.left.present, ~changes.right.present],
        [ChangeType.CONFLICT.value, ChangeType.ADDED.value, ChangeType.REMOVED.value],
        ChangeType.CHANGED.value,
    )
    # A conflict always has an object on one of the two sides.
    size = pc.coalesce(right.size, left.size)
    return [pa.array(kinds, pa.string()), paths_of(changes.keys()), size]


@dataclass(frozen=True, slots=True)
class DiffSide:
    """The columns of one side of a diff, null where there is no object."""

    _entries: EntryColumns
    _at: pa.Array
    absent: pa.Array

    @staticmethod
    def of(rows: SideRows) -> DiffSide:
        """Return the columns of a side."""
        present = rows.present
        at = pa.array(np.cumsum(present) - 1, mask=~present)
        return DiffSide(decode_entries(rows.records()), at, pa.array(~present))

    @property
    def size(self) -> pa.Array:
        """The sizes in bytes."""
        return pa.array(self._entries.size).take(self._at)

    @property
    def checksum(self) -> pa.Array:
        """The checksums."""
        return self._entries.checksum.take(self._at)

    @property
    def mtime(self) -> pa.Array:
        """The modification times, within the years 1 to 9999."""
        return pa.array(self._entries.shown_mtimes()).cast(_MTIME_TYPE).take(self._at)


def diff_rows(batch: pa.RecordBatch) -> Iterator[DiffRow]:
    """Yield the rows in a batch of DIFF_SCHEMA."""
    for row in batch.to_pylist():
        row["type"] = ChangeType(row["type"])
        yield DiffRow(**row)
