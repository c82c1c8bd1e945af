"""What a merge would make of the logs of Delta tables, counted as its other changes are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from sparklake.graveler.classification import Outcome
from sparklake.graveler.entries import record_entry
from sparklake.udfs.reading import DiffRow
from sparklake.udfs.strategies.resolution import Resolution
from sparklake.verbs.context import Context
from sparklake.verbs.delta.unions import Stored, TableUnion, table_unions
from sparklake.verbs.merging.kept import MergedView
from sparklake.verbs.merging.three_way import Sides, refused_rows


@dataclass(frozen=True, slots=True)
class PreviewedUnions:
    """Is what the unions of logs add to the counts of a merge by keys, which may be negative."""

    tables: tuple[str, ...]
    refused: tuple[DiffRow, ...]
    counts: Counter[str]


def preview_unions(
    context: Context, sides: Sides, resolution: Resolution, folders: Iterable[bytes]
) -> PreviewedUnions:
    """Returns what a merge would do to the logs of tables that both sides have changed."""
    merged = MergedView(context, sides, resolution)
    unions = [
        each if each.refusal is not None else each.checked(merged.find)
        for each in table_unions(context, sides, resolution, folders)
    ]
    refused = [each for each in unions if each.refusal is not None]
    counts: Counter[str] = Counter()
    for each in unions:
        if each.refusal is None:
            _count(each, counts)
    # A key that only source changed is no conflict of the tasks, yet it may stand for its table.
    conflicts = [(each, one.key) for each in refused for one in each.conflicts()]
    counts["conflicts"] = sum(_is_taken(each.changed[key]) for each, key in conflicts)
    united = tuple(each.name for each in unions if each.refusal is None)
    return PreviewedUnions(united, tuple(refused_rows(refused)), counts)


def _count(union: TableUnion, counts: Counter[str]) -> None:
    """Counts the new commits, and no more what a merge by keys would have taken from source."""
    counts["added"] += len(union.added)
    counts["added_bytes"] += sum(map(len, union.added.values()))
    for key, stored in filter(lambda each: _is_taken(each[1]), union.changed.items()):
        _, source, dest = stored
        kind = "removed" if source is None else "added" if dest is None else "changed"
        counts[kind] -= 1
        counts[f"{kind}_bytes"] -= record_entry((key, source or dest or b"")).size


def _is_taken(stored: Stored) -> bool:
    return stored.outcome is Outcome.TAKE_SOURCE
