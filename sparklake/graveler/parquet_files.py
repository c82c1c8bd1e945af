"""A lake's own Parquet files, which may contain any bytes."""

from __future__ import annotations

import io
from collections.abc import Sequence

import pyarrow as pa
from pyarrow import parquet

from sparklake.errors import CorruptFileError


def decode_parquet(body: bytes, what: str, columns: Sequence[str] | None = None) -> pa.Table:
    """Return the rows of a Parquet file; raise CorruptFileError, which calls the file `what`."""
    try:
        return parquet.read_table(io.BytesIO(body), columns=columns)
    except (pa.ArrowException, OSError) as error:
        raise CorruptFileError(
            f"{what} is not a Parquet file ({error}): restore the file from a backup"
        ) from error
