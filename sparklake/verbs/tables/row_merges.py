"""Merges of a table's rows: a job over the files that changed since base."""

from __future__ import annotations

import uuid
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from sparklake.engine.spark import kept_rows
from sparklake.errors import InvalidInputError
from sparklake.frames.tables.spark_sources import missing_files
from sparklake.graveler.algebra.classify import Strategy
from sparklake.session import job_description, quoted
from sparklake.strategies.row_strategy import Rows
from sparklake.verbs.base.context import Context
from sparklake.visible import count_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from sparklake.frames.tables.row_merge import RowMerge, RowSides

_SHOWN = 3


@dataclass(frozen=True, slots=True)
class RowMergeCounts:
    """The rows of a table that a merge adds, changes and removes, or leaves in conflict.

    `files` and `bytes` are what the merge reads.
    """

    added: int = 0
    changed: int = 0
    removed: int = 0
    conflicts: int = 0
    files: int = 0
    bytes: int = 0

    @property
    def changes(self) -> int:
        return self.added + self.changed + self.removed

    def check(self, before: int, after: int) -> None:
        """Reject a merge that results in another number of rows."""
        expected = before + self.added - self.removed
        if after != expected:
            raise InvalidInputError(
                f"{after:,} rows would be written instead of {expected:,}: several rows of the "
                "files that changed may have one key"
            )

    def __str__(self) -> str:
        return f"{self.added:,} added, {self.changed:,} changed, {self.removed:,} removed"


Written = TypeVar("Written")
Written_co = TypeVar("Written_co", covariant=True)


class ChangedRows(Protocol[Written_co]):
    """A table's changed files in a row merge, for one table format.

    Methods raise InvalidInputError if the rows cannot be merged.
    """

    @property
    def context(self) -> Context: ...

    @property
    def folder(self) -> str:
        """The table's folder, with a slash."""

    @property
    def rows(self) -> Rows: ...

    @property
    def identity(self) -> Hashable:
        """The value that determines the merged rows."""

    @property
    def files(self) -> int: ...

    @property
    def bytes(self) -> int: ...

    @property
    def key(self) -> Sequence[str]:
        """The table's own key, possibly empty."""

    @property
    def has_union(self) -> bool:
        """Whether the files can be united. The union holds if no key is in both sides' rows."""

    def sides(self) -> tuple[RowSides, StructType]:
        """Return the rows of the changed files, and the merged columns."""

    def dest_rows(self) -> DataFrame:
        """Return all rows of dest, of which Spark reads the files that may have given keys."""

    def write(self, merged: MergedRows) -> Written_co:
        """Write the merged rows to new files, and verify their number."""


@dataclass(frozen=True, slots=True)
class MergedRows:
    """Merged rows without conflicts, persisted."""

    merge: RowMerge
    counts: RowMergeCounts


@dataclass(frozen=True, slots=True)
class RowsResult(Generic[Written]):
    """The result of a row merge: what was written, or the reason of a `refusal`.

    `keeps_union` reports that the union of files has the merged rows. `conflicting_rows` are the
    conflicts, computed on demand.
    """

    counts: RowMergeCounts | None = None
    written: Written | None = None
    refusal: str | None = None
    conflicting_rows: DataFrame | None = None
    keeps_union: bool = False


def open_row_merge(table: ChangedRows[object]) -> RowMerge:
    """Return the merge of a table's rows, computed on demand."""
    # Lazy import: it loads Spark.
    from sparklake.frames.tables import row_merge

    sides, schema = table.sides()
    return row_merge.row_merge(sides, table.rows, schema, table.rows.key or tuple(table.key))


def merge_rows(table: ChangedRows[Written], *, write: bool = True) -> RowsResult[Written]:
    """Merge a table's rows. Without `write`, only count the changes."""
    try:
        return _merge_rows(table, write=write)
    except InvalidInputError as error:
        return RowsResult(refusal=str(error))


@contextmanager
def _with_unread(table: ChangedRows[Written], merge: RowMerge) -> Iterator[RowMerge]:
    """Yield the merge with the added keys that unchanged files have, too."""
    from sparklake.frames.tables.row_merge import added_keys, key_ranges, with_repeated

    with kept_rows(added_keys(merge)) as added:
        ranges = [each.asDict() for each in key_ranges(merge, added).collect()]
        yield with_repeated(merge, added, ranges, table.dest_rows()) if ranges else merge


def _merge_rows(table: ChangedRows[Written], *, write: bool) -> RowsResult[Written]:
    from sparklake.frames.tables.row_merge import BOTH, CONFLICT, DELETE, INSERT, OUTCOME, UPDATE

    merge = open_row_merge(table)
    title = table.context.title("merge", f"rows of {table.folder.rstrip('/')}")
    with (
        job_description(table.context.runners.session(), title),
        missing_files(),
        _with_unread(table, merge) as merge,
        kept_rows(merge.rows) as persisted,
    ):
        merge = replace(merge, rows=persisted)
        counted_rows = merge.counts().collect()
        numbers = {each[OUTCOME]: each["count"] for each in counted_rows if each[OUTCOME]}
        invalid = sorted(numbers.keys() - {INSERT, UPDATE, DELETE, CONFLICT})
        if invalid:
            return RowsResult(
                RowMergeCounts(files=table.files, bytes=table.bytes),
                refusal=f"{', '.join(merge.key)} is no key of the rows: "
                f"{'; '.join(_invalid(merge, each, numbers[each]) for each in invalid)}. Choose "
                "key columns that identify each row, or repair the rows of that side",
            )
        if table.has_union and not any(each[BOTH] for each in counted_rows):
            return RowsResult(keeps_union=True)
        counts = RowMergeCounts(
            added=numbers.get(INSERT, 0),
            changed=numbers.get(UPDATE, 0),
            removed=numbers.get(DELETE, 0),
            conflicts=numbers.get(CONFLICT, 0),
            files=table.files,
            bytes=table.bytes,
        )
        if not counts.conflicts:
            return RowsResult(counts, table.write(MergedRows(merge, counts)) if write else None)
        resolving = replace(table.rows, key=tuple(merge.key), then=Strategy.SOURCE_WINS)
        return RowsResult(
            counts,
            refusal=f"both sides changed {count_of(counts.conflicts, 'row')} differently, such as "
            f"{', '.join(_keys(merge, CONFLICT))}. Change one side, or resolve rows with `then` in "
            f"the rule, such as {resolving.name}; `--conflict-rows FILE`, in Python "
            "`conflict_rows` of the error, has all of them",
            conflicting_rows=merge.conflicts(),
        )


def _invalid(merge: RowMerge, problem: str, count: int) -> str:
    keys = ", ".join(_keys(merge, problem))
    return f"{count_of(count, 'key')} with {problem!r}, such as {keys}"


def _keys(merge: RowMerge, outcome: str) -> list[str]:
    return sorted(each["key"] for each in merge.keys(outcome).take(_SHOWN))


def merge_into(table: str, changes: DataFrame, key: Sequence[str]) -> None:
    """Run the engine's MERGE of a merge's changes into a table."""
    from sparklake.frames.tables.row_merge import DELETE, INSERT, OP, ROW, UPDATE

    spark, view = changes.sparkSession, f"sparklake_rows_{uuid.uuid4().hex}"
    row_type: Any = changes.schema[ROW].dataType
    names = list(map(quoted, row_type.names))
    on = " AND ".join(f"t.{each} <=> c.`{ROW}`.{each}" for each in map(quoted, key))
    sets = ", ".join(f"t.{each} = c.`{ROW}`.{each}" for each in names)
    values = ", ".join(f"c.`{ROW}`.{each}" for each in names)
    # Names are quoted, and the other parts are our own.
    statement = (
        f"MERGE INTO {table} t USING {view} c ON {on} "  # noqa: S608
        f"WHEN MATCHED AND c.`{OP}` = '{DELETE}' THEN DELETE "
        f"WHEN MATCHED AND c.`{OP}` = '{UPDATE}' THEN UPDATE SET {sets} "
        f"WHEN NOT MATCHED AND c.`{OP}` = '{INSERT}' THEN "
        f"INSERT ({', '.join(names)}) VALUES ({values})"
    )
    changes.createOrReplaceTempView(view)
    try:
        with missing_files():
            spark.sql(statement).collect()
    finally:
        spark.catalog.dropTempView(view)
