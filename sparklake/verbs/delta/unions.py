"""Delta tables that both sides of a merge have changed: their logs become one, or are refused.

The tasks of a merge say which logs they met. What source changed in such a log is taken back, and
what it did to the table is committed once more on top of dest's log. Where that cannot be, a side
that wins by the merge's strategy has its log taken as a whole.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from importlib.metadata import version
from typing import TYPE_CHECKING

from sparklake.errors import MissingFileError
from sparklake.graveler.classification import Strategy
from sparklake.graveler.ids import MetaRangeId
from sparklake.graveler.keys import prefix_interval
from sparklake.graveler.planning import Plan
from sparklake.udfs.delta.actions import Action, encode_actions
from sparklake.udfs.delta.commits import NotUnitedError
from sparklake.udfs.delta.names import log_folder, table_folder
from sparklake.udfs.delta.paths import file_keys
from sparklake.udfs.delta.touched import MAX_TABLES, too_many_tables
from sparklake.udfs.delta.union.liveness import live_after
from sparklake.udfs.delta.union.sides import LogSide, Made
from sparklake.udfs.delta.union.united import united
from sparklake.udfs.strategies.resolution import Resolution
from sparklake.verbs.context import Context
from sparklake.verbs.delta.gone import gone_files
from sparklake.verbs.delta.logs import TreeLog, log_sides, read_log
from sparklake.verbs.delta.merged_logs import Stored, TableUnion, record_id
from sparklake.verbs.resolve import check_kept

if TYPE_CHECKING:
    from sparklake.verbs.merging.three_way import Sides

_SOURCE, _DEST = 1, 2
"""Are the places of the sides that a table may be taken of."""


def logs_at_edges(plan: Plan) -> set[bytes]:
    """Returns the folders of logs that lie across the bound of a piece that is copied unread.

    What gives way there tells of logs that source has dropped.
    """
    edges = (
        key
        for piece in plan.stretches_copied
        for ranges in (piece.ranges, piece.over)
        if ranges
        for key in (ranges[0].min_key, ranges[-1].max_key)
    )
    return {folder for folder in map(log_folder, edges) if folder is not None}


def table_unions(
    context: Context, sides: Sides, resolution: Resolution, folders: Iterable[bytes]
) -> list[TableUnion]:
    """Returns what becomes of the tables that both sides have changed, among some.

    Raises ExpiredError where the log of the base is gone with it.
    """
    logs = sorted(folders)
    if len(logs) > MAX_TABLES:
        raise too_many_tables()
    found = (
        _union(context, sides, folder, resolution.side(folder))
        for folder in logs
        if resolution.unites(folder) and sides.choice.parts(prefix_interval(folder))
    )
    try:
        return [each for each in found if each is not None]
    except MissingFileError:
        check_kept(context, sides.bases)
        raise


def _union(
    context: Context, sides: Sides, folder: bytes, winner: Strategy | None
) -> TableUnion | None:
    """Returns what becomes of a table; None where a merge by keys does right."""
    base, source, dest = logs = [read_log(context, tree, folder) for tree in sides.trees]
    if source.ids in (base.ids, dest.ids):
        return None
    keys = sorted({*base.ids, *source.ids, *dest.ids})
    stored = {key: Stored(*(each.records.get(key) for each in logs)) for key in keys}
    changed = {key: each for key, each in stored.items() if len({*map(record_id, each)}) > 1}
    union = TableUnion(folder, changed)
    if not sides.choice.holds(prefix_interval(folder)) and (
        dest.ids != base.ids or any(key not in sides.choice for key in changed)
    ):
        return replace(union, refusal="only a part of its log is among the chosen paths")
    if dest.ids == base.ids:
        return _of_source_alone(context, sides, union, logs)
    try:
        before, theirs, ours = parted = log_sides(logs)
    except NotUnitedError as error:
        return replace(union, refusal=str(error))
    made = Made(time.time_ns() // 1_000_000, f"sparklake/{version('sparklake')}")
    try:
        commits = united(before, theirs, ours, source.adds, made)
    except NotUnitedError as error:
        refused = replace(union, refusal=str(error))
        if any(each.metadata is None for each in (theirs, ours)):
            # One side dropped the table and its files: no log says which the other still needs.
            return refused
        if winner is None:
            return replace(refused, may_be_taken=True)
        return _taken(context, sides, refused, logs, parted, winner)
    bodies = dict(enumerate(map(encode_actions, commits), dest.latest + 1))
    try:
        gone = gone_files(context, folder, sides.base, sides.source)
        needed = _needed(logs, parted, _DEST, gone, commits)
    except NotUnitedError as error:
        return replace(union, refusal=str(error))
    return replace(union, commits=bodies, needed=dict.fromkeys(needed))


def _taken(
    context: Context,
    sides: Sides,
    refused: TableUnion,
    logs: Sequence[TreeLog],
    parted: Sequence[LogSide],
    winner: Strategy,
) -> TableUnion:
    """Returns what becomes of a table of which one side is taken as a whole, if that may be."""
    place, other = (_SOURCE, _DEST) if winner is Strategy.SOURCE_WINS else (_DEST, _SOURCE)
    try:
        gone = gone_files(context, refused.folder, sides.base, sides.trees[other])
        needed = _needed(logs, parted, place, gone)
    except NotUnitedError as error:
        return replace(refused, refusal=str(error))
    found = _record_ids(context, sides.trees[place], needed)
    return replace(refused, needed=found, taken=winner, refusal=None)


def _of_source_alone(
    context: Context, sides: Sides, union: TableUnion, logs: Sequence[TreeLog]
) -> TableUnion | None:
    """Returns a table whose log source alone has changed; None where its files are all there."""
    gone = gone_files(context, union.folder, sides.base, sides.dest)
    if not gone and sides.choice.holds(prefix_interval(table_folder(union.folder))):
        return None
    try:
        needed = _needed(logs, log_sides(logs), _SOURCE, gone)
    except NotUnitedError:
        # What is not understood is taken as source has it.
        return None
    found = _record_ids(context, sides.source, needed)
    return replace(union, needed=found, is_of_source_alone=True)


def _needed(
    logs: Sequence[TreeLog],
    parted: Sequence[LogSide],
    place: int,
    gone: frozenset[str],
    more: Sequence[Sequence[Action]] = (),
) -> list[bytes]:
    """Returns the keys of files of one side's table, with more commits, that may not be merged.

    These are files that it has added, and those that the other side removed from its tree. Raises
    NotUnitedError where the log does not say.
    """
    removed = (key.path for side in parted for commit in side.commits for key in commit.removes)
    # With a file, the vector may be gone that says which of its rows are deleted.
    is_new = not any(each.commits for each in logs if each is not logs[place])
    # Where no other side has a log, there is none that it could have parted from.
    live = logs[place].live(None if is_new else {*gone, *removed}) if gone or is_new else {}
    commits = [*(each.actions for each in parted[place].commits), *more]
    kept = live_after(commits, live)
    return [key for said in kept for key in file_keys(logs[place].folder, said)]


def _record_ids(
    context: Context, tree: MetaRangeId, keys: Iterable[bytes]
) -> dict[bytes, bytes | None]:
    ranges = context.trees.get(tree).ranges
    return {key: record_id(context.open_ranges.lookup(ranges, key)) for key in keys}
