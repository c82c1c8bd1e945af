"""What is known of a range without reading it, and of the metarange above it."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sparklake.graveler.ids import MetaRangeId, RangeId
from sparklake.graveler.keys import Interval

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


@dataclass(frozen=True, slots=True)
class RangeInfo:
    """Is a metarange's record of one range.

    `size` counts the raw bytes of keys and values: what a reader decodes, whatever the compression.
    """

    id: RangeId
    min_key: bytes
    max_key: bytes
    count: int
    size: int


@dataclass(frozen=True, slots=True)
class MetaRange:
    """Is the whole tree of a commit: its id and its ranges in key order."""

    id: MetaRangeId
    ranges: tuple[RangeInfo, ...]

    @property
    def count(self) -> int:
        """Returns the number of records under it."""
        return record_count(self.ranges)


def record_count(ranges: Iterable[RangeInfo]) -> int:
    """Returns how many records some ranges hold."""
    return sum(each.count for each in ranges)


def byte_count(ranges: Iterable[RangeInfo]) -> int:
    """Returns how many raw bytes some ranges hold."""
    return sum(each.size for each in ranges)


def overlapping(ranges: Sequence[RangeInfo], interval: Interval) -> tuple[RangeInfo, ...]:
    """Returns the ranges that may hold keys of an interval."""
    first = bisect_left(ranges, interval.start, key=_max_key)
    if interval.stop is None:
        return tuple(ranges[first:])
    return tuple(ranges[first : bisect_left(ranges, interval.stop, lo=first, key=_min_key)])


def _min_key(each: RangeInfo) -> bytes:
    return each.min_key


def _max_key(each: RangeInfo) -> bytes:
    return each.max_key
