"""The tags of one repository, in memory."""

from __future__ import annotations

from collections.abc import Sequence

from sparklake.errors import AlreadyExistsError, RefNotFoundError
from sparklake.graveler.ids import CommitId
from sparklake.graveler.ports import RefVerb, TagInfo
from sparklake.stores.memory.state import State


class MemoryTags:
    """Holds the tags of one repository."""

    def __init__(self, state: State, *, force: bool = False) -> None:
        self._state = state
        self._force = force

    def create(self, name: str, commit_id: CommitId, who: str) -> TagInfo:
        """Creates a tag."""
        state = self._state
        with state.lock:
            state.require_writable(force=self._force)
            state.check_kept(commit_id)
            if name in state.tags:
                raise AlreadyExistsError(f"there is a tag {name!r} already")
            state.require_commit(commit_id)
            state.tags[name] = TagInfo(name, commit_id)
            state.log(who, RefVerb.CREATE_TAG.value, name, None, commit_id)
            return state.tags[name]

    def find(self, name: str) -> TagInfo | None:
        """Returns a tag."""
        return self._state.tags.get(name)

    def list(self) -> Sequence[TagInfo]:
        """Returns all tags in the byte order of their names."""
        with self._state.lock:
            return sorted(self._state.tags.values(), key=lambda tag: tag.name.encode())

    def delete(self, name: str, who: str) -> None:
        """Deletes a tag."""
        state = self._state
        with state.lock:
            state.require_writable(force=self._force)
            if name not in state.tags:
                raise RefNotFoundError(f"there is no tag {name!r}")
            gone = state.tags.pop(name)
            state.log(who, RefVerb.DELETE_TAG.value, name, gone.commit_id, None)
