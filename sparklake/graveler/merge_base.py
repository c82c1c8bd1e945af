"""Best common ancestors of two commits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
    """Returns the common ancestors that are no ancestors of another one, best first.

    Commits are visited by descending generation, so all descendants of a commit have been seen
    when it is popped: what is marked on it then is final. Best is the highest generation, then the
    least id.
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
