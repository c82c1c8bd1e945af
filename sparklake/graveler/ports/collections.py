"""What the core asks of a ref store for the garbage collections of one repository."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from sparklake.graveler.ids import CommitId
from sparklake.graveler.ports.repositories import RefsSnapshot
from sparklake.graveler.records import Record


@dataclass(frozen=True, slots=True)
class Moment:
    """A repository as of one moment: its refs and commits, and the rows of staging layers.

    `expired` is the commits that had expired by then, `expiring` those that do so at that moment.
    """

    refs: RefsSnapshot
    rows: Callable[[int], Iterator[Record]]
    expired: Set[CommitId] = frozenset()
    expiring: Set[CommitId] = frozenset()

    @property
    def unkept(self) -> Set[CommitId]:
        """The commits that name nothing from that moment on."""
        return self.expired | self.expiring


class Collections(Protocol):
    """Lets one garbage collection at a time see what must stay."""

    def alone(self) -> AbstractContextManager[None]:
        """Keep every other collection out; raise CollectionOpenError where one is under way."""

    def look(self) -> AbstractContextManager[Moment]:
        """Return the repository as it is now; nothing is kept from going on, and none expires."""

    def begin(self) -> AbstractContextManager[Moment]:
        """Raise the fence of all branches, and return the repository as of that moment.

        What its retention does not keep expires in that moment, by the store's own clock, and stays
        so whatever comes after. What was published before is part of it. Who began before it and
        has not published by then gets a CollectionBegunError. Raises ReadOnlyError, unless forced.
        """
