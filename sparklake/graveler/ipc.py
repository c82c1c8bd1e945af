"""Arrow batches as bytes, for transport between processes without converting rows.

The format is an Arrow stream. A pickle would include the whole table of a sliced batch.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa


def pack_batches(batches: Sequence[pa.RecordBatch], compression: str | None = None) -> bytes:
    """Return batches of one schema as bytes."""
    if not batches:
        return b""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, batches[0].schema, options=options) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return bytes(sink.getvalue())


def unpack(packed: bytes, columns: Sequence[str] | None = None) -> list[pa.RecordBatch]:
    """Return the batches in bytes. The batches share the memory of the bytes.

    With `columns`, the batches have only these columns, in the order of the bytes.
    """
    if not packed:
        return []
    options = None
    if columns is not None:
        names = pa.ipc.read_schema(pa.py_buffer(packed)).names
        options = pa.ipc.IpcReadOptions(included_fields=[names.index(each) for each in columns])
    with pa.ipc.open_stream(packed, options=options) as reader:
        return list(reader)
