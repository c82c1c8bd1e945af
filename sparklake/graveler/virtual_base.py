"""The one base that stands for several best common ancestors: they are merged, as git does it.

The lowest is merged with the next one over their own base, what comes of that with the next, and so
on. A base of theirs may itself be one of several, and then is made in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Generic, TypeVar

from sparklake.graveler.ids import CommitId
from sparklake.graveler.merge_base import merge_bases

Tree = TypeVar("Tree")


@dataclass(frozen=True, slots=True)
class _Virtual(Generic[Tree]):
    """Is the merge of two ancestors, either of which may be virtual, too."""

    parents: tuple[CommitId, CommitId]
    generation: int
    tree: Tree


@dataclass(slots=True)
class VirtualBases(Generic[Tree]):
    """Makes virtual bases, each merge of two ancestors once.

    `merge` is given the name of a virtual merge, which no other one has, and the trees of base,
    source and dest. `empty` is the base of ancestors that have none.
    """

    parents: Callable[[CommitId], Sequence[CommitId]]
    generation: Callable[[CommitId], int]
    tree: Callable[[CommitId], Tree]
    merge: Callable[[CommitId, Tree, Tree, Tree], Tree]
    empty: Tree
    _made: dict[CommitId, _Virtual[Tree]] = field(default_factory=dict)

    def of(self, bases: Sequence[CommitId]) -> Tree:
        """Returns the tree that stands for best common ancestors, which are given best first."""
        # Each criss-cross may stand on another one: deeper than Python lets functions call.
        waiting, found = [self._merged(bases)], None
        while waiting:
            try:
                below = waiting[-1].send(found)
            except StopIteration as end:
                found = end.value
                waiting.pop()
            else:
                waiting.append(self._merged(below))
                found = None
        return self._tree(found)

    def _merged(
        self, bases: Sequence[CommitId]
    ) -> Generator[Sequence[CommitId], CommitId | None, CommitId | None]:
        """Yields bases that it needs the merge of; returns what the bases given are merged to."""
        if not bases:
            return None
        *others, merged = bases
        for other in reversed(others):
            name = _name(merged, other)
            if name not in self._made:
                base = yield merge_bases(merged, other, self._parents, self._generation)
                tree = self.merge(name, *map(self._tree, (base, merged, other)))
                generation = 1 + max(map(self._generation, (merged, other)))
                self._made[name] = _Virtual((merged, other), generation, tree)
            merged = name
        return merged

    def _parents(self, commit: CommitId) -> Sequence[CommitId]:
        made = self._made.get(commit)
        return made.parents if made else self.parents(commit)

    def _generation(self, commit: CommitId) -> int:
        made = self._made.get(commit)
        return made.generation if made else self.generation(commit)

    def _tree(self, commit: CommitId | None) -> Tree:
        if commit is None:
            return self.empty
        made = self._made.get(commit)
        return made.tree if made else self.tree(commit)


def _name(one: CommitId, other: CommitId) -> CommitId:
    return CommitId(sha256(f"virtual merge of {one} and {other}".encode()).hexdigest())
