"""Searches for the last change of records.

A record follows the first parent with an equal record, up to the commit whose parents all lack one.
Records with the same path through the history are walked together.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np

from sparklake.errors import CorruptFileError, ExpiredError, MissingFileError
from sparklake.graveler.buffers import Ids, Mask, Positions
from sparklake.graveler.commits import Commit
from sparklake.graveler.ids import RECORD_ID_BYTES, CommitId
from sparklake.graveler.keys import Interval, successor
from sparklake.graveler.planning.change_summary import ChangeSummary, name_hashes
from sparklake.graveler.planning.plan import plan_diff
from sparklake.verbs.base.commit_graph import Walk
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.snapshot import RangeLayer
from sparklake.verbs.history.log import log_position
from sparklake.verbs.history.path_changes import ChangeSummaries

_FEW = 16
"""The number of records up to which all are looked up, without a diff of ranges first."""

_NONE = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class SearchedRecords:
    """Records in ascending key order. An absent record has no id, and arbitrary bytes in `ids`."""

    keys: list[bytes]
    ids: Ids
    absent: Mask

    @staticmethod
    def present(keys: list[bytes], ids: Ids) -> SearchedRecords:
        return SearchedRecords(keys, ids, np.zeros(len(keys), bool))

    @staticmethod
    def of(record_ids: Sequence[tuple[bytes, bytes | None]]) -> SearchedRecords:
        """Return keys with their record ids, in ascending order of keys; None is no record."""
        keys = [key for key, _ in record_ids]
        packed = b"".join(each or bytes(RECORD_ID_BYTES) for _, each in record_ids)
        ids = np.frombuffer(packed, np.uint64).reshape(len(keys), RECORD_ID_BYTES // 8)
        return SearchedRecords(keys, ids, np.array([each is None for _, each in record_ids], bool))


@dataclass(frozen=True, slots=True)
class WalkLimits:
    """The maximum numbers of visited commits and opened trees."""

    commits: int
    trees: int


class _LimitReachedError(Exception):
    """A walk that reached its limits."""


def last_changes(
    context: Context,
    start: CommitId,
    record_ids: Sequence[tuple[bytes, bytes | None]],
    limits: WalkLimits,
) -> list[Commit | None]:
    """Return the last change of each key to its record id, up to `start`.

    Keys are ascending; an id of None is a removed object. The result is None if `start` has a
    different record, beyond the limits, or if a tree is collected or damaged.
    """
    if not record_ids:
        return []
    within = Interval(record_ids[0][0], successor(record_ids[-1][0]))
    walk = OriginWalk(context, within, SearchedRecords.of(record_ids), limits)
    # These commits only help people to decide. A conflict is reported even without them.
    with suppress(_LimitReachedError, ExpiredError, MissingFileError, CorruptFileError):
        walk.visit(context.graph.commit(start))
    return walk.found


class OriginWalk:
    """The walk through the history of the given records. Rows are positions among them."""

    def __init__(
        self,
        context: Context,
        within: Interval,
        records: SearchedRecords,
        limits: WalkLimits | None = None,
    ) -> None:
        self.found: list[Commit | None] = [None] * len(records.keys)
        self._context = context
        self._within = within
        self._keys = records.keys
        self._ids = records.ids
        self._absent = records.absent
        self._limits = limits
        self._visited = self._opened = 0
        self._walk = Walk(context.graph)
        self._summaries = ChangeSummaries(context)
        names = name_hashes(self._keys)
        self._order = np.argsort(names, kind="stable")
        self._hashes = names[self._order]

    def visit(self, start: Commit) -> None:
        rows = np.arange(len(self._keys))
        self._trace(start, rows[self._equal(start, rows)])

    def commits(self, start: Commit) -> list[Commit]:
        """Return the commit of each record. All of them exist in `start`."""
        self._trace(start, np.arange(len(self._keys)))
        return [each for each in self.found if each is not None]

    def _trace(self, start: Commit, rows: Positions) -> None:
        pending = {start.id: [rows]}
        queue = [log_position(start)]
        while queue:
            commit = self._walk.commit(heappop(queue)[2])
            self._visited += 1
            self._check_limits()
            rows = np.sort(np.concatenate(pending.pop(commit.id)))
            for parent, passed in self._passed(commit, rows):
                if parent.id not in pending:
                    pending[parent.id] = []
                    heappush(queue, log_position(parent))
                pending[parent.id].append(passed)
                rows = np.setdiff1d(rows, passed, assume_unique=True)
            # In a first commit, no object was removed.
            changed = rows if commit.parents else rows[~self._absent[rows]]
            for row in changed.tolist():
                self.found[row] = commit

    def _check_limits(self) -> None:
        limits = self._limits
        if limits and (self._visited > limits.commits or self._opened > limits.trees):
            raise _LimitReachedError

    def _passed(self, commit: Commit, rows: Positions) -> Iterator[tuple[Commit, Positions]]:
        for parent_id in self._walk.parents(commit.id):
            if not len(rows):
                return
            parent = self._walk.commit(parent_id)
            new = self._new(commit, parent, rows)
            if len(new) < len(rows):
                yield parent, np.setdiff1d(rows, new, assume_unique=True) if len(new) else rows
            rows = new

    def _new(self, commit: Commit, parent: Commit, rows: Positions) -> Positions:
        if commit.meta_range_id == parent.meta_range_id:
            return _NONE
        if parent.id == commit.parents[0]:
            summary = self._summaries.find(commit)
            if summary is not None:
                rows = _common(rows, self._suspects(summary))
        if len(rows) > _FEW:
            rows = _common(rows, self._apart(parent, commit))
        return rows[~self._equal(parent, rows)] if len(rows) else _NONE

    def _equal(self, commit: Commit, rows: Positions) -> Mask:
        """Return the mask of rows with an equal record in a commit, or absent in both."""
        self._opened += 1
        self._check_limits()
        layer = RangeLayer(self._context.open_ranges, self._context.tree(commit).ranges)
        same = self._absent[rows]
        if len(rows) <= _FEW:
            # For few records, only one data block of a range is opened for each.
            for at, row in enumerate(rows.tolist()):
                stored = layer.find(self._keys[row])
                if stored is not None:
                    same[at] = not same[at] and stored.endswith(self._ids[row].tobytes())
            return same
        for block, places in layer.found([self._keys[row] for row in rows.tolist()]):
            equal = (block.ids == self._ids[rows[places]]).all(axis=1)
            same[places] = equal & ~same[places]
        return same

    def _suspects(self, summary: ChangeSummary) -> Positions:
        first = self._hashes.searchsorted(summary.names)
        last = self._hashes.searchsorted(summary.names, "right")
        hits = np.flatnonzero(last > first).tolist()
        by_name = [self._order[first[at] : last[at]] for at in hits]
        return _joined([*by_name, *map(self._inside, summary.intervals)])

    def _apart(self, left: Commit, right: Commit) -> Positions:
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
    """Return the rows contained in others. Both are ascending."""
    if not len(others):
        return _NONE
    at = np.minimum(rows.searchsorted(others), len(rows) - 1)
    common: Positions = others[rows[at] == others]
    return common
