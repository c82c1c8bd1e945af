"""Recently read ranges in memory, for lookups of single objects."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, cached_property
from threading import Lock
from typing import TypeVar

import numpy as np
from cachetools import LRUCache

from sparklake.graveler.blocks.block import Block, block_of
from sparklake.graveler.blocks.columns import Keys
from sparklake.graveler.blocks.encoded import EncodedRecords
from sparklake.graveler.buffers import Positions
from sparklake.graveler.ids import RangeId
from sparklake.graveler.kernel_choice import is_compiled
from sparklake.graveler.keys import Interval
from sparklake.graveler.ports import ObjectStore
from sparklake.graveler.ranges import RangeInfo, Ranges, position_reaching
from sparklake.graveler.sstable.range_files import read_each, read_packed, read_together
from sparklake.graveler.sstable.reader import DataBlocks

OPEN_BYTES = 512 * 1024 * 1024
"""The memory limit of open ranges: about a million objects."""

PACKED_BYTES = 64 * 1024 * 1024
"""The memory limit of packed ranges: about 20 million objects of a local store.

Other stores return whole files, which stay in memory.
"""

_BYTES_A_RECORD = 80
"""The memory of a record besides its bytes: its id, the lengths in its entry, and the positions of
its key and value."""

_BYTES_A_DATA_BLOCK = 250
"""The memory of a data block's position and bounding keys, besides the bytes of the keys."""

_PART_OPENED = 4
"""A range is opened in full when about one in this many of its data blocks may be open."""


def full_size(raw_size: int, count: int) -> int:
    return raw_size + _BYTES_A_RECORD * count


class OpenRange:
    """The records of a range, found by their keys; `raw_size` is in bytes."""

    def __init__(self, block: Block, raw_size: int = 0) -> None:
        self.block = block
        self.raw_size = raw_size

    @property
    def size(self) -> int:
        return full_size(self.raw_size, len(self.block))

    def find(self, key: bytes) -> bytes | None:
        row = bisect_left(range(len(self.block)), key, key=self._key)
        if row == len(self.block) or self._key(row) != key:
            return None
        data, _, _, starts, ends = self._places
        return bytes(data[starts[row] : ends[row]])

    def holding(self, intervals: Sequence[Interval]) -> Iterator[Interval]:
        keys = self.block.keys
        for each in intervals:
            at = bisect_left(keys, each.start)
            if at < len(keys) and keys[at] in each:
                yield each

    def find_many(self, keys: Keys) -> tuple[Block, Positions]:
        """Return the records of ascending keys, and the matching positions."""
        places, matches = self.block.find(keys)
        positions = np.flatnonzero(matches)
        return self.block.take(places[positions]), positions

    def _key(self, row: int) -> bytes:
        data, starts, ends, _, _ = self._places
        return bytes(data[starts[row] : ends[row]])

    @cached_property
    def _places(self) -> tuple[memoryview, ...]:
        keys, records = self.block.keys, self.block.encoded
        bounds = (keys.starts, keys.starts + keys.lengths, records.value_starts, records.value_ends)
        return records.data.data, *(each.astype(np.int32).data for each in bounds)


class PackedRange:
    """The positions of a range's data blocks, opened per lookup and not kept."""

    def __init__(self, info: RangeInfo, block: Block) -> None:
        self._left = len(block.starts) // _PART_OPENED
        self._records: DataBlocks | EncodedRecords
        (records,) = block.units
        if isinstance(records, DataBlocks):
            self._records = records.without_ids()
            keys = (*records.first_keys, *records.last_keys)
            self.size = sum(map(len, keys)) + _BYTES_A_DATA_BLOCK * len(records.last_keys)
            if isinstance(records.table.file, bytes):
                self.size += len(records.table.file)
        else:
            # A table of another writer has no data blocks to open one by one.
            self._records = block.encoded
            self.size = full_size(info.size, info.count)

    @property
    def is_worn(self) -> bool:
        """Whether further lookups should open the whole range."""
        return self._left < 0

    def find(self, key: bytes) -> bytes | None:
        self._left -= 1
        return self._records.find(key)

    def find_many(self, keys: Keys) -> tuple[Block, Positions]:
        """Return the records of ascending keys, and the matching positions."""
        values, positions = self._records.find_many(keys)
        return block_of(keys.at(positions).array(), values), positions

    def holding(self, intervals: Sequence[Interval]) -> Iterator[Interval]:
        self._left -= 1
        for each in intervals:
            key = self._records.reaching(each.start)
            if key is not None and key in each:
                yield each


Some = TypeVar("Some", OpenRange, PackedRange)


class OpenRanges:
    """A cache of open ranges; many lookups open a range in full."""

    def __init__(
        self, store: ObjectStore, max_bytes: int = OPEN_BYTES, packed_bytes: int = PACKED_BYTES
    ) -> None:
        self._store = store
        self._open: LRUCache[RangeId, OpenRange] = LRUCache(max_bytes, lambda each: each.size)
        self._packed: LRUCache[RangeId, PackedRange] = LRUCache(
            packed_bytes, lambda each: each.size
        )
        self._lock = Lock()

    def find(self, info: RangeInfo, key: bytes) -> bytes | None:
        return self._ready(info, self._known(info) or self._read([info])[0]).find(key)

    def holding(self, ranges: Ranges, intervals: Iterable[Interval]) -> list[Interval]:
        """Return the intervals with a key. Often, the metarange is sufficient."""
        info_at = cache(ranges.__getitem__)
        reached = ((position_reaching(ranges, each.start), each) for each in intervals)
        places = ((info_at(at), each) for at, each in reached if at < len(ranges))
        return [each for _, each in self.with_keys(places)]

    def with_keys(
        self, places: Iterable[tuple[RangeInfo, Interval]]
    ) -> Iterator[tuple[RangeInfo, Interval]]:
        """Yield the places where a range has a key in an interval. Ranges are read in groups."""
        inside: dict[RangeInfo, list[Interval]] = {}
        for info, each in places:
            if info.min_key in each or info.max_key in each:
                yield info, each
            elif info.min_key < each.start < info.max_key:
                inside.setdefault(info, []).append(each)
        for group in read_together(inside):
            for info, opened in zip(group, self._opened(group), strict=True):
                yield from ((info, each) for each in opened.holding(inside[info]))

    def for_many_keys(self, infos: Sequence[RangeInfo]) -> list[OpenRange | PackedRange]:
        """Return ranges for the lookup of many keys, opened in full while there is memory."""
        if not is_compiled():
            return [*self.get_many(infos)]
        with self._lock:
            free = self._open.maxsize - self._open.currsize
        room = []
        for each in infos:
            is_open = isinstance(self._known(each), OpenRange)
            size = 0 if is_open else full_size(each.size, each.count)
            if size <= free:
                room.append(each)
                free -= size
        opened = dict(zip(room, self.get_many(room), strict=True))
        others = [each for each in infos if each not in opened]
        packed = dict(zip(others, self._opened(others), strict=True))
        return [opened.get(each) or packed[each] for each in infos]

    def _opened(self, infos: Sequence[RangeInfo]) -> list[OpenRange | PackedRange]:
        """Return ranges for the lookup of a few keys; unknown ones are read together."""
        cached = {each.id: self._known(each) for each in infos}
        fresh = iter(self._read([each for each in infos if cached[each.id] is None]))
        return [self._ready(each, cached[each.id] or next(fresh)) for each in infos]

    def _known(self, info: RangeInfo) -> OpenRange | PackedRange | None:
        with self._lock:
            return self._open.get(info.id) or self._packed.get(info.id)

    def _read(self, infos: Sequence[RangeInfo]) -> list[PackedRange]:
        blocks = read_packed(self._store, infos)
        packed = [PackedRange(*each) for each in zip(infos, blocks, strict=True)]
        for info, each in zip(infos, packed, strict=True):
            self._keep(self._packed, info, each)
        return packed

    def _ready(self, info: RangeInfo, current: OpenRange | PackedRange) -> OpenRange | PackedRange:
        """Return a range, opened in full after enough lookups."""
        if isinstance(current, PackedRange) and current.is_worn and self._has_room(info):
            (opened,) = self.get_many([info])
            return opened
        return current

    def lookup(self, ranges: Ranges, key: bytes) -> bytes | None:
        at = position_reaching(ranges, key)
        if at == len(ranges) or key < ranges[at].min_key:
            return None
        return self.find(ranges[at], key)

    def lookup_many(self, ranges: Ranges, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the stored values of ascending keys in a tree, in one lookup per range."""
        values: list[bytes | None] = []
        place = 0
        while len(values) < len(keys):
            at = len(values)
            place = position_reaching(ranges, keys[at], lo=place)
            if place == len(ranges):
                return values + [None] * (len(keys) - at)
            info = ranges[place]
            within = keys[at : bisect_right(keys, info.max_key, lo=at)]
            values += self._find_many(info, within)
        return values

    def _find_many(self, info: RangeInfo, keys: Sequence[bytes]) -> Iterator[bytes | None]:
        for at, key in enumerate(keys):
            opened = self._known(info)
            if isinstance(opened, OpenRange):
                yield from map(opened.find, keys[at:])
                return
            yield None if key < info.min_key else self.find(info, key)

    def get_many(self, infos: Sequence[RangeInfo]) -> list[OpenRange]:
        """Return fully opened ranges; unknown ones are read together."""
        with self._lock:
            cached = {each.id: self._open.get(each.id) for each in infos}
        by_id = {name: each for name, each in cached.items() if each is not None}
        missing = list({each.id: each for each in infos if each.id not in by_id}.values())
        for info, block in zip(missing, read_each(self._store, missing), strict=True):
            # Decode all of it before others see it: no file stays open, threads may share it
            # because it never changes, and damaged ranges are not kept.
            _ = block.encoded
            by_id[info.id] = OpenRange(block, info.size)
            self._keep(self._open, info, by_id[info.id])
        return [by_id[info.id] for info in infos]

    def _has_room(self, info: RangeInfo) -> bool:
        with self._lock:
            return self._open.currsize + full_size(info.size, info.count) <= self._open.maxsize

    def _keep(self, items: LRUCache[RangeId, Some], info: RangeInfo, item: Some) -> None:
        with self._lock:
            if item.size <= items.maxsize:
                items[info.id] = item
