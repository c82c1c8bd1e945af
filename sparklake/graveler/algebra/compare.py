"""Comparison of two or three sides: blocks with the outcome of each key, and diffs of streams."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sparklake.graveler.algebra.changes import (
    NO_ROW,
    BlockChanges,
    ChangeObserver,
    SideRows,
    ignore_changes,
)
from sparklake.graveler.algebra.classify import KeyOutcome, outcome_of
from sparklake.graveler.blocks.align import aligned, found_ids, unequal
from sparklake.graveler.blocks.block import EMPTY, Block, Blocks
from sparklake.graveler.blocks.columns import Mask, Positions
from sparklake.graveler.graph.virtual_base import disagreements

# Outcomes of keys on which source and dest differ, indexed by 2 * (source is base) + (dest is
# base).
_RULES = [outcome_of(False, bool(sides & 2), bool(sides & 1)) for sides in range(4)]
_OUTCOMES = {outcome: np.array([rule is outcome for rule in _RULES]) for outcome in KeyOutcome}


def two_way(left: SideRows, right: SideRows) -> BlockChanges:
    """Return rows of two sides as changes without conflicts."""
    count = len(left.at)
    none = np.zeros(count, bool)
    return BlockChanges(left, right, SideRows(EMPTY, np.full(count, NO_ROW)), none, none)


def three_way(
    base: Block, source: Block, dest: Block
) -> tuple[BlockChanges, dict[KeyOutcome, Mask]]:
    """Return the keys on which source and dest differ, with a mask per merge outcome."""
    in_dest, in_source = compared(dest, source)
    if not len(in_dest.at):
        return two_way(in_dest, in_source), {}
    ancestors = _ancestors(base, in_dest, in_source)
    sides = in_source.same_as(ancestors) * 2 + in_dest.same_as(ancestors) * 1
    outcomes = {outcome: rows[sides] for outcome, rows in _OUTCOMES.items()}
    conflicts = outcomes[KeyOutcome.CONFLICT]
    contested = SideRows(base, np.where(conflicts, ancestors.at, NO_ROW))
    disputed = _disputed(contested)
    agreed = SideRows(base, np.where(disputed, NO_ROW, contested.at))
    return BlockChanges(in_dest, in_source, agreed, conflicts, disputed), outcomes


def compared(left: Block, right: Block) -> tuple[SideRows, SideRows]:
    """Return the keys whose records differ, in key order, as rows of both sides."""
    in_left, in_right = _unequal(left, right)
    if not len(in_left) and not len(in_right):
        return SideRows(left, in_left), SideRows(right, in_right)
    before, after = left.take(in_left), right.take(in_right)
    places, found = before.find(after.keys)
    partners = np.full(len(in_left), NO_ROW)
    partners[places[found]] = in_right[found]
    added = ~found
    # A key that only the right side has goes before the left row at its position.
    ranks = np.concatenate((2 * np.arange(len(in_left)) + 1, 2 * places[added]))
    order = np.argsort(ranks, kind="stable")
    at_left = np.concatenate((in_left, np.full(int(added.sum()), NO_ROW)))
    at_right = np.concatenate((partners, in_right[added]))
    return SideRows(left, at_left[order], before), SideRows(right, at_right[order], after)


def _disputed(rows: SideRows) -> Mask:
    """Return the mask of base rows that mark a disagreement of ancestors."""
    mask = np.zeros(len(rows.at), bool)
    there = np.flatnonzero(rows.present)
    if len(there):
        mask[there] = disagreements(rows.records().stored_array())
    return mask


def _ancestors(base: Block, in_dest: SideRows, in_source: SideRows) -> SideRows:
    """Return base's records of the keys on which two sides differ.

    Most are found by id, because one of the sides has the same record.
    """
    at = np.full(len(in_dest.at), NO_ROW)
    for side in (in_dest, in_source):
        there = np.flatnonzero(side.present)
        places = found_ids(base.ids, side.block.ids[side.at[there]])
        at[there[places != NO_ROW]] = places[places != NO_ROW]
    for side in (in_dest, in_source):
        rows = np.flatnonzero(side.present & (at == NO_ROW))
        places, found = base.find(side.block.take(side.at[rows]).keys)
        at[rows[found]] = places[found]
    return SideRows(base, at)


def _unequal(left: Block, right: Block) -> tuple[Positions, Positions]:
    """Return the positions of each side's records that the other side does not have."""
    shared = min(len(left), len(right))
    differ = (left.ids[:shared] != right.ids[:shared]).any(axis=1)
    # The common beginning is equal. In most cases it is everything.
    start = int(differ.argmax()) if differ.any() else shared
    if start == len(left) == len(right):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    in_left, in_right = unequal(left.ids[start:], right.ids[start:])
    return start + np.flatnonzero(in_left), start + np.flatnonzero(in_right)


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
