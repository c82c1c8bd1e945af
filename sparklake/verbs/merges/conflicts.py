"""Conflicts as rows, the first ones with their commits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from sparklake.graveler.algebra import Conflict
from sparklake.graveler.commits import Commit
from sparklake.graveler.ids import CommitId
from sparklake.graveler.records import stored_record_id
from sparklake.rows.diffs import ThreeWayRow, conflict_row
from sparklake.strategies.judging import MAX_CONFLICTS_REPORTED
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.three_way_trees import ThreeWayTrees
from sparklake.verbs.history.origins import WalkLimits, last_changes

CONFLICTS_WITH_COMMITS = 100
"""The number of conflicts of a verb whose commits are looked up."""

_LIMITS = WalkLimits(commits=20_000, trees=200)
"""The limits of the search on each side, for all conflicts together."""


def conflict_rows(
    context: Context, sides: ThreeWayTrees, conflicts: Iterable[tuple[Conflict, str | None]]
) -> list[ThreeWayRow]:
    """Return the first conflicts in key order as rows, each with its reason.

    The first CONFLICTS_WITH_COMMITS rows have the commits of source and dest.
    """
    first = sorted(conflicts, key=lambda each: each[0].key)[:MAX_CONFLICTS_REPORTED]
    rows = [conflict_row(*each) for each in first]
    shown = [conflict for conflict, _ in first[:CONFLICTS_WITH_COMMITS]]
    source = _commits(context, sides.source_head, [(each.key, each.source) for each in shown])
    dest = _commits(context, sides.dest_head, [(each.key, each.dest) for each in shown])
    for at, found in enumerate(zip(source, dest, strict=True)):
        rows[at] = replace(rows[at], source_commit=found[0], dest_commit=found[1])
    return rows


def _commits(
    context: Context, head: CommitId | None, values: Sequence[tuple[bytes, bytes | None]]
) -> Sequence[Commit | None]:
    """Return the last change of each key to its stored value, or None."""
    if head is None:
        return [None] * len(values)
    record_ids = [(key, stored_record_id(stored)) for key, stored in values]
    return last_changes(context, head, record_ids, _LIMITS)
