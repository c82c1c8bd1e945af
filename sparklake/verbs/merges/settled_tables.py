"""The tables that both sides of a merge changed, for merges and their previews."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from sparklake.graveler.algebra.changes import Conflict
from sparklake.graveler.algebra.classify import KeyOutcome
from sparklake.graveler.entries import record_entry
from sparklake.graveler.records import identity_of
from sparklake.strategies.resolution import Resolution
from sparklake.verbs.base.attempts import Attempts
from sparklake.verbs.base.merge_bases import ThreeWayTrees
from sparklake.verbs.merges.folder_rows import plain_tables
from sparklake.verbs.merges.table_unions import table_unions
from sparklake.verbs.tables.unions import (
    Pending,
    Refused,
    Settled,
    StoredValues,
    TableUnion,
    United,
)


def changed_tables(
    attempts: Attempts, sides: ThreeWayTrees, resolution: Resolution
) -> list[TableUnion]:
    """Return the unions of all tables that the merge's tasks observed."""
    merge = attempts.context, sides, resolution
    plain = plain_tables(*merge, attempts.tables, attempts.added)
    return [*table_unions(*merge, attempts.logs), *plain]


def tables_by_rows(unions: Iterable[TableUnion]) -> list[bytes]:
    """Return the folders whose files are left to a merge of rows."""
    by_rows = (each for each in unions if isinstance(each, Pending) and each.rows is not None)
    return [
        each.table.folder
        for each in by_rows
        if isinstance(each.union, Refused) or not each.table.kind
    ]


def settled(
    attempts: Attempts, unions: Iterable[TableUnion], *, write: bool
) -> list[Settled | Refused]:
    """Run the pending checks and merges of rows. Without `write`, only count the rows."""
    return [
        each.settled(attempts, write=write) if isinstance(each, Pending) else each
        for each in unions
    ]


def union_counts(unions: Iterable[Settled | Refused]) -> Counter[str]:
    """Return corrections to the counts of a merge by keys, possibly negative."""
    counts: Counter[str] = Counter()
    for each in unions:
        if isinstance(each, Refused):
            # A key that stands for a refused table may be no conflict of the tasks.
            counts["conflicts"] += sum(not _is_conflict(one) for one in each.conflicts)
            continue
        if isinstance(each, United):
            counts["added"] += len(each.files)
            counts["added_bytes"] += sum(map(len, each.files.values()))
        for key, dest, by_keys, end in each.corrections:
            counts.subtract(_change_counts(key, dest, by_keys))
            counts.update(_change_counts(key, dest, end))
    return counts


def _is_conflict(conflict: Conflict) -> bool:
    stored = StoredValues(conflict.base, conflict.source, conflict.dest)
    return conflict.ancestors_disagree or stored.outcome is KeyOutcome.CONFLICT


def _change_counts(key: bytes, old: bytes | None, new: bytes | None) -> Counter[str]:
    current = old if new is None else new
    if current is None or identity_of(key, old) == identity_of(key, new):
        return Counter()
    kind = "removed" if new is None else "added" if old is None else "changed"
    return Counter({kind: 1, f"{kind}_bytes": record_entry((key, current)).size})
