"""Task body and rows of a three-way diff: changes and conflicts, with the sides of each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from sparklake.graveler.algebra import BlockChanges, ChangeType, Conflict, three_way_diff
from sparklake.graveler.commits import Commit
from sparklake.graveler.entries import record_entry
from sparklake.graveler.keys import key_path
from sparklake.graveler.times import MICROSECOND, SECOND, shown_nanoseconds, text_of_second
from sparklake.rows.objects import unix_microseconds
from sparklake.strategies.content_types import without_same_content
from sparklake.udfs.diffs.two_way import (
    CHANGE_DDL,
    CHANGE_FIELDS,
    DiffSide,
    Encode,
    change_columns,
)
from sparklake.udfs.streams import open_tasks
from sparklake.udfs.workspace import Workspace
from sparklake.visible import CHECKSUM_DIGITS, COMMIT_DIGITS

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

_SIDE_DDL = "struct<size: bigint, checksum: string, mtime: timestamp>"
THREE_WAY_DDL = ", ".join([CHANGE_DDL, *(f"{side} {_SIDE_DDL}" for side in _SIDES)])


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
        """Return size, time and the first digits of the checksum."""
        time = text_of_second(self.mtime // SECOND)
        return f"{self.size:,} bytes, {time}, {self.checksum[:CHECKSUM_DIGITS]}"


@dataclass(frozen=True, slots=True)
class ThreeWayRow:
    """A change that a merge makes in dest, or a conflict. A side without the object is None.

    `base` is None unless the row is a conflict. `source_commit` and `dest_commit` are the commits
    that gave the sides of a conflict their state. They are known for the first conflicts that stop
    a verb or that a preview shows, else None. `reason` explains a special conflict.
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
        """The size in bytes of source's object, or else of dest's."""
        shown = self.source or self.dest
        return shown.size if shown else 0

    def commits_document(self) -> Mapping[str, Any]:
        """Return the commits of source and dest for JSON. None is an unknown commit."""
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
        """The object of source, or its removal, and the commit that made it, as a text."""
        return _side_text(self.source, self.source_commit)

    @property
    def dest_text(self) -> str:
        """The object of dest, or its removal, and the commit that made it, as a text."""
        return _side_text(self.dest, self.dest_commit)


def three_way_diff_body(
    workspace: Workspace, batches: Iterable[pa.RecordBatch], encode: Encode | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield THREE_WAY_SCHEMA, or the batches of `encode`. The sides are base, source, dest."""
    for base, source, dest in open_tasks(workspace, batches):
        changes = map(without_same_content, three_way_diff(base, source, dest))
        yield from map(encode or three_way_batch, filter(len, changes))


def three_way_batch(changes: BlockChanges) -> pa.RecordBatch:
    """Return the changes and conflicts of a merge as one batch of THREE_WAY_SCHEMA."""
    rows = (changes.base, changes.right, changes.left)
    base, source, dest = map(DiffSide.of, rows)
    columns = change_columns(changes, dest, source)
    columns += map(_side_column, (base, source, dest))
    return pa.record_batch(columns, schema=THREE_WAY_SCHEMA)


def _side_column(side: DiffSide) -> pa.StructArray:
    columns = [side.size, side.checksum, side.mtime]
    return pa.StructArray.from_arrays(columns, fields=list(SIDE_TYPE), mask=side.absent)


def three_way_rows(batch: pa.RecordBatch) -> Iterator[ThreeWayRow]:
    """Yield the rows in a batch of THREE_WAY_SCHEMA."""
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
    """Return the row of a conflict."""
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


def _side_text(side: SideObject | None, commit: Commit | None) -> str:
    shown = "removed" if side is None else str(side)
    if commit is None:
        return shown
    return f"{shown}, by {commit.committer} in {commit.id[:COMMIT_DIGITS]}"
