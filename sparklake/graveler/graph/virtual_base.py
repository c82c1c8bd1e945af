"""The virtual base of a criss-cross merge: the merged best common ancestors, as in Git."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Generic, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from sparklake.graveler.buffers import Mask, mask_of
from sparklake.graveler.graph.merge_base import merge_bases
from sparklake.graveler.ids import CommitId, zigzag
from sparklake.graveler.records import encode_record

Tree = TypeVar("Tree")


@dataclass(frozen=True, slots=True)
class _Virtual(Generic[Tree]):
    parents: tuple[CommitId, CommitId]
    generation: int
    tree: Tree


@dataclass(slots=True)
class VirtualBases(Generic[Tree]):
    """A cache of virtual merge bases. Each pair of ancestors is merged once.

    `merge` receives the unique name of a virtual merge and the trees of base, source and dest.
    `empty` is the base of ancestors without a common ancestor.
    """

    parents: Callable[[CommitId], Sequence[CommitId]]
    generation: Callable[[CommitId], int]
    tree: Callable[[CommitId], Tree]
    merge: Callable[[CommitId, Tree, Tree, Tree], Tree]
    empty: Tree
    _made: dict[CommitId, _Virtual[Tree]] = field(default_factory=dict)

    def of(self, bases: Sequence[CommitId]) -> Tree:
        """Return the merged tree of best common ancestors, given best first."""
        # An explicit stack: nested criss-crosses can be deeper than Python's recursion
        # limit.
        waiting, merged = [self._merged(bases)], None
        while waiting:
            try:
                below = waiting[-1].send(merged)
            except StopIteration as end:
                merged = end.value
                waiting.pop()
            else:
                waiting.append(self._merged(below))
                merged = None
        return self._tree(merged)

    def _merged(
        self, bases: Sequence[CommitId]
    ) -> Generator[Sequence[CommitId], CommitId | None, CommitId | None]:
        """Yield the bases to merge first, and return the merge of the given bases."""
        if not bases:
            return None
        *others, merged = bases
        for other in reversed(others):
            text = f"virtual merge of {merged} and {other}"
            name = CommitId(sha256(text.encode()).hexdigest())
            if name not in self._made:
                base = yield merge_bases(merged, other, self._parents, self._generation)
                tree = self.merge(name, *map(self._tree, (base, merged, other)))
                generation = 1 + max(map(self._generation, (merged, other)))
                self._made[name] = _Virtual((merged, other), generation, tree)
            merged = name
        return merged

    def _parents(self, commit: CommitId) -> Sequence[CommitId]:
        virtual = self._made.get(commit)
        return virtual.parents if virtual else self.parents(commit)

    def _generation(self, commit: CommitId) -> int:
        virtual = self._made.get(commit)
        return virtual.generation if virtual else self.generation(commit)

    def _tree(self, commit: CommitId | None) -> Tree:
        if commit is None:
            return self.empty
        virtual = self._made.get(commit)
        return virtual.tree if virtual else self.tree(commit)


_MARK = b"\0disagreement\0"
_NAME_BYTES = 32
_HEAD = zigzag(len(_MARK) + _NAME_BYTES) + _MARK


def disagreement(key: bytes, name: CommitId) -> bytes:
    """Return the stored value of a key in conflict after the named virtual merge."""
    return encode_record(key, _MARK + bytes.fromhex(name), b"")[1]


def disagreements(stored: pa.BinaryArray) -> Mask:
    return mask_of(pc.starts_with(stored, _HEAD))


def is_disagreement(stored: bytes) -> bool:
    return stored.startswith(_HEAD)
