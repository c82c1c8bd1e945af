"""The number of commits that two histories do not share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappop, heappush

from sparklake.graveler.ids import CommitId

_LEFT, _RIGHT, _BOTH = 1, 2, 3


def ahead_behind(
    left: CommitId,
    right: CommitId,
    parents: Callable[[CommitId], Sequence[CommitId]],
    generation: Callable[[CommitId], int],
) -> tuple[int, int]:
    """Return the number of commits that only left contains, and that only right contains.

    Histories are visited by descending generation, and only until they are the same.
    """
    sides, queue = dict[CommitId, int](), list[tuple[int, CommitId]]()
    counts = [0, 0, 0, 0]
    own = 0  # The number of queued commits that only one side contains.

    def meet(commit: CommitId, side: int) -> int:
        """Note a side that contains a commit; return the change of `own`."""
        before = sides.get(commit, 0)
        sides[commit] = before | side
        if not before:
            heappush(queue, (-generation(commit), commit))
        return (sides[commit] != _BOTH) - (before not in (0, _BOTH))

    own += meet(left, _LEFT) + meet(right, _RIGHT)
    while own:
        _, commit = heappop(queue)
        # All descendants were visited, so its sides are final.
        side = sides[commit]
        counts[side] += 1
        own -= side != _BOTH
        own += sum(meet(each, side) for each in parents(commit))
    return counts[_LEFT], counts[_RIGHT]
