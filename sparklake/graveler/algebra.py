"""Diff, apply and merge over streams of records.

Nothing here reads or writes, or holds more than a block of each stream. Records are compared by
their ids and found by their keys, a whole block at a time; only a conflict is looked at by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from sparklake.graveler.aligning import aligned
from sparklake.graveler.blocks import EMPTY, Block, Blocks, block_of_records
from sparklake.graveler.classification import Outcome, Strategy, outcome_of
from sparklake.graveler.columns import Keys, Mask, Positions
from sparklake.graveler.comparing import found_ids, unequal
from sparklake.graveler.editing import edited

ABSENT = -1

# Of keys on which source and dest differ: by whether source is base, and whether dest is base.
_RULES = [outcome_of(False, bool(sides & 2), bool(sides & 1)) for sides in range(4)]
_OUTCOMES = {outcome: np.array([rule is outcome for rule in _RULES]) for outcome in Outcome}


class ChangeType(str, Enum):
    """Is what happened to a key between two sides."""

    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"
    CONFLICT = "conflict"


class Change(NamedTuple):
    """Is a key whose stored values differ from left to right; None is an absent record."""

    key: bytes
    left: bytes | None
    right: bytes | None

    @property
    def type(self) -> ChangeType:
        """Returns what happened to the key."""
        if self.left is None:
            return ChangeType.ADDED
        return ChangeType.REMOVED if self.right is None else ChangeType.CHANGED


class Conflict(NamedTuple):
    """Is a key that source and dest both changed, to different ends; stored values or None."""

    key: bytes
    base: bytes | None
    source: bytes | None
    dest: bytes | None


Decide = Callable[[Conflict], bytes | None]
"""Returns the stored value that a conflict ends with, None to leave the key out."""


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Is some records of a side: positions in a block, ABSENT where the side has no record.

    `taken` is those that are there, if they have been taken already.
    """

    block: Block
    at: Positions
    taken: Block | None = None

    @property
    def present(self) -> Mask:
        """Tells of each row whether there is a record."""
        mask: Mask = self.at != ABSENT
        return mask

    def where(self, mask: Mask) -> Rows:
        """Returns some of the rows."""
        return Rows(self.block, self.at[mask])

    def same_as(self, other: Rows) -> Mask:
        """Tells of each row whether two sides have equal records of one key, or both have none."""
        both = self.present & other.present
        same: Mask = self.present == other.present
        pairs = self.block.ids[self.at[both]] == other.block.ids[other.at[both]]
        same[both] = pairs.all(axis=1)
        return same

    def keys(self) -> Keys:
        """Returns the keys of the records that are there."""
        return self.records().keys

    def records(self) -> Block:
        """Returns the records that are there."""
        return self.block.take(self.at[self.present]) if self.taken is None else self.taken

    def mask(self) -> Mask:
        """Tells of each record of the block whether it is among the rows."""
        chosen = np.zeros(len(self.block), bool)
        chosen[self.at[self.present]] = True
        return chosen

    def stored(self) -> list[bytes | None]:
        """Returns the stored values, None for absent records."""
        values = iter(self.records().stored_array().to_pylist())
        return [next(values) if present else None for present in self.present.tolist()]


@dataclass(frozen=True, slots=True, eq=False)
class Changes:
    """Is keys on which two sides differ, in key order, each side a row a key.

    `base` has no record but for conflicts, whose left is dest and whose right is source.
    """

    left: Rows
    right: Rows
    base: Rows
    conflicts: Mask

    def __len__(self) -> int:
        return len(self.conflicts)

    def __iter__(self) -> Iterator[Change | Conflict]:
        sides = (self.base.stored(), self.right.stored(), self.left.stored())
        rows = zip(self.keys().to_pylist(), *sides, self.conflicts.tolist(), strict=True)
        for key, base, right, left, is_conflict in rows:
            yield Conflict(key, base, right, left) if is_conflict else Change(key, left, right)

    def keys(self) -> pa.BinaryArray:
        """Returns the keys."""
        there = self.left.present
        left = self.left.keys().array()
        right = self.right.where(~there).keys().array()
        at = np.where(there, np.cumsum(there), len(left) + np.cumsum(~there)) - 1
        return pa.concat_arrays([left, right]).take(pa.array(at))

    def where(self, mask: Mask) -> Changes:
        """Returns some of the rows."""
        left, right, base = (side.where(mask) for side in (self.left, self.right, self.base))
        return Changes(left, right, base, self.conflicts[mask])


@dataclass(slots=True)
class ChangeCounts:
    """Counts what a stream of changes did to the side it was applied to."""

    added: int = 0
    removed: int = 0
    changed: int = 0

    def add(self, changes: Changes) -> None:
        """Counts the keys that differ."""
        added, removed = (int((~side.present).sum()) for side in (changes.left, changes.right))
        self.added += added
        self.removed += removed
        self.changed += len(changes) - added - removed

    @property
    def total(self) -> int:
        """Returns the number of keys that differ."""
        return self.added + self.removed + self.changed


def diff(left: Blocks, right: Blocks) -> Iterator[Changes]:
    """Yields the keys whose records differ between two sides, in key order."""
    for before, after in aligned(left, right):
        changes = _two_way(*_differences(before, after))
        if len(changes):
            yield changes


def three_way_diff(base: Blocks, source: Blocks, dest: Blocks) -> Iterator[Changes]:
    """Yields what a merge of source would change in dest, and what it could not decide."""
    for sides in aligned(base, source, dest):
        changes, outcomes = _disagreements(*sides)
        shown = changes.where(~outcomes[Outcome.TAKE_DEST]) if len(changes) else changes
        if len(shown):
            yield shown


Note = Callable[[Block, Mask, Block], None]
"""Is told of an edit: a block, which of its records give way, and those that come."""


def _ignore(block: Block, dropped: Mask, added: Block) -> None:
    """Takes no note."""


def apply(
    layers: Sequence[Blocks], records: Blocks, counts: ChangeCounts, note: Note = _ignore
) -> Iterator[Block]:
    """Yields records with staged layers over them, the newest layer first.

    A change to an equal identity is none: the committed record stays.
    """
    for block, staged in _overlaid(layers, records):
        changes, places = _staged_changes(block, staged)
        counts.add(changes)
        dropped, added = changes.left.mask(), changes.right.records()
        note(block, dropped, added)
        changed = edited(block, dropped, added, places[changes.right.present])
        if len(changed):
            yield changed


def staged_diff(layers: Sequence[Blocks], records: Blocks) -> Iterator[Changes]:
    """Yields what staged layers, the newest first, do to records."""
    for block, staged in _overlaid(layers, records):
        changes, _ = _staged_changes(block, staged)
        if len(changes):
            yield changes


def merge(
    base: Blocks, source: Blocks, dest: Blocks, decide: Decide, note: Note = _ignore
) -> Iterator[Block]:
    """Yields the records of a three-way merge; base is looked up only where the others differ."""
    for sides in aligned(base, source, dest):
        changes, outcomes = _disagreements(*sides)
        if not len(changes):
            if len(sides[2]):
                yield sides[2]
            continue
        taken = changes.where(outcomes[Outcome.TAKE_SOURCE])
        dropped, added = taken.left.mask(), taken.right.records()
        if changes.conflicts.any():
            contested = changes.where(changes.conflicts)
            overruled, decided = _decided(contested, decide)
            dropped |= contested.left.where(overruled).mask()
            added = edited(added, np.zeros(len(added), bool), decided)
        note(sides[2], dropped, added)
        merged = edited(sides[2], dropped, added)
        if len(merged):
            yield merged


def take_side(strategy: Strategy) -> Decide:
    """Returns the decision by which one side wins every conflict."""
    if strategy is Strategy.SOURCE_WINS:
        return lambda conflict: conflict.source
    return lambda conflict: conflict.dest


def _decided(contested: Changes, decide: Decide) -> tuple[Mask, Block]:
    """Returns which rows of dest give way to a decision, and the records that come instead."""
    overruled = np.zeros(len(contested), bool)
    records = []
    for row, conflict in enumerate(contested):
        assert isinstance(conflict, Conflict)
        stored = decide(conflict)
        overruled[row] = stored != conflict.dest
        if overruled[row] and stored is not None:
            records.append((conflict.key, stored))
    return overruled, block_of_records(records)


def _overlaid(layers: Sequence[Blocks], records: Blocks) -> Iterator[tuple[Block, Block]]:
    """Yields blocks of records with what is staged over each, of every key the newest record."""
    for block, *staged in aligned(records, *layers):
        newest = EMPTY
        for layer in reversed(staged):
            places, found = newest.find(layer.keys)
            hidden = np.zeros(len(newest), bool)
            hidden[places[found]] = True
            newest = edited(newest, hidden, layer)
        yield block, newest


def _staged_changes(block: Block, staged: Block) -> tuple[Changes, Positions]:
    """Returns what staged records change in a block, and where the keys are or would be."""
    places, found = block.find(staged.keys)
    committed = Rows(block, np.where(found, places, ABSENT))
    rows = np.arange(len(staged))
    wanted = Rows(staged, np.where(staged.tombstones, ABSENT, rows))
    differ = ~committed.same_as(wanted)
    return _two_way(committed.where(differ), wanted.where(differ)), places[differ]


def _two_way(left: Rows, right: Rows) -> Changes:
    count = len(left.at)
    return Changes(left, right, Rows(EMPTY, np.full(count, ABSENT)), np.zeros(count, bool))


def _disagreements(base: Block, source: Block, dest: Block) -> tuple[Changes, dict[Outcome, Mask]]:
    """Returns the keys on which source and dest differ, and what a merge does with each."""
    ours, theirs = _differences(dest, source)
    if not len(ours.at):
        return _two_way(ours, theirs), {}
    ancestors = _ancestors(base, ours, theirs)
    sides = theirs.same_as(ancestors) * 2 + ours.same_as(ancestors) * 1
    outcomes = {outcome: rows[sides] for outcome, rows in _OUTCOMES.items()}
    conflicts = outcomes[Outcome.CONFLICT]
    contested = Rows(base, np.where(conflicts, ancestors.at, ABSENT))
    return Changes(ours, theirs, contested, conflicts), outcomes


def _ancestors(base: Block, ours: Rows, theirs: Rows) -> Rows:
    """Returns the records that base has of the keys on which two sides differ.

    Most are found by their ids, since one of the sides did not change them.
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


def _differences(left: Block, right: Block) -> tuple[Rows, Rows]:
    """Returns the keys whose records differ, in key order, as rows of both sides."""
    ours, theirs = _unequal(left, right)
    if not len(ours) and not len(theirs):
        return Rows(left, ours), Rows(right, theirs)
    before, after = left.take(ours), right.take(theirs)
    places, found = before.find(after.keys)
    partners = np.full(len(ours), ABSENT)
    partners[places[found]] = theirs[found]
    added = ~found
    # A key that only the right side has goes before the left row at its place.
    ranks = np.concatenate((2 * np.arange(len(ours)) + 1, 2 * places[added]))
    order = np.argsort(ranks, kind="stable")
    at_left = np.concatenate((ours, np.full(int(added.sum()), ABSENT)))
    at_right = np.concatenate((partners, theirs[added]))
    return Rows(left, at_left[order], before), Rows(right, at_right[order], after)


def _unequal(left: Block, right: Block) -> tuple[Positions, Positions]:
    """Returns the positions of the records of each side that the other does not have."""
    shared = min(len(left), len(right))
    differ = (left.ids[:shared] != right.ids[:shared]).any(axis=1)
    # What both begin with is equal, and mostly that is all.
    start = int(differ.argmax()) if differ.any() else shared
    if start == len(left) == len(right):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    ours, theirs = unequal(left.ids[start:], right.ids[start:])
    return start + np.flatnonzero(ours), start + np.flatnonzero(theirs)
