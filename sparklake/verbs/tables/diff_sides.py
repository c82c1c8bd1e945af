"""The differing files of a table in two trees."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from sparklake.engine.lazy_rows import Rows
from sparklake.frames.tables.partitions import PartitionColumns
from sparklake.frames.tables.table_sides import Partition, SideFile, TableSide
from sparklake.graveler.algebra.changes import ChangeType
from sparklake.graveler.ranges import MetaRange
from sparklake.metadata.delta.table_files import is_skipped, partition_of, partition_value
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

    def changed_names(self) -> tuple[set[str], set[str]]:
        """Return the data files of each side that the other side lacks or changed."""
        left, right = set[str](), set[str]()
        for row in self.changes():
            relative = row.path.removeprefix(self.folder)
            if is_skipped(relative.encode()):
                continue
            if row.type is not ChangeType.ADDED:
                left.add(relative)
            if row.type is not ChangeType.REMOVED:
                right.add(relative)
        return left, right

    def names(self, side: int) -> Iterator[str]:
        """Yield the data files of a side."""
        for each in list_tree(self.context, self.trees[side], self.folder, self.refs[side]):
            relative = each.path.removeprefix(self.folder)
            if not is_skipped(relative.encode()):
                yield relative

    def files(self, side: int, relative: Iterable[str]) -> tuple[SideFile, ...]:
        names = list(relative)
        paths = [self.folder + each for each in names]
        rows = snapshot_over(self.context, self.refs[side], self.trees[side]).lookup(paths)
        uris = map(spark_uri, rows.column("address").to_pylist())
        sizes = rows.column("size").to_pylist()
        return tuple(map(SideFile, uris, paths, map(_partition, names), sizes))


def folder_sides(compared: FolderPair) -> tuple[TableSide, TableSide]:
    changed = compared.changed_names()
    both = {*changed[0], *changed[1]}
    shared = next((each for each in compared.names(1) if each not in both), None)
    sides = [_folder_side(compared, side, changed[side], shared) for side in (0, 1)]
    return sides[0], sides[1]


def _folder_side(
    compared: FolderPair, side: int, changed: Iterable[str], shared: str | None
) -> TableSide:
    files = compared.files(side, sorted(changed))
    sample = compared.files(side, [shared] if shared else [])
    columns = PartitionColumns()
    if any(each.partition for each in (*files, *sample)):
        # All files decide the type of a column, so that it does not depend on the diff.
        columns.add_names(compared.names(side))
    return TableSide.of(files, sample, columns)


def _partition(relative: str) -> Partition:
    return tuple((name, partition_value(text)) for name, text in partition_of(relative))
