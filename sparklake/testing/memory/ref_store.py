"""Repositories and their settings, in memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
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
from sparklake.testing.memory.state import State, StateView


class MemorySettings(StateView):
    def get(self) -> RepositorySettings:
        with self._state.lock:
            self._require_repository()
            return self._state.settings

    def change(
        self, edit: Callable[[RepositorySettings], RepositorySettings]
    ) -> RepositorySettings:
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
        return self._id

    def create_repository(self, info: RepositoryInfo, first: Commit, who: str) -> None:
        refs = RefsSnapshot((BranchState(info.default_branch, first.id),), (), (first,))
        self._create(info, refs, who, RefVerb.CREATE_REPOSITORY)

    def restore_repository(
        self,
        info: RepositoryInfo,
        refs: RefsSnapshot,
        who: str,
        collected: Collection[CommitId] = (),
    ) -> None:
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
        with self._lock:
            info = self._infos.get(name)
            return info and self._seen(info)

    def list_repositories(self) -> Sequence[RepositoryInfo]:
        with self._lock:
            infos = sorted(self._infos.values(), key=lambda info: info.name.encode())
            return [self._seen(each) for each in infos]

    def delete_repository(self, name: str, *, force: bool = False) -> None:
        with self._lock:
            if name not in self._infos:
                raise RepositoryNotFoundError(f"there is no repository {name!r}")
            state = self._state(self._infos[name].uid)
            state.require_writable(force=force)
            del self._infos[name]
            for part in (
                *(state.branches, state.tags, state.commits, state.change_summaries, state.rows),
                *(state.expired, state.collected, state.hook_runs, state.purges, state.writes),
                state.once_keys,
            ):
                part.clear()
            state.is_gone = True

    def refs(self, uid: str, *, force: bool = False) -> MemoryRefs:
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
        return self._state.tree_sweeps

    def snapshot(self) -> RefsSnapshot:
        with self._state.lock:
            commits = self._state.commits.values()
            return RefsSnapshot(
                tuple(self.branches.list()),
                tuple(self.tags.list()),
                tuple(sorted(commits, key=lambda each: (each.generation, each.id))),
            )


class MemoryOnceKeys(StateView):
    def find(self, key: str) -> OnceRecord | None:
        with self._state.lock:
            return self._state.find_once(key)

    def add(self, record: OnceRecord) -> None:
        with self._state.changing(record):
            if self._state.is_gone:
                raise RepositoryNotFoundError("the repository was deleted")

    def turn(self, key: str, seconds: float) -> AbstractContextManager[bool]:
        return self._state.turn(f" once {key}", seconds)
