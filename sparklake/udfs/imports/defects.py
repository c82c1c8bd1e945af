"""Defects: rows that cannot be imported, and the table of errors.

A defect is sorted with the records, under a key that no object can have. So the source is read
once, and the tasks that write ranges also write the table of errors.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

import msgspec
import pyarrow as pa

from sparklake.graveler.records import Record
from sparklake.rows.imports import ERROR_SCHEMA, Defect, Reason

MARK = b"\x00"
"""The first byte of a defect's key. No object's key begins with it, so defects come first."""

_SHOWN = 2048
_KEY_BYTES = 256


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Defect).decode


def new_defect(
    path: str | None, address: str | None, size: int | None, reason: Reason, message: str
) -> Defect:
    """Return a defect with its texts made printable and cut to a bounded length."""
    return Defect(
        path=None if path is None else encodable(path),
        address=None if address is None else encodable(address),
        size=size,
        reason=reason,
        message=encodable(message),
    )


def encodable(text: str) -> str:
    """Return a text that can be encoded, cut to a bounded length."""
    return text[:_SHOWN].encode(errors="backslashreplace").decode()


def defect_record(defect: Defect) -> Record:
    """Return a defect as a row to sort by path. Equal defects give equal rows."""
    payload = _encode(defect)
    path = (defect.path or "").encode()[:_KEY_BYTES]
    return MARK + path + MARK + sha256(payload).digest(), payload


def defects_of(payloads: pa.BinaryArray) -> list[Defect]:
    """Return the defects in a column of payloads that `defect_record` stored."""
    return [_decode(each) for each in payloads.to_pylist()]


def error_table(defects: Sequence[Defect]) -> pa.Table:
    """Return defects as a table of ERROR_SCHEMA."""
    rows = [{**msgspec.structs.asdict(each), "reason": each.reason.value} for each in defects]
    return pa.Table.from_pylist(rows, schema=ERROR_SCHEMA)


def error_file(defects: Sequence[Defect], position: int) -> tuple[str, bytes]:
    """Return the name and bytes of a Parquet file of errors. A repeated task returns the same."""
    sink = pa.BufferOutputStream()
    # Lazy import: it also starts Arrow's S3 client, which takes 10 ms and delays the exit.
    import pyarrow.parquet as pq

    pq.write_table(error_table(defects), sink)
    body = sink.getvalue().to_pybytes()
    return f"part-{position:05d}-{sha256(body).hexdigest()[:32]}.parquet", body
