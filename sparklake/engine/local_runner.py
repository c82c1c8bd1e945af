"""An engine in this process."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING

from sparklake._scratch import scratch_folder
from sparklake.config import disk_root
from sparklake.engine.base import MAX_TASK_RECORDS, Body, Source
from sparklake.engine.sort import (
    SORT_BYTES,
    key_shares,
    records_in_order,
    sort_to_files,
    source_batches,
)

if TYPE_CHECKING:
    import pyarrow as pa


class LocalRunner:
    """A runner of one task after the other in this process."""

    name = "local"

    def task_records(self, records: int) -> int:
        """Return the maximum of records per task, because there are no other workers."""
        return MAX_TASK_RECORDS

    def collect(self, body: Body, work: pa.Table) -> Iterator[pa.RecordBatch]:
        """Run a body over rows of work, lazily, as results are read."""
        return self.stream(body, work)

    def stream(self, body: Body, work: pa.Table) -> Iterator[pa.RecordBatch]:
        """Run a body over rows of work, lazily, as results are read."""
        if work.num_rows:
            yield from body(work.to_batches())

    def sort_and_collect(self, encode: Body, body: Body, source: Source) -> list[pa.RecordBatch]:
        """Run `body` once over the sorted output of `encode`."""
        with scratch_folder(disk_root()) as scratch:
            files = sort_to_files(encode, scratch, source_batches(source))
            in_order = map(records_in_order, key_shares(files, SORT_BYTES))
            return list(body(chain.from_iterable(in_order)))
