"""Ports of the registers: table writes, purges and hook runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, TypeAlias

from sparklake.graveler.ids import CommitId

HeldCheck: TypeAlias = Callable[[], None]
"""Renews a lock and raises the error of a lock held elsewhere if it was lost.

A process that was suspended for a long time loses its locks.
"""


class WriteState(str, Enum):
    """The state of a write: open, staged or abandoned."""

    OPEN = "open"
    DONE = "done"
    ABANDONED = "abandoned"


@dataclass(frozen=True, slots=True)
class Write:
    """A write of files to a new place in the storage namespace, for a branch.

    `place` is a key without a trailing '/'. `place` contains exactly its files. `started_at` is in
    unix seconds, by the store's own clock.
    """

    id: str
    place: str
    branch: str
    who: str
    started_at: int
    state: WriteState = WriteState.OPEN


class Writes(Protocol):
    """The writes of one repository. `Staging.add_run` finishes a write."""

    def begin(self, write_id: str, place: str, branch: str, who: str) -> Write:
        """Register a write before its first file exists.

        Raises AlreadyExistsError for a used id, and RepositoryNotFoundError.
        """

    def find(self, write_id: str) -> Write | None:
        """Return a write in any state."""

    def abandon(self, write_ids: Sequence[str]) -> Sequence[Write]:
        """Abandon the open writes among the given ones, and return them. They can never stage."""

    def list(self) -> Sequence[Write]:
        """Return the open and abandoned writes, oldest first."""


class PurgeState(str, Enum):
    """The progress of a purge."""

    DELETING = "deleting"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class PurgeCounts:
    """The counts of a purge.

    `addresses` and `size` (in bytes) are of the deleted objects. `external` are addresses outside
    of the storage namespace. `shared` are addresses also referenced by paths outside of the purge.
    """

    paths: int = 0
    addresses: int = 0
    size: int = 0
    external: int = 0
    shared: int = 0


@dataclass(frozen=True, slots=True)
class Purge:
    """One purge. `date` is in unix seconds.

    With `include_shared` and `include_external` it deletes these addresses, too.
    """

    id: str
    who: str
    date: int
    message: str
    patterns: tuple[str, ...]
    state: PurgeState
    counts: PurgeCounts
    include_shared: bool = False
    include_external: bool = False


class Purges(Protocol):
    """The purges of one repository, kept as long as it exists. At most one runs at a time."""

    def alone(self) -> AbstractContextManager[HeldCheck]:
        """Exclude concurrent purges. Raises PurgeRunningError during one."""

    def add(self, purge: Purge) -> None:
        """Store a purge. For a deleted repository this is a no-op.

        Raises ReadOnlyError for a read-only repository.
        """

    def find(self, purge_id: str) -> Purge | None:
        """Return a purge."""

    def list(self) -> Sequence[Purge]:
        """Return all purges, newest first."""

    def finish(self, purge_id: str) -> None:
        """Mark a purge as done."""


class HookStatus(str, Enum):
    """The outcome of one hook, or all hooks."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class HookResult:
    """The outcome of one hook. `output` is the end of its output, without secrets."""

    file: str
    action: str
    hook: str
    type: str
    status: HookStatus
    milliseconds: int
    output: str


@dataclass(frozen=True, slots=True)
class HookRun:
    """The outcome of one event's hooks.

    `ref` is the branch or tag. `commit_id` is the commit to be created or referenced. If the event
    was rejected, that commit may not exist. `date` is in unix seconds.
    """

    id: str
    event: str
    ref: str
    commit_id: CommitId | None
    who: str
    date: int
    status: HookStatus
    hooks: tuple[HookResult, ...]


class HookRuns(Protocol):
    """The hook runs of one repository, kept as long as it exists."""

    def add(self, run: HookRun) -> None:
        """Store a run. For a deleted repository this is a no-op."""

    def find(self, run_id: str) -> HookRun | None:
        """Return a run."""

    def list(self, limit: int = 100, ref: str | None = None) -> Sequence[HookRun]:
        """Return the latest runs, newest first, for one branch or tag, or for all."""
