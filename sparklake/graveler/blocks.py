"""Streams of records in blocks: lists in key order, each at most about a range long.

Work that is done once a block, in C, costs a tenth of the same done once a record.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator

from sparklake.graveler.keys import Interval, successor
from sparklake.graveler.records import Record

Block = list[Record]
"""Is records in ascending key order; an empty one says nothing."""

Blocks = Iterable[Block]
"""Is a stream of records in ascending key order."""


def aligned(*streams: Blocks) -> Iterator[tuple[Block, ...]]:
    """Cuts streams at common keys: each tuple has all records of one interval of keys.

    Holds one block a stream. A side without a record in the interval has an empty block.
    """
    sources = [filter(None, stream) for stream in streams]
    held: list[Block] = [next(source, []) for source in sources]
    while any(held):
        end = min(block[-1][0] for block in held if block)
        yield tuple(map(_up_to, held, (end,) * len(held)))
        for side, block in enumerate(held):
            if block and block[-1][0] == end:
                held[side] = next(sources[side], [])
            elif block:
                held[side] = block[_position_after(block, end) :]


def restricted(block: Block, interval: Interval) -> Block:
    """Returns the records of a block that lie in an interval; the block itself if all do."""
    if not block or (block[0][0] in interval and block[-1][0] in interval):
        return block
    first = _position(block, interval.start)
    return block[first : None if interval.stop is None else _position(block, interval.stop)]


def _up_to(block: Block, end: bytes) -> Block:
    if not block or block[-1][0] <= end:
        return block
    return block[: _position_after(block, end)]


def _position_after(block: Block, key: bytes) -> int:
    return _position(block, successor(key))


def _position(block: Block, key: bytes) -> int:
    """Returns the position of the first record whose key is not below a key."""
    return bisect_left(block, (key, b""))
