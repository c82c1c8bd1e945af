"""Commits dropped when a merge selects one side of a whole table."""

from __future__ import annotations

from collections.abc import Sequence

from sparklake.metadata.delta.actions import Fields
from sparklake.metadata.delta.delta_commits import DeltaCommit
from sparklake.metadata.delta.union.continuation import find_number
from sparklake.metadata.delta.union.liveness import live_after
from sparklake.metadata.union.commits import commits_but, origins
from sparklake.metadata.union.dropped import DroppedCommits


def describe_dropped(
    side: str,
    loser: Sequence[DeltaCommit],
    winner: Sequence[DeltaCommit],
    base: Sequence[DeltaCommit],
) -> DroppedCommits:
    """Describe the loser's commits missing from both the winner and base."""
    own = commits_but(commits_but(loser, origins(base)), origins(winner))
    added = live_after((each.actions for each in own), {})
    rows = [_rows(each) for each in added.values()]
    new = {key for each in own for key in each.adds}
    old = {key for each in own for key in each.removes} - new
    total = None if None in rows else sum(filter(None, rows))
    return DroppedCommits(side, len(own), len(added), total, len(old))


def _rows(fields: Fields) -> int | None:
    rows = find_number(fields.get("stats"), "numRecords")
    vector = fields.get("deletionVector") or {}
    return None if rows is None else rows - int(vector.get("cardinality", 0))
