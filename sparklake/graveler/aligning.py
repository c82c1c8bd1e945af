"""Cuts streams of records at keys."""

from __future__ import annotations

from collections.abc import Iterator

from sparklake.graveler.blocks import EMPTY, Block, Blocks
from sparklake.graveler.keys import Interval, successor


def aligned(*streams: Blocks) -> Iterator[tuple[Block, ...]]:
    """Cuts streams at common keys: each tuple has all records of one interval of keys.

    Holds one block a stream. A side without a record in the interval has an empty block.
    """
    sources = [filter(len, stream) for stream in streams]
    held: list[Block] = [next(source, EMPTY) for source in sources]
    while any(map(len, held)):
        end = min(block.last_key for block in held if len(block))
        cuts = [_position_after(block, end) for block in held]
        yield tuple(block.slice(0, cut) for block, cut in zip(held, cuts, strict=True))
        for side, (block, cut) in enumerate(zip(held, cuts, strict=True)):
            if cut == len(block):
                held[side] = next(sources[side], EMPTY) if len(block) else EMPTY
            else:
                held[side] = block.slice(cut, len(block))


def restricted(block: Block, interval: Interval) -> Block:
    """Returns the records of a block that lie in an interval; the block itself if all do."""
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
