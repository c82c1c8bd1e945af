"""The different files of a table in two trees."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from sparklake.delta_log.table_files import partition_of, partition_value
from sparklake.errors import InvalidInputError
from sparklake.frames.tables.table_sides import Partition, SideFile, TableSide
from sparklake.graveler.algebra.changes import ChangeType
from sparklake.graveler.ranges import MetaRange
from sparklake.stores.objects.addresses import spark_uri
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.read import list_tree
from sparklake.verbs.base.snapshot import snapshot_over
from sparklake.verbs.diffs.differences import diff_trees


@dataclass(frozen=True, slots=True)
class _FolderPair:
    """A folder in two trees. Errors name a tree by its ref."""

    context: Context
    folder: str
    refs: tuple[str, str]
    trees: tuple[MetaRange, MetaRange]

    def changed(self) -> tuple[set[str], set[str]]:
        """Return the different paths below the folder, in left and in right."""
        left, right = set[str](), set[str]()
        what = " -> ".join(self.refs)
        for row in diff_trees(self.context, *self.trees, self.folder, what):
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
        """Return files of one side by their paths below the folder."""
        asked = list(relative)
        paths = [self.folder + each for each in asked]
        snapshot = snapshot_over(self.context, self.refs[side], self.trees[side])
        addresses = snapshot.lookup(paths).column("address").to_pylist()
        found = zip(addresses, paths, map(folder_partition, asked), strict=True)
        return tuple(SideFile(spark_uri(address), path, of) for address, path, of in found)


def folder_sides(
    context: Context, folder: str, refs: tuple[str, str], trees: tuple[MetaRange, MetaRange]
) -> tuple[TableSide, TableSide]:
    """Return both sides of a table made of all files below a folder."""
    compared = _FolderPair(context, folder, refs, trees)
    changed = compared.changed()
    both = {*changed[0], *changed[1]}
    shared = next((each for each in _data(compared.paths(1)) if each not in both), None)
    sides = [_folder_side(compared, side, changed[side], shared) for side in (0, 1)]
    return sides[0], sides[1]


def _folder_side(
    compared: _FolderPair, side: int, changed: Iterable[str], shared: str | None
) -> TableSide:
    files = compared.files(side, sorted(_data(changed)))
    sample = compared.files(side, [shared] if shared else [])
    # The values of all files decide the type of a column, so that it does not depend on the diff.
    has_folders = any(each.partition for each in (*files, *sample))
    values = partition_values(_data(compared.paths(side))) if has_folders else {}
    paths = tuple(each.path for each in files)
    return TableSide(paths, files, next(iter(sample), None), values)


def partition_values(paths: Iterable[str]) -> dict[str, frozenset[str | None]]:
    """Return the values of each partition column. All files must have the same columns."""
    values: dict[str, set[str | None]] | None = None
    for path in paths:
        partition = folder_partition(path)
        if values is None:
            values = {name: set() for name, _ in partition}
        if [name for name, _ in partition] != list(values):
            raise InvalidInputError(
                f"{path!r} has other partition folders than the files before it: compare the "
                "tables below them one by one"
            )
        for name, value in partition:
            values[name].add(value)
    return {name: frozenset(found) for name, found in (values or {}).items()}


def folder_partition(relative: str) -> Partition:
    """Return the names and values in the folders of a file: `p=1/file` has (p, 1)."""
    return tuple((name, partition_value(text)) for name, text in partition_of(relative))


def _data(paths: Iterable[str]) -> Iterator[str]:
    """Yield the paths of Spark's data files, without markers, logs and temporary files."""
    for path in paths:
        parts = path.split("/")
        if not any(
            each.startswith(".") or (each.startswith("_") and "=" not in each) for each in parts
        ):
            yield path
