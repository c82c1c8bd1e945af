"""The task body checking addresses for dumps and restores."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from sparklake.graveler.arrow_batches import required_schema
from sparklake.graveler.blocks.entry_columns import decode_entries
from sparklake.graveler.buffers import mask_of
from sparklake.rows.settings import Workspace
from sparklake.udfs.tasks import Batches, BatchStream, range_blocks

ADDRESS_SCHEMA = required_schema(count=pa.int64(), path=pa.binary(), address=pa.string())
"""The number of refused addresses in a range, and the first one with its path."""

AddressTest: TypeAlias = Callable[[pa.StringArray], pa.BooleanArray]
"""Returns a mask of the refused full addresses."""


def refused_body(workspace: Workspace, test: AddressTest, batches: Batches) -> BatchStream:
    """Yield ADDRESS_SCHEMA for each range with refused addresses."""
    store = workspace.open_store()
    for block in range_blocks(store, batches):
        entries = decode_entries(block)
        refused = mask_of(test(entries.address))
        rows = np.flatnonzero(refused & ~entries.relative)
        if len(rows):
            path = block.take(rows[:1]).key_array().cast(pa.binary())
            address = entries.address.take(pa.array(rows[:1]))
            columns = [pa.array([len(rows)]), path, address]
            yield pa.record_batch(columns, schema=ADDRESS_SCHEMA)
