"""The changed rows of a Parquet folder in a merge."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from sparklake.errors import InvalidInputError
from sparklake.frames.tables.partitions import PartitionColumns
from sparklake.frames.tables.table_sides import TableSide
from sparklake.graveler.graph.virtual_base import is_disagreement
from sparklake.graveler.ids import MetaRangeId
from sparklake.graveler.keys import prefix_interval
from sparklake.graveler.records import Record, identity_of, tombstone
from sparklake.metadata.delta.table_files import is_hidden
from sparklake.metadata.union.file_sets import DEST, Holders, file_sets, side_names
from sparklake.namespace.addresses import new_data_key
from sparklake.stores.objects.addresses import spark_uri
from sparklake.strategies.judging import new_record
from sparklake.strategies.object_access import NewObject
from sparklake.strategies.row_strategy import Rows
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.merge_bases import BASE, ThreeWayTrees
from sparklake.verbs.tables.diff_sides import FolderPair
from sparklake.verbs.tables.foreign import check_no_metadata
from sparklake.verbs.tables.metadata_folders import base_trees
from sparklake.verbs.tables.read import read_table
from sparklake.verbs.tables.registry import PARQUET, found_format
from sparklake.verbs.tables.row_merges import MergedRows
from sparklake.verbs.tables.spark_writer import save_rows
from sparklake.verbs.tables.unions import ChangedTable, StoredValues, United, stored_values
from sparklake.verbs.tables.version import tree_table
from sparklake.verbs.tables.write_request import WriteMode, WriteRequest
from sparklake.verbs.tables.written import file_entries, written_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from sparklake.frames.tables.column_names import NameRule
    from sparklake.frames.tables.row_merge import RowSides


_SOURCE, _DEST = -2, -1


def find_parquet_rows(
    context: Context, sides: ThreeWayTrees, folder: str, rows: Rows
) -> ParquetRows | None:
    """Return the changed rows of a folder that both sides changed.

    Its files are united if the sides have no changed file of base, and no added path, in common.

    Raises:
        InvalidInputError: The rows of the folder cannot be merged.
    """
    if not sides.path_filter.parts(prefix_interval(folder.encode())):
        return None
    versions = _pair(context, sides.trees, folder, (_SOURCE, _DEST)).tables()
    # Metadata decides which files are valid.
    if any(found_format(each) != PARQUET for each in versions):
        return None
    if not _changes(context, sides.trees, folder, (_SOURCE, _DEST)).every:
        return None
    trees: Sequence[MetaRangeId] = sides.trees
    source, dest = (_changes(context, trees, folder, (BASE, each)) for each in (_SOURCE, _DEST))
    if not (source.every and dest.every):
        return None
    keys = ((folder + each).encode() for each in source.old | dest.old)
    is_disputed = any(
        map(is_disagreement, filter(None, stored_values(context, sides.base, keys).values()))
    )
    if is_disputed:
        trees = (*base_trees(context, sides), *trees[_SOURCE:])
        bases = range(len(trees) - 2)
        source, dest = (
            _all_changes(_changes(context, trees, folder, (each, side)) for each in bases)
            for side in (_SOURCE, _DEST)
        )
    has_union = not (is_disputed or source.every & dest.every)
    table = ParquetRows(context, trees, folder, rows, source=source, dest=dest, has_union=has_union)
    for version in versions:
        check_no_metadata(version)
    if not sides.path_filter.holds(prefix_interval(folder.encode())):
        raise InvalidInputError(
            f"the selected paths include only a part of the table {folder!r}: select its folder, "
            "or merge without the rule for it"
        )
    others = [each for each in source.every | dest.every if not each.endswith(".parquet")]
    if others:
        raise InvalidInputError(
            f"rows are merged in Parquet, Delta and Iceberg tables only, but {folder!r} contains "
            f"{min(others)!r}: merge without the rule for this folder"
        )
    return table


@dataclass(frozen=True, slots=True)
class ChangedFiles:
    """The data files of base that a side changed or removed, and those that it has instead."""

    old: frozenset[str]
    new: frozenset[str]

    @property
    def every(self) -> frozenset[str]:
        return self.old | self.new


def _all_changes(changes: Iterable[ChangedFiles]) -> ChangedFiles:
    """Return the changes of a side since several merge bases."""
    every = [*changes]
    old, new = ([getattr(each, name) for each in every] for name in ("old", "new"))
    return ChangedFiles(frozenset().union(*old), frozenset().union(*new))


def _changes(
    context: Context, trees: Sequence[MetaRangeId], folder: str, places: tuple[int, int]
) -> ChangedFiles:
    names = _pair(context, trees, folder, places).changed_names()
    return ChangedFiles(*map(frozenset, names))


def _pair(
    context: Context, trees: Sequence[MetaRangeId], folder: str, places: tuple[int, int]
) -> FolderPair:
    one, other = places
    names = side_names(len(trees) - 2)
    both = context.trees.get(trees[one]), context.trees.get(trees[other])
    return FolderPair(context, folder, (names[one], names[other]), both)


@dataclass(frozen=True)
class ParquetRows:
    """The rows of the files of a Parquet folder that a side changed since base.

    `trees` are those of base, source and dest. Several bases are those of a criss-cross that
    disagree on a file.
    """

    context: Context
    trees: Sequence[MetaRangeId]
    folder: str
    rows: Rows
    source: ChangedFiles
    dest: ChangedFiles
    has_union: bool

    key: Sequence[str] = ()
    """A folder has no properties, so the strategy must have the key."""

    @property
    def identity(self) -> Hashable:
        return self.folder, *self.trees

    @property
    def files(self) -> int:
        return sum(len(each.files) for each in self._sets.values())

    @property
    def bytes(self) -> int:
        return sum(each.bytes for each in self._sets.values())

    @cached_property
    def _names_of_sides(self) -> Sequence[str]:
        return side_names(len(self.trees) - 2)

    @cached_property
    def _files(self) -> Sequence[Mapping[tuple[str, object], str]]:
        """The names of each side's changed files, by name and identity."""
        names = sorted(self.source.every | self.dest.every)
        keys = {name: (self.folder + name).encode() for name in names}
        stored = [stored_values(self.context, each, keys.values()) for each in self.trees]
        return [
            {(name, identity_of(key, side[key])): name for name, key in keys.items() if side[key]}
            for side in stored
        ]

    @cached_property
    def _sets(self) -> Mapping[Holders, TableSide]:
        names = self._names_of_sides
        sets = file_sets(dict(zip(names, self._files, strict=True)))
        return {
            holders: self._side(names.index(holders[0]), files.values(), None)
            for holders, files in sets.items()
        }

    def sides(self) -> tuple[RowSides, StructType]:
        """Return the rows of the changed files, and the merged columns.

        A column that is missing in new files of a side is null there, as in Spark.
        """
        return self._frames

    @cached_property
    def _frames(self) -> tuple[RowSides, StructType]:
        from pyspark.sql.types import StructType

        from sparklake.frames.tables.column_names import name_rule
        from sparklake.frames.tables.diff_sides import rows_of, side_schema
        from sparklake.frames.tables.row_merge import merged_schema

        spark = self.context.runners.session()
        shared = self._shared
        *bases, source_side, dest_side = (
            *(
                self._side(at, self._files[at].values(), shared)
                for at in range(len(self.trees) - 2)
            ),
            self._side(_SOURCE, self.source.new, None),
            self._side(_DEST, self.dest.new, None),
        )
        base, *others = (side_schema(spark, each, PARQUET, {}) for each in bases)
        if any(each != base for each in others):
            raise InvalidInputError(
                f"the merge bases disagree on the columns of {self.folder!r}: take one side with "
                "source-wins or dest-wins"
            )
        new = [side_schema(spark, each, PARQUET, {}) for each in (source_side, dest_side)]
        rule = name_rule(spark)
        source, dest = (_over(base, each, rule) for each in new)
        schema = merged_schema(rule, base, source, dest)
        old_types = {rule(each.name): each.dataType for each in base.fields}
        changed = [
            each.name
            for each in schema.fields
            if old_types.get(rule(each.name), each.dataType) != each.dataType
        ]
        if changed and shared:
            raise InvalidInputError(
                f"one side changed the types of {', '.join(changed)} in {self.folder!r}, and "
                f"unchanged files such as {shared!r} keep the old ones: rewrite the table on that "
                "side"
            )
        every = (*(base for _ in bases), source, dest)
        columns = dict(zip(self._names_of_sides, every, strict=True))
        frames = {
            holders: rows_of(spark, side, StructType([*columns[holders[0]].fields]), PARQUET, {})
            for holders, side in self._sets.items()
        }
        return frames, schema

    @cached_property
    def _shared(self) -> str | None:
        """A file of dest that the merge neither reads nor writes."""
        touched = self.dest.every | self.source.every
        return next((each for each in self._names(_DEST) if each not in touched), None)

    def _names(self, place: int) -> Iterable[str]:
        return self._pair(place).names(0)

    def _pair(self, place: int) -> FolderPair:
        return _pair(self.context, self.trees, self.folder, (place, place))

    @cached_property
    def _partitions(self) -> PartitionColumns:
        columns = PartitionColumns()
        columns.add_names(name for place in range(len(self.trees)) for name in self._names(place))
        return columns

    def _side(self, place: int, names: Iterable[str], shared: str | None) -> TableSide:
        files = self._pair(place).files(0, sorted(names))
        # An unchanged file of dest is the same in base.
        sample = self._pair(_DEST).files(0, [shared] if shared else [])
        return TableSide.of(files, sample, self._partitions)

    def dest_rows(self) -> DataFrame:
        tree, name = self.context.trees.get(self.trees[_DEST]), DEST
        table = tree_table(self.context, tree, name, self.folder)
        return read_table(self.context, table, PARQUET, {}, self._frames[1])

    @property
    def table(self) -> ChangedTable:
        """The folder, with the first file that both sides changed, or source."""
        names = self.source.every & self.dest.every or self.source.every
        key = (self.folder + min(names)).encode()
        trees = (self.trees[0], *self.trees[_SOURCE:])
        values = (stored_values(self.context, each, [key])[key] for each in trees)
        return ChangedTable(self.folder.encode(), {key: StoredValues(*values)})

    def joined(self, union: United, result: Sequence[Record]) -> United:
        return replace(union, records=result)

    def write(self, merged: MergedRows) -> Sequence[Record]:
        """Write dest's changed files again, and return the table's records in the merged tree."""
        from sparklake.frames.tables.exact_files import union
        from sparklake.frames.tables.row_merge import aligned, applied

        (sides, _), schema = self._frames, merged.merge.schema
        place = new_data_key()
        files = [rows for holders, rows in sides.items() if DEST in holders]
        touched = union([aligned(each, schema) for each in files])
        records = self._save(applied(touched, merged.merge), place)
        reader = self.context.runners.session().read.schema(schema)
        number = reader.parquet(spark_uri(f"{self.context.info.storage_namespace}/{place}")).count()
        merged.counts.check(touched.count(), number)
        removed = self.source.every | self.dest.every
        return sorted([*(tombstone((self.folder + each).encode()) for each in removed), *records])

    def _save(self, rows: DataFrame, place: str) -> list[Record]:
        request = WriteRequest(
            branch=f"rows of {self.folder}",
            path=self.folder.rstrip("/"),
            format=PARQUET,
            mode=WriteMode.APPEND,
            partition_by=tuple(self._partitions.values),
        )
        check = save_rows(self.context, rows, request, place)
        with written_files(self.context, request.branch, place) as files:
            check(files["name"])
            return [
                new_record((self.folder + name).encode(), NewObject(entry))
                for name, entry in file_entries(place, files)
                if not is_hidden(name.encode())
            ]


def _over(base: StructType, new: StructType, rule: NameRule) -> StructType:
    """Return the columns of base with the types of new files, and the columns only in these."""
    from pyspark.sql.types import StructType

    own = {rule(each.name): each for each in new.fields}
    fields = [own.pop(rule(each.name), each) for each in base.fields]
    return StructType([*fields, *own.values()])
