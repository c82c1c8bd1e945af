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
from sparklake.graveler.keys import prefix_interval
from sparklake.graveler.planning import Plan
from sparklake.udfs.delta.actions import encode_actions
from sparklake.udfs.delta.commits import NotUnitedError
from sparklake.udfs.delta.names import log_folder
from sparklake.udfs.delta.touched import MAX_TABLES, too_many_tables
from sparklake.udfs.delta.union.liveness import Files, live_adds
from sparklake.udfs.delta.union.sides import LogSide, Made
from sparklake.udfs.delta.union.united import united
from sparklake.udfs.strategies.resolution import Resolution
from sparklake.verbs.context import Context
from sparklake.verbs.delta.logs import TreeLog, log_sides, read_log
from sparklake.verbs.delta.merged_logs import Stored, TableUnion, record_id
from sparklake.verbs.resolve import check_kept

if TYPE_CHECKING:
    from sparklake.verbs.merging.three_way import Sides


def logs_at_edges(plan: Plan) -> set[bytes]:
    """Returns the folders of logs that lie across the bound of a piece that is copied unread."""
    edges = (
        key
        for piece in plan.stretches_copied
        if piece.ranges
        for key in (piece.ranges[0].min_key, piece.ranges[-1].max_key)
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
    """Returns what becomes of a table; None where only one side changed its log."""
    base, source, dest = logs = [
        read_log(context, tree, folder) for tree in (sides.base, sides.source, sides.dest)
    ]
    if base.ids in (source.ids, dest.ids) or source.ids == dest.ids:
        return None
    keys = sorted({*base.ids, *source.ids, *dest.ids})
    stored = {key: Stored(*(each.records.get(key) for each in logs)) for key in keys}
    changed = {key: each for key, each in stored.items() if len({*map(record_id, each)}) > 1}
    union = TableUnion(folder, changed)
    try:
        if not sides.choice.holds(prefix_interval(folder)):
            raise NotUnitedError("only a part of its log is among the chosen paths")
        before, theirs, ours = parted = log_sides(logs)
    except NotUnitedError as error:
        return replace(union, refusal=str(error))
    made = Made(time.time_ns() // 1_000_000, f"sparklake/{version('sparklake')}")
    try:
        commits = united(before, theirs, ours, source.adds, made)
    except NotUnitedError as error:
        return _taken(replace(union, refusal=str(error)), logs, parted, winner)
    bodies = dict(enumerate(map(encode_actions, commits), dest.latest + 1))
    kept = live_adds([*(each.actions for each in ours.commits), *commits])
    return replace(union, commits=bodies, kept=kept)


def _taken(
    refused: TableUnion,
    logs: Sequence[TreeLog],
    parted: Sequence[LogSide],
    winner: Strategy | None,
) -> TableUnion:
    """Returns what becomes of a table that is not united: one side as a whole, if that may be."""
    if any(each.metadata is None for each in parted[1:]):
        # One side dropped the table and its files, and no log says which the other still needs.
        return refused
    if winner is None:
        return replace(refused, may_be_taken=True)
    place = 1 if winner is Strategy.SOURCE_WINS else 2
    # What other commits have removed from the table may be gone from the tree, too.
    removed = Files.of(*(each.commits for each in parted)).before
    added = {key for commit in parted[place].commits for key in commit.adds}
    try:
        kept = logs[place].adds(frozenset(removed | added))
    except NotUnitedError as error:
        return replace(refused, refusal=str(error))
    return replace(refused, kept=tuple(kept.values()), taken=winner, refusal=None)
