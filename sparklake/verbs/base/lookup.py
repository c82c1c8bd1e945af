"""Ranges that were read lately, kept in memory: single objects are looked up in them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import chain, count, repeat
from threading import Lock

import numpy as np
from cachetools import LRUCache
from numpy.typing import NDArray

from sparklake.graveler.blocks.block import Block
from sparklake.graveler.blocks.columns import Bytes, Positions
from sparklake.graveler.ids import RangeId
from sparklake.graveler.ports import ObjectStore
from sparklake.graveler.ranges import RangeInfo, Ranges, position_reaching
from sparklake.graveler.sstable.store import read_each, read_packed

OPEN_BYTES = 512 * 1024 * 1024
"""How much memory open ranges may take: about a million objects."""

_BYTES_A_RECORD = 180
"""What a record takes beside its bytes: its key once more, hashed, and its places."""

_DIRECTORY_BYTES_A_RECORD = 48
"""What a record takes of which only the id is known, and its data block."""

_PART_OPENED = 4
"""A range is opened in full when about one in so many of its data blocks may be open."""

_ROWS = tuple(range(1 << 16))
"""Row numbers that all open ranges share: each an object of Python's."""

ABSENT = -1

Offsets = NDArray[np.int32]


def full_size(raw_size: int, count: int) -> int:
    """Return about how many bytes of memory a range takes that is opened in full."""
    return raw_size + _BYTES_A_RECORD * count


class OpenRange:
    """The records of a range, to be found by their keys; `raw_size` is in bytes."""

    def __init__(self, block: Block, raw_size: int = 0) -> None:
        self.block = block
        self.raw_size = raw_size

    @property
    def size(self) -> int:
        """About how many bytes of memory it takes."""
        return full_size(self.raw_size, len(self.block))

    def find(self, key: bytes) -> bytes | None:
        """Return the stored value of a key."""
        row = self._rows.get(key)
        if row is None:
            return None
        data, starts, ends = self._values
        value: bytes = data[starts.item(row) : ends.item(row)].tobytes()
        return value

    def rows(self, keys: Sequence[bytes]) -> Positions:
        """Return where in the block some keys are, ABSENT for those that are not there."""
        return np.fromiter(map(self._rows.get, keys, repeat(ABSENT)), np.int64, len(keys))

    @cached_property
    def _rows(self) -> dict[bytes, int]:
        numbers = chain(_ROWS, count(len(_ROWS)))
        return dict(zip(self.block.key_array().to_pylist(), numbers, strict=False))

    @cached_property
    def _values(self) -> tuple[Bytes, Offsets, Offsets]:
        """The data of the block, and where in it the stored values begin and end."""
        starts = self.block.value_starts.astype(np.int32)
        return self.block.data, starts, self.block.value_ends.astype(np.int32)


class PackedRange:
    """The records of a range of which a data block is opened for a key, and not kept."""

    def __init__(self, info: RangeInfo, block: Block) -> None:
        self._block = block
        self._left = len(block.starts) // _PART_OPENED
        self.size = _DIRECTORY_BYTES_A_RECORD * info.count

    @property
    def is_worn(self) -> bool:
        """Whether it has been asked so often that it should be opened in full."""
        return self._left < 0

    def find(self, key: bytes) -> bytes | None:
        """Return the stored value of a key; raise MissingFileError or CorruptFileError."""
        self._left -= 1
        return self._block.stored(key)


class OpenRanges:
    """Opens ranges of a store, and keeps the latest ones: they never change.

    For a single key now and then a data block is opened, for many the range.
    """

    def __init__(self, store: ObjectStore, max_bytes: int = OPEN_BYTES) -> None:
        self._store = store
        self._kept: LRUCache[RangeId, OpenRange | PackedRange] = LRUCache(
            max_bytes, lambda each: each.size
        )
        self._lock = Lock()

    def find(self, info: RangeInfo, key: bytes) -> bytes | None:
        """Return the stored value of a key; raise MissingFileError or CorruptFileError."""
        with self._lock:
            found = self._kept.get(info.id)
        if found is None:
            found = PackedRange(info, read_packed(self._store, info))
            self._keep(info, found)
        elif isinstance(found, PackedRange) and found.is_worn and self._has_room(info):
            (found,) = self.get_many([info])
        return found.find(key)

    def lookup(self, ranges: Ranges, key: bytes) -> bytes | None:
        """Return the stored value that a key has in a tree; raise as `find` does."""
        at = position_reaching(ranges, key)
        if at == len(ranges) or key < ranges[at].min_key:
            return None
        return self.find(ranges[at], key)

    def lookup_many(self, ranges: Ranges, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the stored values that ascending keys have in a tree; raise as `find` does.

        Each range is looked for once, for all keys in it.
        """
        found: list[bytes | None] = []
        place = 0
        while len(found) < len(keys):
            at = len(found)
            place = position_reaching(ranges, keys[at], lo=place)
            if place == len(ranges):
                return found + [None] * (len(keys) - at)
            info = ranges[place]
            within = keys[at : bisect_right(keys, info.max_key, lo=at)]
            found += self._find_many(info, within)
        return found

    def _find_many(self, info: RangeInfo, keys: Sequence[bytes]) -> Iterator[bytes | None]:
        """Yield the stored values of ascending keys that do not lie behind a range."""
        for at, key in enumerate(keys):
            with self._lock:
                opened = self._kept.get(info.id)
            if isinstance(opened, OpenRange):
                yield from map(opened.find, keys[at:])
                return
            yield None if key < info.min_key else self.find(info, key)

    def get_many(self, infos: Sequence[RangeInfo]) -> list[OpenRange]:
        """Return ranges, of which those that are not open yet are read together."""
        with self._lock:
            kept = {each.id: self._kept.get(each.id) for each in infos}
        found = {name: each for name, each in kept.items() if isinstance(each, OpenRange)}
        missing = list({each.id: each for each in infos if each.id not in found}.values())
        for info, block in zip(missing, read_each(self._store, missing), strict=True):
            # All of it, before others see it: no file stays open, threads may share what is never
            # changed again, and what is damaged is not kept.
            _ = block.encoded
            found[info.id] = OpenRange(block, info.size)
            self._keep(info, found[info.id])
        return [found[info.id] for info in infos]

    def _has_room(self, info: RangeInfo) -> bool:
        """Return whether a range can be opened in full without letting go of another one."""
        with self._lock:
            return self._kept.currsize + full_size(info.size, info.count) <= self._kept.maxsize

    def _keep(self, info: RangeInfo, opened: OpenRange | PackedRange) -> None:
        with self._lock:
            if opened.size <= self._kept.maxsize:
                self._kept[info.id] = opened
