"""Unite Delta logs after changes on both sides of a merge."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version

from sparklake.delta_log.actions import Action, FileKey, encode_actions
from sparklake.delta_log.delta_commits import UnmergeableTableError
from sparklake.delta_log.file_names import LOG_FOLDER, MAX_TABLES, folder_of_log, too_many_tables
from sparklake.delta_log.paths import file_keys
from sparklake.delta_log.union.dropped import DroppedCommits
from sparklake.delta_log.union.liveness import live_after
from sparklake.delta_log.union.log_sides import UnionSignature
from sparklake.delta_log.union.unite import united
from sparklake.errors import MissingFileError
from sparklake.graveler.algebra.classify import Strategy
from sparklake.graveler.ids import MetaRangeId
from sparklake.graveler.keys import Interval, common, key_folders, prefix_interval, successor
from sparklake.graveler.planning.segments import clusters, reach, windows
from sparklake.graveler.ranges import RangeInfo, Ranges, overlapping
from sparklake.graveler.records import stored_record_id
from sparklake.strategies.resolution import Resolution
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.merge_bases import ThreeWayTrees
from sparklake.verbs.base.resolve import check_kept
from sparklake.verbs.delta.changed_logs import gone_files
from sparklake.verbs.delta.merged_log import StoredValues, TableUnion
from sparklake.verbs.delta.tree_log import (
    Commits,
    TreeLog,
    commits_apart,
    has_log,
    log_sides,
    read_log,
)


@dataclass(frozen=True, slots=True)
class MovedRanges:
    """Ranges present only in a side or only in base, and their hulls."""

    ranges: Sequence[RangeInfo]
    hulls: Sequence[Interval]

    @staticmethod
    def of(base: Ranges, side: Ranges) -> MovedRanges:
        apart = (each.sides for each in windows(base, side) if not each.alike)
        found = [cluster.sides for sides in apart for cluster in clusters(sides)]
        ranges = [each for sides in found for part in sides for each in part]
        return MovedRanges(ranges, list(map(reach, found)))

    def meets(self, interval: Interval) -> bool:
        """Return whether the side may have changed a key in an interval."""
        at = bisect_right(self.hulls, interval.start, key=lambda each: each.start)
        near = self.hulls[max(0, at - 1) : at + 1]
        return any(not common(each, interval).is_empty for each in near)


@dataclass(frozen=True, slots=True)
class MovedSides:
    """The moved ranges of both sides, found without opening any range."""

    source: MovedRanges
    dest: MovedRanges

    @staticmethod
    def of(base: Ranges, source: Ranges, dest: Ranges) -> MovedSides:
        return MovedSides(MovedRanges.of(base, source), MovedRanges.of(base, dest))

    def by_both(self, interval: Interval) -> bool:
        """Return whether both sides may have changed a key in an interval."""
        return self.source.meets(interval) and self.dest.meets(interval)

    def places_of_logs(self) -> Iterator[tuple[RangeInfo, bytes]]:
        """Yield unread ranges, with the folders of logs possibly in them.

        If only one side moved a range with a log, and the other side changed another part of the
        table, then the table extends beyond that range. So one of the range's edges is a key of the
        table.
        """
        for side, other in ((self.source, self.dest), (self.dest, self.source)):
            for each in side.ranges:
                hull = Interval(each.min_key, successor(each.max_key))
                if not other.meets(hull):
                    folders = {*key_folders(each.min_key), *key_folders(each.max_key)}
                    yield from (
                        (each, log)
                        for folder in folders
                        if not common(hull, prefix_interval(log := folder + _LOG)).is_empty
                        and other.meets(prefix_interval(folder))
                    )


_LOG = LOG_FOLDER.encode()


_SOURCE, _DEST = 1, 2
"""The positions of the sides that a table may be taken from."""


def table_unions(
    context: Context, sides: ThreeWayTrees, resolution: Resolution, seen: Iterable[bytes]
) -> list[TableUnion]:
    """Return the unions of tables with observed or unread logs."""
    if not resolution.delta:
        return []
    moved = MovedSides.of(*(context.trees.get(each).ranges for each in sides.trees))
    unseen = (log for each, log in moved.places_of_logs() if has_log(context, (each,), log))
    logs = sorted({*seen, *unseen, *_logs_around(context, sides)})
    if len(logs) > MAX_TABLES:
        raise too_many_tables()
    found = (
        _union(context, sides, folder, resolution.side(folder), moved)
        for folder in logs
        if resolution.unites(folder)
        and sides.path_filter.parts(prefix_interval(folder_of_log(folder)))
    )
    try:
        return [each for each in found if each is not None]
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
        log = folder + LOG_FOLDER.encode()
        part = prefix_interval(log)
        if any(has_log(context, overlapping(ranges, part), log) for ranges in trees):
            yield log


def _union(
    context: Context,
    sides: ThreeWayTrees,
    folder: bytes,
    winner: Strategy | None,
    moved: MovedSides,
) -> TableUnion | None:
    """Return the union of a table, or None if a merge by keys is correct."""
    base, source, dest = logs = [read_log(context, tree, folder) for tree in sides.trees]
    if source.ids == dest.ids:
        return None
    keys = sorted({*base.ids, *source.ids, *dest.ids})
    stored = {key: StoredValues(*(each.records.get(key) for each in logs)) for key in keys}
    changed = {key: each for key, each in stored.items() if len({*map(stored_record_id, each)}) > 1}
    union = TableUnion(folder, changed)
    if source.ids == base.ids or not sides.path_filter.parts(prefix_interval(folder)):
        return _of_one_side(context, sides, union, logs, _DEST, moved)
    if not sides.path_filter.holds(prefix_interval(folder)) and (
        dest.ids != base.ids or any(key not in sides.path_filter for key in changed)
    ):
        return replace(union, refusal="the chosen paths include only a part of its log")
    if dest.ids == base.ids and not (sides.logs_grow and _takes_back(source, dest)):
        return _of_one_side(context, sides, union, logs, _SOURCE, moved)
    try:
        base_log, source_log, dest_log = parted = log_sides(logs)
    except UnmergeableTableError as error:
        return replace(union, refusal=str(error))
    apart = [each.commits for each in parted]
    made = UnionSignature(time.time_ns() // 1_000_000, f"sparklake/{version('sparklake')}")
    try:
        commits = united(base_log, source_log, dest_log, made)
        needed = _needed(logs, apart, _DEST, commits)
    except UnmergeableTableError as error:
        base_commits, source_commits, dest_commits = apart
        drops = {
            Strategy.SOURCE_WINS: DroppedCommits.of(
                "dest", dest_commits, source_commits, base_commits
            ),
            Strategy.DEST_WINS: DroppedCommits.of(
                "source", source_commits, dest_commits, base_commits
            ),
        }
        refused = replace(union, refusal=str(error), drops=drops)
        if any(each.metadata is None for each in (source_log, dest_log)):
            # One side dropped the table and its files. No log lists the files that the other side
            # needs.
            return refused
        if winner is None:
            return replace(refused, may_be_taken=True)
        return _taken(context, sides, refused, logs, apart, winner)
    bodies = dict(enumerate(map(encode_actions, commits), dest.latest + 1))
    return replace(union, commits=bodies, needed=dict.fromkeys(needed))


def _takes_back(source: TreeLog, dest: TreeLog) -> bool:
    """Return whether source's log is dest's without the last versions.

    False if source has no table or a table with another history, which is removed or added as a
    whole.
    """
    same = source.commits.keys() & dest.commits.keys()
    return 0 <= source.latest < dest.latest and all(
        source.ids[source.commits[each]] == dest.ids[dest.commits[each]] for each in same
    )


def _taken(
    context: Context,
    sides: ThreeWayTrees,
    refused: TableUnion,
    logs: Sequence[TreeLog],
    apart: Sequence[Commits],
    winner: Strategy,
) -> TableUnion:
    """Return the union of a table with one side taken as a whole, if possible."""
    place = _SOURCE if winner is Strategy.SOURCE_WINS else _DEST
    try:
        needed = _needed(logs, apart, place)
    except UnmergeableTableError as error:
        return replace(refused, refusal=str(error))
    found = _record_ids(context, sides.trees[place], needed)
    return replace(refused, needed=found, taken=winner, refusal=None)


def _of_one_side(
    context: Context,
    sides: ThreeWayTrees,
    union: TableUnion,
    logs: Sequence[TreeLog],
    place: int,
    moved: MovedSides,
) -> TableUnion | None:
    """Return the union of a table with a log changed on one side only.

    Returns None if a merge by keys keeps all files of the table.
    """
    table = prefix_interval(folder_of_log(union.folder))
    if sides.path_filter.holds(table) and not moved.by_both(table):
        return None
    alone = replace(union, is_of_one_side=True)
    try:
        needed = _needed(logs, commits_apart(logs), place)
    except UnmergeableTableError as error:
        other = _DEST if place == _SOURCE else _SOURCE
        gone = gone_files(context, union.folder, sides.base, sides.trees[other])
        return replace(alone, refusal=str(error)) if gone else None
    return replace(alone, needed=_record_ids(context, sides.trees[place], needed))


def _needed(
    logs: Sequence[TreeLog],
    apart: Sequence[Commits],
    place: int,
    more: Sequence[Sequence[Action]] = (),
) -> list[bytes]:
    """Return the keys of one side's files possibly lost in a merge by keys.

    These are the files that the side added, including those of `more` commits, and live files that
    other commits removed, because a vacuum may have followed.
    """
    again = {FileKey.of(each["remove"]).path for said in more for each in said if "remove" in each}
    removed = (key.path for commits in apart for commit in commits for key in commit.removes)
    paths = {*removed} - again
    is_new = not any(each.commits for each in logs if each is not logs[place])
    # If only one side has a log, the sides have no common log to part from.
    live = logs[place].live(None if is_new else paths) if is_new or paths else {}
    kept = live_after([*(each.actions for each in apart[place]), *more], live)
    return [key for said in kept for key in file_keys(logs[place].folder, said)]


def _record_ids(
    context: Context, tree: MetaRangeId, keys: Iterable[bytes]
) -> dict[bytes, bytes | None]:
    wanted = sorted({*keys})
    found = context.open_ranges.lookup_many(context.trees.get(tree).ranges, wanted)
    return dict(zip(wanted, map(stored_record_id, found), strict=True))
