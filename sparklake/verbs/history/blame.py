"""Blame: the commit that gave each object below a prefix its current state.

Each object follows the first parent that has an equal record. The walk stops at the commit whose
parents all lack one, and that commit gets the object. Objects with the same path through the
history are walked together.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from sparklake.engine.sort import sliced
from sparklake.engine.spark import shipped
from sparklake.graveler.blocks.block import Block, concatenated
from sparklake.graveler.blocks.columns import Ids, Positions
from sparklake.graveler.commits import Commit
from sparklake.graveler.keys import Interval, key_path, key_prefix, prefix_interval
from sparklake.graveler.planning.change_summary import ChangeSummary, name_hashes
from sparklake.graveler.planning.plan import plan_diff
from sparklake.graveler.sstable.range_files import read_ranges
from sparklake.verbs.base.context import Context, Walk
from sparklake.verbs.base.resolve import get_commit
from sparklake.verbs.base.snapshot import RangeLayer
from sparklake.verbs.history.log import log_position
from sparklake.verbs.history.log_rows import spark_timestamps
from sparklake.verbs.history.path_changes import ChangeSummaries

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

OBJECTS_AT_ONCE = 100_000
"""The number of objects whose history is walked together. Memory grows with it."""

BLAME_SCHEMA = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        pa.field("commit_id", pa.string(), nullable=False),
        pa.field("committer", pa.string(), nullable=False),
        pa.field("creation_date", pa.timestamp("us", tz="UTC"), nullable=False),
        pa.field("message", pa.string(), nullable=False),
    ]
)

BLAME_DDL = (
    "path string, commit_id string, committer string, creation_date timestamp, message string"
)

_FEW = 16
"""The number of objects up to which all are looked up, without a diff of ranges first."""

_NONE = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class BlameRow:
    """An object, and the commit that gave it its current state."""

    path: str
    commit: Commit


@dataclass(frozen=True, slots=True)
class Blame:
    """The result of a blame, in byte order of paths. Iterating streams it."""

    _context: Context
    _commit: Commit
    _within: Interval

    def __iter__(self) -> Iterator[BlameRow]:
        for keys, commits in self._found():
            for key, commit in zip(keys, commits, strict=True):
                yield BlameRow(key_path(key), commit)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Stream Arrow batches of BLAME_SCHEMA."""
        for keys, commits in self._found():
            yield pa.record_batch(
                [
                    pa.array(map(key_path, keys), pa.string(), size=len(keys)),
                    [each.id for each in commits],
                    [each.committer for each in commits],
                    spark_timestamps([each.creation_date for each in commits]),
                    [each.message for each in commits],
                ],
                schema=BLAME_SCHEMA,
            )

    def to_arrow(self) -> pa.Table:
        """Return all rows as one Arrow table of BLAME_SCHEMA, in memory."""
        return pa.Table.from_batches(self.batches(), BLAME_SCHEMA)

    def to_df(self) -> DataFrame:
        """Return the rows as a Spark DataFrame. Partitions are in order.

        This process walks the history, because tasks never query Postgres. It keeps the rows
        compressed.
        """
        return shipped(self._context.runners.on_spark(), self.batches(), BLAME_DDL)

    def _found(self) -> Iterator[tuple[list[bytes], Sequence[Commit]]]:
        """Yield keys with their commits, block by block."""
        for block in self._blocks():
            commits = _BlameWalk(self._context, self._within, block).commits(self._commit)
            yield block.key_array().to_pylist(), commits

    def _blocks(self) -> Iterator[Block]:
        """Return the records of the tree in blocks of OBJECTS_AT_ONCE."""
        ranges = self._context.tree(self._commit).ranges
        blocks = read_ranges(self._context.store, ranges, self._within)
        return map(concatenated, sliced(blocks, OBJECTS_AT_ONCE, len))


def blame(context: Context, ref: str, prefix: str) -> Blame:
    """Return the commit that gave each committed object of a ref its current state."""
    return Blame(context, get_commit(context, ref), prefix_interval(key_prefix(prefix)))


class _BlameWalk:
    """The walk through the history of some objects. Rows are positions among them."""

    def __init__(self, context: Context, within: Interval, block: Block) -> None:
        self._context = context
        self._within = within
        self._keys: list[bytes] = block.key_array().to_pylist()
        self._ids: Ids = block.ids
        self._walk = Walk(context.graph)
        self._summaries = ChangeSummaries(context)
        names = name_hashes(self._keys)
        self._order = np.argsort(names, kind="stable")
        self._hashes = names[self._order]

    def commits(self, start: Commit) -> Sequence[Commit]:
        """Return the commit of each object. All objects exist in `start`."""
        found = [start] * len(self._keys)
        pending = {start.id: [np.arange(len(self._keys))]}
        queue = [log_position(start)]
        while queue:
            commit = self._walk.commit(heappop(queue)[2])
            rows = np.sort(np.concatenate(pending.pop(commit.id)))
            for parent, passed in self._passed(commit, rows):
                if parent.id not in pending:
                    pending[parent.id] = []
                    heappush(queue, log_position(parent))
                pending[parent.id].append(passed)
                rows = np.setdiff1d(rows, passed, assume_unique=True)
            for row in rows.tolist():
                found[row] = commit
        return found

    def _passed(self, commit: Commit, rows: Positions) -> Iterator[tuple[Commit, Positions]]:
        """Yield parents, each with the objects that have an equal record in it."""
        for parent_id in self._walk.parents(commit.id):
            if not len(rows):
                return
            parent = self._walk.commit(parent_id)
            new = self._new(commit, parent, rows)
            if len(new) < len(rows):
                yield parent, np.setdiff1d(rows, new, assume_unique=True) if len(new) else rows
            rows = new

    def _new(self, commit: Commit, parent: Commit, rows: Positions) -> Positions:
        """Return the rows without an equal record in a parent."""
        if commit.meta_range_id == parent.meta_range_id:
            return _NONE
        if parent.id == commit.parents[0]:
            summary = self._summaries.find(commit)
            if summary is not None:
                rows = _common(rows, self._suspects(summary))
        if len(rows) > _FEW:
            rows = _common(rows, self._apart(parent, commit))
        if not len(rows):
            return _NONE
        same = np.zeros(len(rows), bool)
        layer = RangeLayer(self._context.open_ranges, self._context.tree(parent).ranges)
        if len(rows) <= _FEW:
            # For few objects, only one data block of a range is opened for each.
            for at, row in enumerate(rows.tolist()):
                stored = layer.find(self._keys[row])
                same[at] = stored is not None and stored.endswith(self._ids[row].tobytes())
            return rows[~same]
        for block, places in layer.found([self._keys[row] for row in rows.tolist()]):
            same[places] = (block.ids == self._ids[rows[places]]).all(axis=1)
        return rows[~same]

    def _suspects(self, summary: ChangeSummary) -> Positions:
        """Return the rows that a commit may have touched."""
        first = self._hashes.searchsorted(summary.names)
        last = self._hashes.searchsorted(summary.names, "right")
        hits = np.flatnonzero(last > first).tolist()
        by_name = [self._order[first[at] : last[at]] for at in hits]
        return _joined([*by_name, *map(self._inside, summary.intervals)])

    def _apart(self, left: Commit, right: Commit) -> Positions:
        """Return the rows in ranges with different ids."""
        one, other = (self._context.tree(each).ranges for each in (left, right))
        plan = plan_diff(one, other, self._within)
        return _joined([self._inside(each.interval) for each in plan.stretches])

    def _inside(self, interval: Interval) -> Positions:
        first = bisect_left(self._keys, interval.start)
        stop = interval.stop
        return np.arange(first, len(self._keys) if stop is None else bisect_left(self._keys, stop))


def _joined(parts: Sequence[Positions]) -> Positions:
    return np.unique(np.concatenate(parts)) if parts else _NONE


def _common(rows: Positions, others: Positions) -> Positions:
    """Return the rows that are among others. Both are in ascending order."""
    if not len(others):
        return _NONE
    at = np.minimum(rows.searchsorted(others), len(rows) - 1)
    common: Positions = others[rows[at] == others]
    return common
