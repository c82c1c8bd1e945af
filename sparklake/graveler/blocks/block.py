"""Streams of records in blocks. Data blocks stay packed until a record is needed."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple, cast

import numpy as np
import pyarrow as pa

from sparklake.graveler.blocks.columns import Keys, digests_at, keys_of, search
from sparklake.graveler.blocks.encoded import EncodedRecords, Shape, chained, encode_records
from sparklake.graveler.blocks.packed import PackedBlocks, Unit, unpacked
from sparklake.graveler.buffers import Ids, Mask, Positions, binary_array
from sparklake.graveler.ids import RECORD_ID_BYTES
from sparklake.graveler.records import Record


class DecodedLeaves(NamedTuple):
    """The records of some leaves. `shifts` maps a position in the block to theirs."""

    records: EncodedRecords
    shifts: Positions


class Block:
    """Records in ascending key order. `ids` has a row of four words per record id.

    A leaf is the unit of decoding: encoded records, or one data block. `starts` has the position of
    each leaf, and the end of the last one. A block caches opened leaves, so only one thread may use
    it, unless all of it is encoded from the start.
    """

    __slots__ = ("_leaves", "_opened", "ids", "starts", "units")

    def __init__(self, units: Sequence[Unit], ids: Ids) -> None:
        self.units = units
        self.ids = ids
        if len(units) == 1 and isinstance(units[0], EncodedRecords):
            self.starts, self._leaves = np.array([0, len(ids)]), [0, 1]
        else:
            counts = [_NO_LEAF]
            self._leaves = [0]
            for unit in units:
                counts.append(
                    np.array([len(unit)]) if isinstance(unit, EncodedRecords) else unit.counts
                )
                self._leaves.append(self._leaves[-1] + len(counts[-1]))
            self.starts = np.cumsum(np.concatenate(counts))
        self._opened: tuple[Mask, DecodedLeaves] | None = None

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def first_key(self) -> bytes:
        return self.units[0].first_key

    @property
    def last_key(self) -> bytes:
        return _last_keys(self.units[-1])[-1]

    def record(self, index: int) -> Record:
        leaf = self.leaves_at(np.array([index]))
        records, shifts = self.open(leaf)
        return records.record(int(index + shifts[leaf[0]]))

    def position(self, key: bytes) -> int:
        """Return the position of the first record at or above a key."""
        unit = bisect_left(self.units, key, key=lambda each: _last_keys(each)[-1])
        if unit == len(self.units):
            return len(self)
        leaf = self._leaves[unit] + bisect_left(_last_keys(self.units[unit]), key)
        records, shifts = self.open(np.array([leaf]))
        inside = range(int(self.starts[leaf]), int(self.starts[leaf + 1]))
        return inside.start + bisect_left(
            inside, key, key=lambda at: records.record(int(at + shifts[leaf]))[0]
        )

    def stored(self, key: bytes) -> bytes | None:
        """Return the stored value of one key, without decoding its data block into columns."""
        unit = bisect_left(self.units, key, key=lambda each: _last_keys(each)[-1])
        return self.units[unit].find(key) if unit < len(self.units) else None

    def find(self, keys: Keys) -> tuple[Positions, Mask]:
        """Return the insertion position of each key, in order, and whether the key exists."""
        if not len(keys) or not len(self):
            return np.zeros(len(keys), np.int64), np.zeros(len(keys), bool)
        if len(self.starts) == 2:
            return search(self.keys, keys)
        leaves, _ = search(keys_of([key for unit in self.units for key in _last_keys(unit)]), keys)
        reached = int(np.searchsorted(leaves, len(self.starts) - 1))
        places = np.full(len(keys), len(self))
        exists = np.zeros(len(keys), bool)
        if reached:
            leaves = leaves[:reached]
            records, shifts = self.open(_distinct(leaves))
            at, exists[:reached] = search(records.keys, keys.at(np.arange(reached)))
            places[:reached] = at - shifts[leaves]
        return places, exists

    def slice(self, start: int, stop: int) -> Block:
        if start >= stop:
            return EMPTY
        if start == 0 and stop == len(self):
            return self
        first, last = self.leaves_at(np.array([start, stop - 1])).tolist()
        begin, end = int(self.starts[first]), int(self.starts[last + 1])
        units: list[Unit] = []
        if start > begin or (first == last and stop < end):
            units.append(self._within(first, start, stop))
            first += 1
        units += self.units_of(first, last + (stop == end))
        if first <= last and stop < end:
            units.append(self._within(last, start, stop))
        return Block(units, self.ids[start:stop])

    def take(self, rows: Positions) -> Block:
        """Return the records at ascending positions."""
        if not len(rows):
            return EMPTY
        leaves = self.leaves_at(rows)
        records, shifts = self.open(_distinct(leaves))
        return Block([records.take(rows + shifts[leaves])], self.ids[rows])

    @property
    def is_packed(self) -> Mask:
        """The mask of data blocks among the leaves."""
        kinds = np.array([not isinstance(unit, EncodedRecords) for unit in self.units], bool)
        return np.repeat(kinds, np.diff(self._leaves))

    def leaves_at(self, rows: Positions) -> Positions:
        """Return the leaf at each position; the number of leaves at the end."""
        return np.searchsorted(self.starts, rows, "right") - 1

    def units_of(self, first: int, stop: int) -> list[Unit]:
        units: list[Unit] = []
        if first >= stop:
            return units
        at = bisect_right(self._leaves, first) - 1
        while first < stop:
            unit, begin, end = self.units[at], self._leaves[at], self._leaves[at + 1]
            if isinstance(unit, EncodedRecords) or (first == begin and stop >= end):
                units.append(unit)
            else:
                units.append(unit.part(first - begin, min(stop, end) - begin))
            first, at = end, at + 1
        return units

    def open(self, leaves: Positions) -> DecodedLeaves:
        """Open leaves, given in ascending order. The result may contain more leaves."""
        there, opened = self._opened or (np.zeros(len(self.starts) - 1, bool), None)
        if opened is None or not there[leaves].all():
            there = np.zeros(len(self.starts) - 1, bool)
            there[leaves] = True
            opened = self._open(leaves)
            self._opened = (there, opened)
        return opened

    def open_parts(self, leaves: Positions) -> tuple[list[EncodedRecords], Positions]:
        """Open only the leaves that are not open yet.

        The open ones are the first part. The shifts refer to the records of all parts.
        """
        there, opened = self._opened or (np.zeros(len(self.starts) - 1, bool), None)
        missing = leaves[~there[leaves]]
        if opened is None or not len(missing):
            opened = self.open(leaves)
            return [opened.records], opened.shifts
        more, shifts = self._open(missing), opened.shifts.copy()
        shifts[missing] = more.shifts[missing] + len(opened.records)
        return [opened.records, more.records], shifts

    def _open(self, leaves: Positions) -> DecodedLeaves:
        parts = [NOTHING]
        for is_encoded, units in groupby(
            self._units_at(leaves.tolist()),
            lambda each: isinstance(self.units[each[0]], EncodedRecords),
        ):
            if is_encoded:
                parts += (cast("EncodedRecords", self.units[unit]) for unit, _ in units)
            else:
                parts.append(self._unpacked(list(units)))
        shifts = np.zeros(len(self.starts) - 1, np.int64)
        counts = self.starts[leaves + 1] - self.starts[leaves]
        shifts[leaves] = np.cumsum(counts) - counts - self.starts[leaves]
        return DecodedLeaves(chained(parts), shifts)

    def _units_at(self, leaves: list[int]) -> Iterator[tuple[int, list[int]]]:
        """Yield the units of leaves, each with its leaves."""
        at = 0
        while at < len(leaves):
            unit = bisect_right(self._leaves, leaves[at]) - 1
            stop = bisect_left(leaves, self._leaves[unit + 1], lo=at)
            yield unit, leaves[at:stop]
            at = stop

    def _unpacked(self, units: list[tuple[int, list[int]]]) -> EncodedRecords:
        leaves = np.array([leaf for _, each in units for leaf in each])
        parts = [
            (cast("PackedBlocks", self.units[unit]), [leaf - self._leaves[unit] for leaf in each])
            for unit, each in units
        ]
        return EncodedRecords(unpacked(parts, self.ids[self.starts[leaves + 1] - 1]))

    def _within(self, leaf: int, start: int, stop: int) -> EncodedRecords:
        records, shifts = self.open(np.array([leaf]))
        begin, end = self.starts[leaf : leaf + 2].tolist()
        shift = int(shifts[leaf])
        return records.slice(max(start, begin) + shift, min(stop, end) + shift)

    @property
    def encoded(self) -> EncodedRecords:
        if len(self.units) != 1 or not isinstance(self.units[0], EncodedRecords):
            if not self.units:
                return NOTHING
            records = self._open(np.arange(len(self.starts) - 1)).records
            self.units, self._leaves = [records], [0, 1]
            self.starts, self._opened = np.array([0, len(self)]), None
        assert isinstance(self.units[0], EncodedRecords)
        return self.units[0]

    @property
    def keys(self) -> Keys:
        return self.encoded.keys

    @property
    def tombstones(self) -> Mask:
        return self.encoded.tombstones

    def key_array(self) -> pa.BinaryArray:
        return self.encoded.key_array()

    def records(self) -> list[Record]:
        """Return the records as a list. Use it for few records only."""
        encoded = self.encoded
        keys, values = encoded.key_array().to_pylist(), encoded.stored_array().to_pylist()
        return list(zip(keys, values, strict=True))


Blocks = Iterable[Block]  # A stream of records in ascending key order.

_NO_LEAF = np.zeros(1, np.int64)
_NO_POSITIONS = np.zeros(0, np.int64)
_NO_ENTRIES = binary_array(np.zeros(1, np.int32), b"")  # `pa.array` would look for pandas.
NOTHING = EncodedRecords(_NO_ENTRIES, Shape(_NO_POSITIONS, _NO_POSITIONS))
EMPTY = Block([], np.zeros((0, 4), np.uint64))


def block_of(keys: pa.BinaryArray, stored: pa.BinaryArray) -> Block:
    return block_of_encoded(encode_records(keys, stored)) if len(keys) else EMPTY


def block_of_records(records: Sequence[Record]) -> Block:
    keys = pa.array([key for key, _ in records], pa.binary())
    return block_of(keys, pa.array([stored for _, stored in records], pa.binary()))


def block_of_encoded(records: EncodedRecords) -> Block:
    return Block([records], digests_at(records.data, records.value_ends - RECORD_ID_BYTES))


def concatenated(blocks: Sequence[Block]) -> Block:
    """Join consecutive blocks."""
    filled = [block for block in blocks if len(block)]
    if len(filled) < 2:
        return filled[0] if filled else EMPTY
    units = [unit for block in filled for unit in block.units]
    return Block(units, np.concatenate([block.ids for block in filled]))


def _last_keys(unit: Unit) -> list[bytes]:
    return [unit.last_key] if isinstance(unit, EncodedRecords) else unit.last_keys


def _distinct(ascending: Positions) -> Positions:
    return ascending[np.concatenate(([True], ascending[1:] != ascending[:-1]))]
