"""The once keys of one repository, in memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sparklake.errors import RepositoryNotFoundError
from sparklake.graveler.ports.once import OnceRecord
from sparklake.stores.memory.state import State


class MemoryOnceKeys:
    """The once keys of one repository."""

    def __init__(self, state: State) -> None:
        self._state = state

    def find(self, key: str) -> OnceRecord | None:
        """Return the record of a key that has not expired."""
        with self._state.lock:
            return self._state.find_once(key)

    def add(self, record: OnceRecord) -> None:
        """Record a run that changed nothing."""
        with self._state.lock:
            if self._state.is_gone:
                raise RepositoryNotFoundError("the repository was deleted")
            self._state.check_once(record)
            self._state.add_once(record)

    @contextmanager
    def turn(self, key: str, seconds: float) -> Iterator[bool]:
        """Hold a key's turn, and yield whether it is held."""
        with self._state.lock:
            lock = self._state.turns[f" once {key}"]
        is_held = lock.acquire(timeout=seconds)
        try:
            yield is_held
        finally:
            if is_held:
                lock.release()
