"""The mutable state of one repository, in memory."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from threading import Lock, RLock

from sparklake.errors import IdempotencyKeyInUseError, RaceLostError, RefNotFoundError
from sparklake.graveler.commits import Commit
from sparklake.graveler.guards import Action, RepositorySettings, check_fence, read_only_error
from sparklake.graveler.ids import CommitId
from sparklake.graveler.ports import (
    BranchState,
    Layer,
    LayerCut,
    LayerKind,
    Operation,
    TagInfo,
    Write,
)
from sparklake.graveler.ports.once import OnceRecord
from sparklake.graveler.ports.registers import HookRun, Purge
from sparklake.graveler.retention import expired_error
from sparklake.graveler.times import MICROSECOND, SECOND


@dataclass(slots=True)
class State:
    """The mutable state of one repository. Hold `lock` to access it."""

    lock: RLock
    next_layer: Iterator[int]
    next_operation: Iterator[int]
    branches: dict[str, BranchState] = field(default_factory=dict)
    tags: dict[str, TagInfo] = field(default_factory=dict)
    commits: dict[CommitId, Commit] = field(default_factory=dict)
    expired: dict[CommitId, int] = field(default_factory=dict)
    """The time at which each expired commit expired, in unix seconds."""
    collected: set[CommitId] = field(default_factory=set)
    tree_sweeps: int = 0
    change_summaries: dict[CommitId, bytes] = field(default_factory=dict)
    rows: dict[int, dict[bytes, bytes]] = field(default_factory=dict)
    operations: list[Operation] = field(default_factory=list)
    hook_runs: list[HookRun] = field(default_factory=list)
    purges: list[Purge] = field(default_factory=list)
    writes: dict[str, Write] = field(default_factory=dict)
    once_keys: dict[str, tuple[OnceRecord, float]] = field(default_factory=dict)
    """The idempotency keys, each with the end of its lifetime."""
    is_gone: bool = False
    settings: RepositorySettings = field(default_factory=RepositorySettings)
    fence: int = 0
    collecting: Lock = field(default_factory=Lock)
    naming_tables: Lock = field(default_factory=Lock)
    purging: Lock = field(default_factory=Lock)
    turns: defaultdict[str, Lock] = field(default_factory=lambda: defaultdict(Lock))

    def branch(self, name: str) -> BranchState:
        if name not in self.branches:
            raise RefNotFoundError(f"there is no branch {name!r}")
        return self.branches[name]

    def seen(self, branch: BranchState, *, force: bool) -> BranchState:
        is_expired = branch.expires is not None and branch.expires <= time.time()
        read_only = branch.guard.read_only and not force
        guard = replace(branch.guard, read_only=read_only)
        head = self.commits.get(branch.commit_id)
        return replace(branch, is_expired=is_expired, guard=guard, fence=self.fence, head=head)

    def open_branch(
        self, name: str, *actions: Action | None, force: bool, fence: int | None = None
    ) -> BranchState:
        branch = self.branch(name)
        self.seen(branch, force=force).guard.check(name, *actions)
        check_fence(name, self.fence, fence)
        return branch

    def require_writable(self, *, force: bool) -> None:
        if self.settings.read_only and not force:
            raise read_only_error()

    def require_commit(self, commit_id: CommitId) -> None:
        if commit_id not in self.commits:
            raise RefNotFoundError(f"there is no commit {commit_id!r}")

    def check_kept(self, commit_id: CommitId) -> None:
        if commit_id in self.expired:
            raise expired_error(commit_id)

    def layer_rows(self, layer_id: int) -> dict[bytes, bytes]:
        if layer_id not in self.rows:
            raise RaceLostError(f"staging layer {layer_id} no longer exists: read the branch again")
        return self.rows[layer_id]

    def drop_layers(self, branch: BranchState, layer_ids: set[int]) -> BranchState:
        for layer_id in layer_ids:
            self.rows.pop(layer_id, None)
        layers = tuple(layer for layer in branch.layers if layer.id not in layer_ids)
        return replace(branch, layers=layers)

    def cut_layers(self, branch: BranchState, layer_ids: Collection[int], cut: LayerCut) -> None:
        """Remove records from the given layers. All layers of the branch get new ids."""
        layers: list[Layer] = []
        for layer in reversed(branch.layers):
            rows, run = self.rows.get(layer.id, {}), cut.runs.get(layer.id, layer.meta_range_id)
            if layer.id in layer_ids:
                rows = {
                    key: value
                    for key, value in rows.items()
                    if not any(key in interval for interval in cut.within)
                }
            if rows or run:
                layers.insert(0, replace(layer, id=next(self.next_layer), meta_range_id=run))
                if layer.kind is LayerKind.ROWS:
                    self.rows[layers[0].id] = rows
        self.drop_layers(branch, {layer.id for layer in branch.layers})
        self.branches[branch.name] = replace(branch, layers=tuple(layers))

    def find_once(self, key: str) -> OnceRecord | None:
        record, end = self.once_keys.get(key, (None, 0.0))
        return record if end > time.time() else None

    @contextmanager
    def changing(self, once: OnceRecord | None) -> Iterator[None]:
        """Hold the lock during a change, and record its idempotency key with it."""
        with self.lock:
            if once is not None and self.find_once(once.key) is not None:
                raise IdempotencyKeyInUseError.of(once.key)
            yield
            if once is not None:
                self._add_once(once)

    def _add_once(self, record: OnceRecord) -> None:
        now = time.time()
        for key in [key for key, (_, end) in self.once_keys.items() if end <= now]:
            del self.once_keys[key]
        self.once_keys[record.key] = (record, now + record.lifetime.total_seconds())

    def latest_operation(self, ref: str) -> int | None:
        """Return the number of a ref's latest operation."""
        sequences = (each.sequence for each in reversed(self.operations) if each.ref == ref)
        return next(sequences, None)

    def log(
        self, who: str, verb: str, ref: str, source: CommitId | None, to: CommitId | None
    ) -> None:
        second, nanoseconds = divmod(time.time_ns(), SECOND)
        operation = Operation(
            sequence=next(self.next_operation),
            date=second,
            who=who,
            verb=verb,
            ref=ref,
            from_commit=source,
            to_commit=to,
            microseconds=nanoseconds // MICROSECOND,
        )
        self.operations.append(operation)

    @contextmanager
    def turn(self, key: str, seconds: float) -> Iterator[bool]:
        """Wait for the lock of a key, and yield whether it is held."""
        with self.lock:
            lock = self.turns[key]
        is_held = lock.acquire(timeout=seconds)
        try:
            yield is_held
        finally:
            if is_held:
                lock.release()


class StateView:
    """A part of one repository. Each call holds the lock of the state."""

    def __init__(self, state: State, *, force: bool = False) -> None:
        self._state = state
        self._force = force
