"""What tasks say to the driver: one small message for a range, a count or a conflict."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec
import pyarrow as pa

from sparklake.graveler.algebra import ChangeCounts, Conflict
from sparklake.graveler.tables import WrittenRange

RESULT_SCHEMA = pa.schema([pa.field("result", pa.binary(), nullable=False)])


class RangeResult(msgspec.Struct, frozen=True, tag="range"):
    """Says that a piece of the plan made a range."""

    position: int
    written: WrittenRange


class CountsResult(msgspec.Struct, frozen=True, tag="counts"):
    """Says what a piece of the plan changed."""

    position: int
    counts: ChangeCounts


class ConflictCountResult(msgspec.Struct, frozen=True, tag="conflict-count"):
    """Says how many conflicts a task met."""

    conflicts: int


class ConflictResult(msgspec.Struct, frozen=True, tag="conflict"):
    """Is one conflict; only the first ones of a task are reported."""

    conflict: Conflict


Result = RangeResult | CountsResult | ConflictCountResult | ConflictResult

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Result).decode


def encode_results(results: Iterable[Result]) -> pa.RecordBatch:
    """Returns results as one batch of RESULT_SCHEMA."""
    column = pa.array([_encode(result) for result in results], pa.binary())
    return pa.record_batch([column], schema=RESULT_SCHEMA)


def decode_results(batches: Iterable[pa.RecordBatch]) -> Iterator[Result]:
    """Yields the results in batches of RESULT_SCHEMA."""
    for batch in batches:
        for encoded in batch.column("result"):
            yield _decode(encoded.as_py())
