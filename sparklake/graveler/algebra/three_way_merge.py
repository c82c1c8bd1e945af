"""Three-way merges of record streams, with conflicts resolved in batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from sparklake.graveler.algebra.changes import (
    NO_ROW,
    ChangeObserver,
    Conflict,
    EditObserver,
    ignore_changes,
    ignore_edit,
)
from sparklake.graveler.algebra.classify import KeyOutcome
from sparklake.graveler.algebra.compare import three_way
from sparklake.graveler.blocks.align import aligned
from sparklake.graveler.blocks.block import EMPTY, Block, Blocks, block_of_records
from sparklake.graveler.blocks.edit import edited
from sparklake.graveler.buffers import Mask, Positions
from sparklake.graveler.chunks import chunked

Decide = Callable[[Sequence[Conflict]], Sequence[bytes | None]]
"""A function that returns the final stored values of conflicts.

None means no record. It receives many conflicts at a time, in key order, each once.
"""

CONFLICTS_AT_ONCE = 4096  # The maximum number of conflicts per decision.

_MAX_WAITING_RECORDS = 64 * 1024
_MAX_WAITING_BLOCKS = 8


def merge(
    base: Blocks,
    source: Blocks,
    dest: Blocks,
    decide: Decide,
    observe_edit: EditObserver = ignore_edit,
    observe: ChangeObserver = ignore_changes,
) -> Iterator[Block]:
    """Yield the records of a three-way merge.

    Base is read only where source and dest differ. Conflicts of a few blocks are resolved together.
    """
    waiting = _UndecidedBlocks()
    for base_block, source_block, dest_block in aligned(base, source, dest):
        waiting.add(_merged(base_block, source_block, dest_block, observe))
        if waiting.is_due:
            yield from waiting.settled(decide, observe_edit)
            waiting = _UndecidedBlocks()
    yield from waiting.settled(decide, observe_edit)


class _MergedBlock(NamedTuple):
    """A dest block and its merge edits. `rows` are the conflicts' positions in dest."""

    dest: Block
    dropped: Mask
    added: Block
    rows: Positions
    conflicts: Sequence[Conflict]

    def settled(self, decided: Sequence[bytes | None], observe_edit: EditObserver) -> Block:
        """Return the merged block with the final stored values of its conflicts."""
        if not self.conflicts:
            observe_edit(self.dest, self.dropped, self.added)
            return edited(self.dest, self.dropped, self.added)
        records, dropped = [], self.dropped.copy()
        for row, conflict, stored in zip(self.rows, self.conflicts, decided, strict=True):
            if stored != conflict.dest:
                if row != NO_ROW:
                    dropped[row] = True
                if stored is not None:
                    records.append((conflict.key, stored))
        added = edited(self.added, np.zeros(len(self.added), bool), block_of_records(records))
        observe_edit(self.dest, dropped, added)
        return edited(self.dest, dropped, added)


@dataclass(slots=True)
class _UndecidedBlocks:
    """The merged blocks since the first one with an unresolved conflict."""

    blocks: list[_MergedBlock] = field(default_factory=list)
    conflicts: int = 0
    records: int = 0

    @property
    def is_due(self) -> bool:
        """Whether no conflict is pending, or the batch is full."""
        return (
            not self.conflicts
            or self.conflicts >= CONFLICTS_AT_ONCE
            or self.records >= _MAX_WAITING_RECORDS
            or len(self.blocks) >= _MAX_WAITING_BLOCKS
        )

    def add(self, merged: _MergedBlock) -> None:
        self.blocks.append(merged)
        self.conflicts += len(merged.conflicts)
        self.records += len(merged.dest)

    def settled(self, decide: Decide, observe_edit: EditObserver) -> Iterator[Block]:
        """Resolve the conflicts, and yield the non-empty merged blocks."""
        conflicts = [conflict for each in self.blocks for conflict in each.conflicts]
        decided = decisions(decide, conflicts)
        at = 0
        for each in self.blocks:
            block = each.settled(decided[at : at + len(each.conflicts)], observe_edit)
            at += len(each.conflicts)
            if len(block):
                yield block


def decisions(decide: Decide, conflicts: Sequence[Conflict]) -> list[bytes | None]:
    """Return the value of each conflict, decided in parts."""
    return [value for chunk in chunked(conflicts, CONFLICTS_AT_ONCE) for value in decide(chunk)]


def _merged(base: Block, source: Block, dest: Block, observe: ChangeObserver) -> _MergedBlock:
    changes, outcomes = three_way(base, source, dest)
    if not len(changes):
        return _MergedBlock(dest, np.zeros(len(dest), bool), EMPTY, changes.left.at, ())
    observe(changes)
    from_source = changes.where(outcomes[KeyOutcome.TAKE_SOURCE])
    dropped, added = from_source.left.mask(), from_source.right.records()
    if not changes.conflicts.any():
        return _MergedBlock(dest, dropped, added, changes.left.at, ())
    contested = changes.where(changes.conflicts)
    conflicts = [each for each in contested if isinstance(each, Conflict)]
    return _MergedBlock(dest, dropped, added, contested.left.at, conflicts)
