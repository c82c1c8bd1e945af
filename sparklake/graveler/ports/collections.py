"""Port of the ref store for garbage collections of one repository."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from sparklake.graveler.ids import CommitId
from sparklake.graveler.ports.repositories import RefsSnapshot
from sparklake.graveler.records import Record


@dataclass(frozen=True, slots=True)
class RepositorySnapshot:
    """A repository at one moment: refs, commits, and rows of staging layers.

    `expired` are the commits that had expired before. `expiring` are the commits that expire at
    this moment.
    """

    refs: RefsSnapshot
    rows: Callable[[int], Iterator[Record]]
    expired: Set[CommitId] = frozenset()
    expiring: Set[CommitId] = frozenset()

    @property
    def unkept(self) -> Set[CommitId]:
        """The commits that keep no objects from this moment on."""
        return self.expired | self.expiring


class Collections(Protocol):
    """The garbage collections of one repository, at most one at a time."""

    def alone(self) -> AbstractContextManager[None]:
        """Exclude every other collection; raise CollectionOpenError if one is in progress."""

    def look(self) -> AbstractContextManager[RepositorySnapshot]:
        """Return the current state of the repository. It blocks nothing and expires no commit."""

    def begin(self) -> AbstractContextManager[RepositorySnapshot]:
        """Raise the fence of all branches; return the repository at that moment.

        Commits that the retention does not keep expire at that moment, by the store's own
        clock, and stay expired. Everything published before is included. An operation that
        began before and has not published yet gets a CollectionBegunError. Raises
        ReadOnlyError, unless forced.
        """
