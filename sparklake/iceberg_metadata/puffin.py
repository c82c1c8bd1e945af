"""Puffin files of deletion vectors."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from sparklake.errors import CorruptFileError
from sparklake.vectors.bitmaps import Positions, encode_bitmap

_MAGIC = b"PFA1"
_VECTOR_MAGIC = struct.pack("<I", 1681511377)
_NUMBER_BYTES = 4
_ROW_POSITION = 2147483645
"""The field id of a row's position."""


@dataclass(frozen=True, slots=True)
class VectorSlice:
    """The place of a vector in its file."""

    offset: int
    length: int


def new_puffin(vectors: Mapping[str, Positions]) -> tuple[bytes, dict[str, VectorSlice]]:
    """Return a file with vectors, and their places by data file."""
    body, slices, blobs = _MAGIC, dict[str, VectorSlice](), []
    for path, rows in vectors.items():
        blob = _VECTOR_MAGIC + encode_bitmap(rows)
        framed = struct.pack(">i", len(blob)) + blob + struct.pack(">I", zlib.crc32(blob))
        slices[path] = VectorSlice(len(body), len(framed))
        blobs.append(
            {
                "type": "deletion-vector-v1",
                "fields": [_ROW_POSITION],
                "snapshot-id": -1,
                "sequence-number": -1,
                "offset": len(body),
                "length": len(framed),
                "properties": {"referenced-data-file": path, "cardinality": str(len(rows))},
            }
        )
        body += framed
    footer = msgspec.json.encode({"blobs": blobs, "properties": {}})
    end = struct.pack("<i", len(footer)) + bytes(_NUMBER_BYTES) + _MAGIC
    return body + _MAGIC + footer + end, slices


def unframed(data: bytes) -> bytes:
    """Return the bitmap in a framed vector, after a check of its length and CRC.

    Raises:
        CorruptFileError: The vector is damaged.
    """
    blob, crc = data[_NUMBER_BYTES:-_NUMBER_BYTES], data[-_NUMBER_BYTES:]
    expected = struct.pack(">i", len(blob)), struct.pack(">I", zlib.crc32(blob))
    if (data[:_NUMBER_BYTES], crc) != expected or blob[: len(_VECTOR_MAGIC)] != _VECTOR_MAGIC:
        raise CorruptFileError("a deletion vector is damaged, or not at its place")
    return blob[len(_VECTOR_MAGIC) :]
