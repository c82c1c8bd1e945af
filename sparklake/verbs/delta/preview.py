"""What a merge would make of the logs of Delta tables, counted as its other changes are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sparklake.graveler.algebra.classify import Outcome
from sparklake.graveler.entries import record_entry
from sparklake.graveler.records import identity_of
from sparklake.udfs.read import DiffRow
from sparklake.udfs.strategies.resolution import Resolution
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.sides import Sides
from sparklake.verbs.delta.merge import table_unions
from sparklake.verbs.delta.merged_log import (
    FindMany,
    TableUnion,
    refused_rows,
    taken_tables,
    united_tables,
)


@dataclass(frozen=True, slots=True)
class PreviewedUnions:
    """What the unions of logs add to the counts of a merge by keys, which may be negative."""

    united: tuple[str, ...]
    taken: Mapping[str, str]
    refused: tuple[DiffRow, ...]
    counts: Counter[str]


def preview_unions(
    context: Context,
    sides: Sides,
    resolution: Resolution,
    folders: Iterable[bytes],
    find_many: FindMany,
) -> PreviewedUnions:
    """Return what a merge would do to the logs of tables that both sides have changed.

    `find_many` looks into the tree that the merge would make.
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
    # A key that is no conflict of the tasks may stand for its table.
    conflicts = [(each, one.key) for each in refused for one in each.conflicts()]
    counts["conflicts"] = sum(
        each.log[key].outcome is not Outcome.CONFLICT for each, key in conflicts
    )
    rows = tuple(refused_rows(refused))
    return PreviewedUnions(united_tables(unions), taken_tables(unions), rows, counts)


def _count(union: TableUnion, counts: Counter[str]) -> None:
    """Count the new commits, and other changes of the log than a merge by keys would make."""
    counts["added"] += len(union.added)
    counts["added_bytes"] += sum(map(len, union.added.values()))
    for key, stored in union.log.items():
        counts.subtract(_change(key, stored.dest, stored.by_keys))
        counts.update(_change(key, stored.dest, union.becomes(stored)))


def _change(key: bytes, old: bytes | None, new: bytes | None) -> Counter[str]:
    """Return how a change of one key counts."""
    shown = old if new is None else new
    if shown is None or identity_of(key, old) == identity_of(key, new):
        return Counter()
    kind = "removed" if new is None else "added" if old is None else "changed"
    return Counter({kind: 1, f"{kind}_bytes": record_entry((key, shown)).size})
