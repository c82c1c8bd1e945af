"""Files that a write has left: their rows, and the body that computes checksums."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from sparklake.interrupts import Threads
from sparklake.udfs.objects import OBJECT_SCHEMA
from sparklake.udfs.tasks import Workspace

FILE_SCHEMA = pa.schema(
    [
        pa.field("name", pa.string(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("checksum", pa.string(), nullable=False),
        OBJECT_SCHEMA.field("mtime"),
    ]
)
"""`name` is the path below the write's place, `checksum` "" where nothing has computed it yet."""


def share_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yields the rows that are packed in batches of TASK_SCHEMA."""
    for batch in batches:
        for packed in batch.column("task"):
            with pa.ipc.open_stream(packed.as_buffer()) as rows:
                yield from rows


def checksum_body(
    workspace: Workspace, place: str, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yields rows of FILE_SCHEMA with the checksums of their files; raises MissingFileError."""
    store = workspace.open_store()
    # Hashing lets go of the interpreter lock, so a task's threads share its cores.
    with Threads(name="sparklake-hash") as threads:
        for rows in share_rows(batches):
            keys = (f"{place}/{name}" for name in rows.column("name").to_pylist())
            checksums = pa.array(threads.map(store.checksum, keys), pa.string())
            yield rows.set_column(2, FILE_SCHEMA.field("checksum"), checksums)
