"""The three trees of a merge."""

from __future__ import annotations

from dataclasses import dataclass

from sparklake.graveler.ids import CommitId, MetaRangeId
from sparklake.graveler.planning.path_filter import ALL, PathFilter


@dataclass(frozen=True, slots=True)
class ThreeWayTrees:
    """The base, source and dest trees of a merge. Keys outside `path_filter` keep dest's value.

    `bases` are the commits of the base tree. If they are expired, records are still compared with
    it, but none of its objects is read or referenced. With `logs_grow`, no Delta log of dest loses
    versions: a new commit undoes them. The histories of the heads show the commits of a conflict.
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
        """The trees of base, source and dest."""
        return self.base, self.source, self.dest
