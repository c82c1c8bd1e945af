"""Diff, apply and merge over streams of records.

The algebra does no I/O. Memory is bounded by one block of each stream, plus the few blocks of dest
that wait for a decision. Records are compared by id and found by key, a whole block at a time. Only
conflicts are handled one by one.
"""

from sparklake.graveler.algebra.changes import (
    NO_ROW,
    BlockChanges,
    Change,
    ChangeCounts,
    ChangeType,
    Conflict,
    EditObserver,
    SideRows,
)
from sparklake.graveler.algebra.compare import diff, three_way_diff
from sparklake.graveler.algebra.staged import apply, staged_diff
from sparklake.graveler.algebra.three_way_merge import Decide, merge

__all__ = [
    "NO_ROW",
    "Change",
    "ChangeCounts",
    "ChangeType",
    "BlockChanges",
    "Conflict",
    "Decide",
    "EditObserver",
    "SideRows",
    "apply",
    "diff",
    "merge",
    "staged_diff",
    "three_way_diff",
]
