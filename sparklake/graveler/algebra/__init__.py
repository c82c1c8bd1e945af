"""Diff, apply and merge over streams of records.

Nothing here reads or writes, or holds more than a block of each stream, but for the few blocks of
dest that wait for a decision. Records are compared by their ids and found by their keys, a whole
block at a time; only a conflict is looked at by itself.
"""

from sparklake.graveler.algebra.apply import apply, staged_diff
from sparklake.graveler.algebra.changes import (
    ABSENT,
    Change,
    ChangeCounts,
    Changes,
    ChangeType,
    Conflict,
    Note,
    Rows,
)
from sparklake.graveler.algebra.diff import diff, three_way_diff
from sparklake.graveler.algebra.merge import Decide, merge, take_side

__all__ = [
    "ABSENT",
    "Change",
    "ChangeCounts",
    "ChangeType",
    "Changes",
    "Conflict",
    "Decide",
    "Note",
    "Rows",
    "apply",
    "diff",
    "merge",
    "staged_diff",
    "take_side",
    "three_way_diff",
]
