"""Changes between sides, by key and by block, and observers of changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from sparklake.graveler.blocks.block import Block
from sparklake.graveler.blocks.columns import Keys
from sparklake.graveler.buffers import Mask, Positions
from sparklake.graveler.graph.virtual_base import is_disagreement

NO_ROW = -1


class ChangeType(str, Enum):
    """The kind of change to a key between two sides."""

    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"
    CONFLICT = "conflict"


class Change(NamedTuple):
    """A key whose stored values differ between two sides. None is an absent record."""

    key: bytes
    left: bytes | None
    right: bytes | None

    @property
    def type(self) -> ChangeType:
        if self.left is None:
            return ChangeType.ADDED
        return ChangeType.REMOVED if self.right is None else ChangeType.CHANGED


class Conflict(NamedTuple):
    """A key changed differently by source and dest. Values are stored values or None.

    If the ancestors disagree on the key, `base` is None even if ancestors have it.
    """

    key: bytes
    base: bytes | None
    source: bytes | None
    dest: bytes | None
    ancestors_disagree: bool = False

    @staticmethod
    def of(key: bytes, base: bytes | None, source: bytes | None, dest: bytes | None) -> Conflict:
        disagree = base is not None and is_disagreement(base)
        return Conflict(key, None if disagree else base, source, dest, disagree)


@dataclass(frozen=True, slots=True, eq=False)
class SideRows:
    """Rows of a side as positions in `block`. `selection` is their block, if known."""

    block: Block
    at: Positions
    selection: Block | None = None

    @property
    def present(self) -> Mask:
        mask: Mask = self.at != NO_ROW
        return mask

    def where(self, mask: Mask) -> SideRows:
        return SideRows(self.block, self.at[mask])

    def same_as(self, other: SideRows) -> Mask:
        """Return the mask of rows with equal records on both sides, or none."""
        both = self.present & other.present
        same: Mask = self.present == other.present
        pairs = self.block.ids[self.at[both]] == other.block.ids[other.at[both]]
        same[both] = pairs.all(axis=1)
        return same

    def keys(self) -> Keys:
        return self.records().keys

    def records(self) -> Block:
        return self.block.take(self.at[self.present]) if self.selection is None else self.selection

    def mask(self) -> Mask:
        """Return the mask of the rows' records in the block."""
        mask = np.zeros(len(self.block), bool)
        mask[self.at[self.present]] = True
        return mask

    def stored(self) -> list[bytes | None]:
        """Return the stored values, None for absent records."""
        values = iter(self.records().encoded.stored_array().to_pylist())
        return [next(values) if present else None for present in self.present.tolist()]


@dataclass(frozen=True, slots=True, eq=False)
class BlockChanges:
    """Differing keys of two sides, in key order, with a row per key on each side.

    `base` has records for conflicts only, where left is dest and right is source. It has none for
    `disputed` conflicts, on which the ancestors disagree. A merge takes source's record
    of the keys `from_source`.
    """

    left: SideRows
    right: SideRows
    base: SideRows
    conflicts: Mask
    disputed: Mask
    from_source: Mask

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
        there = self.left.present
        left = self.left.keys().array()
        right = self.right.where(~there).keys().array()
        at = np.where(there, np.cumsum(there), len(left) + np.cumsum(~there)) - 1
        return pa.concat_arrays([left, right]).take(pa.array(at))

    def differing(self) -> DifferingKeys:
        present = (self.left.present, self.right.present)
        return DifferingKeys(self.keys(), *present, self.from_source, self.conflicts)

    def where(self, mask: Mask) -> BlockChanges:
        left, right, base = (side.where(mask) for side in (self.left, self.right, self.base))
        masks = (each[mask] for each in (self.conflicts, self.disputed, self.from_source))
        return BlockChanges(left, right, base, *masks)


class DifferingKeys(NamedTuple):
    """The keys that differ between source and dest, with a mask per property."""

    keys: pa.BinaryArray
    in_dest: Mask
    in_source: Mask
    from_source: Mask
    conflicts: Mask


@dataclass(slots=True)
class ChangeCounts:
    added: int = 0
    removed: int = 0
    changed: int = 0

    def add(self, changes: BlockChanges) -> None:
        added, removed = (int((~side.present).sum()) for side in (changes.left, changes.right))
        self.added += added
        self.removed += removed
        self.changed += len(changes) - added - removed

    @property
    def total(self) -> int:
        return self.added + self.removed + self.changed


EditObserver = Callable[[Block, Mask, Block], None]
"""An observer of edits. Receives a block, the mask of dropped records, and the added records."""


def ignore_edit(block: Block, dropped: Mask, added: Block) -> None: ...


ChangeObserver = Callable[[BlockChanges], None]
"""An observer of all differences between source and dest, whichever side changed."""


def ignore_changes(changes: BlockChanges) -> None: ...
