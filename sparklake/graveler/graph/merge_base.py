"""Merge bases, and the commits on only one of two branches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

from sparklake.graveler.ids import CommitId

_LEFT, _RIGHT, _STALE = 1, 2, 4
_COMMON = _LEFT | _RIGHT


def merge_bases(
    left: CommitId,
    right: CommitId,
    parents: Callable[[CommitId], Sequence[CommitId]],
    generation: Callable[[CommitId], int],
) -> list[CommitId]:
    """Return the best common ancestors: those that are not ancestors of another one.

    They are sorted by descending generation, then by id. Commits are visited by descending
    generation, so all descendants of a commit are visited before the commit is popped. Its
    marks are final then.
    """
    marks: dict[CommitId, int] = {}
    queue: list[tuple[int, CommitId]] = []
    fresh = 0

    def mark(commit: CommitId, marking: int) -> None:
        nonlocal fresh
        before = marks.get(commit)
        after = (before or 0) | marking
        if before is None:
            heappush(queue, (-generation(commit), commit))
        was_fresh = before is not None and not before & _STALE
        fresh += int(not after & _STALE) - int(was_fresh)
        marks[commit] = after

    mark(left, _LEFT)
    mark(right, _RIGHT)
    best: list[CommitId] = []
    while fresh:
        _, commit = heappop(queue)
        marking = marks[commit]
        if not marking & _STALE:
            fresh -= 1
        if marking == _COMMON:
            best.append(commit)
            marking |= _STALE
        for parent in parents(commit):
            mark(parent, marking)
    return best


Parents = Callable[[CommitId], Sequence[CommitId]]
Generation = Callable[[CommitId], int]


def own_commits(
    head: CommitId, other: CommitId, parents: Parents, generation: Generation
) -> list[CommitId]:
    """Return the first-parent commits of a head that `other` lacks, oldest first.

    Merges that only brought in commits of `other` are omitted, too. The history of `other` is
    visited only down to where it meets the first-parent line.
    """
    contained = _Ancestors(other, parents, generation)
    found = []
    commit: CommitId | None = head
    while commit is not None and commit not in contained:
        above = parents(commit)
        is_merge = len(above) > 1
        if not is_merge or any(each not in contained for each in above[1:]):
            found.append(commit)
        commit = above[0] if above else None
    return found[::-1]


@dataclass(slots=True)
class _Ancestors:
    """The ancestors of a commit, searched only as deep as the lookups need."""

    start: CommitId
    parents: Parents
    generation: Generation
    _seen: set[CommitId] = field(default_factory=set)
    _queue: list[tuple[int, CommitId]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._meet(self.start)

    def __contains__(self, commit: CommitId) -> bool:
        least = self.generation(commit)
        while self._queue and -self._queue[0][0] > least:
            _, above = heappop(self._queue)
            for each in self.parents(above):
                self._meet(each)
        return commit in self._seen

    def _meet(self, commit: CommitId) -> None:
        if commit not in self._seen:
            self._seen.add(commit)
            heappush(self._queue, (-self.generation(commit), commit))
