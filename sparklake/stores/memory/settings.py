"""What can be set of one repository, in memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sparklake.errors import RepositoryNotFoundError
from sparklake.graveler.guards import RepositorySettings
from sparklake.stores.memory.state import State


class MemorySettings:
    """Holds what can be set of one repository."""

    def __init__(self, state: State) -> None:
        self._state = state

    def get(self) -> RepositorySettings:
        """Returns the settings as they are now."""
        with self._state.lock:
            self._require_repository()
            return self._state.settings

    def change(
        self, edit: Callable[[RepositorySettings], RepositorySettings]
    ) -> RepositorySettings:
        """Puts what an edit makes of the settings in their place; returns it."""
        state = self._state
        with state.lock:
            self._require_repository()
            state.settings = edit(state.settings)
            for name, branch in state.branches.items():
                state.branches[name] = replace(branch, guard=state.settings.guard(name))
            return state.settings

    def _require_repository(self) -> None:
        # A repository has its default branch for as long as it lives.
        if not self._state.branches:
            raise RepositoryNotFoundError("the repository is gone by now")
