"""Arrow batches: column helpers for pyarrow 14 and later, and serialization."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

# A type of pyarrow 16.
_is_string_view = getattr(pa.types, "is_string_view", lambda _: False)


def required_schema(**types: pa.DataType) -> pa.Schema:
    """Return a schema of columns without nulls."""
    return pa.schema([pa.field(name, kind, nullable=False) for name, kind in types.items()])


def is_text(kind: pa.DataType) -> bool:
    tests = (pa.types.is_string, pa.types.is_large_string, _is_string_view)
    return any(test(kind) for test in tests)


def with_column(batch: pa.RecordBatch, field: pa.Field | str, column: pa.Array) -> pa.RecordBatch:
    """Replace the column of this name, or append the column."""
    if isinstance(field, str):
        field = pa.field(field, column.type)
    columns, schema = batch.columns, batch.schema
    if field.name in schema.names:
        index = schema.names.index(field.name)
        columns[index], schema = column, schema.set(index, field)
    else:
        columns, schema = [*columns, column], schema.append(field)
    return pa.record_batch(columns, schema=schema)


def pack_batches(batches: Sequence[pa.RecordBatch], compression: str | None = None) -> bytes:
    """Serialize batches of one schema. A pickle would include the whole table of a slice."""
    if not batches:
        return b""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, batches[0].schema, options=options) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return bytes(sink.getvalue())


def unpack(packed: bytes, columns: Sequence[str] | None = None) -> list[pa.RecordBatch]:
    """Deserialize batches without copying, with the given columns only."""
    if not packed:
        return []
    options = None
    if columns is not None:
        names = pa.ipc.read_schema(pa.py_buffer(packed)).names
        options = pa.ipc.IpcReadOptions(included_fields=[names.index(each) for each in columns])
    with pa.ipc.open_stream(packed, options=options) as reader:
        return list(reader)
