"""What every verb of a repository works with."""

from __future__ import annotations

import time
from collections.abc import Container, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from heapq import nlargest
from threading import Lock
from typing import Protocol

from cachetools import LRUCache

from sparklake.engine.base import Runner
from sparklake.engine.choice import Runners
from sparklake.errors import CorruptFileError
from sparklake.graveler.commits import Commit
from sparklake.graveler.ids import EMPTY_META_RANGE, CommitId, MetaRangeId
from sparklake.graveler.planning.change_summary import ChangeSummary, KnownKeys, summary_between
from sparklake.graveler.ports import (
    BranchMove,
    ObjectStore,
    RefVerb,
    RepositoryInfo,
    RepositoryRefs,
)
from sparklake.graveler.ranges import MetaRange
from sparklake.graveler.sstable.range_files import read_meta_range
from sparklake.udfs.workspace import Workspace
from sparklake.verbs.base.lookup import OpenRanges

_TREES_KEPT = 32
_COMMITS_KEPT = 200_000
_FIRST_STRETCH = 64
_LAST_STRETCH = 4096


class MoveGuard(Protocol):
    """What may refuse a change of refs before it, and hears of it after it."""

    def around_move(self, context: Context, move: BranchMove) -> AbstractContextManager[None]:
        """Guard the move of a branch over new commits; raise HookFailedError before it."""

    def around_name(
        self, context: Context, verb: RefVerb, name: str, start: Commit | None = None
    ) -> AbstractContextManager[None]:
        """Guard a name's coming, at `start`, or its going; raise HookFailedError before it."""


@dataclass(frozen=True, slots=True)
class Context:
    """One repository, opened."""

    info: RepositoryInfo
    workspace: Workspace
    store: ObjectStore
    refs: RepositoryRefs
    runners: Runners
    committer: str
    graph: CommitGraph
    trees: Trees
    open_ranges: OpenRanges
    move_guard: MoveGuard

    def title(self, verb: str, what: str) -> str:
        """Return what the Spark UI shows of a verb's jobs."""
        return f"sparklake {verb} {self.info.name}: {what}"

    def runner(self, records: int, verb: str, what: str) -> Runner:
        """Return the runner for a plan of some size."""
        return self.runners.choose(records, self.title(verb, what))

    def tree(self, commit: Commit) -> MetaRange:
        """Return the metarange of a commit."""
        return self.trees.get(commit.meta_range_id)

    def tree_before(self, commit: Commit, number: int = 1) -> MetaRangeId:
        """Return the tree of a parent of a commit, of a first commit the empty one."""
        if not commit.parents:
            return EMPTY_META_RANGE
        return self.graph.commit(commit.parents[number - 1]).meta_range_id


class Trees:
    """Reads metaranges, and keeps the latest ones: they never change."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._lock = Lock()
        self._kept: LRUCache[MetaRangeId, MetaRange] = LRUCache(_TREES_KEPT)
        self._known: LRUCache[tuple[MetaRangeId, MetaRangeId], KnownKeys] = LRUCache(_TREES_KEPT)

    def get(self, meta_range_id: MetaRangeId) -> MetaRange:
        """Return a metarange; raise MissingFileError or CorruptFileError."""
        with self._lock:
            found = self._kept.get(meta_range_id)
        return self.keep(read_meta_range(self._store, meta_range_id)) if found is None else found

    def keep(self, tree: MetaRange) -> MetaRange:
        """Keep a metarange that was just read or written; return it."""
        with self._lock:
            self._kept[tree.id] = tree
        return tree

    def keep_known(self, before: MetaRangeId, after: MetaRangeId, known: KnownKeys) -> None:
        """Keep what is known of the keys that differ between two trees."""
        with self._lock:
            self._known[before, after] = known

    def change_summary(self, before: MetaRangeId, after: MetaRangeId) -> ChangeSummary | None:
        """Return what may differ between two trees; None unless both are at hand."""
        with self._lock:
            one, other = self._kept.get(before), self._kept.get(after)
            known = self._known.get((before, after))
        if one is None or other is None:
            return None
        return summary_between(one.ranges, other.ranges, known)


@dataclass(slots=True)
class CommitGraph:
    """Reads commits, and keeps the latest ones: they never change.

    A walk fetches ever larger stretches of history, so its round trips grow with the logarithm of
    its length.
    """

    refs: RepositoryRefs
    _known: dict[CommitId, Commit] = field(default_factory=dict)
    _stretch: int = _FIRST_STRETCH

    def commit(self, commit_id: CommitId) -> Commit:
        """Return one commit that must be there, since a ref or another commit names it."""
        found = self._known.get(commit_id) or self.refs.commits.find(commit_id)
        if found is None:
            raise CorruptFileError(f"the commit {commit_id} is named but not there")
        self._keep([found])
        return found

    def ancestor(self, commit_id: CommitId) -> Commit:
        """Return a commit as a walk does that will ask for its ancestors next."""
        if commit_id not in self._known:
            self._keep(self.refs.commits.ancestry([commit_id], self._stretch))
            self._stretch = min(2 * self._stretch, _LAST_STRETCH)
        return self.commit(commit_id)

    def first_ancestor(self, commit: Commit, steps: int) -> Commit | None:
        """Return the commit that many first parents back, None past the first."""
        if steps > _FIRST_STRETCH:
            found = self.refs.commits.first_ancestor(commit.id, steps)
            return found and self._known.setdefault(found.id, found)
        for _ in range(steps):
            if not commit.parents:
                return None
            commit = self.ancestor(commit.parents[0])
        return commit

    def known_below(self, commit: Commit, most: int, but: Container[CommitId]) -> list[CommitId]:
        """Return the nearest commits that have been read of a generation no higher, but for some.

        There are at most so many of them.
        """
        below = (
            each
            for each in list(self._known.values())  # other threads may add some
            if each.generation <= commit.generation and each.id not in but
        )
        return [each.id for each in nlargest(most, below, key=lambda each: each.generation)]

    def find_known(self, commit_id: CommitId) -> Commit | None:
        """Return a commit that has been read before."""
        return self._known.get(commit_id)

    def read_down_to(self, commit_ids: Sequence[CommitId], least: int) -> Sequence[Commit]:
        """Read commits and their ancestors down to a generation, in one round trip."""
        found = self.refs.commits.ancestry_down_to(commit_ids, least)
        self._keep(found)
        return found

    def _keep(self, commits: Sequence[Commit]) -> None:
        """Keep commits, and let go of those that were read longest ago when there are many."""
        for each in commits:
            self._known.pop(each.id, None)
            self._known[each.id] = each
        if len(self._known) > _COMMITS_KEPT:
            kept = max(_COMMITS_KEPT // 2, len(commits))
            for name in list(self._known)[:-kept]:
                self._known.pop(name, None)


@dataclass(slots=True)
class Walk:
    """A way down a history by descending generation.

    It reads a band of generations at a time, of all its lines at once: a commit is read about once,
    however often branches part and merge, and round trips grow with the logarithm of the number of
    commits until a band has enough of them.
    """

    graph: CommitGraph
    _band: int = _FIRST_STRETCH
    _missing: dict[CommitId, int] = field(default_factory=dict)
    """The generation of a child of each parent that was met and is not known."""

    def commit(self, commit_id: CommitId) -> Commit:
        """Return where the walk begins, or a parent of what it has met."""
        if commit_id in self._missing and self.graph.find_known(commit_id) is None:
            self._read(self._missing[commit_id] - self._band)
        return self.graph.commit(commit_id)

    def parents(self, commit_id: CommitId) -> Sequence[CommitId]:
        """Return the parents of a commit, which the walk goes on to."""
        commit = self.commit(commit_id)
        self._meet(commit)
        return commit.parents

    def generation(self, commit_id: CommitId) -> int:
        """Return the generation of a commit."""
        return self.commit(commit_id).generation

    def _read(self, least: int) -> None:
        near = [each for each, above in self._missing.items() if above > least]
        found = self.graph.read_down_to(near, least)
        for each in found:
            self._meet(each)
        self._missing = {
            each: above
            for each, above in self._missing.items()
            if self.graph.find_known(each) is None
        }
        if len(found) < _LAST_STRETCH:
            self._band *= 2
        elif self._band > 1:
            self._band //= 2

    def _meet(self, commit: Commit) -> None:
        for each in commit.parents:
            if self.graph.find_known(each) is None:
                self._missing[each] = min(
                    commit.generation, self._missing.get(each, commit.generation)
                )


def now() -> int:
    """Return the time in unix seconds."""
    return int(time.time())
