"""Diff, apply and merge over streams of records.

Nothing here reads or writes, or holds more than a block of each stream, but for the few blocks of
dest that wait for a decision. Records are compared by their ids and found by their keys, a whole
block at a time; only a conflict is looked at by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from sparklake.graveler.aligning import aligned
from sparklake.graveler.blocks import EMPTY, Block, Blocks, block_of_records
from sparklake.graveler.classification import Outcome, Strategy, outcome_of
from sparklake.graveler.columns import Keys, Mask, Positions
from sparklake.graveler.comparing import found_ids, unequal
from sparklake.graveler.disagreement import disagreements
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
    """Is a key that source and dest both changed, to different ends; stored values or None.

    Where the ancestors disagree, there is no base, but that is not to say that it had none.
    """

    key: bytes
    base: bytes | None
    source: bytes | None
    dest: bytes | None
    ancestors_disagree: bool = False


Decide = Callable[[Sequence[Conflict]], Sequence[bytes | None]]
"""Returns the stored value that each conflict ends with, None to leave the key out.

It is given many conflicts at a time, in key order and each once.
"""

CONFLICTS_AT_ONCE = 4096
"""How many conflicts are decided at a time, at most."""

_MAX_WAITING_RECORDS = 64 * 1024
_MAX_WAITING_BLOCKS = 8


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

    `base` has no record but for conflicts, whose left is dest and whose right is source, and none
    for those that are `disputed`: on these the ancestors disagree.
    """

    left: Rows
    right: Rows
    base: Rows
    conflicts: Mask
    disputed: Mask

    def __len__(self) -> int:
        return len(self.conflicts)

    def __iter__(self) -> Iterator[Change | Conflict]:
        sides = (self.base.stored(), self.right.stored(), self.left.stored())
        marks = (self.conflicts.tolist(), self.disputed.tolist())
        for row in zip(self.keys().to_pylist(), *sides, *marks, strict=True):
            key, base, right, left, is_conflict, disputed = row
            if is_conflict:
                yield Conflict(key, base, right, left, disputed)
            else:
                yield Change(key, left, right)

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
        return Changes(left, right, base, self.conflicts[mask], self.disputed[mask])


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
    """Yields the records of a three-way merge; base is looked up only where the others differ.

    Conflicts of a few blocks are decided together.
    """
    waiting = _Waiting()
    for sides in aligned(base, source, dest):
        waiting.add(_merged(*sides))
        if waiting.is_due:
            yield from waiting.settled(decide, note)
            waiting = _Waiting()
    yield from waiting.settled(decide, note)


def take_side(strategy: Strategy) -> Decide:
    """Returns the decision by which one side wins every conflict."""
    if strategy is Strategy.SOURCE_WINS:
        return lambda conflicts: [each.source for each in conflicts]
    return lambda conflicts: [each.dest for each in conflicts]


class _Merged(NamedTuple):
    """Is a block of dest and what a merge does to it, but for its conflicts: `rows` of dest."""

    dest: Block
    dropped: Mask
    added: Block
    rows: Positions
    conflicts: Sequence[Conflict]

    def settled(self, decided: Sequence[bytes | None], note: Note) -> Block:
        """Returns the block with the stored values that its conflicts end with."""
        if not self.conflicts:
            note(self.dest, self.dropped, self.added)
            return edited(self.dest, self.dropped, self.added)
        records, dropped = [], self.dropped.copy()
        for row, conflict, stored in zip(self.rows, self.conflicts, decided, strict=True):
            if stored != conflict.dest:
                if row != ABSENT:
                    dropped[row] = True
                if stored is not None:
                    records.append((conflict.key, stored))
        added = edited(self.added, np.zeros(len(self.added), bool), block_of_records(records))
        note(self.dest, dropped, added)
        return edited(self.dest, dropped, added)


@dataclass(slots=True)
class _Waiting:
    """Holds merged blocks from the first one with a conflict on."""

    blocks: list[_Merged] = field(default_factory=list)
    conflicts: int = 0
    records: int = 0

    @property
    def is_due(self) -> bool:
        """Tells whether nothing is to be decided, or so much that no more should wait."""
        return (
            not self.conflicts
            or self.conflicts >= CONFLICTS_AT_ONCE
            or self.records >= _MAX_WAITING_RECORDS
            or len(self.blocks) >= _MAX_WAITING_BLOCKS
        )

    def add(self, merged: _Merged) -> None:
        self.blocks.append(merged)
        self.conflicts += len(merged.conflicts)
        self.records += len(merged.dest)

    def settled(self, decide: Decide, note: Note) -> Iterator[Block]:
        """Decides the conflicts; yields the blocks that are not empty then."""
        conflicts = [conflict for each in self.blocks for conflict in each.conflicts]
        decided: list[bytes | None] = []
        for start in range(0, len(conflicts), CONFLICTS_AT_ONCE):
            decided += decide(conflicts[start : start + CONFLICTS_AT_ONCE])
        at = 0
        for each in self.blocks:
            block = each.settled(decided[at : at + len(each.conflicts)], note)
            at += len(each.conflicts)
            if len(block):
                yield block


def _merged(base: Block, source: Block, dest: Block) -> _Merged:
    changes, outcomes = _disagreements(base, source, dest)
    if not len(changes):
        return _Merged(dest, np.zeros(len(dest), bool), EMPTY, changes.left.at, ())
    taken = changes.where(outcomes[Outcome.TAKE_SOURCE])
    dropped, added = taken.left.mask(), taken.right.records()
    if not changes.conflicts.any():
        return _Merged(dest, dropped, added, changes.left.at, ())
    contested = changes.where(changes.conflicts)
    conflicts = [each for each in contested if isinstance(each, Conflict)]
    return _Merged(dest, dropped, added, contested.left.at, conflicts)


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
    none = np.zeros(count, bool)
    return Changes(left, right, Rows(EMPTY, np.full(count, ABSENT)), none, none)


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
    disputed = _disputed(contested)
    agreed = Rows(base, np.where(disputed, ABSENT, contested.at))
    return Changes(ours, theirs, agreed, conflicts, disputed), outcomes


def _disputed(rows: Rows) -> Mask:
    """Tells of each row of a base whether it says that ancestors disagree."""
    mask = np.zeros(len(rows.at), bool)
    there = np.flatnonzero(rows.present)
    if len(there):
        mask[there] = disagreements(rows.records().stored_array())
    return mask


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
