"""Cuts and comparisons of blocks at common keys."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparklake.graveler import kernels
from sparklake.graveler.blocks.block import EMPTY, Block, Blocks
from sparklake.graveler.buffers import Ids, Mask, Positions, mask_of
from sparklake.graveler.ids import RECORD_ID_BYTES
from sparklake.graveler.keys import Interval, successor


def aligned(*streams: Blocks) -> Iterator[tuple[Block, ...]]:
    """Cut streams at common keys. Each tuple has all records of one interval of keys.

    Holds one block per stream. A side without a record in the interval has an empty block.
    """
    sources = [filter(len, stream) for stream in streams]
    blocks: list[Block] = [next(source, EMPTY) for source in sources]
    while any(map(len, blocks)):
        end = min(block.last_key for block in blocks if len(block))
        cuts = [_position_after(block, end) for block in blocks]
        yield tuple(block.slice(0, cut) for block, cut in zip(blocks, cuts, strict=True))
        for side, (block, cut) in enumerate(zip(blocks, cuts, strict=True)):
            if cut == len(block):
                blocks[side] = next(sources[side], EMPTY) if len(block) else EMPTY
            else:
                blocks[side] = block.slice(cut, len(block))


def restricted(block: Block, interval: Interval) -> Block:
    """Return the records in an interval, or the block itself if it is inside."""
    if not len(block) or (block.first_key in interval and block.last_key in interval):
        return block
    if interval.is_empty:
        return EMPTY
    stop = len(block) if interval.stop is None else block.position(interval.stop)
    return block.slice(block.position(interval.start), stop)


def _position_after(block: Block, key: bytes) -> int:
    if not len(block) or block.last_key <= key:
        return len(block)
    return block.position(successor(key))


@kernels.defines(kernels.unequal_rows)
def unequal_rows(left: Ids, right: Ids) -> tuple[Positions, Positions]:
    """Return the positions of the ids missing on the other side."""
    shared = min(len(left), len(right))
    differ = (left[:shared] != right[:shared]).any(axis=1)
    # The common beginning is equal. In most cases it is everything.
    start = int(differ.argmax()) if differ.any() else shared
    if start == len(left) == len(right):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    in_left, in_right = unequal(left[start:], right[start:])
    return start + np.flatnonzero(in_left), start + np.flatnonzero(in_right)


def unequal(left: Ids, right: Ids) -> tuple[Mask, Mask]:
    """Return the masks of ids on one side only. Both sides are in key order."""
    left_words, right_words = left[:, 0], right[:, 0]
    words = np.sort(np.concatenate((left_words, right_words)))
    twice = words[1:] == words[:-1]
    once = np.ones(len(words), bool)
    once[1:] &= ~twice
    once[:-1] &= ~twice
    alone = pa.array(words[once])
    words_of_sides = (pa.array(np.ascontiguousarray(each)) for each in (left_words, right_words))
    masks = [mask_of(pc.is_in(each, alone)) for each in words_of_sides]
    # So far only first words were compared. The rest must be equal in full and in the same
    # order.
    if not np.array_equal(left[~masks[0]], right[~masks[1]]):
        pairs = ((left, right), (right, left))
        masks = [~mask_of(pc.is_in(*map(_digests, pair))) for pair in pairs]
    return masks[0], masks[1]


@kernels.defines(kernels.find_ids)
def find_ids(ids: Ids, targets: Ids) -> Positions:
    """Return the position of each target id; -1 if absent, or shadowed by an equal first word."""
    if not len(ids) or not len(targets):
        return np.full(len(targets), -1)
    words = (pa.array(np.ascontiguousarray(each[:, 0])) for each in (targets, ids))
    at: Positions = pc.index_in(*words).fill_null(-1).to_numpy().astype(np.int64)
    at[(ids[at] != targets).any(axis=1)] = -1
    return at


def _digests(ids: Ids) -> pa.FixedSizeBinaryArray:
    buffer = pa.py_buffer(np.ascontiguousarray(ids))
    return pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(RECORD_ID_BYTES), len(ids), [None, buffer]
    )
