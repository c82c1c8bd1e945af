"""Unions of tables that both sides changed, in any format."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from sparklake.errors import MissingFileError
from sparklake.graveler.ids import MetaRangeId
from sparklake.graveler.keys import Interval, common, key_folders, prefix_interval, successor
from sparklake.graveler.planning.plan import Plan, plan_diff
from sparklake.graveler.planning.segments import clusters, reach, windows
from sparklake.graveler.ranges import RangeInfo, Ranges, overlapping
from sparklake.metadata import registry
from sparklake.metadata.delta.file_names import MAX_TABLES, too_many_tables
from sparklake.metadata.formats import table_of
from sparklake.strategies.resolution import Resolution
from sparklake.udfs.observed_changes import metadata_batch
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.merge_bases import ThreeWayTrees
from sparklake.verbs.base.resolve import check_kept
from sparklake.verbs.diffs.differences import streamed_keys
from sparklake.verbs.merges.replaced_tables import replaced_table
from sparklake.verbs.tables.metadata_folders import records_in
from sparklake.verbs.tables.registry import get_format
from sparklake.verbs.tables.unions import TableUnion


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
                    for name in registry.folder_names()
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
            unite(context, sides, folder, resolution, meets)
            for folder in folders
            if (unite := get_format(registry.format_of(folder).name).unite) is not None
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
        for log in (folder + name for name in registry.folder_names()):
            part = prefix_interval(log)
            if any(_has_metadata(context, overlapping(ranges, part), log) for ranges in trees):
                yield log


def _has_metadata(context: Context, ranges: Iterable[RangeInfo], folder: bytes) -> bool:
    """Return whether ranges have metadata of a table in a folder."""
    find_folder = registry.format_of(folder).find_folder
    return any(find_folder(key) == folder for key, _ in records_in(context, ranges, folder))


def logs_losing_keys(context: Context, before: MetaRangeId, after: MetaRangeId) -> set[bytes]:
    """Return the metadata folders that only grow, with possibly fewer keys in the second tree.

    Ranges are read only where both trees have some. If one tree alone has ranges in a stretch, a
    log that the other tree shares extends beyond the stretch, so an edge of it is a key of the log.
    """
    old_tree, new_tree = (context.trees.get(each).ranges for each in (before, after))
    plan = plan_diff(old_tree, new_tree)
    both = [each for each in plan.stretches if all(side.ranges for side in each.sides)]
    read = streamed_keys(context, Plan(tuple(both)), metadata_batch, "logs")
    lone = [old.ranges for old, new in (each.sides for each in plan.stretches) if not new.ranges]
    edges = (key for each in lone for key in (each[0].min_key, each[-1].max_key))
    folders = {*read, *filter(None, map(registry.find_folder, edges))}
    folders = {each for each in folders if registry.format_of(each).grows}
    if len(folders) > MAX_TABLES:
        raise too_many_tables()
    return folders
