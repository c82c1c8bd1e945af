"""Port of the ref store for garbage collections."""

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

    `expired` commits expired before, and `expiring` ones at this moment. In the same way, the trees
    of `collected` commits were given up before, and those of `collecting` ones at this moment.
    """

    refs: RefsSnapshot
    rows: Callable[[int], Iterator[Record]]
    expired: Set[CommitId] = frozenset()
    expiring: Set[CommitId] = frozenset()
    collected: Set[CommitId] = frozenset()
    collecting: Set[CommitId] = frozenset()

    @property
    def treeless(self) -> Set[CommitId]:
        """The commits without a tree from this moment on."""
        return self.collected | self.collecting

    @property
    def unkept(self) -> Set[CommitId]:
        """The commits without kept objects from this moment on."""
        return self.expired | self.expiring


class Collections(Protocol):
    """The garbage collections of one repository, at most one at a time."""

    def alone(self) -> AbstractContextManager[None]:
        """Exclude other collections. Raises CollectionRunningError during one."""

    def alone_with_tables(self) -> AbstractContextManager[None]:
        """Exclude dumps of refs and other collections with trees.

        Both change which tables of the namespace are referenced, apart from branches.
        """

    def look(self) -> AbstractContextManager[RepositorySnapshot]:
        """Return the current state of the repository. It blocks nothing and expires no commit."""

    def begin(
        self, *, trees: bool = False, expires: bool = True
    ) -> AbstractContextManager[RepositorySnapshot]:
        """Raise the fence of all branches; return the repository as of this moment.

        With `trees`, trees that the retention does not keep are given up at that moment: their
        commits count as collected since then. Otherwise `collecting` is only what could be.

        Commits that the retention does not keep expire at that moment, by the store's own clock,
        and stay expired. With `expires` False, no commit expires. Everything published before is
        included. An operation that started before and has not published yet gets a
        CollectionStartedError. Raises ReadOnlyError, unless forced.
        """

    def end_tree_sweep(self) -> None:
        """Count a sweep that deleted tables, or a repair that changed one.

        Whoever reads a ref afterwards sees a higher `RepositoryRefs.tree_sweeps`.
        """
