"""A ref store in this process's memory, for tests."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from threading import Lock, RLock
from uuid import uuid4

from sparklake.errors import (
    AlreadyExistsError,
    NamespaceInUseError,
    RaceLostError,
    RefNotFoundError,
    RepositoryNotFoundError,
)
from sparklake.graveler.commits import Commit
from sparklake.graveler.ids import CommitId, MetaRangeId
from sparklake.graveler.keys import Interval
from sparklake.graveler.ports import (
    BranchMove,
    BranchState,
    Layer,
    LayerKind,
    Operation,
    RefsSnapshot,
    RefVerb,
    RepositoryInfo,
    TagInfo,
)
from sparklake.graveler.records import Record


@dataclass(slots=True)
class _State:
    """Is all that is mutable in one repository; whoever holds `lock` may touch it."""

    lock: RLock
    next_layer: Iterator[int]
    next_operation: Iterator[int]
    branches: dict[str, BranchState] = field(default_factory=dict)
    tags: dict[str, TagInfo] = field(default_factory=dict)
    commits: dict[CommitId, Commit] = field(default_factory=dict)
    touched: dict[CommitId, bytes] = field(default_factory=dict)
    rows: dict[int, dict[bytes, bytes]] = field(default_factory=dict)
    operations: list[Operation] = field(default_factory=list)
    turns: defaultdict[str, Lock] = field(default_factory=lambda: defaultdict(Lock))

    def branch(self, name: str) -> BranchState:
        if name not in self.branches:
            raise RefNotFoundError(f"there is no branch {name!r}")
        return self.branches[name]

    def require_commit(self, commit_id: CommitId) -> None:
        if commit_id not in self.commits:
            raise RefNotFoundError(f"there is no commit {commit_id!r}")

    def layer_rows(self, layer_id: int) -> dict[bytes, bytes]:
        if layer_id not in self.rows:
            raise RaceLostError(f"staging layer {layer_id} is gone: read the branch again")
        return self.rows[layer_id]

    def drop_layers(self, branch: BranchState, gone: set[int]) -> BranchState:
        kept = tuple(layer for layer in branch.layers if layer.id not in gone)
        for layer_id in gone:
            self.rows.pop(layer_id, None)
        return replace(branch, layers=kept)

    def log(
        self, who: str, verb: str, ref: str, source: CommitId | None, to: CommitId | None
    ) -> None:
        number = next(self.next_operation)
        self.operations.append(Operation(number, int(time.time()), who, verb, ref, source, to))


class MemoryRefStore:
    """Holds repositories in memory; safe for threads."""

    def __init__(self) -> None:
        self._lock = RLock()
        self._infos: dict[str, RepositoryInfo] = {}
        self._states: dict[str, _State] = {}
        self._layers = count(1)
        self._operations = count(1)
        self._id = uuid4().hex

    def id(self) -> str:
        """Returns a name of this store's own."""
        return self._id

    def create_repository(self, info: RepositoryInfo, first: Commit, who: str) -> None:
        """Creates a repository, its first commit and its default branch."""
        refs = RefsSnapshot((BranchState(info.default_branch, first.id),), (), (first,))
        self._create(info, refs, who, RefVerb.CREATE_REPOSITORY)

    def restore_repository(self, info: RepositoryInfo, refs: RefsSnapshot, who: str) -> None:
        """Creates a repository that has refs and commits from the start."""
        self._create(info, refs, who, RefVerb.RESTORE_REPOSITORY)

    def _create(self, info: RepositoryInfo, refs: RefsSnapshot, who: str, verb: RefVerb) -> None:
        with self._lock:
            if info.name in self._infos:
                raise AlreadyExistsError(f"there is a repository {info.name!r} already")
            for other in self._infos.values():
                if _overlap(info.storage_namespace, other.storage_namespace):
                    raise NamespaceInUseError(
                        f"{info.storage_namespace} overlaps the storage namespace of repository "
                        f"{other.name!r}: choose another"
                    )
            state = self._state(info.uid)
            state.commits.update((each.id, each) for each in refs.commits)
            state.branches.update((each.name, each) for each in refs.branches)
            state.tags.update((each.name, each) for each in refs.tags)
            for each in refs.named:
                state.log(who, verb.value, each.name, None, each.commit_id)
            self._infos[info.name] = info

    def find_repository(self, name: str) -> RepositoryInfo | None:
        """Returns a repository."""
        return self._infos.get(name)

    def list_repositories(self) -> Sequence[RepositoryInfo]:
        """Returns all repositories in the byte order of their names."""
        with self._lock:
            return sorted(self._infos.values(), key=lambda info: info.name.encode())

    def delete_repository(self, name: str) -> None:
        """Forgets a repository and its refs; its log stays."""
        with self._lock:
            if name not in self._infos:
                raise RepositoryNotFoundError(f"there is no repository {name!r}")
            state = self._state(self._infos.pop(name).uid)
            for part in (state.branches, state.tags, state.commits, state.touched, state.rows):
                part.clear()

    def refs(self, uid: str) -> MemoryRefs:
        """Returns the refs of the repository with an instance uid."""
        with self._lock:
            return MemoryRefs(self._state(uid))

    def close(self) -> None:
        """Does nothing: there is nothing to give back."""

    def _state(self, uid: str) -> _State:
        if uid not in self._states:
            self._states[uid] = _State(self._lock, self._layers, self._operations)
        return self._states[uid]


class MemoryRefs:
    """Holds all that is mutable in one repository."""

    def __init__(self, state: _State) -> None:
        self._state = state
        self.branches = MemoryBranches(state)
        self.tags = MemoryTags(state)
        self.commits = MemoryCommits(state)
        self.staging = MemoryStaging(state)
        self.operations = MemoryOperations(state)

    def snapshot(self) -> RefsSnapshot:
        """Returns all refs and all commits."""
        with self._state.lock:
            commits = self._state.commits.values()
            return RefsSnapshot(
                tuple(self.branches.list()),
                tuple(self.tags.list()),
                tuple(sorted(commits, key=lambda each: (each.generation, each.id))),
            )


class MemoryBranches:
    """Holds the branches of one repository."""

    def __init__(self, state: _State) -> None:
        self._state = state

    def create(self, name: str, commit_id: CommitId, who: str) -> BranchState:
        """Creates a branch."""
        state = self._state
        with state.lock:
            if name in state.branches:
                raise AlreadyExistsError(f"there is a branch {name!r} already")
            state.require_commit(commit_id)
            state.branches[name] = BranchState(name, commit_id)
            state.log(who, RefVerb.CREATE_BRANCH.value, name, None, commit_id)
            return state.branches[name]

    def find(self, name: str) -> BranchState | None:
        """Returns a branch and its layers."""
        return self._state.branches.get(name)

    def list(self) -> Sequence[BranchState]:
        """Returns all branches in the byte order of their names."""
        with self._state.lock:
            return sorted(self._state.branches.values(), key=lambda branch: branch.name.encode())

    def delete(self, name: str, who: str) -> None:
        """Deletes a branch and what is staged on it."""
        state = self._state
        with state.lock:
            branch = state.branch(name)
            state.drop_layers(branch, {layer.id for layer in branch.layers})
            del state.branches[name]
            state.log(who, RefVerb.DELETE_BRANCH.value, name, branch.commit_id, None)

    def move(self, move: BranchMove) -> None:
        """Applies a compare-and-swap."""
        state = self._state
        with state.lock:
            branch = state.branch(move.branch)
            sealed = {layer.id for layer in branch.layers if layer.sealed}
            if branch.commit_id != move.expected:
                raise RaceLostError(f"branch {move.branch!r} has moved to {branch.commit_id}")
            if not sealed.issuperset(move.applied_layers):
                raise RaceLostError(f"staged changes of {move.branch!r} were taken by another")
            if all(each.id != move.to for each in move.commits):
                state.require_commit(move.to)
            for each in move.commits:
                state.commits.setdefault(each.id, each)
            for commit_id, touched in move.touched.items():
                state.touched.setdefault(commit_id, touched)
            moved = replace(branch, commit_id=move.to)
            state.branches[move.branch] = state.drop_layers(moved, set(move.applied_layers))
            if move.to != move.expected:
                state.log(move.who, move.verb, move.branch, move.expected, move.to)

    @contextmanager
    def turn(self, name: str, seconds: float) -> Iterator[None]:
        """Holds the turn of a branch, after those who asked for it before."""
        with self._state.lock:
            lock = self._state.turns[name]
        is_held = lock.acquire(timeout=seconds)
        try:
            yield
        finally:
            if is_held:
                lock.release()

    def is_turn_held(self, name: str) -> bool:
        """Tells whether someone holds the turn of a branch."""
        with self._state.lock:
            return self._state.turns[name].locked()


class MemoryTags:
    """Holds the tags of one repository."""

    def __init__(self, state: _State) -> None:
        self._state = state

    def create(self, name: str, commit_id: CommitId, who: str) -> TagInfo:
        """Creates a tag."""
        state = self._state
        with state.lock:
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
            if name not in state.tags:
                raise RefNotFoundError(f"there is no tag {name!r}")
            gone = state.tags.pop(name)
            state.log(who, RefVerb.DELETE_TAG.value, name, gone.commit_id, None)


class MemoryCommits:
    """Holds the commits of one repository."""

    def __init__(self, state: _State) -> None:
        self._state = state

    def find(self, commit_id: CommitId) -> Commit | None:
        """Returns a commit."""
        return self._state.commits.get(commit_id)

    def find_by_prefix(self, prefix: str, limit: int = 2) -> Sequence[Commit]:
        """Returns up to `limit` commits whose id begins with a prefix, in the order of ids."""
        with self._state.lock:
            ids = sorted(found for found in self._state.commits if found.startswith(prefix))
            return [self._state.commits[found] for found in ids[:limit]]

    def ancestry(self, commit_ids: Sequence[CommitId], limit: int) -> Sequence[Commit]:
        """Returns the given commits and their ancestors, nearest first, at most `limit`."""
        with self._state.lock:
            known = self._state.commits
            found: dict[CommitId, Commit] = {}
            level = set(commit_ids)
            while level and len(found) < limit:
                commits = [known[name] for name in sorted(level) if name in known]
                found.update((commit.id, commit) for commit in commits)
                level = {parent for commit in commits for parent in commit.parents} - found.keys()
            return list(found.values())[:limit]

    def ancestry_down_to(self, commit_ids: Sequence[CommitId], least: int) -> Sequence[Commit]:
        """Returns commits, their ancestors down to a generation, and the parents of all."""
        with self._state.lock:
            found: dict[CommitId, Commit] = {}
            waiting = [each for each in commit_ids if each in self._state.commits]
            while waiting:
                each = self._state.commits[waiting.pop()]
                found[each.id] = each
                if each.generation >= least:
                    waiting += [parent for parent in each.parents if parent not in found]
            return list(found.values())

    def touched(self, commit_ids: Sequence[CommitId]) -> Mapping[CommitId, bytes]:
        """Returns what is kept of what commits may have changed."""
        with self._state.lock:
            kept = self._state.touched
            return {each: kept[each] for each in commit_ids if each in kept}

    def first_ancestor(self, commit_id: CommitId, steps: int) -> Commit | None:
        """Returns the commit that many first parents back, None past the first."""
        with self._state.lock:
            found = self._state.commits.get(commit_id)
            while found and steps:
                found = self._state.commits.get(found.parents[0]) if found.parents else None
                steps -= 1
            return found


class MemoryStaging:
    """Holds the staged records of a repository's branches."""

    def __init__(self, state: _State) -> None:
        self._state = state

    def put(self, branch: str, records: Sequence[Record]) -> None:
        """Stages records and tombstones in the top layer."""
        state = self._state
        with state.lock:
            layers = state.branch(branch).layers
            if not records:
                return
            if layers and not layers[0].sealed:
                top = layers[0]
            else:
                top = self._push(
                    branch, Layer(next(state.next_layer), LayerKind.ROWS, sealed=False)
                )
                state.rows[top.id] = {}
            state.rows[top.id].update(records)

    def add_run(
        self, branch: str, meta_range_id: MetaRangeId, seen: BranchState | None = None
    ) -> Layer:
        """Seals what is below and puts a run on top of it."""
        with self._state.lock:
            if seen is not None and self._state.branch(branch) != seen:
                raise RaceLostError(f"branch {branch!r} has changed: look at it again")
            self.seal(branch)
            number = next(self._state.next_layer)
            run = Layer(number, LayerKind.RUN, sealed=True, meta_range_id=meta_range_id)
            return self._push(branch, run)

    def seal(self, branch: str) -> BranchState:
        """Seals all layers; returns the branch."""
        with self._state.lock:
            state = self._state.branch(branch)
            sealed = tuple(replace(layer, sealed=True) for layer in state.layers)
            self._state.branches[branch] = replace(state, layers=sealed)
            return self._state.branches[branch]

    def rows(self, layer_id: int, prefix: bytes = b"") -> Iterator[Record]:
        """Streams the records of a rows layer in key order."""
        with self._state.lock:
            found = sorted(self._state.layer_rows(layer_id).items())
        yield from (record for record in found if record[0].startswith(prefix))

    def row(self, layer_id: int, key: bytes) -> Record | None:
        """Returns one record of a rows layer."""
        with self._state.lock:
            value = self._state.layer_rows(layer_id).get(key)
        return None if value is None else (key, value)

    def count(self, layer_id: int) -> int:
        """Returns the number of records in a rows layer."""
        with self._state.lock:
            return len(self._state.layer_rows(layer_id))

    def reset(self, branch: str) -> None:
        """Drops every layer of a branch."""
        with self._state.lock:
            state = self._state.branch(branch)
            gone = {layer.id for layer in state.layers}
            self._state.branches[branch] = self._state.drop_layers(state, gone)

    def drop(
        self, branch: str, seen: BranchState, within: Interval, runs: Mapping[int, MetaRangeId]
    ) -> None:
        """Takes the records of an interval out of the layers of a branch."""
        state = self._state
        with state.lock:
            if state.branch(branch) != seen:
                raise RaceLostError(f"branch {branch!r} has changed: look at it again")
            left: list[Layer] = []
            for layer in reversed(seen.layers):
                rows, run = state.rows.get(layer.id, {}), runs.get(layer.id, layer.meta_range_id)
                kept = {key: value for key, value in rows.items() if key not in within}
                if kept or run:
                    left.insert(0, replace(layer, id=next(state.next_layer), meta_range_id=run))
                    if layer.kind is LayerKind.ROWS:
                        state.rows[left[0].id] = kept
            gone = state.drop_layers(seen, {layer.id for layer in seen.layers})
            state.branches[branch] = replace(gone, layers=tuple(left))

    def _push(self, branch: str, layer: Layer) -> Layer:
        state = self._state.branch(branch)
        self._state.branches[branch] = replace(state, layers=(layer, *state.layers))
        return layer


class MemoryOperations:
    """Holds the log of ref moves of one repository."""

    def __init__(self, state: _State) -> None:
        self._state = state

    def list(self, limit: int = 100, ref: str | None = None) -> Sequence[Operation]:
        """Returns the latest operations, newest first; of one ref, or of all."""
        with self._state.lock:
            found = [each for each in self._state.operations if ref in (None, each.ref)]
            return found[::-1][:limit]


def _overlap(left: str, right: str) -> bool:
    """Tells whether one namespace is equal to, or a folder inside, the other."""
    left, right = left.rstrip("/") + "/", right.rstrip("/") + "/"
    return left.startswith(right) or right.startswith(left)
