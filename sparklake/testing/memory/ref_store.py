"""Repositories and their settings, in memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from threading import RLock
from uuid import uuid4

from sparklake.errors import AlreadyExistsError, RepositoryNotFoundError
from sparklake.graveler.commits import Commit
from sparklake.graveler.guards import RepositorySettings
from sparklake.graveler.ids import CommitId
from sparklake.graveler.ports import BranchState, RefsSnapshot, RefVerb, RepositoryInfo
from sparklake.graveler.ports.once import OnceRecord
from sparklake.stores.objects.namespaces import refuse_overlapping
from sparklake.testing.memory.branches import MemoryBranches, MemoryTags
from sparklake.testing.memory.commits import MemoryCommits, MemoryOperations
from sparklake.testing.memory.registers import (
    MemoryCollections,
    MemoryHookRuns,
    MemoryPurges,
    MemoryWrites,
)
from sparklake.testing.memory.staging import MemoryStaging
from sparklake.testing.memory.state import State


class MemorySettings:
    """The settings of one repository."""

    def __init__(self, state: State) -> None:
        self._state = state

    def get(self) -> RepositorySettings:
        """Return the current settings."""
        with self._state.lock:
            self._require_repository()
            return self._state.settings

    def change(
        self, edit: Callable[[RepositorySettings], RepositorySettings]
    ) -> RepositorySettings:
        """Replace the settings with an edit of them; return the new settings."""
        state = self._state
        with state.lock:
            self._require_repository()
            state.settings = edit(state.settings)
            for name, branch in state.branches.items():
                state.branches[name] = replace(branch, guard=state.settings.guard(name))
            return state.settings

    def _require_repository(self) -> None:
        # A repository always has its default branch.
        if not self._state.branches:
            raise RepositoryNotFoundError("the repository no longer exists")


class MemoryRefStore:
    """Repositories in memory. Thread-safe."""

    def __init__(self) -> None:
        self._lock = RLock()
        self._infos: dict[str, RepositoryInfo] = {}
        self._states: dict[str, State] = {}
        self._layers = count(1)
        self._operations = count(1)
        self._id = uuid4().hex

    def id(self) -> str:
        """Return the unique id of this store."""
        return self._id

    def create_repository(self, info: RepositoryInfo, first: Commit, who: str) -> None:
        """Create a repository, its first commit and its default branch."""
        refs = RefsSnapshot((BranchState(info.default_branch, first.id),), (), (first,))
        self._create(info, refs, who, RefVerb.CREATE_REPOSITORY)

    def restore_repository(
        self,
        info: RepositoryInfo,
        refs: RefsSnapshot,
        who: str,
        collected: Collection[CommitId] = (),
    ) -> None:
        """Create a repository with refs and commits."""
        with self._lock:
            self._create(info, refs, who, RefVerb.RESTORE_REPOSITORY)
            state = self._state(info.uid)
            state.expired.update(dict.fromkeys(collected, int(time.time())))
            state.collected.update(collected)

    def _create(self, info: RepositoryInfo, refs: RefsSnapshot, who: str, verb: RefVerb) -> None:
        with self._lock:
            if info.name in self._infos:
                raise AlreadyExistsError(f"the repository {info.name!r} already exists")
            others = ((each.name, each.storage_namespace) for each in self._infos.values())
            refuse_overlapping(info.storage_namespace, others)
            state = self._state(info.uid)
            state.settings = info.settings
            state.commits.update((each.id, each) for each in refs.commits)
            state.branches.update(
                (each.name, replace(each, guard=info.settings.guard(each.name)))
                for each in refs.branches
            )
            state.tags.update((each.name, each) for each in refs.tags)
            for each in refs.named:
                state.log(who, verb.value, each.name, None, each.commit_id)
            self._infos[info.name] = info

    def find_repository(self, name: str) -> RepositoryInfo | None:
        """Return a repository."""
        with self._lock:
            found = self._infos.get(name)
            return found and self._seen(found)

    def list_repositories(self) -> Sequence[RepositoryInfo]:
        """Return all repositories in the byte order of their names."""
        with self._lock:
            found = sorted(self._infos.values(), key=lambda info: info.name.encode())
            return [self._seen(each) for each in found]

    def delete_repository(self, name: str, *, force: bool = False) -> None:
        """Delete a repository and its refs; its log stays."""
        with self._lock:
            if name not in self._infos:
                raise RepositoryNotFoundError(f"there is no repository {name!r}")
            state = self._state(self._infos[name].uid)
            state.require_writable(force=force)
            del self._infos[name]
            for part in (
                state.branches,
                state.tags,
                state.commits,
                state.change_summaries,
                state.rows,
            ):
                part.clear()
            state.expired.clear()
            state.collected.clear()
            state.hook_runs.clear()
            state.purges.clear()
            state.writes.clear()
            state.once_keys.clear()
            state.is_gone = True

    def refs(self, uid: str, *, force: bool = False) -> MemoryRefs:
        """Return the refs of the repository with an instance uid."""
        with self._lock:
            return MemoryRefs(self._state(uid), force=force)

    def close(self) -> None:
        """Do nothing: there are no connections."""

    def _seen(self, info: RepositoryInfo) -> RepositoryInfo:
        return replace(info, settings=self._state(info.uid).settings)

    def _state(self, uid: str) -> State:
        if uid not in self._states:
            self._states[uid] = State(self._lock, self._layers, self._operations)
        return self._states[uid]


class MemoryRefs:
    """The mutable state of one repository."""

    def __init__(self, state: State, *, force: bool = False) -> None:
        self._state = state
        self.branches = MemoryBranches(state, force=force)
        self.tags = MemoryTags(state, force=force)
        self.commits = MemoryCommits(state)
        self.staging = MemoryStaging(state, force=force)
        self.operations = MemoryOperations(state)
        self.settings = MemorySettings(state)
        self.hook_runs = MemoryHookRuns(state)
        self.purges = MemoryPurges(state, force=force)
        self.writes = MemoryWrites(state)
        self.once_keys = MemoryOnceKeys(state)
        self.collections = MemoryCollections(state, self.snapshot, force=force)

    @property
    def tree_sweeps(self) -> int:
        """The number of tree sweeps that have ended."""
        return self._state.tree_sweeps

    def snapshot(self) -> RefsSnapshot:
        """Return all refs and all commits."""
        with self._state.lock:
            commits = self._state.commits.values()
            return RefsSnapshot(
                tuple(self.branches.list()),
                tuple(self.tags.list()),
                tuple(sorted(commits, key=lambda each: (each.generation, each.id))),
            )


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
