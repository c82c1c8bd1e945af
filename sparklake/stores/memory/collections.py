"""The garbage collections of one repository, in memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from sparklake.errors import CollectionOpenError
from sparklake.graveler.ports import Moment, RefsSnapshot
from sparklake.graveler.records import Record
from sparklake.graveler.retention import expired_commits
from sparklake.stores.memory.state import State


class MemoryCollections:
    """Lets one garbage collection at a time see what must stay."""

    def __init__(
        self, state: State, snapshot: Callable[[], RefsSnapshot], *, force: bool = False
    ) -> None:
        self._state = state
        self._snapshot = snapshot
        self._force = force

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keeps every other collection out."""
        if not self._state.collecting.acquire(blocking=False):
            raise CollectionOpenError("a garbage collection is under way: wait for its end")
        try:
            yield
        finally:
            self._state.collecting.release()

    @contextmanager
    def look(self) -> Iterator[Moment]:
        """Returns the repository as it is now."""
        with self._state.lock:
            moment = self._moment()
        yield moment

    @contextmanager
    def begin(self) -> Iterator[Moment]:
        """Raises the fence, lets commits expire, and returns the repository as of that moment."""
        state = self._state
        with state.lock:
            state.require_writable(force=self._force)
            state.fence += 1
            for name, branch in state.branches.items():
                sealed = tuple(replace(layer, sealed=True) for layer in branch.layers)
                state.branches[name] = replace(branch, layers=sealed)
            moment = self._moment()
            state.expired |= moment.expiring
        yield moment

    def _moment(self) -> Moment:
        rows = {layer: dict(kept) for layer, kept in self._state.rows.items()}

        def read(layer_id: int) -> Iterator[Record]:
            return iter(sorted(rows[layer_id].items()))

        refs, expired = self._snapshot(), frozenset(self._state.expired)
        unkept = expired_commits(refs, self._state.settings.retention, int(time.time()))
        return Moment(refs, read, expired, unkept - expired)
