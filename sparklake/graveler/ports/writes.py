"""What the core asks of the writes of tables that are under way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol


class WriteState(str, Enum):
    """Is what came of a write: it may stage, it has staged, or it never will."""

    OPEN = "open"
    DONE = "done"
    ABANDONED = "abandoned"


@dataclass(frozen=True, slots=True)
class Write:
    """Is a write of files to a fresh place in the storage namespace, for a branch.

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
        """Notes a write before its first file is there.

        Raises AlreadyExistsError for an id that was used, RepositoryNotFoundError.
        """

    def find(self, write_id: str) -> Write | None:
        """Returns a write, whatever came of it."""

    def abandon(self, write_ids: Sequence[str]) -> Sequence[Write]:
        """Lets those of some writes that are open never stage anything; returns them."""

    def list(self) -> Sequence[Write]:
        """Returns the writes that are open or abandoned, the oldest first."""
