"""Port of the ref store for garbage collections."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from sparklake.graveler.ids import CommitId
from sparklake.graveler.ports.registers import HeldCheck
from sparklake.graveler.ports.repositories import RefsSnapshot
from sparklake.graveler.records import Record


@dataclass(frozen=True, slots=True)
class RepositorySnapshot:
    """A repository at one moment: refs, commits, and rows of staging layers.

    `expired` commits expired earlier, and `expiring` ones at this moment. Likewise, the trees of
    `collected` commits were released earlier, and those of `collecting` ones at this moment.
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

    def alone(self) -> AbstractContextManager[HeldCheck]:
        """Exclude concurrent collections. Raises CollectionRunningError during one."""

    def alone_with_tree_files(self) -> AbstractContextManager[HeldCheck]:
        """Exclude refs dumps and other collections with trees.

        Both change which tree files of the namespace are referenced, besides branches.
        """

    def look(self, *, rows: bool = True) -> RepositorySnapshot:
        """Return the current state of the repository, and its staged rows unless `rows` is False.

        Blocks nothing and expires no commit.
        """

    def begin(
        self, *, trees: bool = False, expires: bool = True, rows: bool = True
    ) -> RepositorySnapshot:
        """Raise the fence of all branches; return a snapshot from this moment.

        The staged rows are copied concurrently, unless `rows` is False.

        With `trees`, trees not retained are released at that moment: their commits count as
        collected since then. Otherwise, `collecting` is only a forecast.

        Commits not retained expire at that moment, by the store's own clock, and stay expired. With
        `expires` False, no commit expires. Everything published before is included. An operation
        that started earlier and publishes later fails with CollectionStartedError. Raises
        ReadOnlyError, unless forced.
        """

    def end_tree_sweep(self) -> None:
        """Count a sweep that deleted tree files, or a repair that changed one.

        Later reads of a ref return a higher `RepositoryRefs.tree_sweeps`.
        """
