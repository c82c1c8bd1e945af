"""Streams of records in blocks: columns of records in key order, some thousand at a time.

A record stays as the bytes of its entry in a table, from the file that it is read from to the one
that it is written to. All work on records is done by columns: a step of Python's for each record
would cost ten times as much.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparklake.errors import CorruptFileError
from sparklake.graveler.columns import (
    Bytes,
    Ids,
    Keys,
    Mask,
    Positions,
    binary_array,
    data_of,
    digests_at,
    gather,
    items_at,
    offsets_of,
    search,
    varint_array,
    varints_at,
)
from sparklake.graveler.ids import RECORD_ID_BYTES
from sparklake.graveler.keys import Interval, successor
from sparklake.graveler.records import Record
from sparklake.graveler.varints import read_varint

# After its key, an entry of a table has a sequence number, 0, and a type, 1: a value.
KEY_SUFFIX = b"\x01\0\0\0\0\0\0\0"
SUFFIX_BYTES = len(KEY_SUFFIX)

_TOMBSTONE_START = np.frombuffer(b"\0\0", np.uint16)[0]


class Shape(NamedTuple):
    """Says how entries are divided: lengths take `heads` bytes, then comes the key."""

    heads: Positions
    key_lengths: Positions

    def at(self, rows: Positions | slice) -> Shape:
        """Returns the shape of some of the entries."""
        return Shape(self.heads[rows], self.key_lengths[rows])


class Block:
    """Is records in ascending key order.

    An entry is some bytes of lengths, the key, its suffix, and the stored value. `ids` are the
    valueRecordIDs, a row of four words each. The lengths are read when a key is asked for: most
    records are only compared, by their ids.
    """

    __slots__ = ("_shape", "entries", "ids")

    def __init__(self, entries: pa.BinaryArray, ids: Ids, shape: Shape | None = None) -> None:
        self.entries = entries
        self.ids = ids
        self._shape = shape

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def shape(self) -> Shape:
        """Returns how the entries are divided; raises CorruptFileError where they are not plain."""
        if self._shape is None:
            self._shape = _shape_of(self.entries)
        return self._shape

    @property
    def heads(self) -> Positions:
        """Returns how many bytes of an entry come before its key."""
        return self.shape.heads

    @property
    def key_lengths(self) -> Positions:
        """Returns how many bytes the keys have."""
        return self.shape.key_lengths

    @property
    def keys(self) -> Keys:
        """Returns the keys, where they lie in the entries."""
        starts = offsets_of(self.entries)[:-1] + self.heads
        return Keys(data_of(self.entries), starts, self.key_lengths)

    def keys_at(self, rows: Positions) -> Keys:
        """Returns the keys at some positions, in the same order."""
        return self.take(rows).keys if self._shape is None else self.keys.at(rows)

    def position(self, key: bytes) -> int:
        """Returns the position of the first record whose key is not below a key."""
        return bisect_left(range(len(self)), key, key=lambda index: self.record(index)[0])

    @property
    def first_key(self) -> bytes:
        """Returns the first key of a block that is not empty."""
        return self.record(0)[0]

    @property
    def last_key(self) -> bytes:
        """Returns the last key of a block that is not empty."""
        return self.record(len(self) - 1)[0]

    @property
    def data(self) -> Bytes:
        """Returns the bytes in which `value_starts` count."""
        return data_of(self.entries)

    @property
    def value_starts(self) -> Positions:
        """Returns where the stored values begin in `data`."""
        starts = offsets_of(self.entries)[:-1]
        return starts + self.heads + self.key_lengths + SUFFIX_BYTES

    @property
    def value_ends(self) -> Positions:
        """Returns where the stored values end in `data`, after their record ids."""
        return offsets_of(self.entries)[1:].astype(np.int64)

    @property
    def size(self) -> int:
        """Returns the number of raw bytes of keys and stored values."""
        bounds = offsets_of(self.entries)
        frames = int(self.heads.sum()) + SUFFIX_BYTES * len(self)
        return int(bounds[-1] - bounds[0]) - frames

    @property
    def tombstones(self) -> Mask:
        """Tells of each record whether it deletes its key."""
        starts = items_at(self.data, self.value_starts, 2).view(np.uint16)
        mask: Mask = starts == _TOMBSTONE_START
        return mask

    @property
    def is_ascending(self) -> bool:
        """Tells whether each key is above the one before it, as every block's must be."""
        keys = self.key_array()
        return bool(pc.all(pc.less(keys[:-1], keys[1:]), min_count=0).as_py())

    def slice(self, start: int, stop: int) -> Block:
        """Returns the records at the positions from `start` up to but without `stop`."""
        shape = self._shape and self._shape.at(slice(start, stop))
        return Block(self.entries.slice(start, stop - start), self.ids[start:stop], shape)

    def take(self, rows: Positions) -> Block:
        """Returns the records at some positions, which must be in ascending order of keys."""
        shape = self._shape and self._shape.at(rows)
        return Block(self.entries.take(pa.array(rows)), self.ids[rows], shape)

    def key_array(self) -> pa.BinaryArray:
        """Returns the keys as an array of their own."""
        return self.keys.array()

    def stored_array(self) -> pa.BinaryArray:
        """Returns the stored values as an array of their own."""
        starts = self.value_starts
        return gather(self.data, starts, self.value_ends - starts)

    def record(self, index: int) -> Record:
        """Returns one record."""
        entry: bytes = self.entries[index].as_py()
        own, at = read_varint(entry, 1)
        _, start = read_varint(entry, at)
        end = start + own
        return entry[start : end - SUFFIX_BYTES], entry[end:]

    def records(self) -> list[Record]:
        """Returns the records one by one: for few of them."""
        keys, values = self.key_array().to_pylist(), self.stored_array().to_pylist()
        return list(zip(keys, values, strict=True))


Blocks = Iterable[Block]
"""Is a stream of records in ascending key order."""

_NO_POSITIONS = np.zeros(0, np.int64)
_NO_ENTRIES = binary_array(np.zeros(1, np.int32), b"")  # `pa.array` would look for pandas.
EMPTY = Block(_NO_ENTRIES, np.zeros((0, 4), np.uint64), Shape(_NO_POSITIONS, _NO_POSITIONS))


def block_of(keys: pa.BinaryArray, stored: pa.BinaryArray) -> Block:
    """Returns the block of keys in ascending order and of their stored values, ids included."""
    if not len(keys):
        return EMPTY
    key_lengths = np.diff(offsets_of(keys)).astype(np.int64)
    value_lengths = np.diff(offsets_of(stored))
    # Of the key before it, an entry shares nothing: that makes each readable on its own.
    own, values = varint_array(key_lengths + SUFFIX_BYTES), varint_array(value_lengths)
    entries = pc.binary_join_element_wise(b"\0", own, values, keys, KEY_SUFFIX, stored, b"")
    heads = 1 + np.diff(offsets_of(own)) + np.diff(offsets_of(values)).astype(np.int64)
    return block_of_entries(entries, Shape(heads, key_lengths))


def block_of_records(records: Sequence[Record]) -> Block:
    """Returns the block of records in key order."""
    keys = pa.array([key for key, _ in records], pa.binary())
    return block_of(keys, pa.array([stored for _, stored in records], pa.binary()))


def block_of_entries(entries: pa.BinaryArray, shape: Shape | None = None) -> Block:
    """Returns the block of entries as they are in tables, whose values end in record ids."""
    ends = offsets_of(entries)[1:].astype(np.int64)
    return Block(entries, digests_at(data_of(entries), ends - RECORD_ID_BYTES), shape)


def _shape_of(entries: pa.BinaryArray) -> Shape:
    """Reads the lengths of plain entries.

    Plain ones share nothing with the key before them, and are values with sequence number 0.
    """
    data, bounds = data_of(entries), offsets_of(entries).astype(np.int64)
    starts, ends = bounds[:-1], bounds[1:]
    own, after = varints_at(data, starts + 1)
    values, after = varints_at(data, after)
    key_lengths = own - SUFFIX_BYTES
    suffixes = after + key_lengths
    if (
        data[starts].any()
        or (key_lengths < 1).any()
        or (values < RECORD_ID_BYTES).any()
        or (suffixes + SUFFIX_BYTES + values != ends).any()
        or (items_at(data, suffixes, SUFFIX_BYTES) != np.void(KEY_SUFFIX)).any()
    ):
        raise CorruptFileError("a table that passed for one of ours has entries of another form")
    return Shape(after - starts, key_lengths)


def concatenated(blocks: Sequence[Block]) -> Block:
    """Returns one block of the records of some, which follow each other in key order."""
    filled = [block for block in blocks if len(block)]
    if len(filled) < 2:
        return filled[0] if filled else EMPTY
    return _chained(filled)


def edited(block: Block, dropped: Mask, added: Block) -> Block:
    """Returns a block without the records that are `dropped`, and with others in their places.

    No key of `added` may be one that stays.
    """
    kept = np.flatnonzero(~dropped)
    if not len(added):
        return block if len(kept) == len(block) else block.take(kept)
    if not len(block):
        return added
    places, _ = search(block.keys, added.keys)
    # A place is the number of records of the block before it; those that are dropped do not count.
    places = np.concatenate(([0], np.cumsum(~dropped)))[places]
    order = np.insert(kept, places, len(block) + np.arange(len(added)))
    return _chained([block, added]).take(order)


def unequal(left: Ids, right: Ids) -> tuple[Mask, Mask]:
    """Tells which ids of either side the other side does not have; both are in key order."""
    ours, theirs = left[:, 0], right[:, 0]
    words = np.sort(np.concatenate((ours, theirs)))
    twice = words[1:] == words[:-1]
    once = np.ones(len(words), bool)
    once[1:] &= ~twice
    once[:-1] &= ~twice
    alone = pa.array(words[once])
    masks = [_is_in(pa.array(np.ascontiguousarray(each)), alone) for each in (ours, theirs)]
    # So far by their first words. What is left must be the same in full, and in the same order.
    if not np.array_equal(left[~masks[0]], right[~masks[1]]):
        masks = [~_is_in(*map(_digests, pair)) for pair in ((left, right), (right, left))]
    return masks[0], masks[1]


def _is_in(values: pa.Array, among: pa.Array) -> Mask:
    mask: Mask = pc.is_in(values, among).to_numpy(zero_copy_only=False)
    return mask


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


def _chained(blocks: Sequence[Block]) -> Block:
    """Returns one block of the records of several, in the order given."""
    shapes = [block.shape for block in blocks if block._shape is not None]
    shape = None
    if len(shapes) == len(blocks):
        heads = np.concatenate([each.heads for each in shapes])
        shape = Shape(heads, np.concatenate([each.key_lengths for each in shapes]))
    entries = pa.concat_arrays([block.entries for block in blocks])
    return Block(entries, np.concatenate([block.ids for block in blocks]), shape)


def _digests(ids: Ids) -> pa.FixedSizeBinaryArray:
    buffer = pa.py_buffer(np.ascontiguousarray(ids))
    return pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(RECORD_ID_BYTES), len(ids), [None, buffer]
    )
