"""The environment of every verb of a repository."""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cached_property
from heapq import nlargest
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol

from cachetools import LRUCache

from sparklake.config import DEFAULT_ONCE, OnceSettings
from sparklake.errors import CorruptFileError, MissingFileError
from sparklake.graveler.commits import Commit
from sparklake.graveler.ids import EMPTY_META_RANGE, CommitId, MetaRangeId
from sparklake.graveler.ports.once import OnceRecord
from sparklake.graveler.retention import collected_error
from sparklake.rows.settings import Workspace

# Lazy imports: numpy and Arrow take 0.25 s, which a list of branches does not need.
if TYPE_CHECKING:
    from sparklake.engine.base import Runner
    from sparklake.engine.choice import Runners
    from sparklake.graveler.planning.change_summary import ChangeSummary, KnownKeys
    from sparklake.graveler.ports import (
        BranchMove,
        ObjectStore,
        RefVerb,
        RepositoryInfo,
        RepositoryRefs,
    )
    from sparklake.graveler.ranges import MetaRange
    from sparklake.verbs.base.lookup import OpenRanges

_TREES_KEPT = 32
_COMMITS_KEPT = 200_000
_FIRST_STRETCH = 64
_LAST_STRETCH = 4096


class MoveGuard(Protocol):
    """A guard that may refuse a change of refs, and that is notified after it."""

    def around_move(self, context: Context, move: BranchMove) -> AbstractContextManager[None]:
        """Guard the move of a branch over new commits; raise HookFailedError before it."""

    def around_name(
        self, context: Context, verb: RefVerb, name: str, start: Commit | None = None
    ) -> AbstractContextManager[None]:
        """Guard the creation of a name, at `start`, or its deletion.

        Raises HookFailedError before the change.
        """


@dataclass(frozen=True, slots=True)
class OnceRun:
    """A run with a once key. `encode` returns the stored form of the verb's result."""

    key: str
    digest: str
    id: str
    encode: Callable[[Any], Mapping[str, Any]]
    lifetime: timedelta

    def record(self, result: Any) -> OnceRecord:
        """Return the record of the run with a result."""
        return self.stored(self.encode(result))

    def stored(self, result: Mapping[str, Any]) -> OnceRecord:
        """Return the record of the run with the stored form of a result."""
        return OnceRecord(self.key, self.digest, self.id, result, self.lifetime)


@dataclass(frozen=True, slots=True)
class Context:
    """An open repository. Tables that a sweep has replaced are never read from its caches.

    With `once`, the verb that it is for runs under a once key.
    """

    info: RepositoryInfo
    refs: RepositoryRefs
    runners: Runners
    committer: str
    graph: CommitGraph
    tables: TableCaches
    move_guard: MoveGuard
    versions: tuple[MetaRangeId, ...] = ()
    once_terms: OnceSettings = DEFAULT_ONCE
    once: OnceRun | None = None

    @property
    def workspace(self) -> Workspace:
        """The settings for tasks."""
        return replace(self.tables.current().workspace, versions=self.versions)

    @property
    def store(self) -> ObjectStore:
        """The storage namespace."""
        return self.tables.current().store

    @property
    def trees(self) -> Trees:
        """The reader of metaranges."""
        return self.tables.current().trees

    @property
    def open_ranges(self) -> OpenRanges:
        """The open ranges, for lookups of single objects."""
        return self.tables.current().lookups.open_ranges

    def recorded(self, result: object) -> OnceRecord | None:
        """Return the record for the change that ends a verb with this result."""
        return None if self.once is None else self.once.record(result)

    def title(self, verb: str, what: str) -> str:
        """Return the description of a verb's jobs for the Spark UI."""
        return f"sparklake {verb} {self.info.name}: {what}"

    def runner(self, records: int, verb: str, what: str) -> Runner:
        """Return the runner for a plan of this size."""
        return self.runners.choose(records, self.title(verb, what))

    def tree(self, commit: Commit) -> MetaRange:
        """Return the metarange of a commit; raise ExpiredError if its tree was collected."""
        with naming_collected(self, [commit.id]):
            return self.trees.get(commit.meta_range_id)

    def tree_before(self, commit: Commit, number: int = 1) -> MetaRangeId:
        """Return the tree of a commit's parent, or the empty tree for a first commit."""
        if not commit.parents:
            return EMPTY_META_RANGE
        return self.graph.commit(commit.parents[number - 1]).meta_range_id


@contextmanager
def naming_collected(context: Context, commit_ids: Sequence[CommitId]) -> Iterator[None]:
    """Raise ExpiredError where a table is missing because a commit's tree was collected."""
    try:
        yield
    except MissingFileError as error:
        collected = context.refs.commits.collected(commit_ids)
        first = next(filter(collected.__contains__, commit_ids), None)
        if first is None:
            raise
        raise collected_error(first) from error


@dataclass(frozen=True, slots=True)
class OpenTables:
    """An open store and what was read from it, until the next tree sweep."""

    workspace: Workspace
    store: ObjectStore
    trees: Trees
    lookups: Lookups

    @staticmethod
    def of(workspace: Workspace) -> OpenTables:
        """Open the store of a workspace."""
        store = workspace.open_store()
        return OpenTables(workspace, store, Trees(store), Lookups(store))


class TableCaches:
    """The caches of a repository's tables, which start anew after each tree sweep.

    A table that was deleted and written again may name other objects. Only commits that were
    published after the sweep name the new one, and reading such a commit shows the sweep.
    """

    def __init__(self, workspace: Workspace, refs: RepositoryRefs) -> None:
        self._refs = refs
        self._lock = Lock()
        self._open = OpenTables.of(workspace)

    def current(self) -> OpenTables:
        """Return the open tables after the latest tree sweep that was seen."""
        with self._lock:
            sweeps = self._refs.tree_sweeps
            if sweeps > self._open.workspace.tree_sweeps:
                self._open = OpenTables.of(replace(self._open.workspace, tree_sweeps=sweeps))
            return self._open


class Lookups:
    """The open ranges of a store, which exist from the first lookup on."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    @cached_property
    def open_ranges(self) -> OpenRanges:
        """The open ranges of the store."""
        from sparklake.verbs.base.lookup import OpenRanges

        return OpenRanges(self._store)


class Trees:
    """A reader of metaranges that keeps the latest ones: they never change."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._lock = Lock()
        self._kept: LRUCache[MetaRangeId, MetaRange] = LRUCache(_TREES_KEPT)
        self._known: LRUCache[tuple[MetaRangeId, MetaRangeId], KnownKeys] = LRUCache(_TREES_KEPT)

    def get(self, meta_range_id: MetaRangeId) -> MetaRange:
        """Return a metarange; raise MissingFileError or CorruptFileError."""
        with self._lock:
            found = self._kept.get(meta_range_id)
        if found is None:
            from sparklake.graveler.sstable.range_files import read_meta_range

            found = self.keep(read_meta_range(self._store, meta_range_id))
        return found

    def keep(self, tree: MetaRange) -> MetaRange:
        """Keep a metarange that was just read or written; return it."""
        with self._lock:
            self._kept[tree.id] = tree
        return tree

    def keep_known(self, before: MetaRangeId, after: MetaRangeId, known: KnownKeys) -> None:
        """Keep the known changed keys between two trees."""
        with self._lock:
            self._known[before, after] = known

    def change_summary(self, before: MetaRangeId, after: MetaRangeId) -> ChangeSummary | None:
        """Return the possible changes between two trees; None unless both are in memory."""
        with self._lock:
            one, other = self._kept.get(before), self._kept.get(after)
            known = self._known.get((before, after))
        if one is None or other is None:
            return None
        from sparklake.graveler.planning.change_summary import summary_between

        return summary_between(one.ranges, other.ranges, known)


@dataclass(slots=True)
class CommitGraph:
    """A reader of commits that keeps the latest ones: they never change.

    A walk fetches ever larger parts of history, so its round trips grow with the logarithm of its
    length.
    """

    refs: RepositoryRefs
    _known: dict[CommitId, Commit] = field(default_factory=dict)
    _stretch: int = _FIRST_STRETCH

    def commit(self, commit_id: CommitId) -> Commit:
        """Return a commit that must exist, because a ref or another commit names it."""
        found = self._known.get(commit_id) or self.refs.commits.find(commit_id)
        if found is None:
            raise CorruptFileError(f"the commit {commit_id} is named but does not exist")
        self._keep([found])
        return found

    def ancestor(self, commit_id: CommitId) -> Commit:
        """Return a commit for a walk that will read its ancestors next."""
        if commit_id not in self._known:
            self._keep(self.refs.commits.ancestry([commit_id], self._stretch))
            self._stretch = min(2 * self._stretch, _LAST_STRETCH)
        return self.commit(commit_id)

    def first_ancestor(self, commit: Commit, steps: int) -> Commit | None:
        """Return the ancestor this many first parents back, or None past the first commit."""
        if steps > _FIRST_STRETCH:
            found = self.refs.commits.first_ancestor(commit.id, steps)
            return found and self._known.setdefault(found.id, found)
        for _ in range(steps):
            if not commit.parents:
                return None
            commit = self.ancestor(commit.parents[0])
        return commit

    def known_below(self, commit: Commit, most: int, but: Container[CommitId]) -> list[CommitId]:
        """Return the nearest commits already read with at most this generation.

        The number of commits is limited, and the `but` commits are left out.
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
        """Keep commits, and drop the least recently read ones above a limit."""
        for each in commits:
            self._known.pop(each.id, None)
            self._known[each.id] = each
        if len(self._known) > _COMMITS_KEPT:
            kept = max(_COMMITS_KEPT // 2, len(commits))
            for name in list(self._known)[:-kept]:
                self._known.pop(name, None)


@dataclass(slots=True)
class Walk:
    """A walk down a history by descending generation.

    It reads bands of generations, for all lines together. So each commit is read about once,
    however often branches split and merge, and round trips grow with the logarithm of the number of
    commits until a band has enough of them.
    """

    graph: CommitGraph
    _band: int = _FIRST_STRETCH
    _missing: dict[CommitId, int] = field(default_factory=dict)
    """The generation of a child of each parent that was met but not read."""

    def commit(self, commit_id: CommitId) -> Commit:
        """Return the start of the walk, or a parent that it has met."""
        if commit_id in self._missing and self.graph.find_known(commit_id) is None:
            self._read(self._missing[commit_id] - self._band)
        return self.graph.commit(commit_id)

    def parents(self, commit_id: CommitId) -> Sequence[CommitId]:
        """Return the parents of a commit, where the walk continues."""
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
