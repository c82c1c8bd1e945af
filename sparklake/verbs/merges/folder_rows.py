"""Row merges in Parquet folders."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from sparklake.errors import ExpiredError
from sparklake.graveler.algebra.changes import Conflict
from sparklake.graveler.keys import key_folders
from sparklake.graveler.records import Record
from sparklake.rows.merges import AddedFiles
from sparklake.strategies.resolution import Resolution
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.merge_bases import ThreeWayTrees
from sparklake.verbs.merges.replaced_folders import (
    ReplacedFolder,
    SettledFolders,
    mixed_layouts,
    replaced_folders,
    settled_folders,
)
from sparklake.verbs.merges.table_schemas import added_pairs, schema_conflicts
from sparklake.verbs.tables.parquet_rows import ParquetRows, find_parquet_rows
from sparklake.verbs.tables.row_merges import RowMergeCounts, RowsResult


class MergedFolder(NamedTuple):
    """A Parquet folder with merged rows, as records of its files, or a conflict."""

    table: ParquetRows
    result: RowsResult[Sequence[Record]]

    @property
    def name(self) -> str:
        return self.table.folder.rstrip("/")


class PlainTables(NamedTuple):
    """Tables without a log: those with rows to merge, and the folders that both sides replaced."""

    pending: list[ParquetRows]
    settled: SettledFolders


def plain_tables(
    context: Context,
    sides: ThreeWayTrees,
    resolution: Resolution,
    tables: Collection[bytes],
    added: AddedFiles,
) -> PlainTables:
    """Compare the sides' changes to tables without a log, from what the merge's tasks observed."""
    pairs = added_pairs(context, sides, resolution, added)
    replaced = replaced_folders(context, sides, tables)
    reported = {each.table for each in replaced}
    replaced += [each for each in mixed_layouts(pairs) if each.table not in reported]
    pending = pending_folders(context, sides, resolution, replaced)
    by_rows = [each.folder.encode() for each in pending]
    typed = schema_conflicts(
        context, sides, [each for each in pairs if is_below(each.source, by_rows)]
    )
    # Replaced folders, and files of different types, are not united.
    apart = [*(each.example for each in replaced), *(conflict.key for conflict, _ in typed)]
    pending = [
        replace(table, has_union=not any(is_below(key, [folder]) for key in apart))
        if table.has_union
        else table
        for table, folder in zip(pending, by_rows, strict=True)
    ]
    replaced = [each for each in replaced if not is_below(each.example, by_rows)]
    settled = settled_folders(context, sides, resolution, replaced)
    # The files of one side fit each other.
    whole = {each.folder for each in replaced}
    pairs = [
        each for each in pairs if each.table not in whole and not is_below(each.source, by_rows)
    ]
    settled.conflicts.extend(schema_conflicts(context, sides, pairs))
    return PlainTables(pending, settled)


def pending_folders(
    context: Context,
    sides: ThreeWayTrees,
    resolution: Resolution,
    replaced: Iterable[ReplacedFolder],
) -> list[ParquetRows]:
    """Return the folders that both sides changed, with a strategy for rows.

    Rules with wildcards apply to tables with replaced folders only.
    """
    tables = dict.fromkeys([*resolution.row_tables, *(each.table for each in replaced)])
    folders = [(each.decode(), resolution.rows(each)) for each in tables]
    pending = []
    for folder, rows in folders:
        table = None if rows is None else find_parquet_rows(context, sides, folder, rows)
        if table is not None:
            if resolution.expired_base is not None:
                raise ExpiredError(
                    f"the merge base {resolution.expired_base[:12]} has expired, so the rows of "
                    f"{folder!r} cannot be merged: merge without the rule for this folder",
                    resolution.expired_base,
                )
            pending.append(table)
    return pending


def folder_conflicts(folders: Iterable[MergedFolder]) -> Iterator[tuple[Conflict, str]]:
    for each in folders:
        if each.result.refusal is not None:
            reason = f"the rows of {each.name!r} cannot be merged: {each.result.refusal}"
            yield each.table.conflict(), reason


def row_counts(folders: Iterable[MergedFolder]) -> dict[str, RowMergeCounts]:
    return {each.name: each.result.counts for each in folders if each.result.counts is not None}


def is_below(key: bytes, folders: Collection[bytes]) -> bool:
    return any(each in folders for each in key_folders(key))
