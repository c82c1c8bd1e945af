"""Parquet tables with files added by both sides of a merge."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice, takewhile
from typing import NamedTuple

from sparklake.graveler.algebra.changes import Conflict
from sparklake.graveler.algebra.classify import KeyOutcome
from sparklake.graveler.ids import MetaRangeId
from sparklake.graveler.keys import common, prefix_interval
from sparklake.graveler.planning.plan import OpenPiece, Plan, SideStream, part_of, settle
from sparklake.graveler.planning.segments import Segment, segments_apart
from sparklake.rows.merges import AddedFiles
from sparklake.strategies.resolution import Resolution
from sparklake.udfs.observed_changes import added_batch, table_folder
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.merge_bases import ThreeWayTrees
from sparklake.verbs.base.read import find_in_tree
from sparklake.verbs.diffs.differences import streamed_keys
from sparklake.verbs.objects.owners import find_owner
from sparklake.verbs.tables.file_schemas import ColumnTypes, differing_types, find_file_types
from sparklake.verbs.tables.unions import ChangedTable, Refused

MAX_TABLES = 100
"""The maximum number of compared tables. The driver reads two footers of each."""

MAX_UNREAD_RANGES = 8
"""The maximum number of ranges of a side that are read besides those of the merge's tasks."""


class AddedPair(NamedTuple):
    """A table folder with one of the Parquet files that each side added."""

    table: bytes
    source: bytes
    dest: bytes


def added_pairs(
    context: Context, sides: ThreeWayTrees, resolution: Resolution, added: AddedFiles
) -> list[AddedPair]:
    """Return the tables without a log to which both sides added files."""
    if not resolution.schema_check:
        return []
    source, dest = _AddedSide({**added.source}), _AddedSide({**added.dest})
    _plan_unread(context, sides, source, dest)
    folders = _common_folders(sides, source, dest)
    source.search(context, folders)
    dest.search(context, [each for each in folders if each in source.samples])
    return [
        AddedPair(each, source.samples[each], dest.samples[each])
        for each in folders
        if each in source.samples and each in dest.samples
        if not has_metadata(context, sides, each)
    ]


def schema_conflicts(
    context: Context, sides: ThreeWayTrees, pairs: Iterable[AddedPair]
) -> list[Refused]:
    """Return the conflicts of tables with different types on the sides."""
    conflicts = (_conflict(context, sides, *each) for each in pairs)
    return [each for each in conflicts if each is not None]


@dataclass(frozen=True, slots=True)
class _AddedSide:
    """Additions of a side: samples by folder, and unread pieces of base and side."""

    samples: dict[bytes, bytes]
    unread: list[OpenPiece] = field(default_factory=list)

    @property
    def edge_folders(self) -> set[bytes]:
        folders = (table_folder(key) for piece in self.unread for key in _edges(piece.sides[1]))
        return {each for each in folders if each is not None}

    def add_unread(self, segment: Segment, place: int) -> None:
        """Add a segment with more records than in base, or with other keys at range edges."""
        base, side = (SideStream(tuple(segment.sides[each])) for each in (0, place))
        piece = OpenPiece(segment.interval, (base, side))
        if _growth(piece) > 0 or _edges(side) - _edges(base):
            self.unread.append(piece)

    def unread_in(self, folder: bytes) -> list[OpenPiece]:
        inside = prefix_interval(folder)
        at = bisect_right(self.unread, inside.start, key=lambda each: each.interval.start)
        near = takewhile(
            lambda each: inside.stop is None or each.interval.start < inside.stop,
            self.unread[max(0, at - 1) :],
        )
        parts = (part_of(each, common(each.interval, inside)) for each in near)
        return [each for each in parts if not each.interval.is_empty and each.sides[1].ranges]

    def search(self, context: Context, folders: Iterable[bytes]) -> None:
        parts = (
            part for each in folders if each not in self.samples for part in self.unread_in(each)
        )
        remaining, pieces = MAX_UNREAD_RANGES, list[OpenPiece]()
        for part in sorted(parts, key=_growth, reverse=True):
            count = sum(len(each.ranges) for each in part.sides)
            if count <= remaining:
                pieces.append(part)
                remaining -= count
        pieces.sort(key=lambda each: each.interval.start)
        for key in streamed_keys(context, Plan(tuple(pieces)), added_batch, "added files"):
            folder = table_folder(key)
            if folder is not None:
                self.samples.setdefault(folder, key)


def _plan_unread(
    context: Context, sides: ThreeWayTrees, source: _AddedSide, dest: _AddedSide
) -> None:
    """Add the pieces with possible added files of only one side."""
    for segment in segments_apart(*(context.trees.get(each).ranges for each in sides.trees)):
        outcome = settle(segment)
        if outcome is KeyOutcome.TAKE_SOURCE:
            source.add_unread(segment, 1)
        # Tasks read selected keys only, but dest keeps all its files.
        elif outcome is KeyOutcome.TAKE_DEST or (
            outcome is KeyOutcome.CONFLICT and not sides.path_filter.is_everything
        ):
            dest.add_unread(segment, 2)


def _growth(piece: OpenPiece) -> int:
    base, side = piece.sides
    return side.records - base.records


def _edges(side: SideStream) -> set[bytes]:
    return {key for each in side.ranges for key in (each.min_key, each.max_key)}


def _common_folders(sides: ThreeWayTrees, source: _AddedSide, dest: _AddedSide) -> list[bytes]:
    """Return the folders with possible added files of both sides."""
    sampled = source.samples.keys() & dest.samples.keys()
    half = [each for each in source.samples.keys() - sampled if dest.unread_in(each)]
    half += [each for each in dest.samples.keys() - sampled if source.unread_in(each)]
    neither = source.edge_folders & dest.edge_folders
    folders = dict.fromkeys((*sorted(sampled), *sorted({*half, *neither})))
    selected = (each for each in folders if sides.path_filter.parts(prefix_interval(each)))
    return list(islice(selected, MAX_TABLES))


def _conflict(
    context: Context, sides: ThreeWayTrees, folder: bytes, source: bytes, dest: bytes
) -> Refused | None:
    in_source = _file_types(context, sides.source, source)
    in_dest = in_source and _file_types(context, sides.dest, dest)
    types = differing_types(in_source, in_dest) if in_source and in_dest else []
    if not types:
        return None
    reason = (
        f"both sides added files to the table {folder.decode(errors='replace')!r}, with different "
        f"types in source and dest: {', '.join(types)}. The merged table could not be read. Cast "
        "the columns of one side, or merge with --no-schema-check"
    )
    stored = context.open_ranges.lookup(context.trees.get(sides.source).ranges, source)
    conflicts = [Conflict(source, None, stored, None)]
    return Refused(table=ChangedTable(folder), why=reason, conflicts=conflicts)


def _file_types(context: Context, tree: MetaRangeId, key: bytes) -> ColumnTypes | None:
    """Return the column types of a file, or None if it is missing or unreadable."""
    file = find_in_tree(context, tree, key)
    return None if file is None else find_file_types(file, "a side")


def has_metadata(context: Context, sides: ThreeWayTrees, folder: bytes) -> bool:
    """Return whether the table has a log or other metadata that controls its schema."""
    name = folder.decode(errors="replace")
    trees = (context.trees.get(each).ranges for each in (sides.source, sides.dest))
    return any(find_owner(context, each, (), name) for each in trees)
