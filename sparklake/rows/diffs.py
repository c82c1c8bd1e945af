"""Rows of diffs: two-way, three-way, and counts by folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from sparklake.graveler.algebra.changes import ChangeType, Conflict
from sparklake.graveler.arrow_batches import required_schema
from sparklake.graveler.commits import Commit
from sparklake.graveler.entries import record_entry
from sparklake.graveler.keys import key_path
from sparklake.graveler.sums import bounded
from sparklake.graveler.times import MICROSECOND, SECOND, shown_nanoseconds, text_of_second
from sparklake.rows.objects import unix_microseconds
from sparklake.visible import CHECKSUM_DIGITS, COMMIT_DIGITS, count_of

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


@dataclass(frozen=True, slots=True)
class DiffRow:
    """A changed object. A checksum is None on a side without the object."""

    type: ChangeType
    path: str
    size: int
    left_checksum: str | None = None
    right_checksum: str | None = None


def diff_rows(batch: pa.RecordBatch) -> Iterator[DiffRow]:
    """Decode a batch of DIFF_SCHEMA."""
    for row in batch.to_pylist():
        row["type"] = ChangeType(row["type"])
        yield DiffRow(**row)


# --- three-way ------------------------------------------------------------------------------------

_SIDES = ("base", "source", "dest")

SIDE_TYPE = pa.struct(
    [
        pa.field("size", pa.int64()),
        pa.field("checksum", pa.string()),
        pa.field("mtime", pa.timestamp("us", tz="UTC")),
    ]
)
"""`size` is in bytes."""

THREE_WAY_SCHEMA = pa.schema([*CHANGE_FIELDS, *(pa.field(side, SIDE_TYPE) for side in _SIDES)])
"""A side is null if it has no object. `base` is also null without a conflict."""


@dataclass(frozen=True, slots=True)
class SideObject:
    """The object on one side of a merge.

    `size` is in bytes. `mtime` is in unix nanoseconds, in whole microseconds and within the years 1
    to 9999.
    """

    size: int
    checksum: str
    mtime: int

    def document(self) -> Mapping[str, Any]:
        """Return the JSON document. `mtime` is in unix seconds."""
        return {"size": self.size, "checksum": self.checksum, "mtime": self.mtime // SECOND}

    def __str__(self) -> str:
        """Format size, time and the first digits of the checksum."""
        time = text_of_second(self.mtime // SECOND)
        return f"{count_of(self.size, 'byte')}, {time}, {self.checksum[:CHECKSUM_DIGITS]}"


@dataclass(frozen=True, slots=True)
class ThreeWayRow:
    """A change to dest by a merge, or a conflict. A side without the object is None.

    `base` is None unless the row is a conflict. `source_commit` and `dest_commit` are the latest
    commits of a conflict's sides with a change of the path. They are set for the first conflicts of
    an error or a preview, otherwise None. `reason` explains a special conflict.
    """

    type: ChangeType
    path: str
    base: SideObject | None = None
    source: SideObject | None = None
    dest: SideObject | None = None
    source_commit: Commit | None = None
    dest_commit: Commit | None = None
    reason: str | None = None

    @property
    def size(self) -> int:
        """The size in bytes on source's side, or else on dest's."""
        side = self.source or self.dest
        return side.size if side else 0

    def commits_document(self) -> Mapping[str, Any]:
        """Return the commits of source and dest for JSON. An unknown commit is None."""
        names = ("id", "committer", "message", "creation_date")
        commits = {"source_commit": self.source_commit, "dest_commit": self.dest_commit}
        return {
            side: each and {name: getattr(each, name) for name in names}
            for side, each in commits.items()
        }

    @property
    def base_text(self) -> str:
        """The object of base as a text."""
        return "" if self.base is None else str(self.base)

    @property
    def source_text(self) -> str:
        """The object of source, or its removal, and its commit, as a text."""
        return _side_text(self.source, self.source_commit)

    @property
    def dest_text(self) -> str:
        """The object of dest, or its removal, and its commit, as a text."""
        return _side_text(self.dest, self.dest_commit)


def _side_text(side: SideObject | None, commit: Commit | None) -> str:
    text = "removed" if side is None else str(side)
    if commit is None:
        return text
    return f"{text}, by {commit.committer} in {commit.id[:COMMIT_DIGITS]}"


def three_way_rows(batch: pa.RecordBatch) -> Iterator[ThreeWayRow]:
    """Decode a batch of THREE_WAY_SCHEMA."""
    texts = (batch.column(name).to_pylist() for name in ("type", "path"))
    sides = (_side_objects(batch.column(name)) for name in _SIDES)
    for kind, path, base, source, dest in zip(*texts, *sides, strict=True):
        yield ThreeWayRow(ChangeType(kind), path, base, source, dest)


def _side_objects(column: pa.StructArray) -> Iterator[SideObject | None]:
    sizes, checksums, mtimes = column.flatten()
    micros = unix_microseconds(mtimes).to_pylist()
    for size, checksum, micro in zip(sizes.to_pylist(), checksums.to_pylist(), micros, strict=True):
        yield None if size is None else SideObject(size, checksum, micro * MICROSECOND)


def conflict_row(conflict: Conflict, reason: str | None = None) -> ThreeWayRow:
    """Convert a conflict to a row of a three-way diff."""
    key = conflict.key
    return ThreeWayRow(
        type=ChangeType.CONFLICT,
        path=key_path(key),
        base=_side_object(key, conflict.base),
        source=_side_object(key, conflict.source),
        dest=_side_object(key, conflict.dest),
        reason=reason,
    )


def _side_object(key: bytes, stored: bytes | None) -> SideObject | None:
    if stored is None:
        return None
    entry = record_entry((key, stored))
    return SideObject(entry.size, entry.checksum, shown_nanoseconds(entry.mtime))


# --- by folder ------------------------------------------------------------------------------------

COUNTS = ("added", "removed", "changed", "conflict", "bytes_added", "bytes_removed")

FOLDER_SCHEMA = required_schema(path=pa.string(), **dict.fromkeys(COUNTS, pa.int64()))
"""`path` ends in '/' for a folder. A changed object counts in both columns of bytes, a conflict in
neither."""


@dataclass(frozen=True, slots=True)
class FolderDiff:
    """The differences in a folder, or in total (path ""), each capped at 2^63 - 1."""

    path: str
    added: int = 0
    removed: int = 0
    changed: int = 0
    conflict: int = 0
    bytes_added: int = 0
    bytes_removed: int = 0

    def plus(self, other: FolderDiff) -> FolderDiff:
        """Return the sum of both, with this path."""
        return FolderDiff(
            self.path, *(bounded(getattr(self, name) + getattr(other, name)) for name in COUNTS)
        )


def folder_rows(batch: pa.RecordBatch) -> Iterator[FolderDiff]:
    """Decode a batch of FOLDER_SCHEMA."""
    for row in batch.to_pylist():
        yield FolderDiff(**row)
