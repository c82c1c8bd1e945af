"""The event that hooks check."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sparklake.graveler.commits import Commit
from sparklake.graveler.ids import CommitId, MetaRangeId
from sparklake.verbs.base.context import Context


@dataclass(frozen=True, slots=True)
class RefChange:
    """The event of a ref, independent of the hooks."""

    context: Context
    verb: str
    ref: str
    who: str
    before: MetaRangeId
    after: MetaRangeId
    head: CommitId | None = None
    source: CommitId | None = None
    commits: Sequence[Commit] = ()
