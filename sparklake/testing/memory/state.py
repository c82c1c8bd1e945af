"""The mutable state of one repository, in memory."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Iterator
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
    """The once keys, each with the end of its lifetime."""
    is_gone: bool = False
    settings: RepositorySettings = field(default_factory=RepositorySettings)
    fence: int = 0
    collecting: Lock = field(default_factory=Lock)
    naming_tables: Lock = field(default_factory=Lock)
    purging: Lock = field(default_factory=Lock)
    turns: defaultdict[str, Lock] = field(default_factory=lambda: defaultdict(Lock))

    def branch(self, name: str) -> BranchState:
        """Return a branch; raise RefNotFoundError."""
        if name not in self.branches:
            raise RefNotFoundError(f"there is no branch {name!r}")
        return self.branches[name]

    def seen(self, branch: BranchState, *, force: bool) -> BranchState:
        """Return the current state of a branch."""
        is_expired = branch.expires is not None and branch.expires <= time.time()
        read_only = branch.guard.read_only and not force
        guard = replace(branch.guard, read_only=read_only)
        return replace(branch, is_expired=is_expired, guard=guard, fence=self.fence)

    def open_branch(
        self, name: str, *actions: Action | None, force: bool, fence: int | None = None
    ) -> BranchState:
        """Return a branch to change; raise if its guard or its fence refuses the change."""
        branch = self.branch(name)
        self.seen(branch, force=force).guard.check(name, *actions)
        check_fence(name, self.fence, fence)
        return branch

    def require_writable(self, *, force: bool) -> None:
        """Raise ReadOnlyError, unless forced."""
        if self.settings.read_only and not force:
            raise read_only_error()

    def require_commit(self, commit_id: CommitId) -> None:
        """Raise RefNotFoundError for a missing commit."""
        if commit_id not in self.commits:
            raise RefNotFoundError(f"there is no commit {commit_id!r}")

    def check_kept(self, commit_id: CommitId) -> None:
        """Raise ExpiredError for an expired commit."""
        if commit_id in self.expired:
            raise expired_error(commit_id)

    def layer_rows(self, layer_id: int) -> dict[bytes, bytes]:
        """Return the records of a rows layer; raise RaceLostError if it is gone."""
        if layer_id not in self.rows:
            raise RaceLostError(f"staging layer {layer_id} no longer exists: read the branch again")
        return self.rows[layer_id]

    def drop_layers(self, branch: BranchState, gone: set[int]) -> BranchState:
        """Return a branch without some layers, and delete the rows of these layers."""
        kept = tuple(layer for layer in branch.layers if layer.id not in gone)
        for layer_id in gone:
            self.rows.pop(layer_id, None)
        return replace(branch, layers=kept)

    def cut_layers(self, branch: BranchState, layer_ids: Collection[int], cut: LayerCut) -> None:
        """Remove records from some layers of a branch. All its layers get new ids."""
        left: list[Layer] = []
        for layer in reversed(branch.layers):
            rows, run = self.rows.get(layer.id, {}), cut.runs.get(layer.id, layer.meta_range_id)
            if layer.id in layer_ids:
                rows = {
                    key: value
                    for key, value in rows.items()
                    if not any(key in interval for interval in cut.within)
                }
            if rows or run:
                left.insert(0, replace(layer, id=next(self.next_layer), meta_range_id=run))
                if layer.kind is LayerKind.ROWS:
                    self.rows[left[0].id] = rows
        gone = self.drop_layers(branch, {layer.id for layer in branch.layers})
        self.branches[branch.name] = replace(gone, layers=tuple(left))

    def find_once(self, key: str) -> OnceRecord | None:
        """Return the record of a key that has not expired."""
        record, end = self.once_keys.get(key, (None, 0.0))
        return record if end > time.time() else None

    def check_once(self, record: OnceRecord | None) -> None:
        """Raise IdempotencyKeyInUseError for a record with a key that is in use."""
        if record is not None and self.find_once(record.key) is not None:
            raise IdempotencyKeyInUseError.of(record.key)

    def add_once(self, record: OnceRecord | None) -> None:
        """Add a record, if there is one, and delete expired ones."""
        if record is None:
            return
        now = time.time()
        for key in [key for key, (_, end) in self.once_keys.items() if end <= now]:
            del self.once_keys[key]
        self.once_keys[record.key] = (record, now + record.lifetime.total_seconds())

    def latest_operation(self, ref: str) -> int | None:
        """Return the sequence of the latest operation of a ref."""
        found = (each.sequence for each in reversed(self.operations) if each.ref == ref)
        return next(found, None)

    def log(
        self, who: str, verb: str, ref: str, source: CommitId | None, to: CommitId | None
    ) -> None:
        """Add an entry to the log."""
        number = next(self.next_operation)
        second, rest = divmod(time.time_ns(), SECOND)
        made = Operation(
            sequence=number,
            date=second,
            who=who,
            verb=verb,
            ref=ref,
            from_commit=source,
            to_commit=to,
            microseconds=rest // MICROSECOND,
        )
        self.operations.append(made)
