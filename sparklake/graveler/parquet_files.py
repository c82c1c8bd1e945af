"""A lake's own Parquet files."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyarrow import parquet

from sparklake.errors import CorruptFileError


def encode_parquet(table: pa.Table) -> bytes:
    file = pa.BufferOutputStream()
    parquet.write_table(table, file)
    return bytes(file.getvalue())


def decode_parquet(body: bytes, what: str, columns: Sequence[str] | None = None) -> pa.Table:
    """Decode a Parquet file. CorruptFileError describes it as `what`."""
    try:
        return parquet.read_table(native_reader(body), columns=columns)
    except (pa.ArrowException, OSError) as error:
        raise CorruptFileError(
            f"{what} is not a Parquet file ({error}): restore the file from a backup"
        ) from error


def native_reader(body: bytes) -> pa.BufferReader:
    """Return a reader of bytes copied to Arrow's own memory.

    Arrow's threads drop their input a moment after the rows are returned. A Python object needs the
    interpreter for that, and an ending process then aborts.
    """
    copy = pa.allocate_buffer(len(body))
    pa.FixedSizeBufferWriter(copy).write(body)
    return pa.BufferReader(copy)
