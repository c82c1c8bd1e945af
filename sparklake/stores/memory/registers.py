"""Writes, collections, purges and hook runs of one repository, in memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from sparklake.errors import AlreadyExistsError, CollectionOpenError, RepositoryNotFoundError
from sparklake.graveler.ports import RefsSnapshot, RepositorySnapshot, Write, WriteState
from sparklake.graveler.ports.registers import HookRun, Purge, PurgeState
from sparklake.graveler.records import Record
from sparklake.graveler.retention import expired_commits
from sparklake.stores.memory.state import State


class MemoryWrites:
    """The writes of one repository."""

    def __init__(self, state: State) -> None:
        self._state = state

    def begin(self, write_id: str, place: str, branch: str, who: str) -> Write:
        """Register a write."""
        with self._state.lock:
            if self._state.is_gone:
                raise RepositoryNotFoundError("the repository was deleted")
            if write_id in self._state.writes:
                raise AlreadyExistsError(f"the write {write_id!r} already exists")
            made = Write(write_id, place, branch, who, int(time.time()))
            self._state.writes[write_id] = made
            return made

    def find(self, write_id: str) -> Write | None:
        """Return a write in any state."""
        with self._state.lock:
            return self._state.writes.get(write_id)

    def abandon(self, write_ids: Sequence[str]) -> Sequence[Write]:
        """Abandon the open ones of some writes, so that they never stage; return them."""
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
        """Return the open and abandoned writes, oldest first."""
        with self._state.lock:
            found = self._state.writes.values()
            return sorted((each for each in found if each.state is not WriteState.DONE), key=_age)


def _age(write: Write) -> tuple[int, str]:
    return write.started_at, write.id


class MemoryCollections:
    """The garbage collections of one repository, at most one at a time."""

    def __init__(
        self, state: State, snapshot: Callable[[], RefsSnapshot], *, force: bool = False
    ) -> None:
        self._state = state
        self._snapshot = snapshot
        self._force = force

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Exclude every other collection."""
        if not self._state.collecting.acquire(blocking=False):
            raise CollectionOpenError("a garbage collection is running: wait for its end")
        try:
            yield
        finally:
            self._state.collecting.release()

    @contextmanager
    def look(self) -> Iterator[RepositorySnapshot]:
        """Return the current state of the repository."""
        with self._state.lock:
            moment = self._moment()
        yield moment

    @contextmanager
    def begin(self) -> Iterator[RepositorySnapshot]:
        """Raise the fence and expire commits; return the repository at that moment."""
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

    def _moment(self) -> RepositorySnapshot:
        rows = {layer: dict(kept) for layer, kept in self._state.rows.items()}

        def read(layer_id: int) -> Iterator[Record]:
            return iter(sorted(rows[layer_id].items()))

        refs, expired = self._snapshot(), frozenset(self._state.expired)
        unkept = expired_commits(refs, self._state.settings.retention, int(time.time()))
        return RepositorySnapshot(refs, read, expired, unkept - expired)


class MemoryPurges:
    """The purges of one repository."""

    def __init__(self, state: State, *, force: bool = False) -> None:
        self._state = state
        self._force = force

    def add(self, purge: Purge) -> None:
        """Store a purge; raise ReadOnlyError."""
        with self._state.lock:
            self._state.require_writable(force=self._force)
            if not self._state.is_gone:
                self._state.purges.append(purge)

    def find(self, purge_id: str) -> Purge | None:
        """Return a purge."""
        with self._state.lock:
            return next((each for each in self._state.purges if each.id == purge_id), None)

    def list(self) -> Sequence[Purge]:
        """Return all purges, newest first."""
        with self._state.lock:
            return self._state.purges[::-1]

    def finish(self, purge_id: str) -> None:
        """Mark a purge as done."""
        with self._state.lock:
            self._state.purges = [
                replace(each, state=PurgeState.DONE) if each.id == purge_id else each
                for each in self._state.purges
            ]


class MemoryHookRuns:
    """The hook runs of one repository."""

    def __init__(self, state: State) -> None:
        self._state = state

    def add(self, run: HookRun) -> None:
        """Store a run."""
        with self._state.lock:
            if not self._state.is_gone:
                self._state.hook_runs.append(run)

    def find(self, run_id: str) -> HookRun | None:
        """Return a run."""
        with self._state.lock:
            return next((each for each in self._state.hook_runs if each.id == run_id), None)

    def list(self, limit: int = 100, ref: str | None = None) -> Sequence[HookRun]:
        """Return the latest runs, newest first, of one branch or tag or of all."""
        with self._state.lock:
            found = [each for each in self._state.hook_runs if ref in (None, each.ref)]
            return found[::-1][:limit]
