"""Ids and the hashes behind them.

`valueRecordID = h(h(key) || h(identity))` and `fileID = h(valueRecordID_1 || ... ||
valueRecordID_N)` in key order, with h = SHA-256 (the formulas of lakeFS's Data Model page). An id
comes from records, never from file bytes.
"""

from __future__ import annotations

from hashlib import sha256
from typing import NewType

RecordId = NewType("RecordId", bytes)
"""32 bytes: says that two records have equal key and identity."""

RangeId = NewType("RangeId", str)
"""64 lower-case hex digits: the fileID of a range's records."""

MetaRangeId = NewType("MetaRangeId", str)
"""64 lower-case hex digits, or "" for the metarange without any record."""

CommitId = NewType("CommitId", str)
"""64 lower-case hex digits."""

RECORD_ID_BYTES = 32
EMPTY_META_RANGE = MetaRangeId("")


def record_id(key: bytes, identity: bytes) -> RecordId:
    """Returns the valueRecordID of one record."""
    return RecordId(sha256(sha256(key).digest() + sha256(identity).digest()).digest())


def file_id(record_ids: bytes | memoryview) -> str:
    """Returns the fileID of records whose ids are given one after the other, in key order."""
    return sha256(record_ids).hexdigest()
