"""What the core asks of the tags, the commits and the log of moves in a ref store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from sparklake.graveler.commits import Commit
from sparklake.graveler.ids import CommitId


@dataclass(frozen=True, slots=True)
class TagInfo:
    """A name for one commit that never moves."""

    name: str
    commit_id: CommitId


class Tags(Protocol):
    """Holds the tags of one repository; what changes them raises ReadOnlyError where it must."""

    def create(self, name: str, commit_id: CommitId, who: str) -> TagInfo:
        """Create a tag; raise AlreadyExistsError, and ExpiredError for such a commit."""

    def find(self, name: str) -> TagInfo | None:
        """Return a tag."""

    def list(self) -> Sequence[TagInfo]:
        """Return all tags in the byte order of their names."""

    def delete(self, name: str, who: str) -> None:
        """Delete a tag; raise RefNotFoundError."""


class Commits(Protocol):
    """Holds the commits of one repository. They are added by `Branches.move` alone."""

    def find(self, commit_id: CommitId) -> Commit | None:
        """Return a commit."""

    def find_by_prefix(self, prefix: str, limit: int = 2) -> Sequence[Commit]:
        """Return up to `limit` commits whose id begins with a prefix, in the order of ids."""

    def ancestry(self, commit_ids: Sequence[CommitId], limit: int) -> Sequence[Commit]:
        """Return the given commits and their ancestors, nearest first, at most `limit`.

        One round trip. Nearest first means by the least number of steps from a given commit, then
        by id; every commit once.
        """

    def ancestry_down_to(self, commit_ids: Sequence[CommitId], least: int) -> Sequence[Commit]:
        """Return the given commits, their ancestors down to a generation, and the parents of all.

        The parents of a commit of a lower generation are left out. One round trip; in any order,
        every commit once.
        """

    def touched(self, commit_ids: Sequence[CommitId]) -> Mapping[CommitId, bytes]:
        """Return what is kept of what commits may have changed, of those of which something is."""

    def expired(self, commit_ids: Sequence[CommitId]) -> Set[CommitId]:
        """Return which of some commits have expired.

        Of what a branch or tag stands at none has, as long as it stands there.
        """

    def first_ancestor(self, commit_id: CommitId, steps: int) -> Commit | None:
        """Return the commit that many first parents back, None past the first; one round trip."""


class RefVerb(str, Enum):
    """What the ref store itself writes into the log; a branch move brings its own verb."""

    CREATE_REPOSITORY = "create-repository"
    RESTORE_REPOSITORY = "restore-repository"
    CREATE_BRANCH = "create-branch"
    DELETE_BRANCH = "delete-branch"
    PRUNE_BRANCH = "prune-branch"
    CREATE_TAG = "create-tag"
    DELETE_TAG = "delete-tag"


@dataclass(frozen=True, slots=True)
class Operation:
    """One line of the append-only log of ref moves; None is a ref that is not there.

    `date` is in unix seconds; the move came so many `microseconds` after it.
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
    """Holds the log of ref moves of one repository; it outlives the refs."""

    def list(self, limit: int = 100, ref: str | None = None) -> Sequence[Operation]:
        """Return the latest operations, newest first; of one ref, or of all."""
