"""Purges: what has been taken out of all history, and where that is kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol


class PurgeState(str, Enum):
    """Is how far a purge has come."""

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
    """Is one purge; `date` is in unix seconds.

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
        """Keeps a purge; of a repository that is gone, it keeps nothing.

        Raises ReadOnlyError for a read-only repository.
        """

    def find(self, purge_id: str) -> Purge | None:
        """Returns a purge."""

    def list(self) -> Sequence[Purge]:
        """Returns all purges, newest first."""

    def finish(self, purge_id: str) -> None:
        """Marks a purge as done."""
