"""The three trees of a merge."""

from __future__ import annotations

from dataclasses import dataclass

from sparklake.graveler.ids import CommitId, MetaRangeId
from sparklake.graveler.planning.path_filter import ALL, Choice


@dataclass(frozen=True, slots=True)
class Sides:
    """The three trees of a merge, which leaves all but the chosen keys as they are in dest.

    `bases` are the commits that the base tree is of. They may have expired: then the base tells
    records apart, and none of its objects is read or named. Where the `logs_grow`, no Delta log of
    dest loses versions: a commit undoes them.
    """

    base: MetaRangeId
    source: MetaRangeId
    dest: MetaRangeId
    choice: Choice = ALL
    bases: tuple[CommitId, ...] = ()
    logs_grow: bool = False

    @property
    def trees(self) -> tuple[MetaRangeId, MetaRangeId, MetaRangeId]:
        """The trees of base, source and dest."""
        return self.base, self.source, self.dest
