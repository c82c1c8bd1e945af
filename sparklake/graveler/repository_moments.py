"""A snapshot of a repository for garbage collection."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set

from sparklake.errors import CollectionRunningError, PurgeRunningError
from sparklake.graveler.commits import Commit
from sparklake.graveler.graph.merge_base import needed_bases
from sparklake.graveler.ids import CommitId
from sparklake.graveler.ports import RefsSnapshot, RepositorySnapshot
from sparklake.graveler.records import Record
from sparklake.graveler.retention import DAY, Retention, expired_commits


def repository_snapshot(
    refs: RefsSnapshot,
    rows: Callable[[int], Iterator[Record]],
    *,
    retention: Retention | None,
    expired_at: Mapping[CommitId, int],
    collected: Set[CommitId],
    now: int,
) -> RepositorySnapshot:
    """Return a repository, with its expiring commits and trees at `now`."""
    expiring = expired_commits(refs, retention, now) - expired_at.keys()
    expiry = {**expired_at, **dict.fromkeys(expiring, now)}
    collecting = collectable_trees(refs.commits, expiry, retention, now) - collected
    expired = frozenset(expired_at)
    return RepositorySnapshot(refs, rows, expired, expiring, collected, collecting)


def collectable_trees(
    commits: Sequence[Commit],
    expired_at: Mapping[CommitId, int],
    retention: Retention | None,
    now: int,
) -> set[CommitId]:
    """Return the expired commits with deletable trees at `now`, in unix seconds.

    `commits` has parents first. `expired_at` has the time at which each expired commit expired.
    Trees that merges of retained commits may need as bases are not included.
    """
    if retention is None or retention.tree_days is None:
        return set()
    since = now - retention.tree_days * DAY
    due = {each for each, date in expired_at.items() if date <= since}
    if not due:
        return due
    retained = {each.id for each in commits} - expired_at.keys()
    return due - needed_bases(commits, retained)


def collection_running_error() -> CollectionRunningError:
    return CollectionRunningError(
        "a garbage collection or a refs dump is running: wait until it finishes"
    )


def purge_running_error() -> PurgeRunningError:
    return PurgeRunningError("another purge of this repository is running: wait until it finishes")
