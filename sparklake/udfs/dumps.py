"""The task body that finds unusable addresses for dumps and restores."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

import msgspec
import numpy as np
import pyarrow as pa

from sparklake.graveler.blocks.entry_columns import decode_entries
from sparklake.graveler.ranges import RangeInfo
from sparklake.graveler.sstable.range_files import read_each, read_together
from sparklake.rows.settings import Workspace

ADDRESS_SCHEMA = pa.schema(
    [
        pa.field("count", pa.int64(), nullable=False),
        pa.field("path", pa.binary(), nullable=False),
        pa.field("address", pa.string(), nullable=False),
    ]
)
"""The number of refused addresses in some records, and the first one with its path."""

AddressTest: TypeAlias = Callable[[pa.StringArray], pa.BooleanArray]
"""A function that returns which full addresses are refused."""

_decode_ranges = msgspec.msgpack.Decoder(tuple[RangeInfo, ...]).decode


def refused_body(
    workspace: Workspace, test: AddressTest, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield ADDRESS_SCHEMA for the ranges of tasks; only for records with refused addresses."""
    store = workspace.open_store()
    for batch in batches:
        for encoded in batch.column("task").to_pylist():
            for group in read_together(_decode_ranges(encoded)):
                for block in read_each(store, group):
                    entries = decode_entries(block)
                    refused = test(entries.address).to_numpy(zero_copy_only=False)
                    rows = np.flatnonzero(refused & ~entries.relative)
                    if len(rows):
                        first = block.take(rows[:1]).key_array()
                        address = entries.address.take(pa.array(rows[:1]))
                        yield pa.record_batch(
                            [pa.array([len(rows)]), first.cast(pa.binary()), address],
                            schema=ADDRESS_SCHEMA,
                        )
