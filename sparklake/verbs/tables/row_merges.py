"""Merges of a table's rows: a job over the files that changed since base."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from sparklake.engine.spark import kept_rows
from sparklake.errors import InvalidInputError
from sparklake.frames.tables.spark_sources import missing_files
from sparklake.session import job_description
from sparklake.strategies.row_strategy import Rows
from sparklake.verbs.base.context import Context

if TYPE_CHECKING:
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

    def __str__(self) -> str:
        return f"{self.added:,} added, {self.changed:,} changed, {self.removed:,} removed"


class ChangedRows(Protocol):
    """The changed files of a table in a merge, for one table format."""

    @property
    def context(self) -> Context: ...

    @property
    def folder(self) -> str:
        """The table's folder, with a slash."""

    @property
    def files(self) -> int: ...

    @property
    def bytes(self) -> int: ...

    @property
    def key(self) -> Sequence[str]:
        """The table's own key, possibly empty."""

    def sides(self) -> tuple[RowSides, StructType]:
        """Return the rows of the changed files, and the merged columns."""


@dataclass(frozen=True, slots=True)
class MergedRows:
    """Merged rows, persisted. `sample` has the first keys in conflict, as JSON."""

    merge: RowMerge
    key: Sequence[str]
    counts: RowMergeCounts
    sample: Sequence[str]


def open_row_merge(table: ChangedRows, rows: Rows) -> tuple[RowMerge, Sequence[str]]:
    """Return the merge of a table's rows, computed on demand, and its key."""
    # Lazy import: it loads Spark.
    from sparklake.frames.tables import row_merge

    key = rows.key or tuple(table.key)
    sides, schema = table.sides()
    return row_merge.row_merge(sides, rows, schema, key), key


@contextmanager
def merged_rows(table: ChangedRows, rows: Rows) -> Iterator[MergedRows]:
    """Merge a table's rows. Raises InvalidInputError for null or repeated keys."""
    from sparklake.frames.tables.row_merge import CONFLICT, DELETE, INSERT, UPDATE

    merge, key = open_row_merge(table, rows)
    name = table.folder.rstrip("/")
    title = table.context.title("merge", f"rows of {name}")
    with (
        job_description(table.context.runners.session(), title),
        missing_files(),
        kept_rows(merge.rows) as persisted,
    ):
        merge = merge.over(persisted)
        numbers = {each["outcome"]: each["count"] for each in merge.counts().collect()}
        invalid = sorted(numbers.keys() - {INSERT, UPDATE, DELETE, CONFLICT})
        if invalid:
            raise InvalidInputError(
                f"the rows of {name!r} cannot be merged by {', '.join(key)}: "
                f"{'; '.join(_invalid(merge, each, numbers[each]) for each in invalid)}. Choose "
                "key columns that identify each row, or repair the rows of that side"
            )
        conflicts = numbers.get(CONFLICT, 0)
        counts = RowMergeCounts(
            added=numbers.get(INSERT, 0),
            changed=numbers.get(UPDATE, 0),
            removed=numbers.get(DELETE, 0),
            conflicts=conflicts,
            files=table.files,
            bytes=table.bytes,
        )
        yield MergedRows(merge, key, counts, _keys(merge, CONFLICT) if conflicts else ())


def _invalid(merge: RowMerge, problem: str, count: int) -> str:
    noun = "key" if count == 1 else "keys"
    return f"{count:,} {noun} with {problem!r}, such as {', '.join(_keys(merge, problem))}"


def _keys(merge: RowMerge, outcome: str) -> list[str]:
    return sorted(each["key"] for each in merge.keys(outcome).take(_SHOWN))
