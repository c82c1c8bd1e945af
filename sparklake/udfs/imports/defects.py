"""Defects, the rejected rows of an import, and the error table.

Defects are sorted with the records, under keys reserved for them. The source is therefore read
once, and the tasks that write ranges also write the error table.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

import msgspec
import pyarrow as pa

from sparklake.graveler.records import Record
from sparklake.rows.imports import ERROR_SCHEMA, Defect, Reason

MARK = b"\x00"
"""The first byte of a defect's key, and of no other key, so that defects come first."""

_SHOWN = 2048
_KEY_BYTES = 256

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Defect).decode


def new_defect(
    path: str | None, address: str | None, size: int | None, reason: Reason, message: str
) -> Defect:
    """Return a defect with printable, truncated texts."""
    return Defect(
        path=None if path is None else encodable(path),
        address=None if address is None else encodable(address),
        size=size,
        reason=reason,
        message=encodable(message),
    )


def encodable(text: str) -> str:
    return text[:_SHOWN].encode(errors="backslashreplace").decode()


def defect_record(defect: Defect) -> Record:
    """Encode a defect as a row that sorts by path. Deterministic."""
    payload = _encode(defect)
    path = (defect.path or "").encode()[:_KEY_BYTES]
    return MARK + path + MARK + sha256(payload).digest(), payload


def defects_of(payloads: pa.BinaryArray) -> list[Defect]:
    return list(map(_decode, payloads.to_pylist()))


def error_table(defects: Sequence[Defect]) -> pa.Table:
    rows = [{**msgspec.structs.asdict(each), "reason": each.reason.value} for each in defects]
    return pa.Table.from_pylist(rows, schema=ERROR_SCHEMA)


def error_file(defects: Sequence[Defect], position: int) -> tuple[str, bytes]:
    """Return the name and body of an error file, the same for a repeated task."""
    # Lazy import: it also starts Arrow's S3 client, which takes 10 ms and delays the exit.
    from sparklake.graveler.parquet_files import encode_parquet

    body = encode_parquet(error_table(defects))
    return f"part-{position:05d}-{sha256(body).hexdigest()[:32]}.parquet", body
