"""Row merges in Parquet folders."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from sparklake.errors import ExpiredError
from sparklake.graveler.keys import key_folders
from sparklake.rows.merges import AddedFiles
from sparklake.strategies.resolution import Resolution
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.merge_bases import ThreeWayTrees
from sparklake.verbs.merges.replaced_folders import (
    ReplacedFolder,
    mixed_layouts,
    replaced_folders,
    settled_folder,
)
from sparklake.verbs.merges.table_schemas import added_pairs, schema_conflicts
from sparklake.verbs.tables.parquet_rows import ParquetRows, find_parquet_rows
from sparklake.verbs.tables.unions import Pending, TableUnion, United


def plain_tables(
    context: Context,
    sides: ThreeWayTrees,
    resolution: Resolution,
    tables: Collection[bytes],
    added: AddedFiles,
) -> list[TableUnion]:
    """Return the tables without a log that both sides changed, as the merge's tasks observed."""
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
    apart = [*(each.example for each in replaced), *(each.conflicts[0].key for each in typed)]
    pending = [
        replace(table, has_union=not any(is_below(key, [folder]) for key in apart))
        if table.has_union
        else table
        for table, folder in zip(pending, by_rows, strict=True)
    ]
    replaced = [each for each in replaced if not is_below(each.example, by_rows)]
    settled = (settled_folder(context, sides, resolution, each) for each in replaced)
    # The files of one side fit each other.
    whole = {each.folder for each in replaced}
    pairs = [
        each for each in pairs if each.table not in whole and not is_below(each.source, by_rows)
    ]
    return [
        *(each for each in settled if each is not None),
        *schema_conflicts(context, sides, pairs),
        *(Pending(union=United(table=each.table), rows=each) for each in pending),
    ]


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


def is_below(key: bytes, folders: Collection[bytes]) -> bool:
    return any(each in folders for each in key_folders(key))
