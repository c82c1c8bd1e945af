"""The differing files of a table in two trees."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import filterfalse

import pyarrow as pa

from sparklake.delta_log.table_files import HIDDEN, partition_of, partition_value
from sparklake.engine.lazy_rows import Rows
from sparklake.frames.tables.partitions import PartitionColumns
from sparklake.frames.tables.table_sides import Partition, SideFile, TableSide
from sparklake.graveler.algebra.changes import ChangeType
from sparklake.graveler.ranges import MetaRange
from sparklake.rows.diffs import DiffRow
from sparklake.stores.objects.addresses import spark_uri
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.read import list_tree
from sparklake.verbs.base.snapshot import snapshot_over
from sparklake.verbs.diffs.differences import diff_trees
from sparklake.verbs.tables.version import TableVersion, tree_table


@dataclass(frozen=True, slots=True)
class FolderPair:
    """A folder in the trees of two refs. The refs appear in errors."""

    context: Context
    folder: str
    refs: tuple[str, str]
    trees: tuple[MetaRange, MetaRange]

    def tables(self) -> list[TableVersion]:
        pairs = zip(self.trees, self.refs, strict=True)
        return [tree_table(self.context, tree, ref, self.folder) for tree, ref in pairs]

    def changes(self) -> Rows[DiffRow]:
        return diff_trees(self.context, *self.trees, self.folder, " -> ".join(self.refs))

    def lookup(self, side: int, names: Iterable[str]) -> pa.Table:
        snapshot = snapshot_over(self.context, self.refs[side], self.trees[side])
        return snapshot.lookup([self.folder + each for each in names])

    def changed_paths(self) -> tuple[set[str], set[str]]:
        left, right = set[str](), set[str]()
        for row in self.changes():
            relative = row.path.removeprefix(self.folder)
            if row.type is not ChangeType.ADDED:
                left.add(relative)
            if row.type is not ChangeType.REMOVED:
                right.add(relative)
        return left, right

    def paths(self, side: int) -> Iterator[str]:
        for each in list_tree(self.context, self.trees[side], self.folder, self.refs[side]):
            yield each.path.removeprefix(self.folder)

    def files(self, side: int, relative: Iterable[str]) -> tuple[SideFile, ...]:
        names = list(relative)
        rows = self.lookup(side, names)
        uris = map(spark_uri, rows.column("address").to_pylist())
        paths = (self.folder + each for each in names)
        sizes = rows.column("size").to_pylist()
        return tuple(map(SideFile, uris, paths, map(folder_partition, names), sizes))


def folder_sides(compared: FolderPair) -> tuple[TableSide, TableSide]:
    changed = compared.changed_paths()
    both = {*changed[0], *changed[1]}
    shared = next((each for each in _data(compared.paths(1)) if each not in both), None)
    sides = [_folder_side(compared, side, changed[side], shared) for side in (0, 1)]
    return sides[0], sides[1]


def _folder_side(
    compared: FolderPair, side: int, changed: Iterable[str], shared: str | None
) -> TableSide:
    files = compared.files(side, sorted(_data(changed)))
    sample = compared.files(side, [shared] if shared else [])
    columns = PartitionColumns()
    if any(each.partition for each in (*files, *sample)):
        # All files decide the type of a column, so that it does not depend on the diff.
        folders = {f"{path.rpartition('/')[0]}/" for path in _data(compared.paths(side))}
        columns.add(pa.array(sorted(folders), pa.string()))
    paths = tuple(each.path for each in files)
    size = sum(each.size for each in files)
    return TableSide(paths, files, next(iter(sample), None), columns, bytes=size)


def folder_partition(relative: str) -> Partition:
    return tuple((name, partition_value(text)) for name, text in partition_of(relative))


def _data(paths: Iterable[str]) -> Iterator[str]:
    return filterfalse(re.compile(HIDDEN).search, paths)
