"""A small lake with simulated stores, clock and random names, and a check of its contents."""

from __future__ import annotations

import os
import random
import re
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Set
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import md5
from itertools import count
from random import Random
from types import SimpleNamespace
from typing import NamedTuple, cast
from unittest import mock

import pyarrow.compute as pc

from campaigns.histories.serial_model import Branch, Fact, State, Tree, Version
from campaigns.simulator.store import Bucket, simulated_buckets
from sparklake import Engine, Lake, Repository, _scratch
from sparklake.engine.choice import Runners
from sparklake.graveler.commits import Commit
from sparklake.graveler.parquet_files import decode_parquet
from sparklake.graveler.ports import BranchState, Layer, RefsSnapshot, RepositorySnapshot
from sparklake.graveler.records import Record, decode_record, is_tombstone
from sparklake.graveler.sstable.range_files import read_range_file, tree_file_key
from sparklake.layout import DATA_FOLDER, PURGES_FOLDER
from sparklake.rows.objects import object_info
from sparklake.testing.memory import MemoryRefStore
from sparklake.testing.memory.registers import MemoryCollections

BUCKET = "lake"
NAMESPACE = f"s3://{BUCKET}/repo"
_ROOT = "repo/"
START_SECONDS = 1_700_000_000


def digest(body: bytes) -> str:
    """Return the checksum of a body in histories."""
    return md5(body, usedforsecurity=False).hexdigest()


class LostObjectError(AssertionError):
    """A referenced object or table is missing or has different bytes."""


@dataclass(slots=True)
class Clock:
    """A clock with a new time at each reading. It may jump, backwards too."""

    seconds: int = START_SECONDS
    times: set[int] = field(default_factory=set)

    def nanoseconds(self) -> int:
        """Return the time in unix nanoseconds."""
        self.seconds += 1
        while self.seconds in self.times:
            self.seconds += 1
        self.times.add(self.seconds)
        return self.seconds * 10**9


@dataclass(slots=True)
class World:
    """The stores of a simulated lake. Copies are independent.

    `trees` are commit trees, possibly deleted by a collection.
    """

    refs: MemoryRefStore
    bucket: Bucket
    clock: Clock
    trees: dict[str, Tree] = field(default_factory=dict)

    def copy(self) -> World:
        """Return a world in the same state."""
        clock = Clock(self.clock.seconds, set(self.clock.times))
        bucket = Bucket(clock.nanoseconds, dict(self.bucket.bodies))
        return World(_copied(self.refs), bucket, clock, dict(self.trees))

    def repository(self, who: str) -> Repository:
        """Open the repository as a new client."""
        return Lake(self.refs, Runners(Engine.LOCAL), who).repository("repo")


def _copied(refs: MemoryRefStore) -> MemoryRefStore:
    copy = MemoryRefStore()
    copy._infos = dict(refs._infos)
    copy._id = refs._id
    next_layer, next_operation = next(refs._layers), next(refs._operations)
    refs._layers, refs._operations = count(next_layer), count(next_operation)
    copy._layers, copy._operations = count(next_layer), count(next_operation)
    for uid, state in refs._states.items():
        fresh = copy._state(uid)
        for name in ("branches", "tags", "commits", "expired", "change_summaries", "writes"):
            getattr(fresh, name).update(getattr(state, name))
        fresh.rows.update({layer: dict(rows) for layer, rows in state.rows.items()})
        fresh.collected |= state.collected
        fresh.tree_sweeps = state.tree_sweeps
        fresh.operations += state.operations
        fresh.hook_runs += state.hook_runs
        fresh.purges += state.purges
        fresh.settings, fresh.fence = state.settings, state.fence
    return copy


class Simulation:
    """The current world and its source of names, for permanent patches."""

    def __init__(self) -> None:
        self.buckets: dict[str, Bucket] = {}
        self.clock = Clock()
        self.names = Random(0)

    def enter(self, world: World, seed: str) -> None:
        """Make a world the current one. Names that come from equal seeds are equal."""
        self.buckets[BUCKET] = world.bucket
        self.clock = world.clock
        self.names = Random(seed)
        random.seed(seed)

    def random_bytes(self, size: int) -> bytes:
        """Return the next random bytes. Names of objects come from them."""
        return self.names.randbytes(size)

    def nanoseconds(self) -> int:
        """Return the time in unix nanoseconds."""
        return self.clock.nanoseconds()

    def time(self) -> float:
        """Return the time in unix seconds."""
        return self.clock.nanoseconds() / 1e9


@contextmanager
def simulated_system() -> Iterator[Simulation]:
    """Simulate buckets, the clock and random names in this process."""
    simulation = Simulation()
    with ExitStack() as patches:
        patches.enter_context(simulated_buckets(simulation.buckets))
        for owner, name, value in (
            (os, "urandom", simulation.random_bytes),
            (time, "time", simulation.time),
            (time, "time_ns", simulation.nanoseconds),
            # It looks at the ages of real folders, as many as other processes have left.
            (_scratch, "time", SimpleNamespace(time=time.time)),
        ):
            patches.enter_context(mock.patch.object(owner, name, value))
        yield simulation


def new_world(simulation: Simulation) -> World:
    """Return a world with an empty repository of tiny ranges."""
    clock = Clock()
    world = World(MemoryRefStore(), Bucket(clock.nanoseconds), clock)
    simulation.enter(world, "first world")
    world.refs._id = uuid.uuid4().hex
    lake = Lake(world.refs, Runners(Engine.LOCAL), "creator")
    lake.create_repository("repo", NAMESPACE, range_records=2)
    return world


# --- repository contents --------------------------------------------------------------------------


class Listed(NamedTuple):
    """An object in a tree: its checksum, and its key or full URI."""

    path: str
    checksum: str
    address: str


@lru_cache(4096)
def _range_ids(table: bytes, name: str) -> tuple[str, ...]:
    records = read_range_file(table, name).records()
    return tuple(decode_record(*each).identity.decode() for each in records)


@lru_cache(4096)
def _objects(table: bytes, name: str) -> tuple[Listed | str, ...]:
    """Return the objects of a range, and its deleted paths."""
    return tuple(map(_listed, read_range_file(table, name).records()))


def _listed(record: Record) -> Listed | str:
    path = record[0].decode()
    if is_tombstone(record[1]):
        return path
    entry = object_info(record, NAMESPACE)
    return Listed(path, entry.checksum, entry.address.removeprefix(f"{NAMESPACE}/"))


@dataclass(slots=True)
class Contents:
    """The contents of a world, read from its stores without any verb."""

    world: World
    refs: RefsSnapshot
    expired: Set[str]
    collected: Set[str]
    _trees: dict[str, tuple[Listed | str, ...]] = field(default_factory=dict)

    @staticmethod
    def of(world: World, repo: Repository) -> Contents:
        """Return the current contents."""
        refs = repo._context.refs.snapshot()
        commits, ids = repo._context.refs.commits, [each.id for each in refs.commits]
        return Contents(world, refs, commits.expired(ids), commits.collected(ids))

    def objects(self, meta_range_id: str) -> tuple[Listed | str, ...]:
        """Return the objects of a tree or run."""
        if meta_range_id not in self._trees:
            self._trees[meta_range_id] = tuple(self._read(meta_range_id))
        return self._trees[meta_range_id]

    def _read(self, meta_range_id: str) -> Iterator[Listed | str]:
        if meta_range_id:
            for name in _range_ids(self._table(meta_range_id), meta_range_id):
                yield from _objects(self._table(name), name)

    def _table(self, name: str) -> bytes:
        return self.body(tree_file_key(name), f"table {name}")

    def body(self, key: str, what: object) -> bytes:
        """Return the bytes of a key."""
        match = self.world.bucket.bodies.get(f"{_ROOT}{key}")
        if match is None:
            raise LostObjectError(f"{what} is missing: {key}")
        return match.content

    def layer(self, layer: Layer) -> tuple[Listed | str, ...]:
        """Return the staged objects of a layer, and its deleted paths."""
        if layer.meta_range_id is not None:
            return self.objects(layer.meta_range_id)
        rows = next(iter(self.world.refs._states.values())).rows[layer.id]
        return tuple(map(_listed, rows.items()))

    def facts(self) -> dict[str, Fact]:
        """Return the parents and the tree of every commit. Collected trees may be unknown."""
        return {each.id: Fact(tuple(each.parents), self._tree(each)) for each in self.refs.commits}

    def _tree(self, commit: Commit) -> Tree | None:
        if commit.id in self.collected:
            return self.world.trees.get(commit.id)
        return _checksums(self.objects(commit.meta_range_id))

    def staged(self, branch: BranchState) -> dict[str, str | None]:
        """Return the staged checksums of a branch. None is a deleted path."""
        objects: dict[str, str | None] = {}
        for layer in reversed(branch.layers):
            for each in self.layer(layer):
                objects |= {each: None} if isinstance(each, str) else {each.path: each.checksum}
        return objects

    def state(self, moves: Mapping[str, str | None]) -> State:
        """Return the contents as the serial model sees them.

        `moves` has the head of each branch before its latest move. All staged changes of a branch
        become one layer.
        """
        versions: dict[str, Version] = {}
        facts = self.facts()
        for each in self.refs.commits:  # Parents come first.
            parents = tuple(versions[name] for name in each.parents)
            versions[each.id] = Version(each.id, parents, facts[each.id].tree or {})
        branches = {}
        for state in self.refs.branches:
            before = moves.get(state.name)
            branch = Branch(versions[state.commit_id], versions[before] if before else None)
            staged = self.staged(state)
            branches[state.name] = branch.staged(staged) if staged else branch
        tags = {each.name: versions[each.commit_id] for each in self.refs.tags}
        return State(branches, tags, versions)

    def check(self, purged: Purged) -> set[str]:
        """Read every object of retained commits and staged layers; return their keys.

        Raises:
            LostObjectError: An object or a table is missing, or has other bytes. Objects may only
                be missing after a purge.
        """
        referenced = set()
        for commit in self.refs.commits:
            if commit.id in self.collected:
                continue
            objects = self.objects(commit.meta_range_id)
            if commit.id not in self.expired:
                purged_keys = self._may_lack(commit, purged)
                referenced |= {self._check(each, purged_keys, commit.id) for each in objects}
        for branch in self.refs.branches:
            for layer in branch.layers:
                what = f"the staging of {branch.name}"
                referenced |= {self._check(each, frozenset(), what) for each in self.layer(layer)}
        return referenced

    def _may_lack(self, commit: Commit, purged: Purged) -> Set[str]:
        """Return the keys of the objects possibly purged from a commit.

        A purge deletes what older commits name. A later merge or copy may name it again, and so may
        a commit whose parent does. But objects staged for a later commit are never lost.
        """
        has_staged = _MADE_OF_STAGING.fullmatch(commit.message) and not commit.metadata
        if commit.id in purged.fenced or not has_staged or not purged.keys:
            return purged.keys
        parents = [each for each in self.refs.commits if each.id in commit.parents]
        if any(each.id in self.collected for each in parents):
            return purged.keys
        objects = (each for above in parents for each in self.objects(above.meta_range_id))
        return purged.keys & {each.address for each in objects if not isinstance(each, str)}

    def _check(self, each: Listed | str, purged_keys: Set[str], by: str) -> str:
        if isinstance(each, str):
            return ""
        if f"{_ROOT}{each.address}" not in self.world.bucket.bodies:
            if each.address not in purged_keys:
                raise LostObjectError(f"{by} names {each}, which is missing")
            return each.address
        if digest(self.body(each.address, each)) != each.checksum:
            raise LostObjectError(f"{by} names {each}, which has other bytes")
        return each.address


_MADE_OF_STAGING = re.compile(r"\S+-commit-\d+")
"""The messages of commits that contain staged changes, as simulations write them.

A revert names such a message in its own.
"""


@dataclass(slots=True)
class Purged:
    """The deletions of purges.

    `keys` are the objects that they deleted by their receipts. `fenced` are the commits that
    existed when a purge had raised the fence.
    """

    keys: Set[str] = frozenset()
    fenced: set[str] = field(default_factory=set)

    def read(self, world: World) -> None:
        """Read the receipts."""
        self.keys = {
            address.removeprefix(f"{NAMESPACE}/")
            for key, body in world.bucket.bodies.items()
            if key.startswith(f"{_ROOT}{PURGES_FOLDER}") and "/receipt/" in key
            for address in _deleted(body.content)
        }


def _deleted(receipt: bytes) -> list[str]:
    rows = decode_parquet(receipt, "a receipt")
    return cast("list[str]", rows.filter(pc.is_valid(rows["deleted_at"]))["address"].to_pylist())


@contextmanager
def noted_purges() -> Iterator[Purged]:
    """Note the commits at the fences of purges."""
    purged, begin = Purged(), MemoryCollections.begin

    def noting(
        self: MemoryCollections, *, trees: bool = False, expires: bool = True, rows: bool = True
    ) -> RepositorySnapshot:
        moment = begin(self, trees=trees, expires=expires, rows=rows)
        if not expires:  # Only purges raise the fence so.
            purged.fenced.update(each.id for each in moment.refs.commits)
        return moment

    with mock.patch.object(MemoryCollections, "begin", noting):
        yield purged


def _checksums(objects: Iterable[Listed | str]) -> dict[str, str]:
    return {each.path: each.checksum for each in objects if not isinstance(each, str)}


def data_keys(world: World) -> set[str]:
    """Return the keys of the repository's own objects."""
    keys = (each.removeprefix(_ROOT) for each in world.bucket.bodies)
    return {each for each in keys if each.startswith(DATA_FOLDER)}
