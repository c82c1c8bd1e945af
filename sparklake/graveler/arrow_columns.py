"""Columns of Arrow batches: what newer releases of pyarrow do themselves, for 14 and later."""

from __future__ import annotations

import pyarrow as pa

# A type of pyarrow 16.
_is_string_view = getattr(pa.types, "is_string_view", lambda _: False)


def is_text(kind: pa.DataType) -> bool:
    """Return whether a type is one of Arrow's types of text."""
    tests = (pa.types.is_string, pa.types.is_large_string, _is_string_view)
    return any(test(kind) for test in tests)


def with_column(batch: pa.RecordBatch, field: pa.Field | str, column: pa.Array) -> pa.RecordBatch:
    """Return a batch with a column: in place of the one of its name, or at the end."""
    if isinstance(field, str):
        field = pa.field(field, column.type)
    columns, schema = batch.columns, batch.schema
    if field.name in schema.names:
        index = schema.names.index(field.name)
        columns[index], schema = column, schema.set(index, field)
    else:
        columns, schema = [*columns, column], schema.append(field)
    return pa.record_batch(columns, schema=schema)
