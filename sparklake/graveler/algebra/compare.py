"""Comparison of two or three sides of a block, and the merge outcome of each key."""

from __future__ import annotations

import numpy as np

from sparklake.graveler.algebra.changes import ABSENT, Changes, Rows
from sparklake.graveler.algebra.classify import KeyOutcome, outcome_of
from sparklake.graveler.blocks.align import found_ids, unequal
from sparklake.graveler.blocks.block import EMPTY, Block
from sparklake.graveler.blocks.columns import Mask, Positions
from sparklake.graveler.graph.virtual_base import disagreements

# Outcomes of keys on which source and dest differ, indexed by 2 * (source is base) + (dest is
# base).
_RULES = [outcome_of(False, bool(sides & 2), bool(sides & 1)) for sides in range(4)]
_OUTCOMES = {outcome: np.array([rule is outcome for rule in _RULES]) for outcome in KeyOutcome}


def two_way(left: Rows, right: Rows) -> Changes:
    """Return rows of two sides as changes without conflicts."""
    count = len(left.at)
    none = np.zeros(count, bool)
    return Changes(left, right, Rows(EMPTY, np.full(count, ABSENT)), none, none)


def three_way(base: Block, source: Block, dest: Block) -> tuple[Changes, dict[KeyOutcome, Mask]]:
    """Return the keys on which source and dest differ, with a mask per merge outcome."""
    ours, theirs = compared(dest, source)
    if not len(ours.at):
        return two_way(ours, theirs), {}
    ancestors = _ancestors(base, ours, theirs)
    sides = theirs.same_as(ancestors) * 2 + ours.same_as(ancestors) * 1
    outcomes = {outcome: rows[sides] for outcome, rows in _OUTCOMES.items()}
    conflicts = outcomes[KeyOutcome.CONFLICT]
    contested = Rows(base, np.where(conflicts, ancestors.at, ABSENT))
    disputed = _disputed(contested)
    agreed = Rows(base, np.where(disputed, ABSENT, contested.at))
    return Changes(ours, theirs, agreed, conflicts, disputed), outcomes


def compared(left: Block, right: Block) -> tuple[Rows, Rows]:
    """Return the keys whose records differ, in key order, as rows of both sides."""
    ours, theirs = _unequal(left, right)
    if not len(ours) and not len(theirs):
        return Rows(left, ours), Rows(right, theirs)
    before, after = left.take(ours), right.take(theirs)
    places, found = before.find(after.keys)
    partners = np.full(len(ours), ABSENT)
    partners[places[found]] = theirs[found]
    added = ~found
    # A key that only the right side has goes before the left row at its position.
    ranks = np.concatenate((2 * np.arange(len(ours)) + 1, 2 * places[added]))
    order = np.argsort(ranks, kind="stable")
    at_left = np.concatenate((ours, np.full(int(added.sum()), ABSENT)))
    at_right = np.concatenate((partners, theirs[added]))
    return Rows(left, at_left[order], before), Rows(right, at_right[order], after)


def _disputed(rows: Rows) -> Mask:
    """Return the mask of base rows that mark a disagreement of ancestors."""
    mask = np.zeros(len(rows.at), bool)
    there = np.flatnonzero(rows.present)
    if len(there):
        mask[there] = disagreements(rows.records().stored_array())
    return mask


def _ancestors(base: Block, ours: Rows, theirs: Rows) -> Rows:
    """Return base's records of the keys on which two sides differ.

    Most are found by id, because one of the sides has the same record.
    """
    at = np.full(len(ours.at), ABSENT)
    for side in (ours, theirs):
        there = np.flatnonzero(side.present)
        places = found_ids(base.ids, side.block.ids[side.at[there]])
        at[there[places != ABSENT]] = places[places != ABSENT]
    for side in (ours, theirs):
        rows = np.flatnonzero(side.present & (at == ABSENT))
        places, found = base.find(side.block.take(side.at[rows]).keys)
        at[rows[found]] = places[found]
    return Rows(base, at)


def _unequal(left: Block, right: Block) -> tuple[Positions, Positions]:
    """Return the positions of each side's records that the other side does not have."""
    shared = min(len(left), len(right))
    differ = (left.ids[:shared] != right.ids[:shared]).any(axis=1)
    # The common beginning is equal. In most cases it is everything.
    start = int(differ.argmax()) if differ.any() else shared
    if start == len(left) == len(right):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    ours, theirs = unequal(left.ids[start:], right.ids[start:])
    return start + np.flatnonzero(ours), start + np.flatnonzero(theirs)
