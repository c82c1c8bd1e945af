"""Staged layers applied to streams of records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from sparklake.graveler.algebra.changes import (
    NO_ROW,
    BlockChanges,
    ChangeCounts,
    EditObserver,
    SideRows,
    ignore_edit,
)
from sparklake.graveler.algebra.compare import two_way
from sparklake.graveler.blocks.align import aligned
from sparklake.graveler.blocks.block import EMPTY, Block, Blocks
from sparklake.graveler.blocks.edit import edited
from sparklake.graveler.buffers import Positions


def apply(
    layers: Sequence[Blocks],
    records: Blocks,
    counts: ChangeCounts,
    observe_edit: EditObserver = ignore_edit,
) -> Iterator[Block]:
    """Apply staged layers, newest first, to records.

    A staged record with an equal identity is not a change: the committed record is kept.
    """
    for block, staged in _overlaid(layers, records):
        changes, places = _staged_changes(block, staged)
        counts.add(changes)
        dropped, added = changes.left.mask(), changes.right.records()
        observe_edit(block, dropped, added)
        changed = edited(block, dropped, added, places[changes.right.present])
        if len(changed):
            yield changed


def staged_diff(layers: Sequence[Blocks], records: Blocks) -> Iterator[BlockChanges]:
    """Yield the changes of staged layers, newest first, to records."""
    for block, staged in _overlaid(layers, records):
        changes, _ = _staged_changes(block, staged)
        if len(changes):
            yield changes


def _overlaid(layers: Sequence[Blocks], records: Blocks) -> Iterator[tuple[Block, Block]]:
    """Yield blocks, each with the newest staged record per key."""
    for block, *staged in aligned(records, *layers):
        newest = EMPTY
        for layer in reversed(staged):
            places, exists = newest.find(layer.keys)
            hidden = np.zeros(len(newest), bool)
            hidden[places[exists]] = True
            newest = edited(newest, hidden, layer)
        yield block, newest


def _staged_changes(block: Block, staged: Block) -> tuple[BlockChanges, Positions]:
    """Return the changes of staged records to a block, and their positions."""
    places, exists = block.find(staged.keys)
    committed = SideRows(block, np.where(exists, places, NO_ROW))
    rows = np.arange(len(staged))
    proposed = SideRows(staged, np.where(staged.tombstones, NO_ROW, rows))
    differ = ~committed.same_as(proposed)
    return two_way(committed.where(differ), proposed.where(differ)), places[differ]
