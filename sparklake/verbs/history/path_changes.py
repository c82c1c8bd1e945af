"""Commits with changes of an object, or below a prefix."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from sparklake.errors import InvalidInputError
from sparklake.graveler.algebra.compare import diff
from sparklake.graveler.commits import Commit
from sparklake.graveler.ids import EMPTY_META_RANGE, RECORD_ID_BYTES, CommitId, MetaRangeId
from sparklake.graveler.keys import existing_key, key_prefix, successor
from sparklake.graveler.planning.change_summary import (
    ChangeSummary,
    SearchTarget,
    decode_summary,
    name_hash,
)
from sparklake.graveler.planning.plan import plan_diff
from sparklake.graveler.sstable.range_files import read_ranges
from sparklake.verbs.base.commit_graph import Walk
from sparklake.verbs.base.context import Context, naming_collected

if TYPE_CHECKING:
    import numpy as np

_READ_AT_ONCE = 4096


def target_of(path: str | None, prefix: str | None) -> SearchTarget | None:
    """Return the target of a search in history, or None for all objects."""
    if path is not None and prefix is not None:
        raise InvalidInputError(f"choose one of the path {path!r} and the prefix {prefix!r}")
    if path is not None:
        return SearchTarget.key(existing_key(path))
    return None if prefix is None else SearchTarget.prefix(key_prefix(prefix))


class ChangeSummaries:
    """A cache of change summaries against first parents, read in batches."""

    def __init__(self, context: Context) -> None:
        self._graph = context.graph
        self._kept: dict[CommitId, bytes | None] = {}

    def find(self, commit: Commit) -> ChangeSummary | None:
        if commit.id not in self._kept:
            batch = self._graph.known_below(commit, _READ_AT_ONCE, self._kept)
            batch = list(dict.fromkeys([commit.id, *batch]))
            summaries = self._graph.refs.commits.change_summaries(batch)
            self._kept.update((each, summaries.get(each)) for each in batch)
        encoded = self._kept[commit.id]
        return None if encoded is None else decode_summary(encoded)


class ChangeTest:
    """A test of commits for changes to the target."""

    def __init__(self, context: Context, walk: Walk, target: SearchTarget) -> None:
        self._context = context
        self._walk = walk
        self._target = target
        self._summaries = ChangeSummaries(context)

    def origin(self, commit: Commit, parents: Sequence[CommitId]) -> CommitId | None:
        """Return the first parent with equal target objects, or None."""
        with naming_collected(self._context, [commit.id, *parents]):
            if not parents:
                return None if self._differ(EMPTY_META_RANGE, commit.meta_range_id) else commit.id
            for each in parents:
                parent = self._walk.commit(each)
                if each == commit.parents[0] and self._is_untouched(commit, parent):
                    return each
                if not self._differ(parent.meta_range_id, commit.meta_range_id):
                    return each
        return None

    def _is_untouched(self, commit: Commit, parent: Commit) -> bool:
        """Return whether a commit is known to equal its first parent, without reads."""
        if commit.meta_range_id == parent.meta_range_id:
            return True
        summary = self._summaries.find(commit)
        if summary is not None:
            return not summary.may_hold(self._target.interval, self._name_hash)
        return any(
            self._leads_to(each, parent)
            for each in map(self._walk.commit, commit.parents[1:])
            if each.meta_range_id == commit.meta_range_id
        )

    def _leads_to(self, commit: Commit, ancestor: Commit) -> bool:
        """Return whether the first-parent line to an ancestor has no change to the target."""
        while commit.generation > ancestor.generation:
            summary = self._summaries.find(commit)
            parents = self._walk.parents(commit.id)
            if not parents:
                return False
            parent = self._walk.commit(parents[0])
            if commit.meta_range_id != parent.meta_range_id and (
                summary is None or summary.may_hold(self._target.interval, self._name_hash)
            ):
                return False
            commit = parent
        return commit.id == ancestor.id

    @cached_property
    def _name_hash(self) -> np.uint64:
        return name_hash(self._target.name)

    def _differ(self, left: MetaRangeId, right: MetaRangeId) -> bool:
        if left == right:
            return False
        interval = self._target.interval
        if interval.stop == successor(interval.start):
            return self._record_id(left) != self._record_id(right)
        trees = self._context.trees
        plan = plan_diff(trees.get(left).ranges, trees.get(right).ranges, interval)
        store = self._context.store
        for piece in plan.stretches:
            sides = (read_ranges(store, each.ranges, piece.interval) for each in piece.sides)
            if next(diff(*sides), None) is not None:
                return True
        return False

    def _record_id(self, tree: MetaRangeId) -> bytes | None:
        ranges = self._context.trees.get(tree).ranges
        stored = self._context.open_ranges.lookup(ranges, self._target.interval.start)
        return None if stored is None else stored[-RECORD_ID_BYTES:]
