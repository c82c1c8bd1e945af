"""Merge bases, and the three trees of a merge."""

from __future__ import annotations

from dataclasses import dataclass

from sparklake.errors import RefNotFoundError
from sparklake.graveler.commits import Commit
from sparklake.graveler.graph.merge_base import merge_bases
from sparklake.graveler.ids import CommitId, MetaRangeId
from sparklake.graveler.planning.path_filter import ALL, PathFilter
from sparklake.verbs.base.commit_graph import Walk
from sparklake.verbs.base.context import Context


def merge_base(context: Context, left: Commit, right: Commit) -> Commit:
    """Return the best common ancestor with the highest generation."""
    return best_common_ancestors(context, left, right)[0]


def common_ancestors(context: Context, left: Commit, right: Commit) -> list[Commit]:
    """Return the best common ancestors, highest generation first."""
    walk = Walk(context.graph)
    bases = merge_bases(left.id, right.id, walk.parents, walk.generation)
    return [walk.commit(each) for each in bases]


def best_common_ancestors(context: Context, left: Commit, right: Commit) -> list[Commit]:
    bases = common_ancestors(context, left, right)
    if not bases:
        raise RefNotFoundError(
            f"commits {left.id[:12]} and {right.id[:12]} have no common ancestor: their "
            "histories have different first commits"
        )
    return bases


BASE, SOURCE, DEST = 0, 1, 2
SIDE_NAMES = ("base", "source", "dest")
"""The names of the sides, in the order of `ThreeWayTrees.trees`."""


@dataclass(frozen=True, slots=True)
class ThreeWayTrees:
    """The base, source and dest trees of a merge. Keys outside `path_filter` keep dest's value.

    `bases` are the commits of the base tree. If they are expired, records are still compared with
    it, but none of its objects is read or referenced. With `logs_grow`, Delta logs of dest never
    lose versions: a new commit undoes them. The commits of a conflict are found in the histories of
    the heads.
    """

    base: MetaRangeId
    source: MetaRangeId
    dest: MetaRangeId
    path_filter: PathFilter = ALL
    bases: tuple[CommitId, ...] = ()
    logs_grow: bool = False
    source_head: CommitId | None = None
    dest_head: CommitId | None = None

    @property
    def trees(self) -> tuple[MetaRangeId, MetaRangeId, MetaRangeId]:
        return self.base, self.source, self.dest
