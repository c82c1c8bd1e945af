"""Records as encoded table entries, in columns."""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparklake.errors import CorruptFileError, InvalidRowsError
from sparklake.graveler import kernels
from sparklake.graveler.blocks.columns import (
    Keys,
    gather,
    items_at,
    joined,
    search,
    varint_array,
    varints_at,
)
from sparklake.graveler.buffers import Bytes, Mask, Positions, binary_array, data_of, offsets_of
from sparklake.graveler.ids import RECORD_ID_BYTES, read_varint
from sparklake.graveler.records import Record, decode_record

# The suffix of a key in a table: sequence number 0 and type 1, a value.
KEY_SUFFIX = b"\x01\0\0\0\0\0\0\0"
SUFFIX_BYTES = len(KEY_SUFFIX)

MAX_BYTES = (1 << 31) - 1  # The maximum number of entry bytes in one Arrow array.

_PLACE_BYTES = 4
_COUNT = struct.Struct("<I")
_TOMBSTONE_START = np.frombuffer(b"\0\0", np.uint16)[0]


class Shape(NamedTuple):
    """The layout of entries: `heads` bytes for the lengths, then the key."""

    heads: Positions
    key_lengths: Positions

    def at(self, rows: Positions | slice) -> Shape:
        return Shape(self.heads[rows], self.key_lengths[rows])


class EncodedRecords:
    """The entries of records in ascending key order.

    An entry is the lengths, the key, its suffix, and the stored value. The lengths are decoded
    on the first access to a key.
    """

    __slots__ = ("_shape", "entries")

    def __init__(self, entries: pa.BinaryArray, shape: Shape | None = None) -> None:
        self.entries = entries
        self._shape = shape

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def shape(self) -> Shape:
        """The layout of plain entries. Others are an error."""
        if self._shape is None:
            try:
                self._shape = Shape(*_lengths_of(self.entries))
            except IndexError:
                raise _other_form() from None
        return self._shape

    @property
    def keys(self) -> Keys:
        heads, key_lengths = self.shape
        return Keys(self.data, offsets_of(self.entries)[:-1] + heads, key_lengths)

    @property
    def data(self) -> Bytes:
        """The bytes of all entries."""
        return data_of(self.entries)

    @property
    def value_starts(self) -> Positions:
        heads, key_lengths = self.shape
        return offsets_of(self.entries)[:-1] + heads + key_lengths + SUFFIX_BYTES

    @property
    def value_ends(self) -> Positions:
        """The end of each stored value in `data`, after its record id."""
        return offsets_of(self.entries)[1:].astype(np.int64)

    @property
    def tombstones(self) -> Mask:
        starts = items_at(self.data, self.value_starts, 2).view(np.uint16)
        mask: Mask = starts == _TOMBSTONE_START
        return mask

    @property
    def first_key(self) -> bytes:
        return self.record(0)[0]

    @property
    def last_key(self) -> bytes:
        return self.record(len(self) - 1)[0]

    def key_array(self) -> pa.BinaryArray:
        return self.keys.array()

    @property
    def is_ascending(self) -> bool:
        return not len(self.unordered())

    def unordered(self) -> Positions:
        """Return the rows with a key at or above the next key."""
        keys = self.key_array()
        return np.flatnonzero(~np.asarray(pc.less(keys[:-1], keys[1:])))

    def slice(self, start: int, stop: int) -> EncodedRecords:
        shape = self._shape and self._shape.at(slice(start, stop))
        return EncodedRecords(self.entries.slice(start, stop - start), shape)

    def take(self, rows: Positions) -> EncodedRecords:
        shape = self._shape and self._shape.at(rows)
        return EncodedRecords(self.entries.take(pa.array(rows)), shape)

    def stored_array(self) -> pa.BinaryArray:
        starts = self.value_starts
        return gather(self.data, starts, self.value_ends - starts)

    def record(self, index: int) -> Record:
        entry: bytes = self.entries[index].as_py()
        own, at = read_varint(entry, 1)
        _, start = read_varint(entry, at)
        end = start + own
        return entry[start : end - SUFFIX_BYTES], entry[end:]

    def find(self, key: bytes) -> bytes | None:
        match, stored = self._reaching(key) or (b"", b"")
        return stored if match == key else None

    def find_many(self, keys: Keys) -> tuple[pa.BinaryArray, Positions]:
        """Return the stored values for ascending keys, and the positions of existing keys."""
        places, exists = search(self.keys, keys)
        positions = np.flatnonzero(exists)
        return self.take(places[positions]).stored_array(), positions

    def reaching(self, key: bytes) -> bytes | None:
        """Return the first key at or above a key."""
        record = self._reaching(key)
        return None if record is None else record[0]

    def _reaching(self, key: bytes) -> Record | None:
        row = bisect_left(range(len(self)), key, key=lambda at: self.record(at)[0])
        return self.record(row) if row < len(self) else None


def encode_records(keys: pa.BinaryArray, stored: pa.BinaryArray) -> EncodedRecords:
    return EncodedRecords(*_encoded(keys, stored))


@kernels.defines(kernels.encode_records)
def _encoded(keys: pa.BinaryArray, stored: pa.BinaryArray) -> tuple[pa.BinaryArray, Shape | None]:
    """Return entries, and their layout if known."""
    key_lengths = np.diff(offsets_of(keys)).astype(np.int64)
    value_lengths = np.diff(offsets_of(stored))
    # An entry shares no bytes with the previous key, so each is readable separately.
    own, values = varint_array(key_lengths + SUFFIX_BYTES), varint_array(value_lengths)
    entries = joined(b"\0", own, values, keys, KEY_SUFFIX, stored)
    heads = 1 + np.diff(offsets_of(own)) + np.diff(offsets_of(values)).astype(np.int64)
    return entries, Shape(heads, key_lengths)


def chained(parts: Sequence[EncodedRecords]) -> EncodedRecords:
    """Concatenate at least one part."""
    parts = [part for part in parts if len(part)] or list(parts[:1])
    if len(parts) == 1:
        return parts[0]
    shapes = [part.shape for part in parts if part._shape is not None]
    shape = None
    if len(shapes) == len(parts):
        heads = np.concatenate([each.heads for each in shapes])
        shape = Shape(heads, np.concatenate([each.key_lengths for each in shapes]))
    return EncodedRecords(pa.concat_arrays([part.entries for part in parts]), shape)


def joined_blocks(contents: Sequence[memoryview], counts: Positions) -> EncodedRecords:
    """Return the records in data blocks of given record counts.

    A data block ends in the position of each entry and their count, four bytes each. Raises
    CorruptFileError or ValueError for invalid bytes, and InvalidRowsError for too many.
    """
    ends = [
        len(content) - _PLACE_BYTES * (count + 1)
        for content, count in zip(contents, counts.tolist(), strict=True)
    ]
    if min(ends, default=0) < 0:
        raise _other_form()
    pairs = list(zip(contents, ends, strict=True))
    if sum(ends) > MAX_BYTES:
        raise InvalidRowsError(
            f"one range has {sum(ends):,} bytes of records, and at most {MAX_BYTES:,} can be "
            "read at once: import its objects into a repository with smaller range_records"
        )
    entries = b"".join([content[:end] for content, end in pairs])
    places = b"".join([content[end:-_PLACE_BYTES] for content, end in pairs])
    recorded = b"".join([content[-_PLACE_BYTES:] for content in contents])
    # 64 bits, wider than Arrow's offsets: a sum that wraps around could look correct.
    bounds = np.empty(int(counts.sum()) + 1, np.int64)
    bounds[-1] = len(entries)
    begins = np.cumsum(ends) - ends
    np.add(np.frombuffer(places, "<u4"), np.repeat(begins, counts), out=bounds[:-1])
    if (
        (np.frombuffer(recorded, "<u4") != counts).any()
        or bounds[0] != 0
        or (bounds[1:] - bounds[:-1] < RECORD_ID_BYTES).any()
    ):
        raise _other_form()
    return EncodedRecords(binary_array(bounds, entries))


def find_stored(content: memoryview, last_key: bytes, key: bytes) -> bytes | None:
    """Return a key's stored value in a data block; raise many errors for damaged ones."""
    places = _places(content, last_key)
    row = bisect_left(places, key, key=partial(_key_at, content))
    if row == len(places) or _key_at(content, places[row]) != key:
        return None
    _, start, size = _parts_at(content, places[row])
    stored = bytes(content[start : start + size])
    if not stored.endswith(decode_record(key, stored).id):
        raise CorruptFileError("a data block has a record with the id of another record")
    return stored


def key_reaching(content: memoryview, last_key: bytes, key: bytes) -> bytes | None:
    """Return the first key at or above a key, with the errors of `find_stored`."""
    places = _places(content, last_key)
    row = bisect_left(places, key, key=partial(_key_at, content))
    return None if row == len(places) else _key_at(content, places[row])


def _places(content: memoryview, last_key: bytes) -> tuple[int, ...]:
    """Return the positions of a data block's entries."""
    (count,) = _COUNT.unpack_from(content, len(content) - _PLACE_BYTES)
    end = len(content) - _PLACE_BYTES * (count + 1)
    if end < 0:
        raise _other_form()
    places = struct.unpack_from(f"<{count}I", content, end)
    if _key_at(content, places[-1]) != last_key:
        raise CorruptFileError("a data block is at the position of another one")
    return places


def _parts_at(content: memoryview, place: int) -> tuple[int, int, int]:
    """Return the start of an entry's key, and its stored value's start and size."""
    own, at = read_varint(content, place + 1)
    size, at = read_varint(content, at)
    return at, at + own, size


def _key_at(content: memoryview, place: int) -> bytes:
    start, stop, _ = _parts_at(content, place)
    return bytes(content[start : stop - SUFFIX_BYTES])


def holds_its_ids(records: EncodedRecords) -> bool:
    """Return whether the first and the last record end in their own record ids."""
    ends = (records.record(0), records.record(len(records) - 1))
    return all(stored.endswith(decode_record(key, stored).id) for key, stored in ends)


@kernels.defines(kernels.entry_lengths)
def _lengths_of(entries: pa.BinaryArray) -> tuple[Positions, Positions]:
    """Return the heads and key lengths of plain entries.

    Plain entries share no bytes with the previous key, and are values with sequence number 0.
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
        raise _other_form()
    return after - starts, key_lengths


def _other_form() -> CorruptFileError:
    return CorruptFileError("a table with sparklake's layout has entries in a different layout")
