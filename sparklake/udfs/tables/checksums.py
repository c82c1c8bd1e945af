"""The task body that computes checksums of written files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from sparklake.graveler.arrow_columns import with_column
from sparklake.interrupts import Threads
from sparklake.rows.objects import FILE_SCHEMA
from sparklake.rows.settings import Workspace


def share_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows that are packed in batches of TASK_SCHEMA."""
    for batch in batches:
        for packed in batch.column("task"):
            with pa.ipc.open_stream(packed.as_buffer()) as rows:
                yield from rows


def checksum_body(
    workspace: Workspace, place: str, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield rows of FILE_SCHEMA with the checksums of files; raise MissingFileError."""
    store = workspace.open_store()
    # Hashing releases the interpreter lock, so the threads of a task use all its cores.
    with Threads(name="sparklake-hash") as threads:
        for rows in share_rows(batches):
            keys = (f"{place}/{name}" for name in rows.column("name").to_pylist())
            checksums = pa.array(threads.map(store.checksum, keys), pa.string())
            yield with_column(rows, FILE_SCHEMA.field("checksum"), checksums)
