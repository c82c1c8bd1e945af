"""Folders replaced on both sides, whose rows a merge by files would double."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from operator import attrgetter
from typing import Any

from sparklake.graveler.algebra.changes import Conflict
from sparklake.graveler.algebra.classify import KeyOutcome, Strategy
from sparklake.graveler.keys import common, key_folders, prefix_interval
from sparklake.graveler.planning.filtered import filtered_plan
from sparklake.graveler.planning.packing import divided, pack_tasks
from sparklake.graveler.planning.path_filter import PathFilter, covering
from sparklake.graveler.planning.plan import Plan, opened_piece, settle
from sparklake.graveler.planning.segments import Segment, reach, segments_apart
from sparklake.graveler.ranges import overlapping
from sparklake.metadata.delta.table_files import partition_of
from sparklake.strategies.functions import NamedStrategy
from sparklake.strategies.resolution import Resolution
from sparklake.udfs.folder_changes import (
    Encode,
    FolderChange,
    differing_files,
    folder_changes,
    folders_body,
)
from sparklake.udfs.observed_changes import is_data_file, table_root
from sparklake.udfs.tasks import encode_tasks
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.merge_bases import ThreeWayTrees
from sparklake.verbs.merges.table_schemas import AddedPair, has_metadata
from sparklake.verbs.merges.table_unions import MovedRanges
from sparklake.verbs.tables.metadata_folders import records_in
from sparklake.verbs.tables.unions import ChangedTable, Correction, Refused, Taken

_KEEPS = {
    FolderChange.SOURCE: FolderChange.SOURCE_KEEPS,
    FolderChange.DEST: FolderChange.DEST_KEEPS,
}
_KEEP_BOTH = "keep-both"
_ONE_SIDED = (KeyOutcome.TAKE_SOURCE, KeyOutcome.TAKE_DEST)


@dataclass(frozen=True, slots=True)
class ReplacedFolder:
    """A folder with files removed by both sides, and new files.

    `folder` is that of a partition or, if a side replaced several ones as a whole, of the table.
    `example` is a new file. Tables with files in `layouts` of both sides cannot be read.
    """

    folder: bytes
    table: bytes
    example: bytes
    layouts: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.folder.removesuffix(b"/").decode(errors="replace")

    def has(self, key: bytes) -> bool:
        is_whole = self.folder == self.table
        return (table_root(key) if is_whole else next(key_folders(key))) == self.folder


def replaced_folders(
    context: Context, sides: ThreeWayTrees, tables: Collection[bytes]
) -> list[ReplacedFolder]:
    """Return the folders that a merge by files would fill with rows of both sides.

    `tables` are those in which the merge's tasks found new files of one side. First, the segments
    that both sides changed are searched for files that both removed, where other changes may belong
    to the same table. Then all changes to the tables of these files are read.
    """
    segments = list(_segments(context, sides))
    removed = _tables_with_removals(context, sides, segments, tables)
    tallies = {
        each: _Tally(each) for each in sorted(removed) if not has_metadata(context, sides, each)
    }
    plan = _changed(segments)
    for kind, folder, key in _streamed(context, plan, _prefixes(tallies), folder_changes):
        if table_root(key) in tallies:
            tallies[table_root(key)].add(FolderChange(kind), folder, key)
    replaced = [
        each
        for table, tally in tallies.items()
        for each in tally.replaced(
            is_selected=sides.path_filter.holds(prefix_interval(table)),
            keeps_file=partial(_keeps_file, context, segments, table),
        )
    ]
    return [each for each in replaced if _is_selected(context, sides, plan, each.folder)]


@dataclass(slots=True)
class _Tally:
    """The changes to the files of one table, by folder."""

    table: bytes
    removed: set[bytes] = field(default_factory=set)
    new: dict[FolderChange, dict[bytes, bytes]] = field(
        default_factory=lambda: {each: {} for each in _KEEPS}
    )
    keeps: set[FolderChange] = field(default_factory=set)

    def add(self, kind: FolderChange, folder: bytes, key: bytes) -> None:
        if kind is FolderChange.REMOVED:
            self.removed.add(folder)
        elif kind in self.new:
            self.new[kind].setdefault(folder, key)
        else:
            self.keeps.add(kind)

    def replaced(
        self, *, is_selected: bool, keeps_file: Callable[[], bool]
    ) -> list[ReplacedFolder]:
        """Return the replaced folders, or the whole table if a side replaced several ones."""
        if is_selected and any(self._is_rewritten(each) for each in self.new) and not keeps_file():
            return [
                self._folder(self.table, [*chain(*(each.values() for each in self.new.values()))])
            ]
        new = {
            each: [side[each] for side in self.new.values() if each in side]
            for each in self.removed
        }
        return [self._folder(each, files) for each, files in sorted(new.items()) if files]

    def _is_rewritten(self, side: FolderChange) -> bool:
        new = self.new[side]
        is_wide = len(self.removed | new.keys()) > 1
        return bool(self.removed and new) and is_wide and _KEEPS[side] not in self.keeps

    def _folder(self, folder: bytes, files: Sequence[bytes]) -> ReplacedFolder:
        return ReplacedFolder(folder, self.table, min(files))


def _tables_with_removals(
    context: Context, sides: ThreeWayTrees, segments: Sequence[Segment], tables: Collection[bytes]
) -> set[bytes]:
    """Return the tables from which both sides removed a file, and perhaps more."""
    selected = sides.path_filter
    if not selected.is_everything:
        # Dest keeps its changes outside of the selected paths, and tasks do not report them.
        starts = (each.start for each in selected.intervals)
        tables = {table_root(each) for each in starts if each.endswith(b"/") or is_data_file(each)}
    observed = _prefixes(tables)
    outcomes = [settle(each) for each in segments]
    both = [
        each
        for each, outcome in zip(segments, outcomes, strict=True)
        if outcome not in _ONE_SIDED and not each.alike and each.sides[0]
    ]
    hulls = [
        reach(each.sides)
        for each, outcome in zip(segments, outcomes, strict=True)
        if outcome in _ONE_SIDED
    ]
    unread = MovedRanges((), hulls if selected.is_everything else ())
    near = [
        common(part, each.interval)
        for each in both
        for part in (
            *observed.parts(each.interval),
            *_prefixes(_tables_beyond(each, unread)).intervals,
        )
    ]
    within = covering(sorted((each for each in near if not each.is_empty), key=attrgetter("start")))
    plan = Plan(tuple(map(opened_piece, both)))
    changes = _streamed(context, plan, within, folder_changes)
    return {table_root(key) for kind, _, key in changes if kind == FolderChange.REMOVED}


def _tables_beyond(segment: Segment, unread: MovedRanges) -> set[bytes]:
    """Return the possible tables in a segment that extend to unread ranges.

    Such a table has one of the outermost keys of base, because its keys are contiguous.
    """
    first, last = segment.sides[0][0].min_key, segment.sides[0][-1].max_key
    root = table_root(next(each for each in key_folders(first) if last.startswith(each)))
    folders = {*key_folders(first), *key_folders(last)}
    return {
        each for each in folders if each.startswith(root) and unread.meets(prefix_interval(each))
    }


def _keeps_file(context: Context, segments: Sequence[Segment], table: bytes) -> bool:
    """Return whether an unchanged segment has a file of a table."""
    alike = (each.sides[0] for each in segments if each.alike)
    near = (each for ranges in alike for each in overlapping(ranges, prefix_interval(table)))
    keys = (key for each in near for key, _ in records_in(context, [each], table))
    return any(is_data_file(key) and table_root(key) == table for key in keys)


def _is_selected(context: Context, sides: ThreeWayTrees, plan: Plan, folder: bytes) -> bool:
    """Return whether source changed selected files of a folder."""
    inside = prefix_interval(folder)
    parts = sides.path_filter.parts(inside)
    if parts in ((), (inside,)):
        return bool(parts)
    changes = _streamed(context, plan, PathFilter(parts), folder_changes)
    return any(kind in (FolderChange.REMOVED, FolderChange.SOURCE) for kind, _, _ in changes)


def _prefixes(folders: Iterable[bytes]) -> PathFilter:
    return covering(map(prefix_interval, sorted(folders)))


def _streamed(
    context: Context, plan: Plan, within: PathFilter, encode: Encode
) -> Iterator[tuple[Any, ...]]:
    """Yield the encoded rows."""
    plan = filtered_plan(plan, within)
    if not plan.pieces:
        return
    runner = context.runner(plan.records, "merge", "replaced folders")
    size = runner.task_records(plan.records)
    body = partial(folders_body, context.workspace, within, encode)
    for batch in runner.stream(body, encode_tasks(pack_tasks(divided(plan, size), size))):
        yield from zip(*(each.to_pylist() for each in batch.columns), strict=True)


def settled_folder(
    context: Context, sides: ThreeWayTrees, resolution: Resolution, folder: ReplacedFolder
) -> Taken | Refused | None:
    """Return the files of a strategy's side, a conflict, or None to keep both."""
    chosen = resolution.chosen(folder.example)
    is_both = isinstance(chosen, NamedStrategy) and chosen.name == _KEEP_BOTH
    if is_both and not folder.layouts:
        return None
    table = ChangedTable(folder.folder)
    if isinstance(chosen, Strategy):
        files = _files_of_winner(context, sides, resolution, folder, chosen)
        if files is not None:
            return Taken(table=table, corrections=files, winner=chosen)
    conflicts = [_conflict(context, sides, folder)]
    return Refused(table=table, why=_reason(folder), conflicts=conflicts)


def _files_of_winner(
    context: Context,
    sides: ThreeWayTrees,
    resolution: Resolution,
    folder: ReplacedFolder,
    chosen: Strategy,
) -> list[Correction] | None:
    """Return the corrections of a merge by keys, or None unless one strategy decides all files."""
    takes_source = chosen is Strategy.SOURCE_WINS
    if takes_source and not sides.path_filter.holds(prefix_interval(folder.folder)):
        return None
    corrections = []
    for key, source, dest, outcome in files_in(context, sides, folder):
        if resolution.chosen(key) is not chosen:
            return None
        is_selected = key in sides.path_filter
        by_keys = source if outcome == KeyOutcome.TAKE_SOURCE.value and is_selected else dest
        end = source if takes_source else dest
        if by_keys != end and outcome != KeyOutcome.CONFLICT.value:
            corrections.append(Correction(key, dest, by_keys, end))
    return corrections


def files_in(
    context: Context, sides: ThreeWayTrees, folder: ReplacedFolder
) -> Iterator[tuple[Any, ...]]:
    """Yield the differing files: key, stored values in source and dest, outcome."""
    plan = _changed(_segments(context, sides))
    for row in _streamed(context, plan, _prefixes([folder.folder]), differing_files):
        if folder.has(row[0]):
            yield row


def _segments(context: Context, sides: ThreeWayTrees) -> Iterator[Segment]:
    return segments_apart(*(context.trees.get(each).ranges for each in sides.trees))


def _changed(segments: Iterable[Segment]) -> Plan:
    return Plan(tuple(opened_piece(each) for each in segments if not each.alike))


def _conflict(context: Context, sides: ThreeWayTrees, folder: ReplacedFolder) -> Conflict:
    trees = (context.trees.get(each).ranges for each in sides.trees)
    values = (context.open_ranges.lookup(each, folder.example) for each in trees)
    return Conflict.of(folder.example, *values)


def mixed_layouts(pairs: Iterable[AddedPair]) -> list[ReplacedFolder]:
    """Return the tables whose new files have different partition columns."""
    layouts = (
        (each, _layout(each.table, each.source), _layout(each.table, each.dest)) for each in pairs
    )
    return [
        ReplacedFolder(each.table, each.table, each.source, (theirs, ours))
        for each, theirs, ours in layouts
        if theirs.lower() != ours.lower()
    ]


def _layout(table: bytes, key: bytes) -> str:
    folder = next(key_folders(key)).removeprefix(table).decode(errors="replace")
    return ", ".join(name for name, _ in partition_of(folder)) or "none"


def _reason(folder: ReplacedFolder) -> str:
    place = folder.folder.decode(errors="replace")
    sides = f"take the files of one side with a rule {place}**=source-wins or {place}**=dest-wins"
    if folder.layouts:
        return (
            f"both sides added files to the table {folder.name!r}, with different partition "
            f"columns in source and dest: {' and '.join(folder.layouts)}. The merged table could "
            f"not be read: {sides}, and write the new rows of the other side again"
        )
    table = folder.table.decode(errors="replace")
    is_parquet = folder.table and folder.example.endswith(b".parquet")
    rows = f", or merge rows by key with {table}=rows(KEY)" if is_parquet else ""
    kind = "table" if folder.folder == folder.table else "partition"
    return (
        f"both sides removed files of the {kind} {folder.name!r}, and new ones may have the same "
        f"rows: {sides}, keep the rows of both with {place}**=keep-both{rows}"
    )
