"""Previews of merged Delta logs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from sparklake.graveler.algebra.classify import KeyOutcome
from sparklake.graveler.entries import record_entry
from sparklake.graveler.records import identity_of
from sparklake.strategies.resolution import Resolution
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.merge_bases import ThreeWayTrees
from sparklake.verbs.merges.table_unions import table_unions
from sparklake.verbs.tables.row_merges import merge_rows
from sparklake.verbs.tables.unions import FindMany, TableUnion, with_check, with_rows


def preview_unions(
    context: Context,
    sides: ThreeWayTrees,
    resolution: Resolution,
    folders: Iterable[bytes],
    find_many: FindMany,
) -> tuple[list[TableUnion], Counter[str]]:
    """Return the unions, and corrections of the merge's counts, possibly negative."""
    unchecked = table_unions(context, sides, resolution, folders)
    pending = [
        with_check(each, each.check.find_problem()) if each.check else each for each in unchecked
    ]
    unions = [
        with_rows(each, merge_rows(each.pending, write=False)) if each.pending else each
        for each in pending
    ]
    unions = [each if each.refusal is not None else each.checked(find_many) for each in unions]
    counts: Counter[str] = Counter()
    for each in unions:
        if each.refusal is not None:
            # A key that stands for a refused table may be no conflict of the tasks.
            outcomes = (each.log[one.key].outcome for one in each.conflicts())
            counts["conflicts"] += sum(one is not KeyOutcome.CONFLICT for one in outcomes)
            continue
        counts["added"] += len(each.added)
        counts["added_bytes"] += sum(map(len, each.added.values()))
        for key, stored in each.log.items():
            counts.subtract(change_counts(key, stored.dest, stored.by_keys))
            counts.update(change_counts(key, stored.dest, each.becomes(stored)))
    return unions, counts


def change_counts(key: bytes, old: bytes | None, new: bytes | None) -> Counter[str]:
    current = old if new is None else new
    if current is None or identity_of(key, old) == identity_of(key, new):
        return Counter()
    kind = "removed" if new is None else "added" if old is None else "changed"
    return Counter({kind: 1, f"{kind}_bytes": record_entry((key, current)).size})
