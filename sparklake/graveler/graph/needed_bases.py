"""The commits whose trees merges of other commits may need as bases."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from sparklake.graveler.commits import Commit
    from sparklake.graveler.ids import CommitId


class _Reach(NamedTuple):
    """The members that lead to a commit, as a bit set.

    With `is_nested`, one child alone leads to all of them.
    """

    members: int
    is_nested: bool


_NOTHING = _Reach(0, is_nested=True)


def needed_bases(commits: Sequence[Commit], kept: Container[CommitId]) -> set[CommitId]:
    """Return the commits outside of `kept` that may be bases of merges among kept commits.

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
        is_kept = each.id in kept
        if not (is_kept or is_nested):
            needed.add(each.id)
        if is_kept or not is_nested:
            members |= bit
            bit <<= 1
        if members:
            for parent in set(each.parents):
                reaches[parent] = _joined(reaches.get(parent, _NOTHING), members)
    return needed


def _joined(reach: _Reach, members: int) -> _Reach:
    """Return the reach of a commit with one more child."""
    union = reach.members | members
    return _Reach(union, union == members or (reach.is_nested and union == reach.members))
