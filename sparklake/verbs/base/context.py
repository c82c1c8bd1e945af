"""The environment of a repository's verbs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Protocol

from sparklake.config import OnceSettings
from sparklake.errors import MissingFileError
from sparklake.graveler.commits import Commit
from sparklake.graveler.ids import EMPTY_META_RANGE, CommitId, MetaRangeId
from sparklake.graveler.ports.once import OnceRecord
from sparklake.graveler.retention import collected_error
from sparklake.rows.settings import Workspace
from sparklake.verbs.base.commit_graph import CommitGraph
from sparklake.verbs.base.open_trees import TreeCaches, Trees

# Lazy imports: numpy and Arrow take 0.25 s, which a list of branches does not need.
if TYPE_CHECKING:
    from sparklake.engine.base import Runner
    from sparklake.engine.choice import Runners
    from sparklake.engine.lazy_rows import Job
    from sparklake.graveler.ports import (
        BranchMove,
        ObjectStore,
        RefVerb,
        RepositoryInfo,
        RepositoryRefs,
    )
    from sparklake.graveler.ranges import MetaRange
    from sparklake.verbs.base.lookup import OpenRanges


class MoveGuard(Protocol):
    """A guard of ref changes. It can reject a change and is notified afterwards."""

    def around_move(self, context: Context, move: BranchMove) -> AbstractContextManager[None]: ...

    def around_name(
        self, context: Context, verb: RefVerb, name: str, start: Commit | None = None
    ) -> AbstractContextManager[None]:
        """Guard the creation of a name at `start`, or its deletion."""


@dataclass(frozen=True, slots=True)
class OnceRun:
    """A run with an idempotency key. `encode` serializes the verb's result."""

    key: str
    digest: str
    id: str
    encode: Callable[[Any], Mapping[str, Any]]
    lifetime: timedelta

    def stored(self, result: Mapping[str, Any]) -> OnceRecord:
        return OnceRecord(self.key, self.digest, self.id, result, self.lifetime)


@dataclass(frozen=True, slots=True)
class Context:
    """An open repository. `once` is the idempotent run of its verb."""

    info: RepositoryInfo
    refs: RepositoryRefs
    runners: Runners
    committer: str
    graph: CommitGraph
    caches: TreeCaches
    move_guard: MoveGuard
    once_terms: OnceSettings
    remote_opener: Callable[[], Callable[..., Any]]
    """Returns a function without secrets that opens the lake in another process."""
    versions: tuple[MetaRangeId, ...] = ()
    once: OnceRun | None = None

    @property
    def workspace(self) -> Workspace:
        return replace(self.caches.current().workspace, versions=self.versions)

    @property
    def store(self) -> ObjectStore:
        return self.caches.current().store

    @property
    def trees(self) -> Trees:
        return self.caches.current().trees

    @property
    def open_ranges(self) -> OpenRanges:
        return self.caches.current().open_ranges

    def recorded(self, result: object) -> OnceRecord | None:
        return None if self.once is None else self.once.stored(self.once.encode(result))

    def title(self, verb: str, what: str) -> str:
        return f"sparklake {verb} {self.info.name}: {what}"

    def job(self, verb: str, what: str, sides: Sequence[str]) -> Job:
        from sparklake.engine.lazy_rows import Job

        return Job(verb, self.title(verb, what), self.runners, sides)

    def runner(self, records: int, verb: str, what: str) -> Runner:
        return self.runners.choose(records, self.title(verb, what))

    def tree(self, commit: Commit) -> MetaRange:
        """Return the metarange of a commit; a collected one raises ExpiredError."""
        with naming_collected(self, [commit.id]):
            return self.trees.get(commit.meta_range_id)

    def tree_before(self, commit: Commit) -> MetaRangeId:
        """Return the tree of the first parent, or the empty tree for a first commit."""
        if not commit.parents:
            return EMPTY_META_RANGE
        return self.graph.commit(commit.parents[0]).meta_range_id


@contextmanager
def naming_collected(context: Context, commit_ids: Sequence[CommitId]) -> Iterator[None]:
    """Raise ExpiredError if the tree file of a collected commit is missing."""
    try:
        yield
    except MissingFileError as error:
        collected = context.refs.commits.collected(commit_ids)
        first = next(filter(collected.__contains__, commit_ids), None)
        if first is None:
            raise
        raise collected_error(first) from error


def now() -> int:
    return int(time.time())
