"""Ports of the ref store: tags, commits and the operations log."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from sparklake.graveler.commits import Commit
from sparklake.graveler.ids import CommitId
from sparklake.graveler.ports.once import OnceRecord


@dataclass(frozen=True, slots=True)
class TagInfo:
    """A name for one commit. It never moves.

    `who` created it at `creation_date`, in unix seconds; "" and 0 if unknown.
    """

    name: str
    commit_id: CommitId
    who: str = ""
    creation_date: int = 0
    message: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict, hash=False)


class Tags(Protocol):
    """The tags of one repository. Changes raise ReadOnlyError in a read-only repository."""

    def create(self, tag: TagInfo, who: str, *, once: OnceRecord | None = None) -> None:
        """Create a tag. Raises AlreadyExistsError, or ExpiredError for an expired commit."""

    def find(self, name: str) -> TagInfo | None:
        """Return a tag."""

    def list(self) -> Sequence[TagInfo]:
        """Return all tags in the byte order of their names."""

    def delete(self, name: str, who: str) -> None:
        """Delete a tag. Raises RefNotFoundError."""


class Commits(Protocol):
    """The commits of one repository. Only `Branches.move` and `restore` add commits."""

    def find(self, commit_id: CommitId) -> Commit | None:
        """Return a commit."""

    def find_by_prefix(self, prefix: str, limit: int = 2) -> Sequence[Commit]:
        """Return up to `limit` commits by a prefix of their ids, in order."""

    def ancestry(self, commit_ids: Sequence[CommitId], limit: int) -> Sequence[Commit]:
        """Return the given commits and their ancestors, nearest first, at most `limit`.

        One round trip. Ordered by the minimum number of steps from a given commit, then by id. Each
        commit occurs once.
        """

    def ancestry_down_to(self, commit_ids: Sequence[CommitId], least: int) -> Sequence[Commit]:
        """Return commits, their ancestors down to a generation, and the parents of all.

        Parents of a commit below that generation are omitted. One round trip. The order is
        undefined, and each commit occurs once.
        """

    def change_summaries(self, commit_ids: Sequence[CommitId]) -> Mapping[CommitId, bytes]:
        """Return the stored change summaries of commits, where they exist."""

    def expired(self, commit_ids: Sequence[CommitId]) -> Set[CommitId]:
        """Return the expired commits among the given ones.

        The head of a branch and the commit of a tag never count as expired.
        """

    def collected(self, commit_ids: Sequence[CommitId]) -> Set[CommitId]:
        """Return the commits without a tree, deleted by a collection. All are expired."""

    def restore(self, commits: Sequence[Commit]) -> None:
        """Add commits, replacing those of the same ids. The ids must match the content.

        Used to repair a damaged store. Deletes their change summaries. Commits never change
        otherwise.
        """

    def first_ancestor(self, commit_id: CommitId, steps: int) -> Commit | None:
        """Return the commit `steps` first parents back; None past the first. One round trip."""


class RefVerb(str, Enum):
    """The verbs logged by the ref store itself. A branch move supplies its own verb."""

    CREATE_REPOSITORY = "create-repository"
    RESTORE_REPOSITORY = "restore-repository"
    CREATE_BRANCH = "create-branch"
    DELETE_BRANCH = "delete-branch"
    RENAME_BRANCH = "rename-branch"
    PRUNE_BRANCH = "prune-branch"
    CREATE_TAG = "create-tag"
    DELETE_TAG = "delete-tag"


@dataclass(frozen=True, slots=True)
class Operation:
    """One entry of the append-only operations log. None is a missing ref.

    `date` is in unix seconds. `microseconds` is its fraction.
    """

    sequence: int
    date: int
    who: str
    verb: str
    ref: str
    from_commit: CommitId | None
    to_commit: CommitId | None
    microseconds: int = 0


class Operations(Protocol):
    """The operations log for one repository. Entries stay after their refs are deleted."""

    def list(self, limit: int = 100, ref: str | None = None) -> Sequence[Operation]:
        """Return the latest operations, newest first, for one ref or all."""

    def find(self, sequence: int) -> Operation | None:
        """Return the operation with a number."""

    def first(self) -> Operation | None:
        """Return the oldest operation."""

    def latest(self, refs: Collection[str] | None = None) -> Mapping[str, Operation]:
        """Return the latest operation on each given ref, or on all, in one round trip."""

    def reached(self, commits: Mapping[str, CommitId], after: Operation | None = None) -> Set[str]:
        """Return the refs moved to or from the given commit.

        Only operations with a date later than `after` count.
        """
