"""Writes, collections, purges and hook runs of one repository, in memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from threading import Lock

from sparklake.errors import AlreadyExistsError, RepositoryNotFoundError, SparklakeError
from sparklake.graveler.ports import RefsSnapshot, RepositorySnapshot, Write, WriteState
from sparklake.graveler.ports.registers import HeldCheck, HookRun, Purge, PurgeState
from sparklake.graveler.records import Record
from sparklake.graveler.repository_moments import (
    collection_running_error,
    purge_running_error,
    repository_snapshot,
)
from sparklake.testing.memory.state import State, StateView


class MemoryWrites(StateView):
    def begin(self, write_id: str, place: str, branch: str, who: str) -> Write:
        with self._state.lock:
            if self._state.is_gone:
                raise RepositoryNotFoundError("the repository was deleted")
            if write_id in self._state.writes:
                raise AlreadyExistsError(f"the write {write_id!r} already exists")
            write = Write(write_id, place, branch, who, int(time.time()))
            self._state.writes[write_id] = write
            return write

    def find(self, write_id: str) -> Write | None:
        with self._state.lock:
            return self._state.writes.get(write_id)

    def abandon(self, write_ids: Sequence[str]) -> Sequence[Write]:
        with self._state.lock:
            writes = [self._state.writes.get(each) for each in dict.fromkeys(write_ids)]
            ended = [
                replace(each, state=WriteState.ABANDONED)
                for each in writes
                if each is not None and each.state is WriteState.OPEN
            ]
            self._state.writes.update((each.id, each) for each in ended)
            return sorted(ended, key=_age)

    def list(self) -> Sequence[Write]:
        with self._state.lock:
            writes = self._state.writes.values()
            return sorted((each for each in writes if each.state is not WriteState.DONE), key=_age)


def _age(write: Write) -> tuple[int, str]:
    return write.started_at, write.id


class MemoryCollections:
    def __init__(
        self, state: State, snapshot: Callable[[], RefsSnapshot], *, force: bool = False
    ) -> None:
        self._state = state
        self._snapshot = snapshot
        self._force = force

    def alone(self) -> AbstractContextManager[HeldCheck]:
        return _held(self._state.collecting, collection_running_error)

    def alone_with_tree_files(self) -> AbstractContextManager[HeldCheck]:
        return _held(self._state.naming_tables, collection_running_error)

    def look(self, *, rows: bool = True) -> RepositorySnapshot:
        with self._state.lock:
            return self._moment(int(time.time()))

    def begin(
        self, *, trees: bool = False, expires: bool = True, rows: bool = True
    ) -> RepositorySnapshot:
        state = self._state
        with state.lock:
            state.require_writable(force=self._force)
            state.fence += 1
            for name, branch in state.branches.items():
                sealed = tuple(replace(layer, sealed=True) for layer in branch.layers)
                state.branches[name] = replace(branch, layers=sealed)
            now = int(time.time())
            moment = self._moment(now)
            if expires:
                state.expired.update(dict.fromkeys(moment.expiring, now))
            if trees:
                state.collected |= moment.collecting
            return moment

    def end_tree_sweep(self) -> None:
        with self._state.lock:
            self._state.tree_sweeps += 1

    def _moment(self, now: int) -> RepositorySnapshot:
        rows = {layer: dict(records) for layer, records in self._state.rows.items()}

        def read(layer_id: int) -> Iterator[Record]:
            return iter(sorted(rows[layer_id].items()))

        state = self._state
        return repository_snapshot(
            self._snapshot(),
            read,
            retention=state.settings.retention,
            expired_at=dict(state.expired),
            collected=frozenset(state.collected),
            now=now,
        )


@contextmanager
def _held(lock: Lock, error: Callable[[], SparklakeError]) -> Iterator[HeldCheck]:
    if not lock.acquire(blocking=False):
        raise error()
    try:
        yield lambda: None
    finally:
        lock.release()


class MemoryPurges(StateView):
    def alone(self) -> AbstractContextManager[HeldCheck]:
        return _held(self._state.purging, purge_running_error)

    def add(self, purge: Purge) -> None:
        with self._state.lock:
            self._state.require_writable(force=self._force)
            if not self._state.is_gone:
                self._state.purges.append(purge)

    def find(self, purge_id: str) -> Purge | None:
        with self._state.lock:
            return next((each for each in self._state.purges if each.id == purge_id), None)

    def list(self) -> Sequence[Purge]:
        with self._state.lock:
            return self._state.purges[::-1]

    def finish(self, purge_id: str) -> None:
        with self._state.lock:
            self._state.purges = [
                replace(each, state=PurgeState.DONE) if each.id == purge_id else each
                for each in self._state.purges
            ]


class MemoryHookRuns(StateView):
    def add(self, run: HookRun) -> None:
        with self._state.lock:
            if not self._state.is_gone:
                self._state.hook_runs.append(run)

    def find(self, run_id: str) -> HookRun | None:
        with self._state.lock:
            return next((each for each in self._state.hook_runs if each.id == run_id), None)

    def list(self, limit: int = 100, ref: str | None = None) -> Sequence[HookRun]:
        with self._state.lock:
            runs = [each for each in self._state.hook_runs if ref in (None, each.ref)]
            return runs[::-1][:limit]
