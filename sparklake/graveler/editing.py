"""Changes blocks: some records go, others come, and what is not touched is not opened."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from sparklake.graveler.blocks import EMPTY, NOTHING, Block, Unit
from sparklake.graveler.columns import Ids, Mask, Positions, rows_between
from sparklake.graveler.encoded import Encoded, chained


def edited(block: Block, dropped: Mask, added: Block, places: Positions | None = None) -> Block:
    """Returns a block without the records that are `dropped`, and with others in their places.

    No key of `added` may be one that stays; who knows their places already gives them. Leaves that
    nothing is done to stay as they are.
    """
    if not len(added) and not dropped.any():
        return block
    if places is None:
        places, _ = block.find(added.keys)
    # What comes after the last record belongs to a leaf of its own, after the block's.
    leaves = block.leaves_at(places)
    touched = np.zeros(len(block.starts), bool)
    touched[block.leaves_at(np.flatnonzero(dropped))] = True
    touched[leaves] = True
    opened = np.flatnonzero(touched[:-1])
    records, shifts = block.open(opened, in_order=False)

    # Of the leaves that are touched: which records stay, and between which of them others come.
    sizes = block.starts[opened + 1] - block.starts[opened]
    rows = rows_between(block.starts[opened], sizes)
    stays = ~dropped[rows]
    kept = rows[stays]
    between = np.searchsorted(kept, places)
    here = (rows + np.repeat(shifts[opened], sizes))[stays]
    order = np.insert(here, between, len(records) + np.arange(len(added)))
    anew = chained([records, added.encoded]).take(order) if len(order) else NOTHING
    anew_ids = np.insert(block.ids[kept], between, added.ids, axis=0)
    counts = np.bincount(leaves, minlength=len(touched))
    if len(opened):
        counts[opened] += np.add.reduceat(stays, np.cumsum(sizes) - sizes, dtype=np.int64)
    return _relaid(block, touched, counts, anew, anew_ids)


def _relaid(block: Block, touched: Mask, counts: Positions, anew: Encoded, anew_ids: Ids) -> Block:
    """Returns a block in which parts of what is made anew stand for the leaves that are touched.

    `counts` says how many records of it stand for each.
    """
    units: list[Unit] = []
    ids: list[Ids] = []
    turns = np.flatnonzero(touched[1:] != touched[:-1]) + 1
    at = 0
    for first, stop in pairwise([0, *turns.tolist(), len(touched)]):
        if touched[first]:
            end = at + int(counts[first:stop].sum())
            if at < end:
                units.append(anew.slice(at, end))
                ids.append(anew_ids[at:end])
            at = end
        else:
            stop = min(stop, len(touched) - 1)
            units += block.units_of(first, stop)
            ids.append(block.ids[block.starts[first] : block.starts[stop]])
    return Block(units, np.concatenate(ids)) if units else EMPTY
