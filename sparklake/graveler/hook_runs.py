"""Runs of hooks, and where they are kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from sparklake.graveler.ids import CommitId


class HookStatus(str, Enum):
    """Is what came of a hook, or of all hooks of an event."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class HookResult:
    """Is what came of one hook: `output` is the end of what it said, without secrets."""

    file: str
    action: str
    hook: str
    type: str
    status: HookStatus
    milliseconds: int
    output: str


@dataclass(frozen=True, slots=True)
class HookRun:
    """Is what came of all hooks of one event.

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
        """Keeps a run; of a repository that is gone, it keeps nothing."""

    def find(self, run_id: str) -> HookRun | None:
        """Returns a run."""

    def list(self, limit: int = 100, ref: str | None = None) -> Sequence[HookRun]:
        """Returns the latest runs, newest first; of one branch or tag, or of all."""
