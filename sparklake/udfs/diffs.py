"""Task bodies of diffs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparklake.graveler import kernels
from sparklake.graveler.algebra.changes import BlockChanges, ChangeType, SideRows
from sparklake.graveler.algebra.compare import diff, three_way_diff
from sparklake.graveler.algebra.staged import staged_diff
from sparklake.graveler.blocks.entry_columns import EntryColumns, decode_entries, paths_of
from sparklake.graveler.buffers import Positions, mask_of
from sparklake.graveler.planning.packing import Task
from sparklake.graveler.ports import ObjectStore
from sparklake.graveler.sums import run_sums
from sparklake.rows.diffs import DIFF_SCHEMA, FOLDER_SCHEMA, SIDE_TYPE, THREE_WAY_SCHEMA
from sparklake.rows.settings import Workspace
from sparklake.strategies.content_types import without_same_content
from sparklake.udfs import compiled_tasks
from sparklake.udfs.streams import open_sides, open_tasks
from sparklake.udfs.tasks import Batches, BatchStream, plan_tasks

_MTIME_TYPE = pa.timestamp("us", tz="UTC")

Encode = Callable[[BlockChanges], pa.RecordBatch]


def diff_body(workspace: Workspace, batches: Batches, encode: Encode | None = None) -> BatchStream:
    """Yield DIFF_SCHEMA, or the batches of `encode`. The sides are left, right."""
    store = workspace.open_store()
    for task in plan_tasks(batches):
        yield from map(encode or diff_batch, _differences(store, task))


@kernels.defines(compiled_tasks.diff_task)
def _differences(store: ObjectStore, task: Task) -> Iterable[BlockChanges]:
    before, after = open_sides(store, task)
    return diff(before, after)


def keys_batch(changes: BlockChanges) -> pa.RecordBatch:
    """Return the keys of a two-way diff."""
    return pa.record_batch([changes.keys()], names=["key"])


def added_keys_batch(changes: BlockChanges) -> pa.RecordBatch:
    """Return the keys added by the right side of a two-way diff."""
    return pa.record_batch([changes.where(~changes.left.present).keys()], names=["key"])


def removed_batch(changes: BlockChanges) -> pa.RecordBatch:
    """Return the keys removed by the right side of a two-way diff."""
    return pa.record_batch([changes.where(~changes.right.present).keys()], names=["key"])


def staged_diff_body(
    workspace: Workspace, batches: Batches, encode: Encode | None = None
) -> BatchStream:
    """Yield the output of `diff_body`. The sides are base, then staged layers, newest first."""
    for base, *layers in open_tasks(workspace, batches):
        yield from map(encode or diff_batch, staged_diff(layers, base))


def diff_batch(changes: BlockChanges) -> pa.RecordBatch:
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
    """One side of a diff as columns, null without an object."""

    _entries: EntryColumns
    _at: pa.Array
    absent: pa.Array

    @staticmethod
    def of(rows: SideRows) -> DiffSide:
        present = rows.present
        at = pa.array(np.cumsum(present) - 1, mask=~present)
        return DiffSide(decode_entries(rows.records()), at, pa.array(~present))

    @property
    def size(self) -> pa.Array:
        return pa.array(self._entries.size).take(self._at)

    @property
    def checksum(self) -> pa.Array:
        return self._entries.checksum.take(self._at)

    @property
    def mtime(self) -> pa.Array:
        """The modification times, within the years 1 to 9999."""
        return pa.array(self._entries.shown_mtimes()).cast(_MTIME_TYPE).take(self._at)


def three_way_diff_body(
    workspace: Workspace, batches: Batches, encode: Encode | None = None
) -> BatchStream:
    """Yield THREE_WAY_SCHEMA, or the batches of `encode`. The sides are base, source, dest."""
    for base, source, dest in open_tasks(workspace, batches):
        changes = map(without_same_content, three_way_diff(base, source, dest))
        yield from map(encode or three_way_batch, filter(len, changes))


def three_way_batch(changes: BlockChanges) -> pa.RecordBatch:
    rows = (changes.base, changes.right, changes.left)
    base, source, dest = map(DiffSide.of, rows)
    columns = change_columns(changes, dest, source)
    for each in (base, source, dest):
        values = [each.size, each.checksum, each.mtime]
        columns.append(pa.StructArray.from_arrays(values, fields=list(SIDE_TYPE), mask=each.absent))
    return pa.record_batch(columns, schema=THREE_WAY_SCHEMA)


@dataclass(frozen=True, slots=True)
class FolderBatch:
    """A summary of changes by the folders `depth` levels below a common prefix."""

    prefix: str
    depth: int

    def __call__(self, changes: BlockChanges) -> pa.RecordBatch:
        """Return FOLDER_SCHEMA, one row per run of paths in a folder."""
        folders = self._folders(paths_of(changes.keys()))
        starts = _run_starts(folders)
        before, after = side_sizes(changes.left), side_sizes(changes.right)
        in_left, in_right = changes.left.present, changes.right.present
        clear = ~changes.conflicts
        columns = [
            clear & ~in_left,
            clear & ~in_right,
            clear & in_left & in_right,
            changes.conflicts,
            after * clear,
            before * clear,
        ]
        sums = [run_sums(column.astype(np.int64), starts) for column in columns]
        return pa.record_batch([folders.take(pa.array(starts)), *sums], schema=FOLDER_SCHEMA)

    def _folders(self, paths: pa.StringArray) -> pa.StringArray:
        """Return the folder of each path at this depth, or the path if there is none."""
        if not self.depth:
            return pa.array([""] * len(paths), pa.string())
        below = pc.utf8_slice_codeunits(paths, len(self.prefix))
        # A path with fewer folders does not match and stays unchanged.
        pattern = f"(?s)^((?:[^/]*/){{{self.depth}}}).*$"
        folders = pc.replace_substring_regex(below, pattern, r"\1")
        return pc.binary_join_element_wise(pa.scalar(self.prefix), folders, "")


def side_sizes(rows: SideRows) -> Positions:
    """Return the object size of each row, 0 without an object."""
    sizes = np.zeros(len(rows.at), np.int64)
    sizes[rows.present] = decode_entries(rows.records()).size
    return sizes


def _run_starts(texts: pa.StringArray) -> Positions:
    """Return the first position of equal texts, of which there is at least one."""
    differ = mask_of(pc.not_equal(texts[1:], texts[:-1]))
    return np.flatnonzero(np.concatenate(([True], differ)))
