"""What a branch has of its own: the commits of its line that another commit does not contain."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

from sparklake.graveler.ids import CommitId

Parents = Callable[[CommitId], Sequence[CommitId]]
Generation = Callable[[CommitId], int]


def own_commits(
    head: CommitId, other: CommitId, parents: Parents, generation: Generation
) -> list[CommitId]:
    """Returns the commits from a head over first parents, the first one first.

    Left out is what another commit contains, and merges that only brought in what it contains. The
    history of `other` is visited down to where the line meets it, and no further.
    """
    contained = _Contained(other, parents, generation)
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
class _Contained:
    """Is the commits that one contains, found as far down as was asked for."""

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
