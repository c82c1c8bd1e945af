"""Merges of the rows of Parquet folders."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sparklake.errors import ExpiredError, InvalidInputError
from sparklake.graveler.algebra.changes import Conflict
from sparklake.graveler.records import Record
from sparklake.strategies.resolution import Resolution
from sparklake.strategies.row_strategy import Rows
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.merge_bases import ThreeWayTrees
from sparklake.verbs.tables.parquet_rows import ParquetRows, find_parquet_rows
from sparklake.verbs.tables.row_merges import RowMergeCounts, merged_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class PendingFolder:
    """A Parquet folder whose rows a merge must merge."""

    table: ParquetRows
    rows: Rows

    @property
    def folder(self) -> bytes:
        return self.table.folder.encode()

    @property
    def identity(self) -> tuple[object, ...]:
        """The value that determines the result."""
        return self.folder, *self.table.trees


@dataclass(frozen=True, slots=True)
class MergedFolder:
    """The merged rows of a Parquet folder, as records of its files, or the conflict."""

    name: str
    folder: bytes
    counts: RowMergeCounts | None = None
    records: Sequence[Record] = ()
    conflict: tuple[Conflict, str] | None = None
    conflicting_rows: DataFrame | None = None


def pending_folders(
    context: Context, sides: ThreeWayTrees, resolution: Resolution
) -> list[PendingFolder]:
    """Return the folders with files changed by both sides and a strategy for rows.

    Only rules without wildcards are considered.
    """
    folders = [(each.decode(), resolution.rows(each)) for each in resolution.row_tables]
    pending = []
    for folder, rows in folders:
        table = find_parquet_rows(context, sides, folder)
        if table is not None and rows is not None:
            if resolution.expired_base is not None:
                raise ExpiredError(
                    f"the merge base {resolution.expired_base[:12]} has expired, so the rows of "
                    f"{folder!r} cannot be merged: merge without the rule for this folder",
                    resolution.expired_base,
                )
            pending.append(PendingFolder(table, rows))
    return pending


def merge_folder(pending: PendingFolder, *, write: bool = True) -> MergedFolder:
    """Merge the rows of a folder. Without `write`, only count the changes."""
    table = pending.table
    name = table.folder.rstrip("/")
    try:
        with merged_rows(table, pending.rows) as merged:
            result = MergedFolder(name, pending.folder, merged.counts)
            if merged.counts.conflicts:
                reason = (
                    f"both sides changed {merged.counts.conflicts:,} rows of {name!r} differently, "
                    f"such as {', '.join(merged.sample)}. Change one side, or resolve rows with "
                    "`then` in the rule"
                )
                return MergedFolder(
                    name,
                    pending.folder,
                    merged.counts,
                    conflict=(table.conflict(), reason),
                    conflicting_rows=merged.merge.conflicts(),
                )
            if not write:
                return result
            records = table.write(merged.merge, merged.key)
    except InvalidInputError as error:
        reason = f"the rows of {name!r} cannot be merged: {error}"
        return MergedFolder(name, pending.folder, conflict=(table.conflict(), reason))
    return MergedFolder(name, pending.folder, merged.counts, records)


def folder_conflicts(folders: Iterable[MergedFolder]) -> list[tuple[Conflict, str]]:
    return [each.conflict for each in folders if each.conflict is not None]
