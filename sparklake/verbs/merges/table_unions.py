"""Unions of tables that both sides changed, in any format."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from sparklake.errors import MissingFileError
from sparklake.graveler.keys import Interval, common, key_folders, prefix_interval, successor
from sparklake.graveler.planning.segments import clusters, reach, windows
from sparklake.graveler.ranges import RangeInfo, Ranges, overlapping
from sparklake.metadata.delta.file_names import LOG_FOLDER, MAX_TABLES, too_many_tables
from sparklake.metadata.iceberg.file_names import METADATA_FOLDER, metadata_folder
from sparklake.strategies.resolution import Resolution, is_iceberg
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.merge_bases import ThreeWayTrees
from sparklake.verbs.base.resolve import check_kept
from sparklake.verbs.delta.merge import delta_union
from sparklake.verbs.iceberg.merge import iceberg_union
from sparklake.verbs.merges.replaced_tables import replaced_table
from sparklake.verbs.tables.metadata_folders import records_in
from sparklake.verbs.tables.unions import TableUnion, table_of

_FOLDERS = (LOG_FOLDER.encode(), METADATA_FOLDER.encode())


@dataclass(frozen=True, slots=True)
class MovedRanges:
    """Ranges only in a side or only in base, and their hulls."""

    ranges: Sequence[RangeInfo]
    hulls: Sequence[Interval]

    @staticmethod
    def of(base: Ranges, side: Ranges) -> MovedRanges:
        apart = (each.sides for each in windows(base, side) if not each.alike)
        groups = [cluster.sides for sides in apart for cluster in clusters(sides)]
        ranges = [each for sides in groups for part in sides for each in part]
        return MovedRanges(ranges, list(map(reach, groups)))

    def meets(self, interval: Interval) -> bool:
        at = bisect_right(self.hulls, interval.start, key=lambda each: each.start)
        near = self.hulls[max(0, at - 1) : at + 1]
        return any(not common(each, interval).is_empty for each in near)


def _places_of_logs(source: MovedRanges, dest: MovedRanges) -> Iterator[tuple[RangeInfo, bytes]]:
    """Yield unread ranges, with the folders of logs that they may contain.

    If one side moved a range with a log, and the other side changed another part of the table, then
    the table extends beyond that range. Therefore, one of the range's edges is a key of the table.
    """
    for side, other in ((source, dest), (dest, source)):
        for each in side.ranges:
            hull = Interval(each.min_key, successor(each.max_key))
            if not other.meets(hull):
                yield from (
                    (each, log)
                    for folder in {*key_folders(each.min_key), *key_folders(each.max_key)}
                    for name in _FOLDERS
                    if not common(hull, prefix_interval(log := folder + name)).is_empty
                    and other.meets(prefix_interval(folder))
                )


def table_unions(
    context: Context, sides: ThreeWayTrees, resolution: Resolution, observed: Iterable[bytes]
) -> list[TableUnion]:
    """Return the unions of tables with observed or unread logs."""
    base, *others = (context.trees.get(each).ranges for each in sides.trees)
    moved = [MovedRanges.of(base, each) for each in others]

    def meets(interval: Interval) -> bool:
        return all(each.meets(interval) for each in moved)

    logs_at = {(each, prefix_interval(log)): log for each, log in _places_of_logs(*moved)}
    found = context.open_ranges.with_keys(logs_at)
    unread = (log for each in found if _has_metadata(context, each[:1], log := logs_at[each]))
    logs = sorted({*observed, *unread, *_logs_around(context, sides)})
    if len(logs) > MAX_TABLES:
        raise too_many_tables()
    parts = sides.path_filter.parts
    folders = [
        each for each in logs if resolution.unites(each) and parts(prefix_interval(table_of(each)))
    ]
    try:
        tables = sorted({*map(table_of, folders)})
        replaced = {each: replaced_table(context, sides, each, resolution) for each in tables}
        unions = (
            iceberg_union(context, sides, folder, resolution)
            if is_iceberg(folder)
            else delta_union(context, sides, folder, resolution, meets)
            for folder in folders
            if replaced[table_of(folder)] is None
        )
        return [each for each in (*replaced.values(), *unions) if each is not None]
    except MissingFileError:
        check_kept(context, sides.bases)
        raise


def _logs_around(context: Context, sides: ThreeWayTrees) -> Iterator[bytes]:
    """Yield the log folders, on either side, of tables with selected paths."""
    if sides.path_filter.is_everything:
        return
    trees = [context.trees.get(each).ranges for each in {sides.source, sides.dest}]
    for folder in {
        each for part in sides.path_filter.intervals for each in key_folders(part.start)
    }:
        for log in (folder + name for name in _FOLDERS):
            part = prefix_interval(log)
            if any(_has_metadata(context, overlapping(ranges, part), log) for ranges in trees):
                yield log


def _has_metadata(context: Context, ranges: Iterable[RangeInfo], folder: bytes) -> bool:
    """Return whether ranges have a log, or metadata of Iceberg, in a folder."""
    keys = (key for key, _ in records_in(context, ranges, folder))
    return any(not is_iceberg(folder) or metadata_folder(key) == folder for key in keys)
