"""The runs of hooks of one repository, in memory."""

from __future__ import annotations

from collections.abc import Sequence

from sparklake.graveler.ports.registers import HookRun
from sparklake.stores.memory.state import State


class MemoryHookRuns:
    """Holds the runs of hooks of one repository."""

    def __init__(self, state: State) -> None:
        self._state = state

    def add(self, run: HookRun) -> None:
        """Keeps a run."""
        with self._state.lock:
            if not self._state.is_gone:
                self._state.hook_runs.append(run)

    def find(self, run_id: str) -> HookRun | None:
        """Returns a run."""
        with self._state.lock:
            return next((each for each in self._state.hook_runs if each.id == run_id), None)

    def list(self, limit: int = 100, ref: str | None = None) -> Sequence[HookRun]:
        """Returns the latest runs, newest first; of one branch or tag, or of all."""
        with self._state.lock:
            found = [each for each in self._state.hook_runs if ref in (None, each.ref)]
            return found[::-1][:limit]
