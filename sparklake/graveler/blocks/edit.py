"""Edits of blocks: insert, remove and rename records without decoding the rest."""

from __future__ import annotations

from hashlib import sha256
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparklake.errors import InvalidKeyError
from sparklake.graveler.blocks.block import EMPTY, NOTHING, Block, block_of
from sparklake.graveler.blocks.columns import gather, joined, rows_between, sha256_each, varints_at
from sparklake.graveler.blocks.encoded import EncodedRecords, chained
from sparklake.graveler.blocks.packed import Unit
from sparklake.graveler.buffers import Ids, Mask, Positions
from sparklake.graveler.ids import RECORD_ID_BYTES
from sparklake.graveler.records import MAX_KEY_BYTES


def edited(block: Block, dropped: Mask, added: Block, places: Positions | None = None) -> Block:
    """Drop the `dropped` records of a block, and insert the `added` ones.

    The keys of `added` must differ from the remaining keys. `places` are their positions, or None
    if unknown. Untouched leaves are copied unchanged.
    """
    if not len(added) and not dropped.any():
        return block
    if places is None:
        places, _ = block.find(added.keys)
    # Records after the last one belong to a separate leaf after the block's leaves.
    leaves = block.leaves_at(places)
    touched = np.zeros(len(block.starts), bool)
    touched[block.leaves_at(np.flatnonzero(dropped))] = True
    touched[leaves] = True
    opened = np.flatnonzero(touched[:-1])
    parts, shifts = block.open_parts(opened)
    records = chained(parts)
    # The records of touched leaves that stay, and the positions of added records between them.
    sizes = block.starts[opened + 1] - block.starts[opened]
    rows = rows_between(block.starts[opened], sizes)
    stays = ~dropped[rows]
    remaining = rows[stays]
    between = np.searchsorted(remaining, places)
    here = (rows + np.repeat(shifts[opened], sizes))[stays]
    order = np.insert(here, between, len(records) + np.arange(len(added)))
    anew = chained([records, added.encoded]).take(order) if len(order) else NOTHING
    anew_ids = np.insert(block.ids[remaining], between, added.ids, axis=0)
    counts = np.bincount(leaves, minlength=len(block.starts))
    if len(opened):
        counts[opened] += np.add.reduceat(stays, np.cumsum(sizes) - sizes, dtype=np.int64)
    return _relaid(block, touched, counts, anew, anew_ids)


def _relaid(
    block: Block, touched: Mask, counts: Positions, anew: EncodedRecords, anew_ids: Ids
) -> Block:
    """Replace the touched leaves with `counts` records each from `anew`."""
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


_NO_IDENTITY = sha256(b"").digest()
_TOMBSTONE = b"\0\0"


def renamed(block: Block, cut: int, prefix: bytes) -> Block:
    """Replace the common first `cut` bytes in all keys with a prefix."""
    if not len(block):
        return block
    records, old = block.encoded, block.keys
    keys = joined(prefix, gather(old.data, old.starts + cut, old.lengths - cut))
    _check(keys)
    # The key is part of the record id.
    lengths, starts = varints_at(records.data, records.value_starts)
    identities = gather(records.data, starts, lengths >> 1)
    ids = sha256_each(joined(sha256_each(keys), sha256_each(identities)))
    plain = records.value_ends - records.value_starts - RECORD_ID_BYTES
    return block_of(keys, joined(gather(records.data, records.value_starts, plain), ids))


def tombstones(block: Block) -> Block:
    if not len(block):
        return block
    keys = block.key_array()
    return block_of(keys, joined(_TOMBSTONE, sha256_each(joined(sha256_each(keys), _NO_IDENTITY))))


def _check(keys: pa.BinaryArray) -> None:
    wrong = pc.greater(pc.binary_length(keys), MAX_KEY_BYTES)
    # Only a key that loses its prefix can be empty or start with '/'.
    wrong = pc.or_(wrong, pc.or_(pc.equal(keys, b""), pc.starts_with(keys, b"/")))
    for key in keys.filter(wrong).slice(0, 1).to_pylist():
        raise InvalidKeyError(
            f"the new key {key[:60]!r}... is invalid, with {len(key)} bytes: a key has 1 to "
            f"{MAX_KEY_BYTES} bytes and no leading '/'. Choose another destination"
        )
