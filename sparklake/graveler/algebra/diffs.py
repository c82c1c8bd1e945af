"""Diffs of streams of records."""

from __future__ import annotations

from collections.abc import Iterator

from sparklake.graveler.algebra.changes import BlockChanges, ChangeObserver, ignore_changes
from sparklake.graveler.algebra.classify import KeyOutcome
from sparklake.graveler.algebra.compare import compared, three_way, two_way
from sparklake.graveler.blocks.align import aligned
from sparklake.graveler.blocks.block import Blocks


def diff(left: Blocks, right: Blocks) -> Iterator[BlockChanges]:
    """Yield the keys whose records differ between two sides, in key order."""
    for before, after in aligned(left, right):
        changes = two_way(*compared(before, after))
        if len(changes):
            yield changes


def three_way_diff(
    base: Blocks, source: Blocks, dest: Blocks, observe: ChangeObserver = ignore_changes
) -> Iterator[BlockChanges]:
    """Yield the changes of a merge of source to dest, and its conflicts.

    `observe` gets all differences between source and dest.
    """
    for sides in aligned(base, source, dest):
        changes, outcomes = three_way(*sides)
        if not len(changes):
            continue
        observe(changes)
        shown = changes.where(~outcomes[KeyOutcome.TAKE_DEST])
        if len(shown):
            yield shown
