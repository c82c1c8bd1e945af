"""Folders of table metadata in trees."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from sparklake.graveler.blocks.align import restricted
from sparklake.graveler.ids import RECORD_ID_BYTES, MetaRangeId
from sparklake.graveler.keys import prefix_interval
from sparklake.graveler.ranges import RangeInfo, overlapping
from sparklake.graveler.records import Record
from sparklake.graveler.sstable.range_files import read_together
from sparklake.rows.objects import ObjectInfo, object_info
from sparklake.verbs.base.commit_graph import Walk
from sparklake.verbs.base.content import read_body
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.merge_bases import ThreeWayTrees


@dataclass(frozen=True)
class MetadataFolder:
    """The records of a table's metadata in a tree."""

    folder: bytes
    records: Mapping[bytes, bytes]
    storage_namespace: str

    @cached_property
    def ids(self) -> dict[bytes, bytes]:
        return {key: stored[-RECORD_ID_BYTES:] for key, stored in self.records.items()}

    def file(self, key: bytes) -> ObjectInfo:
        return object_info((key, self.records[key]), self.storage_namespace)

    def body(self, key: bytes) -> bytes:
        return read_body(self.file(key), "the log")


def read_metadata(context: Context, tree: MetaRangeId, folder: bytes) -> MetadataFolder:
    ranges = overlapping(context.trees.get(tree).ranges, prefix_interval(folder))
    records = dict(records_in(context, ranges, folder))
    return MetadataFolder(folder, records, context.info.storage_namespace)


def records_in(context: Context, ranges: Iterable[RangeInfo], folder: bytes) -> Iterator[Record]:
    """Yield the records of a folder in some ranges, in key order."""
    for group in map(context.open_ranges.get_many, read_together(list(ranges))):
        for each in group:
            yield from restricted(each.block, prefix_interval(folder)).records()


def disputed_bases(
    context: Context, sides: ThreeWayTrees, base: MetadataFolder
) -> list[tuple[MetaRangeId, MetadataFolder]]:
    """Return the trees of merge bases that disagree on a table, with its metadata, or nothing.

    `base` is the table in the merge of the bases.
    """
    if len(sides.bases) < 2:
        return []
    trees = base_trees(context, sides)
    folders = [read_metadata(context, each, base.folder) for each in trees]
    if any(each.ids == base.ids for each in folders):
        return []
    return [*zip(trees, folders, strict=True)]


def base_trees(context: Context, sides: ThreeWayTrees) -> list[MetaRangeId]:
    walk = Walk(context.graph)
    return [context.tree(walk.commit(each)).id for each in sides.bases]
