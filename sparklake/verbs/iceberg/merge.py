"""Unions of Iceberg tables in merges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sparklake.graveler.algebra.classify import KeyOutcome, Strategy
from sparklake.graveler.keys import prefix_interval
from sparklake.metadata.formats import table_of
from sparklake.metadata.iceberg.file_names import ICEBERG, METADATA_FOLDER
from sparklake.metadata.iceberg.union.dropped import describe_dropped, files_of_winner
from sparklake.metadata.iceberg.union.rows import RowTables, is_merged_by_files
from sparklake.metadata.iceberg.union.snapshots import IcebergApart, commits_apart
from sparklake.metadata.iceberg.union.unite import united
from sparklake.metadata.union.conflicts import UnmergeableTableError, refusing
from sparklake.metadata.union.dropped import DroppedCommits
from sparklake.namespace.addresses import new_data_key
from sparklake.strategies.resolution import Resolution
from sparklake.strategies.row_strategy import Rows
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.merge_bases import BASE, DEST, ThreeWayTrees
from sparklake.verbs.iceberg.rows import IcebergRows
from sparklake.verbs.iceberg.side_tables import SideTable, side_tables, union_signature, unmergeable
from sparklake.verbs.objects.owners import find_owner
from sparklake.verbs.tables.format import Meets
from sparklake.verbs.tables.metadata_folders import MetadataFolder, disputed_bases, read_metadata
from sparklake.verbs.tables.unions import (
    ChangedTable,
    Pending,
    Refused,
    TableUnion,
    Taken,
    changed_values,
)


def iceberg_union(
    context: Context, sides: ThreeWayTrees, folder: bytes, resolution: Resolution, _meets: Meets
) -> TableUnion | None:
    """Return the union of a table, or None if a merge by keys is correct."""
    folders = [read_metadata(context, each, folder) for each in sides.trees]
    base, source, dest = (each.ids for each in folders)
    if source == dest:
        return None
    table = ChangedTable(table_of(folder), changed_values(folders), "Iceberg")
    if _belongs_to_another(context, sides, table):
        return _by_keys(table, resolution.side(folder))
    if base != source and not sides.path_filter.holds(prefix_interval(table.folder)):
        return table.refused(
            "the selected paths include only a part of the table. Select its folder"
        )
    if base in (source, dest):
        return None
    return _united(context, sides, table, folders, resolution)


def _belongs_to_another(context: Context, sides: ThreeWayTrees, table: ChangedTable) -> bool:
    """Return whether source or dest has a table of another format in the folder."""
    name = table.folder.decode(errors="replace")
    trees = (context.trees.get(each).ranges for each in (sides.source, sides.dest))
    owners = (find_owner(context, each, (), name) for each in trees)
    return any(each and each.folder == name and each.kind is not ICEBERG for each in owners)


def _by_keys(table: ChangedTable, winner: Strategy | None) -> TableUnion | None:
    """Return the conflict in a Delta table's metadata for Iceberg, if any."""
    if all(each.outcome is not KeyOutcome.CONFLICT for each in table.log.values()):
        return None
    if winner is not None:
        return table.taken(winner)
    refused = table.refused("both sides changed the Iceberg metadata of a Delta table")
    return replace(refused, may_be_taken=True)


def _united(
    context: Context,
    sides: ThreeWayTrees,
    table: ChangedTable,
    folders: Sequence[MetadataFolder],
    resolution: Resolution,
) -> TableUnion:
    try:
        over = _over_bases(context, sides, folders)
    except UnmergeableTableError as error:
        return table.refused(error)
    (tables, apart), *others = over
    target, every = tables[DEST], _all_tables(over)
    folder, place, rule = folders[DEST].folder, new_data_key(), resolution.rows(table.folder)
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
        if any(each.startswith(folder) for each in needed):
            raise UnmergeableTableError("it has data files in the folder of its metadata")
    except UnmergeableTableError as error:
        winner = resolution.side(folder)
        if winner is not None:
            return _taken(table, tables, apart, winner)
        refused = _refused(table, target, apart, error)
        if rule is None:
            return replace(refused, may_merge_rows=_may_merge_rows(every))
        return Pending(union=refused, rows=IcebergRows(context, sides, rule, every))
    union = replace(table.united(merged.files, place), needed=dict.fromkeys(needed))
    if rule is None or not merged.files:
        return union
    has_union = not others and is_merged_by_files(apart)
    rows = IcebergRows(context, sides, rule, every, has_union=has_union)
    return Pending(union=union, rows=rows)


def _refused(
    table: ChangedTable, target: SideTable, apart: IcebergApart, error: UnmergeableTableError
) -> Refused:
    return replace(
        table.refused(error),
        may_be_taken=True,
        overlaps={
            target.key(path).removeprefix(table.folder).decode(): positions
            for path, positions in error.rows.items()
        },
        drops={each: _dropped(apart, each) for each in Strategy},
    )


def _dropped(apart: IcebergApart, winner: Strategy) -> DroppedCommits:
    if winner is Strategy.SOURCE_WINS:
        return describe_dropped("dest", apart.dest, apart.source, apart.base)
    return describe_dropped("source", apart.source, apart.dest, apart.base)


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
    folders = [read_metadata(context, each, metadata) for each in sides.trees]
    if not all(any(map(ICEBERG.find_folder, each.records)) for each in folders[1:]):
        return None
    with refusing():
        over = _over_bases(context, sides, folders)
        return IcebergRows(context, sides, rows, _all_tables(over))


def _taken(
    changed: ChangedTable, tables: Sequence[SideTable], apart: IcebergApart, winner: Strategy
) -> Taken | Refused:
    """Return the winner's side of the whole table, if possible."""
    _, source, dest = tables
    table, own, other = dest, apart.dest, apart.source
    if winner is Strategy.SOURCE_WINS:
        table, own, other = source, apart.source, apart.dest
    try:
        with unmergeable():
            keys = [table.key(each) for each in files_of_winner(own, other)]
    except UnmergeableTableError as error:
        return changed.refused(error)
    return changed.taken(winner, _dropped(apart, winner)).keeping(table.context, table.tree, keys)
