"""Comparisons: blocks with an outcome per key, and two-way and three-way diffs."""

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
from sparklake.graveler.blocks.align import aligned, find_ids, unequal_rows
from sparklake.graveler.blocks.block import EMPTY, Block, Blocks
from sparklake.graveler.blocks.columns import paired
from sparklake.graveler.buffers import Mask, Positions
from sparklake.graveler.graph.virtual_base import disagreements

# Outcomes of keys on which source and dest differ, indexed by 2 * (source is base) + (dest is
# base).
_RULES = [outcome_of(False, bool(sides & 2), bool(sides & 1)) for sides in range(4)]
_OUTCOMES = {outcome: np.array([rule is outcome for rule in _RULES]) for outcome in KeyOutcome}


def two_way(left: SideRows, right: SideRows) -> BlockChanges:
    count = len(left.at)
    none = np.zeros(count, bool)
    return BlockChanges(left, right, SideRows(EMPTY, np.full(count, NO_ROW)), none, none, none)


def three_way(
    base: Block, source: Block, dest: Block
) -> tuple[BlockChanges, dict[KeyOutcome, Mask]]:
    """Return the differences of source and dest, with a mask per merge outcome."""
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
    from_source = outcomes[KeyOutcome.TAKE_SOURCE]
    return BlockChanges(in_dest, in_source, agreed, conflicts, disputed, from_source), outcomes


def compared(left: Block, right: Block) -> tuple[SideRows, SideRows]:
    """Return the differing keys in key order, as rows on both sides."""
    in_left, in_right = unequal_rows(left.ids, right.ids)
    if not len(in_left) and not len(in_right):
        return SideRows(left, in_left), SideRows(right, in_right)
    before, after = left.take(in_left), right.take(in_right)
    rows, others = paired(before.keys, after.keys)
    at_left = np.where(rows == NO_ROW, NO_ROW, _at(in_left, rows))
    at_right = np.where(others == NO_ROW, NO_ROW, _at(in_right, others))
    return SideRows(left, at_left, before), SideRows(right, at_right, after)


def _disputed(rows: SideRows) -> Mask:
    """Return the mask of base rows on which the ancestors disagree."""
    mask = np.zeros(len(rows.at), bool)
    there = np.flatnonzero(rows.present)
    if len(there):
        mask[there] = disagreements(rows.records().encoded.stored_array())
    return mask


def _ancestors(base: Block, in_dest: SideRows, in_source: SideRows) -> SideRows:
    """Return base's records for the differing keys, mostly looked up by id."""
    at = np.full(len(in_dest.at), NO_ROW)
    for side in (in_dest, in_source):
        there = np.flatnonzero(side.present)
        places = find_ids(base.ids, side.block.ids[side.at[there]])
        at[there[places != NO_ROW]] = places[places != NO_ROW]
    for side in (in_dest, in_source):
        rows = np.flatnonzero(side.present & (at == NO_ROW))
        places, exists = base.find(side.block.take(side.at[rows]).keys)
        at[rows[exists]] = places[exists]
    return SideRows(base, at)


def _at(positions: Positions, rows: Positions) -> Positions:
    """Return the positions in the given rows; any number for NO_ROW."""
    return positions[rows] if len(positions) else rows


def diff(left: Blocks, right: Blocks) -> Iterator[BlockChanges]:
    """Yield the differing keys of two sides, in key order."""
    for before, after in aligned(left, right):
        changes = two_way(*compared(before, after))
        if len(changes):
            yield changes


def three_way_diff(
    base: Blocks, source: Blocks, dest: Blocks, observe: ChangeObserver = ignore_changes
) -> Iterator[BlockChanges]:
    """Yield the changes of a merge, and its conflicts. `observe` gets all differences."""
    for sides in aligned(base, source, dest):
        changes, outcomes = three_way(*sides)
        if not len(changes):
            continue
        observe(changes)
        visible = changes.where(~outcomes[KeyOutcome.TAKE_DEST])
        if len(visible):
            yield visible
