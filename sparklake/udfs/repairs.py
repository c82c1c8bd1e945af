"""The task body finding objects of equal content for a repair."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparklake.errors import SparklakeError
from sparklake.graveler.arrow_batches import required_schema
from sparklake.graveler.blocks.entry_columns import decode_entries
from sparklake.graveler.ranges import RangeInfo
from sparklake.graveler.sstable.range_files import read_ranges
from sparklake.namespace.addresses import OwnNamespace
from sparklake.rows.settings import Workspace
from sparklake.udfs.tasks import Batches, BatchStream, decode_tasks

EQUAL_SCHEMA = required_schema(checksum=pa.string(), size=pa.int64(), address=pa.string())
"""An address of an object with a requested checksum."""


def equal_body(workspace: Workspace, checksums: Sequence[str], batches: Batches) -> BatchStream:
    """Yield EQUAL_SCHEMA for the objects with one of the checksums. Skips unreadable ranges."""
    store, own = workspace.open_store(), OwnNamespace(workspace.storage_namespace)
    values = pa.array(checksums, pa.string())
    for info in chain.from_iterable(decode_tasks(batches, tuple[RangeInfo, ...])):
        try:
            blocks = list(read_ranges(store, [info]))
        except SparklakeError:
            continue
        for block in blocks:
            live = block.take(np.flatnonzero(~block.tombstones))
            if not len(live):
                continue
            entries = decode_entries(live)
            addresses = own.full_addresses(entries)
            columns = [entries.checksum, pa.array(entries.size), addresses]
            rows = pa.record_batch(columns, schema=EQUAL_SCHEMA)
            yield rows.filter(pc.is_in(entries.checksum, value_set=values))
