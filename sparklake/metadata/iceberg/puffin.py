"""Puffin files of deletion vectors."""

from __future__ import annotations

import struct
from collections.abc import Mapping

import msgspec

from sparklake.errors import CorruptFileError
from sparklake.metadata.vectors import frames
from sparklake.metadata.vectors.bitmaps import Positions

_MAGIC = b"PFA1"
_FLAGS = bytes(4)
_ROW_POSITION = 2147483645
"""The field id of a row's position."""


def new_puffin(vectors: Mapping[str, Positions]) -> tuple[bytes, dict[str, tuple[int, int]]]:
    """Return a file with vectors, and their offsets and lengths by data file."""
    body, slices, blobs = _MAGIC, dict[str, tuple[int, int]](), []
    for path, rows in vectors.items():
        framed = frames.framed(frames.encode_vector(rows))
        slices[path] = len(body), len(framed)
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
    end = struct.pack("<i", len(footer)) + _FLAGS + _MAGIC
    return body + _MAGIC + footer + end, slices


def unframed(data: bytes) -> bytes:
    """Return the bitmap in a framed vector, after a check of its length and CRC.

    Raises:
        CorruptFileError: The vector is damaged.
    """
    vector = frames.unframed(data)
    if vector is None or vector[: len(frames.MAGIC)] != frames.MAGIC:
        raise CorruptFileError("a deletion vector is damaged, or not at its place")
    return vector[len(frames.MAGIC) :]
