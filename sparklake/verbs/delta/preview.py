"""The effect of a merge on Delta logs, for previews."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sparklake.delta_log.union.dropped import DroppedCommits
from sparklake.graveler.algebra.changes import Conflict
from sparklake.graveler.algebra.classify import KeyOutcome
from sparklake.graveler.entries import record_entry
from sparklake.graveler.records import identity_of
from sparklake.strategies.resolution import Resolution
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.merge_bases import ThreeWayTrees
from sparklake.verbs.delta.merge import table_unions
from sparklake.verbs.delta.merged_log import (
    FindMany,
    TableUnion,
    dropped_commits,
    merged_tables,
    refused_conflicts,
    table_winners,
)


@dataclass(frozen=True, slots=True)
class PreviewedUnions:
    """The united tables, and their possibly negative change of the counts."""

    merged: tuple[str, ...]
    winners: Mapping[str, str]
    dropped: Mapping[str, DroppedCommits]
    refused: tuple[tuple[Conflict, str], ...]
    counts: Counter[str]


def preview_unions(
    context: Context,
    sides: ThreeWayTrees,
    resolution: Resolution,
    folders: Iterable[bytes],
    find_many: FindMany,
) -> PreviewedUnions:
    """Return the effect of a merge on the logs changed on both sides.

    `find_many` looks up keys in the merged tree.
    """
    unions = [
        each if each.refusal is not None else each.checked(find_many)
        for each in table_unions(context, sides, resolution, folders)
    ]
    refused = [each for each in unions if each.refusal is not None]
    counts: Counter[str] = Counter()
    for each in unions:
        if each.refusal is None:
            _count(each, counts)
    # A refused table may be represented by a key that is no conflict of the tasks.
    conflicts = [(each, one.key) for each in refused for one in each.conflicts()]
    counts["conflicts"] = sum(
        each.log[key].outcome is not KeyOutcome.CONFLICT for each, key in conflicts
    )
    reasons = tuple(refused_conflicts(refused))
    return PreviewedUnions(
        merged_tables(unions), table_winners(unions), dropped_commits(unions), reasons, counts
    )


def _count(union: TableUnion, counts: Counter[str]) -> None:
    """Count the new commits, and the differences of the log from a merge by keys."""
    counts["added"] += len(union.added)
    counts["added_bytes"] += sum(map(len, union.added.values()))
    for key, stored in union.log.items():
        counts.subtract(_change(key, stored.dest, stored.by_keys))
        counts.update(_change(key, stored.dest, union.becomes(stored)))


def _change(key: bytes, old: bytes | None, new: bytes | None) -> Counter[str]:
    shown = old if new is None else new
    if shown is None or identity_of(key, old) == identity_of(key, new):
        return Counter()
    kind = "removed" if new is None else "added" if old is None else "changed"
    return Counter({kind: 1, f"{kind}_bytes": record_entry((key, shown)).size})
