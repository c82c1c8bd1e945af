"""What is known of a range without reading it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sparklake.graveler.ids import RangeId

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class RangeInfo:
    """Is a metarange's record of one range.

    `size` counts the raw bytes of keys and values: what a reader decodes, whatever the compression.
    Only a staged run has `tombstones`: records that delete their key.
    """

    id: RangeId
    min_key: bytes
    max_key: bytes
    count: int
    size: int
    tombstones: int = 0


def record_count(ranges: Iterable[RangeInfo]) -> int:
    """Returns how many records some ranges hold."""
    return sum(each.count for each in ranges)


def byte_count(ranges: Iterable[RangeInfo]) -> int:
    """Returns how many raw bytes some ranges hold."""
    return sum(each.size for each in ranges)
