"""Tasks as rows of TASK_SCHEMA."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec
import pyarrow as pa

from sparklake.graveler.planning.packing import Task

TASK_SCHEMA = pa.schema(
    [
        pa.field("position", pa.int64(), nullable=False),
        pa.field("task", pa.binary(), nullable=False),
    ]
)

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Task).decode


def encode_tasks(tasks: Iterable[Task]) -> pa.Table:
    """Return tasks in key order as rows of TASK_SCHEMA."""
    encoded = pa.array([_encode(task) for task in tasks], pa.binary())
    return pa.table([pa.array(range(len(encoded))), encoded], schema=TASK_SCHEMA)


def decode_tasks(batches: Iterable[pa.RecordBatch]) -> Iterator[Task]:
    for batch in batches:
        for encoded in batch.column("task"):
            yield _decode(encoded.as_py())
