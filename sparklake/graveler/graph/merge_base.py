"""Merge bases, and the commits on only one side."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import TYPE_CHECKING, NamedTuple

from sparklake.graveler.ids import CommitId

if TYPE_CHECKING:
    from sparklake.graveler.commits import Commit

_LEFT, _RIGHT, _STALE = 1, 2, 4
_COMMON = _LEFT | _RIGHT

Parents = Callable[[CommitId], Sequence[CommitId]]
Generation = Callable[[CommitId], int]


def merge_bases(
    left: CommitId, right: CommitId, parents: Parents, generation: Generation
) -> list[CommitId]:
    """Return the best common ancestors, by descending generation, then by id.

    Commits are visited by descending generation, so all descendants of a commit are visited before
    it is popped. By then, its marks are final.
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


def own_commits(
    head: CommitId, other: CommitId, parents: Parents, generation: Generation
) -> list[CommitId]:
    """Return a head's first-parent commits without those in `other`, oldest first."""
    contained = _Ancestors(other, parents, generation)
    own = []
    commit: CommitId | None = head
    while commit is not None and commit not in contained:
        above = parents(commit)
        is_merge = len(above) > 1
        if not is_merge or any(each not in contained for each in above[1:]):
            own.append(commit)
        commit = above[0] if above else None
    return own[::-1]


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


def ahead_behind(
    left: CommitId, right: CommitId, parents: Parents, generation: Generation
) -> tuple[int, int]:
    """Return the number of commits only in left, and only in right, with few visits."""
    sides, queue = dict[CommitId, int](), list[tuple[int, CommitId]]()
    counts = [0, 0, 0, 0]
    own = 0  # The number of queued commits that only one side contains.

    def meet(commit: CommitId, side: int) -> int:
        """Add a side to a commit's sides; return the change of `own`."""
        before = sides.get(commit, 0)
        sides[commit] = before | side
        if not before:
            heappush(queue, (-generation(commit), commit))
        return (sides[commit] != _COMMON) - (before not in (0, _COMMON))

    own += meet(left, _LEFT) + meet(right, _RIGHT)
    while own:
        _, commit = heappop(queue)
        # All descendants were visited, so its sides are final.
        side = sides[commit]
        counts[side] += 1
        own -= side != _COMMON
        own += sum(meet(each, side) for each in parents(commit))
    return counts[_LEFT], counts[_RIGHT]


class _Reach(NamedTuple):
    """The members reachable from a commit's children. If nested, one child leads to all of them."""

    members: int
    is_nested: bool


_NOTHING = _Reach(0, is_nested=True)


def needed_bases(commits: Sequence[Commit], retained: Container[CommitId]) -> set[CommitId]:
    """Return commits outside of `retained` needed as bases between retained commits.

    `commits` has parents first. Bases of virtual merges are included, and bases of later merges of
    commits whose parents are kept: a best common ancestor of two later commits is one of two kept
    commits, or later itself. A commit is a best common ancestor of two others only if no child of
    it leads to both. Every base found counts as kept for commits further back, because virtual
    merges merge it with others. The result may contain too many commits, but never too few.
    """
    reaches: dict[CommitId, _Reach] = {}
    needed: set[CommitId] = set()
    bit = 1
    for each in reversed(commits):
        members, is_nested = reaches.pop(each.id, _NOTHING)
        is_retained = each.id in retained
        if not (is_retained or is_nested):
            needed.add(each.id)
        if is_retained or not is_nested:
            members |= bit
            bit <<= 1
        if members:
            for parent in set(each.parents):
                reaches[parent] = _joined(reaches.get(parent, _NOTHING), members)
    return needed


def _joined(reach: _Reach, members: int) -> _Reach:
    """Add one more child to the reach of a commit."""
    union = reach.members | members
    return _Reach(union, union == members or (reach.is_nested and union == reach.members))
