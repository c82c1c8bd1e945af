"""Ranges, and the range lists of metaranges."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import overload

import numpy as np
from google.protobuf.message import DecodeError

from sparklake.errors import CorruptFileError
from sparklake.graveler.blocks.block import EMPTY, Block, block_of_records, concatenated
from sparklake.graveler.blocks.encoded import MAX_BYTES, SUFFIX_BYTES
from sparklake.graveler.buffers import Ids
from sparklake.graveler.ids import RECORD_ID_BYTES, MetaRangeId, RangeId, is_id, record_id
from sparklake.graveler.keys import Interval
from sparklake.graveler.messages import RangeDataMessage
from sparklake.graveler.records import Record, decode_record, encode_record


@dataclass(frozen=True, slots=True)
class RangeInfo:
    """A metarange's record of one range.

    `size` is the raw bytes of keys and values: the bytes that a reader decodes, independent of
    compression. Only staged runs have `tombstones`, records that delete their key.
    """

    id: RangeId
    min_key: bytes
    max_key: bytes
    count: int
    size: int
    tombstones: int = 0


def record_count(ranges: Iterable[RangeInfo]) -> int:
    return sum(each.count for each in ranges)


def byte_count(ranges: Iterable[RangeInfo]) -> int:
    """Return the number of raw bytes in ranges."""
    return sum(each.size for each in ranges)


_COUNTS = range(MAX_BYTES // (RECORD_ID_BYTES + SUFFIX_BYTES))
_MAX_SIZE = (1 << 63) - 1
_DECODED_AT_ONCE = 1024
_MOST_DECODED = 4096  # Per metarange, decoded one by one.
_FEW = 16  # Up to this many ranges, decoding one by one is faster than decoding columns.

Ranges = Sequence[RangeInfo]
"""Ranges in key order without overlaps: a RangeList, or a few in a tuple."""


class RangeList(Sequence[RangeInfo]):
    """Ranges in key order, as the records of a metarange. A slice shares the records."""

    def __init__(self, block: Block = EMPTY) -> None:
        self._whole, self._rows = block, range(len(block))
        self._decoded: dict[int, RangeInfo] = {}

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> RangeInfo: ...

    @overload
    def __getitem__(self, index: slice) -> RangeList: ...

    def __getitem__(self, index: int | slice) -> RangeInfo | RangeList:
        inside = self._rows[index]
        if isinstance(inside, int):
            return self._decode(inside)
        if inside.step != 1:
            raise ValueError("ranges must stay consecutive and in key order: slice without a step")
        part = RangeList()
        part._whole, part._rows, part._decoded = self._whole, inside, self._decoded
        return part

    def _decode(self, row: int) -> RangeInfo:
        info = self._decoded.get(row)
        if info is None:
            if len(self._decoded) >= _MOST_DECODED:
                self._decoded.clear()
            info = self._decoded[row] = _range_info(self._whole.record(row))
        return info

    def __iter__(self) -> Iterator[RangeInfo]:
        if len(self) <= _FEW:
            yield from map(self._decode, self._rows)
            return
        for start in range(0, len(self), _DECODED_AT_ONCE):
            rows = self._rows[start : start + _DECODED_AT_ONCE]
            yield from map(_range_info, self._whole.slice(rows.start, rows.stop).records())

    def __eq__(self, other: object) -> bool:
        # A record's id covers the id and the greatest key of its range.
        if not isinstance(other, RangeList):
            return NotImplemented
        return np.array_equal(self.ids, other.ids)

    def __hash__(self) -> int:
        return hash(self.ids.tobytes())

    def __reduce__(self) -> tuple[type[RangeList], tuple[Block]]:
        return RangeList, (self.block,)

    @property
    def ids(self) -> Ids:
        """The ids of the records."""
        return self._whole.ids[self._rows.start : self._rows.stop]

    @cached_property
    def block(self) -> Block:
        return self._whole.slice(self._rows.start, self._rows.stop)

    @cached_property
    def max_keys(self) -> list[bytes]:
        keys: list[bytes] = self.block.key_array().to_pylist()
        return keys


@dataclass(frozen=True, slots=True)
class MetaRange:
    """The tree of a commit: its id and its ranges in key order."""

    id: MetaRangeId
    ranges: RangeList

    @property
    def count(self) -> int:
        return record_count(self.ranges)


def range_list(*parts: Ranges) -> RangeList:
    """Join consecutive parts. Only parts outside of a RangeList are encoded."""
    new = [each for part in parts if not isinstance(part, RangeList) for each in part]
    encoded, at = block_of_records(list(map(_range_record, new))), 0
    blocks = []
    for part in parts:
        if isinstance(part, RangeList):
            blocks.append(part.block)
        else:
            blocks.append(encoded.slice(at, at + len(part)))
            at += len(part)
    return RangeList(concatenated(blocks))


def record_ids(ranges: Ranges) -> Ids:
    """Return the ids of the ranges' records in a metarange."""
    if isinstance(ranges, RangeList):
        return ranges.ids
    ids = b"".join(record_id(each.max_key, each.id.encode()) for each in ranges)
    return np.frombuffer(ids, np.uint64).reshape(len(ranges), 4)


def overlapping(ranges: Ranges, interval: Interval) -> Ranges:
    """Return the ranges around or inside an interval."""
    first = position_reaching(ranges, interval.start)
    if interval.stop is None:
        return ranges[first:]
    last = position_reaching(ranges, interval.stop, first)
    reaches_in = last < len(ranges) and ranges[last].min_key < interval.stop
    return ranges[first : last + reaches_in]


def overlaps(ranges: Ranges, interval: Interval) -> bool:
    first = position_reaching(ranges, interval.start)
    stop = interval.stop
    return first < len(ranges) and (stop is None or ranges[first].min_key < stop)


def position_reaching(ranges: Ranges, key: bytes, lo: int = 0) -> int:
    """Return the first position, starting at `lo`, of a range that ends at or after a key."""
    if isinstance(ranges, RangeList):
        return bisect_left(ranges.max_keys, key, lo=lo)
    return bisect_left(ranges, key, lo=lo, key=attrgetter("max_key"))


def max_keys(ranges: Ranges) -> list[bytes]:
    if isinstance(ranges, RangeList):
        return ranges.max_keys
    return [each.max_key for each in ranges]


def _range_record(each: RangeInfo) -> Record:
    message = RangeDataMessage(
        min_key=each.min_key,
        max_key=each.max_key,
        estimated_size=each.size,
        count=each.count,
        tombstones=each.tombstones,
    )
    return encode_record(each.max_key, each.id.encode(), message.SerializeToString())


def _range_info(record: Record) -> RangeInfo:
    decoded = decode_record(*record)
    try:
        message = RangeDataMessage.FromString(decoded.data)
        range_id = RangeId(decoded.identity.decode())
    except (DecodeError, UnicodeDecodeError) as error:
        raise _no_range(decoded.key) from error
    if message.max_key != decoded.key or not is_id(range_id):
        raise _no_range(decoded.key)
    # Whatever plans by impossible numbers would need endless memory.
    if message.count not in _COUNTS or message.estimated_size > _MAX_SIZE:
        raise _no_range(decoded.key)
    return RangeInfo(
        id=range_id,
        min_key=message.min_key,
        max_key=message.max_key,
        count=message.count,
        size=message.estimated_size,
        tombstones=message.tombstones,
    )


def _no_range(key: bytes) -> CorruptFileError:
    return CorruptFileError(f"the record of {key!r} in a metarange does not describe a range")
