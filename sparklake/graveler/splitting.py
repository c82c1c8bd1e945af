"""Where a range ends.

A range ends after a record whose valueRecordID, read as a big-endian integer, is divisible by
`range_records`, or at the cap of 4 x `range_records` records since the last end. Nothing else
counts, so a metarange is a pure function of its records, whoever wrote them and in whatever order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from sparklake.graveler.ids import RECORD_ID_BYTES
from sparklake.graveler.records import Record

DEFAULT_RANGE_RECORDS = 2048
CAP_FACTOR = 4


@dataclass(frozen=True, slots=True)
class Stretch:
    """Is the records of one range to be. `closed` says that they stop at a true range end."""

    records: Sequence[Record]
    closed: bool


def is_range_end(record_id: bytes, range_records: int) -> bool:
    """Tells whether a record ends its range whatever came before it."""
    return int.from_bytes(record_id, "big") % range_records == 0


def split(records: Iterable[Record], range_records: int) -> Iterator[Stretch]:
    """Cuts records in key order, beginning at a range end, into the records of ranges.

    At most one range is held at a time. Only the last one may be open.
    """
    # A power of two divides the whole number when it divides its last 8 bytes: half the time.
    tail = 8 if range_records.bit_count() == 1 else RECORD_ID_BYTES
    cap = CAP_FACTOR * range_records
    read_integer = int.from_bytes
    held: list[Record] = []
    for record in records:
        held.append(record)
        if read_integer(record[1][-tail:], "big") % range_records == 0 or len(held) == cap:
            yield Stretch(held, closed=True)
            held = []
    if held:
        yield Stretch(held, closed=False)
