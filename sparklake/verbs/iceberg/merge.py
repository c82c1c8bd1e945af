"""Unions of Iceberg tables in merges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sparklake.graveler.algebra.classify import KeyOutcome, Strategy
from sparklake.graveler.keys import prefix_interval
from sparklake.metadata.iceberg.file_names import METADATA_FOLDER, metadata_folder
from sparklake.metadata.iceberg.union.dropped import describe_dropped, files_of_winner
from sparklake.metadata.iceberg.union.rows import RowTables, is_merged_by_files
from sparklake.metadata.iceberg.union.snapshots import IcebergApart, commits_apart
from sparklake.metadata.iceberg.union.unite import united
from sparklake.metadata.union.conflicts import UnmergeableTableError, refusing
from sparklake.namespace.addresses import new_data_key
from sparklake.strategies.resolution import Resolution
from sparklake.strategies.row_strategy import Rows
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.merge_bases import BASE, DEST, ThreeWayTrees
from sparklake.verbs.iceberg.rows import IcebergRows
from sparklake.verbs.iceberg.side_tables import SideTable, side_tables, union_signature, unmergeable
from sparklake.verbs.tables.metadata_folders import (
    MetadataFolder,
    disputed_bases,
    have_log,
    read_records,
)
from sparklake.verbs.tables.unions import TableUnion, changed_values


def iceberg_union(
    context: Context, sides: ThreeWayTrees, folder: bytes, resolution: Resolution
) -> TableUnion | None:
    """Return the union of a table, or None if a merge by keys is correct."""
    folders = _folders(context, sides, folder)
    base, source, dest = (each.ids for each in folders)
    if source == dest:
        return None
    union = TableUnion(folder, changed_values(folders), kind="Iceberg")
    if have_log(context, sides, [union.table]):
        return _by_keys(union, resolution)
    if base != source and not sides.path_filter.holds(prefix_interval(union.table)):
        return replace(
            union, refusal="the selected paths include only a part of the table. Select its folder"
        )
    if base in (source, dest):
        return None
    return _united(context, sides, union, folders, resolution)


def _by_keys(union: TableUnion, resolution: Resolution) -> TableUnion | None:
    """Return the conflict in a Delta table's metadata for Iceberg, if any."""
    if all(each.outcome is not KeyOutcome.CONFLICT for each in union.log.values()):
        return None
    winner = resolution.side(union.folder)
    why = "both sides changed the Iceberg metadata of a Delta table"
    return replace(union, refusal=why if winner is None else None, taken=winner, may_be_taken=True)


def _united(
    context: Context,
    sides: ThreeWayTrees,
    union: TableUnion,
    folders: Sequence[MetadataFolder],
    resolution: Resolution,
) -> TableUnion:
    try:
        over = _over_bases(context, sides, folders)
    except UnmergeableTableError as error:
        return replace(union, refusal=str(error))
    (tables, apart), *others = over
    target, every = tables[DEST], _all_tables(over)
    place = new_data_key()
    try:
        with unmergeable():
            if not resolution.unite_tables:
                raise UnmergeableTableError("table unions are turned off (--no-table-unions)")
            signature = union_signature(target, place)
            merged, *unlike = (
                united(base.table, source.table, dest.table, commits, signature)
                for (base, source, dest), commits in over
            )
            if any(each.steps != merged.steps for each in unlike):
                raise UnmergeableTableError("the merge bases disagree on the table and its merge")
            needed = [target.key(each) for each in merged.needed]
        if any(each.startswith(union.folder) for each in needed):
            raise UnmergeableTableError("it has data files in the folder of its metadata")
    except UnmergeableTableError as error:
        refused = replace(
            union,
            refusal=str(error),
            may_be_taken=True,
            may_merge_rows=_may_merge_rows(every),
            overlaps={
                target.key(path).removeprefix(union.table).decode(): positions
                for path, positions in error.rows.items()
            },
            drops={
                Strategy.SOURCE_WINS: describe_dropped(
                    "dest", apart.dest, apart.source, apart.base
                ),
                Strategy.DEST_WINS: describe_dropped(
                    "source", apart.source, apart.dest, apart.base
                ),
            },
        )
        winner, rule = resolution.side(union.folder), resolution.rows(union.table)
        if winner is not None:
            return _taken(refused, tables, apart, winner)
        if rule is None:
            return refused
        return replace(refused, pending=IcebergRows(context, sides, rule, every))
    union = replace(union, files=merged.files, place=place, needed=dict.fromkeys(needed))
    rule = resolution.rows(union.table)
    if rule is None or not merged.files:
        return union
    has_union = not others and is_merged_by_files(apart)
    return replace(union, pending=IcebergRows(context, sides, rule, every, has_union=has_union))


def _over_bases(
    context: Context, sides: ThreeWayTrees, folders: Sequence[MetadataFolder]
) -> list[tuple[Sequence[SideTable], IcebergApart]]:
    """Return the tables of base, source and dest, over each merge base if they disagree."""
    over = [
        (replace(sides, base=tree), each)
        for tree, each in disputed_bases(context, sides, folders[BASE])
    ]
    if not over:
        return [_apart(context, sides, folders)]
    return [_apart(context, each, [base, *folders[1:]]) for each, base in over]


def _all_tables(over: Sequence[tuple[Sequence[SideTable], IcebergApart]]) -> list[SideTable]:
    """Return the tables of all merge bases, source and dest."""
    (_, source, dest), _ = over[0]
    return [*(tables[BASE] for tables, _ in over), source, dest]


def _may_merge_rows(tables: Sequence[SideTable]) -> bool:
    try:
        with unmergeable():
            RowTables.of([each.table for each in tables])
    except UnmergeableTableError:
        return False
    return True


def _apart(
    context: Context, sides: ThreeWayTrees, folders: Sequence[MetadataFolder]
) -> tuple[Sequence[SideTable], IcebergApart]:
    with unmergeable():
        tables = side_tables(context, sides, folders)
        return tables, commits_apart(*(each.table for each in tables))


def find_iceberg_rows(
    context: Context, sides: ThreeWayTrees, folder: str, rows: Rows
) -> IcebergRows | None:
    """Return the changed rows of a table, or None if a side has no Iceberg table there.

    Raises:
        InvalidInputError: The metadata cannot be compared.
    """
    metadata = folder.encode() + METADATA_FOLDER.encode()
    folders = _folders(context, sides, metadata)
    if not all(any(map(metadata_folder, each.records)) for each in folders[1:]):
        return None
    with refusing():
        over = _over_bases(context, sides, folders)
        return IcebergRows(context, sides, rows, _all_tables(over))


def _folders(context: Context, sides: ThreeWayTrees, folder: bytes) -> list[MetadataFolder]:
    namespace = context.info.storage_namespace
    return [
        MetadataFolder(folder, read_records(context, each, folder), namespace)
        for each in sides.trees
    ]


def _taken(
    refused: TableUnion, tables: Sequence[SideTable], apart: IcebergApart, winner: Strategy
) -> TableUnion:
    """Return the union that selects the winner's side of the whole table, if possible."""
    _, source, dest = tables
    table, own, other = dest, apart.dest, apart.source
    if winner is Strategy.SOURCE_WINS:
        table, own, other = source, apart.source, apart.dest
    try:
        with unmergeable():
            keys = [table.key(each) for each in files_of_winner(own, other)]
    except UnmergeableTableError as error:
        return replace(refused, refusal=str(error))
    union = replace(refused, taken=winner, refusal=None)
    return union.keeping(table.context, table.tree, keys)
