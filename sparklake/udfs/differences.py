"""Differences rolled up by folder: how many objects, and how many bytes came and went."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparklake.graveler.algebra import Changes, Rows
from sparklake.graveler.blocks.columns import Positions
from sparklake.graveler.blocks.entry_columns import decode_entries
from sparklake.graveler.sums import bounded, run_sums
from sparklake.udfs.objects.rows import text_of

COUNTS = ("added", "removed", "changed", "conflict", "bytes_added", "bytes_removed")
FOLDER_SCHEMA = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        *(pa.field(name, pa.int64(), nullable=False) for name in COUNTS),
    ]
)
"""`path` ends in '/' for a folder. Bytes are those of objects that came and of those that went; of
a changed object both, of a conflict none."""

FOLDER_DDL = ", ".join(["path string", *(f"{name} bigint" for name in COUNTS)])


@dataclass(frozen=True, slots=True)
class FolderDiff:
    """What differs in a folder, or of an object that is not so deep; of all where path is "".

    A number stops at 2^63 - 1.
    """

    path: str
    added: int = 0
    removed: int = 0
    changed: int = 0
    conflict: int = 0
    bytes_added: int = 0
    bytes_removed: int = 0

    def plus(self, other: FolderDiff) -> FolderDiff:
        """Return both together, under the path of this one."""
        return FolderDiff(
            self.path, *(bounded(getattr(self, name) + getattr(other, name)) for name in COUNTS)
        )

    def at(self, path: str) -> FolderDiff:
        """Return the same numbers of another path."""
        return FolderDiff(path, *(getattr(self, name) for name in COUNTS))


@dataclass(frozen=True, slots=True)
class FolderBatch:
    """Rolls changes up to so many levels below a prefix that all their paths have."""

    prefix: str
    depth: int

    def __call__(self, changes: Changes) -> pa.RecordBatch:
        """Return changes as a batch of FOLDER_SCHEMA, a row for each run of paths of a folder."""
        folders = self._folders(text_of(changes.keys()))
        starts = _run_starts(folders)
        before, after, there = _sizes(changes.left), _sizes(changes.right), ~changes.conflicts
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
        """Return for each path the folder of this depth around it, itself if it has none."""
        if not self.depth:
            return pa.array([""] * len(paths), pa.string())
        below = pc.utf8_slice_codeunits(paths, len(self.prefix))
        # A path without so many folders does not match, and stays as it is.
        pattern = f"(?s)^((?:[^/]*/){{{self.depth}}}).*$"
        folders = pc.replace_substring_regex(below, pattern, r"\1")
        return pc.binary_join_element_wise(pa.scalar(self.prefix), folders, "")


def folder_rows(batch: pa.RecordBatch) -> Iterator[FolderDiff]:
    """Yield the rows in a batch of FOLDER_SCHEMA."""
    for row in batch.to_pylist():
        yield FolderDiff(**row)


def _sizes(rows: Rows) -> Positions:
    """Return the size of each row's object, 0 where there is none."""
    sizes = np.zeros(len(rows.at), np.int64)
    sizes[rows.present] = decode_entries(rows.records()).size
    return sizes


def _run_starts(texts: pa.StringArray) -> Positions:
    """Return where another text than the one before it stands; there is at least one text."""
    differ = pc.not_equal(texts[1:], texts[:-1]).to_numpy(zero_copy_only=False)
    return np.flatnonzero(np.concatenate(([True], differ)))
