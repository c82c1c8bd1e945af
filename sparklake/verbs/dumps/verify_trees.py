"""Verification of a dump's trees."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from sparklake.errors import CorruptFileError, MissingFileError, SparklakeError
from sparklake.graveler.chunks import chunked
from sparklake.graveler.ids import CommitId, MetaRangeId
from sparklake.graveler.json_errors import decode_json
from sparklake.graveler.ports import ObjectStore, RefsSnapshot, StoredObject
from sparklake.graveler.sstable.layout import ends_whole
from sparklake.graveler.sstable.range_files import read_meta_range, tree_file_key
from sparklake.interrupts import Threads
from sparklake.layout import COLLECTED_KEY
from sparklake.namespace.lookups import OBJECT_THREADS

_READ_AT_ONCE = 16 * OBJECT_THREADS
_END_BYTES = 4096
"""The footer of a tree file and the block before it have less than this."""

_REMEDY = "restore it from a backup, or restore the existing parts with --incomplete"

_In = TypeVar("_In")
_Out = TypeVar("_Out")


@dataclass(frozen=True, slots=True)
class VerifiedTrees:
    """Commits without trees, and all problems of the other trees.

    `collected` commits lost their trees in a garbage collection, unless a repeated commit rewrote
    them. `files` are all tree files by key, and `in_use` the keys of referenced ones.
    """

    collected: set[CommitId]
    problems: Sequence[SparklakeError]
    files: Mapping[str, StoredObject]
    in_use: Set[str]


def verify_trees(store: ObjectStore, refs: RefsSnapshot) -> VerifiedTrees:
    """Verify that a dump's tree files exist, and that heads have complete ones.

    Each metarange, and the end of each range of a branch or tag, is read once. The driver keeps a
    few bytes per tree file, and nothing per object.
    """
    problems: list[SparklakeError] = []
    trees, listed = _trees(store, refs, problems)
    files = {each.key: each for each in store.list(tree_file_key(""))}
    in_use = {tree_file_key(each) for each in trees}
    lacking: dict[str, CommitId] = {}
    ends: dict[str, CommitId] = {}
    absent: set[MetaRangeId] = set()
    for read in in_threads(partial(_read_tree, store, files), trees.values()):
        tree = read.tree
        in_use.update(read.ranges)
        if read.problem is not None:
            problems.append(read.problem)
        if read.missing and tree.may_be_gone:
            absent.add(tree.id)
            continue
        for key in read.missing:
            lacking.setdefault(key, tree.commit_id)
        for key in read.ranges if tree.is_head else ():
            if key in files:
                ends.setdefault(key, tree.commit_id)
    for problem in in_threads(partial(_end_problem, store, files), ends.items()):
        problems += problem
    problems += [_missing(store, *each) for each in lacking.items()]
    collected = {
        each.id for each in refs.commits if each.id in listed and each.meta_range_id in absent
    }
    return VerifiedTrees(collected, problems, files, in_use)


@dataclass(frozen=True, slots=True)
class _Tree:
    """A tree and a commit that has it, preferably a head. A collected tree `may_be_gone`."""

    id: MetaRangeId
    commit_id: CommitId
    is_head: bool
    may_be_gone: bool


@dataclass(frozen=True, slots=True)
class _ReadTree:
    tree: _Tree
    ranges: Sequence[str] = ()
    missing: Sequence[str] = ()
    problem: SparklakeError | None = None


def _trees(
    store: ObjectStore, refs: RefsSnapshot, problems: list[SparklakeError]
) -> tuple[dict[MetaRangeId, _Tree], Collection[CommitId]]:
    """Return a dump's trees, heads first, and the collected commits."""
    heads = {each.commit_id for each in refs.named}
    try:
        listed = _listed(store) - heads
    except CorruptFileError as error:
        problems.append(error)
        listed = {each.id for each in refs.commits} - heads
    trees: dict[MetaRangeId, _Tree] = {}
    for each in sorted(refs.commits, key=lambda one: (one.id not in heads, one.id in listed)):
        if each.meta_range_id:
            tree = _Tree(each.meta_range_id, each.id, each.id in heads, each.id in listed)
            trees.setdefault(tree.id, tree)
    return trees, listed


def _listed(store: ObjectStore) -> set[CommitId]:
    """Return the commits with collected trees, even before these are deleted."""
    try:
        body = store.get(COLLECTED_KEY)
    except MissingFileError:
        return set()
    remedy = (
        "restore the file from a backup. It lists the commits whose trees were collected, so "
        "tree files that only commits without a branch or tag need were not verified"
    )
    return set(decode_json(body, list[CommitId], f"{COLLECTED_KEY} in {store.uri}", remedy))


def _read_tree(store: ObjectStore, files: Mapping[str, StoredObject], tree: _Tree) -> _ReadTree:
    key = tree_file_key(tree.id)
    if key not in files:
        return _ReadTree(tree, missing=(key,))
    try:
        ranges = [tree_file_key(each.id) for each in read_meta_range(store, tree.id).ranges]
    except CorruptFileError as error:
        return _ReadTree(tree, problem=error)
    except MissingFileError:
        return _ReadTree(tree, missing=(key,))
    return _ReadTree(tree, ranges, [each for each in ranges if each not in files])


def _missing(store: ObjectStore, key: str, commit_id: CommitId) -> MissingFileError:
    return MissingFileError(
        f"{store.uri} lacks {key}, which the commit {commit_id} needs: {_REMEDY}"
    )


@dataclass(frozen=True, slots=True)
class EndOfFile:
    """An object's content with its end in memory. Other parts are read on demand."""

    store: ObjectStore
    key: str
    size: int
    end: bytes

    @classmethod
    def read(cls, store: ObjectStore, listed: StoredObject) -> EndOfFile:
        start = max(0, listed.size - _END_BYTES)
        part = store.get_part(listed.key, start, listed.size)
        return cls(store, listed.key, part.size, part.body)

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, part: slice, /) -> bytes:
        start, stop, _ = part.indices(self.size)
        begin = self.size - len(self.end)
        if start < begin:
            return self.store.get_part(self.key, start, stop).body
        return self.end[start - begin : stop - begin]


def _end_problem(
    store: ObjectStore, files: Mapping[str, StoredObject], use: tuple[str, CommitId]
) -> list[SparklakeError]:
    key, commit_id = use
    try:
        file = EndOfFile.read(store, files[key])
        if file.size == files[key].size and ends_whole(file):
            return []
    except MissingFileError:
        return [_missing(store, key, commit_id)]
    problem = (
        f"{key} in {store.uri}, which the commit {commit_id} needs, is truncated or damaged at its "
        f"end: {_REMEDY}"
    )
    return [CorruptFileError(problem)]


def in_threads(call: Callable[[_In], _Out], things: Iterable[_In]) -> Iterator[_Out]:
    """Yield the results of calls in order, with bounded memory."""
    with Threads(OBJECT_THREADS, "sparklake-verify") as threads:
        for batch in chunked(things, _READ_AT_ONCE):
            yield from threads.map(call, batch)
