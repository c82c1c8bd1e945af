"""Unions of Iceberg tables in merges."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property

from sparklake.delta_log.file_names import LOG_FOLDER
from sparklake.errors import CorruptFileError, InvalidInputError
from sparklake.extras import missing_extras
from sparklake.graveler.algebra.classify import KeyOutcome, Strategy
from sparklake.graveler.graph.virtual_base import is_disagreement
from sparklake.graveler.ids import MetaRangeId
from sparklake.graveler.keys import Interval, prefix_interval
from sparklake.graveler.records import stored_record_id
from sparklake.iceberg_metadata.documents import decode_document
from sparklake.iceberg_metadata.file_names import Location, current_metadata
from sparklake.iceberg_metadata.metadata import MAX_METADATA_BYTES
from sparklake.iceberg_metadata.union.continuation import IcebergSignature
from sparklake.iceberg_metadata.union.dropped import describe_dropped, files_of_winner
from sparklake.iceberg_metadata.union.snapshots import Table
from sparklake.iceberg_metadata.union.unite import CommitsApart, united
from sparklake.namespace.layout import DATA_FOLDER
from sparklake.rows.objects import ObjectInfo, object_info
from sparklake.stores.objects.addresses import spark_uri
from sparklake.strategies.resolution import Resolution
from sparklake.unions.conflicts import OverlappingRowsError, UnmergeableTableError
from sparklake.verbs.base.content import read_body
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.merge_bases import ThreeWayTrees
from sparklake.verbs.iceberg.tree_table import file_name
from sparklake.verbs.tables.metadata_folders import MetadataFolder, read_records
from sparklake.verbs.tables.unions import StoredValues, TableUnion, record_ids, table_of

_BASE, _SOURCE, _DEST = 0, 1, 2


@dataclass(frozen=True)
class _TreeTable:
    """A table in a tree, by its current metadata."""

    context: Context
    tree: MetaRangeId
    metadata: MetadataFolder
    info: ObjectInfo
    table: Table

    @staticmethod
    def of(context: Context, tree: MetaRangeId, metadata: MetadataFolder) -> _TreeTable | None:
        start = len(metadata.folder)
        name = current_metadata(key[start:].decode(errors="replace") for key in metadata.records)
        if name is None:
            return None
        key = metadata.folder + name.encode()
        if is_disagreement(metadata.records[key]):
            raise UnmergeableTableError("the best common ancestors disagree on the table")
        document = decode_document(metadata.body(key))
        result = _TreeTable(
            context, tree, metadata, metadata.file(key), Table(document, lambda _: b"")
        )
        result.table.find = result.read
        return result

    @cached_property
    def _location(self) -> Location:
        return Location(self.table.document["location"])

    def key(self, path: str) -> bytes:
        """Return the key of a file by its path in the metadata."""
        return table_of(self.metadata.folder) + file_name(self._location, path).encode()

    def read(self, path: str) -> bytes:
        key = self.key(path)
        stored = self.metadata.records.get(key)
        if stored is None:
            stored = self.context.open_ranges.lookup(self.context.trees.get(self.tree).ranges, key)
        if stored is None:
            raise UnmergeableTableError("the table's metadata refers to a missing file", [path])
        info = object_info((key, stored), self.context.info.storage_namespace)
        if info.size > MAX_METADATA_BYTES:
            raise UnmergeableTableError(f"{path} has more than {MAX_METADATA_BYTES:,} bytes")
        return read_body(info, "the table's metadata")


@contextmanager
def _unmergeable() -> Iterator[None]:
    """Convert errors about unreadable metadata."""
    try:
        with missing_extras():
            yield
    except (CorruptFileError, InvalidInputError) as error:
        raise UnmergeableTableError(str(error)) from error


def iceberg_union(
    context: Context,
    sides: ThreeWayTrees,
    folder: bytes,
    resolution: Resolution,
    meets: Callable[[Interval], bool],
) -> TableUnion | None:
    """Return the union of a table, or None if a merge by keys is correct."""
    del meets
    folders = [
        MetadataFolder(folder, read_records(context, each, folder), context.info.storage_namespace)
        for each in sides.trees
    ]
    base, source, dest = (each.ids for each in folders)
    if source == dest:
        return None
    keys = sorted({*base, *source, *dest})
    stored = {key: StoredValues(*(each.records.get(key) for each in folders)) for key in keys}
    changed = {key: each for key, each in stored.items() if len({*map(stored_record_id, each)}) > 1}
    union = TableUnion(folder, changed, kind="Iceberg")
    if _has_log(context, sides, union.table):
        return _by_keys(union, resolution)
    if base != source and not sides.path_filter.holds(prefix_interval(union.table)):
        return replace(union, refusal="the selected paths include only a part of the table")
    if base in (source, dest):
        return None
    return _united(context, sides, union, folders, resolution)


def _has_log(context: Context, sides: ThreeWayTrees, table: bytes) -> bool:
    log = prefix_interval(table + LOG_FOLDER.encode())
    trees = (context.trees.get(each).ranges for each in (sides.source, sides.dest))
    return any(context.open_ranges.holding(each, [log]) for each in trees)


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
        with _unmergeable():
            tables = [
                _TreeTable.of(context, *each) for each in zip(sides.trees, folders, strict=True)
            ]
            base, source, dest = tables
            if source is None or dest is None:
                raise UnmergeableTableError(
                    "one side deleted the table's metadata, and the other changed it"
                )
            if base is None:
                raise UnmergeableTableError("both sides created the table")
            apart = CommitsApart.of(base.table, source.table, dest.table)
    except UnmergeableTableError as error:
        return replace(union, refusal=str(error))
    place = f"{DATA_FOLDER}{uuid.uuid4().hex}"
    signature = IcebergSignature(
        timestamp=time.time_ns() // 1_000_000,
        token=str(uuid.uuid4()),
        place=lambda name: spark_uri(f"{context.info.storage_namespace}/{place}/{name}"),
        metadata_path=spark_uri(dest.info.address),
        names=[key[len(union.folder) :].decode(errors="replace") for key in dest.metadata.records],
    )
    try:
        with _unmergeable():
            merged = united(base.table, source.table, dest.table, apart, signature)
            needed = [dest.key(each) for each in merged.needed]
        if any(each.startswith(union.folder) for each in needed):
            raise UnmergeableTableError("it has data files in the folder of its metadata")
    except UnmergeableTableError as error:
        refused = replace(
            union,
            refusal=str(error),
            may_be_taken=True,
            overlaps=_overlaps(error, dest, union),
            drops={
                Strategy.SOURCE_WINS: describe_dropped(
                    "dest", apart.dest, apart.source, apart.base
                ),
                Strategy.DEST_WINS: describe_dropped(
                    "source", apart.source, apart.dest, apart.base
                ),
            },
        )
        winner = resolution.side(union.folder)
        return refused if winner is None else _taken(refused, tables, apart, winner)
    return replace(union, files=merged.files, place=place, needed=dict.fromkeys(needed))


def _overlaps(
    error: UnmergeableTableError, dest: _TreeTable, union: TableUnion
) -> dict[str, Sequence[int]]:
    rows = error.rows if isinstance(error, OverlappingRowsError) else {}
    start = len(union.table)
    return {dest.key(path)[start:].decode(): some for path, some in rows.items()}


def _taken(
    refused: TableUnion, tables: Iterable[_TreeTable | None], apart: CommitsApart, winner: Strategy
) -> TableUnion:
    """Return the union that selects the winner's side of the whole table, if possible."""
    _, source, dest = tables
    table, own, other = dest, apart.dest, apart.source
    if winner is Strategy.SOURCE_WINS:
        table, own, other = source, apart.source, apart.dest
    assert table is not None
    try:
        with _unmergeable():
            keys = [table.key(each) for each in files_of_winner(own, other)]
    except UnmergeableTableError as error:
        return replace(refused, refusal=str(error))
    needed = record_ids(table.context, table.tree, keys)
    return replace(refused, needed=needed, taken=winner, refusal=None)
