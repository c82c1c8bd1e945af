"""The purges of one repository, in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sparklake.graveler.ports.registers import Purge, PurgeState
from sparklake.stores.memory.state import State


class MemoryPurges:
    """Holds the purges of one repository."""

    def __init__(self, state: State, *, force: bool = False) -> None:
        self._state = state
        self._force = force

    def add(self, purge: Purge) -> None:
        """Keeps a purge; raises ReadOnlyError."""
        with self._state.lock:
            self._state.require_writable(force=self._force)
            if not self._state.is_gone:
                self._state.purges.append(purge)

    def find(self, purge_id: str) -> Purge | None:
        """Returns a purge."""
        with self._state.lock:
            return next((each for each in self._state.purges if each.id == purge_id), None)

    def list(self) -> Sequence[Purge]:
        """Returns all purges, newest first."""
        with self._state.lock:
            return self._state.purges[::-1]

    def finish(self, purge_id: str) -> None:
        """Marks a purge as done."""
        with self._state.lock:
            self._state.purges = [
                replace(each, state=PurgeState.DONE) if each.id == purge_id else each
                for each in self._state.purges
            ]
