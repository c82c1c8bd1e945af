"""Unions of Delta logs in merges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from sparklake.graveler.algebra.classify import Strategy
from sparklake.graveler.ids import MetaRangeId
from sparklake.graveler.keys import prefix_interval
from sparklake.graveler.planning.plan import plan_diff
from sparklake.metadata.delta.actions import encode_actions
from sparklake.metadata.delta.file_names import LOG_FOLDER, log_key
from sparklake.metadata.delta.union.dropped import describe_dropped
from sparklake.metadata.delta.union.log_sides import LogSide, UnitedLog
from sparklake.metadata.delta.union.rows import can_merge_rows
from sparklake.metadata.delta.union.unite import united
from sparklake.metadata.formats import table_of
from sparklake.metadata.union.conflicts import UnmergeableTableError, refusing
from sparklake.metadata.union.dropped import DroppedCommits
from sparklake.strategies.resolution import Resolution
from sparklake.strategies.row_strategy import Rows
from sparklake.udfs.diffs import removed_batch
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.merge_bases import BASE, DEST, SOURCE, ThreeWayTrees
from sparklake.verbs.delta import tree_log
from sparklake.verbs.delta.row_checks import find_violation
from sparklake.verbs.delta.rows import DeltaRows, needed_keys, union_signature
from sparklake.verbs.delta.vectors import VectorReader
from sparklake.verbs.diffs.differences import streamed_keys
from sparklake.verbs.tables.format import Meets
from sparklake.verbs.tables.metadata_folders import disputed_bases
from sparklake.verbs.tables.unions import (
    ChangedTable,
    OneSide,
    Pending,
    Refused,
    RowCheck,
    TableUnion,
    Taken,
    changed_values,
    record_ids,
)

_LOG = LOG_FOLDER.encode()


def delta_union(
    context: Context, sides: ThreeWayTrees, folder: bytes, resolution: Resolution, meets: Meets
) -> TableUnion | None:
    """Return the union of a table, or None if a merge by keys is correct."""
    base, source, dest = logs = [tree_log.read_log(context, tree, folder) for tree in sides.trees]
    if source.ids == dest.ids:
        return None
    table = ChangedTable(table_of(folder), changed_values(logs), "Delta")
    if source.ids == base.ids or not sides.path_filter.parts(prefix_interval(folder)):
        return _of_one_side(context, sides, table, logs, DEST, meets)
    if not sides.path_filter.holds(prefix_interval(folder)) and (
        dest.ids != base.ids or any(key not in sides.path_filter for key in table.log)
    ):
        return table.refused("the selected paths include only a part of its log")
    if dest.ids == base.ids and not (sides.logs_grow and _is_older(source, dest)):
        return _of_one_side(context, sides, table, logs, SOURCE, meets)
    return _united(context, sides, table, logs, resolution)


def _united(
    context: Context,
    sides: ThreeWayTrees,
    table: ChangedTable,
    logs: Sequence[tree_log.TreeLog],
    resolution: Resolution,
) -> TableUnion:
    base, dest = logs[BASE], logs[DEST]
    trees = _trees(context, sides, base)
    logs = [*(tree_log.read_log(context, each, base.folder) for each in trees[:-2]), *logs[1:]]
    try:
        read = VectorReader(context, trees, table.folder).deleted_rows
        log_sides = [replace(each, deleted_rows=read) for each in tree_log.log_sides(logs)]
    except UnmergeableTableError as error:
        return table.refused(error)
    *bases, source_log, dest_log = log_sides
    rule = resolution.rows(table.folder)
    conflict = _LogConflict(
        context, sides, table, trees, logs=logs, log_sides=log_sides, resolution=resolution
    )
    try:
        merged = _over_all(bases, source_log, dest_log)
        needed = needed_keys(logs, conflict.apart, -1, merged.commits)
    except UnmergeableTableError as error:
        return conflict.settled(error)
    files = {
        log_key(version): encode_actions(actions)
        for version, actions in enumerate(merged.commits, dest.latest + 1)
    }
    union = table.united({**merged.files, **files})
    union = replace(union, needed=dict.fromkeys(each for each in needed if each not in union.added))
    check = pending = None
    if merged.row_claims:
        identity = base.folder, "constraints", *(tuple(each.ids.items()) for each in logs)
        name = table.folder.decode()
        find_problem = partial(find_violation, context, trees, name, merged.row_claims)
        check = RowCheck(identity, find_problem, conflict.violated)
    if rule is not None and merged.commits and dest.ids != base.ids:
        commits = merged.commits if len(bases) == 1 else None
        pending = DeltaRows(context, trees, rule, logs=logs, log_sides=log_sides, union=commits)
    return Pending(union=union, check=check, rows=pending) if check or pending else union


@dataclass(frozen=True, slots=True)
class _LogConflict:
    """A table's logs, and the resolution of a conflict between them.

    `trees`, `logs` and `log_sides` are those of base, source and dest.
    """

    context: Context
    sides: ThreeWayTrees
    table: ChangedTable
    trees: Sequence[MetaRangeId]
    logs: Sequence[tree_log.TreeLog]
    log_sides: Sequence[LogSide]
    resolution: Resolution

    @property
    def apart(self) -> list[tree_log.Commits]:
        return [each.commits for each in self.log_sides]

    def settled(self, error: UnmergeableTableError) -> TableUnion:
        union = self.violated(error)
        rule = self.resolution.rows(self.table.folder)
        if isinstance(union, Taken) or not union.may_be_taken:
            return union
        if rule is None:
            return replace(union, may_merge_rows=can_merge_rows(self.log_sides))
        rows = DeltaRows(self.context, self.trees, rule, self.logs, self.log_sides)
        return Pending(union=union, rows=rows)

    def violated(self, error: UnmergeableTableError) -> Refused | Taken:
        """Return a strategy's side, or a conflict that a row merge would not resolve."""
        old, *_, theirs, ours = self.apart
        drops = {
            Strategy.SOURCE_WINS: describe_dropped("dest", ours, theirs, old),
            Strategy.DEST_WINS: describe_dropped("source", theirs, ours, old),
        }
        refused = replace(self.table.refused(error), drops=drops, overlaps=error.rows)
        if any(each.metadata is None for each in self.log_sides[-2:]):
            # One side dropped the table. No log lists the files that the other side needs.
            return refused
        winner = self.resolution.side(self.logs[DEST].folder)
        return replace(refused, may_be_taken=True) if winner is None else self._taken(winner, drops)

    def _taken(self, winner: Strategy, drops: Mapping[Strategy, DroppedCommits]) -> Refused | Taken:
        """Return the winner's side of the whole table, if possible."""
        place = -2 if winner is Strategy.SOURCE_WINS else -1
        try:
            needed = needed_keys(self.logs, self.apart, place)
        except UnmergeableTableError as error:
            return self.table.refused(error)
        tree = self.sides.trees[place]
        selected = {each for each in needed if each in self.sides.path_filter}
        union = self.table.taken(winner, drops[winner]).keeping(self.context, tree, selected)
        ids = record_ids(self.context, tree, {*needed} - selected)
        return replace(union, needed={**union.needed, **ids})


def _trees(context: Context, sides: ThreeWayTrees, base: tree_log.TreeLog) -> list[MetaRangeId]:
    """Return the trees of base, source and dest, with all merge bases that disagree on a log."""
    disputed = [tree for tree, _ in disputed_bases(context, sides, base)]
    return [*(disputed or [sides.base]), sides.source, sides.dest]


def _over_all(bases: Sequence[LogSide], source: LogSide, dest: LogSide) -> UnitedLog:
    """Return the union over each merge base, if they are equal."""
    signature = union_signature()
    merged, *others = (united(each, source, dest, signature) for each in bases)
    if any(each.commits != merged.commits for each in others):
        raise UnmergeableTableError("the merge bases disagree on the table, and so do its merges")
    # What is new on a side depends on the base.
    claims = [claim for each in (merged, *others) for claim in each.row_claims]
    return replace(merged, row_claims=tuple(claims))


def find_delta_rows(
    context: Context, sides: ThreeWayTrees, folder: str, rows: Rows
) -> DeltaRows | None:
    """Return the changed rows of a table, or None if a side has no Delta table there.

    Raises:
        InvalidInputError: A log cannot be read.
    """
    log = folder.encode() + _LOG
    base = tree_log.read_log(context, sides.base, log)
    trees = _trees(context, sides, base)
    logs = [tree_log.read_log(context, tree, log) for tree in trees]
    if not (logs[-2].commits and logs[-1].commits):
        return None
    with refusing():
        return DeltaRows(context, trees, rows, logs, tree_log.log_sides(logs))


def _is_older(source: tree_log.TreeLog, dest: tree_log.TreeLog) -> bool:
    """Return whether source's log is dest's without the last versions.

    False if source has no table, or one with a different history, which is removed or added as a
    whole.
    """
    same = source.commits.keys() & dest.commits.keys()
    return 0 <= source.latest < dest.latest and all(
        source.ids[source.commits[each]] == dest.ids[dest.commits[each]] for each in same
    )


def _of_one_side(
    context: Context,
    sides: ThreeWayTrees,
    table: ChangedTable,
    logs: Sequence[tree_log.TreeLog],
    place: int,
    meets: Meets,
) -> TableUnion | None:
    """Return the union of a table with one changed log, None if a merge by keys is safe."""
    inside = prefix_interval(table.folder)
    if sides.path_filter.holds(inside) and not meets(inside):
        return None
    try:
        needed = needed_keys(logs, tree_log.commits_apart(logs), place)
    except UnmergeableTableError as error:
        other = sides.trees[DEST if place == SOURCE else SOURCE]
        missing = _gone_files(context, logs[place].folder, sides.base, other)
        return table.refused(error, by_one_side=True) if missing else None
    return OneSide(table=table, needed=record_ids(context, sides.trees[place], needed))


def _gone_files(
    context: Context, folder: bytes, base: MetaRangeId, side: MetaRangeId
) -> frozenset[str]:
    """Return a table's files in base but not in a side, from differing ranges."""
    table = table_of(folder)
    before, after = (context.trees.get(each).ranges for each in (base, side))
    plan = plan_diff(before, after, prefix_interval(table))
    keys = streamed_keys(context, plan, removed_batch, table.decode(errors="replace"))
    # A log refers to files with UTF-8 names only.
    names = {key[len(table) :].decode(errors="replace") for key in keys}
    return frozenset(each for each in names if not each.startswith(LOG_FOLDER))
