"""Differences per folder: counts of objects, and bytes added and removed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparklake.graveler.algebra import BlockChanges, SideRows
from sparklake.graveler.blocks.columns import Positions
from sparklake.graveler.blocks.entry_columns import decode_entries, paths_of
from sparklake.graveler.sums import bounded, run_sums

COUNTS = ("added", "removed", "changed", "conflict", "bytes_added", "bytes_removed")
FOLDER_SCHEMA = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        *(pa.field(name, pa.int64(), nullable=False) for name in COUNTS),
    ]
)
"""`path` ends in '/' for a folder. A changed object counts in both columns of bytes, a conflict in
neither."""

FOLDER_DDL = ", ".join(["path string", *(f"{name} bigint" for name in COUNTS)])


@dataclass(frozen=True, slots=True)
class FolderDiff:
    """The differences in a folder, or of one object above the depth of the summary.

    `path` is "" for the total. Every number is capped at 2^63 - 1.
    """

    path: str
    added: int = 0
    removed: int = 0
    changed: int = 0
    conflict: int = 0
    bytes_added: int = 0
    bytes_removed: int = 0

    def plus(self, other: FolderDiff) -> FolderDiff:
        """Return the sum of both, under the path of this one."""
        return FolderDiff(
            self.path, *(bounded(getattr(self, name) + getattr(other, name)) for name in COUNTS)
        )

    def at(self, path: str) -> FolderDiff:
        """Return the same numbers under another path."""
        return FolderDiff(path, *(getattr(self, name) for name in COUNTS))


@dataclass(frozen=True, slots=True)
class FolderBatch:
    """A summary of changes by the folders `depth` levels below a common prefix."""

    prefix: str
    depth: int

    def __call__(self, changes: BlockChanges) -> pa.RecordBatch:
        """Return a batch of FOLDER_SCHEMA, one row per run of paths in a folder."""
        folders = self._folders(paths_of(changes.keys()))
        starts = _run_starts(folders)
        before, after, there = (
            side_sizes(changes.left),
            side_sizes(changes.right),
            ~changes.conflicts,
        )
        left, right = changes.left.present, changes.right.present
        columns = [
            there & ~left,
            there & ~right,
            there & left & right,
            changes.conflicts,
            after * there,
            before * there,
        ]
        sums = [run_sums(column.astype(np.int64), starts) for column in columns]
        return pa.record_batch([folders.take(pa.array(starts)), *sums], schema=FOLDER_SCHEMA)

    def _folders(self, paths: pa.StringArray) -> pa.StringArray:
        """Return each path's folder at this depth, or the path if it has no such folder."""
        if not self.depth:
            return pa.array([""] * len(paths), pa.string())
        below = pc.utf8_slice_codeunits(paths, len(self.prefix))
        # A path with fewer folders does not match and stays unchanged.
        pattern = f"(?s)^((?:[^/]*/){{{self.depth}}}).*$"
        folders = pc.replace_substring_regex(below, pattern, r"\1")
        return pc.binary_join_element_wise(pa.scalar(self.prefix), folders, "")


def folder_rows(batch: pa.RecordBatch) -> Iterator[FolderDiff]:
    """Yield the rows in a batch of FOLDER_SCHEMA."""
    for row in batch.to_pylist():
        yield FolderDiff(**row)


def side_sizes(rows: SideRows) -> Positions:
    """Return the size of each row's object, 0 where there is no object."""
    sizes = np.zeros(len(rows.at), np.int64)
    sizes[rows.present] = decode_entries(rows.records()).size
    return sizes


def _run_starts(texts: pa.StringArray) -> Positions:
    """Return the positions where a new text begins. `texts` must not be empty."""
    differ = pc.not_equal(texts[1:], texts[:-1]).to_numpy(zero_copy_only=False)
    return np.flatnonzero(np.concatenate(([True], differ)))
