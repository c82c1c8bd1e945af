"""The writes of one repository, in memory."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from sparklake.errors import AlreadyExistsError, RepositoryNotFoundError
from sparklake.graveler.ports import Write, WriteState
from sparklake.stores.memory.state import State


class MemoryWrites:
    """Holds the writes of one repository."""

    def __init__(self, state: State) -> None:
        self._state = state

    def begin(self, write_id: str, place: str, branch: str, who: str) -> Write:
        """Notes a write."""
        with self._state.lock:
            if self._state.is_gone:
                raise RepositoryNotFoundError("the repository was deleted")
            if write_id in self._state.writes:
                raise AlreadyExistsError(f"there is a write {write_id!r} already")
            made = Write(write_id, place, branch, who, int(time.time()))
            self._state.writes[write_id] = made
            return made

    def find(self, write_id: str) -> Write | None:
        """Returns a write, whatever came of it."""
        with self._state.lock:
            return self._state.writes.get(write_id)

    def abandon(self, write_ids: Sequence[str]) -> Sequence[Write]:
        """Lets those of some writes that are open never stage anything; returns them."""
        with self._state.lock:
            found = [self._state.writes.get(each) for each in dict.fromkeys(write_ids)]
            ended = [
                replace(each, state=WriteState.ABANDONED)
                for each in found
                if each is not None and each.state is WriteState.OPEN
            ]
            self._state.writes.update((each.id, each) for each in ended)
            return sorted(ended, key=_age)

    def list(self) -> Sequence[Write]:
        """Returns the writes that are open or abandoned, the oldest first."""
        with self._state.lock:
            found = self._state.writes.values()
            return sorted((each for each in found if each.state is not WriteState.DONE), key=_age)


def _age(write: Write) -> tuple[int, str]:
    return write.started_at, write.id
