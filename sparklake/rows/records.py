"""Records as Arrow rows of key and stored value."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from sparklake.graveler.arrow_batches import required_schema
from sparklake.graveler.blocks.block import Block, block_of
from sparklake.graveler.records import Record

RECORD_SCHEMA = required_schema(key=pa.binary(), stored=pa.binary())


def record_block(batch: pa.RecordBatch) -> Block:
    """Return a batch of RECORD_SCHEMA in key order as a block."""
    keys, stored = (batch.column(name).cast(pa.binary()) for name in ("key", "stored"))
    return block_of(keys, stored)


def record_batch(records: Sequence[Record]) -> pa.RecordBatch:
    """Return records as a batch of RECORD_SCHEMA."""
    keys = pa.array([key for key, _ in records], pa.binary())
    values = pa.array([stored for _, stored in records], pa.binary())
    return pa.record_batch([keys, values], schema=RECORD_SCHEMA)


def in_key_order(parts: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Return non-empty parts of RECORD_SCHEMA as one batch, sorted by key."""
    (whole,) = pa.Table.from_batches(parts).combine_chunks().to_batches()
    return whole.take(pc.sort_indices(whole, [("key", "ascending"), ("stored", "ascending")]))
