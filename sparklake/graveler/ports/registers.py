"""Ports of the registers: table writes, purges and hook runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from sparklake.graveler.ids import CommitId


class WriteState(str, Enum):
    """What came of a write: it may stage, it has staged, or it never will."""

    OPEN = "open"
    DONE = "done"
    ABANDONED = "abandoned"


@dataclass(frozen=True, slots=True)
class Write:
    """A write of files to a fresh place in the storage namespace, for a branch.

    `place` is a key without a '/' at its end, below which are its files and nothing else.
    `started_at` is in unix seconds, by the store's own clock.
    """

    id: str
    place: str
    branch: str
    who: str
    started_at: int
    state: WriteState = WriteState.OPEN


class Writes(Protocol):
    """Holds the writes of one repository. `Staging.add_run` ends one by staging what it wrote."""

    def begin(self, write_id: str, place: str, branch: str, who: str) -> Write:
        """Note a write before its first file is there.

        Raises AlreadyExistsError for an id that was used, RepositoryNotFoundError.
        """

    def find(self, write_id: str) -> Write | None:
        """Return a write, whatever came of it."""

    def abandon(self, write_ids: Sequence[str]) -> Sequence[Write]:
        """Let those of some writes that are open never stage anything; return them."""

    def list(self) -> Sequence[Write]:
        """Return the writes that are open or abandoned, the oldest first."""


class PurgeState(str, Enum):
    """How far a purge has come."""

    DELETING = "deleting"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class PurgeCounts:
    """Counts what a purge has found.

    `addresses` and `size`, in bytes, are of what is deleted, `external` is addresses outside of the
    storage namespace, and `shared` those which paths name that are not purged.
    """

    paths: int = 0
    addresses: int = 0
    size: int = 0
    external: int = 0
    shared: int = 0


@dataclass(frozen=True, slots=True)
class Purge:
    """One purge; `date` is in unix seconds.

    `even_shared` and `also_external` say that it deletes those, too.
    """

    id: str
    who: str
    date: int
    message: str
    patterns: tuple[str, ...]
    state: PurgeState
    counts: PurgeCounts
    even_shared: bool = False
    also_external: bool = False


class Purges(Protocol):
    """Holds the purges of one repository, for as long as there is the repository."""

    def add(self, purge: Purge) -> None:
        """Keep a purge; of a repository that is gone, it keeps nothing.

        Raises ReadOnlyError for a read-only repository.
        """

    def find(self, purge_id: str) -> Purge | None:
        """Return a purge."""

    def list(self) -> Sequence[Purge]:
        """Return all purges, newest first."""

    def finish(self, purge_id: str) -> None:
        """Mark a purge as done."""


class HookStatus(str, Enum):
    """What came of a hook, or of all hooks of an event."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class HookResult:
    """What came of one hook: `output` is the end of what it said, without secrets."""

    file: str
    action: str
    hook: str
    type: str
    status: HookStatus
    milliseconds: int
    output: str


@dataclass(frozen=True, slots=True)
class HookRun:
    """What came of all hooks of one event.

    `ref` is the branch or tag. `commit_id` is the commit that was about to be made, or to be named;
    of an event that was refused it may never have been made. `date` is in unix seconds.
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
    """Holds the runs of hooks of one repository, for as long as there is the repository."""

    def add(self, run: HookRun) -> None:
        """Keep a run; of a repository that is gone, it keeps nothing."""

    def find(self, run_id: str) -> HookRun | None:
        """Return a run."""

    def list(self, limit: int = 100, ref: str | None = None) -> Sequence[HookRun]:
        """Return the latest runs, newest first; of one branch or tag, or of all."""
