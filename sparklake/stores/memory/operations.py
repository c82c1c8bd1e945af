"""The log of ref moves of one repository, in memory."""

from __future__ import annotations

from collections.abc import Sequence

from sparklake.graveler.ports import Operation
from sparklake.stores.memory.state import State


class MemoryOperations:
    """Holds the log of ref moves of one repository."""

    def __init__(self, state: State) -> None:
        self._state = state

    def list(self, limit: int = 100, ref: str | None = None) -> Sequence[Operation]:
        """Returns the latest operations, newest first; of one ref, or of all."""
        with self._state.lock:
            found = [each for each in self._state.operations if ref in (None, each.ref)]
            return found[::-1][:limit]
